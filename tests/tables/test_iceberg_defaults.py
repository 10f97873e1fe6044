"""Columns added to an Iceberg table are read from older files as pyiceberg reads them."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pac
import pytest
from delta_and_iceberg import IcebergLake
from iceberg_deletes import delete_rows
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)
from reading import read_rows

import probclass_core as pc
from probclass_core.errors import TableError

MOMENT = dt.datetime(2020, 1, 2, 3, 4, 5, 6)

DEFAULTS: dict[str, tuple[IcebergType, Any]] = {
    "int": (IntegerType(), 7),
    "long": (LongType(), 2**40),
    "zero": (LongType(), 0),
    "float": (FloatType(), 1.5),
    "double": (DoubleType(), -2.5),
    "string": (StringType(), "naïve"),
    "true": (BooleanType(), True),
    "false": (BooleanType(), False),
    "date": (DateType(), MOMENT.date()),
    "time": (TimeType(), MOMENT.time()),
    "timestamp": (TimestampType(), MOMENT),
    "timestamptz": (TimestamptzType(), MOMENT.replace(tzinfo=dt.UTC)),
    "decimal": (DecimalType(9, 2), Decimal("1.25")),
    "binary": (BinaryType(), b"ab"),
    "fixed": (FixedType(2), b"ab"),
    "uuid": (UUIDType(), uuid.UUID(int=5)),
    "without": (LongType(), None),
}

FILTERED = sorted(set(DEFAULTS) - {"binary", "fixed", "uuid", "without"})
"""Columns of types that Arrow and pyiceberg can both compare with a value."""


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> IcebergLake:
    """A table with an older file, a column of each type with a default, and a newer file."""
    lake = IcebergLake(tmp_path_factory.mktemp("lake"))
    lake.write("typed", pa.table({"x": [0.0, 1.0, 2.0]}), [])
    with lake.table("typed").update_schema() as change:
        for name, (kind, default) in DEFAULTS.items():
            change.add_column(name, kind, default_value=default)
    newer = lake.read("typed").slice(0, 2).set_column(0, "x", pa.array([3.0, 4.0]))
    of_nulls = pa.table({name: [None, newer[name][1].as_py()] for name in newer.column_names})
    lake.table("typed").append(of_nulls.cast(newer.schema))
    return lake


def read(ref: pc.TableRef, **query: Any) -> list[dict[str, Any]]:
    """Read the rows of a table with probclass."""
    return read_rows(ref, **query).to_pylist()


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["x"] is not None, row["x"]))


def test_a_default_is_read_from_older_files_and_nulls_from_newer_ones(lake: IcebergLake) -> None:
    ours = in_order(read(lake.ref("typed")))
    assert ours == in_order(lake.read("typed").to_pylist())
    for name, (_, default) in DEFAULTS.items():
        assert [row[name] for row in ours] == [None, *[default] * 4], name


def test_filters_find_rows_by_their_default(lake: IcebergLake) -> None:
    table = pc.open_table(lake.ref("typed"))
    for name in FILTERED:
        default, field = DEFAULTS[name][1], pac.field(name)
        typed = pa.scalar(default, table.schema.field(name).type)
        for where in ([(name, "==", default)], [(name, "in", [default])], field == typed):
            batches = table.plan(columns=["x"], where=where).batches()
            found = [x for batch in batches for x in batch["x"].to_pylist()]
            assert sorted(found) == [0.0, 1.0, 2.0, 4.0], name
    null = read(lake.ref("typed"), columns=["x"], where=pac.field("int").is_null())
    assert [row["x"] for row in null] == [None]


def test_a_filter_by_another_value_leaves_the_rows_with_the_default_out(lake: IcebergLake) -> None:
    assert read(lake.ref("typed"), columns=["x"], where=[("int", "!=", 7)]) == []
    assert read(lake.ref("typed"), columns=["x"], where=[("int", "<", 7)]) == []
    assert len(read(lake.ref("typed"), columns=["x"], where=[("int", ">", 6)])) == 4


def test_the_default_of_a_later_column_of_that_name_is_read(tmp_path: Path) -> None:
    lake = IcebergLake(tmp_path)
    lake.write("lake", pa.table({"x": [1.0]}), [])
    digests = set()
    for default in ("first", "second"):
        with lake.table("lake").update_schema() as change:
            change.add_column("note", StringType(), default_value=default)
        assert read(lake.ref("lake")) == [{"x": 1.0, "note": default}]
        digests |= {unit.digest for unit in pc.open_table(lake.ref("lake")).plan().units}
        with lake.table("lake").update_schema() as change:
            change.delete_column("note")
    assert len(digests) == 2, "kept statistics of the one are not those of the other"


def test_defaults_follow_renames_promotions_and_deleted_rows(tmp_path: Path) -> None:
    lake = IcebergLake(tmp_path)
    lake.write("lake", pa.table({"x": [0.0, 1.0, 2.0]}), [])
    with lake.table("lake").update_schema() as change:
        change.add_column("n", IntegerType(), default_value=5)
    with lake.table("lake").update_schema() as change:
        change.update_column("n", LongType())
        change.rename_column("n", "count")
        change.rename_column("x", "n")
    delete_rows(lake.table("lake"), "n >= 0", [1])
    expected = lake.read("lake").to_pylist()
    assert read(lake.ref("lake")) == expected == [{"n": 0.0, "count": 5}, {"n": 2.0, "count": 5}]
    assert read(lake.ref("lake"), where=[("count", "==", 5), ("n", ">", 1)]) == expected[1:]


def test_a_column_with_a_default_may_later_partition_the_table(tmp_path: Path) -> None:
    lake = IcebergLake(tmp_path)
    lake.write("lake", pa.table({"x": [0.0]}), [])
    with lake.table("lake").update_schema() as change:
        change.add_column("site", StringType(), default_value="north")
    with lake.table("lake").update_spec() as spec:
        spec.add_identity("site")
    lake.table("lake").append(pa.table({"x": [1.0, 2.0, 3.0], "site": ["north", "south", None]}))
    assert in_order(read(lake.ref("lake"))) == in_order(lake.read("lake").to_pylist())
    for site, found in {"north": [0.0, 1.0], "south": [2.0]}.items():
        some = read(lake.ref("lake"), columns=["x"], where=[("site", "==", site)])
        assert sorted(row["x"] for row in some) == found


@pytest.mark.parametrize("column", ["s", "l", "m", "deep"])
def test_a_nested_column_whose_parts_changed_is_refused(tmp_path: Path, column: str) -> None:
    """Promoted parts are not: a part that was renamed, and another that got its name, is."""
    lake = IcebergLake(tmp_path)
    kind = pa.struct([("a", pa.int32()), ("b", pa.float64())])
    struct = {"a": 1, "b": 0.5}
    older = pa.table(
        {
            "s": pa.array([struct, {"a": None, "b": 1.5}, None], kind),
            "l": pa.array([[struct, None], [], [{"a": 3, "b": None}]], pa.list_(kind)),
            "m": pa.array([[("k", struct)], [], []], pa.map_(pa.string(), kind)),
            "deep": pa.array([{"s": struct}] * 3, pa.struct([("s", kind)])),
        }
    )
    lake.write("nested", older, [])
    path = {"s": ("s",), "l": ("l", "element"), "m": ("m", "value"), "deep": ("deep", "s")}[column]
    with lake.table("nested").update_schema() as change:
        change.update_column((*path, "a"), LongType())
    expected = lake.read("nested").to_pylist()
    assert read(lake.ref("nested")) == expected
    with lake.table("nested").update_schema() as change:
        change.rename_column((*path, "a"), "old")
        change.rename_column((*path, "b"), "a")
    with pytest.raises(TableError, match=f"column '{column}' has other parts"):
        read(lake.ref("nested"))
    others = [name for name in older.column_names if name != column]
    assert len(read(lake.ref("nested"), columns=others)) == 3
