"""Text from a command line to the values that the library takes."""

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
    """Conditions for ``where=``; none for no text.

    A condition is ``COLUMN OP VALUE`` with OP one of ``==``, ``=``, ``!=``, ``<``, ``<=``, ``>``,
    ``>=``, ``in``, ``not in``; the last two take ``A, B, …``, in brackets or not. Quotes, single or
    double, keep what would be misread. Values stay text: the table's filter casts them.

    Examples:
        >>> parse_where(["month >= 2013-01", "wind in NW, 'calm, variable'"])
        [('month', '>=', '2013-01'), ('wind', 'in', ['NW', 'calm, variable'])]

    Raises:
        SpecError: a text is no condition.
    """
    return [_condition(text) for text in texts] or None


def parse_partition(texts: Sequence[str]) -> dict[str, str] | None:
    """Values of partition columns from ``COLUMN=VALUE``, outermost first; none for no text.

    Raises:
        SpecError: a text is no such pair, or a column is given twice.
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
                f"--partition {text!r}: {column!r} is given twice; for several partitions write, "
                f'say, --where "{column} in {partition[column]},{value}".'
            )
        partition[column] = value
    return partition or None


def parse_names(option: str, texts: Sequence[str]) -> list[str] | None:
    """Column names from repeated or comma-separated text; none for no text.

    Raises:
        SpecError: a name is empty or a quote is left open.
    """
    names = []
    for text in texts:
        items = _items(text)
        if not items:
            raise SpecError(
                f"--{option} {text!r}: write names with commas between them, "
                f"as in --{option} time,air."
            )
        names.extend(items)
    return names or None


def parse_point(text: str) -> tuple[float, float]:
    """Coordinates from ``X,Y``.

    Raises:
        SpecError: the text is no pair of numbers.
    """
    try:
        x, y = map(float, text.split(","))
    except ValueError:
        raise SpecError(
            f"--point {text!r}: write X,Y, two numbers with a comma between them, "
            "as in --point 6.75,4.25."
        ) from None
    return x, y


def _condition(text: str) -> Condition:
    found = _CONDITION.fullmatch(text)
    if found is not None:
        column, operator = _unquoted(found["column"]), " ".join(found["operator"].split())
        if operator.endswith("in"):
            items = _items(_unbracketed(found["value"]))
            if items:
                return column, operator, items
        elif _VALUE.fullmatch(found["value"]):
            return column, operator, _unquoted(found["value"])
    raise SpecError(
        f"--where {text!r}: write COLUMN OP VALUE with OP one of ==, !=, <, <=, >, >=, in, not in, "
        'as in --where "month >= 2013-01" or --where "wind in NW,SE".'
    )


def _items(text: str) -> list[str]:
    """Comma-separated values, unquoted; none at all where one of them is empty or malformed."""
    items, position = [], 0
    while position < len(text) or text.endswith(","):
        found = _NEXT_ITEM.match(text, position)
        if found is None:
            return []
        items.append(_unquoted(found[1]))
        position = found.end()
        if not text[:position].endswith(","):
            break
    return items


def _unbracketed(text: str) -> str:
    return text[1:-1] if (text[:1], text[-1:]) in (("(", ")"), ("[", "]")) else text


def _unquoted(text: str) -> str:
    return text[1:-1] if text[:1] in ("'", '"') else text
