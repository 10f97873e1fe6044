"""SQL dialects: how each engine writes names, texts, numbers, types and functions.

The queries use a small common core: common table expressions, CASE, COALESCE, NULLIF, EXP, LN, ABS
and arithmetic of doubles. A dialect says what differs. Parts of queries that are the same in all
dialects, such as common table expressions, sums and choices, follow at the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from probclass_core.errors import NotSupportedError, SpecError, suggest


def _doubled(quote: str) -> Callable[[str], str]:
    return lambda text: quote + text.replace(quote, 2 * quote) + quote


def _escaped(quote: str) -> Callable[[str], str]:
    """Quote a text, escaping dollar signs as well, since Spark replaces ``${…}`` within texts."""
    return lambda text: quote + text.replace("\\", "\\\\").replace(quote, "\\" + quote) + quote


def _spark_text(text: str) -> str:
    return _escaped("'")(text).replace("$", "\\u0024")


def _plain_number(value: float) -> str:
    text = repr(value)
    return text if "e" in text else text + "e0"


_QUOTED, _TEXT = _doubled('"'), _doubled("'")


@dataclass(frozen=True)
class Dialect:
    """What differs between engines.

    Attributes:
        name: name of the dialect.
        name_of: quotes an identifier.
        text: a text literal.
        number: a literal of a finite double.
        infinity: the double ∞; ``-`` before it gives −∞.
        double: type of doubles; null allowed.
        to_double: a value as a double; an error for a text that is not a number, where possible.
        string: type of text; null allowed.
        binary: a text that is compared byte by byte, whatever the collation of its column.
        integer: type of 64-bit integers; null allowed.
        is_nan: condition that a double is NaN, or None if it cannot be.
        matches: condition that ``{text}`` matches the regular expression ``{pattern}``, or None if
            there are none.
        functions: names that differ from those of the core.
        array: an array literal, with ``{}`` for its items, or None if there are no arrays.
        item: an item of an array, ``{array}`` at ``{position}`` counted from 0.
        cte: words before the query of a common table expression: it is computed once.
        raises: whether arithmetic beyond the range of doubles is an error.
        folds_case: whether names that differ in case only are the same.
        longest_name: bytes of a name, or None if names may be long.
        most_arguments: arguments of GREATEST.
        dynamic_types: whether a column may contain values of any type.
        settings: words at the end of a query.
    """

    name: str
    name_of: Callable[[str], str] = _QUOTED
    text: Callable[[str], str] = _TEXT
    number: Callable[[float], str] = _plain_number
    infinity: str = "CAST('Infinity' AS DOUBLE)"
    double: str = "DOUBLE"
    to_double: str = "CAST({} AS DOUBLE)"
    string: str = "VARCHAR"
    binary: str = "{}"
    integer: str = "BIGINT"
    is_nan: str | None = "isnan({})"
    matches: str | None = "regexp_like({text}, {pattern})"
    functions: Mapping[str, str] = field(default_factory=dict)
    array: str | None = None
    item: str = "{array}[{position} + 1]"
    cte: str = ""
    raises: bool = False
    folds_case: bool = False
    longest_name: int | None = None
    most_arguments: int = 10_000
    dynamic_types: bool = False
    settings: str = ""

    def literal(self, value: float) -> str:
        """A double as a literal."""
        if math.isinf(value):
            return self.infinity if value > 0 else f"(-{self.infinity})"
        return self.number(float(value))  # NumPy's floats are written as calls

    def function(self, name: str, *arguments: str) -> str:
        """A call of a function of the core."""
        if name in ("GREATEST", "LEAST") and len(arguments) == 1:
            return arguments[0]
        if len(arguments) > self.most_arguments:
            step = self.most_arguments
            parts = [arguments[at : at + step] for at in range(0, len(arguments), step)]
            return self.function(name, *(self.function(name, *part) for part in parts))
        return f"{self.functions.get(name, name)}({', '.join(arguments)})"

    def identifier(self, name: str) -> str:
        """A quoted name.

        Raises:
            SpecError: if the engine cannot have such a name.
        """
        too_long = self.longest_name is not None and len(name.encode()) > self.longest_name
        if not name or "\0" in name or too_long or (self.name == "spark" and "${" in name):
            limit = f" of at most {self.longest_name} bytes" if too_long else ""
            raise SpecError(
                f"{self.name} cannot have a column named {name!r}; rename it{limit}, or use "
                "posterior='list' if it is the name of a class."
            )
        return self.name_of(name)

    def string_literal(self, text: str) -> str:
        """A text literal.

        Raises:
            NotSupportedError: if the text contains a null character.
        """
        if "\0" in text:
            raise NotSupportedError(
                f"the value {text!r} contains a null character, which SQL texts cannot; clean the "
                "column and train again."
            )
        return self.text(text)

    def value(self, value: Any) -> str:
        """A class as a literal: a bool, an integer or a text."""
        if isinstance(value, bool):
            return "TRUE" if value else "FALSE"
        return str(value) if isinstance(value, int) else self.string_literal(value)

    def source(self, name: str | Sequence[str]) -> str:
        """A table's name as SQL: parts between dots are quoted; a query in parentheses stays.

        Raises:
            SpecError: if it is empty, or the call of a function.
        """
        text = name.strip() if isinstance(name, str) else ".".join(name)
        if isinstance(name, str) and text.startswith("(") and text.endswith(")"):
            return text
        parts = text.split(".") if isinstance(name, str) else name
        if not parts or not all(parts) or (isinstance(name, str) and "(" in name):
            raise SpecError(
                f"source {text!r} is not the name of a table; give table, schema.table, or a query "
                "in parentheses."
            )
        return ".".join(map(self.identifier, parts))


DIALECTS: Mapping[str, Dialect] = {
    dialect.name: dialect
    for dialect in (
        Dialect(
            "duckdb",
            binary="{} COLLATE C",
            matches="regexp_matches({text}, {pattern})",
            array="[{}]",
            folds_case=True,
        ),
        Dialect(
            "postgres",
            number=lambda value: f"{value!r}::float8",
            infinity="'Infinity'::float8",
            double="DOUBLE PRECISION",
            to_double="CAST({} AS DOUBLE PRECISION)",
            string="TEXT",
            binary='{} COLLATE "C"',
            is_nan="{} = 'NaN'::float8",
            matches="{text} ~ {pattern}",
            array="ARRAY[{}]",
            item="({array})[{position} + 1]",
            cte="MATERIALIZED ",
            raises=True,
            longest_name=63,
        ),
        Dialect(
            "sqlite",
            name_of=_doubled("`"),  # a name in double quotes that does not exist would be a text
            infinity="9e999",
            double="REAL",
            to_double="CAST({} AS REAL)",
            string="TEXT",
            binary="{} COLLATE BINARY",
            integer="INTEGER",
            is_nan=None,
            matches=None,
            functions={"GREATEST": "max", "LEAST": "min"},
            cte="MATERIALIZED ",
            folds_case=True,
            most_arguments=50,
            dynamic_types=True,
        ),
        Dialect(
            "spark",
            name_of=_doubled("`"),
            text=_spark_text,
            number=lambda value: f"{value!r}D",
            string="STRING",
            array="array({})",
            item="{array}[{position}]",
            folds_case=True,
        ),
        Dialect(
            "datafusion",
            array="make_array({})",
        ),
        Dialect(
            "clickhouse",
            name_of=_escaped("`"),
            text=_escaped("'"),
            infinity="inf",
            double="Nullable(Float64)",
            to_double="CAST({} + 0 AS Nullable(Float64))",  # a cast would make other texts null
            string="Nullable(String)",
            integer="Nullable(Int64)",
            is_nan="isNaN({})",
            matches="match({text}, {pattern})",
            array="[{}]",
            # To merge common table expressions takes time exponential in their number.
            settings="\nSETTINGS query_plan_merge_expressions = 0",
        ),
    )
}
"""The dialects, by name."""

_OTHER_NAMES = {"postgresql": "postgres", "sparksql": "spark", "databricks": "spark"}


def find_dialect(name: str) -> Dialect:
    """A dialect by its name.

    Raises:
        SpecError: if it is unknown.
    """
    known = DIALECTS.get(_OTHER_NAMES.get(name, name))
    if known is None:
        raise SpecError(f"dialect {name!r} is unknown; use {suggest(name, list(DIALECTS))}")
    return known


class Stages:
    """The common table expressions of a query, each with the columns of the one before.

    Args:
        words: words before the query of each; see `Dialect.cte`.
    """

    def __init__(self, words: str = "") -> None:
        self._words = words
        self._texts: list[str] = []
        self.last = ""

    def __str__(self) -> str:
        return f"WITH {', '.join(self._texts)}"

    def add(self, name: str, query: str) -> None:
        """Add a query, whose columns the next ones have."""
        self.last = f"pc_{name}"
        self._texts.append(f"{self.last} AS {self._words}(\n  {query}\n)")

    def extend(self, name: str, columns: Mapping[str, str]) -> list[str]:
        """Add columns to those of the last query, and return their names."""
        if columns:
            listed = ",\n    ".join(f"{text} AS {alias}" for alias, text in columns.items())
            self.add(name, f"SELECT *,\n    {listed}\n  FROM {self.last}")
        return list(columns)

    def each(self, name: str, letter: str, texts: Iterable[str]) -> list[str]:
        """Add columns that are named by a letter and their position, and return their names."""
        return self.extend(name, numbered(letter, texts))


def plus(texts: Iterable[str]) -> str:
    """The sum of some values."""
    return " + ".join(texts)


def case(tests: Sequence[str], values: Sequence[str]) -> str:
    """The value of the first test that is true, else the last value, whose test is not needed."""
    if len(values) == 1:
        return values[0]
    pairs = zip(tests, values[:-1], strict=False)
    cases = " ".join(f"WHEN {test} THEN {value}" for test, value in pairs)
    return f"CASE {cases} ELSE {values[-1]} END"


def position(tests: Sequence[str]) -> str:
    """The position, counted from 1, of the first test that is true, else the last one."""
    return case(tests, [str(at) for at in range(1, len(tests) + 1)])


def pick(at: str, texts: Sequence[str]) -> str:
    """The value at a position, counted from 1."""
    return case([f"{at} = {number}" for number in range(1, len(texts) + 1)], texts)


def sums(terms: Iterable[Sequence[str]]) -> list[str]:
    """The sum of terms for each class; a term is a value for each class."""
    return [plus(of_class) for of_class in zip(*terms, strict=True)]


def numbered(letter: str, texts: Iterable[str]) -> dict[str, str]:
    """Values by a letter and their position, counted from 1."""
    return {f"{letter}{at}": text for at, text in enumerate(texts, 1)}


def bisected(value: str, cuts: Sequence[str], results: Sequence[str]) -> str:
    """The result at the number of cuts at or below a value; there is one more than cuts."""
    if len(set(results)) == 1:
        return results[0]
    if len(cuts) <= 4:
        return case([f"{value} < {cut}" for cut in cuts], results)
    middle = len(cuts) // 2
    below = bisected(value, cuts[:middle], results[: middle + 1])
    above = bisected(value, cuts[middle + 1 :], results[middle + 1 :])
    return f"CASE WHEN {value} < {cuts[middle]} THEN {below} ELSE {above} END"
