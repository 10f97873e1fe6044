"""table inspect, labels, clean; cache gc: look at tables, remove leftovers and old statistics."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import probclass_core as pc
from probclass_core.cli.options import Age, DryRun, Rows, Store
from probclass_core.cli.output import records_table, show, show_report
from probclass_core.io.references import ABANDONED
from probclass_core.io.selection import count_labels
from probclass_core.store.statistics_cache import StatisticsCache

Uri = Annotated[str, "URI: Path or URI of a table, such as delta+s3://bucket/table."]
Format = Annotated[str | None, "--format NAME: Format of the table, if it cannot be recognized."]


def inspect(
    uri: Uri, *, rows: Rows, version: int | None = None, format_name: Format = None
) -> None:
    """Show the columns, partitions, rows and sizes of a table.

    Only metadata is read: file footers and logs. With --where, each file that may contain matching
    rows counts with all of its rows.

    Example: probclass table inspect scored --partition month=2014-01

    Options:
        version: version of the table; by default the newest.
    """
    ref = pc.TableRef(uri, format=format_name, version=version)
    show_report(pc.inspect_table(ref, **vars(rows)), {})


def labels(
    uri: Uri,
    label: Annotated[str, "LABEL: The class column."],
    *,
    rows: Rows,
    format_name: Format = None,
) -> None:
    """Count the rows that have a label, to know whether labels have arrived.

    Example: probclass table labels lake air --partition month=2014-01
    """
    ref = pc.TableRef(uri, format=format_name)
    counts = count_labels(ref, label, **vars(rows))
    show(
        {"uri": ref.uri, "label": label, **counts.to_dict()},
        f"{counts.labeled:,} of {counts.rows:,} rows have a label ({counts.share:.1%}).",
    )


def clean(
    uri: Uri,
    *,
    older_than: Age = ABANDONED / timedelta(hours=1),
    dry_run: DryRun = False,
    format_name: Format = None,
) -> None:
    """Remove files that killed writers left in a table.

    Readers never see these files, so no version of the table changes.

    Example: probclass table clean scored --dry-run

    Options:
        older_than: HOURS: keep files modified more recently: their writer may still be running.
    """
    ref = pc.TableRef(uri, format=format_name)
    removed = pc.clean_table(ref, older_than=timedelta(hours=older_than), dry_run=dry_run)
    fields = ("path", "bytes", "touched")
    records = [{name: getattr(leftover, name) for name in fields} for leftover in removed]
    show(
        {"uri": ref.uri, "dry_run": dry_run, "removed": records},
        records_table(records, "Would be removed" if dry_run else "Removed", len(records))
        if removed
        else f"Found no leftover files older than {older_than:g} hours in {ref.uri}.",
    )


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
