"""Parse options of the command line into the values that the library takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from probclass_core.errors import SpecError
from probclass_core.io.filters import Condition, parse_conditions, split_values

ESTIMATED = "estimated"
"""Prior whose shares are estimated from the rows."""


def parse_where(texts: Sequence[str]) -> list[Condition] | None:
    """Parse conditions for ``where=``, as `filters.parse_conditions` does; None if there are none.

    Raises:
        SpecError: if a text is not a condition.
    """
    return [one for text in texts for one in parse_conditions(text, "--where")] or None


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
        items = split_values(text)
        if not items:
            raise SpecError(
                f"--{option} {text!r}: write names separated by commas, as in --{option} time,air."
            )
        names.extend(items)
    return names or None


def parse_prior(texts: Sequence[str]) -> Literal["estimated"] | dict[str, float] | None:
    """Parse shares of classes, ``CLASS=SHARE,…`` or ``estimated``; None if there are none.

    Raises:
        SpecError: if a text is not such a list, or a class is given twice.
    """
    if [*texts] == [ESTIMATED]:
        return "estimated"
    prior: dict[str, float] = {}
    for text in texts:
        for item in split_values(text) or [text]:
            name, _, share = item.rpartition("=")
            try:
                number = float(share)
            except ValueError:
                name = ""
            if not name:
                raise SpecError(
                    f"--prior {text!r}: write CLASS=SHARE for every class, as in "
                    f"--prior good=0.6,bad=0.4, or {ESTIMATED}."
                )
            if name in prior:
                raise SpecError(f"--prior {text!r}: class {name!r} is given twice.")
            prior[name] = number
    return prior or None


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
