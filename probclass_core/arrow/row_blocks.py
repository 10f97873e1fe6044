"""Iterate over numeric columns in blocks of rows that fit the processor's cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pyarrow as pa

from probclass_core.arrow.arrays import FloatArray, numeric_column, numeric_matrix

_BLOCK_ROWS = 2304
"""Rows of a block: two copies of a block with 20 features fit the processor's cache."""

_BUFFER = 1024
"""Size of NumPy's buffer in `block_arithmetic`, in numbers. In a broadcast, NumPy copies rows of up
to half of the buffer (8192 by default) into it, which takes as long as the arithmetic itself."""


def numeric_blocks(
    batch: pa.RecordBatch, columns: Sequence[str]
) -> Iterator[tuple[slice, FloatArray]]:
    """`numeric_matrix` in blocks of rows that fit the processor's cache.

    Yields:
        ``(rows, block)``: positions of the rows, and their ``(d, m)`` features, which the caller
        may overwrite and which are only valid until the next block.

    Raises:
        DataError: as `numeric_column`.
    """
    if 0 < batch.num_rows <= _BLOCK_ROWS:
        yield slice(0, batch.num_rows), numeric_matrix(batch, columns)
        return
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
    """Speed up arithmetic on blocks; overflow gives ∞ or NaN, which the caller must check."""
    with np.errstate(over="ignore", invalid="ignore"):
        before = np.setbufsize(_BUFFER)
        try:
            yield
        finally:
            np.setbufsize(before)
