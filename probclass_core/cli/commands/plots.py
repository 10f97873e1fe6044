"""plot: a command for each picture, of a stored model, of how well it does, of a scored table."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from probclass_core.cli.options import (
    AxisX,
    AxisY,
    Column,
    Data,
    Json,
    Out,
    Partition,
    Ref,
    Source,
    Store,
    Where,
    Workers,
)
from probclass_core.cli.output import progress, put, put_json
from probclass_core.cli.parsing import parse_names, parse_partition, parse_point, parse_where
from probclass_core.errors import SpecError, TableError, one_of

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.figure import Figure

    from probclass_core import Evaluation, Model

_KINDS = ("eps", "jpg", "pdf", "png", "svg", "webp")
"""What matplotlib writes without the help of other programs."""

plot = typer.Typer(help="Draw a picture.", no_args_is_help=False)


@plot.callback()
def _pictures() -> None:
    """Draw a model, how well it does, or a scored table."""


@plot.command("contours")
def contours(
    ref: Ref,
    x: AxisX,
    y: AxisY,
    out: Out,
    store: Store,
    data: Data = None,
    point: Annotated[
        str | None, typer.Option("--point", metavar="X,Y", help="Test point to mark.")
    ] = None,
    level: Annotated[
        float, typer.Option("--level", metavar="P", help="Fraction of the peak density.")
    ] = 0.01,
    partition: Partition = None,
    where: Where = None,
    as_json: Json = False,
) -> None:
    """Draw a density contour of each class in the plane of two columns.

    Example: probclass plot contours air --x dew_point --y pressure --data lake --out air.png
    """
    from probclass_core import plots

    kind, at = _format(out), None if point is None else parse_point(point)
    model, version = _load(store, ref)
    rows = _data(data, model, [x, y], partition, where)
    figure = plots.class_contours(model, x, y, data=rows, point=at, level=level)
    _save(figure, out, kind, as_json, rows=None if rows is None else rows.num_rows, model=version)


@plot.command("ball")
def ball(
    ref: Ref,
    x: AxisX,
    y: AxisY,
    point: Annotated[str, typer.Option("--point", metavar="X,Y", help="Center of the ball.")],
    out: Out,
    store: Store,
    as_json: Json = False,
) -> None:
    """Draw the ball that holds the K nearest neighbors of a point, of a knn_density block.

    Example: probclass plot ball iris --x sepal_length --y sepal_width --point 6.75,4.25 --out k.png
    """
    from probclass_core import plots

    kind, at = _format(out), parse_point(point)
    model, version = _load(store, ref)
    _save(plots.neighbor_ball(model, x, y, at), out, kind, as_json, model=version)


@plot.command("densities")
def densities(
    ref: Ref,
    column: Column,
    out: Out,
    store: Store,
    data: Data = None,
    prior_weighted: Annotated[
        bool, typer.Option("--prior-weighted", help="Each density times the prior of its class.")
    ] = False,
    partition: Partition = None,
    where: Where = None,
    as_json: Json = False,
) -> None:
    """Draw the density of a numeric column in each class, over histograms of data if given.

    Example: probclass plot densities air --column pressure --data lake --out pressure.png
    """
    from probclass_core import plots

    kind = _format(out)
    model, version = _load(store, ref)
    rows = _data(data, model, [column], partition, where)
    figure = plots.class_densities(model, column, data=rows, prior_weighted=prior_weighted)
    _save(figure, out, kind, as_json, rows=None if rows is None else rows.num_rows, model=version)


@plot.command("masses")
def masses(
    ref: Ref,
    column: Column,
    out: Out,
    store: Store,
    most: Annotated[
        int, typer.Option("--most", metavar="N", help="Categories to draw at most.")
    ] = 12,
    as_json: Json = False,
) -> None:
    """Draw the probability of each category of a column in each class.

    Example: probclass plot masses air --column wind_direction --out wind.png
    """
    from probclass_core import plots

    kind = _format(out)
    model, version = _load(store, ref)
    figure = plots.category_masses(model, column, most=most)
    _save(figure, out, kind, as_json, model=version)


@plot.command("reliability")
def reliability(
    ref: Ref,
    source: Source,
    out: Out,
    store: Store,
    classes: Annotated[
        list[str] | None,
        typer.Option("--class", metavar="CLASS,…", help="Draw the probability of these as well."),
    ] = None,
    partition: Partition = None,
    where: Where = None,
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Evaluate a model and draw how often its probabilities came true.

    Example: probclass plot reliability air@champion lake --where "month >= 2014-01" --out said.png
    """
    from probclass_core import plots

    kind, names = _format(out), parse_names("class", classes or ()) or ()
    found, version = _evaluate(store, ref, source, partition, where, workers)
    figure = plots.reliability(found, classes=names)
    _save(figure, out, kind, as_json, rows=found.rows, model=version)


@plot.command("confusion")
def confusion(
    ref: Ref,
    source: Source,
    out: Out,
    store: Store,
    partition: Partition = None,
    where: Where = None,
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Evaluate a model and draw which class it takes for which.

    Example: probclass plot confusion air@champion lake --partition month=2014-01 --out taken.png
    """
    from probclass_core import plots

    kind = _format(out)
    found, version = _evaluate(store, ref, source, partition, where, workers)
    _save(plots.confusion(found), out, kind, as_json, rows=found.rows, model=version)


@plot.command("posterior-over-time")
def posterior_over_time(
    scored: Annotated[str, typer.Argument(metavar="SCORED", help="Scored table.")],
    time: Annotated[
        str, typer.Option("--time", metavar="COLUMN", help="Its column of dates or times.")
    ],
    out: Out,
    label: Annotated[
        str | None,
        typer.Option("--label", metavar="COLUMN", help="Observed classes, for a second panel."),
    ] = None,
    partition: Partition = None,
    where: Where = None,
    as_json: Json = False,
) -> None:
    """Stack the daily mean posterior of each class over time.

    Example: probclass plot posterior-over-time scored --time time --label air --out air.png
    """
    from probclass_core import plots

    kind = _format(out)
    needed = [time, "probability", "log_density", *([] if label is None else [label])]
    rows = _read(scored, needed, partition, where, prefix="p_")
    figure = plots.posterior_over_time(rows, time, label=label)
    _save(figure, out, kind, as_json, rows=rows.num_rows)


def _format(out: Path) -> str:
    """What the suffix asks for, checked before there is work to lose."""
    kind = out.suffix[1:].lower()
    if kind not in _KINDS:
        raise SpecError(
            f"--out {str(out)!r}: no picture is written as {kind!r}; use {one_of(_KINDS)}."
        )
    return kind


def _load(store: str, ref: str) -> tuple[Model, str]:
    import probclass_core as pc

    shelf = pc.ModelStore(store)
    version = shelf.resolve(ref)
    return shelf.load(version.ref), version.ref


def _evaluate(
    store: str,
    ref: str,
    source: str,
    partition: Sequence[str] | None,
    where: Sequence[str] | None,
    workers: int | None,
) -> tuple[Evaluation, str]:
    import probclass_core as pc

    one, conditions = parse_partition(partition or ()), parse_where(where or ())
    model, version = _load(store, ref)
    with progress("evaluating") as tell:
        found = pc.evaluate(
            model, source, partition=one, where=conditions, workers=workers, progress=tell
        )
    return found, version


def _data(
    source: str | None,
    model: Model,
    columns: Sequence[str],
    partition: Sequence[str] | None,
    where: Sequence[str] | None,
) -> pa.Table | None:
    """The drawn columns of ``--data``, and the label where the rows have one."""
    if source is None:
        if partition or where:
            raise SpecError("--partition and --where choose rows of --data SOURCE; name it, too.")
        return None
    return _read(source, [*columns, model.spec.label], partition, where)


def _read(
    source: str,
    needed: Sequence[str],
    partition: Sequence[str] | None,
    where: Sequence[str] | None,
    *,
    prefix: str | None = None,
) -> pa.Table:
    """Such of the needed columns as a table has, and those of a prefix; others may be many."""
    import pyarrow as pa

    from probclass_core.io.open import open_table

    one, conditions = parse_partition(partition or ()), parse_where(where or ())
    whole = open_table(source)
    columns = [
        name
        for name in whole.schema.names
        if name in needed or (prefix is not None and name.startswith(prefix))
    ]
    plan = whole.plan(columns, partition=one, where=conditions)
    return pa.Table.from_batches(plan.batches(), plan.schema)


def _save(
    figure: Figure,
    out: Path,
    kind: str,
    as_json: bool,
    *,
    rows: int | None = None,
    model: str | None = None,
) -> None:
    picture = io.BytesIO()
    figure.savefig(picture, format=kind, dpi=150)
    try:
        out.write_bytes(picture.getvalue())
    except OSError as error:
        raise TableError(f"cannot write {out}: {error.strerror}.") from error
    if as_json:
        said: dict[str, Any] = {"model": model, "rows": rows, "out": str(out)}
        put_json({key: value for key, value in said.items() if value is not None})
    else:
        put(f"drawn in {out}" if rows is None else f"{rows:,} rows drawn in {out}")
