"""Statistics of a data file in the log, by which readers skip files that no filtered row is in.

A minimum and a maximum are stored only if they bound every value of the file; a file without them
is never skipped. So a column has none if its values are not ordered the same way by all readers
(NaN), have no JSON number (infinity), or have no statistics in the Parquet footer (long text).
"""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from probclass_core.io.commit.log_sink import FinishedFile

_DEFAULT_COLUMNS = 32
_LONGEST_TEXT = 32
_LAST_CHARACTER = "\U0010ffff"
_MILLISECOND = dt.timedelta(milliseconds=1)


def file_statistics(file: FinishedFile, configuration: Mapping[str, str]) -> str:
    """Return the ``stats`` of an add action, as JSON.

    Only columns of plain types have minima, maxima and null counts, and by default only the first
    32 columns of the table.

    Args:
        file: the file to add.
        configuration: properties of the table; ``delta.dataSkippingNumIndexedCols`` is the number
            of columns with statistics, or -1 for all.
    """
    limit = int(configuration.get("delta.dataSkippingNumIndexedCols", _DEFAULT_COLUMNS))
    minima: dict[str, Any] = {}
    maxima: dict[str, Any] = {}
    null_counts: dict[str, int] = {}
    leaf = 0
    for number, column in enumerate(file.file.schema):
        if not pa.types.is_nested(column.type) and (limit < 0 or number < limit):
            chunks = _statistics(file.footer, leaf)
            if all(chunk is not None and chunk.has_null_count for chunk in chunks):
                null_counts[column.name] = sum(chunk.null_count for chunk in chunks)
            bounds = None if column.name in file.nan_columns else _bounds(chunks)
            if bounds is not None:
                minima[column.name], maxima[column.name] = bounds
        leaf += _leaves(column.type)
    statistics = {
        "numRecords": file.footer.num_rows,
        "minValues": minima,
        "maxValues": maxima,
        "nullCount": null_counts,
    }
    return json.dumps(statistics, allow_nan=False)


def _statistics(footer: pq.FileMetaData, leaf: int) -> list[pq.Statistics]:
    """Return the statistics of a Parquet column in each row group; None if it has none."""
    groups = range(footer.num_row_groups)
    return [footer.row_group(group).column(leaf).statistics for group in groups]


def _leaves(kind: pa.DataType) -> int:
    """Return the number of Parquet columns that store an Arrow column."""
    if pa.types.is_nested(kind):
        return sum(_leaves(kind.field(number).type) for number in range(kind.num_fields))
    return 1


def _bounds(chunks: list[pq.Statistics]) -> tuple[Any, Any] | None:
    """Return the least and the greatest value in JSON types; None if unknown or without values."""
    if any(chunk is None for chunk in chunks):
        return None
    filled = [chunk for chunk in chunks if chunk.num_values]
    if not filled or not all(chunk.has_min_max for chunk in filled):
        return None
    try:
        least, greatest = min(chunk.min for chunk in filled), max(chunk.max for chunk in filled)
        bounds = _lower_bound(least), _upper_bound(greatest)
    except OverflowError:  # dates and times that Python cannot represent
        return None
    return None if None in bounds else bounds


def _lower_bound(value: Any) -> Any:
    if isinstance(value, str):
        return value[:_LONGEST_TEXT]  # a prefix sorts first
    return _exact(value)


def _upper_bound(value: Any) -> Any:
    if isinstance(value, str) and len(value) > _LONGEST_TEXT:
        # A prefix sorts before the text, unless it continues with a greater character.
        greater = value[_LONGEST_TEXT] < _LAST_CHARACTER
        return value[:_LONGEST_TEXT] + _LAST_CHARACTER if greater else None
    if isinstance(value, dt.datetime) and value.microsecond % 1000:
        value += _MILLISECOND  # rounded up, for the log has milliseconds
    return _exact(value)


def _exact(value: Any) -> Any:
    """Return the value in a JSON type; None if that would change it."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Decimal):
        return float(value) if Decimal(repr(float(value))) == value else None
    if isinstance(value, dt.datetime):
        text = value.replace(tzinfo=None).isoformat(timespec="milliseconds")
        return text if value.tzinfo is None else f"{text}Z"
    if isinstance(value, dt.date):
        return value.isoformat()
    return value if isinstance(value, (bool, int, str)) else None
