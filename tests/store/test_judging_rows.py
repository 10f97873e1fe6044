"""The gate on the rows of a table: what it reads and records, and rows that it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pytest
from lakes import write_rows
from sample_models import write_in_another_format

import probclass_core as pc
from probclass_core.errors import StoreError
from probclass_core.io.selection import Selection
from probclass_core.store.promotions import Promotion
from probclass_core.store.records import ModelVersion
from probclass_core.training.overlap import trained_on

SPEC = pc.ModelSpec(label="label", blocks=(pc.Block("gaussian_diagonal", ["x", "y"]),))
POOR = pc.ModelSpec(label="label", blocks=(pc.Block("gaussian_diagonal", ["y"]),))


def month(number: int) -> pa.Table:
    random = np.random.default_rng(number)
    label = random.integers(0, 2, 60)
    return pa.table(
        {
            "label": [("a", "b")[code] for code in label],
            "x": random.normal(2.0 * label),
            "y": random.normal(0.5 * label),
            "day": np.arange(60) // 2 + 1,
        }
    )


@pytest.fixture
def lake(tmp_path: Path) -> str:
    for number in range(1, 7):
        write_rows(tmp_path / "lake" / f"month=2014-{number:02}", month(number))
    return str(tmp_path / "lake")


@pytest.mark.parametrize(
    ("trained", "judged", "answer"),
    [
        ({"where": "month < 2014-04"}, {"partition": {"month": "2014-04"}}, "no"),
        ({"where": "month < 2014-04"}, {"where": "month >= 2014-03"}, "yes"),
        ({"partition": {"month": "2014-01"}}, {"where": "month in 2014-01, 2014-02"}, "yes"),
        ({}, {"partition": {"month": "2014-06"}}, "yes"),
        ({"where": "day <= 20"}, {"where": "day > 20"}, "no"),
        ({"where": "day <= 20"}, {"where": "day > 19 and month = 2014-02"}, "yes"),
        ({"where": "day <= 20"}, {"where": pyarrow.compute.field("day") > 20}, "no"),
        ({"where": "day <= 20"}, {"where": pyarrow.compute.field("day") > 19}, "yes"),
        ({"where": pyarrow.compute.field("day") > 20}, {"where": "day <= 20"}, "unknown"),
    ],
)
def test_rows_that_were_trained_on_are_found(
    trained: dict[str, Any], judged: dict[str, Any], answer: str, lake: str
) -> None:
    model = pc.fit(lake, SPEC, **trained)
    assert trained_on(model.training, Selection(pc.open_table(lake), **judged)) == answer


def test_rows_that_are_newer_than_the_training_may_not_have_been_trained_on(lake: str) -> None:
    model = pc.fit(lake, SPEC, where="month >= 2014-05")
    write_rows(Path(lake, "month=2014-07"), month(7))
    judged = Selection(pc.open_table(lake), {"month": "2014-07"})
    assert trained_on(model.training, judged) == "unknown"
    in_memory = pc.fit(month(1), SPEC)
    assert trained_on(in_memory.training, judged) == "unknown"
    linked = Path(lake).parent / "linked"
    linked.symlink_to(lake)
    assert trained_on(model.training, Selection(pc.open_table(linked), where="day = 1")) != "no"
    copy = write_rows(Path(lake).parent / "copy", month(1))
    assert trained_on(model.training, Selection(pc.open_table(str(copy)))) == "no"


def test_rows_of_an_earlier_version_of_a_delta_table_are_looked_up(tmp_path: Path) -> None:
    import deltalake

    uri = str(tmp_path / "delta")
    for number in (1, 2):
        rows = month(number).append_column("month", pa.array([number] * 60))
        deltalake.write_deltalake(uri, rows, mode="append", partition_by=["month"])
    model = pc.fit(uri, SPEC, where="month >= 1")
    rows = month(3).append_column("month", pa.array([3] * 60))
    deltalake.write_deltalake(uri, rows, mode="append", partition_by=["month"])
    answers = [
        trained_on(model.training, Selection(pc.open_table(uri), {"month": number}))
        for number in (2, 3)
    ]
    assert answers == ["yes", "no"]


def test_other_partitions_were_not_trained_on_though_the_version_that_was_is_gone(
    tmp_path: Path,
) -> None:
    import deltalake

    uri = str(tmp_path / "delta")
    for number in (1, 2, 3):
        rows = month(number).append_column("month", pa.array([number] * 60))
        deltalake.write_deltalake(uri, rows, mode="append", partition_by=["month"])
    model = pc.fit(uri, SPEC, where="month <= 2")
    table = deltalake.DeltaTable(uri)
    table.delete("month = 1 and day > 20")
    table.create_checkpoint()
    for version in range(3):
        Path(uri, "_delta_log", f"{version:020}.json").unlink()
    answers = [
        trained_on(model.training, Selection(pc.open_table(uri), {"month": number}))
        for number in (2, 3)
    ]
    assert answers == ["unknown", "no"]


def test_rows_of_the_calibration_count_as_training_rows(lake: str) -> None:
    model = pc.fit(lake, SPEC, where="month < 2014-03")
    calibrated = pc.calibrate(model, lake, partition={"month": "2014-03"})
    answer = "yes" if calibrated.training["calibration"]["applied"] else "no"
    judged = Selection(pc.open_table(lake), {"month": "2014-03"})
    assert trained_on(calibrated.training, judged) == answer
    applied = {**calibrated.training["calibration"], "applied": True}
    assert trained_on({**calibrated.training, "calibration": applied}, judged) == "yes"


def test_a_challenger_is_judged_in_windows_and_everything_is_recorded(
    lake: str, store: pc.ModelStore
) -> None:
    poor, good = (store.save(pc.fit(lake, s, where="month < 2014-04"), "m") for s in (POOR, SPEC))
    rows: dict[str, Any] = {"where": "month >= 2014-04", "windows": "month"}
    first = pc.promote_if_better(store, poor, lake, **rows)
    assert (first.action, first.reason) == ("promoted", "there is no champion yet")
    entry = pc.promote_if_better(store, good, lake, **rows, provenance={"run": 1})
    assert entry.action == "promoted"
    assert entry.provenance == {"source": lake, **rows, "run": 1}
    metrics = entry.metrics
    evaluations = [pc.evaluate(store.load(v.ref), lake, where=rows["where"]) for v in (good, poor)]
    assert metrics["challenger_value"] == pytest.approx(evaluations[0].log_loss, rel=1e-12)
    assert metrics["champion_value"] == pytest.approx(evaluations[1].log_loss, rel=1e-12)
    assert metrics["floors"]["log_loss"]["floor"] == evaluations[0].baseline_log_loss
    assert [each["window"]["month"] for each in metrics["windows"]] == [
        *("2014-04", "2014-05", "2014-06"),
    ]
    assert metrics["trained_on"] == {"challenger": "no", "champion": "no"}
    assert metrics["z"] == pytest.approx(metrics["gain"] / metrics["standard_error"])
    for version in (poor, good):
        (record,) = {each.id: each for each in store.evaluations(version)}.values()
        assert record.on == {"source": lake, "where": rows["where"]}
    refused = pc.promote_if_better(store, poor, lake, **rows)
    assert (refused.action, refused.previous) == ("refused", good.id)


def test_in_place_of_a_champion_of_another_format_the_floors_decide(
    lake: str, store: pc.ModelStore
) -> None:
    old, new = (store.save(pc.fit(lake, s, where="month < 2014-04"), "m") for s in (POOR, SPEC))
    store.promote("m", old, "champion")
    write_in_another_format(old, store)
    with pytest.raises(StoreError, match=r"is in format 1; .* train and save the model again"):
        store.load("m@champion")
    entry = pc.promote_if_better(store, new, lake, where="month >= 2014-04")
    assert (entry.action, entry.previous) == ("promoted", old.id)
    assert entry.reason == f"{old.short} is in a format that this release does not read"
    assert "log_loss" in entry.metrics["floors"]


def test_a_challenger_is_not_judged_on_rows_that_it_was_trained_on(
    lake: str, store: pc.ModelStore, caplog: pytest.LogCaptureFixture
) -> None:
    version = store.save(pc.fit(lake, SPEC), "m")
    judged: dict[str, Any] = {"partition": {"month": "2014-06"}}
    entry = pc.promote_if_better(store, version, lake, **judged)
    assert (entry.action, entry.metrics["trained_on"]) == ("refused", {"challenger": "yes"})
    assert store.history("m", "champion") == [entry]
    assert store.evaluations(version) == []
    allow = pc.Gate(allow_training_rows=True)
    assert pc.promote_if_better(store, version, lake, gate=allow, **judged).action == "promoted"
    assert "was trained on the rows that it is judged on" in caplog.text


@pytest.mark.parametrize("metric", ["log_loss", "brier", "accuracy", "ece"])
def test_each_metric_has_its_direction(metric: Any, lake: str, store: pc.ModelStore) -> None:
    rows: dict[str, Any] = {"where": "month >= 2014-04"}
    versions = [store.save(pc.fit(lake, s, where="month < 2014-04"), "m") for s in (POOR, SPEC)]
    values = [getattr(pc.evaluate(store.load(v.ref), lake, **rows), metric) for v in versions]
    if (values[0] < values[1]) != (metric == "accuracy"):
        versions.reverse()
    worse, better = versions
    store.promote("m", worse, "champion")

    def gated(version: ModelVersion, margin: float) -> Promotion:
        z: dict[str, Any] = {} if metric == "ece" else {"min_z": 0}
        gate = pc.Gate(metric=metric, floor=None, margin=margin, **z)
        return pc.promote_if_better(store, version, lake, gate=gate, **rows)

    gap = abs(values[0] - values[1])
    assert "less than the margin" in str(gated(better, gap * 1.01).reason)
    assert gated(better, gap * 0.99).action == "promoted"
    assert "not better" in str(gated(worse, 0.0).reason)


def test_a_model_without_a_class_cannot_win_by_leaving_its_rows_out(store: pc.ModelStore) -> None:
    code = np.arange(120) % 3
    trained, judged = (
        pa.table({"label": list("abc") * 40, "x": noise + code, "y": noise})
        for noise in np.random.default_rng(0).normal(size=(2, 120))
    )
    whole, blind = (
        store.save(pc.fit(trained, SPEC, where=where), "m") for where in (None, "label != c")
    )
    store.promote("m", whole, "champion")
    for metric, reason in (
        ("log_loss", "rows have a class that it was not trained on"),
        ("brier", "rows have a class that it was not trained on"),
        ("accuracy", "of classes that training never saw, as wrong, is not better"),
    ):
        gate = pc.Gate(metric=metric, floor=None)
        assert reason in str(pc.promote_if_better(store, blind, judged, gate=gate).reason)
    store.promote("m", blind, "champion")
    gate = pc.Gate(floor=None)
    assert pc.promote_if_better(store, whole, judged, gate=gate).action == "promoted"
