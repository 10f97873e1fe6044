"""Filters of rows: plain values, as a template or command line gives them, as Arrow expressions."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.arrow.types import value_type
from probclass_core.errors import SpecError, TableError, nearest, one_of

Condition = Sequence[Any]
Where: TypeAlias = Sequence[Condition] | pc.Expression | None
"""Conditions ``(column, op, value)`` that must all hold; an Arrow expression; or None."""

_OPERATORS: Mapping[str, Callable[[pc.Expression, Any], pc.Expression]] = {
    "==": lambda column, value: column == value,
    "=": lambda column, value: column == value,
    "!=": lambda column, value: column != value,
    "<": lambda column, value: column < value,
    "<=": lambda column, value: column <= value,
    ">": lambda column, value: column > value,
    ">=": lambda column, value: column >= value,
    "in": lambda column, value: column.isin(value),
    # Null does not match, as with "!="; for Arrow it is simply not one of the values.
    "not in": lambda column, value: column.is_valid() & ~column.isin(value),
}


def expression(
    schema: pa.Schema, partition: Mapping[str, Any] | None, where: Where
) -> pc.Expression | None:
    """Return one Arrow expression for a partition and conditions, or None for all rows.

    Values are cast to the type of their column, so text from a template or a command line can be
    compared with numbers and times.

    Raises:
        TableError: if a column does not exist.
        SpecError: if a condition is malformed, or a value cannot be compared with its column.
    """
    values = typed_partition(schema, partition)
    terms = [_condition(schema, (name, "==", value)) for name, value in values.items()]
    if isinstance(where, pc.Expression):
        terms.append(where)
    elif where is not None:
        if not _is_list(where):
            raise SpecError(f"where must be a list of (column, op, value), got {where!r}.")
        terms.extend(_condition(schema, condition) for condition in where)
    return functools.reduce(operator.and_, terms) if terms else None


def typed_partition(schema: pa.Schema, partition: Mapping[str, Any] | None) -> dict[str, Any]:
    """Cast partition values to the types of their columns: "01" of an integer column is 1.

    Raises:
        TableError: if a column does not exist.
        SpecError: if a value cannot be compared with its column.
    """
    if not isinstance(partition, Mapping | None):
        raise SpecError(
            f"partition must be a table such as {{'month': '2014-01'}}, got {partition!r}."
        )
    return {
        name: _scalar(_column_type(schema, name), value, (name, "==", value)).as_py()
        for name, value in (partition or {}).items()
    }


def typed_conditions(
    schema: pa.Schema, partition: Mapping[str, Any] | None, where: Where
) -> list[tuple[str, str, Any]]:
    """Return the conditions that `expression` combines, with values in the types of their columns.

    An Arrow expression is left out.

    Raises:
        TableError: if a column does not exist.
        SpecError: if a value cannot be compared with its column.
    """
    conditions = [(name, "==", value) for name, value in typed_partition(schema, partition).items()]
    for condition in where if isinstance(where, Sequence) else ():
        name, op, value = condition
        kind = _column_type(schema, name)
        if op in ("in", "not in"):
            typed: Any = [_scalar(kind, item, condition).as_py() for item in value]
        else:
            typed = _scalar(kind, value, condition).as_py()
        conditions.append((name, op, typed))
    return conditions


def _condition(schema: pa.Schema, condition: Condition) -> pc.Expression:
    well_formed = _is_list(condition) and len(condition) == 3 and isinstance(condition[1], str)
    if not well_formed or condition[1] not in _OPERATORS:
        raise SpecError(
            f"condition {condition!r} is not (column, op, value) with op one of "
            f"{one_of(_OPERATORS)}."
        )
    name, op, value = condition
    kind = _column_type(schema, name)
    column = pc.field(name)
    if op in ("in", "not in"):
        if isinstance(value, str) or not isinstance(value, Iterable):
            raise SpecError(f"condition {condition!r}: {op!r} needs a list of values.")
        values = pa.array([_scalar(kind, item, condition) for item in value], kind)
        return _OPERATORS[op](column, values)
    if value is None:
        # In SQL null equals nothing, but the caller means the rows without a value.
        if op in ("==", "="):
            return column.is_null()
        if op == "!=":
            return column.is_valid()
        raise SpecError(f"condition {condition!r}: null has no order; use '==' or '!='.")
    return _OPERATORS[op](column, _scalar(kind, value, condition))


def _column_type(schema: pa.Schema, name: object) -> pa.DataType:
    if name not in schema.names:
        hint = nearest(str(name), schema.names)
        raise TableError(
            f"no column {name!r} to filter by; the table has {one_of(schema.names)}.{hint}"
        )
    return value_type(schema.field(name).type)


def _scalar(kind: pa.DataType, value: Any, condition: Condition) -> pa.Scalar:
    try:
        typed = pa.scalar(value).cast(kind)
        pc.equal(typed, typed)  # Arrow cannot compare values of all types
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise SpecError(
            f"condition {condition!r}: {value!r} cannot be compared with {kind}."
        ) from error
    return typed


def _is_list(values: object) -> bool:
    return isinstance(values, Sequence) and not isinstance(values, str)
