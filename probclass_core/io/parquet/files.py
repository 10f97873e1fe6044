"""The files of a plan: what their footers say, and how their row groups are read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from probclass_core.arrow.arrays import BATCH_ROWS, joined, read_rows
from probclass_core.errors import TableError, one_line
from probclass_core.execution.threads import prefetch
from probclass_core.io.errors import translate_read_errors
from probclass_core.io.file_versions import FileVersion
from probclass_core.io.footers import Footer
from probclass_core.io.retry import read_again, retry, skip_rows

_FRAGMENT_ROWS = BATCH_ROWS
"""Consecutive row groups of a file are read together up to this many rows."""

# Reading ahead pays on a network; from a local disk it doubles the time. A buffered stream is read
# page by page while the page is in the cache of the processor, so no column of a row group is in
# memory as a whole. Without checksums a flipped bit may be read as another number.
LOCAL_SCAN = ds.ParquetFragmentScanOptions(
    pre_buffer=False, use_buffered_stream=True, page_checksum_verification=True
)
REMOTE_SCAN = ds.ParquetFragmentScanOptions(pre_buffer=True, page_checksum_verification=True)

_NO_DICTIONARIES = "DictAccumulator for Delta"
"""Part of Arrow's error for text in the encodings that it cannot read as dictionaries."""


def with_utf8_names(schema: pa.Schema) -> pa.Schema:
    """Return a schema that was read, after checking its names, which Arrow does not.

    Raises:
        pa.ArrowInvalid: if the name of a column is not UTF-8.
    """
    try:
        list(schema.names)
    except UnicodeDecodeError as error:
        raise pa.ArrowInvalid(f"the name {error.object!r} of a column is not UTF-8") from error
    return schema


def path_of(fragment: ds.Fragment) -> str:
    """Return the path of a file, or a description of a fragment in memory."""
    return str(getattr(fragment, "path", "a dataset in memory"))


def reopened(fragment: ds.Fragment, row_groups: Sequence[int] | None = None) -> ds.Fragment:
    """Return the same file, or some row groups of it, without the footer in memory."""
    if not isinstance(fragment, ds.ParquetFileFragment):
        return fragment
    return fragment.format.make_fragment(
        fragment.path, fragment.filesystem, fragment.partition_expression, row_groups=row_groups
    )


def with_dictionaries(
    fragments: Sequence[ds.Fragment], columns: Sequence[str]
) -> list[ds.Fragment]:
    """Return the same files, with these text columns read as dictionaries."""
    options = ds.ParquetReadOptions(dictionary_columns=list(columns))
    parquet = ds.ParquetFileFormat(read_options=options)
    return [
        parquet.make_fragment(fragment.path, fragment.filesystem, fragment.partition_expression)
        for fragment in fragments
    ]


@dataclass(frozen=True)
class PlannedFile:
    """A file that a plan reads.

    Attributes:
        fragment: the file.
        state: text that differs between two states of the file.
        schema: schema of its columns as stored.
        row_groups: number and rows of each row group; empty if it is not a Parquet file.
        reopen: whether the footer is not in memory, but read again with the rows.
    """

    fragment: ds.Fragment
    state: str
    schema: pa.Schema
    row_groups: tuple[tuple[int, int], ...]
    reopen: bool = False

    @classmethod
    def open(cls, fragment: ds.Fragment, state: str, *, reopen: bool) -> PlannedFile:
        """Read the footer of a file.

        Args:
            fragment: the file.
            state: its state.
            reopen: whether to drop the footer from memory, and read it again with the rows.
        """
        if not isinstance(fragment, ds.ParquetFileFragment):
            return cls(fragment, state, fragment.physical_schema, ())
        opened = with_dictionaries([fragment], ())[0] if reopen else fragment
        schema = opened.physical_schema
        if opened.format.read_options.dictionary_columns:
            # This is the stored schema, without those dictionaries. It is not the default, for it
            # and the footer refer to each other until garbage is collected, which adds up.
            schema = opened.metadata.schema.to_arrow_schema()
        row_groups = tuple((group.id, group.num_rows) for group in opened.row_groups)
        return cls(fragment, state, with_utf8_names(schema), row_groups, reopen)

    @classmethod
    def from_footer(cls, fragment: ds.Fragment, state: str, footer: Footer) -> PlannedFile:
        """Describe a file by its cached footer, without opening it."""
        return cls(fragment, state, footer.schema, tuple(enumerate(footer.rows)), reopen=True)

    def footer(self, digest: str) -> Footer:
        """Return the footer to cache.

        Args:
            digest: digest of the file; see `Footer`.
        """
        rows = tuple(rows for _, rows in self.row_groups)
        return Footer(digest, self.schema.remove_metadata(), rows)

    def chunks(self) -> Iterator[tuple[ds.Fragment, tuple[int, ...], int]]:
        """Split into consecutive row groups, up to `_FRAGMENT_ROWS` rows together.

        Yields:
            ``(fragment, numbers, rows)``: the file with some row groups, their numbers, and their
            number of rows. A file that is not Parquet is one chunk without numbers.
        """
        if not isinstance(self.fragment, ds.ParquetFileFragment):
            yield self.fragment, (), self.fragment.count_rows()
            return
        numbers: list[int] = []
        chunk_rows = 0
        for number, rows in self.row_groups:
            if numbers and chunk_rows + rows > _FRAGMENT_ROWS:
                yield self._chunk(numbers), tuple(numbers), chunk_rows
                numbers, chunk_rows = [], 0
            numbers.append(number)
            chunk_rows += rows
        if numbers:
            yield self._chunk(numbers), tuple(numbers), chunk_rows

    def _chunk(self, numbers: list[int]) -> ds.Fragment:
        # To take a subset, Arrow would read the footer.
        if self.reopen:
            return reopened(self.fragment, numbers)
        return self.fragment.subset(row_group_ids=numbers)


@dataclass(frozen=True)
class RowGroups:
    """Some row groups of one file: a fragment of a table.

    Attributes:
        fragment: the file with these row groups alone.
        numbers: numbers of the row groups in the file; empty if it is not a Parquet file.
        rows: number of rows.
        schema: schema of the table, in the types that this file is read as.
        columns: names of the columns to read.
        row_filter: rows to read, or None for all.
        location: path or URI of the file, for messages.
        scan_options: how Arrow reads the file.
        digest: see `io.table.Fragment`.
        version: the file in the state in which it was planned, or None if its format never changes
            a file.
        reopen: whether Arrow forgets the footer after reading; it adds up over many files.
    """

    fragment: ds.Fragment
    numbers: tuple[int, ...]
    rows: int
    schema: pa.Schema
    columns: Sequence[str]
    row_filter: pc.Expression | None
    location: str
    scan_options: ds.ParquetFragmentScanOptions
    digest: str | None
    version: FileVersion | None
    reopen: bool

    def __str__(self) -> str:
        if not self.numbers:
            return self.location
        return f"{self.location} (row groups {self.numbers[0]} to {self.numbers[-1]})"

    def read(self) -> Iterator[pa.RecordBatch]:
        """Read the rows; after a transient error, continue behind the last batch."""
        if self.reopen:
            fragment = reopened(self.fragment, self.numbers)
            yield from replace(self, fragment=fragment, reopen=False).read()
            return

        def batches() -> Iterator[pa.RecordBatch]:
            self._check_unchanged()
            return self._batches()

        unchanged = nullcontext() if self.version is None else self.version.unchanged()
        with unchanged, translate_read_errors(self.location):
            # Joining batches with values that are not valid might end the process.
            whole = joined(map(self._checked, read_again(batches)), self._batch_rows)
            yield from prefetch(whole) if self.rows > self._batch_rows else whole

    def footer_counts(self, column: str) -> tuple[int, int] | None:
        """Count the rows, before any row filter, and those in which a column is not null.

        None if the footer does not say: it lacks the column or the statistics.

        Raises:
            TableError: if the footer cannot be read.
        """
        if not self.numbers:
            return None
        with translate_read_errors(self.location):
            footer = retry(lambda: reopened(self.fragment).metadata)
        names = [footer.schema.column(leaf).path for leaf in range(footer.num_columns)]
        if column not in names or max(self.numbers) >= footer.num_row_groups:
            return None
        rows = nulls = 0
        for number in self.numbers:
            group = footer.row_group(number)
            statistics = group.column(names.index(column)).statistics
            if statistics is None or not statistics.has_null_count:
                return None
            rows, nulls = rows + group.num_rows, nulls + statistics.null_count
        return rows, rows - nulls

    def _check_unchanged(self) -> None:
        """Detect a file that was replaced since the plan was made, by its number of rows."""
        if not self.numbers:
            return
        try:
            rows = sum(group.num_rows for group in self.fragment.row_groups)
        except pa.ArrowIndexError:  # the file has fewer row groups now
            rows = -1
        if rows != self.rows:
            raise TableError(f"{self.location} has changed while it was being read; run it again.")

    def _checked(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Refuse text that is not UTF-8, and lists and dictionaries that point outside themselves.

        Arrow accepts them in a file without checksums, or from a writer that does not check.
        """
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if not (pa.types.is_primitive(column.type) or pa.types.is_decimal(column.type)):
                try:
                    column.validate(full=True)
                except pa.ArrowInvalid as error:
                    reason = one_line(error).rstrip(".")
                    raise TableError(
                        f"cannot read column {name!r} of {self.location}: {reason}; write the file "
                        "again with valid values, text in UTF-8."
                    ) from error
        return batch

    def _batches(self) -> Iterator[pa.RecordBatch]:
        rows = 0
        try:
            for batch in self._scan(self.fragment):
                rows += batch.num_rows
                yield batch
        except OSError as error:
            if _NO_DICTIONARIES not in str(error):
                raise
            (stored,) = with_dictionaries([self.fragment], ())
            yield from skip_rows(rows, self._scan(reopened(stored, self.numbers)))

    @property
    def _batch_rows(self) -> int:
        """Largest number of rows of a batch."""
        return read_rows(pa.schema([self.schema.field(name) for name in self.columns]))

    def _scan(self, fragment: ds.Fragment) -> Iterator[pa.RecordBatch]:
        batches: Iterator[pa.RecordBatch] = fragment.to_batches(
            schema=self.schema,
            columns=list(self.columns),
            filter=self.row_filter,
            batch_size=self._batch_rows,
            batch_readahead=2,
            fragment_scan_options=self.scan_options,
            use_threads=False,
        )
        return batches
