"""Partitions of a scored table that are missing, stale, gone or damaged."""

from __future__ import annotations

import datetime as dt
import pickle
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from backends import Backend, appending
from delta_and_iceberg import DeltaLake, rows, rows_by_month, spec
from lakes import write_rows

import probclass_core as pc
from probclass_core.errors import DataError, PartitionError, SpecError, TableError
from probclass_core.scoring.reports import PartitionOutcome, ScoreReport
from probclass_core.store.results import unscored

MONTHS = ["2014-01", "2014-02", "2014-03", "2014-04"]


def write_month(lake: Path, month: str, size: int = 40) -> Path:
    """Write or replace the file of a month."""
    table = rows(month, size).drop_columns("month")
    return write_rows(lake / f"month={month}", table) / "0.parquet"


def damage(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    for month in MONTHS:
        write_month(tmp_path / "lake", month)
    return tmp_path / "lake"


def other_version(model: pc.Model) -> pc.Model:
    shares = zip(model.class_names, (0.01, 0.99), strict=True)
    return model.with_prior({str(name): share for name, share in shares})


def names(outcomes: list[PartitionOutcome]) -> list[str]:
    return [outcome.partition["month"] for outcome in outcomes]


def reasons(report: ScoreReport) -> dict[str, tuple[str, ...]]:
    return {one.partition["month"]: tuple(one.reasons) for one in report.pending + report.scored}


def test_only_what_differs_is_scored_and_what_is_gone_is_removed(
    backend: Backend, model: pc.Model, lake: Path
) -> None:
    sink = backend.ref("scored")
    pc.score(model, lake, sink, partition={"month": "2014-01"})
    planned = pc.score(model, lake, sink, dry_run=True)
    assert (names(planned.unchanged), names(planned.pending)) == (MONTHS[:1], MONTHS[1:])
    first = pc.score(model, lake, sink)
    assert (names(first.unchanged), names(first.scored)) == (MONTHS[:1], MONTHS[1:])
    assert (first.rows, first.scored_rows) == (160, 120)
    assert {*reasons(first).values()} == {("missing",)}
    assert pc.score(model, lake, sink).counts["unchanged"] == 4, "the commits are those of a score"

    write_month(lake, "2014-02", 7)
    shutil.rmtree(lake / "month=2014-03")
    write_month(lake, "2014-05", 3)
    kept = pc.score(model, lake, sink, dry_run=True)
    assert reasons(kept) == {"2014-02": ("input",), "2014-05": ("missing",)}
    assert names(kept.orphaned) == ["2014-03"]
    removed = pc.score(model, lake, sink, deleted="remove")
    assert (names(removed.removed), names(removed.orphaned)) == (["2014-03"], [])
    assert rows_by_month(backend.read("scored")) == {
        "2014-01": 40,
        "2014-02": 7,
        "2014-04": 40,
        "2014-05": 3,
    }
    again = pc.score(model, lake, sink, deleted="remove")
    assert again.counts["unchanged"] == len(again.partitions) == 4
    assert pc.clean_table(sink, older_than=timedelta(0)) == []
    write_month(lake, "2014-03", 5)
    assert reasons(pc.score(model, lake, sink)) == {"2014-03": ("missing",)}
    assert rows_by_month(backend.read("scored"))["2014-03"] == 5


def test_a_failed_partition_does_not_stop_the_others(
    backend: Backend, model: pc.Model, lake: Path
) -> None:
    sink = backend.ref("scored")
    for month in (MONTHS[0], MONTHS[-1]):  # the files whose schemas are read first
        damage(lake / f"month={month}" / "0.parquet")

    def failure() -> PartitionError:
        with pytest.raises(PartitionError, match=r"2 of 4 .* failed: month=2014-01: ") as raised:
            pc.score(model, lake, sink)
        error = pickle.loads(pickle.dumps(raised.value))
        assert "\n" not in str(error)
        assert error.is_transient
        assert names(error.report.failed) == [MONTHS[0], MONTHS[-1]]
        assert rows_by_month(backend.read("scored")) == {"2014-02": 40, "2014-03": 40}
        return error

    scored = failure().report
    assert (scored.rows, names(scored.scored)) == (80, MONTHS[1:3])
    assert names(failure().report.unchanged) == MONTHS[1:3]
    write_month(lake, MONTHS[0])
    with pytest.raises(PartitionError, match="1 of 4") as one:
        pc.score(model, lake, sink)
    assert one.value.report.counts["unchanged"] == 2
    write_month(lake, MONTHS[-1])
    assert names(pc.score(model, lake, sink).scored) == [MONTHS[-1]]


def test_a_partition_whose_rows_cannot_be_scored_fails_alone(
    model: pc.Model, lake: Path, tmp_path: Path
) -> None:
    path = write_month(lake, "2014-02")
    table = pq.read_table(path, partitioning=None)
    x = pa.array([float("inf"), *table["x"].to_pylist()[1:]])
    pq.write_table(table.set_column(0, "x", x), path)
    sink, done = tmp_path / "scored", []
    options: dict[str, Any] = {"engine": "processes", "workers": 2}
    with pytest.raises(PartitionError, match=r"1 of 4 .*month=2014-02: .*'x'") as raised:
        pc.score(model, lake, sink, progress=lambda *rows: done.append(rows), **options)
    assert not raised.value.is_transient
    assert {total for _, total in done} == {160}
    commits = raised.value.report.commits
    assert [one["partition"]["month"] for one in commits] == ["2014-01", "2014-03", "2014-04"]
    assert not (sink / "month=2014-02").exists()
    shutil.rmtree(lake / "month=2014-02")
    assert pc.score(model, lake, sink).counts["unchanged"] == 3


def test_what_concerns_all_partitions_is_refused_before_anything_is_written(
    model: pc.Model, lake: Path, tmp_path: Path
) -> None:
    sink = tmp_path / "scored"
    pc.score(model, lake, sink, partition={"month": "2014-03"})
    write_month(lake, "2014-03", 9)
    damage(lake / "month=2014-01" / "0.parquet")
    with pytest.raises(TableError, match=r"month=2014-03 already exists"):
        pc.score(model, lake, sink, options=pc.ScoringOptions(overwrite="never"))
    with pytest.raises(TableError, match="also has 'kind'"):
        pc.score(
            model, lake, sink, options={"columns": ["x"], "overwrite": "append", "schema": "same"}
        )
    assert [path.name for path in sink.glob("month=*")] == ["month=2014-03"]


def test_if_all_partitions_fail_for_one_reason_that_is_the_error(
    model: pc.Model, tmp_path: Path
) -> None:
    for month in MONTHS:
        path = write_month(tmp_path / "lake", month)
        pq.write_table(pq.read_table(path, partitioning=None).drop_columns("x"), path)
    with pytest.raises(DataError, match="'x'"):
        pc.score(model, tmp_path / "lake", tmp_path / "scored")


def test_a_stale_partition_says_what_changed(model: pc.Model, lake: Path, tmp_path: Path) -> None:
    sink = tmp_path / "scored"
    pc.score(model, lake, sink)
    foreign = sink / "month=2014-04" / "part-0.parquet"
    pq.write_table(pq.read_table(foreign, partitioning=None).replace_schema_metadata(), foreign)
    write_month(lake, "2014-02", 8)

    def changes(
        model: pc.Model, partition: Any = "month <= 2014-02", where: Any = None, **options: Any
    ) -> list[tuple[str, ...]]:
        report = pc.score(
            *(model, lake, sink), partition=partition, where=where, options=options, dry_run=True
        )
        return list(reasons(report).values())

    other = pc.fit(rows("2014-01", 20), spec())
    assert changes(model) == [("input",)]
    rules: list[dict[str, Any]] = [
        {"columns": ["x"], "decision": "ml"},
        {"decision": {"min_probability": 0.8}},
        {"prior": {"low": 0.4, "high": 0.6}},
        {"where": "x >= 0"},
    ]
    for rule in rules:
        assert changes(model, **rule) == [("rule",), ("input", "rule")]
    for layout in ({"columns": ["x"]}, {"posterior": "list"}):
        assert changes(model, **layout) == [("rule",), ("input",)]
    assert changes(other) == [("model",), ("input", "model")]
    assert changes(model, partition=[{"month": "2014-04"}]) == [("unrecorded",)]
    assert pc.score(model, lake, sink).counts["scored"] == 2
    assert pc.score(other, lake, sink, partition=pc.Partitions(limit=3)).counts["pending"] == 1


@appending
@pytest.mark.parametrize("overwrite", ["partition", "append"])
def test_a_call_that_is_stopped_is_completed_by_the_next_one(
    backend: Backend, model: pc.Model, lake: Path, overwrite: str
) -> None:
    sink, options = backend.ref("scored"), {"overwrite": overwrite}

    class Stopped(Exception):
        pass

    def stop(done: int, total: int | None) -> None:
        assert total == 160
        if done > 80:
            raise Stopped

    with pytest.raises(Stopped):
        pc.score(model, lake, sink, options=options, progress=stop)
    assert pc.clean_table(sink, older_than=timedelta(0)) == []
    report = pc.score(model, lake, sink, options=options)
    assert (names(report.unchanged), names(report.scored)) == (MONTHS[:2], MONTHS[2:])
    assert rows_by_month(backend.read("scored")) == dict.fromkeys(MONTHS, 40)


def test_partitions_without_rows_are_no_failure(
    model: pc.Model, lake: Path, tmp_path: Path
) -> None:
    sink = tmp_path / "scored"
    pc.score(model, lake, sink)
    write_month(lake, "2014-01", 0)
    write_month(lake, "2013-12", 0)
    named = [{"month": month} for month in ("2014-02", "2013-12", "2031-01")]
    report = pc.score(model, lake, sink, partition=named)
    assert (names(report.unchanged), names(report.empty)) == (["2014-02"], ["2013-12", "2031-01"])
    with pytest.raises(TableError, match=r"has no partition with .*2031-01"):
        pc.score(model, lake, sink, partition=named[2])
    for month in ("2013-12", "2014-01"):
        with pytest.raises(TableError, match=f"has no rows of month={month} to score"):
            pc.score(model, lake, sink, partition={"month": month})
    missing = pc.Partitions(named[2:], catch_up=1)
    with pytest.raises(TableError, match="has no rows of month=2031-01 to score"):
        pc.score(model, lake, sink, partition=missing)

    everything = pc.score(model, lake, sink, where="x >= 40", dry_run=True)
    assert everything.counts["orphaned"] == 1, "its rows are gone from the source"
    with pytest.raises(TableError, match=r"1 partitions .* are gone .*: month=2014-01; nothing"):
        pc.score(model, lake, sink, deleted="fail")
    assert names(pc.score(model, lake, sink, deleted="remove").removed) == ["2014-01"]
    assert not (sink / "month=2014-01").exists()


def test_a_partition_is_scored_with_those_before_it_that_are_missing(
    model: pc.Model, tmp_path: Path
) -> None:
    lake, sink = tmp_path / "lake", tmp_path / "scored"
    for month in ("2013-12", *MONTHS):
        write_month(lake, month)

    def run(month: str, catch_up: int) -> ScoreReport:
        named = [{"month": month}]
        return pc.score(model, lake, sink, partition=pc.Partitions(where=named, catch_up=catch_up))

    assert names(run("2014-01", 9).scored) == ["2014-01"], "nothing is missing before the first"
    assert names(run("2014-04", 1).scored) == ["2014-03", "2014-04"]
    write_month(lake, "2014-01", size=20)  # stale, not missing
    assert names(run("2014-04", 9).scored) == ["2014-02"]
    assert names(pc.score(model, lake, sink).scored) == ["2013-12", "2014-01"]


def test_a_month_of_a_table_by_region_and_month_is_all_its_regions(
    model: pc.Model, tmp_path: Path
) -> None:
    lake, sink = tmp_path / "lake", tmp_path / "scored"
    for region in ("eu", "us"):
        for month in MONTHS[:3]:
            write_month(lake / f"region={region}", month)

    def run(month: str, **more: Any) -> list[str]:
        partition = pc.Partitions([{"month": month}], catch_up=2)
        report = pc.score(model, lake, sink, partition=partition, **more)
        return [str(one) for one in (*report.scored, *report.removed)]

    shutil.move(lake / "region=us" / "month=2014-01", tmp_path / "later")
    assert run("2014-01") == ["region=eu/month=2014-01"]
    shutil.move(tmp_path / "later", lake / "region=us" / "month=2014-01")
    assert run("2014-03") == [
        "region=eu/month=2014-02",
        "region=eu/month=2014-03",
        "region=us/month=2014-01",
        "region=us/month=2014-02",
        "region=us/month=2014-03",
    ]
    shutil.rmtree(lake / "region=eu" / "month=2014-03")
    assert run("2014-03", deleted="remove") == ["region=eu/month=2014-03"]
    with pytest.raises(TableError, match="has no rows of month=2014-04 to score"):
        run("2014-04")
    with pytest.raises(SpecError, match="needs values of partition columns"):
        pc.score(model, lake, sink, partition=[{"region": "eu", "x": 1.0}])


def test_a_day_by_its_value_is_the_partition_of_each_region(
    model: pc.Model, tmp_path: Path
) -> None:
    lake, sink = tmp_path / "lake", tmp_path / "scored"
    for region, month in (("eu", MONTHS[0]), ("us", MONTHS[0]), ("eu", MONTHS[1])):
        write_month(lake / f"region={region}", month)
    report = pc.score(model, lake, sink, partition={"month": MONTHS[0]})
    scored = ["region=eu/month=2014-01", "region=us/month=2014-01"]
    assert [str(one) for one in report.scored] == scored
    assert pc.open_table(sink).partition_columns == ["region", "month"]
    shutil.rmtree(lake / "region=us")
    write_month(lake / "region=asia", MONTHS[0], 0)
    counts = pc.score(model, lake, sink, partition={"month": MONTHS[0]}).counts
    assert (counts["unchanged"], counts["empty"], counts["orphaned"]) == (1, 1, 1)
    with pytest.raises(TableError, match="no rows of month=2014-05 to score"):
        pc.score(model, lake, sink, partition={"month": "2014-05"})


def test_a_run_fails_until_what_an_earlier_one_could_not_score_is_scored_or_gone(
    model: pc.Model, tmp_path: Path
) -> None:
    lake, sink, store = tmp_path / "lake", tmp_path / "scored", pc.ModelStore(tmp_path / "models")
    store.promote("m", store.save(model, "m"), "champion")
    months = [f"2014-{month:02}" for month in range(1, 10)]

    def run(month: str) -> list[str]:
        """The months that could not be scored."""
        partition = pc.Partitions([{"month": month}], catch_up=2)
        try:
            pc.score("m@champion", lake, sink, partition=partition, store=store)
        except TableError as error:
            return names(error.report.failed)
        return []

    for month in months[:4]:
        path = write_month(lake, month)
        if month == "2014-03":
            damage(path)
        assert run(month) == (["2014-03"] if month >= "2014-03" else [])
    assert run("2014-05") == ["2014-03", "2014-05"], "it is not there"
    for month in months[5:]:
        write_month(lake, month)
    failed = [run(month) for month in months[5:]]
    assert failed == [["2014-03", "2014-05"]] * 2 + [["2014-03"]] * 2, "it never came"
    write_month(lake, "2014-05", size=0)
    assert run("2014-09") == ["2014-03"], "it has no rows"
    write_month(lake, "2014-03")
    assert run("2014-09") == []
    shown = [one["partition"]["month"] for _, one in unscored(store.scorings("m"))]
    assert shown == ["2014-05"]


def test_a_number_that_became_text_is_called_text(model: pc.Model, tmp_path: Path) -> None:
    path = write_month(tmp_path / "lake", "2014-01")
    table = pq.read_table(path, partitioning=None)
    x = table.column_names.index("x")
    pq.write_table(table.set_column(x, "x", table["x"].cast(pa.string())), path)
    with pytest.raises(DataError, match="column 'x' is string, not a number; cast it"):
        pc.score(model, tmp_path / "lake", tmp_path / "scored")


def test_what_a_version_scored_is_scored_again_by_another(
    backend: Backend, model: pc.Model, lake: Path
) -> None:
    sink = backend.ref("scored")
    bad = other_version(model)
    pc.score(model, lake, sink, partition={"month": "2014-01"})
    for month in MONTHS[1:3]:
        pc.score(bad, lake, sink, partition={"month": month})
    shutil.rmtree(lake / "month=2014-03")
    write_month(lake, "2014-01", size=20)  # stale, and none of the bad version's
    report = pc.score(model, lake, sink, partition=pc.Partitions(scored_by=[bad.id]))
    assert (names(report.scored), names(report.orphaned)) == (["2014-02"], ["2014-03"])
    assert reasons(report) == {"2014-02": ("model",)}
    again = pc.score(
        model, lake, sink, partition=pc.Partitions(scored_by=[bad.id], where=[{"month": "2014-02"}])
    )
    assert not again.partitions


def test_text_that_looks_like_numbers_is_the_same_partition(
    model: pc.Model, tmp_path: Path
) -> None:
    source = DeltaLake(tmp_path)
    source.write("lake", pa.concat_tables([rows("01"), rows("02")]), ["month"])
    sink = tmp_path / "scored"
    assert pc.score(model, source.ref("lake"), sink).counts["scored"] == 2
    report = pc.score(model, source.ref("lake"), sink, deleted="remove")
    assert (report.counts["unchanged"], report.counts["orphaned"]) == (2, 0)
    assert report.counts["removed"] == 0


def test_a_table_without_partitions_and_rows_in_memory(
    backend: Backend, model: pc.Model, tmp_path: Path
) -> None:
    sink = backend.ref("scored")
    assert pc.score(model, rows("2014-01"), sink).counts["scored"] == 1
    again = pc.score(model, rows("2014-01"), sink)
    assert [one.reasons for one in again.scored] == [("input",)], "memory has no identity"
    pq.write_table(rows("2014-01"), tmp_path / "one.parquet")
    source = tmp_path / "one.parquet"
    pc.score(model, source, sink)
    assert pc.score(model, source, sink).counts["unchanged"] == 1
    bad = other_version(model)
    assert not pc.score(model, source, sink, partition=pc.Partitions(scored_by=[bad.id])).partitions
    pc.score(bad, source, sink)
    again = pc.score(model, source, sink, partition=pc.Partitions(scored_by=[bad.id]))
    assert again.counts["scored"] == len(again.partitions) == 1


def test_batches_cover_the_pending_partitions_once(model: pc.Model, tmp_path: Path) -> None:
    days = [dt.date(2014, 1, 1) + timedelta(days=day) for day in range(10)]
    sizes = [10, 10, 10, 10, 40, 10, 10, 10, 10, 40]
    table = pa.concat_tables(
        rows("m", size).append_column("day", pa.array([day] * size))
        for day, size in zip(days, sizes, strict=True)
    )
    source = DeltaLake(tmp_path)
    source.write("lake", table, ["day", "month"])
    lake, sink = source.ref("lake"), tmp_path / "scored"
    plan = pc.score(model, lake, sink, dry_run=True)
    batches = plan.batches(4, min_rows=1)
    assert [batch.to_dict() for batch in plan.batches()] == [
        {
            "first": {"day": "2014-01-01", "month": "m"},
            "last": {"day": "2014-01-10", "month": "m"},
        }
    ]
    assert len(batches) == 4
    scored: list[Any] = []
    named = [{"day": day, "month": "m"} for day in days]
    ends = pc.Partitions(named, named[1], named[2])
    within = pc.score(model, lake, sink, partition=ends, dry_run=True)
    assert [one.outcome for one in within.partitions] == ["pending", "pending"]
    for batch in batches:
        again = pc.Partitions.parse(batch.to_dict())  # as text, from a message
        report = pc.score(model, lake, sink, partition=again, deleted="remove")
        assert report.rows == 40
        scored += [one.partition["day"] for one in report.scored]
    assert scored == days
    source.write("later", table.slice(20), ["day", "month"])
    last = pc.score(model, source.ref("later"), sink, dry_run=True)
    (rewritten,), (all_of_them,) = last.batches(), last.batches(orphaned=True)
    assert (rewritten.first["day"], all_of_them.first["day"]) == (days[2], days[0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"partition": "x > 1"}, "has no partition column 'x'; .*it has 'month'"),
        ({"partition": [{"x": 1.0}]}, "needs values of partition columns of .*, which has 'month'"),
        (
            {"partition": pc.Partitions(catch_up=1)},
            "catch_up needs the value of one partition column",
        ),
        (
            {"partition": pc.Partitions(scored_by=["tiny@12345678"])},
            "'tiny@12345678' is a reference: give the store that has it",
        ),
        ({"deleted": "fail", "options": {"overwrite": "append"}}, "leave one of them out"),
        ({"options": {"colums": "x"}}, "scoring has no 'colums'.*Did you mean 'columns'"),
    ],
)
def test_a_wrong_argument_is_refused_before_anything_is_written(
    options: dict[str, Any], message: str, model: pc.Model, lake: Path, tmp_path: Path
) -> None:
    with pytest.raises(SpecError, match=message):
        pc.score(model, lake, tmp_path / "scored", **options)
    assert not (tmp_path / "scored").exists()


def test_an_orphan_in_a_folder_of_another_name_is_not_said_to_be_removed(
    model: pc.Model, tmp_path: Path
) -> None:
    sink, lake = tmp_path / "scored", tmp_path / "lake"
    for month in ("1", "2"):
        write_month(lake, month)
    pc.score(model, lake, sink)
    (sink / "month=2").rename(sink / "month=02")
    shutil.rmtree(lake / "month=2")
    with pytest.raises(PartitionError, match=r"month=2 does not exist.*remove that folder"):
        pc.score(model, lake, sink, deleted="remove")
    assert (sink / "month=02").is_dir()
