"""Files whose columns or rows are not those of the table: renamed, added or deleted since.

A format that changes its columns matches them to those of older files, by ids or by names that
never change, and one that deletes rows need not write their files again. So each
file says where it has the columns of the table, and which of its rows are deleted. A nested column
whose parts changed is refused.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from probclass_core.io.parquet.dataset import DatasetTable
from probclass_core.io.parquet.files import (
    PlannedFile,
    Reading,
    RowGroups,
    StoredColumn,
    path_of,
)
from probclass_core.io.table import Footer

FIELD_ID = b"PARQUET:field_id"
"""Key of a column id in the metadata of an Arrow field."""


def field_id(field: pa.Field) -> int | None:
    """Return the id that a file gives to a column, or None."""
    number = (field.metadata or {}).get(FIELD_ID)
    return None if number is None else int(number)


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

    def _planned_file(
        self, fragment: ds.Fragment, state: str, footer: Footer | None, *, reopen: bool
    ) -> PlannedFile:
        file = super()._planned_file(fragment, state, footer, reopen=reopen)
        changed = {column.name: column for column in self._changed_columns(file)}
        return replace(file, changed=changed)

    def _row_groups(
        self, file: PlannedFile, numbers: tuple[int, ...], reading: Reading, digest: str | None
    ) -> RowGroups:
        rows = super()._row_groups(file, numbers, reading, digest)
        return replace(rows, deleted=self._deleted_rows(rows))

    def _row_state(self, file: PlannedFile) -> str:
        """Identify a file's rows: files never change, but rows are deleted and columns changed."""
        changed = map(str, file.changed.values())
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

    def _deleted_rows(self, rows: RowGroups) -> pa.Int64Array | None:
        """Return the positions in the file of the deleted rows of these row groups, if any."""
        positions = self._deleted_positions(path_of(rows.file.fragment))
        first = sum(rows.file.rows[: rows.numbers[0]])
        in_groups = pc.and_(
            pc.greater_equal(positions, first), pc.less(positions, first + rows.rows)
        )
        deleted = positions.filter(in_groups)
        return deleted if len(deleted) else None
