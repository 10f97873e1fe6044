"""Two models on the same rows: the gain of one, its standard error, and what changes neither."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lakes import write_rows
from scipy import stats

import probclass_core as pc
from probclass_core.analysis.batches import RowMoments
from probclass_core.analysis.paired import PairedEvaluation
from probclass_core.operation.promotion import evaluate_paired

CLASSES = ("a", "b", "c")
MONTHS = ("2014-01", "2014-02", "2014-03", "2014-04")


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    """800 rows of three classes in four months; every month is shifted a little."""
    random = np.random.default_rng(7)
    label = random.integers(0, 3, 800)
    month = np.repeat(np.arange(4), 200)
    x = random.normal(label + 0.4 * month, 1.0)
    y = random.normal(label, 2.0)
    names = [CLASSES[code] for code in label]
    return pa.table({"label": names, "x": x, "y": y, "month": [MONTHS[m] for m in month]})


@pytest.fixture(scope="module")
def models(rows: pa.Table) -> tuple[pc.Model, pc.Model]:
    specs = [pc.ModelSpec("label", {"gaussian_diagonal": list(columns)}) for columns in ("xy", "x")]
    return tuple(pc.fit(rows.slice(0, 400), spec) for spec in specs)


@pytest.fixture(scope="module")
def lake(rows: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("lake")
    for month in MONTHS:
        part = rows.filter(pa.compute.equal(rows["month"], month)).drop_columns("month")
        write_rows(folder / f"month={month}", part, row_group_size=77)
    return str(folder)


def terms(model: pc.Model, rows: pa.Table) -> dict[str, np.ndarray]:
    """The terms of the metrics row by row, from the posteriors."""
    posterior = model.predict_proba(rows)
    truth = np.array([CLASSES.index(name) for name in rows["label"].to_pylist()])
    one_hot = np.eye(3)[truth]
    return {
        "log_loss": -np.log(posterior[np.arange(len(truth)), truth]),
        "brier": ((posterior - one_hot) ** 2).sum(axis=1),
        "accuracy": (posterior.argmax(axis=1) == truth).astype(float),
        "log_density": model.score_samples(rows),
    }


MORE_IS_BETTER = ("accuracy", "log_density")


@pytest.mark.parametrize("metric", ["log_loss", "brier", "accuracy", "log_density"])
def test_z_is_the_statistic_of_a_paired_t_test(
    metric: str, rows: pa.Table, models: tuple[pc.Model, pc.Model]
) -> None:
    paired = evaluate_paired(*models, rows)
    own, other = (terms(model, rows)[metric] for model in models)
    better, worse = (own, other) if metric in MORE_IS_BETTER else (other, own)
    gains, gain = better - worse, paired.gains[metric]
    assert gain.value == pytest.approx(gains.mean(), rel=1e-9)
    assert gain.standard_error == pytest.approx(stats.sem(gains), rel=1e-9)
    assert gain.z == pytest.approx(stats.ttest_rel(better, worse).statistic)
    assert gain.value == pytest.approx(difference(paired, metric), rel=1e-9)
    swapped = evaluate_paired(*models[::-1], rows).gains[metric]
    assert swapped.value == pytest.approx(-gain.value, rel=1e-9)
    assert swapped.standard_error == pytest.approx(gain.standard_error, rel=1e-9)


def difference(paired: PairedEvaluation, metric: str) -> float:
    sign = 1.0 if metric in MORE_IS_BETTER else -1.0
    return float(sign * (getattr(paired.challenger, metric) - getattr(paired.champion, metric)))


def test_the_evaluations_are_those_of_evaluate(
    rows: pa.Table, models: tuple[pc.Model, pc.Model]
) -> None:
    paired = evaluate_paired(*models, rows)
    assert paired.champion is not None
    assert paired.challenger.to_dict() == pc.evaluate(models[0], rows).to_dict()
    assert paired.champion.to_dict() == pc.evaluate(models[1], rows).to_dict()
    alone = evaluate_paired(models[0], None, rows)
    assert (alone.champion, alone.gains) == (None, {})
    assert alone.challenger.to_dict() == paired.challenger.to_dict()


def test_accuracy_and_cost_cover_the_rows_that_each_model_decides(
    rows: pa.Table, models: tuple[pc.Model, pc.Model]
) -> None:
    """The standard error of a difference of ratios, checked by the jackknife."""
    decision = {"min_probability": 0.5, "costs": {"a": {"c": 3.0}}}
    paired = evaluate_paired(*models, rows, decision=decision)
    assert paired.champion is not None
    assert paired.challenger.decided != paired.champion.decided
    parts = [pa.concat_tables([rows.slice(0, i), rows.slice(i + 8)]) for i in range(0, 800, 8)]
    without = [evaluate_paired(*models, part, decision=decision) for part in parts]
    for metric in ("accuracy", "cost"):
        gain = paired.gains[metric]
        assert gain.value == pytest.approx(difference(paired, metric), rel=1e-9)
        left_out = [each.gains[metric].value for each in without]
        jackknife = math.sqrt(len(without) - 1) * np.std(left_out)
        assert gain.standard_error == pytest.approx(jackknife, rel=0.25)


def test_the_error_over_windows_is_that_of_their_sums(
    lake: str, rows: pa.Table, models: tuple[pc.Model, pc.Model]
) -> None:
    paired = evaluate_paired(*models, lake, windows="month")
    own, other = (terms(model, rows)["log_loss"] for model in models)
    gains = other - own
    sums = (gains - gains.mean()).reshape(4, 200).sum(axis=1)
    between = math.sqrt(4 / 3 * (sums @ sums)) / 800
    expected = max(between, stats.sem(gains))
    assert paired.gains["log_loss"].standard_error == pytest.approx(expected, rel=1e-9)
    assert [window.window for window in paired.windows] == [{"month": month} for month in MONTHS]
    means = [window.gains["log_loss"].value for window in paired.windows]
    assert means == pytest.approx(gains.reshape(4, 200).mean(axis=1), rel=1e-9)
    assert paired.gains["ece"].standard_error is None
    some = evaluate_paired(*models, lake, windows="month", where="month > 2014-02 and x > 1")
    assert [window.window for window in some.windows] == [{"month": month} for month in MONTHS[2:]]
    assert some.challenger.rows == sum(window.challenger.rows for window in some.windows) < 400


def test_no_engine_changes_a_digit(lake: str, models: tuple[pc.Model, pc.Model]) -> None:
    expected, *others = (
        evaluate_paired(*models, lake, windows="month", engine=engine, workers=workers)
        for engine, workers in (("threads", 1), ("threads", 4), ("processes", 2))
    )
    assert [other.to_dict() for other in others] == [expected.to_dict()] * 2


def test_a_model_is_not_better_than_itself(
    rows: pa.Table, models: tuple[pc.Model, pc.Model]
) -> None:
    gain = evaluate_paired(models[0], models[0], rows).gains["log_loss"]
    assert (gain.value, gain.standard_error, gain.z) == (0.0, 0.0, 0.0)


def test_an_impossible_row_makes_a_gain_infinite() -> None:
    """A histogram gives the probability 0 to a value that its class never had."""
    train = {"label": ["a", "a", "b", "b"] * 5, "x": ["u", "v", "v", "v"] * 5}
    models = [
        pc.fit(train, pc.ModelSpec("label", [pc.Block("categorical", "x", pseudo_count=count)]))
        for count in (1.0, 0.0)
    ]
    judged = {"label": ["b", "a"], "x": ["u", "v"]}
    gain = evaluate_paired(models[0], models[1], judged).gains["log_loss"]
    assert (gain.value, gain.standard_error) == (math.inf, None)
    back = evaluate_paired(models[1], models[0], judged).gains["log_loss"]
    assert back.value == -math.inf
    assert evaluate_paired(models[1], models[1], judged).gains["log_loss"].value is None


numbers = st.floats(-1e3, 1e3, allow_subnormal=False)


@given(
    st.lists(st.tuples(numbers, numbers, st.booleans(), st.booleans()), min_size=2, max_size=30),
    st.data(),
)
def test_moments_of_parts_are_those_of_the_whole(parts: Any, data: Any) -> None:
    values = np.array(parts, dtype=float).T + np.array([[1e6], [0], [0], [0]])
    cut = data.draw(st.integers(0, values.shape[1]))
    whole = RowMoments.of_rows(values)
    halves = [RowMoments.of_rows(values[:, :cut]), RowMoments.of_rows(values[:, cut:])]
    for merged in (halves[0] + halves[1], halves[1] + halves[0]):
        assert merged.rows == whole.rows
        assert merged.mean == pytest.approx(whole.mean, rel=1e-12, abs=1e-9)
        assert merged.scatter == pytest.approx(
            np.cov(values) * (whole.rows - 1), rel=1e-6, abs=1e-3
        )
