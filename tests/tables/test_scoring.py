"""Scored tables in local directories: their content, reruns, and refusals."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from monthly_lake import SCORED, SPEC, model, rows_of, write_lake

import probclass_core as pc
from probclass_core.errors import DataError, NotSupportedError, SpecError, TableError


def read(root: Path) -> pa.Table:
    """Read a table, sorted by id."""
    return ds.dataset(root, partitioning="hive").to_table().sort_by("id")


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return write_lake(tmp_path / "lake", "2014-01", "2014-02", "2014-03")


@pytest.fixture
def sink(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "scored"


def test_a_scored_table_contains_the_source_and_the_predictions(lake: Path, sink: Path) -> None:
    report = pc.score(model(), lake, sink)
    assert [str(one) for one in report.scored] == [f"month=2014-0{month}" for month in (1, 2, 3)]
    assert (report.rows, report.counts["unchanged"], report.model_id) == (141, 0, model().id)
    assert report.uri == str(sink)
    assert report.to_dict()["commit_id"] == report.commit_id
    table = read(sink)
    source = read(lake)
    assert table.column_names == [*source.column_names[:-1], *SCORED, "month"]
    assert table.select(source.column_names).equals(source)
    assert table["prediction"].combine_chunks().equals(model().predict(source))
    probability = model().predict_proba(source)
    np.testing.assert_array_equal(table["p_bad"], probability[:, 0])
    np.testing.assert_array_equal(table["p_good"], probability[:, 1])
    np.testing.assert_array_equal(table["probability"], probability.max(axis=1))
    np.testing.assert_allclose(table["log_density"], model().score_samples(source), rtol=1e-12)
    assert set(table["model_id"].to_pylist()) == {model().id}
    assert sorted(path.name for path in (sink / "month=2014-01").iterdir()) == [
        "_SUCCESS",
        "part-0.parquet",
    ]
    assert sorted(path.name for path in sink.iterdir()) == [
        f"month=2014-0{month}" for month in (1, 2, 3)
    ]
    assert list(sink.parent.iterdir()) == [sink]
    footer = pq.read_schema(sink / "month=2014-01" / "part-0.parquet").metadata
    assert footer[b"probclass.classes"] == b'["bad", "good"]'
    assert footer[b"probclass.model_id"] == model().id.encode()


def test_a_link_stays_and_the_directory_it_points_to_is_replaced(
    lake: Path, tmp_path: Path
) -> None:
    disk, link = tmp_path / "disk", tmp_path / "scored"
    disk.mkdir()
    link.symlink_to(disk)
    for number in (50, 51):
        pc.score(model(number), lake / "month=2014-01", link)
        assert set(pq.read_table(disk)["model_id"].to_pylist()) == {model(number).id}
    assert link.is_symlink()


def test_a_table_in_memory_is_scored_into_a_partition(sink: Path) -> None:
    table = rows_of(1).append_column("month", pa.array(["2014-01"] * 30 + ["2014-02"] * 10))
    pc.score(model(), table, sink, partition={"month": "2014-02"})
    assert read(sink)["id"].to_pylist() == list(range(1030, 1040))
    with pytest.raises(TableError, match=r"no row matches partition \{'month': '2015-01'\}"):
        pc.score(model(), table, sink, partition={"month": "2015-01"})


def test_the_density_of_a_ball_of_unknown_volume_is_null(lake: Path, sink: Path) -> None:
    block = pc.Block("knn_density", ["x", "y"], k=3, metric="canberra")
    other = pc.fit(lake, pc.ModelSpec("air", [block]))
    pc.score(other, lake, sink, options=pc.ScoringOptions(columns=[]))
    table = ds.dataset(sink).to_table()
    assert table["log_density"].null_count == table.num_rows == 141
    assert table.schema.field("log_density").type == pa.float64()
    assert table["probability"].null_count == 0
    with pytest.raises(NotSupportedError, match="is not a density"):
        other.score_samples(rows := pq.read_table(lake))
    assert len(other.predict(rows)) == 141


def test_only_the_listed_columns_are_passed_through(lake: Path, sink: Path) -> None:
    pc.score(model(), lake, sink, options=pc.ScoringOptions(columns="air"))
    assert pq.read_schema(sink / "month=2014-01" / "part-0.parquet").names == ["air", *SCORED]
    with pytest.raises(DataError, match=r"no columns 'ide', 'wend'; the table has .*'wind'"):
        pc.score(model(), lake, sink, options=pc.ScoringOptions(columns=["id", "wend", "ide"]))


SCORED_NAMES = ["prediction", "probability", "p_good", "log_density", "model_id"]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        *((name, {}) for name in SCORED_NAMES),
        ("rejected", {"decision": {"min_probability": 0.9}}),
    ],
)
def test_a_passthrough_column_must_not_have_the_name_of_a_scored_one(
    sink: Path, name: str, options: dict[str, Any]
) -> None:
    source = rows_of(1).append_column(name, pa.array(range(40)))
    message = f"column '{name}' of the source has the name of a scored column"
    with pytest.raises(SpecError, match=message):
        pc.score(model(), source, sink, options=options)
    assert not sink.exists()
    assert pc.score(model(), source, sink, options={"columns": ["id"], **options}).rows == 40
    if name == "rejected":
        assert pc.score(model(), source, sink).rows == 40, "a rule that rejects adds the column"


@pytest.mark.parametrize("workers", [1, 2])
def test_training_and_evaluation_are_canceled_by_progress_callbacks(
    lake: Path, workers: int
) -> None:
    def cancel(done: int, total: int | None) -> None:
        raise InterruptedError(f"at {done} of {total}")

    with pytest.raises(InterruptedError, match="of 141"):
        pc.fit(lake, SPEC, workers=workers, progress=cancel)
    with pytest.raises(InterruptedError, match="at 47 of 141"):
        pc.evaluate(model(), lake, workers=workers, progress=cancel)


def test_progress_reaches_the_total(lake: Path, sink: Path) -> None:
    for work in (
        lambda **more: pc.fit(lake, SPEC, **more),
        lambda **more: pc.evaluate(model(), lake, **more),
        lambda **more: pc.score(model(), lake, sink, **more),
        lambda **more: pc.score(model(), lake, sink, **more),
    ):
        calls: list[tuple[int, int | None]] = []
        work(progress=lambda done, total, calls=calls: calls.append((done, total)))
        assert calls[-1] == (141, 141)
        assert [done for done, _ in calls] == sorted(done for done, _ in calls)


RULE = pc.DecisionRule(
    costs={"bad": {"good": 4.0}, "good": {"good": 0.5}},
    min_probability=0.75,
    min_rarity=0.05,
)


@functools.cache
def measured() -> pc.Model:
    """The model of the lake, with the quantiles of its density."""
    return pc.with_density_quantiles(model(), rows_of(50, rows=200))


def test_rejected_rows_and_expected_costs_are_in_the_table(lake: Path, sink: Path) -> None:
    pc.score(measured(), lake, sink, options=pc.ScoringOptions(columns=["id"], decision=RULE))
    table = ds.dataset(sink, partitioning="hive").to_table()
    assert table.column_names == [
        *("id", "prediction", "probability", "rejected", "expected_cost"),
        *("p_bad", "p_good", "log_density", "model_id", "month"),
    ]
    source = ds.dataset(lake, partitioning="hive").to_table()
    assert table["prediction"].combine_chunks() == measured().predict(source, RULE)
    bad, good = table["p_bad"].to_numpy(), table["p_good"].to_numpy()
    expected = np.column_stack([good, 4.0 * bad + 0.5 * good])
    choice = expected.argmin(axis=1)
    np.testing.assert_allclose(table["expected_cost"], expected.min(axis=1), rtol=1e-12)
    np.testing.assert_array_equal(table["probability"], np.where(choice == 0, bad, good))
    quantiles = measured().density_quantiles
    assert quantiles is not None
    least = quantiles["log_density"][49].as_py()
    rare = table["log_density"].to_numpy() < least
    unsure = table["probability"].to_numpy() < 0.75
    reasons = np.where(rare, "density", np.where(unsure, "probability", None))
    assert table["rejected"].to_pylist() == reasons.tolist()
    assert set(reasons) == {"density", "probability", None}
    schema = pq.read_schema(sink / "month=2014-01" / "part-0.parquet")
    assert json.loads(schema.metadata[b"probclass.decision"]) == RULE.to_dict()


def test_a_rule_that_cannot_reject_adds_no_column(lake: Path, tmp_path: Path) -> None:
    kinds: dict[str, dict[str, Any]] = {
        "plain": {},
        "ml": {"decision": "ml"},
        "costs": {"decision": {"costs": {}}},
    }
    names = {}
    for kind, rule in kinds.items():
        pc.score(model(), lake, tmp_path / kind, options={"columns": [], **rule})
        schema = pq.read_schema(tmp_path / kind / "month=2014-01" / "part-0.parquet")
        names[kind] = schema.names
        assert json.loads(schema.metadata[b"probclass.decision"])["by"] in ("map", "ml")
    assert names["plain"] == names["ml"]
    assert set(names["costs"]) - set(names["plain"]) == {"expected_cost"}


def test_an_equal_rule_changes_nothing(lake: Path, sink: Path) -> None:
    for rule in ("map", {"min_probability": 0.8}, RULE):
        report = pc.score(measured(), lake, sink, options=pc.ScoringOptions(decision=rule))
        assert report.counts["unchanged"] == 0
        equal = pc.DecisionRule.from_dict(pc.DecisionRule.parse(rule).to_dict())
        again = pc.score(measured(), lake, sink, options=pc.ScoringOptions(decision=equal))
        assert (again.counts["unchanged"], again.commit_id) == (3, report.commit_id)
    pc.score(measured(), lake, sink, options=pc.ScoringOptions(decision="map"))
    assert pc.score(measured(), lake, sink).counts["unchanged"] == 3, "the default is 'map'"
