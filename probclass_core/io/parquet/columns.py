"""Where files have the columns of a table.

A format that changes its columns matches them to those of older files, by ids or by names that
never change. A nested column whose parts changed is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

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
