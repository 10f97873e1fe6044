"""The files of a plan: where they have the columns of a table, and how row groups are read.

A format that changes its columns matches them to those of older files, by ids or by names that
never change. A nested column whose parts changed is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
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
from probclass_core.io.failures import read_again, skip_rows, translate_read_errors
from probclass_core.io.filesystem import FileVersion
from probclass_core.io.parquet.column_chunks import check_columns
from probclass_core.io.table import Footer, Unit

_CHUNK_ROWS = BATCH_ROWS
"""Consecutive row groups of a file are read together up to this many rows."""

_BUFFER_BYTES = 65_536
"""Bytes that are read from a file at once."""

_NO_DICTIONARIES = "DictAccumulator for Delta"
"""Part of Arrow's error for text in the encodings that it cannot read as dictionaries."""

FIELD_ID = b"PARQUET:field_id"
"""Key of a column id in the metadata of an Arrow field."""


def field_id(field: pa.Field) -> int | None:
    """Return the id that a file gives to a column, or None."""
    number = (field.metadata or {}).get(FIELD_ID)
    return None if number is None else int(number)


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
    def present(self) -> bool:
        """Whether the file tells the values of the column."""
        return self.stored is not None or self.default is not None

    @property
    def same(self) -> bool:
        """Whether Arrow reads the column as it is in the table."""
        return self.stored == self.name and self.same_parts


def typed_scalar(value: Any, kind: pa.DataType) -> pa.Scalar:
    """Return a value of metadata, where dates and times may be counts since 1970."""
    if isinstance(value, int) and pa.types.is_temporal(kind):
        return pa.scalar(value, pa.int32() if kind.bit_width == 32 else pa.int64()).cast(kind)
    return pa.scalar(value).cast(kind)


@dataclass(frozen=True)
class ColumnMatch:
    """How a format matches columns of a table to those of a file.

    Attributes:
        table_key: function that returns what identifies a column of the table.
        file_key: function that returns the key of the table's column for a column of a file, or
            None if it is no such column.
        default: function that returns the value of a column in files that lack it; None is null.
    """

    table_key: Callable[[pa.Field], Hashable]
    file_key: Callable[[pa.Field], Hashable | None]
    default: Callable[[pa.Field], Any] = lambda field: None

    def columns(
        self, table: Iterable[pa.Field], file: Iterable[pa.Field]
    ) -> tuple[StoredColumn, ...]:
        """Return where a file has each column of the table."""
        by_key = {self.file_key(field): field for field in file}
        by_key.pop(None, None)
        return tuple(self._column(field, by_key.get(self.table_key(field))) for field in table)

    def _column(self, field: pa.Field, found: pa.Field | None) -> StoredColumn:
        if found is None:
            return StoredColumn(field.name, None, self.default(field))
        same_parts = _has_same_parts(field.type, found.type)
        return StoredColumn(field.name, found.name, same_parts=same_parts)


def _has_same_parts(table: pa.DataType, file: pa.DataType) -> bool:
    """Whether two nested types have fields of the same names and ids, in the same order."""
    if not pa.types.is_nested(table) or not pa.types.is_nested(file):
        return True
    if table.num_fields != file.num_fields:
        return False
    pairs = [(table.field(number), file.field(number)) for number in range(table.num_fields)]
    named = pa.types.is_struct(table)  # what lists and maps contain is named as the writer likes
    return all(
        _has_same_parts(own.type, stored.type)
        and not (named and (own.name != stored.name or _differ(own, stored)))
        for own, stored in pairs
    )


def _differ(own: pa.Field, stored: pa.Field) -> bool:
    return None not in (field_id(own), field_id(stored)) and field_id(own) != field_id(stored)


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


def reopened(fragment: ds.Fragment) -> ds.Fragment:
    """Return the same file without the footer in memory."""
    return fragment.format.make_fragment(
        fragment.path, fragment.filesystem, fragment.partition_expression
    )


def partition_of(fragment: ds.Fragment) -> dict[str, Any]:
    """Return the partition columns that have one value in a whole file, with their values."""
    return dict(ds.get_partition_keys(fragment.partition_expression))


def partition_condition(partition: Mapping[str, Any], schema: pa.Schema) -> pc.Expression:
    """Return the condition that all rows of a file meet by its partition."""
    condition = pc.scalar(value=True)
    for name in partition:
        value = typed_scalar(partition[name], schema.field(name).type)
        condition &= pc.field(name) == value if value.is_valid else pc.field(name).is_null()
    return condition


def partition_values(fragment: ds.Fragment, names: Sequence[str]) -> tuple[Any, ...]:
    """Return the values of partition columns, None for one that the file is in no folder of."""
    values = partition_of(fragment) if names else {}
    return tuple(values.get(name) for name in names)


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if column.type == kind:
        return column
    if pa.types.is_dictionary(kind):
        return column.cast(kind.value_type).dictionary_encode()
    return column.cast(kind)


def _check_indices(column: pa.DictionaryArray) -> None:
    """Refuse indices outside the dictionary, in an eighth of the time that `validate` takes.

    Raises:
        pa.ArrowInvalid: naming such an index.
    """
    for end in pc.min_max(column.indices).as_py().values():
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
        name: name in the table, which remains the same if the table is copied.
        location: path or URI, for messages.
        schema: schema of its columns as stored.
        rows: number of rows of each row group; empty if it is not a Parquet file.
        reopen: whether the footer is not in memory, but read again with the rows.
        from_cache: digest of the file if its footer is from a cache, or None.
        version: the file in this state, or None if its format never changes a file.
        changed: where it has the columns that it does not have as the table does, by name.
        checked: columns whose description in the footer was found right, as its units need them.
    """

    fragment: ds.Fragment
    state: str
    name: str
    location: str
    schema: pa.Schema
    rows: tuple[int, ...]
    reopen: bool
    from_cache: str | None = None
    version: FileVersion | None = None
    changed: Mapping[str, StoredColumn] = field(default_factory=dict)
    checked: set[str] = field(default_factory=set, compare=False, repr=False)

    def footer(self, digest: str) -> Footer:
        """Return the footer to cache.

        Args:
            digest: digest of the file; see `Footer`.
        """
        return Footer(digest, self.schema.remove_metadata(), self.rows)

    def chunks(self) -> Iterator[tuple[int, ...]]:
        """Yield the numbers of consecutive row groups, up to `_CHUNK_ROWS` rows together."""
        numbers: list[int] = []
        chunk_rows = 0
        for number, rows in enumerate(self.rows):
            if numbers and chunk_rows + rows > _CHUNK_ROWS:
                yield tuple(numbers)
                numbers, chunk_rows = [], 0
            numbers.append(number)
            chunk_rows += rows
        if numbers:
            yield tuple(numbers)


@dataclass(frozen=True)
class Reading:
    """What a plan reads of its files.

    Attributes:
        schema: schema of the table, in the types that the files are read as.
        columns: names of the columns to read.
        row_filter: rows to read, or None for all.
        dictionaries: text columns that are read as dictionaries.
        remote: whether the files are read over a network.
    """

    schema: pa.Schema
    columns: Sequence[str]
    row_filter: pc.Expression | None
    dictionaries: Collection[str]
    remote: bool

    @cached_property
    def batch_rows(self) -> int:
        """Largest number of rows of a batch."""
        return read_rows(pa.schema([self.schema.field(name) for name in self.columns]))

    @cached_property
    def needed(self) -> list[str]:
        """The columns to read, requested or used by the filter, in the order of the table.

        An expression cannot be inspected, so the names in its text count, even those of values.
        """
        text = "" if self.row_filter is None else str(self.row_filter)
        return [name for name in self.schema.names if name in self.columns or name in text]


@dataclass(frozen=True)
class RowGroups(Unit):
    """Some row groups of one file.

    Attributes:
        file: the file.
        numbers: numbers of the row groups in the file.
        reading: what is read of them.
        digest: see `io.table.Unit`.
        deleted: positions in the file of the deleted rows; None if there are none.
    """

    file: PlannedFile
    numbers: tuple[int, ...]
    reading: Reading
    digest: str | None
    deleted: pa.Int64Array | None = None

    def __str__(self) -> str:
        return f"{self.file.location} (row groups {self.numbers[0]} to {self.numbers[-1]})"

    @property
    def rows(self) -> int:
        """Number of rows, deleted ones included."""
        return sum(self.file.rows[number] for number in self.numbers)

    @property
    def begins_file(self) -> bool:
        """Whether the first row group of the file is among them."""
        return 0 in self.numbers

    @property
    def is_whole_file(self) -> bool:
        """Whether they are all of a Parquet file."""
        return len(self.numbers) == len(self.file.rows) > 0

    def without(self, positions: pa.Int64Array) -> RowGroups:
        """Return the same row groups without the rows at these positions in the file."""
        first = sum(self.file.rows[: self.numbers[0]])
        in_groups = pc.and_(
            pc.greater_equal(positions, first), pc.less(positions, first + self.rows)
        )
        deleted = positions.filter(in_groups)
        return replace(self, deleted=deleted) if len(deleted) else self

    @property
    def remaining_rows(self) -> int:
        """Number of rows that are not deleted."""
        return self.rows if self.deleted is None else self.rows - len(self.deleted)

    def read(self) -> Iterator[pa.RecordBatch]:
        """Read the rows; after a transient error, continue behind the last batch."""
        file, batch_rows = self.file, self.reading.batch_rows
        unchanged = nullcontext() if file.version is None else file.version.unchanged()
        with unchanged, translate_read_errors(file.location), self._named_column():
            # Joining batches with values that are not valid might end the process.
            read = read_again(self._batches, remote=self.reading.remote)
            whole = joined(map(self._checked, read), batch_rows)
            yield from prefetch(whole) if self.rows > batch_rows else whole

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
        """The file; what Arrow keeps of the footer goes with it, unless the plan has it."""
        return reopened(self.file.fragment) if self.file.reopen else self.file.fragment

    def _check_columns(self, fragment: ds.Fragment) -> None:
        """Check what the footer says about the columns that are read and filtered."""
        if not self.file.checked.issuperset(self.reading.needed):
            check_columns(fragment, self.file.location, self.reading.needed)
            self.file.checked.update(self.reading.needed)

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
                        f"cannot read column {name!r} of {self.file.location}: {reason}; write the "
                        "file again with valid values, text in UTF-8."
                    ) from error
        return batch

    def _batches(self) -> Iterator[pa.RecordBatch]:
        """Read the rows in the columns of the table."""
        rows = 0
        try:
            for batch in self._scan(self.reading.dictionaries):
                rows += batch.num_rows
                yield batch
        except OSError as error:
            if _NO_DICTIONARIES not in str(error):
                raise
            yield from skip_rows(rows, self._scan(()))

    def _scan(self, dictionaries: Collection[str]) -> Iterator[pa.RecordBatch]:
        """Read the rows in the columns of the table, with some as dictionaries."""
        reading, fragment = self.reading, self.file.fragment
        planned = self._stored_columns(self.file.schema.names)
        with pq.ParquetFile(
            fragment.open(),
            metadata=None if self.file.reopen else fragment.metadata,
            read_dictionary=[
                column.stored for column in planned if column.stored and column.name in dictionaries
            ],
            coerce_int96_timestamp_unit=fragment.format.read_options.coerce_int96_timestamp_unit,
            # Reading ahead pays on a network; from a local disk it doubles the time.
            pre_buffer=reading.remote,
            buffer_size=0 if reading.remote else _BUFFER_BYTES,
            page_checksum_verification=True,  # a flipped bit may be read as another number
        ) as file:
            found = (file.metadata.row_group(n).num_rows for n in range(file.num_row_groups))
            if tuple(found) != self.file.rows:
                raise TableError(
                    f"{self.file.location} has changed while it was being read; run it again."
                )
            columns = self._stored_columns(file.schema_arrow.names)
            schema = self._schema_of(columns)
            in_file = [column.stored for column in columns if column.stored is not None]
            groups = self._matching_groups()
            is_kept, rows_read = None, 0
            if self.deleted is not None:
                is_kept = pc.invert(pc.is_in(_positions(groups, self.file.rows), self.deleted))
            size = sum(self.file.rows[number] for number in groups)
            for batch in _read_groups(file, groups, in_file, size, read_rows(schema)):
                kept = None if is_kept is None else is_kept.slice(rows_read, batch.num_rows)
                rows_read += batch.num_rows
                yield self._requested(batch, columns, kept)

    def _schema_of(self, columns: Sequence[StoredColumn]) -> pa.Schema:
        return pa.schema([self.reading.schema.field(column.name) for column in columns])

    def _requested(
        self,
        batch: pa.RecordBatch,
        columns: Sequence[StoredColumn],
        kept: pa.BooleanArray | None = None,
    ) -> pa.RecordBatch:
        """Return the requested rows and columns of a batch of the file.

        Args:
            batch: the batch.
            columns: where the file has the columns to read; see `needed`.
            kept: which rows are not deleted; None if all are.
        """
        schema, row_filter = self._schema_of(columns), self.reading.row_filter
        arrays = [self._column(batch, *one) for one in zip(columns, schema.types, strict=True)]
        rows = pa.RecordBatch.from_arrays(arrays, schema=schema)
        rows = rows if kept is None else rows.filter(kept)
        rows = rows if row_filter is None else rows.filter(row_filter)
        return rows.select(list(self.reading.columns))

    def _stored_columns(self, in_file: Collection[str]) -> list[StoredColumn]:
        """Return where the file has the columns to read; see `needed`.

        The value of the partition comes before a column of the file with the same name.
        """
        partition, columns = partition_of(self.file.fragment), []
        for name in self.reading.needed:
            if name in partition:
                columns.append(StoredColumn(name, None, partition[name]))
            else:
                stored = StoredColumn(name, name if name in in_file else None)
                columns.append(self.file.changed.get(name, stored))
        return columns

    def _matching_groups(self) -> Sequence[int]:
        """Return the row groups that may contain rows of the filter, by their statistics."""
        if self.reading.row_filter is None:
            return self.numbers
        fragment = self._opened
        self._check_columns(fragment)  # the filter uses what the footer says about them
        if self.file.changed:
            return self.numbers
        found = fragment.subset(self.reading.row_filter, self.reading.schema).row_groups
        return [group.id for group in found if group.id in self.numbers]

    def _column(self, batch: pa.RecordBatch, column: StoredColumn, kind: pa.DataType) -> pa.Array:
        """Return a column of the table for a batch of the file."""
        if not column.same_parts:
            raise TableMismatchError(
                f"column {column.name!r} has other parts in {self.file.location} than in the "
                "table; rewrite the data files, or leave the column out."
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
    for batch in file.iter_batches(rows, groups, columns, use_threads=False):
        found += batch.num_rows
        yield batch
    if found != size:
        raise pa.ArrowInvalid(f"its pages have {found} rows, but its footer says {size}")


def _positions(groups: Sequence[int], rows_of: Sequence[int]) -> pa.Int64Array:
    """Return the positions in its file of the rows of some row groups."""
    ends = np.cumsum(rows_of)
    ranges = [np.arange(ends[number] - rows_of[number], ends[number]) for number in groups]
    return pa.array(np.concatenate([np.arange(0), *ranges]))
