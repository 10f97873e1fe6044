"""Block weights: fitted on rows that their blocks did not see, the same however rows are split."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pac
import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_values import weights_of
from scipy.optimize import minimize
from scipy.special import log_softmax

import probclass_core as pc
from probclass_core.arrow.rows import Rows, row_hashes
from probclass_core.errors import NotSupportedError, SpecError
from probclass_core.estimation.kinds import sample as kinds_sample
from probclass_core.estimation.kinds.sample import COUNT, HASH, Sample
from probclass_core.model.block_weights import below_best, ranked_blocks

ROWS_OF_TABLE = 400


def flowers(seed: int = 0, rows: int = ROWS_OF_TABLE) -> pa.Table:
    """Two classes; ``a`` knows the class, ``copy`` repeats it, ``noise`` does not know it."""
    random = np.random.default_rng(seed)
    truth = random.integers(0, 2, rows)
    a = random.normal(truth, 1.0)
    return pa.table(
        {
            "kind": pa.array(["iris", "rose"]).take(pa.array(truth)),
            "a": a,
            "copy": 2.0 * a + 1.0,
            "noise": random.normal(size=rows),
            "color": pa.array(["red", "blue", None]).take(pa.array(random.integers(0, 3, rows))),
        }
    )


def weighted(*blocks: pc.Block, **options: object) -> pc.ModelSpec:
    return pc.ModelSpec("kind", blocks, **{"block_weights": "fit", **options})


A, COPY, NOISE = (pc.Block("gaussian_diagonal", [name], name) for name in ("a", "copy", "noise"))
COLOR = pc.Block("categorical", ["color"], "color")


def test_two_blocks_that_know_the_same_share_one_weight() -> None:
    single = weights_of(pc.fit(flowers(), weighted(A)))["a"]
    both = weights_of(pc.fit(flowers(), weighted(A, COPY)))
    assert both["a"] + both["copy"] == pytest.approx(single, rel=1e-2)
    assert single == pytest.approx(1.0, abs=0.25)


def test_a_block_that_knows_nothing_weighs_nothing() -> None:
    weights = weights_of(pc.fit(flowers(rows=2000), weighted(A, NOISE, COLOR)))
    assert weights["noise"] < 0.2
    assert weights["color"] < 0.2


def test_a_column_of_random_levels_does_not_mislead() -> None:
    """Likelihoods of the block's own training rows would give it a large weight."""
    table = flowers(rows=1000)
    random = np.random.default_rng(7).integers(0, 300, table.num_rows)
    levels = pa.array([f"level {number}" for number in random])
    table = table.append_column("levels", levels)
    train, test = table.slice(0, 600), table.slice(600)
    spec = weighted(A, pc.Block("categorical", ["levels"], "levels"))
    product = dataclasses.replace(spec, block_weights=None)
    without = pc.evaluate(pc.fit(train, weighted(A)), test)
    assert pc.evaluate(pc.fit(train, spec), test).accuracy >= without.accuracy - 0.01
    assert pc.evaluate(pc.fit(train, product), test).log_loss > without.log_loss + 0.02


def test_weights_solve_the_problem_that_is_documented() -> None:
    """Weights and biases against another solver, on likelihoods of folds made by hand."""
    table = flowers(rows=300)
    model = pc.fit(table, weighted(A, NOISE))
    statistics = pc.summarize(table, weighted(A, NOISE))
    assert statistics.sample is not None
    sample = statistics.sample
    fold = sample[HASH].to_numpy() % 5
    factors = np.zeros((2, len(fold), 2))
    for number in range(5):
        rest, rows = (sample.filter(pa.array(mask)) for mask in (fold != number, fold == number))
        for block, factor in zip((A, NOISE), factors, strict=True):
            one = pc.fit(rest, pc.ModelSpec("kind", [block]))
            factor[fold == number] = below_best(one.log_likelihood_by_block(rows)[:, :, 0])
    truth = (sample["kind"].to_numpy(zero_copy_only=False) == "rose").astype(int)
    prior = np.log(model.priors["prior"].to_numpy())

    def loss(terms: np.ndarray) -> float:
        scores = np.tensordot(terms[:2], factors, 1) + prior + terms[2:]
        logs = log_softmax(scores, axis=1)[np.arange(len(truth)), truth]
        return float(-logs.sum() + 2.0 * terms[:2].sum() + 0.5 * (terms[2:] ** 2).sum())

    best = minimize(loss, np.zeros(4), bounds=[(0, None)] * 2 + [(None, None)] * 2)
    assert list(weights_of(model).values()) == pytest.approx(best.x, abs=5e-3)


def test_the_posterior_is_the_weighted_sum_that_is_documented() -> None:
    table = flowers()
    model = pc.fit(table, weighted(A, COPY, COLOR))
    logs = model.log_likelihood_by_block(table)
    relative = np.maximum(logs - logs.max(axis=1, keepdims=True), -20.0)
    values = np.array(list(weights_of(model).values()))
    scores = relative @ values[:3] + values[3:] + np.log(model.priors["prior"].to_numpy())
    assert model.predict_log_proba(table) == pytest.approx(log_softmax(scores, axis=1), abs=1e-12)


def test_given_weights_of_one_are_the_product() -> None:
    table = flowers()
    product = pc.fit(table, pc.ModelSpec("kind", [A, NOISE]))
    ones = pc.fit(table, weighted(A, NOISE, block_weights={"a": 1, "noise": 1}))
    assert ones.predict_proba(table) == pytest.approx(product.predict_proba(table), abs=1e-12)
    assert ones.id != product.id
    fitted = pc.fit(table, weighted(A, NOISE))
    for model in (ones, fitted):  # the density is that of the product, whatever the weights
        assert model.score_samples(table) == pytest.approx(product.score_samples(table))
        assert model.joint_log_likelihood(table) == pytest.approx(
            product.joint_log_likelihood(table)
        )


def test_the_weight_of_a_conditional_is_about_what_the_given_columns_add() -> None:
    """The log-likelihood of the same column alone is subtracted from that of the conditional."""
    table = flowers()
    alone = pc.Block("discretized", ["a"], "alone", cuts={"a": [0.5]})
    pair = pc.Block(
        "discretized", ["a"], "pair", given=["noise"], cuts={"a": [0.5], "noise": [0.0]}
    )
    model = pc.fit(table, weighted(alone, pair, COLOR))
    a, given, color = np.moveaxis(model.log_likelihood_by_block(table), 2, 0)
    values = weights_of(model)
    scores = values["alone"] * a + values["pair"] * (given - a) + values["color"] * color
    scores += np.array([values["iris"], values["rose"]]) + np.log(model.priors["prior"].to_numpy())
    assert model.predict_log_proba(table) == pytest.approx(log_softmax(scores, axis=1), abs=1e-9)


def test_a_column_in_two_blocks_has_no_density() -> None:
    again = pc.Block("discretized", ["a"], "bins")
    model = pc.fit(flowers(), weighted(A, again))
    assert not model.normalized
    with pytest.raises(NotSupportedError, match="no blocks of the pool have each column once"):
        model.score_samples(flowers())
    assert np.isfinite(model.predict_log_proba(flowers())).all()


def test_a_column_in_two_blocks_needs_weights() -> None:
    with pytest.raises(SpecError, match=r"only once, unless it fits block_weights"):
        pc.ModelSpec("kind", [A, pc.Block("discretized", ["a"], "bins")])


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ("fitted", "'fit', a number for each block, or None, got 'fitted'"),
        ({"b": 1.0}, "names no block 'b'; the model has 'a'"),
        ({"a": -1.0}, "block_weights of 'a' must be a number of at least 0, got -1.0"),
    ],
)
def test_other_weights_are_refused(weights: object, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        weighted(A, block_weights=weights)


def test_the_evidence_of_a_block_is_capped() -> None:
    """A value far away would be hundreds of nats, which the cap makes 20."""
    table = flowers()
    far = table.slice(0, 1).set_column(1, "a", pa.array([4000.0]))
    model = pc.fit(table, weighted(A, NOISE))
    (weight,) = pc.explain(model, far).table.filter(pac.field("item") == "a")["weight"].to_pylist()
    assert weight == pytest.approx(20.0 * weights_of(model)["a"])


def test_importance_is_the_loss_without_the_block() -> None:
    """A block of weight 0 has none; muting the only block leaves prior and biases."""
    model = pc.fit(flowers(), weighted(A))
    assert model.block_weights is not None
    (block,) = ranked_blocks(model.block_weights).to_pylist()
    prior = np.log(model.priors["prior"].to_numpy()) + model.weights.bias
    counts = model.priors["count"].to_numpy()
    without = -(log_softmax(prior) @ counts) / counts.sum()
    reported = model.training["block_weights"]
    assert block["importance"] == pytest.approx(without - reported["log_loss"])


def test_a_weight_is_a_number_of_rows() -> None:
    table = flowers(rows=200)
    twice = pa.concat_tables([table, table])
    by_weight = table.append_column("w", pa.array(np.full(table.num_rows, 2.0)))
    repeated = weights_of(pc.fit(twice, weighted(COLOR, A)))
    counted = weights_of(pc.fit(by_weight, weighted(COLOR, A, weight="w")))
    assert counted == pytest.approx(repeated, rel=1e-6)


def test_a_class_of_one_row_is_fitted() -> None:
    """The folds without that row do not know its class."""
    single = pa.table({"kind": ["lily"], "color": ["white"]})
    table = pa.concat_tables([flowers(rows=60).select(["kind", "color"]), single])
    model = pc.fit(table, weighted(COLOR))
    probability = model.predict_proba(table)
    assert probability.sum(axis=1) == pytest.approx(1.0)
    assert 0.0 < probability[-1, 1] < 1.0


VALUES = st.one_of(st.none(), st.floats(allow_infinity=False), st.just(-0.0))
TABLES = st.lists(
    st.tuples(VALUES, st.sampled_from(["x", "y", None]), st.lists(st.sampled_from("ab"))),
    min_size=1,
    max_size=40,
)
SCHEMA = pa.schema(
    [("number", pa.float64()), ("text", pa.string()), ("terms", pa.list_(pa.string()))]
)


def batch_of(rows: list[tuple[object, ...]]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [
        pa.array(list(values), field.type) for values, field in zip(columns, SCHEMA, strict=True)
    ]
    return pa.record_batch(arrays, schema=SCHEMA)


@given(rows=TABLES, cut=st.integers(0, 40), seed=st.integers(0, 9), size=st.integers(1, 10))
def test_a_sample_does_not_depend_on_the_split_or_order(
    rows: list[tuple[object, ...]], cut: int, seed: int, size: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kinds_sample, "SAMPLE_ROWS", size)
        kind = Sample(SCHEMA)
        whole = kind.summarize(Rows(batch_of(rows)), None, None)
        shuffled = [rows[number] for number in np.random.default_rng(seed).permutation(len(rows))]
        parts = [part for part in (shuffled[:cut], shuffled[cut:]) if part]
        merged = kind.merge([kind.summarize(Rows(batch_of(part)), None, None) for part in parts])
    keys = [HASH, COUNT, "text"]
    assert merged.select(keys).equals(whole.select(keys))
    assert whole.num_rows <= size
    distinct = len({*row_hashes(Rows(batch_of(rows))).tolist()})
    assert whole.num_rows == min(size, distinct)
    if distinct <= size:
        assert sum(whole[COUNT].to_pylist()) == len(rows)


def test_a_hash_does_not_depend_on_the_type_of_a_column() -> None:
    numbers = [3, None, -1]
    texts = ["a", None, "b"]
    plain = pa.record_batch({"n": pa.array(numbers, pa.int8()), "t": pa.array(texts)})
    other = pa.record_batch(
        {
            "n": pa.array([3.0, np.nan, -1.0]),
            "t": pa.array(texts, pa.large_string()).dictionary_encode(),
        }
    )
    assert row_hashes(Rows(plain)).tolist() == row_hashes(Rows(other)).tolist()
    assert len({*row_hashes(Rows(plain)).tolist()}) == 3


def test_a_sample_is_uniform() -> None:
    """A sample of a tenth of the rows has a tenth of each class, within four standard errors."""
    numbers = np.arange(100_000)
    batch = pa.record_batch({"number": numbers})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kinds_sample, "SAMPLE_ROWS", 10_000)
        sample = Sample(batch.schema).summarize(Rows(batch), None, None)
    chosen = pd.Series(sample["number"].to_numpy() // 10_000).value_counts()
    assert chosen.sum() == 10_000
    assert (abs(chosen - 1000) < 4 * np.sqrt(1000 * 0.9)).all()


def test_a_class_of_one_row_takes_no_trust_from_a_block_that_is_fitted_in_folds() -> None:
    spec = weighted(pc.Block("gaussian_shared", ["a"], "a"))
    table = flowers()
    rare = pa.table({"kind": ["tulip"], "a": [1.0]})
    both = pa.concat_tables([table.select(["kind", "a"]), rare])
    assert weights_of(pc.fit(both, spec))["a"] == pytest.approx(
        weights_of(pc.fit(table, spec))["a"], rel=0.1
    )
