"""Statistics of a data file in the log, by which readers skip files that no filtered row is in.

The bounds of a column enclose every value of the file, in every reader's order. Some readers sort
NaN after infinity and others never match it, so the maximum of a column with a NaN is infinity.
A file has bounds for all of its columns or for none: deltalake's own dataset would skip a file
that has bounds for some columns only, for any condition on the others.
"""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Container, Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from probclass_core.io.commit.log_sink import FinishedFile

_DEFAULT_COLUMNS = 32
_LONGEST_TEXT = 32
_LAST_CHARACTER = "\U0010ffff"
_MILLISECOND = dt.timedelta(milliseconds=1)


def indexed_columns(names: Sequence[str], configuration: Mapping[str, str]) -> Sequence[str]:
    """Return the columns of a table that have statistics: by default the first 32.

    Args:
        names: columns of the table, in order, without the partition columns.
        configuration: properties of the table; ``delta.dataSkippingNumIndexedCols`` is the number
            of columns with statistics, or -1 for all.
    """
    limit = int(configuration.get("delta.dataSkippingNumIndexedCols", _DEFAULT_COLUMNS))
    return names if limit < 0 else names[:limit]


def file_statistics(file: FinishedFile, indexed: Container[str]) -> str:
    """Return the ``stats`` of an add action, as JSON.

    Null counts and bounds are of columns of plain types; binary columns have no bounds.

    Args:
        file: the file to add.
        indexed: names of the columns with statistics; see `indexed_columns`.
    """
    null_counts: dict[str, int] = {}
    bounds: dict[str, tuple[Any, Any]] = {}
    complete = True
    leaf = 0
    for column in file.file.schema:
        if column.name in indexed and not pa.types.is_nested(column.type):
            chunks = _column_chunks(file.footer, leaf)
            if all(chunk is not None and chunk.has_null_count for chunk in chunks):
                null_counts[column.name] = sum(chunk.null_count for chunk in chunks)
            found = _bounds(chunks, has_nan=column.name in file.nan_columns)
            if found is not None:
                bounds[column.name] = found
            elif null_counts.get(column.name) != file.footer.num_rows:
                complete = complete and pa.types.is_binary(column.type)
        leaf += _leaves(column.type)
    statistics: dict[str, Any] = {"numRecords": file.footer.num_rows}
    if complete:
        statistics["minValues"] = {name: least for name, (least, _) in bounds.items()}
        statistics["maxValues"] = {name: greatest for name, (_, greatest) in bounds.items()}
    return json.dumps({**statistics, "nullCount": null_counts}, allow_nan=False)


def _column_chunks(footer: pq.FileMetaData, leaf: int) -> list[pq.Statistics]:
    """Return the statistics of a Parquet column in each row group; None if it has none."""
    groups = range(footer.num_row_groups)
    return [footer.row_group(group).column(leaf).statistics for group in groups]


def _leaves(kind: pa.DataType) -> int:
    """Return the number of Parquet columns that store an Arrow column."""
    if pa.types.is_nested(kind):
        return sum(_leaves(kind.field(number).type) for number in range(kind.num_fields))
    return 1


def _bounds(chunks: Sequence[pq.Statistics], *, has_nan: bool) -> tuple[Any, Any] | None:
    """Return bounds of all values, in types of JSON; None if unknown or if there are no values."""
    try:
        extremes = _extremes(chunks)
        if has_nan:
            extremes = (extremes[0] if extremes else -math.inf), math.inf
        bounds = extremes and (_lower_bound(extremes[0]), _upper_bound(extremes[1]))
    except OverflowError:  # dates and times that Python cannot represent
        return None
    return None if bounds is None or None in bounds else bounds


def _extremes(chunks: Sequence[pq.Statistics]) -> tuple[Any, Any] | None:
    """Return the least and the greatest value, NaN ignored; None if unknown."""
    if any(chunk is None for chunk in chunks):
        return None
    filled = [chunk for chunk in chunks if chunk.num_values]
    if not filled or not all(chunk.has_min_max for chunk in filled):
        return None
    return min(chunk.min for chunk in filled), max(chunk.max for chunk in filled)


def _lower_bound(value: Any) -> Any:
    if isinstance(value, str):
        return value[:_LONGEST_TEXT]  # a prefix sorts before the text
    return _exact(value)


def _upper_bound(value: Any) -> Any:
    if isinstance(value, str) and len(value) > _LONGEST_TEXT:
        sorts_after = value[_LONGEST_TEXT] < _LAST_CHARACTER
        return value[:_LONGEST_TEXT] + _LAST_CHARACTER if sorts_after else None
    if isinstance(value, dt.datetime) and value.microsecond % 1000:
        value += _MILLISECOND  # rounded up, for the log has milliseconds
    return _exact(value)


def _exact(value: Any) -> Any:
    """Return the value in a type of JSON; None if that would change it."""
    if isinstance(value, float):
        # JSON has no infinities; Spark stores them as these texts.
        return value if math.isfinite(value) else f"{'-' if value < 0 else ''}Infinity"
    if isinstance(value, Decimal):
        return float(value) if Decimal(repr(float(value))) == value else None
    if isinstance(value, dt.datetime):
        text = value.replace(tzinfo=None).isoformat(timespec="milliseconds")
        return text if value.tzinfo is None else f"{text}Z"
    if isinstance(value, dt.date):
        return value.isoformat()
    return value if isinstance(value, (bool, int, str)) else None
