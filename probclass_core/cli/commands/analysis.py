"""explain, compare, drift: why a row has its class, which model the data support, what changed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from probclass_core.cli.options import Json, Partition, Ref, Source, Store, Where, Workers
from probclass_core.cli.output import progress, put, put_json, table
from probclass_core.cli.parsing import parse_partition, parse_where
from probclass_core.errors import SpecError, one_of

if TYPE_CHECKING:
    from probclass_core import ModelOdds

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
"""Odds beyond this, either way, are written as a power of ten."""


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
    names = shown["model"]
    shown["odds"] = [_ratio(found.odds(name, found.best)) for name in names]
    ahead = found.odds(found.best, names[1])
    put(
        table(shown, "Models, the most probable first; odds against the best"),
        f"{found.best} against {names[1]}: odds of {_ratio(ahead)} to 1, {ahead.reading}.",
    )


def drift(
    before: Ref,
    after: Annotated[
        str, typer.Argument(metavar="REF", help="The later model, written as the first.")
    ],
    store: Store,
    limit: Annotated[
        int,
        typer.Option("--limit", metavar="N", min=1, help="Features to show, the most changed."),
    ] = 20,
    as_json: Json = False,
) -> None:
    """Show what changed from one model to another, from their parameters alone.

    Divergences are in bits, from 0, nothing changed, to 1, nothing in common. The other figures are
    those of the class that changed most.

    Example: probclass drift air@2014-01 air@2014-02
    """
    import probclass_core as pc

    shelf = pc.ModelStore(store)
    versions = [shelf.resolve(ref) for ref in (before, after)]
    found = pc.drift(*(shelf.load(version.ref) for version in versions))
    if as_json:
        put_json({"models": [version.ref for version in versions], **found.to_dict()})
        return
    rows = found.by_feature.to_pylist()
    columns = {
        "feature": [row["feature"] if row["term"] is None else row["term"] for row in rows],
        "divergence": [row["divergence"] for row in rows],
        "class": [row["class"] for row in rows],
        "mean shift (sd)": [row["mean_shift"] for row in rows],
        "variance ratio": [row["variance_ratio"] for row in rows],
        "value": [row["value"] for row in rows],
        "before": [row["probability_before"] for row in rows],
        "after": [row["probability_after"] for row in rows],
    }
    told = {
        name: values
        for name, values in columns.items()
        if name == "feature" or any(value is not None for value in values)
    }
    names = ("class", "share before", "share after")
    shares = dict(zip(names, found.classes.to_pydict().values(), strict=True))
    put(
        table(shares, f"Classes: {found.class_divergence:.4f} bits"),
        table(told, "Features, the most changed first; divergence in bits", limit=limit),
        *(["\n".join(["Not compared", *found.uncompared])] if found.uncompared else []),
    )


def _ratio(odds: ModelOdds) -> str:
    """Odds to be read: the very large and the very small as a power of ten."""
    if math.isfinite(odds.log_odds) and not 1 / _PLAIN < odds.odds < _PLAIN:
        return f"10^{odds.log_odds / math.log(10.0):.0f}"
    return f"{odds.odds:,.3g}"


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
