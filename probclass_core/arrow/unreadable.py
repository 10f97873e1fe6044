"""Why Arrow cannot convert a data frame or a mapping of columns: the column, and how to fix it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from probclass_core.errors import DataError, one_line, shown

CONVERSION_ERRORS = (pa.ArrowException, TypeError, ValueError, OverflowError)
"""Errors of a conversion to Arrow."""


def unreadable(data: Any, error: Exception) -> DataError:
    """The error for data that Arrow cannot convert.

    Args:
        data: data frame, or mapping of columns.
        error: the error of the conversion.
    """
    columns = list(_columns(data))
    for name, count in Counter(name for name, _ in columns).items():
        if count > 1:
            return DataError(f"the table has {count} columns named {name!r}; rename all but one.")
    for name, values in columns:
        if isinstance(values, str) or not isinstance(values, Iterable):
            return DataError(
                f"column {name!r} is a single value, {shown(values)}; give a list of values, such "
                f"as [{shown(values)}]."
            )
        try:
            if hasattr(values, "__arrow_c_stream__"):
                pa.chunked_array(values)
            else:
                pa.array(values, from_pandas=True)
        except CONVERSION_ERRORS as reason:
            return DataError(f"column {name!r} {_reason(values, reason)}.")
    lengths = {name: len(values) for name, values in columns}
    if len(set(lengths.values())) > 1:
        return DataError(f"the columns have different lengths: {lengths}; give all of them one.")
    return DataError(
        f"cannot read {shown(data)} as a table: {one_line(error)}; pass a DataFrame, a pyarrow "
        "table, or a mapping of columns."
    )


def _columns(data: Any) -> Iterator[tuple[str, Any]]:
    """The columns of a mapping or of a frame of pandas, whose names may repeat, or of polars."""
    if isinstance(data, Mapping):
        yield from ((str(name), values) for name, values in data.items())
    elif hasattr(data, "iloc") and hasattr(data, "columns"):
        for position, name in enumerate(data.columns):
            yield str(name), data.iloc[:, position]
    elif hasattr(data, "get_columns"):
        yield from ((column.name, column) for column in data.get_columns())


def _reason(values: Any, error: Exception) -> str:
    """What is wrong with the values of a column, and what to do."""
    present = [value for value in values if not _is_null(value)]
    kinds: dict[str, object] = {}
    for value in present:
        kinds.setdefault(type(value).__name__, value)
    if len(kinds) > 1:
        examples = " and ".join(f"{kind} values such as {shown(kinds[kind])}" for kind in kinds)
        return f"mixes {examples}; convert it to one type, such as text"
    large = [value for value in present if isinstance(value, int) and abs(value) >= 2**63]
    if large:
        return (
            f"has whole numbers beyond 64 bits, such as {large[0]}; convert it to text if it is a "
            "key, and otherwise to float"
        )
    kind = next(iter(kinds), "")
    detail = one_line(error)
    return f"has {kind} values, which Arrow cannot convert: {detail}; drop it, or convert it"


def _is_null(value: object) -> bool:
    """Whether a value of a column of Python objects is missing; some cannot be compared."""
    if isinstance(value, float):
        return math.isnan(value)
    return type(value).__name__ in ("NoneType", "NAType", "NaTType")  # pandas need not be installed
