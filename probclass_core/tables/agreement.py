"""Whether rows go with those that a table has: the same columns by name, of types that agree."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

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
        if kind != column.type and (exactly or not _common(kind, column.type)):
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


def _common(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether files of both types can be read as one table."""
    kinds = [kind.value_type if pa.types.is_dictionary(kind) else kind for kind in (one, other)]
    try:
        pa.unify_schemas(
            [pa.schema([("column", kind)]) for kind in kinds], promote_options="permissive"
        )
    except pa.ArrowException:
        return False
    return True
