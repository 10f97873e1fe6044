"""Files whose columns or rows are not those of the table: renamed, added or deleted since.

A format that changes its columns matches them to those of older files, by ids or by names that
never change, and one that deletes rows need not write their files again. Such a file is adapted
batch by batch; all others are read like any Parquet file. A nested column whose parts changed is
refused.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from probclass_core.arrow.arrays import read_rows
from probclass_core.errors import TableMismatchError
from probclass_core.io.parquet.dataset import DatasetTable
from probclass_core.io.parquet.files import (
    PlannedFile,
    RowGroups,
    can_stream,
    path_of,
    scan_options_of,
    streamed,
)
from probclass_core.io.parquet.partitions import partition_of

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
    def same(self) -> bool:
        """Whether Arrow reads the column as it is in the table."""
        return self.stored == self.name and self.same_parts


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


def constant(value: Any, kind: pa.DataType, rows: int) -> pa.Array:
    """Return a column of equal values; see `typed_scalar`."""
    return pa.nulls(rows, kind) if value is None else pa.repeat(typed_scalar(value, kind), rows)


def typed_scalar(value: Any, kind: pa.DataType) -> pa.Scalar:
    """Return a value of metadata, where dates and times may be counts since 1970."""
    if isinstance(value, int) and pa.types.is_temporal(kind):
        return pa.scalar(value, pa.int32() if kind.bit_width == 32 else pa.int64()).cast(kind)
    return pa.scalar(value).cast(kind)


class AdaptedFiles(DatasetTable, ABC):
    """A dataset with columns that are matched to those of its files, and with deleted rows."""

    _known: tuple[pa.Schema, tuple[StoredColumn, ...]] | None = None
    """The schema of the file that was matched last, and its columns; most files have the same."""

    @abstractmethod
    def _match(self, file_schema: pa.Schema) -> tuple[StoredColumn, ...]:
        """Return where a file of a schema has each column of the table."""

    @abstractmethod
    def _deleted_positions(self, path: str) -> pa.Int64Array:
        """Return the positions of all deleted rows of a file, without duplicates."""

    @abstractmethod
    def _deletions(self, path: str) -> Sequence[str]:
        """Return texts that differ between two states of the deleted rows of a file."""

    def _read_schema(self, files: Sequence[PlannedFile]) -> pa.Schema:
        """Return the schema of the table; the types of its files are the same or narrower."""
        return self.schema

    def _stored_columns(self, file: PlannedFile) -> Collection[str]:
        return [
            column.name
            for column in self._stored(file)
            if column.stored is not None or column.default is not None
        ]

    def _adapt(self, row_groups: RowGroups, file: PlannedFile) -> RowGroups:
        deleted = self._deleted_rows(row_groups, file)
        if not len(deleted) and not self._changed_columns(file):
            return row_groups
        stored = {column.name: column for column in self._stored(file)}
        return AdaptedRowGroups(**vars(row_groups), stored=stored, deleted=deleted)

    def _row_state(self, file: PlannedFile) -> str:
        """Identify a file's rows: files never change, but rows are deleted and columns changed."""
        changed = map(str, self._changed_columns(file))
        return "\0".join([file.state, *self._deletions(path_of(file.fragment)), *changed])

    def _stored(self, file: PlannedFile) -> tuple[StoredColumn, ...]:
        """Return where a file has each column of the table."""
        if self._known is None or not self._known[0].equals(file.schema, check_metadata=True):
            self._known = file.schema, self._match(file.schema)
        return self._known[1]

    def _changed_columns(self, file: PlannedFile) -> list[StoredColumn]:
        """Return the columns that Arrow would not read from a file as they are in the table."""
        names = file.schema.names
        return [
            column
            for column in self._stored(file)
            if not column.same
            and (column.stored is not None or column.default is not None or column.name in names)
        ]

    def _deleted_rows(self, rows: RowGroups, file: PlannedFile) -> pa.Int64Array:
        """Return the positions in the file of the deleted rows of these row groups."""
        positions = self._deleted_positions(path_of(rows.fragment))
        first = sum(count for number, count in file.row_groups if number < min(rows.numbers))
        in_groups = pc.and_(
            pc.greater_equal(positions, first), pc.less(positions, first + rows.rows)
        )
        return positions.filter(in_groups)


@dataclass(frozen=True)
class AdaptedRowGroups(RowGroups):
    """Row groups that are renamed, cast and filtered to the columns and rows of the table.

    Attributes:
        stored: where the file has the columns of the table, by their names.
        deleted: positions in the file of the deleted rows.
    """

    stored: Mapping[str, StoredColumn]
    deleted: pa.Int64Array

    def _scan(self, fragment: ds.Fragment) -> Iterator[pa.RecordBatch]:
        needed = self._needed_columns()
        in_file = {stored for name in needed if (stored := self.stored[name].stored) is not None}
        for groups in self._matching_groups(fragment):
            yield from self._adapted(groups, needed, sorted(in_file))

    @property
    def remaining_rows(self) -> int:
        return self.rows - len(self.deleted)

    def _matching_groups(self, fragment: ds.Fragment) -> Sequence[ds.Fragment]:
        """Return the row groups that may contain rows of the filter, by their statistics."""
        if self.row_filter is None or not all(column.same for column in self.stored.values()):
            return [fragment]
        return list(fragment.split_by_row_group(self.row_filter, self.schema))

    def _adapted(
        self, fragment: ds.Fragment, needed: Sequence[str], in_file: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        position = _first_row(fragment)
        schema = pa.schema([self.schema.field(name) for name in needed])
        for batch in self._stored(fragment, in_file, read_rows(schema)):
            rows = pa.table([self._column(batch, name) for name in needed], schema=schema)
            if len(self.deleted):
                positions = pa.array(np.arange(position, position + batch.num_rows))
                rows = rows.filter(pc.invert(pc.is_in(positions, self.deleted)))
            position += batch.num_rows
            if self.row_filter is not None:
                rows = rows.filter(self.row_filter)
            yield from rows.select(list(self.columns)).to_batches()

    def _stored(
        self, fragment: ds.Fragment, columns: Sequence[str], rows: int
    ) -> Iterator[pa.RecordBatch]:
        """Read columns of the file as it has them."""
        stored = pa.schema([fragment.physical_schema.field(name) for name in columns])
        if can_stream(fragment, stored):
            return streamed(fragment, stored, rows, self.scan_options)
        batches: Iterator[pa.RecordBatch] = fragment.to_batches(
            columns=list(columns),
            batch_size=rows,
            batch_readahead=2,
            fragment_scan_options=scan_options_of(fragment, self.scan_options),
            use_threads=False,
        )
        return batches

    def _needed_columns(self) -> list[str]:
        """Return the requested columns and those of the filter."""
        requested = [*self.columns, *self._partition]
        return [name for name in self.schema.names if name in requested or self._filter_uses(name)]

    def _filter_uses(self, name: str) -> bool:
        """Whether the filter has a column; an expression cannot be inspected, so try without."""
        if self.row_filter is None:
            return False
        try:
            self.schema.empty_table().drop_columns(name).filter(self.row_filter)
        except pa.ArrowInvalid:
            return True
        return False

    @property
    def _partition(self) -> dict[str, Any]:
        """The partition columns with one value in the file, which the file need not contain."""
        return partition_of(self.fragment)

    def _column(self, batch: pa.RecordBatch, name: str) -> pa.Array:
        kind = self.schema.field(name).type
        stored = self.stored[name]
        if stored.stored is None:
            value = self._partition.get(name, stored.default)
            return constant(value, kind, batch.num_rows)
        if not stored.same_parts:
            raise TableMismatchError(
                f"column {name!r} has other parts in {self.location} than in the table; rewrite "
                "the data files, or leave the column out."
            )
        column = batch.column(stored.stored)
        if pa.types.is_dictionary(kind) and column.type != kind:
            return column.cast(kind.value_type).dictionary_encode()
        return column.cast(kind)


def _first_row(fragment: ds.Fragment) -> int:
    """Return the position in its file of the first row of consecutive row groups."""
    groups_before = range(fragment.row_groups[0].id)
    return sum(fragment.metadata.row_group(number).num_rows for number in groups_before)
