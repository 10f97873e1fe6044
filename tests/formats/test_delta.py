"""What Delta tables have to themselves; what they share with Iceberg is in test_logged.py."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from deltalake import DeltaTable
from logged_lakes import DeltaLake, by_month, rows, spec

import probclass_core as pc


@pytest.fixture
def lake(tmp_path: Path) -> DeltaLake:
    lake = DeltaLake(tmp_path)
    lake.write("lake", rows("2014-01"), ["month"])
    lake.write("lake", rows("2014-02"), ["month"])
    return lake


def test_a_table_is_known_by_its_log_and_by_its_prefix(lake: DeltaLake, tmp_path: Path) -> None:
    source = str(tmp_path / "lake")
    model = pc.fit(source, spec())
    assert model.training["version"] == 1
    pc.score(model, source, f"delta+file://{tmp_path}/scored")
    assert pc.score(model, source, str(tmp_path / "scored")).skipped == 2
    assert by_month(lake.read("scored")) == {"2014-01": 40, "2014-02": 40}


def test_a_prefix_before_a_path_is_no_name_of_a_directory(lake: DeltaLake, tmp_path: Path) -> None:
    model = pc.fit(tmp_path / "lake", spec())
    with pytest.raises(pc.TableError, match=rf"write delta\+file://{tmp_path}/scored, or"):
        pc.score(model, tmp_path / "lake", f"delta+{tmp_path}/scored")
    assert [place.name for place in tmp_path.iterdir()] == ["lake"]
    (tmp_path / "delta+").mkdir()
    pc.score(model, tmp_path / "lake", f"{tmp_path}/delta+/scored")
    assert pc.inspect_table(f"{tmp_path}/delta+/scored").format == "parquet"


def test_a_version_to_come_is_refused(lake: DeltaLake, tmp_path: Path) -> None:
    with pytest.raises(pc.TableError, match="has no version 7; the newest is 1"):
        pc.open_table(pc.TableRef(str(tmp_path / "lake"), version=7))


def test_duckdb_agrees(lake: DeltaLake, tmp_path: Path) -> None:
    pc.score(pc.fit(lake.ref("lake"), spec()), lake.ref("lake"), lake.ref("scored"))
    dataset = DeltaTable(str(tmp_path / "scored")).to_pyarrow_dataset()
    counts = duckdb.from_arrow(dataset).aggregate("month, count(*)", "month").order("month")
    assert counts.fetchall() == [("2014-01", 40), ("2014-02", 40)]


def told_by_the_log(lake: DeltaLake, name: str, change: Callable[[dict[str, Any]], None]) -> None:
    """A table of January whose first entry says what other engines may have it say."""
    lake.write(name, rows("2014-01").drop_columns("month"), [])
    entry = lake.root / name / "_delta_log" / "00000000000000000000.json"
    actions = [json.loads(line) for line in entry.read_text().splitlines()]
    for action in actions:
        change(action)
    entry.write_text("\n".join(map(json.dumps, actions)))


def needs(feature: str) -> Callable[[dict[str, Any]], None]:
    def change(action: dict[str, Any]) -> None:
        if "protocol" in action:
            features = {"readerFeatures": [feature], "writerFeatures": [feature]}
            action["protocol"] = {"minReaderVersion": 3, "minWriterVersion": 7, **features}

    return change


def maps_columns(action: dict[str, Any]) -> None:
    """As tables before the features have it, by the version alone."""
    if "protocol" in action:
        action["protocol"] = {"minReaderVersion": 2, "minWriterVersion": 5}
    if "metaData" in action:
        schema = json.loads(action["metaData"]["schemaString"])
        for number, column in enumerate(schema["fields"], start=1):
            column["metadata"] = {
                "delta.columnMapping.id": number,
                "delta.columnMapping.physicalName": f"column-{number}",
            }
        action["metaData"]["schemaString"] = json.dumps(schema)
        action["metaData"]["configuration"] = {"delta.columnMapping.mode": "name"}


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (needs("deletionVectors"), "'deletionVectors'"),
        (needs("typeWidening"), "'typeWidening'"),
        (maps_columns, "'columnMapping'"),
    ],
    ids=["deletion vectors", "widened types", "mapped columns"],
)
def test_what_cannot_be_read_is_refused_and_not_written_either(
    lake: DeltaLake, change: Callable[[dict[str, Any]], None], named: str
) -> None:
    told_by_the_log(lake, "odd", change)
    model = pc.fit(rows("2014-01"), spec())
    source = lake.ref("lake", version=0)
    for attempt in (
        lambda: pc.fit(lake.ref("odd"), spec()),
        lambda: pc.score(model, lake.ref("odd"), lake.ref("scored")),
        lambda: pc.score(model, source, lake.ref("odd"), overwrite="append"),
        lambda: pc.score(model, source, lake.ref("odd")),
    ):
        with pytest.raises(
            pc.TableError, match=f"uses {named}, which probclass cannot read or write"
        ):
            attempt()
    assert len(lake.files("odd")) == 1


def test_rules_for_rows_are_kept_by_not_writing(lake: DeltaLake) -> None:
    source, sink = lake.ref("lake"), lake.ref("scored")
    model = pc.fit(source, spec())
    january, february = ({"month": f"2014-0{number}"} for number in (1, 2))
    pc.score(model, source, sink, partition=january)
    other = pc.fit(rows("2014-01", 30), spec())
    DeltaTable(sink.uri).alter.set_table_properties({"delta.appendOnly": "true"})
    with pytest.raises(
        pc.TableError, match=r"only accepts appended rows .*score with overwrite='append'"
    ):
        pc.score(other, source, sink, partition=january)
    assert pc.score(other, source, sink, partition=january, overwrite="append").rows == 40
    assert pc.score(model, source, sink, partition=february).rows == 40
    assert by_month(lake.read("scored")) == {"2014-01": 80, "2014-02": 40}
    DeltaTable(sink.uri).alter.add_constraint({"small": "x < 100000"})
    with pytest.raises(pc.TableError, match=r"probclass cannot check: 'delta\.constraints\.small'"):
        pc.score(other, source, sink, partition=february, overwrite="append")
