"""cache ls, cache gc: the statistics that fits have kept in a store."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from probclass_core.cli.options import Json, Store
from probclass_core.cli.output import minute, put, put_json, table

if TYPE_CHECKING:
    from probclass_core.store.statistics_cache import CacheEntry

cache = typer.Typer(help="Look at the statistics that fits have kept.", no_args_is_help=True)


@cache.command("ls")
def ls(store: Store, as_json: Json = False) -> None:
    """List the statistics that are kept, model by model.

    Entries are stale where no fit would use them: of another release, or damaged.

    Example: probclass cache ls --store models
    """
    from probclass_core import StatisticsCache

    by_summary: dict[str, list[CacheEntry]] = {}
    for entry in StatisticsCache(store).entries():
        by_summary.setdefault(entry.summary, []).append(entry)
    listed = [_summary(entries) for entries in by_summary.values()]
    if as_json:
        put_json({"store": store, "summaries": listed})
    elif not listed:
        put(f"The store at {store} keeps no statistics.")
    else:
        columns = {
            "summary": [each["summary"][:12] for each in listed],
            "label": [each["label"] for each in listed],
            "estimators": [", ".join(each["estimators"]) for each in listed],
            "fragments": [each["entries"] for each in listed],
            "rows": [each["rows"] for each in listed],
            "bytes": [each["bytes"] for each in listed],
            "oldest": [minute(each["oldest"]) for each in listed],
            "newest": [minute(each["newest"]) for each in listed],
            "stale": [each["stale"] for each in listed],
        }
        put(table(columns, f"Statistics kept in {store}"))


@cache.command("gc")
def gc(
    store: Store,
    older_than: Annotated[
        float | None,
        typer.Option(
            "--older-than",
            metavar="DAYS",
            min=0.0,
            help="Remove what was stored so long ago as well; 0 removes everything.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be removed; remove nothing.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Remove statistics that no fit would use: damaged ones, and those of other versions.

    No model is touched; what a fit misses it computes anew.

    Example: probclass cache gc --older-than 180 --store models
    """
    from probclass_core import StatisticsCache

    age = None if older_than is None else timedelta(days=older_than)
    removed = StatisticsCache(store).collect(age, dry_run=dry_run)
    if as_json:
        fields = ("summary", "fragment", "bytes", "stored", "stale")
        listed = [{name: getattr(entry, name) for name in fields} for entry in removed]
        put_json({"store": store, "dry_run": dry_run, "removed": listed})
        return
    size = sum(entry.bytes for entry in removed)
    would = "Would be removed" if dry_run else "Removed"
    put(f"{would}: the statistics of {len(removed):,} fragments, {size:,} bytes.")


def _summary(entries: Sequence[CacheEntry]) -> dict[str, Any]:
    """What the entries of one model come to; those that cannot be read say little of it."""
    known = next((entry for entry in entries if entry.label is not None), entries[0])
    stored = [entry.stored for entry in entries if entry.stored is not None]
    return {
        "summary": known.summary,
        "label": known.label,
        "estimators": list(known.estimators),
        "entries": len(entries),
        "rows": sum(entry.rows or 0 for entry in entries),
        "bytes": sum(entry.bytes for entry in entries),
        "oldest": min(stored, default=None),
        "newest": max(stored, default=None),
        "stale": sum(entry.stale is not None for entry in entries),
    }
