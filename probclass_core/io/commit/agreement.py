"""Whether rows go together: the same columns by name, of types that agree."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from probclass_core.arrow.types import value_type
from probclass_core.errors import TableError, one_of


def refuse_other_columns(
    uri: str, rows: pa.Schema, held: pa.Schema, *, partition: Iterable[str], exactly: bool
) -> None:
    """Refuse rows that have not the columns of a table, in whatever order.

    Args:
        uri: of the table, for messages.
        rows: their schema, without the partition columns.
        held: the table's, with or without them.
        partition: names of the partition columns.
        exactly: whether types must be equal, as in a log, or have one in common, as in files that
            each have their own.

    Raises:
        TableError: a column is not in the table, or of another type, or lacking.
    """
    for column in rows:
        if column.name not in held.names:
            raise TableError(
                f"{uri} has no column {column.name!r}; it has {one_of(held.names)}: write another "
                "table, or add the column."
            )
        kind = held.field(column.name).type
        if kind != column.type and (exactly or common_type([kind, column.type]) is None):
            raise TableError(
                f"column {column.name!r} is {column.type} here and {kind} in {uri}; cast it, or "
                "write another table."
            )
    ours = {*rows.names, *partition}
    missing = [name for name in held.names if name not in ours]
    if missing:
        raise TableError(
            f"{uri} also has {one_of(missing)}, which these rows lack; write another table."
        )


def common_type(kinds: Iterable[pa.DataType]) -> pa.DataType | None:
    """The type that a column of files with all these types can be read as; none where none is."""
    kinds = [value_type(kind) for kind in kinds]
    schemas = [pa.schema([("column", kind)]) for kind in kinds]
    try:
        kind = pa.unify_schemas(schemas, promote_options="permissive").field("column").type
        if pa.types.is_decimal(kind) and any(map(pa.types.is_integer, kinds)):
            # Of integers it counts a digit less than it asks for when it casts them.
            digits = kind.precision + 1
            kind = (pa.decimal128 if digits <= 38 else pa.decimal256)(digits, kind.scale)
    except (pa.ArrowException, ValueError):  # the latter where there are no more digits
        return None
    return kind
