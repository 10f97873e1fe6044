"""What killed writers left of a table, removed."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from probclass_core.errors import TableError
from probclass_core.io.open import format_of
from probclass_core.io.references import ABANDONED, Leftover, TableRef


def clean_table(
    place: str | Path | TableRef, *, older_than: timedelta = ABANDONED, dry_run: bool = False
) -> list[Leftover]:
    """Remove what killed writers left of a table, and nothing else.

    No reader is shown any of it, so no row of the table changes, at no version.

    Args:
        place: path, URI or `TableRef`.
        older_than: leave what was touched more recently, for it may belong to a living writer; by
            default a day. Zero is safe only while nobody writes the table.
        dry_run: remove nothing.

    Returns:
        What was removed, or would have been.

    Raises:
        TableError: there is no such table, its format leaves nothing that is known, or something
            cannot be removed.
        PluginError: no such format.
    """
    ref = TableRef.parse(place)
    found = format_of(ref)
    if found.leftovers is None:
        raise TableError(f"{ref.uri}: what killed writers leave in {found.name!r} is not known.")
    if not ref.newest:
        raise TableError(f"{ref.uri}: a table is cleaned at all versions at once; name none.")
    abandoned = [left for left in found.leftovers(ref) if left.abandoned(older_than)]
    if not dry_run:
        for leftover in abandoned:
            leftover.remove()
    return abandoned
