"""Delta tables with features of readers: read as delta-rs reads them, or refused by name."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import uuid
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from delta_and_iceberg import DeltaLake, rows, rows_by_month, spec
from delta_log import Action, actions, commit, edit, entry, replace_file, require
from deltalake import DeltaTable, write_deltalake
from reading import read_rows

import probclass_core as pc
from probclass_core.errors import TableError


@pytest.fixture
def lake(tmp_path: Path) -> DeltaLake:
    return DeltaLake(tmp_path)


def in_order(table: pa.Table) -> list[str]:
    return sorted(map(str, table.to_pylist()))


def by_delta_rs(lake: DeltaLake, name: str) -> list[str]:
    """Return the rows as the engine of delta-rs reads them."""
    table = pa.table(DeltaTable(lake.root / name).scan().read_all())
    return in_order(table.select(pc.open_table(lake.ref(name)).schema.names))


PHYSICAL = {"a": "b", "b": "col-1", "s": "col-2", "part": "col-3", "later": "col-4"}
"""Names in the files by names in the table; the physical name of one is the name of another."""


def with_mapping(field: Action, numbers: Iterator[int]) -> Action:
    """Return a field of a schema with its id and physical name, at any depth."""
    kind = field["type"]
    if isinstance(kind, dict) and kind["type"] == "struct":
        kind = {**kind, "fields": [with_mapping(part, numbers) for part in kind["fields"]]}
    physical = PHYSICAL.get(field["name"], f"part-{field['name']}")
    metadata = {
        "delta.columnMapping.id": next(numbers),
        "delta.columnMapping.physicalName": physical,
    }
    return {**field, "type": kind, "metadata": metadata}


def write_mapped(lake: DeltaLake, name: str, mode: str) -> pa.Table:
    """Write a table whose columns are mapped, and return its rows."""
    table = pa.table(
        {
            "a": [1.0, 2.0, None],
            "b": [10.0, 20.0, 30.0],
            "s": [{"x": 1, "y": "p"}, {"x": None, "y": "q"}, None],
            "part": ["k", "k", "k"],
        }
    )
    folder = lake.root / name
    write_deltalake(str(folder), table, partition_by=["part"])
    changed = actions(lake, name)
    ids: dict[str, int] = {}
    for action in changed:
        if "protocol" in action:
            action["protocol"] = {"minReaderVersion": 2, "minWriterVersion": 5}
        if "metaData" in action:
            schema = json.loads(action["metaData"]["schemaString"])
            schema["fields"].append(
                {"name": "later", "type": "double", "nullable": True, "metadata": {}}
            )
            numbers = itertools.count(1)
            schema["fields"] = [with_mapping(field, numbers) for field in schema["fields"]]
            ids = {
                f["name"]: f["metadata"]["delta.columnMapping.id"]
                for column in schema["fields"]
                for f in (column, *(column["type"]["fields"] if column["name"] == "s" else ()))
            }
            action["metaData"]["schemaString"] = json.dumps(schema)
            action["metaData"]["configuration"] = {"delta.columnMapping.mode": mode}
        if "add" in action:
            action["add"]["partitionValues"] = {PHYSICAL["part"]: "k"}
    commit(lake, name, 0, changed)

    def stored(field: str, kind: pa.DataType, physical: str) -> pa.Field:
        physical = physical if mode == "name" else f"any-{physical}"
        metadata = {"PARQUET:field_id": str(ids[field])}
        return pa.field(physical, kind, metadata=metadata if mode == "id" else None)

    parts = pa.struct([stored("x", pa.int64(), "part-x"), stored("y", pa.string(), "part-y")])
    kinds = {"a": pa.float64(), "b": pa.float64(), "s": parts}
    schema = pa.schema([stored(column, kinds[column], PHYSICAL[column]) for column in kinds])
    structs = pa.StructArray.from_arrays(
        table["s"].combine_chunks().flatten(),
        fields=list(parts),
        mask=pa.array([False, False, True]),
    )
    replace_file(lake, name, pa.table([table["a"], table["b"], structs], schema=schema))
    return table.append_column("later", pa.nulls(3, pa.float64()))


@pytest.mark.parametrize("mode", ["name", "id"])
def test_mapped_columns_are_found_in_the_files(lake: DeltaLake, mode: str) -> None:
    expected = write_mapped(lake, "mapped", mode)
    flat = [name for name in expected.column_names if name != "s"]
    found = read_rows(lake.ref("mapped"), columns=flat)
    assert in_order(found) == in_order(expected.select(flat))
    if mode == "name":  # delta-rs finds columns by name in both modes, against the protocol
        assert in_order(expected) == by_delta_rs(lake, "mapped")
    with pytest.raises(TableError, match="column 's' has other parts"):
        read_rows(lake.ref("mapped"))
    some = read_rows(
        lake.ref("mapped"), columns=["b"], where=[("a", "==", 2.0), ("part", "==", "k")]
    )
    assert some.to_pylist() == [{"b": 20.0}]
    assert pc.open_table(lake.ref("mapped")).partitions() == [{"part": "k"}]
    plan = pc.open_table(lake.ref("mapped")).plan()
    assert plan.missing == {"later": 3}


def test_a_checkpoint_of_the_second_version_is_read(lake: DeltaLake) -> None:
    for month in ("2014-01", "2014-02"):
        lake.write("lake", rows(month), ["month"])
    require(lake, "lake", "v2Checkpoint")
    log = lake.root / "lake" / "_delta_log"
    kept = [action for action in actions(lake, "lake") if "commitInfo" not in action]
    checkpoint = [{"checkpointMetadata": {"version": 0}}, *kept]
    path = log / f"{0:020}.checkpoint.{uuid.uuid4()}.json"
    path.write_text("\n".join(map(json.dumps, checkpoint)))
    entry(lake, "lake", 0).unlink()
    assert rows_by_month(read_rows(lake.ref("lake"))) == {"2014-01": 40, "2014-02": 40}
    assert in_order(read_rows(lake.ref("lake"))) == by_delta_rs(lake, "lake")


@pytest.mark.parametrize(
    ("feature", "message"),
    [
        ("typeWidening", "at version 0 uses 'typeWidening', .*; drop the"),
        ("typeWidening-preview", "at version 0 uses 'typeWidening-preview', .*; drop the"),
        ("variantShredding-preview", "at version 0 uses 'variantShredding-preview', .*; drop the"),
        ("someday", "cannot .* the Delta table .*'someday'"),
    ],
)
def test_other_features_are_refused_by_name(lake: DeltaLake, feature: str, message: str) -> None:
    lake.write("odd", rows("2014-01"), ["month"])
    lake.write("lake", rows("2014-01"), ["month"])
    require(lake, "odd", feature)
    model = pc.fit(lake.ref("lake"), spec())
    for action in (
        lambda: pc.fit(lake.ref("odd"), spec()),
        lambda: pc.score(model, lake.ref("odd"), lake.ref("scored")),
        lambda: pc.score(model, lake.ref("lake"), lake.ref("odd")),
    ):
        with pytest.raises(TableError, match=message):
            action()


@pytest.mark.parametrize("feature", ["deletionVectors", "columnMapping", "v2Checkpoint"])
def test_features_that_can_be_read_are_not_written(lake: DeltaLake, feature: str) -> None:
    lake.write("odd", rows("2014-01"), ["month"])
    require(lake, "odd", feature)
    lake.write("lake", rows("2014-01"), ["month"])
    model = pc.fit(lake.ref("odd"), spec())
    message = rf"at version 0 uses '{feature}', which probclass cannot write"
    for action in (
        lambda: pc.score(model, lake.ref("lake"), lake.ref("odd"), options={"overwrite": "append"}),
        lambda: pc.score(model, lake.ref("lake"), lake.ref("odd")),
        lambda: pc.clean_table(lake.ref("odd")),
    ):
        with pytest.raises(TableError, match=message):
            action()
    assert len(lake.files("odd")) == 1


def test_times_that_spark_wrote_are_those_of_the_table(lake: DeltaLake) -> None:
    """Spark stores times as INT96; in nanoseconds, the year 9999 would be read as 1816."""
    times = [dt.datetime(9999, 12, 31, tzinfo=dt.UTC), dt.datetime(2014, 1, 1, tzinfo=dt.UTC)]
    table = pa.table({"at": pa.array(times, pa.timestamp("us", "UTC")), "x": ["a", "b"]})
    lake.write("spark", table, [])
    replace_file(lake, "spark", table, use_deprecated_int96_timestamps=True)
    assert read_rows(lake.ref("spark")).schema.field("at").type == pa.timestamp("us", "UTC")
    assert read_rows(lake.ref("spark")).to_pylist() == table.to_pylist()
    assert read_rows(lake.ref("spark"), where=[("at", ">", times[1])])["x"].to_pylist() == ["a"]
    dictionaries = read_rows(lake.ref("spark"), columns=["at", "x"], allow_dictionaries=True)
    assert dictionaries.to_pylist() == table.to_pylist()


def test_a_table_may_be_partitioned_by_negative_decimals(lake: DeltaLake) -> None:
    amounts = pa.array([Decimal("12.50"), Decimal("0.25")], pa.decimal128(9, 2))
    lake.write("amounts", pa.table({"amount": amounts, "x": [1, 2]}), ["amount"])

    def negate(add: Action) -> None:
        """Because deltalake only writes positive ones."""
        if add["partitionValues"] == {"amount": "12.50"}:
            add["partitionValues"] = {"amount": "-12.50"}

    edit(lake, "amounts", "add", negate)
    assert in_order(read_rows(lake.ref("amounts"))) == by_delta_rs(lake, "amounts")
    debts = read_rows(lake.ref("amounts"), columns=["x"], partition={"amount": Decimal("-12.50")})
    assert debts["x"].to_pylist() == [1]


def test_a_file_without_a_minimum_is_not_skipped_whatever_its_path(lake: DeltaLake) -> None:
    """The log encodes a percent sign of a path twice."""
    lake.write("lake", pa.table({"x": [1.0, 2.0], "share": ["10%", "20%"]}), ["share"])

    def remove_minimum(add: Action) -> None:
        if "10" in add["path"]:
            statistics = json.loads(add["stats"])
            del statistics["minValues"]["x"]
            add["stats"] = json.dumps(statistics)

    edit(lake, "lake", "add", remove_minimum)
    found = read_rows(lake.ref("lake"), columns=["share"], where=[("x", "<", 5.0)])
    assert sorted(found["share"].to_pylist()) == ["10%", "20%"]


def test_the_reason_why_a_log_cannot_be_read_has_no_stack(lake: DeltaLake) -> None:
    lake.write("lake", rows("2014-01"), ["month"])
    changed = [action for action in actions(lake, "lake") if "metaData" not in action]
    commit(lake, "lake", 0, [*changed, {"metaData": {"id": "no schema"}}])
    with pytest.raises(TableError, match="cannot read the Delta table") as caught:
        pc.open_table(lake.ref("lake"))
    assert "<unknown>" not in str(caught.value)
