"""cache ls and cache gc: list and remove the statistics that fits cached in a store."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Any

from probclass_core.cli.options import DryRun, Store
from probclass_core.cli.output import show, table
from probclass_core.store.statistics_cache import CacheEntry, StatisticsCache


def ls(*, store: Store) -> None:
    """List the cached statistics, grouped by model.

    Stale entries are damaged or come from another release; no fit uses them.

    Example: probclass cache ls --store models
    """
    entries: dict[str, list[CacheEntry]] = {}
    for entry in StatisticsCache(store).entries():
        entries.setdefault(entry.summary, []).append(entry)
    records = [_summary(group) for group in entries.values()]
    show(
        {"store": store, "summaries": records},
        table(records, f"Statistics cached in {store}")
        if records
        else f"The store at {store} contains no cached statistics.",
    )


def gc(
    *,
    store: Store,
    older_than: Annotated[float | None, {"min": 0.0}] = None,
    dry_run: DryRun = False,
) -> None:
    """Remove cached statistics that no fit uses: damaged ones, and those of other releases.

    Models are not changed. A fit computes removed statistics again if it needs them.

    Example: probclass cache gc --older-than 180 --store models

    Options:
        older_than: DAYS: also remove statistics stored more than DAYS ago; 0 removes all.
    """
    age = None if older_than is None else timedelta(days=older_than)
    removed = StatisticsCache(store).collect(age, dry_run=dry_run)
    fields = ("summary", "unit", "bytes", "stored", "stale")
    records = [{name: getattr(entry, name) for name in fields} for entry in removed]
    size = sum(entry.bytes for entry in removed)
    verb = "Would remove" if dry_run else "Removed"
    show(
        {"store": store, "dry_run": dry_run, "removed": records},
        f"{verb} the statistics of {len(removed):,} units, {size:,} bytes.",
    )


def _summary(entries: Sequence[CacheEntry]) -> dict[str, Any]:
    """Totals of the entries of one model; an entry that cannot be read has no label."""
    readable = next((entry for entry in entries if entry.label is not None), entries[0])
    stored = [entry.stored for entry in entries if entry.stored is not None]
    return {
        "summary": readable.summary,
        "label": readable.label,
        "estimators": list(readable.estimators),
        "entries": len(entries),
        "rows": sum(entry.rows or 0 for entry in entries),
        "bytes": sum(entry.bytes for entry in entries),
        "oldest": min(stored, default=None),
        "newest": max(stored, default=None),
        "stale": sum(entry.stale is not None for entry in entries),
    }
