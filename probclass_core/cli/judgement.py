"""explain and compare: why a row has its class, and which model the data support."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from probclass_core.cli.options import Json, Partition, Ref, Source, Store, Where, Workers
from probclass_core.cli.output import progress, put, put_json, table
from probclass_core.cli.parsing import parse_partition, parse_where
from probclass_core.errors import SpecError, one_of

_SHOWN = {
    "model": "model",
    "log_evidence": "log evidence",
    "log_bayes_factor": "log Bayes factor",
    "prior": "prior",
    "odds": "odds",
    "posterior": "posterior",
    "reading": "reading",
}
"""Columns of a comparison, and what they are called for people."""

_PLAIN = 1e6
"""Odds above this are written as a power of ten."""


def explain(
    ref: Ref,
    source: Source,
    store: Store,
    row: Annotated[
        list[int] | None,
        typer.Option(
            "--row", metavar="N", help="Only this row, counted from 0; may be given several times."
        ),
    ] = None,
    partition: Partition = None,
    where: Where = None,
    against: Annotated[
        str | None,
        typer.Option("--against", metavar="CLASS", help="The rival; by default the runner-up."),
    ] = None,
    units: Annotated[
        str,
        typer.Option("--units", metavar="nats|bits|decibans", help="Of the weights of evidence."),
    ] = "decibans",
    limit: Annotated[
        int,
        typer.Option(
            "--limit", metavar="N", min=1, help="Entries to show, the largest; the rest are lumped."
        ),
    ] = 20,
    as_json: Json = False,
) -> None:
    """Show why rows have their class: what each column adds to the odds.

    Ten decibans are a factor of ten. Rows are counted among those that --partition and --where
    leave.

    Example: probclass explain air@champion lake --partition month=2014-01 --row 0
    """
    import probclass_core as pc

    one, conditions = parse_partition(partition or ()), parse_where(where or ())
    shelf = pc.ModelStore(store)
    version = shelf.resolve(ref)
    found = pc.explain(
        shelf.load(version.ref),
        source,
        rows=row or None,
        partition=one,
        where=conditions,
        against=against,
        units=units,
        limit=limit,
    )
    if as_json:
        put_json({"model": version.ref, **found.to_dict()})
    else:
        put(str(found))


def compare(
    source: Source,
    specs: Annotated[
        list[Path],
        typer.Argument(
            metavar="SPEC SPEC…",
            help="Two model specs or more: TOML, YAML or JSON. A model is named as its file.",
        ),
    ],
    odds: Annotated[
        list[str] | None,
        typer.Option(
            "--odds",
            metavar="MODEL=NUMBER",
            help="How probable a model is beforehand, beside the 1 of the others.",
        ),
    ] = None,
    partition: Partition = None,
    where: Where = None,
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Compare models by their evidence: which of them the rows support, and how strongly.

    The models must have the same label and the same columns. Nothing is saved.

    Example: probclass compare lake full.toml naive.toml --where "month < 2014-01"
    """
    import probclass_core as pc

    one, conditions = parse_partition(partition or ()), parse_where(where or ())
    models = {path.stem: path for path in specs}
    if len(models) < len(specs):
        raise SpecError("a model is named as its spec file, and two files have one name.")
    prior = dict.fromkeys(models, 1.0) | _prior_odds(odds or (), models)
    chosen = {name: pc.ModelSpec.from_file(path) for name, path in models.items()}
    with progress("summarizing") as tell:
        statistics = {
            name: pc.summarize(
                source, spec, partition=one, where=conditions, workers=workers, progress=tell
            )
            for name, spec in chosen.items()
        }
    found = pc.compare(statistics, prior=prior)
    if as_json:
        rows = sum(next(iter(statistics.values())).classes["rows"].to_pylist())
        put_json({"rows": rows, "best": found.best, "models": found.table.to_pylist()})
        return
    shown = {said: found.table[name].to_pylist() for name, said in _SHOWN.items()}
    second = shown["model"][1]
    ahead = found.odds(found.best, second)
    ratio = f"{ahead.odds:,.3g}"
    if ahead.odds >= _PLAIN:
        ratio = f"10^{ahead.log_odds / math.log(10.0):,.0f}"
    put(
        table(shown, "Models, the most probable first; odds against the best"),
        f"{found.best} against {second}: odds of {ratio} to 1, {ahead.reading}.",
    )


def _prior_odds(texts: Sequence[str], models: Mapping[str, Path]) -> dict[str, float]:
    """Prior odds from ``MODEL=NUMBER``."""
    odds = {}
    for text in texts:
        name, _, number = (part.strip() for part in text.rpartition("="))
        if name not in models:
            raise SpecError(f"--odds {text!r}: write MODEL=NUMBER with one of {one_of(models)}.")
        try:
            odds[name] = float(number)
        except ValueError as error:
            raise SpecError(f"--odds {text!r}: {number!r} is not a number.") from error
    return odds
