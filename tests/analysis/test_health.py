"""The health of rows: exact counts, drift, and shares of the classes without labels."""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import probclass_core as pc
from probclass_core.analysis.distributions import sums as health_sums
from probclass_core.analysis.distributions.columns import expected_columns
from probclass_core.analysis.distributions.health import Health
from probclass_core.analysis.distributions.label_shift import estimate_shares
from probclass_core.analysis.distributions.sums import HealthMeter
from probclass_core.arrow.arrays import FloatArray
from probclass_core.arrow.rows import Rows
from probclass_core.errors import DataError
from probclass_core.scoring.batch import BatchScorer

CLASSES = ["u", "v", "w"]
TRAINING = (0.2, 0.3, 0.5)
SPEC = pc.ModelSpec(
    label="y",
    blocks={
        "gaussian_diagonal": ["x", "z"],
        "categorical": ["c"],
        "poisson": ["n"],
        "discretized": ["d"],
    },
)


def drawn(rows: int, shares: object, seed: int) -> pa.Table:
    """Rows whose columns are independent within the classes, which have the given shares."""
    random = np.random.default_rng(seed)
    y = random.choice(3, rows, p=shares)
    return pa.table(
        {
            "x": random.normal(1.2 * y, 1.0),
            "z": random.normal(0.0, 1.0 + 0.3 * y),
            "c": np.array(["a", "b", "c"])[random.binomial(2, 0.2 + 0.3 * y)],
            "n": random.poisson(2 + y),
            "d": random.uniform(0.0, 1.0 + y),
            "y": np.array(CLASSES)[y],
        }
    )


@pytest.fixture(scope="module")
def model() -> pc.Model:
    training = drawn(40_000, TRAINING, 0)
    return pc.with_density_quantiles(pc.fit(training, SPEC), training)


def test_rows_like_those_of_training_are_healthy(model: pc.Model) -> None:
    health: Any = pc.health(model, drawn(5_000, TRAINING, 1))
    assert health.rows == 5_000
    for column in health.columns.values():
        assert (column.nulls, column.training_nulls) == (0.0, 0.0)
        assert column.drift < 4 * column.drift_error
        assert sum(column.counts) == health.sampled
    assert health.log_density.rare == pytest.approx(0.01, abs=0.006)
    assert health.unestimated is None
    assert Health.from_dict(json.loads(json.dumps(health.to_dict()))) == health


def test_the_bins_of_each_column_have_the_probability_of_the_mixture(model: pc.Model) -> None:
    """On rows drawn from the classes in their shares, by the law of large numbers."""
    rows = drawn(200_000, TRAINING, 2)
    columns = expected_columns(model)
    batch = rows.select([column.name for column in columns]).combine_chunks().to_batches()[0]
    for column in columns:
        _, of_column = column.measure(Rows(batch), 1)
        assert column.expected is not None
        assert column.expected.sum() == pytest.approx(1.0, abs=1e-9)
        shares = np.bincount(of_column, minlength=column.size) / len(rows)
        np.testing.assert_allclose(shares, column.expected, atol=0.01)


def test_nulls_unseen_and_outside_values_are_counted_exactly(model: pc.Model) -> None:
    rows = drawn(1_000, TRAINING, 3)
    x, c, n = (rows[name].to_numpy(zero_copy_only=False).copy() for name in "xcn")
    x[:100], x[100:110], c[:50] = np.nan, 1e6, "never"
    z = pa.array(rows["z"].to_numpy(), mask=np.arange(1_000) < 30)
    rows = pa.table({"x": x, "z": z, "c": c, "n": n, "d": rows["d"]})
    columns = pc.health(model, rows).columns
    assert (columns["x"].nulls, columns["x"].outside) == (0.1, 0.01)
    assert (columns["z"].nulls, columns["c"].unseen) == (0.03, 0.05)
    assert columns["c"].outside is None
    assert columns["x"].unseen is None


@pytest.mark.parametrize(
    ("name", "scale", "shift"), [("x", 1.8, 32.0), ("x", 1.0, 1.5), ("z", 3.0, 0.0)]
)
def test_a_column_that_changed_drifts_and_no_other(
    model: pc.Model, name: str, scale: float, shift: float
) -> None:
    rows = drawn(2_000, TRAINING, 4)
    changed = pa.array(rows[name].to_numpy() * scale + shift)
    rows = rows.set_column(rows.column_names.index(name), name, changed)
    drift = {key: column.drift or 0.0 for key, column in pc.health(model, rows).columns.items()}
    assert drift.pop(name) > 0.05
    assert max(drift.values()) < 0.01


def test_shares_are_not_estimated_outside_of_the_training_range(model: pc.Model) -> None:
    rows = drawn(2_000, TRAINING, 5)
    fahrenheit = rows.set_column(0, "x", pa.array(rows["x"].to_numpy() * 1.8 + 32))
    with_density = pc.health(model, fahrenheit)
    assert "1 % quantile" in (with_density.unestimated or "")
    assert "The shares of the classes are unknown: " in str(with_density)
    assert {one.estimated for one in with_density.classes.values()} == {None}
    without = pc.fit(drawn(2_000, TRAINING, 0), SPEC)
    assert "'x' is outside of the range" in (pc.health(without, fahrenheit).unestimated or "")


@pytest.mark.parametrize("shares", [TRAINING, (0.6, 0.2, 0.2), (0.05, 0.9, 0.05)])
def test_estimated_shares_are_within_their_errors_under_a_label_shift(
    model: pc.Model, shares: tuple[float, float, float]
) -> None:
    """In at least 90 % of the months; intervals of 95 % miss 5 of 48 with probability 0.05."""
    estimated = 0
    for month in range(48):
        u: Any = pc.health(model, drawn(400, shares, 100 + month)).classes["u"]
        estimated += abs(u.estimated - shares[0]) <= 1.96 * u.error
    assert estimated >= 43, "90 % of 48"


@pytest.mark.parametrize("shares", [(0.6, 0.2, 0.2), (0.0, 0.5, 0.5)])
def test_em_finds_the_shares_of_largest_likelihood(shares: tuple[float, float, float]) -> None:
    """Kuhn and Tucker: all derivatives of the mean log-likelihood are 1 where a share is positive,
    and at most 1 elsewhere."""
    random = np.random.default_rng(0)
    means, prior = np.array([0.0, 1.0, 3.0]), np.array(TRAINING)
    x = random.normal(means[random.choice(3, 3_000, p=shares)], 1.0)
    joint = np.exp(-0.5 * (x[:, None] - means) ** 2) * prior
    probability: FloatArray = joint / joint.sum(axis=1, keepdims=True)
    found = estimate_shares(probability, prior)
    np.testing.assert_allclose(found.shares, shares, atol=0.05)
    assert (np.abs(found.shares - shares) <= 4 * found.errors).all()
    ratio = probability / prior
    slopes = (ratio / (ratio @ found.shares)[:, None]).mean(axis=0)
    assert slopes == pytest.approx(np.where(found.shares > 1e-4, 1.0, slopes), abs=1e-4)
    assert slopes.max() < 1.0 + 1e-3


def test_a_column_with_a_single_value_in_a_class_has_counts_and_no_drift() -> None:
    x = [1.0] * 50 + [float(number) for number in range(50)]
    rows = {"x": x, "y": ["a"] * 50 + ["b"] * 50}
    block = pc.Block("gaussian_diagonal", ["x"], variance_floor=0)
    column = pc.health(pc.fit(rows, pc.ModelSpec("y", [block])), rows).columns["x"]
    assert (sum(column.counts), column.expected, column.drift) == (100, None, None)


def test_posteriors_under_other_shares_follow_from_bayes_rule(model: pc.Model) -> None:
    """Those of a model with this prior and the same likelihoods."""
    shares = {"u": 0.6, "v": 0.2, "w": 0.2}
    rows = drawn(500, list(shares.values()), 6)
    plain = pc.fit(drawn(2_000, TRAINING, 0), SPEC)
    options = pc.ScoringOptions(columns=[], prior=shares)
    batch = rows.combine_chunks().to_batches()[0]
    scored = BatchScorer(plain, rows.schema, options).score(batch)
    expected = plain.with_prior(shares).predict_proba(rows)
    np.testing.assert_allclose([scored[f"p_{name}"] for name in CLASSES], expected.T, atol=1e-12)
    np.testing.assert_array_equal(scored["log_density"], plain.score_samples(rows))


def test_a_calibrated_model_measures_a_shift_from_the_rows_of_its_calibration() -> None:
    """A model whose posteriors are too sure; its calibration has other shares than its training."""

    def copied(rows: int, shares: object, seed: int) -> pa.Table:
        table = drawn(rows, shares, seed)
        return table.append_column("x2", table["x"]).append_column("x3", table["x"])

    spec = pc.ModelSpec(label="y", blocks=[pc.Block("gaussian_diagonal", ["x", "x2", "x3"])])
    held_out = copied(20_000, (0.4, 0.4, 0.2), 7)
    calibrated = pc.calibrate(pc.fit(copied(5_000, TRAINING, 0), spec), held_out)
    mean = calibrated.training["calibration"]["mean_posterior"]
    assert list(mean.values()) == pytest.approx([0.4, 0.4, 0.2], abs=0.02)
    rows = copied(20_000, (0.1, 0.3, 0.6), 8)
    found = [one.estimated for one in pc.health(calibrated, rows).classes.values()]
    assert found == pytest.approx([0.1, 0.3, 0.6], abs=0.05)


@given(sizes=st.lists(st.integers(1, 60), min_size=1, max_size=8), cut=st.integers(0, 8))
def test_sums_do_not_depend_on_how_they_are_merged(
    model: pc.Model, sizes: list[int], cut: int
) -> None:
    """Parts of consecutive batches, with a sample that has to be thinned."""
    meter, rule = HealthMeter(model), model.compile_rule("map")
    bounds = np.minimum(np.cumsum([0, *sizes, 300]), 300)
    rows = drawn(300, TRAINING, 9).combine_chunks().to_batches()[0]
    batches = [rows.slice(start, end - start) for start, end in itertools.pairwise(bounds)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(health_sums, "SAMPLE_ROWS", 50)
        parts = [meter.measure(model.rows(batch), *model.decide(batch, rule)) for batch in batches]
        whole = meter.total(parts)
        merged = meter.total(parts[:cut]) + meter.total(parts[cut:])
    assert merged.rows == whole.rows == 300
    np.testing.assert_array_equal(merged.columns, whole.columns)
    np.testing.assert_array_equal(merged.predicted, whole.predicted)
    np.testing.assert_allclose(merged.probability, whole.probability, rtol=1e-12)
    assert len(merged.samples) == len(whole.samples)
    for one, other in zip(merged.samples, whole.samples, strict=True):
        assert one.stride == other.stride
        np.testing.assert_array_equal(one.log_probability, other.log_probability)
        np.testing.assert_array_equal(one.bins, other.bins)


def test_a_source_without_rows_is_refused(model: pc.Model) -> None:
    with pytest.raises(DataError, match="there are no rows to measure"):
        pc.health(model, drawn(10, TRAINING, 0).slice(0, 0))


def test_models_without_densities_or_marginals_say_what_they_do_not_know() -> None:
    training = drawn(500, TRAINING, 0)
    spec = pc.ModelSpec(label="y", blocks=[pc.Block("knn_density", ["x", "z"])])
    health = pc.health(pc.fit(training, spec), drawn(300, TRAINING, 1))
    assert health.columns["x"].drift is None
    assert sum(health.columns["x"].counts) == 300, "to compare with another partition"
    assert health.unestimated is None
