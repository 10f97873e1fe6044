"""A batch of numbers in blocks of rows that fit the processor's cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pyarrow as pa

from probclass_core.arrow.arrays import FloatArray, numeric_column

_BLOCK_ROWS = 2304
"""Rows of a block of arithmetic: 20 features of it, twice, fit the processor's cache."""

_BUFFER = 1024
"""Numbers that NumPy buffers in `block_arithmetic`: 8192 by default, and rows of up to half of the
buffer are copied there when they are broadcast, which takes as long as the arithmetic."""


def numeric_blocks(
    batch: pa.RecordBatch, columns: Sequence[str]
) -> Iterator[tuple[slice, FloatArray]]:
    """The matrix of `numeric_matrix` in blocks that fit the processor's cache.

    Yields:
        ``(rows, block)``: which rows, and their ``(d, m)`` features, the caller's to use up until
        the next.

    Raises:
        DataError: as `numeric_column`.
    """
    values = [numeric_column(batch, name) for name in columns]
    memory = np.empty(len(columns) * min(_BLOCK_ROWS, batch.num_rows))
    for start in range(0, batch.num_rows, _BLOCK_ROWS):
        rows = slice(start, min(start + _BLOCK_ROWS, batch.num_rows))
        size = rows.stop - start
        block = memory[: len(columns) * size].reshape(len(columns), size)
        for row, column in zip(block, values, strict=True):
            row[:] = column[rows]
        yield rows, block


@contextmanager
def block_arithmetic() -> Iterator[None]:
    """For arithmetic on blocks: what is beyond float64 is ∞ or NaN, for the caller to judge."""
    with np.errstate(over="ignore", invalid="ignore"):
        before = np.setbufsize(_BUFFER)
        try:
            yield
        finally:
            np.setbufsize(before)
