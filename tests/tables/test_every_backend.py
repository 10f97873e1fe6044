"""Scoring into every backend: each input once, and what is refused; see also test_sink_laws.py."""

from __future__ import annotations

import datetime as dt
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from backends import (
    FEBRUARY,
    FEBRUARY_ROWS,
    JANUARY,
    JANUARY_ROWS,
    Arrives,
    Backend,
    append,
    appending,
    everywhere,
    objects,
)
from delta_and_iceberg import DeltaLake, rows, spec

import probclass_core as pc
from probclass_core.errors import TableError
from probclass_core.io.table import Source


def no_leftovers(sink: pc.TableRef) -> bool:
    return pc.clean_table(sink, older_than=timedelta(0)) == []


# Replacing partitions.


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A lake with 40 rows for each of two months."""
    both = pa.concat_tables([rows("2014-01"), rows("2014-02")])
    pq.write_to_dataset(both, tmp_path / "lake", partition_cols=["month"])
    return tmp_path / "lake"


@everywhere
def test_partitions_are_scored_one_by_one_and_once(
    backend: Backend, model: pc.Model, source: Path
) -> None:
    sink = backend.ref("scored")
    report = pc.score(model, source, sink)
    assert (report.rows, [one.partition for one in report.scored]) == (80, [JANUARY, FEBRUARY])
    commits = backend.commits("scored")
    assert [commit["partition"] for commit in commits] == [JANUARY, FEBRUARY]
    for options in ({}, {"workers": 1}, {"options": {"overwrite": "never"}}):
        again = pc.score(model, source, sink, **options)
        assert (again.rows, again.counts["unchanged"], again.commit_id) == (80, 2, report.commit_id)
    assert pc.score(model, source, sink, partition=FEBRUARY).counts["unchanged"] == 1
    assert backend.commits("scored") == commits
    assert backend.xs("scored") == [*JANUARY_ROWS, *FEBRUARY_ROWS]
    assert no_leftovers(sink)


@everywhere
def test_the_files_of_a_scored_table_are_inspected(
    backend: Backend, model: pc.Model, source: Path
) -> None:
    pc.score(model, source, backend.ref("scored"))
    inspection = pc.inspect_table(backend.ref("scored"))
    assert (inspection.rows, inspection.partitions) == (80, [JANUARY, FEBRUARY])
    assert inspection.files is not None
    assert [file.rows for file in inspection.files] == [40, 40]
    assert inspection.models == [model.id]


def test_partitions_by_dates_numbers_texts_and_nulls(
    backend: Backend, model: pc.Model, tmp_path: Path
) -> None:
    """The first partition has only nulls, and yet the types of its source."""
    types = {"day": pa.date32(), "hour": pa.int64(), "place": pa.string()}
    day = dt.date(2014, 1, 2)
    keys = [(None, None, None), (day, 3, "north"), (day, None, "south"), (None, 4, "north")]
    plain = rows("").drop_columns("month")
    parts = []
    for key in keys:
        values = zip(key, types.values(), strict=True)
        arrays = [pa.array([value] * 40, kind) for value, kind in values]
        parts.append(pa.table([*plain.columns, *arrays], [*plain.column_names, *types]))
    lake, sink = DeltaLake(tmp_path / "in"), backend.ref("scored")
    lake.write("days", pa.concat_tables(parts), [*types])
    for key in keys:
        partition = dict(zip(types, key, strict=True))
        report = pc.score(model, lake.ref("days"), sink, partition=partition)
        assert (report.rows, report.counts["unchanged"]) == (40, 0)
    assert pc.score(model, lake.ref("days"), sink).counts["unchanged"] == 4
    by_text = {"place": "north", "hour": "4", "day": None}
    assert pc.score(model, lake.ref("days"), sink, partition=by_text).counts["unchanged"] == 1
    table = backend.read("scored")
    if backend.typed:
        assert {name: table.schema.field(name).type for name in types} == types
    counts = table.group_by([*types]).aggregate([([], "count_all")]).to_pylist()
    found = {tuple(str(count[name]) for name in types): count["count_all"] for count in counts}
    assert found == {tuple(map(str, key)): 40 for key in keys}


@appending
def test_a_partition_value_of_another_type_than_the_table_has(
    backend: Backend, model: pc.Model, tmp_path: Path
) -> None:
    """A backend without types takes the text 1 and the number 1 for the same partition."""
    for name, value in (("text", "1"), ("number", 1)):
        month = rows("").set_column(3, "month", pa.array([value] * 40))
        pq.write_table(month, tmp_path / f"{name}.parquet")
    append(model, tmp_path / "text.parquet", backend.ref("scored"), partition={"month": "1"})
    for overwrite in ("append", "partition"):
        options: dict[str, Any] = {"partition": {"month": 1}, "options": {"overwrite": overwrite}}
        if backend.typed:
            with pytest.raises(TableError, match=r"'month' is string in .* cannot represent 1;"):
                append(model, tmp_path / "number.parquet", backend.ref("scored"), **options)
        else:
            append(model, tmp_path / "number.parquet", backend.ref("scored"), **options)
    assert backend.read("scored").num_rows == 40


# Appending rows.


@appending
def test_each_input_is_appended_once(backend: Backend, model: pc.Model, arrives: Arrives) -> None:
    first, second = arrives("first"), arrives("second", start=100.0, size=3)
    sink, later = backend.ref("scored"), [("2014-01", 100.0 + x) for x in range(3)]
    report = append(model, first, sink, partition=JANUARY)
    assert (report.rows, [one.partition for one in report.scored]) == (40, [JANUARY])
    assert backend.xs("scored") == JANUARY_ROWS
    report = append(model, second, sink, partition=JANUARY)
    assert (report.rows, report.counts["unchanged"]) == (3, 0)
    assert backend.xs("scored") == [*JANUARY_ROWS, *later]
    append(model, arrives("third", "2014-02"), sink, partition=FEBRUARY)
    for source, count in ((first, 40), (second, 3)):
        again = append(model, source, sink, partition=JANUARY)
        assert (again.rows, again.counts["unchanged"]) == (count, 1)
    assert backend.xs("scored") == [*JANUARY_ROWS, *later, *FEBRUARY_ROWS]
    # A file that changed is another input.
    arrives("second", start=200.0, size=1)
    assert append(model, second, sink, partition=JANUARY).counts["unchanged"] == 0
    assert backend.xs("scored") == [*JANUARY_ROWS, *later, ("2014-01", 200.0), *FEBRUARY_ROWS]
    assert no_leftovers(sink)


@appending
def test_rows_of_other_writers_stay(backend: Backend, model: pc.Model, arrives: Arrives) -> None:
    append(model, arrives("first"), backend.ref("twin"), partition=JANUARY)
    backend.write("scored", backend.read("twin"))
    more = arrives("more", start=100.0)
    for skipped in (0, 1):
        report = append(model, more, backend.ref("scored"), partition=JANUARY)
        assert (report.rows, report.counts["unchanged"]) == (40, skipped)
    later = [("2014-01", 100.0 + x) for x in range(40)]
    assert backend.xs("scored") == [*JANUARY_ROWS, *later]
    # The partition also has the rows of the other writer, so it is not what this scoring writes.
    sink = backend.ref("scored")
    with pytest.raises(TableError, match="was made from other inputs"):
        append(model, more, sink, partition=JANUARY, options={"overwrite": "never"})
    report = append(model, more, sink, partition=JANUARY, options={"overwrite": "partition"})
    assert report.counts["unchanged"] == 0
    assert backend.xs("scored") == later


@objects
def test_rows_cannot_be_added_to_an_object_and_other_objects_are_not_replaced(
    backend: Backend, model: pc.Model, arrives: Arrives
) -> None:
    source, sink = arrives("first"), backend.ref("scored")
    with pytest.raises(TableError, match="tables of this format cannot be appended to"):
        append(model, source, sink, partition=JANUARY)
    pc.score(model, source, backend.ref("twin"), partition=JANUARY)
    backend.write("scored", backend.read("twin"))
    with pytest.raises(TableError, match="is not part of a table written here"):
        pc.score(model, source, sink, partition=JANUARY)
    assert backend.xs("scored") == JANUARY_ROWS


@appending
def test_an_input_without_identity_is_not_appended(backend: Backend, model: pc.Model) -> None:
    table = rows("2014-01")
    reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches())
    for source in (table, table.to_pandas(), reader):
        with pytest.raises(TableError, match="append from a file or a table"):
            append(model, source, backend.ref("scored"), partition=JANUARY)


@appending
@pytest.mark.parametrize("overwrite", ["partition", "append"])
def test_a_commit_records_its_model_input_and_run(
    backend: Backend, tmp_path: Path, overwrite: str
) -> None:
    lake = DeltaLake(tmp_path / "in")
    for month in ("2014-01", "2014-02"):
        lake.write("lake", rows(month), ["month"])
    source, sink = lake.ref("lake", version=0), backend.ref("scored")
    model = pc.fit(source, spec(), partition=JANUARY)
    options: dict[str, Any] = {"partition": JANUARY, "options": {"overwrite": overwrite}}
    append(model, source, sink, **options, provenance={"run_id": "manual__1"})
    [commit] = backend.commits("scored")
    assert (commit["model_id"], commit["provenance"]["run_id"]) == (model.id, "manual__1")
    # The input of a scoring is recorded in the same words as the input of a training.
    recorded = [commit[key] for key in ("source", "input_version", "input", "partition")]
    trained = [model.training[key] for key in ("source", "version", "snapshot", "partition")]
    assert recorded == trained
    assert commit["input_version"] == 0
    # Another run of the same scoring has nothing to do.
    assert (
        append(model, source, sink, **options, provenance={"run_id": "manual__2"}).counts[
            "unchanged"
        ]
        == 1
    )
    assert backend.commits("scored") == [commit]


# Refusals.


@appending
@pytest.mark.parametrize(
    ("partition", "overwrite"),
    [(JANUARY, "append"), (FEBRUARY, "append"), (FEBRUARY, "partition")],
)
def test_rows_with_other_columns_are_refused_and_change_nothing(
    backend: Backend,
    model: pc.Model,
    arrives: Arrives,
    tmp_path: Path,
    partition: Any,
    overwrite: str,
) -> None:
    sink = backend.ref("scored")
    append(model, arrives("first"), sink, partition=JANUARY)
    with_id = rows(partition["month"]).append_column("id", pa.array(["a"] * 40))
    with_text = with_id.set_column(0, "x", pa.array(["ten"] * 40))
    by_kind = pc.fit(with_text, pc.ModelSpec("y", [pc.Block("categorical", ["kind"])]))
    cases: list[tuple[pc.Model, pa.Table, dict[str, Any], str]] = [
        (model, with_id, {"columns": ["x", "id"], "schema": "same"}, r"has no column 'id'; it has"),
        (model, with_id, {"columns": [], "schema": "same"}, r"also has 'x', which these rows lack"),
        (model, with_id, {"posterior": "list"}, r"has no column 'posterior'"),
        (by_kind, with_text, {}, r"column 'x' is string here and double in .*; cast it"),
    ]
    for scorer, table, options, message in cases:
        pq.write_table(table, tmp_path / "other.parquet")
        with pytest.raises(TableError, match=message):
            append(
                *(scorer, tmp_path / "other.parquet", sink),
                partition=partition,
                options={"overwrite": overwrite, **options},
            )
    assert backend.xs("scored") == JANUARY_ROWS
    assert len(backend.commits("scored")) == 1
    assert no_leftovers(sink)


class LeakyTable(Source):
    """A plugin's table that ignores the requested partition."""

    def __init__(self, table: pa.Table) -> None:
        self._table = pc.open_table(table)
        self.partition_columns = ["month"]

    @property
    def schema(self) -> pa.Schema:
        return self._table.schema

    def partitions(self, where: Any = None) -> list[dict[str, str]]:
        return [JANUARY, FEBRUARY]

    def plan(self, columns: Any = None, **rows: Any) -> Any:
        return self._table.plan(columns)


@pytest.mark.parametrize("columns", [None, ["x"]])
def test_rows_outside_the_partition_are_refused(
    backend: Backend, model: pc.Model, columns: list[str] | None
) -> None:
    both = pa.concat_tables([rows("2014-01"), rows("2014-02", 3)])
    options: dict[str, Any] = {"partition": JANUARY, "options": {"columns": columns}}
    pc.score(model, rows("2014-01"), backend.ref("scored"), **options)
    message = r"3 rows are outside the partition month=2014-01; the first has '2014-02'"
    with pytest.raises(TableError, match=message):
        pc.score(model, LeakyTable(both), backend.ref("scored"), **options)
    assert backend.xs("scored") == JANUARY_ROWS
