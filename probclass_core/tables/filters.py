"""Which rows: plain, templatable values on the outside, Arrow expressions on the inside."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.errors import SpecError, TableError, one_of

Condition = Sequence[Any]
Where: TypeAlias = Sequence[Condition] | pc.Expression | None
"""Conditions ``(column, op, value)`` that must all hold, or a ready expression, or no condition."""

_OPERATORS: Mapping[str, Callable[[pc.Expression, Any], pc.Expression]] = {
    "==": lambda column, value: column == value,
    "=": lambda column, value: column == value,
    "!=": lambda column, value: column != value,
    "<": lambda column, value: column < value,
    "<=": lambda column, value: column <= value,
    ">": lambda column, value: column > value,
    ">=": lambda column, value: column >= value,
    "in": lambda column, value: column.isin(value),
    "not in": lambda column, value: ~column.isin(value),
}


def expression(
    schema: pa.Schema, partition: Mapping[str, Any] | None, where: Where
) -> pc.Expression | None:
    """One expression for a partition and conditions, or none.

    Values are cast to the type of their column, so text from a template or a command line compares
    with numbers and times.

    Raises:
        TableError: a column is not there.
        SpecError: a condition is malformed, or a value is of no use for its column.
    """
    terms = [_condition(schema, (name, "==", value)) for name, value in (partition or {}).items()]
    if isinstance(where, pc.Expression):
        terms.append(where)
    elif where is not None:
        terms.extend(_condition(schema, condition) for condition in where)
    if not terms:
        return None
    whole = terms[0]
    for term in terms[1:]:
        whole = whole & term
    return whole


def _condition(schema: pa.Schema, condition: Condition) -> pc.Expression:
    if isinstance(condition, str) or len(condition) != 3 or condition[1] not in _OPERATORS:
        raise SpecError(
            f"condition {condition!r} is not (column, op, value) with op one of "
            f"{one_of(_OPERATORS)}."
        )
    name, operator, value = condition
    if name not in schema.names:
        raise TableError(f"no column {name!r} to filter by; the table has {one_of(schema.names)}.")
    kind = schema.field(name).type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    try:
        if operator in ("in", "not in"):
            given = pa.array([pa.scalar(item).cast(kind) for item in value], kind)
        else:
            given = pa.scalar(value).cast(kind)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise SpecError(
            f"condition {condition!r}: {value!r} cannot be compared with {kind}."
        ) from error
    return _OPERATORS[operator](pc.field(name), given)
