"""Footers of Parquet files that are cached, so that a plan need not open files that it knows.

The cache is part of the statistics that a store keeps: `Plan.footers` are saved with the statistics
of a unit, and a later plan of `Source.with_footer_cache` finds them by the digest of their file.
Nothing shows that a cached footer is the file's, so it only finds statistics: to read rows, remove
it from the cache, and plan again.
"""

from __future__ import annotations

from dataclasses import dataclass

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
