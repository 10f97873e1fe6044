"""The evidence of each row, written or explained, sums to its log odds and its surprise."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pac
import pyarrow.dataset as ds
import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import BLOCKS, COUNTS, OPTIONS, fitted_or_rejected, queries, spec_of, training_tables

import probclass_core as pc
from probclass_core.analysis.explanation import Explanation
from probclass_core.model.model import Model
from probclass_core.testing.trial import LABEL

NUMBERS = ["bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g"]
RULE = pc.DecisionRule(costs={"Adelie": {"Gentoo": 9.0, "Chinstrap": 4.0}}, min_probability=0.9)


def terms(table: pa.Table, prefix: str) -> dict[str, np.ndarray]:
    """The columns of a kind as arrays, NaN for null."""
    return {
        name.removeprefix(prefix): table[name].to_numpy()
        for name in table.column_names
        if name.startswith(prefix)
    }


def check_sum(parts: dict[str, np.ndarray], expected: np.ndarray, error: np.ndarray) -> None:
    """Compare a sum of terms as precisely as the size of the terms allows."""
    listed = np.array(list(parts.values()))
    size = np.abs(np.where(np.isfinite(listed), listed, 0.0)).max(axis=0, initial=0.0)
    total = np.nansum(listed, axis=0)
    with np.errstate(invalid="ignore"):
        close = np.abs(total - expected) <= np.maximum(1e-9, 1e-12 * size) + error
    assert (close | (total == expected)).all(), (total, expected)


def check_sums(
    model: Model, scored: pa.Table, log_probability: np.ndarray, error: float | np.ndarray = 0.0
) -> None:
    """Compare the sums of both kinds with log P(c | x) and log p(x).

    Args:
        model: the model.
        scored: scored rows, without rejected ones.
        log_probability: log P(c | x), ``(n, k)``.
        error: rounding error of the log-likelihoods, ``(n,)``.
    """
    error = np.broadcast_to(error, len(log_probability))
    chosen, rival = (
        pac.index_in(scored[name], model.classes).to_numpy() for name in ("prediction", "runner_up")
    )
    rows = np.arange(len(chosen))
    others = log_probability.copy()
    others[rows, chosen] = -np.inf
    assert (chosen != rival).all()
    assert (log_probability[rows, rival] == others.max(axis=1)).all()
    log_odds = log_probability[rows, chosen] - log_probability[rows, rival]
    parts = terms(scored, "contribution_")
    before = np.nansum([part for name, part in parts.items() if name != "calibration"], axis=0)
    if "calibration" in parts:  # infinite log odds become finite: no number does that
        assert (np.isnan(parts["calibration"]) == np.isinf(before)).all()
        log_odds = np.where(np.isinf(before), before, log_odds)
    check_sum(parts, log_odds, error)
    if model.normalized:
        check_sum(terms(scored, "surprise_"), -scored["log_density"].to_numpy(), error)
    else:
        assert not terms(scored, "surprise_")


def check_entries(
    model: Model, explanation: Explanation, rows: pa.Table, error: np.ndarray
) -> None:
    """Compare the sum of entries, and their total, with the log odds of the two classes."""
    joint, log_probability = model.joint_log_likelihood(rows), model.predict_log_proba(rows)
    entries = explanation.table.to_pandas().groupby("row")
    for row, line in enumerate(explanation.rows.to_pylist()):
        pair = [model.class_names.index(line[side]) for side in ("prediction", "against")]
        weights, totals = (entries.get_group(row)[name].to_numpy() for name in ("weight", "total"))
        if model.block_weights is None and np.isinf(joint[row, pair]).all():  # both impossible
            assert np.isnan(totals[-1])
        else:
            log_odds = -np.diff(log_probability[row, pair])
            for parts in (weights, totals[-1:]):
                listed = {str(number): part for number, part in enumerate(parts.reshape(-1, 1))}
                check_sum(listed, log_odds, error[row])


def check_ledgers(model: Model, scored: pa.Table, rows: pa.Table) -> None:
    """Compare what is explained of some rows, a line for each column, with what is written."""
    explanation = pc.explain(model, rows, rows=range(0, len(rows), 9), limit=None)
    written = scored.take(explanation.rows["row"])
    assert explanation.rows["against"].equals(written["runner_up"])
    columns = {str(block.name): ", ".join(block.columns) for block in model.spec.pool}
    parts = pd.DataFrame(terms(written, "contribution_")).rename(columns=columns)
    expected = parts.fillna(np.inf).T.groupby(level=0).sum().T  # inf: a change of infinite odds
    lines = explanation.table.to_pandas()
    lines["name"] = lines["item"].fillna(lines["entry"])
    lines["weight"] = lines["weight"].fillna(np.inf)
    found = lines.pivot(index="row", columns="name", values="weight")
    names = found.columns.union(expected.columns)  # one without is 0
    found, expected = (each.reindex(columns=names).fillna(0.0) for each in (found, expected))
    np.testing.assert_allclose(found, expected, atol=1e-9)
    lines = explanation.surprise.to_pandas()
    found = lines.pivot(index="row", columns="item", values="surprise")
    expected = pd.DataFrame(terms(written, "surprise_"))
    assert set(found) == set(expected)
    np.testing.assert_allclose(found[expected.columns], expected, atol=1e-9)


@pytest.mark.parametrize("estimator", sorted(BLOCKS))
@given(data=st.data())
def test_terms_sum_to_log_odds_and_surprise(estimator: str, data: st.DataObject) -> None:
    options = data.draw(st.sampled_from(OPTIONS[estimator]))
    table = data.draw(training_tables())
    weights = data.draw(st.sampled_from([None, {estimator: 0.7}]))
    spec = dataclasses.replace(spec_of(estimator, **options), block_weights=weights)
    model = fitted_or_rejected(table, spec)
    limit = data.draw(st.sampled_from([None, 1, 2]))
    against = data.draw(st.sampled_from([None, *model.class_names]))
    for rows in (table.drop_columns([LABEL]), data.draw(queries())):
        scored = model.predict_table(rows, options={"columns": [], "contributions": True})
        counts = np.array([rows[name].fill_null(0).cast(pa.float64()) for name in COUNTS]).sum(0)
        error = 1e-14 * np.abs(counts) * np.log1p(np.abs(counts))  # of log N!
        joint = model.joint_log_likelihood(rows)  # a difference of two keeps their error
        error += 1e-15 * np.abs(np.where(np.isfinite(joint), joint, 0.0)).max(axis=1)
        check_sums(model, scored, model.predict_log_proba(rows), error)
        explanation = pc.explain(model, rows, limit=limit, against=against)
        assert explanation.rows.num_rows == rows.num_rows
        check_entries(model, explanation, rows, error)
        least = pac.min(explanation.rows["log_odds"]).as_py()
        assert against is not None or least is None or least >= 0.0


def specs() -> dict[str, pc.ModelSpec]:
    pools = {
        "product": [
            pc.Block("gaussian_full", NUMBERS[:2]),
            pc.Block("gaussian_diagonal", NUMBERS[2:]),
            pc.Block("categorical", ["island", "sex"]),
        ],
        "neighbors": [pc.Block("knn_density", NUMBERS[:2]), pc.Block("categorical", ["island"])],
        "given": [
            pc.Block("categorical", "sex", given="island"),
            pc.Block("discretized", NUMBERS[:2]),
            pc.Block("categorical", "island"),
        ],
    }
    weighted = {"gaussian_full": 0.5, "gaussian_diagonal": 1.3}
    return {
        **{name: pc.ModelSpec("species", blocks) for name, blocks in pools.items()},
        "weighted": pc.ModelSpec("species", pools["product"], block_weights=weighted),
        "fitted": pc.ModelSpec(
            "species",
            [*pools["given"], pc.Block("gaussian_full", NUMBERS), pc.Block("categorical", "sex")],
            block_weights="fit",
        ),
    }


@pytest.fixture(scope="module")
def models(penguins: pa.Table) -> dict[str, pc.Model]:
    fitted = {name: pc.fit(penguins, spec) for name, spec in specs().items()}
    default = pc.fit(penguins, label="species")
    binary = pc.fit(penguins.filter(pac.field("species") != "Gentoo"), label="species")
    return {**fitted, "default": default, "two classes": binary}


@pytest.mark.parametrize("kind", [*specs(), "default", "two classes"])
@pytest.mark.parametrize("calibrated", [False, True])
def test_calibration_is_a_term(
    kind: str, calibrated: bool, models: dict[str, pc.Model], penguins: pa.Table
) -> None:
    model = models[kind]
    if calibrated:
        mixed_up = penguins.set_column(
            penguins.column_names.index("species"),
            "species",
            penguins["species"].take(pa.array(np.arange(len(penguins)) // 3 * 3)),
        )
        known = mixed_up.filter(pac.is_in(mixed_up["species"], model.classes))
        model = pc.calibrate(model, known)
    scored = model.predict_table(penguins, options={"columns": [], "contributions": True})
    check_sums(model, scored, model.predict_log_proba(penguins))
    check_ledgers(model, scored, penguins)
    applied = model.calibrator is not None
    assert ("calibration" in terms(scored, "contribution_")) == applied
    assert not applied or np.nanmax(np.abs(terms(scored, "contribution_")["calibration"])) > 0.01


def test_rejected_rows_and_other_priors_have_contributions(
    models: dict[str, pc.Model], penguins: pa.Table, tmp_path: Path
) -> None:
    """The choice of a rule, rejected or not, is compared with the most probable other class."""
    model, prior = models["default"], {"Adelie": 0.1, "Chinstrap": 0.3, "Gentoo": 0.6}
    options = {"decision": RULE, "prior": prior, "contributions": True}
    pc.score(model, penguins, tmp_path / "scored.parquet", options=options)
    scored = ds.dataset(tmp_path / "scored.parquet").to_table()
    assert 0 < scored["prediction"].null_count < len(scored)
    shares = np.array([prior[name] for name in model.class_names])
    shifted = model.predict_log_proba(penguins) + np.log(shares) - model.log_prior
    shifted -= np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    choice = np.argmin(np.exp(shifted) @ costs(model.class_names), axis=1)
    of_choice = scored.set_column(
        scored.column_names.index("prediction"), "prediction", model.classes.take(pa.array(choice))
    )
    check_sums(model, of_choice, shifted)
    np.testing.assert_allclose(
        scored["probability"], np.exp(shifted)[np.arange(len(choice)), choice], rtol=1e-9
    )


def costs(names: list[str]) -> np.ndarray:
    """The costs of `RULE`, ``(k, k)``."""
    matrix = 1.0 - np.eye(len(names))
    for true, row in RULE.costs.items():
        for predicted, cost in row.items():
            matrix[names.index(true), names.index(predicted)] = cost
    return matrix


def test_a_partition_is_scored_again_with_contributions(
    models: dict[str, pc.Model], penguins: pa.Table, tmp_path: Path
) -> None:
    """Contributions are a change of the rule; appended rows have them, too."""
    model, source, sink = models["default"], tmp_path / "rows", tmp_path / "scored"
    ds.write_dataset(
        penguins, source, format="parquet", partitioning=["island"], partitioning_flavor="hive"
    )
    one = {"partition": {"island": "Dream"}, "options": {"columns": ["sex"]}}
    pc.score(model, source, sink, **one)
    one["options"]["contributions"] = True
    (again,) = pc.score(model, source, sink, **one).partitions
    assert (again.outcome, again.reasons) == ("scored", ("rule",))
    assert pc.score(model, source, sink, **one).partitions[0].outcome == "unchanged"
    rest = {"columns": ["sex"], "contributions": True, "overwrite": "append"}
    pc.score(model, source, sink, options=rest)
    scored = ds.dataset(sink, partitioning="hive").to_table()
    in_memory = model.predict_table(penguins, options={"columns": ["sex"], "contributions": True})
    for prefix in ("contribution_", "surprise_"):
        for name, numbers in terms(in_memory, prefix).items():
            found = np.sort(scored[f"{prefix}{name}"].to_numpy())
            np.testing.assert_allclose(found, np.sort(numbers), rtol=1e-12, atol=1e-12)


def test_one_class_has_a_surprise_alone(penguins: pa.Table) -> None:
    alone = penguins.filter(pac.field("species") == "Gentoo").drop_null()
    model = pc.fit(alone, pc.ModelSpec("species", {"gaussian_diagonal": NUMBERS}))
    scored = model.predict_table(alone, options={"columns": [], "contributions": True})
    assert "runner_up" not in scored.column_names
    assert not terms(scored, "contribution_")
    surprise = terms(scored, "surprise_")
    assert list(surprise) == NUMBERS
    check_sum(surprise, -scored["log_density"].to_numpy(), np.zeros(len(alone)))
    of_bill = (
        -model.likelihoods["gaussian_diagonal"]
        .marginal(NUMBERS[0])
        .log_density(alone[NUMBERS[0]].to_numpy())
    )
    np.testing.assert_allclose(surprise[NUMBERS[0]], of_bill[:, 0], rtol=1e-12)


def test_names_of_terms_are_those_of_columns_unless_taken(penguins: pa.Table) -> None:
    renamed = penguins.rename_columns(
        ["prior" if name == "island" else name for name in penguins.column_names]
    )
    blocks = [
        pc.Block("gaussian_full", NUMBERS[:2], "prior_"),
        pc.Block("gaussian_diagonal", NUMBERS[2:]),
        pc.Block("categorical", "prior"),
    ]
    model = pc.fit(renamed, pc.ModelSpec("species", blocks))
    scored = model.predict_table(renamed, options={"columns": [], "contributions": True})
    expected = ["flipper_length_mm", "body_mass_g", "prior", "prior_", "prior__"]
    assert list(terms(scored, "contribution_")) == expected
    prior = dict(zip(model.class_names, model.log_prior, strict=True))
    pairs = zip(scored["prediction"].to_pylist(), scored["runner_up"].to_pylist(), strict=True)
    difference = [prior[chosen] - prior[rival] for chosen, rival in pairs]
    np.testing.assert_allclose(terms(scored, "contribution_")["prior__"], difference, atol=1e-12)


def test_a_column_named_as_a_scored_one_is_refused(
    models: dict[str, pc.Model], penguins: pa.Table
) -> None:
    table = penguins.append_column("surprise_sex", penguins["sex"])
    models["default"].predict_table(table)
    with pytest.raises(pc.errors.SpecError, match="'surprise_sex' of the source has the name of"):
        models["default"].predict_table(table, options={"contributions": True})
