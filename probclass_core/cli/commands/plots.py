"""plot: one command per plot of a stored model, of its evaluation or of a scored table."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import pyarrow as pa

import probclass_core as pc
from probclass_core import plots
from probclass_core.analysis.evaluation import Evaluation
from probclass_core.analysis.explanation import Units
from probclass_core.arrow.parts import part_of
from probclass_core.cli.messages import progress
from probclass_core.cli.options import (
    UNITS,
    Count,
    EngineRows,
    Names,
    Parser,
    Rows,
    Source,
    StoredModel,
    parse_point,
)
from probclass_core.cli.output import show
from probclass_core.errors import SpecError, TableError, one_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_FORMATS = ("eps", "jpg", "pdf", "png", "svg", "webp")
"""Formats that matplotlib writes without other programs."""


@dataclass(frozen=True, kw_only=True)
class DataRows(Rows):
    """Rows to plot together with the model.

    Attributes:
        data: SOURCE: table whose rows are also plotted; --partition and --where select among them.
    """

    data: str | None = None

    def read(self, model: pc.Model, columns: Sequence[str]) -> pa.Table | None:
        """The given columns of the rows, and the label if the table has it; None without --data."""
        if self.data is not None:
            return _read(self.data, [*columns, *model.spec.label_columns], self)
        if self.partition or self.where:
            raise SpecError("--partition and --where select rows of --data; add --data SOURCE.")
        return None


@dataclass(frozen=True, kw_only=True)
class Image:
    """The file to write a plot to.

    Attributes:
        out: FILE.png: image file to write; the suffix sets the format: png, svg, pdf ….
    """

    out: Path

    def __post_init__(self) -> None:
        if self._format not in _FORMATS:
            raise SpecError(
                f"--out {str(self.out)!r}: cannot write the format {self._format!r}; "
                f"use {one_of(_FORMATS)}."
            )

    @property
    def _format(self) -> str:
        return self.out.suffix[1:].lower()

    def save(
        self, figure: Figure, *, rows: int | None = None, model: StoredModel | None = None
    ) -> None:
        """Write the figure, and report the file, the number of rows and the model."""
        image = io.BytesIO()
        figure.savefig(image, format=self._format, dpi=150)
        try:
            self.out.write_bytes(image.getvalue())
        except OSError as error:
            raise TableError(f"cannot write {self.out}: {error.strerror}.") from error
        values = {"model": model and model.version.ref, "rows": rows, "out": str(self.out)}
        subject = "the model" if rows is None else f"{rows:,} row{'' if rows == 1 else 's'}"
        show(
            {key: value for key, value in values.items() if value is not None},
            f"Plotted {subject} in {self.out}.",
        )


def contours(
    model: StoredModel,
    *,
    x: str,
    y: str,
    image: Image,
    point: Annotated[tuple[float, float] | None, Parser(parse_point, repeats=False)] = None,
    level: float = 0.01,
    data: DataRows,
) -> None:
    """Plot a contour of each class's density over two columns.

    Example: probclass plot contours air --x dew_point --y pressure --data lake --out air.png

    Options:
        x: COLUMN: column of the horizontal axis.
        y: COLUMN: column of the vertical axis.
        point: X,Y: point to mark.
        level: P: level as a fraction of the peak density.
    """
    loaded = model.load()
    rows = data.read(loaded, [x, y])
    figure = plots.class_contours(loaded, x, y, data=rows, point=point, level=level)
    image.save(figure, rows=None if rows is None else rows.num_rows, model=model)


def effect(
    model: StoredModel, *, column: str, image: Image, limit: Count = 15, data: DataRows
) -> None:
    """Plot the distribution of a column in each class, and each class given its value.

    Example: probclass plot effect air --column pressure --data lake --out pressure.png

    Options:
        column: column to plot.
        limit: largest number of categories to plot.
    """
    loaded = model.load()
    rows = data.read(loaded, [column])
    figure = plots.effect(loaded, column, data=rows, most=limit)
    image.save(figure, rows=None if rows is None else rows.num_rows, model=model)


def weights(model: StoredModel, *, image: Image, limit: Count = 12) -> None:
    """Plot the importance of each block of a model with fitted weights.

    Example: probclass plot weights air --out weights.png

    Options:
        limit: largest number of blocks to name.
    """
    image.save(plots.block_weights(model.load(), most=limit), model=model)


def importance(
    model: StoredModel,
    source: Source,
    *,
    image: Image,
    limit: Count = 15,
    units: Annotated[Units, UNITS] = "nats",
    rows: Rows,
) -> None:
    """Plot what each column contributes to predictions, on average over rows.

    Example: probclass plot importance air lake --out importance.png

    Options:
        limit: largest number of columns to name.
    """
    measured = pc.importance(model.load(), source, units=units, **vars(rows))
    image.save(plots.importance(measured, most=limit), model=model)


def waterfall(
    model: StoredModel,
    source: Source,
    *,
    image: Image,
    row: int = 0,
    limit: Count = 12,
    units: Annotated[Units, UNITS] = "nats",
    rows: Rows,
) -> None:
    """Plot how the log odds of a row come about, from the prior to the posterior.

    Example: probclass plot waterfall air lake --row 3 --out row.png

    Options:
        row: row to plot, counted from 0.
        limit: largest number of columns to name.
    """
    explanation = pc.explain(model.load(), source, rows=row, units=units, limit=limit, **vars(rows))
    image.save(plots.waterfall(explanation), rows=1, model=model)


def reliability(
    model: StoredModel, source: Source, *, image: Image, classes: Names = (), rows: EngineRows
) -> None:
    """Plot a reliability diagram: predicted probability against observed frequency.

    Example: probclass plot reliability air@champion lake --out reliability.png

    Options:
        classes: --class CLASS,…: also plot the probabilities of these classes.
    """
    evaluation = _evaluate(model, source, rows)
    figure = plots.reliability(evaluation, classes=classes)
    image.save(figure, rows=evaluation.rows, model=model)


def confusion(model: StoredModel, source: Source, *, image: Image, rows: EngineRows) -> None:
    """Plot the confusion matrix of a model on labeled rows.

    Example: probclass plot confusion air@champion lake --out confusion.png
    """
    evaluation = _evaluate(model, source, rows)
    image.save(plots.confusion(evaluation), rows=evaluation.rows, model=model)


def posterior_over_time(
    scored: Annotated[str, "SCORED: Scored table."],
    *,
    time: str,
    image: Image,
    label: str | None = None,
    rows: Rows,
) -> None:
    """Plot the daily mean posterior of each class in a scored table.

    Example: probclass plot posterior-over-time scored --time time --label air --out air.png

    Options:
        time: COLUMN: column of dates or times.
        label: COLUMN: column of observed classes, for a second panel.
    """
    columns = [time, "probability", "log_density", *([] if label is None else [label])]
    table = _read(scored, columns, rows, prefix="p_")
    image.save(plots.posterior_over_time(table, time, label=label), rows=table.num_rows)


def _evaluate(model: StoredModel, source: str, rows: EngineRows) -> Evaluation:
    with progress("evaluating") as report:
        return pc.evaluate(model.load(), source, progress=report, **vars(rows))


def _read(
    source: str, columns: Sequence[str], rows: Rows, *, prefix: str | None = None
) -> pa.Table:
    """The given columns that a table has, and those whose names start with a prefix.

    For a part of a date, such as ``hour(pickup)``, the column that the part is computed from.
    """
    table = pc.open_table(source)
    known = table.schema.names
    parts = [part_of(name) for name in columns if name not in known]
    wanted = {*columns, *(part.column for part in parts if part is not None)}
    names = [
        name for name in known if name in wanted or (prefix is not None and name.startswith(prefix))
    ]
    plan = table.plan(names, partition=rows.partition, where=rows.where)
    return pa.Table.from_batches(plan.batches(), plan.schema)
