"""promote and rollback: which version an alias names."""

from __future__ import annotations

from typing import Annotated, Any

import typer

import probclass_core as pc
from probclass_core.cli.messages import progress
from probclass_core.cli.options import Count, EngineRows, Store, StoredModel
from probclass_core.cli.output import prose, show
from probclass_core.errors import SpecError
from probclass_core.model.decision import DecisionRule
from probclass_core.store.gate import Gate
from probclass_core.store.promotions import Promotion
from probclass_core.store.records import timestamp

NOT_PROMOTED = 1
"""Exit code of ``promote --if-better`` if the champion stays."""

Reason = Annotated[str | None, "TEXT: Why, for the ledger of promotions."]


def promote(
    model: StoredModel,
    alias: Annotated[str, "ALIAS: Alias, such as champion."],
    source: Annotated[
        str | None, "SOURCE: With --if-better: table of labeled rows to compare on."
    ] = None,
    *,
    if_better: bool = False,
    gate: Gate,
    windows: str | None = None,
    force: bool = False,
    rows: EngineRows,
    decision: DecisionRule,
    reason: Reason = None,
) -> None:
    """Point an alias at a version of a model, in any case or only if it is better.

    With --if-better, both versions are evaluated on the same rows, which neither may be trained on,
    and the options from --metric to --allow-training-rows say what is better. Without a version to
    compare with, the floors decide. A version that was rolled back from is
    promoted again only by --force. The decision is recorded, see 'probclass models history'.

    Example: probclass promote air@new champion lake --if-better --partition month=2014-01

    Options:
        if_better: promote only if the version is better than the one that the alias names, on the
            same rows; exit code 1 if it is not.
        windows: COLUMN: with --if-better: partition column that divides the rows into judging
            windows.
        force: promote a version from which the alias was rolled back; needs --reason.
    """
    version = model.version
    if if_better:
        if source is None:
            raise SpecError("--if-better needs SOURCE, the table of labeled rows to compare on.")
        if force:
            raise SpecError("--force promotes without comparing; leave --if-better out.")
        with progress(f"evaluating {version.id[:12]}") as report:
            entry = pc.promote_if_better(
                model.models,
                version,
                source,
                alias,
                windows=windows,
                gate=gate,
                decision=decision,
                provenance={"reason": reason} if reason else None,
                progress=report,
                **vars(rows),
            )
    else:
        if rows.partition or rows.where or windows:
            raise SpecError(
                "--partition, --where and --windows select rows of --if-better; add it."
            )
        started = timestamp()
        record = model.models.promote(version.model, version, alias, reason=reason, force=force)
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
    show(document(entry), prose(_line(entry)))
    if entry.action == "refused":
        raise typer.Exit(NOT_PROMOTED)


def rollback(
    model: Annotated[str, "MODEL: Name of the model."],
    *,
    store: Store,
    alias: str = "champion",
    steps: Count = 1,
    to: str | None = None,
    reason: Reason = None,
) -> None:
    """Point an alias at the version that it named before the last promotion.

    Rolling back again goes one promotion further back. The version left behind stays in the store,
    and 'promote --if-better' does not promote it again.

    Example: probclass rollback air --reason "worse on new rows"

    Options:
        alias: alias to move back.
        steps: number of promotions to undo.
        to: DATE: return to the version that the alias named at the end of this day, in UTC; a time
            such as 2014-09-01T12:00 is possible. In place of --steps.
    """
    entry = pc.ModelStore(store).rollback(model, alias, steps=steps, to=to, reason=reason)
    show(document(entry), prose(_line(entry)))


def document(entry: Promotion) -> dict[str, Any]:
    """An entry of the ledger as plain JSON values."""
    keys = ("model", "alias", "action", "id", "previous", "time", "by", "reason")
    record = {key: getattr(entry, key) for key in keys}
    return {**record, "metrics": entry.metrics, "provenance": entry.provenance}


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
