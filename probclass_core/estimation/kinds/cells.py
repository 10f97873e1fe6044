"""Cells: counts by class of the values of columns, and of combinations of their values.

This kind of statistics serves categories, numbers in bins, and both given other columns. A row of a
batch adds its weight to one cell of each column; merging adds cells, and leaving a row out
subtracts its weight from its own cells again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from probclass_core.arrow.arrays import MISSING, FloatArray, IntArray, distinct
from probclass_core.arrow.compiled import kernels
from probclass_core.arrow.rows import Rows
from probclass_core.errors import DataError, StoreError, one_of
from probclass_core.estimation.kinds.kind import DistinctRows
from probclass_core.estimation.tidy import check_row_counts, check_same, sum_counts

Encoded: TypeAlias = tuple[NDArray[np.signedinteger[Any]], Sequence[str]]
"""Codes of a column, ``(n,)``, `MISSING` for null, and the values that they mean."""

_ROUNDING = 1e-9
"""Share of a row's weight below which a difference of sums is 0 up to rounding."""

_MOST_KEYS, _NO_KEY = 2**62, np.iinfo(np.intp).min
"""Combinations of codes that one integer can number, and a number that none has."""


MAX_CELLS = 2**22
"""Most rows of a table: with more combinations of values, nearly every row is one of its own."""


def bin_names(cuts: Sequence[float]) -> list[str]:
    """Bins as intervals: exact, so that different cuts give different names."""
    edges = [-np.inf, *map(float, cuts), np.inf]
    return [f"[{lower}, {upper})" for lower, upper in pairwise(edges)]


def given_title(column: str) -> str:
    """Name of the column of tables for a given column."""
    return f"given {column}"


@dataclass(frozen=True)
class Cells:
    """Counts of each of some columns, with the columns that it is given.

    The table has one row per class and cell: class, feature, value (text), one column "given …" per
    given column (text), count (Σ w).

    Attributes:
        columns: the columns to count.
        given: the given columns.
        cuts: ascending cut points of those that are numbers; the others are categories.
        counts_nulls: whether a null of a counted column is a value; those of given columns are.
    """

    columns: Sequence[str]
    given: Sequence[str] = ()
    cuts: Mapping[str, Sequence[float]] = field(default_factory=dict)
    counts_nulls: bool = False

    sums: ClassVar = ("count",)

    @property
    def keys(self) -> list[str]:
        """What identifies a cell."""
        return ["class", "feature", "value", *map(given_title, self.given)]

    def _encode(self, rows: Rows, name: str) -> Encoded:
        """A column as it is counted: a category as it is, a number by its cut points."""
        if name not in self.cuts:
            return rows.categories(name)
        return rows.bins(name, self.cuts[name], MISSING), bin_names(self.cuts[name])

    def summarize(
        self, rows: Rows, classes: pa.DictionaryArray, weights: FloatArray | None
    ) -> pa.Table:
        """Cells of one batch, of the columns that it has; see `Estimator.summarize`."""
        names = rows.batch.schema.names
        columns = {name: self._encode(rows, name) for name in self.columns if name in names}
        given = [self._encode(rows, name) for name in self.given]
        labels = classes.dictionary
        group = classes.indices.to_numpy(zero_copy_only=False).astype(np.intp)
        counted = _combinations(group, len(labels), columns.values(), given, weights)
        values: list[str | None] = []
        parts, sizes = [], []
        for (_, texts), (cells, counts) in zip(columns.values(), counted, strict=True):
            if not self.counts_nulls:
                known = cells[1] > 0
                cells, counts = cells[:, known], counts[known]
            cells[1] += len(values)
            values += [None, *texts]
            parts.append((cells, counts))
            sizes.append(len(counts))
        # One take for all columns: tables of single ones would take longer to put together.
        coded, count = (np.concatenate(part, axis=-1) for part in zip(*parts, strict=True))
        feature = np.repeat(np.arange(len(sizes)), sizes)
        texts_of = [labels, list(columns), values, *([None, *texts] for _, texts in given)]
        codes = [coded[0], feature, *coded[1:]]
        arrays = [
            (texts if number == 0 else pa.array(texts, pa.string())).take(pa.array(code))
            for number, (texts, code) in enumerate(zip(texts_of, codes, strict=True))
        ]
        cells = pa.table([*arrays, count], [*self.keys, "count"])
        return self._few(cells.sort_by([(key, "ascending") for key in self.keys]))

    def merge(self, tables: Sequence[pa.Table]) -> pa.Table:
        return self._few(sum_counts(tables, self.keys, ["count"]))

    def _few(self, cells: pa.Table) -> pa.Table:
        """The cells, unless they are more than `MAX_CELLS`."""
        if self.given and len(cells) > MAX_CELLS:
            raise DataError(
                f"columns {one_of([*self.columns, *self.given])} have more than {MAX_CELLS:,} "
                "combinations of values; leave out columns, or declare fewer cuts."
            )
        return cells

    def check(self, table: pa.Table, classes: pa.Table) -> None:
        """Refuse a table that no rows have; see `Estimator.check_statistics`."""
        check_same(table, self.merge([table]))
        check_row_counts(table, classes, ["feature"], features=self.columns)
        for name in self.cuts.keys() & {*self.columns, *self.given}:
            if name in self.given:
                labels = table[given_title(name)]
            else:
                labels = table.filter(pc.equal(table["feature"], name))["value"]
            if set(pc.unique(labels).to_pylist()) - {None, *bin_names(self.cuts[name])}:
                raise StoreError(f"the bins of column {name!r} are not those of its cuts.")

    def aggregates(self) -> DistinctRows | None:
        """What a database computes, if no column is cut into bins."""
        if self.cuts:
            return None
        return DistinctRows([[name, *self.given] for name in self.columns])


def count_cells(
    codes: IntArray, sizes: Sequence[int], weights: FloatArray | None
) -> tuple[IntArray, FloatArray]:
    """The combinations of codes that occur, ascending, and their counts.

    Args:
        codes: ``(d, n)``, in each row from 0 to below its size.
        sizes: ``d`` numbers of codes.
        weights: ``(n,)``; None means 1.

    Returns:
        Combinations ``(d, g)``, and Σ w of each, ``(g,)``.
    """
    size = math.prod(sizes)
    if not are_few(size, codes.shape[1]):
        cells = CellIndex(codes, sizes)
        counts = np.bincount(cells.group, weights, len(cells.first))
        return codes[:, cells.first], counts.astype(np.float64)
    counts = np.bincount(cell_numbers(codes, sizes), weights, size)
    present = np.flatnonzero(counts)
    return np.stack(np.unravel_index(present, sizes)), counts[present].astype(np.float64)


def are_few(combinations: int, rows: int) -> bool:
    """Whether there are so few combinations of codes that an array of all of them is small."""
    return combinations <= 4 * rows + 4096


def cell_numbers(codes: Sequence[IntArray] | IntArray, sizes: Sequence[int]) -> IntArray:
    """Numbers of combinations of codes among all of them; the arrays are broadcast."""
    number = codes[0]
    for code, size in zip(codes[1:], sizes[1:], strict=True):
        number = number * size + code
    return number


def without_row(counts: FloatArray, weights: FloatArray | float = 1.0) -> FloatArray:
    """Counts that include a row, without it, ``(n,)``: not negative, 0 where only rounding is left.

    Args:
        counts: sums of weights that include the row's own, ``(n,)``.
        weights: weight of the row, ``(n,)``.
    """
    left = counts - weights
    return np.where(left > _ROUNDING * weights, left, 0.0)


def _combinations(
    group: IntArray,
    classes: int,
    columns: Iterable[Encoded],
    given: Sequence[Encoded],
    weights: FloatArray | None,
) -> Iterator[tuple[IntArray, FloatArray]]:
    """Cells of each column with the given ones: codes, 0 for null, and their counts."""
    compiled = None if given or weights is not None else kernels(len(group))
    codes = np.empty((2 + len(given), len(group)), dtype=np.intp)
    codes[0] = group
    for row, (code, _) in zip(codes[2:], given, strict=True):
        np.subtract(code, MISSING, out=row)
    sizes = [len(texts) + 1 for _, texts in given]
    narrow = np.ascontiguousarray(group, np.int32)
    for code, texts in columns:
        if compiled is not None:
            column = np.ascontiguousarray(code, np.int32)
            table = compiled.count_codes(narrow, column, classes, len(texts))
            cells = np.stack(np.nonzero(table))
            yield cells, table[tuple(cells)].astype(np.float64)
        else:
            np.subtract(code, MISSING, out=codes[1])
            yield count_cells(codes, [classes, len(texts) + 1, *sizes], weights)


class CellIndex:
    """The distinct columns of a ``(d, n)`` matrix of codes, and a search for columns among them.

    A column is encoded as one number in mixed radix. If the radices multiply to more than 62 bits,
    the columns encoded so far are renumbered by the combinations that occur, so that two columns
    never get the same number.

    Args:
        codes: ``(d, n)``, in each row from 0 to below its size.
        sizes: ``d`` numbers of codes.

    Attributes:
        group: ``(n,)``, number of the distinct column; the order is that of the codes.
        first: ``(g,)``, position of the first occurrence of each distinct column.
    """

    def __init__(self, codes: IntArray, sizes: Sequence[int]) -> None:
        self._sizes = np.array(sizes, dtype=np.intp)
        self._steps: list[tuple[slice, IntArray]] = []
        self.group = np.zeros(codes.shape[1], dtype=np.intp)
        self.first = np.zeros(0, dtype=np.intp)
        for run in _runs(sizes, codes.shape[1]):
            keys, self.group = distinct(self._encode(self.group, codes, run))
            self._steps.append((run, keys))
            self.first = np.empty(len(keys), dtype=np.intp)
            # The first occurrence is written last.
            self.first[self.group[::-1]] = np.arange(len(self.group))[::-1]

    def find(self, codes: Sequence[IntArray] | IntArray) -> IntArray:
        """Numbers of combinations of codes, `MISSING` for one that does not occur.

        The arrays of codes are broadcast.
        """
        group = np.zeros((), dtype=np.intp)
        for run, keys in self._steps:
            # A column that is already missing gives a negative number, which is never a key.
            numbers = self._encode(group, codes, run)
            position = np.searchsorted(keys, numbers)
            group = np.where(np.append(keys, _NO_KEY)[position] == numbers, position, MISSING)
        return group

    def _encode(
        self, numbers: IntArray, codes: Sequence[IntArray] | IntArray, run: slice
    ) -> IntArray:
        for code, size in zip(codes[run], self._sizes[run], strict=True):
            numbers = numbers * size + code
        return numbers


def _runs(sizes: Sequence[int], numbers: int) -> Iterator[slice]:
    """Split columns into runs, each with at most `_MOST_KEYS` combinations of codes.

    Args:
        sizes: number of codes of each column.
        numbers: number of codes that every run is combined with.
    """
    start, room = 0, _MOST_KEYS // max(numbers, 1)
    for column, size in enumerate(sizes):
        if size > room and column > start:
            yield slice(start, column)
            start, room = column, _MOST_KEYS // max(numbers, 1)
        room //= max(size, 1)
    yield slice(start, len(sizes))
