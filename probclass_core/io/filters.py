"""Filters of rows: text and plain values as Arrow expressions."""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.arrow.types import value_type
from probclass_core.errors import SpecError, TableMismatchError, check_known, one_of, shown

Condition = Sequence[Any]
Where: TypeAlias = str | Sequence[str | Condition] | pc.Expression | None
"""Text such as ``"month >= 2013-01 and wind in NW, SE"``; a list of such texts and of conditions
``(column, op, value)``, which must all be true; an Arrow expression; or None for all rows."""

HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
"""Text for null in the name of a partition."""

_MOST_CONDITIONS = 1_000
"""Conditions of one filter, at most: Arrow evaluates an expression by recursion."""

_LONGEST_TEXT = 1_000_000
"""Characters of a filter's text, at most."""

_SHOWN = 200
"""Characters of a filter's text that a message repeats."""

_QUOTED = r""""[^"]*"|'[^']*'"""
# Matching takes time linear in the text: no two parts of a pattern match the same spaces.
_COLUMN = re.compile(rf"""{_QUOTED}|[^\s"'=!<>]""")
_OPERATOR = re.compile(r"==|!=|<=|>=|=|<|>|\s(?:not\s+)?in(?=[\s(\[])")
_VALUE = re.compile(rf"""{_QUOTED}|[^\s"'=!<>].*""", re.DOTALL)
_NEXT_VALUE = re.compile(rf"""\s*({_QUOTED}|[^\s"',](?:[^,]*[^\s,])?)\s*(?:,|$)""")
_TOKEN = re.compile(
    rf"""(?<!\w)(?:{_QUOTED})|[(\[](?:{_QUOTED}|[^"'()\[\]])*[)\]]
    |(?<!\s)\s+(?P<word>and|or)\s+|.""",
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)
"""Quoted text, a list in brackets, or a word between conditions; else one character."""

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
    terms = [_term(schema, *condition) for condition in _typed_scalars(schema, partition, where)]
    if isinstance(where, pc.Expression):
        terms.append(where)
    return functools.reduce(operator.and_, terms) if terms else None


def filtered_columns(schema: pa.Schema, query: Mapping[str, Any]) -> set[str]:
    """The columns that conditions are about; all columns of the schema for an Arrow expression.

    Args:
        schema: columns of the table.
        query: ``partition`` and ``where`` of `Source.plan`.
    """
    partition, where = query.get("partition"), parse_where(query.get("where"))
    if isinstance(where, pc.Expression):  # it does not say which columns it is about
        return set(schema.names)
    return {*(partition or {}), *(condition[0] for condition in where or ())}


def parse_where(where: Where) -> Sequence[Condition] | pc.Expression | None:
    """The conditions of a filter, with every text parsed; an Arrow expression or None as it is.

    Args:
        where: text such as ``"month >= '2013-01' and wind in NW, SE"``, or a list of conditions,
            each as text or as ``(column, operator, value)``; all must be true.

    Raises:
        SpecError: if it is neither text nor a list, or a text is not a condition.
    """
    if where is None or isinstance(where, pc.Expression):
        return where
    if isinstance(where, str):
        return parse_conditions(where)
    if not _is_list(where):
        raise SpecError(
            'where must be text such as "month >= 2013-01" or a list of (column, op, value), '
            f"got {shown(where)}."
        )
    if len(where) == 3 and isinstance(where[1], str) and where[1] in _OPERATORS:
        return [where]  # a condition instead of a list of them
    conditions: list[Condition] = []
    for condition in where:
        conditions.extend(
            parse_conditions(condition) if isinstance(condition, str) else [condition]
        )
    return conditions


def parse_conditions(text: str, option: str = "where") -> list[Condition]:
    """Parse conditions joined by ``and``.

    A condition is ``COLUMN OP VALUE`` with OP one of ``==``, ``=``, ``!=``, ``<``, ``<=``, ``>``,
    ``>=``, ``in``, ``not in``; the last two take a list ``A, B, …``, with or without brackets. Text
    in single or double quotes is taken literally, also the words ``and`` and ``or``. Values stay
    text: `expression` casts them.

    Examples:
        >>> parse_conditions("month >= 2013-01 and wind in NW, 'calm, variable'")
        [('month', '>=', '2013-01'), ('wind', 'in', ['NW', 'calm, variable'])]

    Args:
        text: one or more conditions.
        option: name of the option that the text was given for, for messages.

    Raises:
        SpecError: if the text is not a condition, or joins conditions by ``or``.
    """
    if len(text) > _LONGEST_TEXT:
        raise SpecError(
            f"{option} has {len(text):,} characters, at most {_LONGEST_TEXT:,} are read; give a "
            "long list of values as a condition (column, 'in', values)."
        )
    parts, has_or, start = [], False, 0
    for token in _TOKEN.finditer(text):
        if token["word"]:
            has_or |= token["word"].lower() == "or"
            parts.append(text[start : token.start()])
            start = token.end()
    found = [_parse_condition(part) for part in (*parts, text[start:])]
    conditions = [condition for condition in found if condition is not None]
    if has_or and conditions:
        raise SpecError(
            f"{option} {_shortened(text)}: conditions are joined by and, not by or; list the "
            'values of one column, as in "wind in NW,SE", or quote a value that contains the word.'
        )
    if len(conditions) < len(found):
        hint = "; quote a value that contains the word and" if conditions else ""
        raise SpecError(
            f"{option} {_shortened(text)}: write COLUMN OP VALUE with OP one of ==, !=, <, <=, >, "
            f'>=, in, not in, as in {option} "month >= 2013-01" or {option} "wind in NW,SE"{hint}.'
        )
    return list(conditions)


def split_values(text: str) -> list[str]:
    """Comma-separated values without their quotes; an empty list if one is empty or malformed."""
    values, position = [], 0
    while position < len(text) or text.endswith(","):
        match = _NEXT_VALUE.match(text, position)
        if match is None:
            return []
        values.append(_unquoted(match[1]))
        position = match.end()
        if text[position - 1] != ",":
            break
    return values


def _parse_condition(text: str) -> tuple[str, str, str | list[str]] | None:
    """One condition, or None if the text is something else."""
    text = text.strip()
    first = _COLUMN.match(text)
    found = first and _OPERATOR.search(text, first.end())
    if not first or not found:
        return None
    column, value = text[: found.start()].rstrip(), text[found.end() :].strip()
    if column[0] in "\"'" and column != first[0]:
        return None
    op = " ".join(found[0].split())
    if op.endswith("in"):
        values = split_values(_unbracketed(value))
        return (_unquoted(column), op, values) if values else None
    return (_unquoted(column), op, _unquoted(value)) if _VALUE.fullmatch(value) else None


def _shortened(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]} …")


def _unbracketed(text: str) -> str:
    return text[1:-1] if (text[:1], text[-1:]) in (("(", ")"), ("[", "]")) else text


def _unquoted(text: str) -> str:
    return text[1:-1] if text[:1] in ("'", '"') else text


def partition_text(partition: Mapping[str, Any]) -> str:
    """A partition as text, such as ``"year=2014/month=9"``."""
    values = {name: HIVE_NULL if value is None else value for name, value in partition.items()}
    return "/".join(f"{name}={value}" for name, value in values.items())


def typed_partition(schema: pa.Schema, partition: Mapping[str, Any] | None) -> dict[str, Any]:
    """Cast partition values to the types of their columns: "01" of an integer column is 1.

    The text of null in the name of a partition is null.

    Raises:
        TableError: if a column does not exist.
        SpecError: if a value cannot be compared with its column.
    """
    if not isinstance(partition, Mapping | None):
        raise SpecError(
            f"partition must be a table such as {{'month': '2014-01'}}, got {shown(partition)}."
        )
    values = {
        name: None if value == HIVE_NULL else value for name, value in (partition or {}).items()
    }
    return {
        name: _scalar(_column_type(schema, name), value, (name, "==", value)).as_py()
        for name, value in values.items()
    }


def typed_conditions(
    schema: pa.Schema, partition: Mapping[str, Any] | None, where: Where
) -> list[tuple[str, str, Any]]:
    """Return the conditions that `expression` combines, with values in the types of their columns.

    An Arrow expression is left out.

    Raises:
        TableError: if a column does not exist.
        SpecError: if there are too many conditions, one is malformed, or a value cannot be compared
            with its column.
    """
    return [
        (name, op, [one.as_py() for one in value] if isinstance(value, list) else value.as_py())
        for name, op, value in _typed_scalars(schema, partition, where)
    ]


def _typed_scalars(
    schema: pa.Schema, partition: Mapping[str, Any] | None, where: Where
) -> list[tuple[str, str, Any]]:
    """The conditions with scalars of Arrow, or lists of them; see `typed_conditions`."""
    typed = typed_partition(schema, partition)
    conditions: list[Condition] = [(name, "==", value) for name, value in typed.items()]
    parsed = parse_where(where)
    conditions += parsed if isinstance(parsed, Sequence) else ()
    if len(conditions) > _MOST_CONDITIONS:  # before each is cast, which takes time
        raise SpecError(
            f"where has {len(conditions):,} conditions, at most {_MOST_CONDITIONS:,} are allowed; "
            "list the values of one column with in."
        )
    return [_typed(schema, condition) for condition in conditions]


def _typed(schema: pa.Schema, condition: Condition) -> tuple[str, str, Any]:
    well_formed = _is_list(condition) and len(condition) == 3 and isinstance(condition[1], str)
    if not well_formed or condition[1] not in _OPERATORS:
        raise SpecError(
            f"condition {condition!r} is not (column, op, value) with op one of "
            f"{one_of(_OPERATORS)}."
        )
    name, op, value = condition
    kind = _column_type(schema, name)
    if op in ("in", "not in"):
        if isinstance(value, str) or not isinstance(value, Iterable):
            raise SpecError(f"condition {condition!r}: {op!r} needs a list of values.")
        return name, op, [_scalar(kind, item, condition) for item in value]
    if value is None and op not in ("==", "=", "!="):
        raise SpecError(f"condition {condition!r}: null has no order; use '==' or '!='.")
    return name, op, _scalar(kind, value, condition)


def _term(schema: pa.Schema, name: str, op: str, value: Any) -> pc.Expression:
    """A condition with scalars as an Arrow expression."""
    column = pc.field(name)
    if isinstance(value, list):
        value = pa.array(value, value_type(schema.field(name).type))
    elif not value.is_valid:  # in SQL null equals nothing; the caller means rows without a value
        return column.is_valid() if op == "!=" else column.is_null()
    return _OPERATORS[op](column, value)


def _column_type(schema: pa.Schema, name: object) -> pa.DataType:
    unknown = "the conditions name column"
    check_known([name], schema.names, unknown, "the table has", TableMismatchError)
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
