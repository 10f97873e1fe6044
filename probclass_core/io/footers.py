"""A cache of the footers of Parquet files, so that a plan need not open files that it knows.

The cache is part of the statistics that a store keeps: `Plan.footer_of` gives the footer to save
with the statistics of a unit, and `FooterCache.footer` gives it back to a later plan. Nothing
shows that a cached footer is the file's, so it only finds statistics: to read rows, plan again
without it (`FooterCache.forget_footers`).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa


@dataclass(frozen=True)
class Footer:
    """What a plan needs to know of the footer of a file.

    Attributes:
        file: digest of the location of the table, the name of the file and its state.
        schema: schema of the columns as stored.
        rows: number of rows of each row group.
    """

    file: str
    schema: pa.Schema
    rows: tuple[int, ...]


class FooterCache(Protocol):
    """Footers by the digest of their file."""

    def footer(self, file: str) -> Footer | None:
        """Return the footer of a file, or None if it is not in the cache.

        Args:
            file: digest of the file; see `Footer`.
        """
        ...

    def forget_footers(self, files: Collection[str] | None = None) -> bool:
        """Return these footers no more; say whether one of them was in the cache.

        Args:
            files: digests of the files, or None for all.
        """
        ...
