"""What holds of every decision and every calibration, whatever the model."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from samples import BLOCKS, OPTIONS, fitted_or_rejected, queries, spec_of, training_tables

import probclass_core as pc

pytestmark = pytest.mark.slow

every_estimator = pytest.mark.parametrize("estimator", sorted(BLOCKS))
law = settings(max_examples=20)


@st.composite
def models(draw: st.DrawFn, estimator: str) -> tuple[pc.Model, pa.Table]:
    """A model with some options, and the rows it was fitted on."""
    options = draw(st.sampled_from(OPTIONS[estimator]))
    table = draw(training_tables())
    return fitted_or_rejected(table, spec_of(estimator, **options)), table


@every_estimator
@law
@given(data=st.data())
def test_a_calibrated_posterior_is_a_posterior(estimator: str, data: st.DataObject) -> None:
    model, table = data.draw(models(estimator))
    held_out = data.draw(st.sampled_from([table, table.slice(0, table.num_rows // 2 + 1)]))
    method = data.draw(st.sampled_from(["temperature", "isotonic"]))
    try:
        calibrated = pc.calibrate(model, held_out, method)
    except pc.DataError:
        reject()  # too few rows, or a true class of probability 0 in all of them
    assert calibrated.calibration is not None
    assert np.isfinite(calibrated.calibration["value"].to_numpy()).all()
    for rows in (table, data.draw(queries())):
        probability = calibrated.predict_proba(rows)
        assert ((probability >= 0) & (probability <= 1 + 1e-12)).all()
        np.testing.assert_allclose(probability.sum(axis=1), 1.0, rtol=1e-12)
        if method == "temperature":
            best = np.sort(model.predict_log_proba(rows), axis=1)
            clear = pa.array(best[:, -1] - best[:, -2] > 1e-9)  # a rounding may make equals
            assert calibrated.predict(rows).filter(clear) == model.predict(rows).filter(clear)


@every_estimator
@law
@given(data=st.data())
def test_the_temperature_never_makes_the_log_loss_worse(
    estimator: str, data: st.DataObject
) -> None:
    model, table = data.draw(models(estimator))
    try:
        calibrated = pc.calibrate(model, table)
    except pc.DataError:
        reject()
    before, after = (pc.evaluate(each, table).log_loss for each in (model, calibrated))
    assert after <= before * (1 + 1e-9) + 1e-9


@every_estimator
@law
@given(data=st.data())
def test_a_rule_costs_no_more_than_any_other_decision(estimator: str, data: st.DataObject) -> None:
    model, table = data.draw(models(estimator))
    names = model.class_names
    cost = st.floats(0, 1e6)
    row = st.dictionaries(st.sampled_from(names), cost)
    costs = data.draw(st.dictionaries(st.sampled_from(names), row))
    matrix = 1.0 - np.eye(len(names))
    for true, cells in costs.items():
        for said, value in cells.items():
            matrix[names.index(true), names.index(said)] = value
    expected = model.predict_proba(table) @ matrix
    told = model.predict(table, pc.DecisionRule(costs=costs))
    chosen = [model.classes.index(label).as_py() for label in told]
    found = expected[np.arange(len(chosen)), chosen]
    np.testing.assert_allclose(found, expected.min(axis=1), rtol=1e-12)


@every_estimator
@law
@given(data=st.data())
def test_a_stricter_rule_rejects_what_a_laxer_one_does(estimator: str, data: st.DataObject) -> None:
    model, table = data.draw(models(estimator))
    if not model.normalized:
        reject()
    model = pc.with_density_quantiles(model, table)
    rows = data.draw(queries())
    by = data.draw(st.sampled_from(["map", "ml"]))
    least = sorted(data.draw(st.tuples(st.floats(0, 1), st.floats(0, 1))))
    rare = sorted(data.draw(st.tuples(st.floats(0.001, 0.999), st.floats(0.001, 0.999))))
    lax, strict = (
        model.predict(rows, pc.DecisionRule(by, None, p, q)).to_pylist()
        for p, q in zip(least, rare, strict=True)
    )
    free = model.predict(rows, by).to_pylist()
    for some, fewer, every in zip(lax, strict, free, strict=True):
        assert some in (None, every)
        assert fewer in (None, some)
    lost = model.score_samples(rows) == -math.inf
    assert all(name is None for name, gone in zip(lax, lost, strict=True) if gone)
    # Less than a share q of the rows that were measured lies below their q-quantile.
    told = model.predict(table, {"min_density_quantile": rare[0]}).to_pylist()
    lost = model.score_samples(table) == -math.inf
    rejected = sum(name is None for name, gone in zip(told, lost, strict=True) if not gone)
    assert rejected <= rare[0] * table.num_rows
