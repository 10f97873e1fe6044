"""The health of rows: exact counts, drift, and mean posteriors of the classes."""

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
from probclass_core.analysis.distributions.health import Health
from probclass_core.analysis.distributions.meter import HealthMeter, expected_columns
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
    assert Health.from_dict(json.loads(json.dumps(health.to_dict()))) == health


def test_the_bins_of_each_column_have_the_probability_of_the_mixture(model: pc.Model) -> None:
    """On rows drawn from the classes in their shares, by the law of large numbers."""
    rows = drawn(200_000, TRAINING, 2)
    columns = expected_columns(model)
    batch = rows.select([column.name for column in columns]).combine_chunks().to_batches()[0]
    for column in columns:
        _, counts = column.measure(Rows(batch), 1)
        assert column.expected is not None
        assert column.expected.sum() == pytest.approx(1.0, abs=1e-9)
        np.testing.assert_allclose(counts[: column.size] / len(rows), column.expected, atol=0.01)


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
    classes = pc.health(calibrated, copied(20_000, (0.4, 0.4, 0.2), 8)).classes.values()
    assert [one.prior for one in classes] == pytest.approx(list(mean.values()), rel=1e-5)
    assert [one.expected for one in classes] == pytest.approx(list(mean.values()), abs=0.02)


@given(sizes=st.lists(st.integers(1, 60), min_size=1, max_size=8), cut=st.integers(0, 8))
def test_sums_do_not_depend_on_how_they_are_merged(
    model: pc.Model, sizes: list[int], cut: int
) -> None:
    meter, rule = HealthMeter(model), model.compile_rule("map")
    bounds = np.minimum(np.cumsum([0, *sizes, 300]), 300)
    rows = drawn(300, TRAINING, 9).combine_chunks().to_batches()[0]
    batches = [rows.slice(start, end - start) for start, end in itertools.pairwise(bounds)]
    parts = [meter.measure(model.rows(batch), *model.decide(batch, rule)) for batch in batches]
    whole = meter.measure(model.rows(rows), *model.decide(rows, rule))
    first, rest = (sum(some, meter.zero()) for some in (parts[:cut], parts[cut:]))
    for merged in (sum(parts, meter.zero()), first + rest):
        for name, value in vars(whole).items():
            np.testing.assert_allclose(getattr(merged, name), value, rtol=1e-12, atol=1e-12)


def test_counts_of_large_batches_are_of_evenly_spaced_rows(model: pc.Model) -> None:
    """Of two batches, the larger one has its share of the bins, although less of it is counted."""
    meter, rule = HealthMeter(model), model.compile_rule("map")
    total = meter.zero()
    for rows in (drawn(90_000, (1, 0, 0), 1), drawn(3_000, (0, 0, 1), 2)):
        batch = rows.combine_chunks().to_batches()[0]
        total += meter.measure(model.rows(batch), *model.decide(batch, rule))
    health = meter.health(total)
    assert 6_000 < health.sampled < 8_000
    counts = np.array(health.columns["c"].counts)
    assert counts.sum() == pytest.approx(health.sampled, abs=2)
    shares = np.array([90 * 0.8**2 + 3 * 0.2**2, 90 * 0.32 + 3 * 0.32, 90 * 0.04 + 3 * 0.64, 0])
    np.testing.assert_allclose(counts / counts.sum(), shares / 93, atol=0.02)


def test_a_source_without_rows_is_refused(model: pc.Model) -> None:
    with pytest.raises(DataError, match="there are no rows to measure"):
        pc.health(model, drawn(10, TRAINING, 0).slice(0, 0))


def test_models_without_densities_or_marginals_say_what_they_do_not_know() -> None:
    training = drawn(500, TRAINING, 0)
    spec = pc.ModelSpec(label="y", blocks=[pc.Block("knn_density", ["x", "z"])])
    health = pc.health(pc.fit(training, spec), drawn(300, TRAINING, 1))
    assert health.columns["x"].drift is None
    assert sum(health.columns["x"].counts) == 300, "to compare with another partition"
