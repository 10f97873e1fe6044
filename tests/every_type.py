"""A small table with a column of each common type, with nulls, and a spec for it."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa

import probclass_core as pc

ROWS = 12
NOON = dt.datetime(2014, 1, 1, 12, 0, 0, 5, tzinfo=dt.UTC)
SPEC = pc.ModelSpec(
    "label",
    {"gaussian_diagonal": ["double", "small", "price"], "categorical": ["text", "month", "hour"]},
)


def every_third_null(values: list[Any], kind: pa.DataType) -> pa.Array:
    cells = [None if row % 3 == 2 else values[row % len(values)] for row in range(ROWS)]
    return pa.array(cells, kind)


TABLE = pa.table(
    {
        "id": pa.array(range(ROWS)),
        "small": every_third_null([1, -1, 2, 5], pa.int8()),
        "whole": every_third_null([2**31 - 1, 0], pa.int32()),
        "single": every_third_null([0.5, -0.25], pa.float32()),
        "double": every_third_null([0.1, 1e10, 3.5, -4.0], pa.float64()),
        "flag": every_third_null([True, False], pa.bool_()),
        "text": every_third_null(["", "ß ☃", "a,b\n"], pa.string()),
        "at": every_third_null([NOON], pa.timestamp("us", "UTC")),
        "day": every_third_null([NOON.date()], pa.date32()),
        "price": every_third_null([Decimal("1.25"), Decimal("-7.50")], pa.decimal128(9, 2)),
        "vector": every_third_null([[0.5, None], []], pa.list_(pa.float64())),
        "bytes": every_third_null([b"\x00\xff"], pa.binary()),
        "label": pa.array(["p", "q"] * (ROWS // 2)),
        "month": pa.array(["2014-01", "2014 02/ä", None] * (ROWS // 3)),
        "hour": pa.array([1, 2, 23] * (ROWS // 3), pa.int32()),
    }
)


def columns_of(table: pa.Table) -> dict[str, list[Any]]:
    """Return plain values by column, ordered by id."""
    rows = sorted(table.to_pylist(), key=lambda row: row["id"])
    return {name: [row[name] for row in rows] for name in table.column_names}
