"""Cells of a block of categories: combinations of codes, numbered by what occurs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from probclass_core.arrow.arrays import MISSING, IntArray

_NO_KEY = np.iinfo(np.intp).min


class CellIndex:
    """Distinct columns of a ``(d, n)`` matrix of codes, and where other columns stand among them.

    A column is one number in mixed radix. Where the radices multiply beyond 62 bits, what has been
    read so far is renumbered by what occurs, so no two columns are ever taken for one another.

    Args:
        codes: ``(d, n)``, each row from 0 to below its size.
        sizes: ``d`` of them.

    Attributes:
        group: ``(n,)``, number of the distinct column; the order is that of the codes.
        first: where each of the distinct columns stands first, ``(g,)``.
    """

    def __init__(self, codes: IntArray, sizes: Sequence[int]) -> None:
        self._sizes = np.array(sizes, dtype=np.intp)
        self._steps: list[tuple[slice, IntArray]] = []
        self.group = np.zeros(codes.shape[1], dtype=np.intp)
        self.first = np.zeros(0, dtype=np.intp)
        for run in runs(sizes, codes.shape[1], 2**62):
            keys, self.first, self.group = np.unique(
                self._numbers(self.group, codes, run), return_index=True, return_inverse=True
            )
            self._steps.append((run, keys))

    def find(self, codes: IntArray) -> IntArray:
        """Numbers of the columns of ``codes``, `MISSING` for one that is not there: ``(n,)``."""
        found = np.zeros(codes.shape[1], dtype=np.intp)
        for run, keys in self._steps:
            # A column that is already lost gives a negative number, which is no key.
            wanted = self._numbers(found, codes, run)
            place = np.searchsorted(keys, wanted)
            found = np.where(np.append(keys, _NO_KEY)[place] == wanted, place, MISSING)
        return found

    def _numbers(self, numbers: IntArray, codes: IntArray, run: slice) -> IntArray:
        for code, size in zip(codes[run], self._sizes[run], strict=True):
            numbers = numbers * size + code
        return numbers


def runs(sizes: Sequence[int], numbers: int, limit: int) -> Iterator[slice]:
    """Columns in runs whose combinations, with so many numbers before them, are within a limit.

    A column that is beyond it by itself is a run of its own.
    """
    start, room = 0, limit // max(numbers, 1)
    for column, size in enumerate(sizes):
        if size > room and column > start:
            yield slice(start, column)
            start, room = column, limit // max(numbers, 1)
        room //= max(size, 1)
    yield slice(start, len(sizes))
