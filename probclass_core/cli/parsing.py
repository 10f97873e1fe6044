"""Parse options of the command line into the values that the library takes."""

from __future__ import annotations

import re
from collections.abc import Sequence

from probclass_core.errors import SpecError

Condition = tuple[str, str, str | list[str]]

_QUOTED = r""""[^"]*"|'[^']*'"""
_CONDITION = re.compile(
    rf"""\s*(?P<column>{_QUOTED}|[^\s"'=!<>].*?)\s*
    (?P<operator>==|!=|<=|>=|=|<|>|\s(?:not\s+)?in(?=[\s(\[]))\s*
    (?P<value>\S.*?)\s*""",
    re.VERBOSE | re.DOTALL,
)
_VALUE = re.compile(rf"""{_QUOTED}|[^\s"'=!<>].*""", re.DOTALL)
_NEXT_ITEM = re.compile(rf"""\s*({_QUOTED}|[^\s"',][^,]*?)\s*(?:,|$)""")


def parse_where(texts: Sequence[str]) -> list[Condition] | None:
    """Parse conditions for ``where=``; None if there are no texts.

    A condition is ``COLUMN OP VALUE`` with OP one of ``==``, ``=``, ``!=``, ``<``, ``<=``, ``>``,
    ``>=``, ``in``, ``not in``; the last two take a list ``A, B, …``, with or without brackets. Text
    in single or double quotes is taken literally. Values stay text: the table's filter casts them.

    Examples:
        >>> parse_where(["month >= 2013-01", "wind in NW, 'calm, variable'"])
        [('month', '>=', '2013-01'), ('wind', 'in', ['NW', 'calm, variable'])]

    Raises:
        SpecError: if a text is not a condition.
    """
    return [_condition(text) for text in texts] or None


def parse_partition(texts: Sequence[str]) -> dict[str, str] | None:
    """Parse values of partition columns from ``COLUMN=VALUE``; None if there are no texts.

    Raises:
        SpecError: if a text is not such a pair, or a column is given twice.
    """
    partition: dict[str, str] = {}
    for text in texts:
        column, equals, value = (part.strip() for part in text.partition("="))
        if not (column and equals and value) or column[-1] in "<>!" or value[0] == "=":
            raise SpecError(
                f"--partition {text!r}: write COLUMN=VALUE, as in --partition month=2014-01."
            )
        if column in partition:
            raise SpecError(
                f"--partition {text!r}: {column!r} is given twice; for several partitions use "
                f'--where, as in --where "{column} in {partition[column]},{value}".'
            )
        partition[column] = value
    return partition or None


def parse_names(option: str, texts: Sequence[str]) -> list[str] | None:
    """Parse column names from repeated or comma-separated text; None if there are no texts.

    Raises:
        SpecError: if a name is empty or a quote is not closed.
    """
    names = []
    for text in texts:
        items = _items(text)
        if not items:
            raise SpecError(
                f"--{option} {text!r}: write names separated by commas, as in --{option} time,air."
            )
        names.extend(items)
    return names or None


def parse_point(text: str) -> tuple[float, float]:
    """Parse coordinates from ``X,Y``.

    Raises:
        SpecError: if the text is not a pair of numbers.
    """
    try:
        x, y = map(float, text.split(","))
    except ValueError:
        raise SpecError(
            f"--point {text!r}: write X,Y, two numbers separated by a comma, "
            "as in --point 6.75,4.25."
        ) from None
    return x, y


def _condition(text: str) -> Condition:
    match = _CONDITION.fullmatch(text)
    if match is not None:
        column, operator = _unquoted(match["column"]), " ".join(match["operator"].split())
        if operator.endswith("in"):
            items = _items(_unbracketed(match["value"]))
            if items:
                return column, operator, items
        elif _VALUE.fullmatch(match["value"]):
            return column, operator, _unquoted(match["value"])
    raise SpecError(
        f"--where {text!r}: write COLUMN OP VALUE with OP one of ==, !=, <, <=, >, >=, in, not in, "
        'as in --where "month >= 2013-01" or --where "wind in NW,SE".'
    )


def _items(text: str) -> list[str]:
    """Comma-separated values without their quotes; an empty list if one is empty or malformed."""
    items, position = [], 0
    while position < len(text) or text.endswith(","):
        match = _NEXT_ITEM.match(text, position)
        if match is None:
            return []
        items.append(_unquoted(match[1]))
        position = match.end()
        if not text[:position].endswith(","):
            break
    return items


def _unbracketed(text: str) -> str:
    return text[1:-1] if (text[:1], text[-1:]) in (("(", ")"), ("[", "]")) else text


def _unquoted(text: str) -> str:
    return text[1:-1] if text[:1] in ("'", '"') else text
