"""Verdicts on the health of partitions and on evaluations: what is reported, and what is not."""

from __future__ import annotations

import pickle
from dataclasses import replace
from datetime import date
from typing import Any

import numpy as np
import pytest

import probclass_core as pc
from probclass_core.analysis.distributions.health import (
    ClassHealth,
    ColumnHealth,
    DensityHealth,
    Health,
)
from probclass_core.analysis.distributions.watch import CHECKS, LABEL_CHECKS, Verdict, raise_failed
from probclass_core.errors import DataError, HealthError, SpecError
from probclass_core.scoring.partition import EarlierPartitions, is_in_order

USUAL = Health(
    rows=1000,
    sampled=1000,
    rejected=0.0,
    columns={
        "x": ColumnHealth(
            nulls=0.01,
            outside=0.002,
            training_nulls=0.01,
            drift=0.0,
            drift_error=0.003,
            cuts=(0.0, 1.0),
            counts=(250, 490, 250),
            expected=(0.25, 0.5, 0.25),
        ),
        "w": ColumnHealth(
            nulls=0.0,
            unseen=0.0,
            training_nulls=0.0,
            drift=0.0,
            drift_error=0.003,
            values=("p",),
            counts=(600, 400),
            expected=(0.6, 0.4),
        ),
    },
    classes={
        "a": ClassHealth(0.2, 0.2, 0.2),
        "b": ClassHealth(0.8, 0.8, 0.8),
    },
    log_density=DensityHealth(0.01, 0.0),
)


def with_column(health: Health, name: str, **values: Any) -> Health:
    return replace(
        health, columns={**health.columns, name: replace(health.columns[name], **values)}
    )


def with_shares(health: Health, a: float) -> Health:
    shares = {"a": a, "b": 1.0 - a}
    classes = {
        name: replace(one, predicted=shares[name], expected=shares[name])
        for name, one in health.classes.items()
    }
    return replace(health, classes=classes)


FAULTS = {
    "nulls": with_column(USUAL, "x", nulls=0.4),
    "unseen": with_column(USUAL, "w", unseen=0.2),
    "outside": with_column(USUAL, "x", outside=0.3),
    "rare": replace(USUAL, log_density=DensityHealth(0.3, 0.0)),
    "drift": with_column(USUAL, "x", drift=0.6, counts=(5, 5, 980)),
    "prior": with_shares(USUAL, 0.6),
    "rows": replace(USUAL, rows=2000),
}


def test_a_usual_partition_has_no_verdict() -> None:
    assert pc.Watch().check(USUAL) == []
    assert pc.Watch().check(USUAL, {"month=2014-08": USUAL}, in_order=True) == []


@pytest.mark.parametrize("check", FAULTS)
def test_each_fault_is_reported_by_its_check(check: str) -> None:
    """Values and scores whenever they are faulty, distributions and rows when they change."""
    fault = FAULTS[check]
    usual = {"month=2014-08": USUAL, "month=2014-07": USUAL}
    (verdict,) = pc.Watch().check(fault, usual, in_order=True)
    assert (verdict.check, verdict.action) == (check, "warn")
    assert Verdict.from_dict(verdict.to_dict()) == verdict
    persistent = pc.Watch().check(fault, {**usual, "month=2014-08": fault})
    assert [one.check for one in persistent] == [check] * (check not in ("drift", "prior", "rows"))
    assert pc.Watch(ignore=[check]).check(fault, usual) == []
    raise_failed([verdict], "month=2014-09")
    (failed,) = pc.Watch(fail=[check]).check(fault, usual)
    with pytest.raises(HealthError, match=r"month=2014-09: .*Nothing of it was written") as info:
        raise_failed([failed], "month=2014-09")
    assert pickle.loads(pickle.dumps(info.value)).verdicts == [failed.to_dict()]
    assert isinstance(info.value, DataError)


def test_differences_within_the_sampling_error_are_no_verdicts() -> None:
    """Of 9 rows two nulls or a third of a class are chance."""
    few = replace(
        with_shares(with_column(USUAL, "x", nulls=0.2, drift=0.2, drift_error=0.1), 0.5), rows=9
    )
    assert pc.Watch().check(few, {"day=1": replace(USUAL, rows=3)}) == []


def test_distributions_of_few_rows_are_not_checked() -> None:
    """The hours of one day are alike, and unlike those of any other day."""
    for check in ("rare", "drift", "prior"):
        day = replace(FAULTS[check], rows=299)
        assert check not in {one.check for one in pc.Watch().check(day)}
        assert check in {one.check for one in pc.Watch(min_rows=200).check(day)}


def test_a_season_is_no_fault() -> None:
    """The first month may be unlike the training, and a month like one of those before."""
    drifted = with_column(USUAL, "x", drift=0.6, counts=(5, 5, 980))
    for month in (drifted, with_shares(USUAL, 0.6)):
        assert len(pc.Watch().check(month)) == 1
        assert pc.Watch().check(month, in_order=True) == []
        last, before = {"month=2014-08": USUAL}, {"month=2014-07": month}
        assert len(pc.Watch().check(month, last, in_order=True)) == 1
        assert pc.Watch().check(month, {**last, **before}, in_order=True) == []


@pytest.mark.parametrize("in_order", [True, False])
def test_the_month_of_a_monthly_partition_is_no_drift(in_order: bool) -> None:
    drifted = replace(USUAL.columns["x"], drift=0.9, counts=(0, 0, 1000), outside=1.0)
    found = pc.Watch().check(
        replace(USUAL, columns={**USUAL.columns, "month(time)": drifted}),
        {"2014-02": USUAL},
        in_order=in_order,
    )
    assert {one.check for one in found} == (set() if in_order else {"drift", "outside"})


def test_divergence_of_samples_in_other_bins() -> None:
    """Samples of one distribution are close, whatever their bins; a shifted one is not."""
    random = np.random.default_rng(0)

    def column(mean: float, cuts: np.ndarray) -> ColumnHealth:
        counts = np.bincount(np.searchsorted(cuts, random.normal(mean, 1, 5000)), minlength=10)
        return ColumnHealth(0.0, cuts=tuple(cuts), counts=tuple(counts.tolist()))

    one = column(0.0, np.linspace(-2.0, 2.0, 9))
    same = column(0.0, np.linspace(-1.7, 2.4, 9))
    moved = column(2.0, np.linspace(-1.7, 2.4, 9))
    apart = column(20.0, np.linspace(18.0, 22.0, 9))
    assert one.distance(same) < 0.03  # type: ignore[operator]
    assert one.distance(moved) == pytest.approx(0.4859, abs=0.08)
    assert one.distance(apart) is None


@pytest.mark.parametrize(
    "partitions",
    [
        [{"month": "2013-01"}, {"month": "2013-12"}, {"month": "2014-01"}],
        [{"day": date(2024, 2, 28)}, {"day": date(2024, 2, 29)}, {"day": date(2024, 3, 1)}],
        [{"year": 2013, "month": 2}, {"year": 2013, "month": 12}, {"year": 2014, "month": 1}],
        [{"week": "2013-W52"}, {"week": "2014-W01"}],
        [{"hour": "2014-01-01T05"}, {"hour": "2014-01-01T06"}],
        [{"batch": "9"}, {"batch": "10"}, {"batch": "0011"}],
    ],
)
def test_partitions_are_in_the_order_of_the_numbers_in_their_values(
    partitions: list[dict[str, Any]],
) -> None:
    known = EarlierPartitions()
    for place in (-1, *range(len(partitions) - 1)):
        known.add({"site": "b", **partitions[place]})
        known.add({"site": "a", **partitions[place]})
    for place, one in enumerate(partitions):
        assert is_in_order(one)
        before = [{"site": "a", **earlier} for earlier in reversed(partitions[:place])]
        assert known.before({"site": "a", **one}) == before
        assert known.before({"site": "c", **one}) == []


def test_a_week_of_partitions_is_compared() -> None:
    known = EarlierPartitions()
    for day in range(1, 31):
        known.add({"day": f"2014-01-{day:02d}"})
    assert [one["day"][-2:] for one in known.before({"day": "2014-01-20"})] == [
        f"{day}" for day in range(19, 12, -1)
    ]


def test_a_partition_without_a_number_has_none_before_it() -> None:
    known = EarlierPartitions()
    known.add({"site": "a"})
    known.add({})
    assert known.before({"site": "b"}) == known.before({}) == []
    assert not is_in_order({"site": "a"})


EVALUATION = {
    "rows": 400,
    "decided": 400,
    "accuracy": 0.5,
    "baseline_accuracy": 0.5,
    "log_loss": 0.9,
    "baseline_log_loss": 1.0,
    "log_loss_gain_error": 0.02,
    "accuracy_gain_error": 0.05,
}


@pytest.mark.parametrize(
    ("check", "watch", "values"),
    [
        ("accuracy", {}, {"accuracy": 0.2}),
        ("log_loss", {}, {"log_loss": 1.2}),
        ("log_loss", {}, {"log_loss": None}),  # infinite
        ("min_accuracy", {"min_accuracy": 0.7}, {}),
        ("accuracy_drop", {"ignore": ["accuracy"]}, {"accuracy": 0.2}),
    ],
)
def test_an_evaluation_is_judged(check: str, watch: dict[str, Any], values: dict[str, Any]) -> None:
    promoted = EVALUATION if check == "accuracy_drop" else None
    judge = pc.Watch(**watch, rollback=[check]).judge
    assert judge({**EVALUATION, **values, "rows": 400}, promoted) != []
    (verdict,) = judge({**EVALUATION, **values}, promoted)
    assert (verdict.check, verdict.action) == (check, "rollback")
    # Within two standard errors of few rows everything may be chance.
    few = {"decided": 4, "log_loss_gain_error": 0.3, "accuracy_gain_error": 0.5}
    if values != {"log_loss": None}:
        assert judge({**EVALUATION, **values, **few}, promoted) == []


def test_standard_errors_are_those_of_paired_differences() -> None:
    """As in McNemar's test (1947), rows on which both are right do not add to it."""
    truth = ["a"] * 60 + ["b"] * 40
    x = ["p"] * 55 + ["q"] * 35 + ["p"] * 10
    model = pc.fit({"y": truth, "x": x}, pc.ModelSpec("y", [pc.Block("categorical", ["x"])]))
    evaluation = pc.evaluate(model, {"y": truth, "x": x})
    predicted = model.predict({"x": x}).to_pylist()
    gains = [(p == t) - (t == "a") for p, t in zip(predicted, truth, strict=True)]
    assert any(gains)
    losses = -np.log(model.predict_proba({"x": x})[range(100), [int(t == "b") for t in truth]])
    prior = -np.log(np.where(np.array(truth) == "a", 0.6, 0.4))
    assert evaluation.log_loss_error == pytest.approx(np.std(losses, ddof=1) / 10)
    assert evaluation.log_loss_gain_error == pytest.approx(np.std(losses - prior, ddof=1) / 10)
    assert evaluation.accuracy_gain_error == pytest.approx(np.std(gains) / 10)


def test_a_watch_is_plain_json() -> None:
    watch = pc.Watch(nulls=0.2, fail=["nulls", "missing"], rollback=("log_loss",))
    values = {"nulls": 0.2, "fail": ["nulls", "missing"], "rollback": ["log_loss"]}
    assert watch.to_dict() == values
    assert pc.Watch.from_dict(values) == watch
    assert pc.Watch().to_dict() == {}
    thresholds = {*pc.Watch.__dataclass_fields__} - {"ignore", "fail", "rollback"}
    assert len(thresholds) <= 10
    assert thresholds - {"min_rows"} <= {*CHECKS, *LABEL_CHECKS}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"nuls": 0.1}, "a watch has no 'nuls'.*Did you mean 'nulls'"),
        ({"fail": ["nulls"], "ignore": ["nulls"]}, "'nulls' of a watch has several actions"),
        ({"rows": 1.0}, "rows of a watch must be a number above 1"),
        ({"nulls": None}, "nulls of a watch must be a number .* got None; .* list it in ignore"),
        ({"rollback": ["nulls"]}, "'nulls' is made before the commit and cannot roll back"),
    ],
)
def test_invalid_values_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        pc.Watch.from_dict(values)
