"""Properties of every decision and every calibration, for any model."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st
from samples import KINDS, drawn_model, queries

import probclass_core as pc

every_kind = pytest.mark.parametrize("estimator", KINDS)


@every_kind
@given(data=st.data())
def test_a_calibrated_posterior_is_a_probability_distribution(
    estimator: str, data: st.DataObject
) -> None:
    model, table = drawn_model(estimator, data)
    held_out = data.draw(st.sampled_from([table, table.slice(0, table.num_rows // 2 + 1)]))
    calibrated = pc.calibrate(model, held_out)
    if calibrated.calibration is not None:
        assert np.isfinite(calibrated.calibration["value"].to_numpy()).all()
    for rows in (table, data.draw(queries())):
        probability = calibrated.predict_proba(rows)
        assert ((probability >= 0) & (probability <= 1 + 1e-12)).all()
        np.testing.assert_allclose(probability.sum(axis=1), 1.0, rtol=1e-12)


@every_kind
@given(data=st.data())
def test_a_calibration_never_increases_the_log_loss(estimator: str, data: st.DataObject) -> None:
    model, table = drawn_model(estimator, data)
    calibrated = pc.calibrate(model, table)
    before, after = (pc.evaluate(fitted, table).log_loss for fitted in (model, calibrated))
    assert after <= before * (1 + 1e-9) + 1e-7


@every_kind
@given(data=st.data())
def test_a_decision_by_costs_has_the_lowest_expected_cost(
    estimator: str, data: st.DataObject
) -> None:
    model, table = drawn_model(estimator, data)
    names = model.class_names
    cost = st.floats(0, 1e6)
    row = st.dictionaries(st.sampled_from(names), cost)
    costs = data.draw(st.dictionaries(st.sampled_from(names), row))
    by = data.draw(st.sampled_from(["map", "ml"]))
    matrix = 1.0 - np.eye(len(names))
    for true, cells in costs.items():
        for predicted, value in cells.items():
            matrix[names.index(true), names.index(predicted)] = value
    deciding = model if by == "map" else model.with_prior("uniform")
    expected = deciding.predict_proba(table) @ matrix
    predictions = model.predict(table, pc.DecisionRule(by, costs))
    chosen = [model.classes.index(label).as_py() for label in predictions]
    actual = expected[np.arange(len(chosen)), chosen]
    np.testing.assert_allclose(actual, expected.min(axis=1), rtol=1e-12)


@every_kind
@given(data=st.data())
def test_a_stricter_rule_also_rejects_the_rows_of_a_laxer_rule(
    estimator: str, data: st.DataObject
) -> None:
    model, table = drawn_model(estimator, data)
    if not model.normalized:
        reject()
    model = pc.with_density_quantiles(model, table)
    rows = data.draw(queries())
    by = data.draw(st.sampled_from(["map", "ml"]))
    least = sorted(data.draw(st.tuples(st.floats(0, 1), st.floats(0, 1))))
    shares = st.floats(model.density_quantiles["quantile"][0].as_py(), 0.999)
    rare = sorted(data.draw(st.tuples(shares, shares)))
    lax, strict = (
        model.predict(rows, pc.DecisionRule(by, None, p, q)).to_pylist()
        for p, q in zip(least, rare, strict=True)
    )
    unrestricted = model.predict(rows, by).to_pylist()
    for by_lax, by_strict, label in zip(lax, strict, unrestricted, strict=True):
        assert by_lax in (None, label)
        assert by_strict in (None, by_lax)
    impossible = model.score_samples(rows) == -math.inf
    assert all(label is None for label, zero in zip(lax, impossible, strict=True) if zero)
    # Less than a fraction q of the rows that the quantiles were fitted on is below the q-quantile.
    predictions = model.predict(table, {"min_rarity": rare[0]}).to_pylist()
    impossible = model.score_samples(table) == -math.inf
    possible = zip(predictions, impossible, strict=True)
    rejected = sum(label is None for label, zero in possible if not zero)
    assert rejected <= rare[0] * table.num_rows
