"""Cells of a block of categories: the combinations of codes that occur, numbered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from probclass_core.arrow.arrays import MISSING, IntArray

_NO_KEY = np.iinfo(np.intp).min


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
        for run in runs(sizes, codes.shape[1], 2**62):
            keys, self.first, self.group = _distinct(self._encode(self.group, codes, run))
            self._steps.append((run, keys))

    def find(self, codes: IntArray) -> IntArray:
        """Numbers of the columns of ``codes``, `MISSING` for one that does not occur: ``(n,)``."""
        group = np.zeros(codes.shape[1], dtype=np.intp)
        for run, keys in self._steps:
            # A column that is already missing gives a negative number, which is never a key.
            numbers = self._encode(group, codes, run)
            position = np.searchsorted(keys, numbers)
            group = np.where(np.append(keys, _NO_KEY)[position] == numbers, position, MISSING)
        return group

    def _encode(self, numbers: IntArray, codes: IntArray, run: slice) -> IntArray:
        for code, size in zip(codes[run], self._sizes[run], strict=True):
            numbers = numbers * size + code
        return numbers


def _distinct(numbers: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """As `numpy.unique` with index and inverse, by hashing, which takes less time than sorting."""
    encoded = pa.array(numbers).dictionary_encode()
    keys, code = encoded.dictionary.to_numpy(), encoded.indices.to_numpy()
    order = np.argsort(keys)
    rank, first = np.empty((2, len(keys)), dtype=np.intp)
    rank[order] = np.arange(len(keys))
    first[code[::-1]] = np.arange(len(code))[::-1]  # the first occurrence is written last
    return keys[order], first[order], rank[code]


def runs(sizes: Sequence[int], numbers: int, limit: int) -> Iterator[slice]:
    """Split columns into runs, each with at most ``limit`` combinations of codes.

    Args:
        sizes: number of codes of each column.
        numbers: number of codes that every run is combined with.
        limit: largest number of combinations; a column that exceeds it alone is its own run.
    """
    start, room = 0, limit // max(numbers, 1)
    for column, size in enumerate(sizes):
        if size > room and column > start:
            yield slice(start, column)
            start, room = column, limit // max(numbers, 1)
        room //= max(size, 1)
    yield slice(start, len(sizes))
