"""cache gc: remove the statistics that fits cached in a store."""

from __future__ import annotations

from datetime import timedelta

from probclass_core.cli.options import Age, DryRun, Store
from probclass_core.cli.output import show
from probclass_core.store.statistics_cache import StatisticsCache


def gc(
    *,
    store: Store,
    older_than: Age | None = None,
    dry_run: DryRun = False,
) -> None:
    """Remove cached statistics that no fit uses, which are those of other releases.

    Models are not changed. A fit computes removed statistics again if it needs them.

    Example: probclass cache gc --older-than 180 --store models

    Options:
        older_than: DAYS: also remove files written more than DAYS ago; 0 removes all.
    """
    age = None if older_than is None else timedelta(days=older_than)
    removed = StatisticsCache(store).collect(age, dry_run=dry_run)
    records = [{"path": file.path, "bytes": file.bytes} for file in removed]
    size = sum(file.bytes for file in removed)
    verb = "Would remove" if dry_run else "Removed"
    show(
        {"store": store, "dry_run": dry_run, "removed": records},
        f"{verb} {len(removed):,} files of statistics, {size:,} bytes.",
    )
