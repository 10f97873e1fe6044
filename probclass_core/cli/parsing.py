"""Parse texts of the command line into the values that the library takes.

Each function takes the texts of an option, and its name for messages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from probclass_core.errors import SpecError, one_line
from probclass_core.io.filters import Condition, parse_conditions, split_values
from probclass_core.spec.files import read_values

ESTIMATED = "estimated"
"""Prior whose shares are estimated from the rows."""


@dataclass(frozen=True)
class Parser:
    """How the text of an option becomes a value; part of an annotation.

    Attributes:
        parse: function of the texts of an option, and of its name.
        repeats: whether the option may be repeated; if not, `parse` gets a text.
    """

    parse: Callable[[Any, str], Any]
    repeats: bool = True


@dataclass(frozen=True)
class MadeOf:
    """A frozen class of options that a value is made of; part of an annotation.

    Attributes:
        options: gives the class; its method ``parsed``, if there is one, gives the value.
    """

    options: Callable[[], type[Any]]


def parse_where(texts: Sequence[str], option: str = "--where") -> list[Condition]:
    """Parse conditions, as `filters.parse_conditions` does.

    Raises:
        SpecError: if a text is not a condition.
    """
    return [one for text in texts for one in parse_conditions(text, option)]


def parse_partition(texts: Sequence[str], option: str = "--partition") -> dict[str, str]:
    """Parse values of partition columns from ``COLUMN=VALUE``.

    Raises:
        SpecError: if a text is not such a pair, or a column is given twice.
    """
    partition: dict[str, str] = {}
    for text in texts:
        column, equals, value = (part.strip() for part in text.partition("="))
        if not (column and equals and value) or column[-1] in "<>!" or value[0] == "=":
            raise SpecError(f"{option} {text!r}: write COLUMN=VALUE, as in {option} month=2014-01.")
        if column in partition:
            raise SpecError(
                f"{option} {text!r}: {column!r} is given twice; for several partitions use "
                f'--where, as in --where "{column} in {partition[column]},{value}".'
            )
        partition[column] = value
    return partition


def parse_names(texts: Sequence[str], option: str) -> list[str]:
    """Parse names from repeated or comma-separated text.

    Raises:
        SpecError: if a name is empty or a quote is not closed.
    """
    names = []
    for text in texts:
        items = split_values(text)
        if not items:
            raise SpecError(
                f"{option} {text!r}: write names separated by commas, as in {option} time,air."
            )
        names.extend(items)
    return names


def parse_numbers(
    texts: Sequence[str], option: str, form: str = "MODEL=NUMBER"
) -> dict[str, float]:
    """Parse numbers by name, in a form such as ``MODEL=NUMBER,…``.

    Raises:
        SpecError: if a text is not such a list, or a name is given twice.
    """
    numbers: dict[str, float] = {}
    for text in texts:
        for item in split_values(text) or [text]:
            name, _, number = (part.strip() for part in item.rpartition("="))
            try:
                value = float(number)
            except ValueError:
                name = ""
            if not name:
                raise SpecError(f"{option} {text!r}: write {form}.")
            if name in numbers:
                raise SpecError(f"{option} {text!r}: {name!r} is given twice.")
            numbers[name] = value
    return numbers


def parse_prior(
    texts: Sequence[str], option: str = "--prior"
) -> Literal["estimated"] | dict[str, float]:
    """Parse shares of classes, ``CLASS=SHARE,…`` or ``estimated``.

    Raises:
        SpecError: as `parse_numbers`.
    """
    if [*texts] == [ESTIMATED]:
        return "estimated"
    form = f"CLASS=SHARE for every class, as in {option} good=0.6,bad=0.4, or {ESTIMATED}"
    return parse_numbers(texts, option, form)


def parse_half_life(text: str, option: str = "--half-life") -> float | Literal["auto"]:
    """Parse a number of partitions, or ``auto``.

    Raises:
        SpecError: if it is neither.
    """
    if text == "auto":
        return "auto"
    try:
        return float(text)
    except ValueError:
        raise SpecError(f"{option} must be a number of partitions or auto, got {text!r}.") from None


def parse_floor(texts: Sequence[str], option: str = "--floor") -> str | dict[str, str] | None:
    """Parse the floor of a gate: ``prior``, ``none``, or ``METRIC=prior`` and ``METRIC=NUMBER``.

    Raises:
        SpecError: if a text is none of these.
    """
    if [*texts] in (["prior"], ["none"]):
        return "prior" if [*texts] == ["prior"] else None
    floors = {}
    for text in texts:
        metric, is_pair, floor = (part.strip() for part in text.partition("="))
        if not is_pair:
            raise SpecError(
                f"{option} {text}: write prior, none, METRIC=prior or METRIC=NUMBER, as in "
                f"{option} accuracy=0.5."
            )
        floors[metric] = floor
    return floors


def parse_point(text: str, option: str = "--point") -> tuple[float, float]:
    """Parse coordinates from ``X,Y``.

    Raises:
        SpecError: if the text is not a pair of numbers.
    """
    try:
        x, y = map(float, text.split(","))
    except ValueError:
        raise SpecError(
            f"{option} {text!r}: write X,Y, two numbers separated by a comma, "
            f"as in {option} 6.75,4.25."
        ) from None
    return x, y


def read_costs(text: str, option: str) -> Any:
    """Read the costs of mistakes from the file that an option names.

    Raises:
        SpecError: if the file cannot be read.
    """
    path = Path(text)
    if path.suffix != ".csv":
        return read_values(path, "the costs", (".toml", ".json", ".csv"))
    import pyarrow.csv as csv

    try:
        return csv.read_csv(path)
    except OSError as error:
        raise SpecError(f"cannot read the costs {path}: {error.strerror}.") from error
    except ValueError as error:
        raise SpecError(f"{path} is not valid CSV: {one_line(error)}.") from error
