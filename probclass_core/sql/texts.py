"""Parts of queries as text: common table expressions, sums and choices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence


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
