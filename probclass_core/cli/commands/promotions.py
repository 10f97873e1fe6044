"""promote and rollback: which version an alias names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from probclass_core.cli.options import DecisionOptions, EngineOptions, Json, ModelOptions, Store
from probclass_core.cli.output import prose, show, show_json
from probclass_core.cli.verbosity import progress
from probclass_core.errors import SpecError
from probclass_core.store.records import timestamp

if TYPE_CHECKING:
    from probclass_core.store.promotions import Promotion

NOT_PROMOTED = 1
"""Exit code of ``promote --if-better`` if the champion stays."""

Reason = Annotated[
    str | None, typer.Option("--reason", metavar="TEXT", help="Why, for the ledger of promotions.")
]


def promote(
    model: ModelOptions,
    alias: Annotated[str, typer.Argument(metavar="ALIAS", help="Alias, such as champion.")],
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="SOURCE", help="With --if-better: table of labeled rows to compare on."
        ),
    ] = None,
    *,
    if_better: Annotated[
        bool,
        typer.Option(
            "--if-better",
            help="Promote only if the version is better than the one that the alias names, on the "
            "same rows; exit code 1 if it is not.",
        ),
    ] = False,
    metric: Annotated[
        str,
        typer.Option(
            "--metric",
            metavar="METRIC",
            help="With --if-better: log_loss, brier, ece or cost, of which less is better, or "
            "accuracy.",
        ),
    ] = "log_loss",
    margin: Annotated[
        float,
        typer.Option(
            "--margin", metavar="M", help="With --if-better: least improvement of the metric."
        ),
    ] = 0.0,
    min_z: Annotated[
        float | None,
        typer.Option(
            "--min-z",
            metavar="Z",
            help="With --if-better: least improvement in its standard errors, by default 1.",
        ),
    ] = None,
    floor: Annotated[
        list[str] | None,
        typer.Option(
            "--floor",
            metavar="FLOOR",
            help="With --if-better: what the version must reach in any case: prior (the default) "
            "for the log loss and metric of the class prior, METRIC=prior, METRIC=NUMBER, or none. "
            "May be repeated.",
        ),
    ] = None,
    windows: Annotated[
        str | None,
        typer.Option(
            "--windows",
            metavar="COLUMN",
            help="With --if-better: partition column that divides the rows into judging windows.",
        ),
    ] = None,
    allow_training_rows: Annotated[
        bool,
        typer.Option(
            "--allow-training-rows",
            help="With --if-better: compare on rows that the version was trained on.",
        ),
    ] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Promote a version from which the alias was rolled back; needs --reason.",
        ),
    ] = False,
    rows: EngineOptions,
    decision: DecisionOptions,
    reason: Reason = None,
    as_json: Json = False,
) -> None:
    """Point an alias at a version of a model, in any case or only if it is better.

    With --if-better, both versions are evaluated on the same rows, which neither may be trained on.
    Without a version to compare with, the floors decide. A version that was rolled back from is
    promoted again only by --force. The decision is recorded, see 'probclass models history'.

    Example: probclass promote air@new champion lake --if-better --partition month=2014-01
    """
    import probclass_core as pc
    from probclass_core.store.promotions import Promotion

    store, version = model.resolve()
    if if_better:
        if source is None:
            raise SpecError("--if-better needs SOURCE, the table of labeled rows to compare on.")
        if force:
            raise SpecError("--force promotes without comparing; leave --if-better out.")
        gate = pc.Gate(
            metric=metric,
            margin=margin,
            min_z=min_z,
            floor=_floor(floor),
            allow_training_rows=allow_training_rows,
        )
        with progress(f"evaluating {version.id[:12]}") as report:
            entry = pc.promote_if_better(
                store,
                version,
                source,
                alias,
                windows=windows,
                gate=gate,
                decision=decision.rule(),
                provenance={"reason": reason} if reason else None,
                progress=report,
                **rows.arguments(),
            )
    else:
        if rows.partition or rows.where or windows:
            raise SpecError(
                "--partition, --where and --windows select rows of --if-better; add it."
            )
        started = timestamp()
        record = store.promote(version.model, version, alias, reason=reason, force=force)
        moved = record.promoted >= started
        entry = Promotion(
            model=record.model,
            alias=record.alias,
            action="promoted" if moved else "unchanged",
            id=record.id,
            previous=record.previous,
            time=record.promoted,
            reason=reason if moved else f"it is the {alias} already",
        )
    if as_json:
        show_json(document(entry))
    else:
        show(prose(_line(entry)))
    if entry.action == "refused":
        raise typer.Exit(NOT_PROMOTED)


def rollback(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Name of the model.")],
    store: Store,
    alias: Annotated[
        str, typer.Option("--alias", metavar="ALIAS", help="Alias to move back.")
    ] = "champion",
    steps: Annotated[
        int, typer.Option("--steps", metavar="N", min=1, help="Number of promotions to undo.")
    ] = 1,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="DATE",
            help="Return to the version that the alias named at the end of this day, in UTC; a "
            "time such as 2014-09-01T12:00 is possible. In place of --steps.",
        ),
    ] = None,
    reason: Reason = None,
    as_json: Json = False,
) -> None:
    """Point an alias at the version that it named before the last promotion.

    Rolling back again goes one promotion further back. The version left behind stays in the store,
    and 'promote --if-better' does not promote it again.

    Example: probclass rollback air --reason "worse on new rows"
    """
    from probclass_core import ModelStore

    entry = ModelStore(store).rollback(model, alias, steps=steps, to=to, reason=reason)
    if as_json:
        show_json(document(entry))
    else:
        show(prose(_line(entry)))


def document(entry: Promotion) -> dict[str, Any]:
    """An entry of the ledger as plain JSON values."""
    keys = ("model", "alias", "action", "id", "previous", "time", "by", "reason")
    record = {key: getattr(entry, key) for key in keys}
    return {**record, "metrics": entry.metrics, "provenance": entry.provenance}


def _floor(values: list[str] | None) -> str | dict[str, str] | None:
    """The floor of a gate, from the values of ``--floor``."""
    if not values or values == ["prior"]:
        return "prior"
    if values == ["none"]:
        return None
    floors = {}
    for value in values:
        metric, is_pair, floor = value.partition("=")
        if not is_pair:
            raise SpecError(
                f"--floor {value}: write prior, none, METRIC=prior or METRIC=NUMBER, as in "
                "--floor accuracy=0.5."
            )
        floors[metric.strip()] = floor.strip()
    return floors


def _line(entry: Promotion) -> str:
    version, before = f"{entry.model}@{entry.id[:12]}", str(entry.previous)[:12]
    if entry.action == "unchanged":
        return f"unchanged: {version} is the {entry.alias} already, nothing written"
    if entry.action == "refused":
        stays = f"{entry.model}@{before} stays {entry.alias}" if entry.previous else version
        return f"not promoted: {stays}: {entry.reason}"
    again = " again" if entry.action == "rolled_back" else ""
    reason = f": {entry.reason}" if entry.reason else ""
    named = f" (before: {before})" if entry.previous else ""
    return f"{entry.model}@{entry.alias} is {entry.id[:12]}{again}{named}{reason}"
