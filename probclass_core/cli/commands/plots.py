"""plot: one command per plot of a stored model, of its evaluation or of a scored table."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from probclass_core.cli.command import Group
from probclass_core.cli.options import (
    EngineOptions,
    Json,
    ModelOptions,
    RowOptions,
    Source,
    Units,
    with_groups,
)
from probclass_core.cli.output import show, show_json
from probclass_core.cli.parsing import parse_names, parse_point
from probclass_core.cli.verbosity import progress
from probclass_core.errors import SpecError, TableError, one_of

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.figure import Figure

    from probclass_core import Model
    from probclass_core.analysis.evaluation import Evaluation
    from probclass_core.analysis.explanation import Units as WeightUnits
    from probclass_core.store.references import ModelVersion

_FORMATS = ("eps", "jpg", "pdf", "png", "svg", "webp")
"""Formats that matplotlib writes without other programs."""

Column = Annotated[str, typer.Option("--column", metavar="COLUMN", help="Column to plot.")]


@dataclass(frozen=True)
class DataOptions(RowOptions):
    """Rows to plot together with the model."""

    data: Annotated[
        str | None,
        typer.Option(
            "--data",
            metavar="SOURCE",
            help="Table whose rows are also plotted; --partition and --where select among them.",
        ),
    ] = None

    def read(self, model: Model, columns: Sequence[str]) -> pa.Table | None:
        """The given columns of the rows, and the label if the table has it; None without --data."""
        if self.data is not None:
            return _read(self.data, [*columns, model.spec.label], self)
        if self.partition or self.where:
            raise SpecError("--partition and --where select rows of --data; add --data SOURCE.")
        return None


@dataclass(frozen=True)
class PlotOptions:
    """The file to write a plot to, and the form of the report about it."""

    out: Annotated[
        Path,
        typer.Option(
            "--out",
            metavar="FILE.png",
            help="Image file to write; the suffix sets the format: png, svg, pdf …",
        ),
    ]
    as_json: Json = False

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
        self, figure: Figure, *, rows: int | None = None, model: ModelVersion | None = None
    ) -> None:
        """Write the figure, and report the file, the number of rows and the model."""
        image = io.BytesIO()
        figure.savefig(image, format=self._format, dpi=150)
        try:
            self.out.write_bytes(image.getvalue())
        except OSError as error:
            raise TableError(f"cannot write {self.out}: {error.strerror}.") from error
        if self.as_json:
            values = {"model": model and model.ref, "rows": rows, "out": str(self.out)}
            show_json({key: value for key, value in values.items() if value is not None})
        else:
            plural = "" if rows == 1 else "s"
            subject = "the model" if rows is None else f"{rows:,} row{plural}"
            show(f"Plotted {subject} in {self.out}.")


plot = typer.Typer(
    cls=Group,
    help="Plot a model, its evaluation or a scored table.",
    no_args_is_help=False,  # a missing command is an error like any other
)


@plot.command("contours")
@with_groups
def contours(
    model: ModelOptions,
    x: Annotated[str, typer.Option("--x", metavar="COLUMN", help="Column of the horizontal axis.")],
    y: Annotated[str, typer.Option("--y", metavar="COLUMN", help="Column of the vertical axis.")],
    output: PlotOptions,
    *,
    point: Annotated[
        str | None, typer.Option("--point", metavar="X,Y", help="Point to mark.")
    ] = None,
    level: Annotated[
        float, typer.Option("--level", metavar="P", help="Level as a fraction of the peak density.")
    ] = 0.01,
    data: DataOptions,
) -> None:
    """Plot a contour of each class's density over two columns.

    Example: probclass plot contours air --x dew_point --y pressure --data lake --out air.png
    """
    from probclass_core import plots

    center = None if point is None else parse_point(point)
    loaded, version = model.load()
    rows = data.read(loaded, [x, y])
    figure = plots.class_contours(loaded, x, y, data=rows, point=center, level=level)
    output.save(figure, rows=None if rows is None else rows.num_rows, model=version)


@plot.command("effect")
@with_groups
def effect(
    model: ModelOptions,
    column: Column,
    output: PlotOptions,
    *,
    limit: Annotated[
        int,
        typer.Option("--limit", metavar="N", min=1, help="Largest number of categories to plot."),
    ] = 15,
    data: DataOptions,
) -> None:
    """Plot the distribution of a column in each class, and each class given its value.

    Example: probclass plot effect air --column pressure --data lake --out pressure.png
    """
    from probclass_core import plots

    loaded, version = model.load()
    rows = data.read(loaded, [column])
    figure = plots.effect(loaded, column, data=rows, most=limit)
    output.save(figure, rows=None if rows is None else rows.num_rows, model=version)


@plot.command("weights")
@with_groups
def weights(
    model: ModelOptions,
    output: PlotOptions,
    *,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, help="Largest number of blocks to name.")
    ] = 12,
) -> None:
    """Plot the importance of each block of a model with fitted weights.

    Example: probclass plot weights air --out weights.png
    """
    from probclass_core import plots

    loaded, version = model.load()
    output.save(plots.block_weights(loaded, most=limit), model=version)


@plot.command("importance")
@with_groups
def importance(
    model: ModelOptions,
    source: Source,
    output: PlotOptions,
    *,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, help="Largest number of columns to name.")
    ] = 15,
    units: Units = "nats",
    rows: RowOptions,
) -> None:
    """Plot what each column contributes to predictions, on average over rows.

    Example: probclass plot importance air lake --out importance.png
    """
    import probclass_core as pc
    from probclass_core import plots

    selection = rows.arguments()
    loaded, version = model.load()
    measured = pc.importance(loaded, source, units=cast("WeightUnits", units), **selection)
    output.save(plots.importance(measured, most=limit), model=version)


@plot.command("waterfall")
@with_groups
def waterfall(
    model: ModelOptions,
    source: Source,
    output: PlotOptions,
    *,
    row: Annotated[
        int, typer.Option("--row", metavar="N", help="Row to plot, counted from 0.")
    ] = 0,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, help="Largest number of columns to name.")
    ] = 12,
    units: Units = "nats",
    rows: RowOptions,
) -> None:
    """Plot how the log odds of a row come about, from the prior to the posterior.

    Example: probclass plot waterfall air lake --row 3 --out row.png
    """
    import probclass_core as pc
    from probclass_core import plots

    selection = rows.arguments()
    loaded, version = model.load()
    explanation = pc.explain(
        loaded, source, rows=row, units=cast("WeightUnits", units), limit=limit, **selection
    )
    output.save(plots.waterfall(explanation), rows=1, model=version)


@plot.command("reliability")
@with_groups
def reliability(
    model: ModelOptions,
    source: Source,
    output: PlotOptions,
    *,
    classes: Annotated[
        list[str] | None,
        typer.Option(
            "--class", metavar="CLASS,…", help="Also plot the probabilities of these classes."
        ),
    ] = None,
    rows: EngineOptions,
) -> None:
    """Plot a reliability diagram: predicted probability against observed frequency.

    Example: probclass plot reliability air@champion lake --out reliability.png
    """
    from probclass_core import plots

    names = parse_names("class", classes or ()) or ()
    evaluation, version = _evaluate(model, source, rows)
    figure = plots.reliability(evaluation, classes=names)
    output.save(figure, rows=evaluation.rows, model=version)


@plot.command("confusion")
@with_groups
def confusion(
    model: ModelOptions, source: Source, output: PlotOptions, *, rows: EngineOptions
) -> None:
    """Plot the confusion matrix of a model on labeled rows.

    Example: probclass plot confusion air@champion lake --out confusion.png
    """
    from probclass_core import plots

    evaluation, version = _evaluate(model, source, rows)
    output.save(plots.confusion(evaluation), rows=evaluation.rows, model=version)


@plot.command("posterior-over-time")
@with_groups
def posterior_over_time(
    scored: Annotated[str, typer.Argument(metavar="SCORED", help="Scored table.")],
    time: Annotated[
        str, typer.Option("--time", metavar="COLUMN", help="Column of dates or times.")
    ],
    output: PlotOptions,
    *,
    label: Annotated[
        str | None,
        typer.Option(
            "--label", metavar="COLUMN", help="Column of observed classes, for a second panel."
        ),
    ] = None,
    rows: RowOptions,
) -> None:
    """Plot the daily mean posterior of each class in a scored table.

    Example: probclass plot posterior-over-time scored --time time --label air --out air.png
    """
    from probclass_core import plots

    columns = [time, "probability", "log_density", *([] if label is None else [label])]
    table = _read(scored, columns, rows, prefix="p_")
    figure = plots.posterior_over_time(table, time, label=label)
    output.save(figure, rows=table.num_rows)


def _evaluate(
    model: ModelOptions, source: str, rows: EngineOptions
) -> tuple[Evaluation, ModelVersion]:
    import probclass_core as pc

    reading = rows.arguments()
    loaded, version = model.load()
    with progress("evaluating") as report:
        return pc.evaluate(loaded, source, progress=report, **reading), version


def _read(
    source: str, columns: Sequence[str], rows: RowOptions, *, prefix: str | None = None
) -> pa.Table:
    """The given columns that a table has, and those whose names start with a prefix.

    For a part of a date, such as ``hour(pickup)``, the column that the part is computed from.
    """
    import pyarrow as pa

    from probclass_core.arrow.parts import part_of
    from probclass_core.io.open import open_table

    table = open_table(source)
    known = table.schema.names
    parts = [part_of(name) for name in columns if name not in known]
    wanted = {*columns, *(part.column for part in parts if part is not None)}
    names = [
        name for name in known if name in wanted or (prefix is not None and name.startswith(prefix))
    ]
    selection = RowOptions(rows.partition, rows.where).arguments()
    plan = table.plan(names, **selection)
    return pa.Table.from_batches(plan.batches(), plan.schema)
