"""estimators and plot: what there is to model with, and pictures."""

from __future__ import annotations

import dataclasses
import inspect
import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from probclass_core.cli.options import Json, Partition, Where
from probclass_core.cli.output import put, put_json, table
from probclass_core.cli.parsing import parse_partition, parse_where
from probclass_core.errors import SpecError, TableError, one_of

if TYPE_CHECKING:
    import pyarrow as pa

    from probclass_core import Traits

plot = typer.Typer(help="Draw a picture of a scored table.", no_args_is_help=False)


def estimators(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Describe this one and its options.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List the registered estimators, or describe one.

    A plugin that cannot be loaded is an error here.

    Example: probclass estimators gaussian_full
    """
    from probclass_core.plugins import estimator_plugins, find_estimator

    found = estimator_plugins()
    if name is not None:
        found = {name: find_estimator(name)}
    if as_json:
        listed = [
            {
                "name": plugin.name,
                "summary": plugin.summary,
                "parameters_version": plugin.parameters_version,
                "traits": dataclasses.asdict(plugin.traits),
                "description": inspect.getdoc(plugin.factory),
            }
            for plugin in found.values()
        ]
        put_json({"estimators": listed})
    elif name is not None:
        put(f"{name}\n\n{inspect.getdoc(found[name].factory) or found[name].summary}")
    else:
        columns = {
            "estimator": list(found),
            "models": [plugin.summary for plugin in found.values()],
            "traits": [_traits(plugin.traits) for plugin in found.values()],
        }
        put(table(columns, "Estimators"))


def _traits(traits: Traits) -> str:
    words = {
        "factorises": traits.factorises,
        "keeps the rows": traits.state_grows,
        "has evidence": traits.has_evidence,
    }
    return ", ".join(word for word, holds in words.items() if holds)


@plot.callback()
def _pictures() -> None:
    """Draw a picture of a scored table."""


@plot.command("posterior-over-time")
def posterior_over_time(
    scored: Annotated[str, typer.Argument(metavar="SCORED", help="Scored table.")],
    time: Annotated[
        str, typer.Option("--time", metavar="COLUMN", help="Its column of dates or times.")
    ],
    out: Annotated[
        Path, typer.Option("--out", metavar="FILE.png", help="Picture to write: png, svg, pdf …")
    ],
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

    kept = parse_partition(partition or ()), parse_where(where or ())
    rows = _scored_columns(scored, time, label, *kept)
    figure = plots.posterior_over_time(rows, time, label=label)
    kinds = figure.canvas.get_supported_filetypes()
    kind = out.suffix[1:].lower()
    if kind not in kinds:
        raise SpecError(
            f"--out {str(out)!r}: no picture is written as {kind!r}; use {one_of(kinds)}."
        )
    picture = io.BytesIO()
    figure.savefig(picture, format=kind, dpi=150)
    try:
        out.write_bytes(picture.getvalue())
    except OSError as error:
        raise TableError(f"cannot write {out}: {error.strerror}.") from error
    if as_json:
        put_json({"rows": rows.num_rows, "out": str(out)})
    else:
        put(f"{rows.num_rows:,} rows drawn in {out}")


def _scored_columns(
    scored: str,
    time: str,
    label: str | None,
    partition: dict[str, str] | None,
    where: list[tuple[str, str, str | list[str]]] | None,
) -> pa.Table:
    """Only the columns of a scored table that the picture needs; other columns may be many."""
    import pyarrow as pa

    from probclass_core.tables import open_table

    whole = open_table(scored)
    held = whole.schema.names
    needed = {time, label, "probability", "log_density"}
    columns = [name for name in held if name in needed or name.startswith("p_")]
    plan = whole.plan(columns, partition=partition, where=where)
    return pa.Table.from_batches(plan.batches(), plan.schema)
