"""Conversions of columns that several blocks of a model share, done once for each batch."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import pyarrow as pa

Converted = TypeVar("Converted")

_WORTH_SHARING = 64
"""Rows from which a conversion takes longer than to look up whether it was done."""

_converted: ContextVar[dict[Hashable, Any] | None] = ContextVar("converted", default=None)


@contextmanager
def shared_conversions() -> Iterator[None]:
    """Convert each column at most once in this context, which spans the work on one batch.

    Results must not be modified. A context within another one shares its conversions. A column is
    known by the addresses of its memory, which the context keeps from being used for another one.
    """
    if _converted.get() is not None:
        yield
        return
    token = _converted.set({})
    try:
        yield
    finally:
        _converted.reset(token)


def converted(
    column: pa.Array, conversion: Hashable, convert: Callable[[], Converted]
) -> Converted:
    """The result of ``convert()``, or an earlier one for this column in `shared_conversions`.

    Args:
        column: the column that is converted.
        conversion: what distinguishes this conversion from others of the same column.
        convert: converts the column.
    """
    results = _converted.get()
    if results is None or len(column) < _WORTH_SHARING:
        return convert()
    key = (*_identity(column), conversion)
    if key not in results:
        results[key] = column, convert()
    result: Converted = results[key][1]
    return result


def _identity(column: pa.Array) -> tuple[Hashable, ...]:
    """Type, extent and addresses of a column, which no other column in memory shares."""
    buffers = column.buffers()
    addresses = tuple(None if buffer is None else buffer.address for buffer in buffers)
    values = _identity(column.dictionary) if pa.types.is_dictionary(column.type) else ()
    return (column.type, column.offset, len(column), addresses, values)
