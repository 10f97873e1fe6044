"""The files of a plan: what their footers say, and how their row groups are read."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from probclass_core.arrow.arrays import BATCH_ROWS, joined, read_rows
from probclass_core.arrow.types import value_type
from probclass_core.errors import TableError, TableMismatchError, one_line
from probclass_core.execution.threads import prefetch
from probclass_core.io.errors import translate_read_errors
from probclass_core.io.filesystem import FileVersion
from probclass_core.io.parquet.column_chunks import check_columns
from probclass_core.io.parquet.partitions import partition_of
from probclass_core.io.retry import read_again, skip_rows
from probclass_core.io.table import Footer, Unit

_CHUNK_ROWS = BATCH_ROWS
"""Consecutive row groups of a file are read together up to this many rows."""

_FEW_ROWS = 16_384
"""Up to this many rows of a file are read at once, which takes less time than batch by batch."""

_BUFFER_BYTES = 65_536
"""Bytes that are read from a file at once."""

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
    """Return the path of a file in its file system."""
    return str(fragment.path)


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
    if not fragments:
        return []
    options = ds.ParquetReadOptions(
        dictionary_columns=list(columns),
        coerce_int96_timestamp_unit=_unit_of_int96(fragments[0]),
    )
    parquet = ds.ParquetFileFormat(read_options=options)
    return [
        parquet.make_fragment(fragment.path, fragment.filesystem, fragment.partition_expression)
        for fragment in fragments
    ]


def _unit_of_int96(fragment: ds.ParquetFileFragment) -> str:
    """Return the unit of times that a file stores as INT96, which goes beyond nanoseconds."""
    return str(fragment.format.read_options.coerce_int96_timestamp_unit)


@dataclass(frozen=True)
class StoredColumn:
    """Where a file has a column of the table.

    Attributes:
        name: name in the table.
        stored: name in the file, or None if the file lacks it.
        default: value of all rows if the file lacks it; None is null.
        same_parts: whether a nested column has the parts that the table has, in the same order.
    """

    name: str
    stored: str | None
    default: Any = None
    same_parts: bool = True

    @property
    def same(self) -> bool:
        """Whether Arrow reads the column as it is in the table."""
        return self.stored == self.name and self.same_parts


def typed_scalar(value: Any, kind: pa.DataType) -> pa.Scalar:
    """Return a value of metadata, where dates and times may be counts since 1970."""
    if isinstance(value, int) and pa.types.is_temporal(kind):
        return pa.scalar(value, pa.int32() if kind.bit_width == 32 else pa.int64()).cast(kind)
    return pa.scalar(value).cast(kind)


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if column.type == kind:
        return column
    if pa.types.is_dictionary(kind):
        return column.cast(kind.value_type).dictionary_encode()
    return column.cast(kind)


def _check_indices(column: pa.DictionaryArray) -> None:
    """Refuse indices outside the dictionary, in less time than Arrow, which looks at each.

    Raises:
        pa.ArrowInvalid: naming such an index.
    """
    ends = pc.min_max(column.indices)
    for end in (ends["min"].as_py(), ends["max"].as_py()):
        if end is not None and not 0 <= end < len(column.dictionary):
            raise pa.ArrowInvalid(
                f"index {end} is not in its dictionary of {len(column.dictionary)} values"
            )


@dataclass(frozen=True)
class PlannedFile:
    """A file that a plan reads.

    Attributes:
        fragment: the file.
        state: text that differs between two states of the file.
        schema: schema of its columns as stored.
        row_groups: number and rows of each row group; empty if it is not a Parquet file.
        reopen: whether the footer is not in memory, but read again with the rows.
        from_cache: digest of the file if its footer is from a cache, or None.
    """

    fragment: ds.Fragment
    state: str
    schema: pa.Schema
    row_groups: tuple[tuple[int, int], ...]
    reopen: bool = False
    from_cache: str | None = None

    @classmethod
    def open(cls, fragment: ds.Fragment, state: str, *, reopen: bool) -> PlannedFile:
        """Read the footer of a file.

        Args:
            fragment: the file.
            state: its state.
            reopen: whether to drop the footer from memory, and read it again with the rows.
        """
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
        row_groups = tuple(enumerate(footer.rows))
        return cls(fragment, state, footer.schema, row_groups, True, footer.file)

    def footer(self, digest: str) -> Footer:
        """Return the footer to cache.

        Args:
            digest: digest of the file; see `Footer`.
        """
        rows = tuple(rows for _, rows in self.row_groups)
        return Footer(digest, self.schema.remove_metadata(), rows)

    def chunks(self) -> Iterator[tuple[ds.Fragment, tuple[int, ...], int]]:
        """Split into consecutive row groups, up to `_CHUNK_ROWS` rows together.

        Yields:
            ``(fragment, numbers, rows)``: the file with some row groups, their numbers, and their
            number of rows.
        """
        numbers: list[int] = []
        chunk_rows = 0
        for number, rows in self.row_groups:
            if numbers and chunk_rows + rows > _CHUNK_ROWS:
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
class RowGroups(Unit):
    """Some row groups of one file.

    Attributes:
        fragment: the file with these row groups alone.
        numbers: numbers of the row groups in the file.
        rows: number of rows.
        schema: schema of the table, in the types that this file is read as.
        columns: names of the columns to read.
        row_filter: rows to read, or None for all.
        location: path or URI of the file, for messages.
        remote: whether the file is read over a network.
        reopen: see `PlannedFile`.
        digest: see `io.table.Unit`.
        version: the file in the state in which it was planned, or None if its format never changes
            a file.
        changed: where the file has the columns that it does not have as the table does, by name.
        deleted: positions in the file of the deleted rows; None if there are none.
    """

    fragment: ds.Fragment
    numbers: tuple[int, ...]
    rows: int
    schema: pa.Schema
    columns: Sequence[str]
    row_filter: pc.Expression | None
    location: str
    remote: bool
    reopen: bool
    digest: str | None
    version: FileVersion | None
    changed: Mapping[str, StoredColumn] = field(default_factory=dict)
    deleted: pa.Int64Array | None = None

    def __str__(self) -> str:
        return f"{self.location} (row groups {self.numbers[0]} to {self.numbers[-1]})"

    def read(self) -> Iterator[pa.RecordBatch]:
        """Read the rows; after a transient error, continue behind the last batch."""
        unchanged = nullcontext() if self.version is None else self.version.unchanged()
        with unchanged, translate_read_errors(self.location), self._named_column():
            # Joining batches with values that are not valid might end the process.
            read = read_again(self._batches, remote=self.remote)
            whole = joined(map(self._checked, read), self.batch_rows)
            yield from prefetch(whole) if self.rows > self.batch_rows else whole

    @property
    def remaining_rows(self) -> int:
        """Number of rows that are not deleted."""
        return self.rows if self.deleted is None else self.rows - len(self.deleted)

    @contextmanager
    def _named_column(self) -> Iterator[None]:
        """Name the column that Arrow cannot read, if the footer says why."""
        try:
            yield
        except (pa.ArrowException, OSError):
            self._check_columns(self._opened)
            raise

    @property
    def _opened(self) -> ds.Fragment:
        """The row groups; what Arrow keeps of the footer goes with it, unless the plan has it."""
        return reopened(self.fragment, self.numbers) if self.reopen else self.fragment

    def _check_columns(self, fragment: ds.Fragment) -> None:
        """Check what the footer says about the columns that are read and filtered."""
        check_columns(fragment, self.location, self._needed)

    def _checked(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Refuse text that is not UTF-8, and lists and dictionaries that point outside themselves.

        Arrow accepts them in a file without checksums, or from a writer that does not check.
        """
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if not (pa.types.is_primitive(column.type) or pa.types.is_decimal(column.type)):
                try:
                    if pa.types.is_dictionary(column.type):
                        _check_indices(column)
                        column = column.dictionary
                    column.validate(full=True)
                except pa.ArrowInvalid as error:
                    reason = one_line(error).rstrip(".")
                    raise TableError(
                        f"cannot read column {name!r} of {self.location}: {reason}; write the file "
                        "again with valid values, text in UTF-8."
                    ) from error
        return batch

    def _batches(self) -> Iterator[pa.RecordBatch]:
        """Read the rows in the columns of the table."""
        rows = 0
        try:
            for batch in self._scan(self.fragment.format.read_options.dictionary_columns):
                rows += batch.num_rows
                yield batch
        except OSError as error:
            if _NO_DICTIONARIES not in str(error):
                raise
            yield from skip_rows(rows, self._scan(()))

    @cached_property
    def batch_rows(self) -> int:
        """Largest number of rows of a batch."""
        return read_rows(pa.schema([self.schema.field(name) for name in self.columns]))

    def _scan(self, dictionaries: Collection[str]) -> Iterator[pa.RecordBatch]:
        """Read the rows in the columns of the table, with some as dictionaries."""
        with pq.ParquetFile(
            self.fragment.open(),
            metadata=None if self.reopen else self.fragment.metadata,
            read_dictionary=dictionaries,
            coerce_int96_timestamp_unit=_unit_of_int96(self.fragment),
            # Reading ahead pays on a network; from a local disk it doubles the time.
            pre_buffer=self.remote,
            buffer_size=0 if self.remote else _BUFFER_BYTES,
            page_checksum_verification=True,  # a flipped bit may be read as another number
        ) as file:
            columns = self._stored_columns(file.schema_arrow.names)
            schema = pa.schema([self.schema.field(column.name) for column in columns])
            in_file = [column.stored for column in columns if column.stored is not None]
            rows_of = [file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)]
            if self.numbers[-1] >= len(rows_of) or self.rows != sum(
                rows_of[number] for number in self.numbers
            ):
                raise TableError(
                    f"{self.location} has changed while it was being read; run it again."
                )
            groups = self._matching_groups()
            is_kept, rows_read = None, 0
            if self.deleted is not None:
                is_kept = pc.invert(pc.is_in(_positions(groups, rows_of), self.deleted))
            size = sum(rows_of[number] for number in groups)
            for batch in _read_groups(file, groups, in_file, size, read_rows(schema)):
                arrays = [
                    self._column(batch, *one) for one in zip(columns, schema.types, strict=True)
                ]
                rows = pa.RecordBatch.from_arrays(arrays, schema=schema)
                if is_kept is not None:
                    rows = rows.filter(is_kept.slice(rows_read, batch.num_rows))
                rows_read += batch.num_rows
                if self.row_filter is not None:
                    rows = rows.filter(self.row_filter)
                yield rows.select(list(self.columns))

    def _stored_columns(self, in_file: Collection[str]) -> list[StoredColumn]:
        """Return where the file has the requested columns, and those of the filter."""
        partition, columns = partition_of(self.fragment), []
        for name in self._needed:
            stored = StoredColumn(name, name if name in in_file else None)
            column = self.changed.get(name, stored)
            columns.append(replace(column, default=partition.get(name, column.default)))
        return columns

    def _matching_groups(self) -> Sequence[int]:
        """Return the row groups that may contain rows of the filter, by their statistics."""
        if self.row_filter is None:
            return self.numbers
        fragment = self._opened
        self._check_columns(fragment)  # the filter uses what the footer says about them
        if self.changed:
            return self.numbers
        return [group.id for group in fragment.subset(self.row_filter, self.schema).row_groups]

    @cached_property
    def _needed(self) -> list[str]:
        """The requested columns and those of the filter, in the order of the table."""
        needed, text = {*self.columns}, str(self.row_filter)
        if self.row_filter is not None:
            needed |= {
                name for name in self.schema.names if name in text and self._filter_uses(name)
            }
        return [name for name in self.schema.names if name in needed]

    def _filter_uses(self, name: str) -> bool:
        """Whether the filter has a column; an expression cannot be inspected, so try without."""
        try:
            self.schema.empty_table().drop_columns(name).filter(self.row_filter)
        except pa.ArrowInvalid:
            return True
        return False

    def _column(self, batch: pa.RecordBatch, column: StoredColumn, kind: pa.DataType) -> pa.Array:
        """Return a column of the table for a batch of the file."""
        if not column.same_parts:
            raise TableMismatchError(
                f"column {column.name!r} has other parts in {self.location} than in the table; "
                "rewrite the data files, or leave the column out."
            )
        if column.stored is not None:
            return _cast(batch.column(column.stored), kind)
        if column.default is None:
            return pa.nulls(batch.num_rows, kind)
        value = typed_scalar(column.default, value_type(kind))
        return _cast(pa.repeat(value, batch.num_rows), kind)


def _read_groups(
    file: pq.ParquetFile, groups: Sequence[int], columns: Sequence[str], size: int, rows: int
) -> Iterator[pa.RecordBatch]:
    """Read columns of a file page by page, as they are stored.

    Arrow's scanner has all of a row group in memory. In a new process, the system takes longer to
    provide this memory than the rows take to be read.

    Args:
        file: the file.
        groups: numbers of its row groups.
        columns: names of columns of the file. Others may be read with them: Arrow takes the column
            a.b for a part of the column a.
        size: number of rows of the row groups.
        rows: maximum number of rows of a batch.

    Raises:
        pa.ArrowInvalid: at the end, if Arrow found another number of rows than the footer says.
    """
    found = 0
    if size <= min(rows, _FEW_ROWS):
        batches = file.read_row_groups(groups, columns, use_threads=False).to_batches()
    else:
        batches = file.iter_batches(rows, groups, columns, use_threads=False)
    for batch in batches:
        found += batch.num_rows
        yield batch
    if found != size:
        raise pa.ArrowInvalid(f"its pages have {found} rows, but its footer says {size}")


def _positions(groups: Sequence[int], rows_of: Sequence[int]) -> pa.Int64Array:
    """Return the positions in its file of the rows of some row groups."""
    ends = np.cumsum(rows_of)
    ranges = [np.arange(ends[number] - rows_of[number], ends[number]) for number in groups]
    return pa.array(np.concatenate([np.arange(0), *ranges]))
