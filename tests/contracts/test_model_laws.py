"""Properties of every fitted model, in addition to the laws of single estimators in the kit."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import BLOCKS, drawn_model, fitted_or_rejected, queries, spec_of, training_tables

import probclass_core as pc
from probclass_core.model.stored import model_from_bundle
from probclass_core.testing.trial import LABEL

every_estimator = pytest.mark.parametrize("estimator", sorted(BLOCKS))


@every_estimator
@given(data=st.data())
def test_posteriors_sum_to_one_and_are_the_prior_for_rows_without_density(
    estimator: str, data: st.DataObject
) -> None:
    model, trained = drawn_model(estimator, data)
    for rows in (trained, data.draw(queries())):
        shape = (rows.num_rows, len(model.classes))
        probability = model.predict_proba(rows)
        assert probability.shape == shape
        assert ((probability >= 0) & (probability <= 1)).all()
        np.testing.assert_allclose(probability.sum(axis=1), 1.0, rtol=1e-12)
        assert len(model.predict(rows)) == rows.num_rows
        impossible = np.isneginf(model.joint_log_likelihood(rows)).all(axis=1)
        prior = np.broadcast_to(model.priors["prior"].to_numpy(), shape)
        np.testing.assert_allclose(probability[impossible], prior[impossible])
        if model.normalized:
            density = model.score_samples(rows)
            assert not (np.isnan(density) | np.isposinf(density)).any()
            assert np.array_equal(np.isneginf(density), impossible)


@given(data=st.data())
def test_a_null_coordinate_is_left_out_of_the_distance(data: st.DataObject) -> None:
    """The likelihood of a row without y is that of a model of x alone."""
    estimator = "knn_density"
    table = data.draw(training_tables())
    both = fitted_or_rejected(table, spec_of(estimator))
    alone = pc.Block(estimator, ["x"], **BLOCKS[estimator].options)
    x_only = pc.fit(table, pc.ModelSpec(LABEL, [alone]))
    for rows in without_y(data.draw(queries())):
        np.testing.assert_allclose(
            both.log_likelihood_by_block(rows), x_only.log_likelihood_by_block(rows), rtol=1e-9
        )


def without_y(rows: pa.Table) -> list[pa.Table]:
    """The rows with y null, and with y NaN."""
    missing = [pa.array([cell] * rows.num_rows, pa.float64()) for cell in (None, float("nan"))]
    return [rows.set_column(1, "y", column) for column in missing]


@given(data=st.data())
def test_log_prior_and_blocks_add_up_to_the_joint_log_likelihood(data: st.DataObject) -> None:
    """log p(x, c) is log P(c) plus the log-likelihoods of the blocks, in any order of blocks."""
    table = data.draw(training_tables())
    blocks = [
        pc.Block("gaussian_full", ["x"]),
        pc.Block("knn_density", ["y"], k=2),
        BLOCKS["categorical"],
    ]
    model = fitted_or_rejected(table, pc.ModelSpec(LABEL, blocks))
    reordered = pc.fit(table, pc.ModelSpec(LABEL, blocks[::-1]))
    rows = data.draw(queries())
    by_block = model.log_likelihood_by_block(rows)
    assert by_block.shape == (rows.num_rows, len(model.classes), 3)
    joint = by_block.sum(axis=2) + np.log(model.priors["prior"].to_numpy())
    np.testing.assert_allclose(model.joint_log_likelihood(rows), joint, rtol=1e-12)
    np.testing.assert_allclose(reordered.joint_log_likelihood(rows), joint, rtol=1e-12)


@given(data=st.data())
def test_another_prior_shifts_the_joint_by_the_log_ratio_of_priors(data: st.DataObject) -> None:
    model, trained = drawn_model("gaussian_diagonal", data)
    uniform = model.with_prior("uniform")
    shift = np.log(1 / len(model.classes)) - model.log_prior
    np.testing.assert_allclose(
        uniform.joint_log_likelihood(trained),
        model.joint_log_likelihood(trained) + shift,
        atol=1e-9,
    )
    assert uniform.id != model.id


@given(data=st.data())
def test_the_prior_alone_is_a_model_that_predicts_as_the_baseline_of_an_evaluation(
    data: st.DataObject,
) -> None:
    model, trained = drawn_model("gaussian_diagonal", data)
    prior = model_from_bundle(model.prior_only().to_bundle())
    np.testing.assert_allclose(
        prior.predict_log_proba(trained), np.tile(model.log_prior, (trained.num_rows, 1))
    )
    np.testing.assert_array_equal(prior.score_samples(trained), model.score_samples(trained))
    baseline, alone = pc.evaluate(model, trained), pc.evaluate(prior, trained)
    for metric in ("accuracy", "log_loss", "brier", "ece"):
        expected = getattr(baseline, f"baseline_{metric}")
        assert getattr(alone, metric) == pytest.approx(expected, rel=1e-12)
    assert alone.worse_than_prior == ()
    assert alone.warning is None
    assert "prior alone" in str(alone)
    assert prior.is_prior_only
    assert not model.is_prior_only
    assert prior.id != model.id
    assert prior.prior_only().id == prior.id
