"""Probabilities and evidence of categories agree with tables, integrals and the chain rule."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc_
import pytest
from model_values import evidence, fitted
from scipy import integrate

import probclass_core as pc
from probclass_core.arrow.rows import Rows
from probclass_core.errors import DataError, NotSupportedError
from probclass_core.estimation.families.counted import estimator as counted
from probclass_core.model.stored import model_from_bundle

DOMAIN = {"u": ["p", "q", "r"], "v": ["1", "2"], "w": ["x", "y", "z", "t"]}
CELLS = list(itertools.product(*DOMAIN.values()))
FAMILIES = ["categorical", "categorical_joint"]
ALPHAS: Sequence[Any] = [
    1.0,
    0.25,
    {"u": 0.5},
    {"u": {"p": 2, "q": 1, "r": 0.5}, "w": {"x": 3, "y": 0.1, "z": 1, "t": 1}, "v": 0.3},
]


def random_rows(rows: int, seed: int = 0) -> pa.Table:
    """Random rows whose columns depend on the class and on each other."""
    noise = np.random.default_rng(seed)
    label = noise.integers(0, 2, rows)
    u = (label + noise.integers(0, 2, rows)) % 3
    columns = {"u": u, "v": (u > 0) ^ (noise.random(rows) < 0.2), "w": noise.integers(0, 4, rows)}
    values = {name: np.array(DOMAIN[name])[code.astype(int)] for name, code in columns.items()}
    return pa.table({"c": np.array(["a", "b"])[label], **values})


def table_of(cells: Sequence[Sequence[str | None]]) -> pa.Table:
    columns = zip(*cells, strict=True)
    return pa.table(
        {name: pa.array(column, pa.string()) for name, column in zip(DOMAIN, columns, strict=True)}
    )


def block(estimator: str, **options: Any) -> pc.Block:
    return pc.Block(estimator, list(DOMAIN), domain=DOMAIN, **options)


def probabilities(model: pc.Model, cells: Sequence[Sequence[str | None]]) -> np.ndarray:
    """P(cell | c), ``(cells, k)``."""
    return np.exp(model.log_likelihood_by_block(table_of(cells))[:, :, 0])


def alpha_of(alpha: Any, column: str, value: str) -> float:
    of_column = alpha.get(column, 1.0) if isinstance(alpha, Mapping) else 1.0
    return float(of_column[value] if isinstance(of_column, Mapping) else of_column)


def explicit_table(table: pa.Table, alpha: Any) -> np.ndarray:
    """(n_c(v) + α(v)) / (n_c + Σα) of each cell."""
    scale = 1.0 if isinstance(alpha, Mapping) else alpha
    prior = [
        scale * math.prod(alpha_of(alpha, name, v) for name, v in zip(DOMAIN, cell, strict=True))
        for cell in CELLS
    ]
    result = np.empty((len(CELLS), 2))
    for position, label in enumerate("ab"):
        rows = [
            tuple(row[name] for name in DOMAIN) for row in table.to_pylist() if row["c"] == label
        ]
        counts = [rows.count(cell) + extra for cell, extra in zip(CELLS, prior, strict=True)]
        result[:, position] = np.array(counts) / math.fsum(counts)
    return result


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("rows", [5, 40, 400])
def test_joint_probabilities_agree_with_an_explicit_table(rows: int, alpha: Any) -> None:
    table = random_rows(rows)
    model = fitted(table, "c", block("categorical_joint", pseudo_count=alpha))
    actual = probabilities(model, CELLS)
    assert actual == pytest.approx(explicit_table(table, alpha), rel=1e-13)
    assert actual.sum(axis=0) == pytest.approx([1.0, 1.0], rel=1e-13)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_every_marginal_of_a_joint_sums_its_cells(alpha: Any) -> None:
    model = fitted(random_rows(60), "c", block("categorical_joint", pseudo_count=alpha))
    cell_probabilities = probabilities(model, CELLS)
    observed = [
        tuple(value if seen else None for value, seen in zip(cell, pattern, strict=True))
        for pattern in itertools.product([True, False], repeat=3)
        for cell in CELLS
    ]
    # All patterns are in one batch, in random order.
    order = np.random.default_rng(1).permutation(len(observed))
    actual = probabilities(model, [observed[position] for position in order])
    for position, mass in zip(order, actual, strict=True):
        agree = [
            all(a is None or a == b for a, b in zip(observed[position], cell, strict=True))
            for cell in CELLS
        ]
        assert mass == pytest.approx(cell_probabilities[agree].sum(axis=0), rel=1e-12)


def test_smooth_zeros_changes_empty_cells_and_marginals_only() -> None:
    table = random_rows(25)
    model = fitted(table, "c", block("categorical_joint", smooth="zeros"))
    sizes = [len(values) for values in DOMAIN.values()]
    for pattern in itertools.product([True, False], repeat=3):
        for cell in CELLS:
            observed = tuple(v if seen else None for v, seen in zip(cell, pattern, strict=True))
            expected = []
            for label in "ab":
                rows = [row for row in table.to_pylist() if row["c"] == label]
                agreeing = [
                    row
                    for row in rows
                    if all(row[name] == v for name, v in zip(DOMAIN, observed, strict=True) if v)
                ]
                combinations = math.prod(
                    m for m, v in zip(sizes, observed, strict=True) if v is None
                )
                zero = combinations / (len(rows) + math.prod(sizes))
                expected.append(len(agreeing) / len(rows) if agreeing else zero)
            assert probabilities(model, [observed])[0] == pytest.approx(expected, rel=1e-13)


def test_an_unseen_value_is_an_empty_cell() -> None:
    """Its α is the smallest one of its column; nulls in other columns are summed out."""
    table = random_rows(30)
    prior = {"u": {"p": 2, "q": 1, "r": 0.5}}
    model = fitted(table, "c", block("categorical_joint", pseudo_count=prior))
    size = model.priors["count"].to_numpy()
    actual = probabilities(model, [("new", "1", "x"), ("new", "1", None), ("new", None, "new")])
    for mass, alpha in zip(actual, (0.5, 0.5 * 4, 0.5 * 2), strict=True):
        assert mass == pytest.approx(alpha / (size + 3.5 * 2 * 4), rel=1e-13)
    ignoring = fitted(table, "c", block("categorical_joint", pseudo_count=prior, unseen="ignore"))
    cells = [("new", "1", "x")], [(None, "1", "x")]
    assert np.array_equal(*(probabilities(ignoring, cell) for cell in cells))


def test_joint_of_forty_columns_of_fifty_values() -> None:
    """50^40 cells: a seen cell, an unseen one, and a marginal."""
    noise = np.random.default_rng(3)
    names = [f"f{position}" for position in range(40)]
    table = pa.table(
        {"c": np.tile(["a", "b"], 100), **{name: noise.integers(0, 50, 200) for name in names}}
    )
    domain = {name: list(range(50)) for name in names}
    model = fitted(table, "c", pc.Block("categorical_joint", names, domain=domain))
    total = 40 * math.log(50)  # compared with which 100 rows are negligible
    seen = table.slice(0, 1).select(names)
    other = {name: [(seen[name][0].as_py() + 1) % 50] for name in names}
    actual = model.log_likelihood_by_block(seen)[0, :, 0]
    assert actual == pytest.approx([math.log(2) - total, -total], rel=1e-14)
    assert model.log_likelihood_by_block(other)[0, :, 0] == pytest.approx([-total] * 2, rel=1e-14)
    # With one column observed only the prior remains, 1 / 50.
    single = {name: seen[name] if name == "f7" else pa.nulls(1, pa.int64()) for name in names}
    assert model.log_likelihood_by_block(single)[0, :, 0] == pytest.approx([-math.log(50)] * 2)
    # Evidence: A^n instead of Γ(A + n) / Γ(A), and a factor α = 1 for each cell of one row.
    statistics = pc.summarize(table, model.spec)
    schema = pa.schema([(name, pa.int64()) for name in names])
    estimator = pc.estimators()["categorical_joint"](schema, {"domain": domain})
    evidence = estimator.log_evidence(statistics.blocks["categorical_joint"])
    assert evidence == pytest.approx(-200 * total, rel=1e-14)


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("estimator", FAMILIES)
def test_evidence_grows_by_the_likelihood_of_the_next_row(estimator: str, alpha: Any) -> None:
    """log p(rows 1 … n+1) − log p(rows 1 … n) = log p(row n+1 | rows 1 … n)."""
    table, categories = random_rows(24), block(estimator, pseudo_count=alpha)
    for rows in (4, 9, 11, 17, 23):
        before, row = table.slice(0, rows), table.slice(rows, 1)
        model = fitted(before, "c", categories)
        position = model.classes.to_pylist().index(row["c"][0].as_py())
        predicted = model.log_likelihood_by_block(row)[0, position, 0]
        growth = evidence(table.slice(0, rows + 1), categories) - evidence(before, categories)
        assert growth == pytest.approx(predicted, rel=1e-9, abs=1e-10)


def of_a_category(theta: float) -> float:
    # The power of 1 − θ that diverges at 1 is left to the weight of the quadrature.
    return float(theta**3.5 * (1 - theta) ** 2) / math.exp(log_beta(1.5, 0.7))


def log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


@pytest.mark.parametrize("estimator", FAMILIES)
def test_evidence_is_the_integral_over_the_parameters(estimator: str) -> None:
    value, _ = integrate.quad(of_a_category, 0, 1, weight="alg", wvar=(0, -0.3))
    categories = pc.Block(estimator, ["v"], pseudo_count={"v": {"1": 1.5, "2": 0.7}})
    actual = evidence(pa.table({"v": list("11122"), "c": ["a"] * 5}), categories)
    assert actual == pytest.approx(math.log(value), rel=1e-7)


@pytest.mark.parametrize(
    ("estimators", "options", "message"),
    [
        (FAMILIES, {"smooth": "zeros"}, r"smooth='zeros', .* set smooth='all'"),
        (
            FAMILIES,
            {"pseudo_count": {"v": {"1": 1, "2": 0}}},
            r"a pseudo_count of 0 for 'v' \('2'\)",
        ),
        (FAMILIES[:1], {"shared_strength": 5}, "shared_strength"),
    ],
)
def test_an_improper_prior_has_no_evidence(
    estimators: list[str], options: dict[str, Any], message: str
) -> None:
    for name in estimators:
        with pytest.raises(NotSupportedError, match=rf"^{name} \w+ no log evidence .*{message}"):
            evidence(random_rows(24), pc.Block(name, ["u", "v"], **options))


def test_rows_with_some_nulls_have_no_evidence() -> None:
    rows, joint = random_rows(24), pc.Block("categorical_joint", list(DOMAIN))
    nothing = rows.slice(0, 2)
    for name in DOMAIN:
        place = nothing.column_names.index(name)
        nothing = nothing.set_column(place, name, pa.nulls(2, pa.string()))
    some = nothing.slice(0, 1).set_column(1, "u", rows["u"].slice(0, 1))
    assert evidence(pa.concat_tables([rows, nothing]), joint) == evidence(rows, joint)
    with pytest.raises(DataError, match=r"1 rows have some of u, v, w and not all, .* drop those"):
        evidence(pa.concat_tables([rows, some]), joint)


@pytest.mark.parametrize(
    ("estimator", "options"), [("categorical", {}), ("discretized", {"cuts": {"u": [2.5]}})]
)
def test_null_as_a_level_is_one_more_value(estimator: str, options: dict[str, Any]) -> None:
    """Also if training never saw one: then it is an unseen value."""
    null = {"u": pa.array([None], pa.float64() if options else pa.int64())}

    def likelihood(u: list[int | None], labels: str, **more: Any) -> list[float]:
        column = pa.array(u, null["u"].type)
        level = pc.Block(estimator, ["u"], missing="level", **options, **more)
        model = fitted(pa.table({"c": list(labels), "u": column}), "c", level)
        return np.exp(model.log_likelihood_by_block(null)[0, :, 0]).tolist()

    assert likelihood([2, 5, None, None, None], "aaabb") == pytest.approx([2 / 6, 3 / 5])
    assert likelihood([2, 5, 2], "aab") == pytest.approx([1 / 4, 1 / 3])
    if estimator == "categorical":
        assert likelihood([2, 5, 2], "aab", unseen="ignore") == [1.0, 1.0]


def test_many_classes_and_values_are_listed_sparsely(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only cells with a count have a row; the results are those of the table of all cells."""
    random = np.random.default_rng(7)
    size = 3000
    values = random.integers(0, 300, size)
    columns = {
        "c": [f"c{number}" for number in random.integers(0, 300, size)],
        "u": pa.array([None if v == 0 else f"v{v}" for v in values], pa.string()),
        "v": random.choice(["p", "q"], size),
    }
    table = pa.table(columns)
    scored = pa.table({"u": ["v1", "v2", "new", None], "v": ["p", "q", "p", None]})
    domain = {"u": [f"v{number}" for number in range(1, 310)]}
    for options in (
        {},
        {"domain": domain},
        {"missing": "level"},
        {"smooth": "zeros"},
        {"unseen": "ignore", "missing": "level"},
    ):
        block = pc.Block("categorical", ["u", "v"], **options)
        sparse = fitted(table, "c", block)
        with monkeypatch.context() as patched:
            patched.setattr(counted, "_MOST_CELLS", size * size)
            dense = fitted(table, "c", block)
        cells = sparse.parameters["categorical"]
        assert pc_.min(cells.filter(pc_.equal(cells["feature"], "u"))["count"]).as_py() > 0
        assert cells.num_rows < size + 600 < dense.parameters["categorical"].num_rows / 20
        for rows in (scored, table):
            np.testing.assert_array_equal(
                sparse.joint_log_likelihood(rows), dense.joint_log_likelihood(rows)
            )
        own, other = (model.likelihoods["categorical"].marginal("u") for model in (sparse, dense))
        assert own.names == other.names
        np.testing.assert_array_equal(own.probability, other.probability)
        bundle = sparse.to_bundle()
        stored = model_from_bundle(bundle)
        assert stored.id == sparse.id
        assert stored.predict(scored).equals(sparse.predict(scored))
        truth = random.integers(0, 300, 4)
        left_out = [
            counted.Categorical(model.features, block.options).leave_one_out(
                pa.table({}),
                model.likelihoods["categorical"],
                model.classes,
                Rows(scored.to_batches()[0]),
                truth,
                None,
            )
            for model in (sparse, dense)
            if options.get("unseen") != "ignore"
        ]
        if left_out:
            np.testing.assert_allclose(left_out[0], left_out[1])
