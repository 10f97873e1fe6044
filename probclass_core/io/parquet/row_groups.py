"""Row groups of one Parquet file, read batch by batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from probclass_core.arrow.arrays import read_rows
from probclass_core.errors import TableError
from probclass_core.io.errors import translate_read_errors
from probclass_core.io.parquet.pieces import copy_of
from probclass_core.io.retry import RETRIES

# Fetching ahead pays on a network; from a local disk it doubles the time. A buffered stream is read
# page by page, while it is in the processor's cache, and no column of a row group is held whole.
# Without checksums a flipped bit may be read as another number; files that have none cost nothing.
LOCAL_SCAN = ds.ParquetFragmentScanOptions(
    pre_buffer=False, use_buffered_stream=True, page_checksum_verification=True
)
REMOTE_SCAN = ds.ParquetFragmentScanOptions(pre_buffer=True, page_checksum_verification=True)


@dataclass(frozen=True)
class RowGroups:
    """Some row groups of one file.

    Attributes:
        piece: the file, with these row groups alone.
        numbers: of the row groups in the file; none of what has no row groups.
        rows: that they hold.
        schema: of the table, as this file is to be read.
        columns: that are wanted of it.
        kept: which rows are; none for all.
        place: the path or URI of the file, for messages.
        scan: how it is read.
        digest: see `tables.table.Fragment`.
        forgets: whether what Arrow learns of the file goes with the reading: of many it adds up.
    """

    piece: ds.Fragment
    numbers: tuple[int, ...]
    rows: int
    schema: pa.Schema
    columns: Sequence[str]
    kept: pc.Expression | None
    place: str
    scan: ds.ParquetFragmentScanOptions
    digest: str | None
    forgets: bool

    def __str__(self) -> str:
        numbers = self.numbers
        return f"{self.place} (row groups {numbers[0]} to {numbers[-1]})" if numbers else self.place

    def read(self) -> Iterator[pa.RecordBatch]:
        """Where a store fails half-way it is asked again; what was given is not given twice."""
        if self.forgets:
            yield from replace(self, piece=copy_of(self.piece, self.numbers), forgets=False).read()
            return
        failures = given = 0
        with translate_read_errors(self.place):
            while True:
                try:
                    self._check_unchanged()
                    for batch in _beyond(given, self._batches()):
                        given += batch.num_rows
                        yield batch
                    return
                except OSError as error:
                    failures += 1
                    RETRIES.wait(failures, error)

    def _check_unchanged(self) -> None:
        """A file that was replaced since the plan was made has other row groups, most likely."""
        if not self.numbers:
            return
        try:
            found = sum(group.num_rows for group in self.piece.row_groups)
        except pa.ArrowIndexError:  # it has fewer
            found = -1
        if found != self.rows:
            raise TableError(f"{self.place} has changed while it was being read; run it again.")

    def _batches(self) -> Iterator[pa.RecordBatch]:
        wanted = pa.schema([self.schema.field(name) for name in self.columns])
        batches: Iterator[pa.RecordBatch] = self.piece.to_batches(
            schema=self.schema,
            columns=wanted.names,
            filter=self.kept,
            batch_size=read_rows(wanted),
            batch_readahead=2,
            fragment_scan_options=self.scan,
            use_threads=False,
        )
        return batches


def _beyond(rows: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Batches without the first so many rows."""
    for batch in batches:
        skipped = min(rows, batch.num_rows)
        rows -= skipped
        if skipped < batch.num_rows or not batch.num_rows:
            yield batch.slice(skipped)
