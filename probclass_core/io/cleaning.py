"""Remove what killed writers left of a table."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from probclass_core.errors import TableError
from probclass_core.io.open import format_of
from probclass_core.io.references import ABANDONED, Leftover, TableRef


def clean_table(
    table: str | Path | TableRef, *, older_than: timedelta = ABANDONED, dry_run: bool = False
) -> list[Leftover]:
    """Remove what killed writers left of a table, and nothing else.

    No reader sees any of it, so no row of the table changes, in any version.

    Args:
        table: path, URI or `TableRef`.
        older_than: least age of what is removed; younger files may belong to a live writer. By
            default a day; zero is safe only while nobody writes to the table.
        dry_run: whether to remove nothing.

    Returns:
        What was removed, or would be.

    Raises:
        TableError: if there is no such table, its format cannot list leftovers, or one cannot be
            removed.
        PluginError: if the format is unknown.
    """
    ref = TableRef.parse(table)
    if not ref.newest:
        raise TableError(
            f"{ref.uri}: all versions of a table are cleaned at once; leave version and timestamp "
            "out."
        )
    leftovers = [left for left in format_of(ref).leftovers(ref) if left.abandoned(older_than)]
    if not dry_run:
        for leftover in leftovers:
            leftover.remove()
    return leftovers
