"""Scorings recorded in the store, and all records of a model together."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakes import write_rows

import probclass_core as pc
from probclass_core.errors import PartitionError, SpecError, StoreError
from probclass_core.store import results
from probclass_core.store.records import ModelVersion


@pytest.fixture
def lake(tmp_path: Path, iris: pa.Table) -> Path:
    for part in range(3):
        write_rows(tmp_path / f"lake/part={part}", iris.slice(50 * part, 50))
    return tmp_path / "lake"


@pytest.fixture(autouse=True)
def no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "_RECORDS_CACHED", 0)


def report_of(version: ModelVersion, commits: list[dict[str, Any]]) -> Any:
    return SimpleNamespace(model_id=version.id, uri="scored", commits=commits)


def commit(partition: object, name: str = "a", **values: Any) -> dict[str, Any]:
    return {"partition": {"p": partition}, "commit_id": name, "skipped": False, **values}


def test_score_records_in_the_store_of_the_version_that_scores(
    store: pc.ModelStore,
    model: pc.Model,
    lake: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    version, sink, run = store.save(model, "iris"), tmp_path / "scored", {"run": 1}
    pc.score("iris", lake, sink, store=store, dry_run=True)
    assert store.scorings("iris") == []
    pc.score("iris", lake, sink, partition={"part": 0}, store=store, provenance=run)
    rest = pc.score(version, lake, sink, store=store)
    first, second = store.scorings("iris")
    assert [one["partition"] for one in first.partitions] == [{"part": 0}]
    assert [one.partition for one in rest.scored] == [{"part": 1}, {"part": 2}]
    assert (first.version, first.provenance, second.provenance) == (version.id, run, {})
    assert [one.get("provenance") for one in pc.commits(sink)] == [run, None, None]
    bad = store.save(model.with_prior(dict.fromkeys(model.class_names, 1 / 3)), "other")
    pc.score(bad, lake, sink, partition={"part": 1}, store=store)
    again = pc.Partitions(scored_by=[bad.ref])
    assert len(pc.score(version, lake, sink, partition=again, store=store).scored) == 1

    write_rows(lake / "part=0", pa.table({"nothing": [1]}))
    with pytest.raises(PartitionError, match="1 of 3"):
        pc.score(version, lake, sink, store=store)
    assert store.scorings("iris")[-1].stopped[0]["partition"] == {"part": 0}

    def refuse(*arguments: Any, **options: Any) -> None:
        raise StoreError("the store is read-only")

    monkeypatch.setattr(pc.ModelStore, "record_scoring", refuse)
    assert (
        pc.score(version, lake, tmp_path / "other", partition={"part": 1}, store=store).rows == 50
    )
    assert "not recorded in the store: the store is read-only" in caplog.text
    with pytest.raises(SpecError, match="with store, model must be a version or a reference"):
        pc.score(model, lake, sink, store=store)


def test_a_scoring_is_recorded_once_and_says_what_was_scored(
    store: pc.ModelStore, model: pc.Model, lake: Path, tmp_path: Path
) -> None:
    version = store.save(model, "iris")
    report = pc.score(model, lake, tmp_path / "scored")
    (recorded,) = store.record_scoring("iris", report, provenance={"run": 1})
    assert store.scorings("iris") == [recorded]
    assert (recorded.version, recorded.sink) == (version.id, report.uri)
    assert recorded.provenance == {"run": 1}
    assert [one["partition"] for one in recorded.partitions] == [{"part": n} for n in range(3)]
    assert sum(one["rows"] for one in recorded.partitions) == report.rows
    again = pc.score(model, lake, tmp_path / "scored")
    assert store.record_scoring("iris", again) == []
    # One partition changes, and another one was written by a task that was killed before it
    # recorded it.
    write_rows(lake / "part=0", pq.read_table(lake / "part=0").slice(1))
    changed = pc.score(model, lake, tmp_path / "scored")
    (second,) = store.record_scoring("iris", changed)
    assert [one["partition"] for one in second.partitions] == [{"part": 0}]
    assert second.partitions[0]["input"] != recorded.partitions[0]["input"]
    assert second.partitions[0]["rule"] == recorded.partitions[0]["rule"]


def test_a_partition_that_was_written_but_not_recorded_is_recorded_by_the_retry(
    store: pc.ModelStore, model: pc.Model, lake: Path, tmp_path: Path
) -> None:
    store.save(model, "iris")
    pc.score(model, lake, tmp_path / "scored")  # killed here
    (record,) = store.record_scoring("iris", pc.score(model, lake, tmp_path / "scored"))
    assert [one["skipped"] for one in record.partitions] == [True] * 3


def test_a_commit_that_returns_is_recorded_again(store: pc.ModelStore, model: pc.Model) -> None:
    version = store.save(model, "iris")
    for name in ("a", "b", "a"):  # as after a rollback
        assert len(store.record_scoring(version, report_of(version, [commit(1, name)]))) == 1
    assert [r.partitions[0]["commit_id"] for r in store.scorings("iris")] == ["a", "b", "a"]


def test_a_record_is_bounded_whatever_its_health(
    store: pc.ModelStore, model: pc.Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "_MAX_COLUMNS", 20)
    monkeypatch.setattr(results, "_MAX_PARTITIONS", 10)
    version = store.save(model, "iris")
    column = {"nulls": 0.1, "drift": 0.2, "counts": [10**9] * 10}
    columns = {f"column {at}": column for at in range(150)}
    columns["column 0"] = {**column, "nulls": 1.0, "training_nulls": 1.0}
    columns["column 1"] = {**column, "nulls": 0.9}
    columns["column 2"] = {**column, "drift": 0.9}
    commits = [commit(at, rows=5, health={"rows": 5, "columns": columns}) for at in range(21)]
    records = store.record_scoring(version, report_of(version, commits))
    assert [len(record.partitions) for record in records] == [10, 10, 1]
    assert [len(record.partitions[0]["health"]["columns"]) for record in records] == [2, 2, 20]
    assert records[0].partitions[0]["health"] == {
        "rows": 5,
        "columns": {
            "column 1": {"nulls": 0.9, "drift": 0.2},
            "column 2": {"nulls": 0.1, "drift": 0.9},
        },
    }


def test_a_scoring_with_another_version_or_of_other_values_is_refused(
    store: pc.ModelStore, model: pc.Model
) -> None:
    version = store.save(model, "iris")
    other = SimpleNamespace(model_id="f" * 64, uri="scored", commits=[commit(1)])
    with pytest.raises(StoreError, match="the scoring is with model ffffffffffff, not with"):
        store.record_scoring(version, other)
    with pytest.raises(StoreError, match="provenance must be plain values"):
        store.record_scoring(
            version, report_of(version, [commit(1)]), provenance={"run": float("nan")}
        )
    with pytest.raises(StoreError, match="no model 'air'"):
        store.records("air")


def fill(store: pc.ModelStore, model: pc.Model, iris: pa.Table, count: int) -> ModelVersion:
    """A version with evaluations, scorings and promotions."""
    version = store.save(model, "iris")
    quality = pc.evaluate(model, iris)
    for at in range(count):
        store.record_evaluation(version, quality, on={"at": at})
        store.record_scoring(version, report_of(version, [commit(at)]))
    store.promote("iris", version, "champion")
    store.promote_if_better(version, "champion", lambda _: quality)
    return version


def test_the_records_of_a_model_are_those_of_each_kind(
    store: pc.ModelStore, model: pc.Model, iris: pa.Table
) -> None:
    version = fill(store, model, iris, 6)
    records = store.records("iris")
    assert records.damaged == []
    assert [one.ref for one in records.versions] == [version.ref]
    assert [record.on["at"] for record in records.evaluations] == list(range(6))
    brief = records.evaluations[0].result
    assert brief["log_loss"] == store.evaluations(version)[0].result["log_loss"]
    assert "confusion" not in brief
    assert [record.partitions[0]["partition"]["p"] for record in records.scorings] == list(range(6))
    assert records.promotions == store.history("iris")
    assert records.aliases == store.aliases("iris")


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"model": "iris"}'])
def test_a_damaged_record_is_named_hides_no_other_and_is_read_once_it_is_restored(
    store: pc.ModelStore, model: pc.Model, iris: pa.Table, tmp_path: Path, content: str
) -> None:
    version = fill(store, model, iris, 5)
    evaluation = next((tmp_path / f"models/iris/evaluations/{version.id}").iterdir())
    scoring = next((tmp_path / "models/iris/scorings").iterdir())
    before = evaluation.read_bytes()
    for path in (evaluation, scoring):
        path.write_text(content)
    with pytest.raises(StoreError, match=rf"{evaluation} is damaged \(it .*\); remove it"):
        store.evaluations("iris")
    records = store.records("iris")
    assert (len(records.evaluations), len(records.scorings)) == (4, 4)
    assert sorted(sentence.split(" is ")[0] for sentence in records.damaged) == sorted(
        [str(evaluation), str(scoring)]
    )
    evaluation.write_bytes(before)
    assert len(store.records("iris").evaluations) == 5


def test_an_alias_that_moves_twice_in_an_instant_is_read_again(
    store: pc.ModelStore, model: pc.Model, iris: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "_RECORDS_CACHED", 1000)
    first = fill(store, model, iris, 1)
    second = store.save(pc.fit(iris.slice(10), model.spec), "iris")
    for version in (first, second):
        store.promote("iris", version, "champion")
        assert store.records("iris").aliases["champion"].id == version.id
