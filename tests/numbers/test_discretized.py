"""Bins of numbers agree with scikit-learn, published cuts, and Fayyad and Irani row by row."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_values import digest_of, fitted, table_of_matrix
from sklearn.datasets import load_iris
from sklearn.naive_bayes import CategoricalNB
from sklearn.preprocessing import KBinsDiscretizer

import probclass_core as pc

ADULT = ["age", "fnlwgt", "education_num", "capital_gain", "capital_loss", "hours_per_week"]
IRIS = ["sepal_length", "sepal_width", "petal_length", "petal_width"]
PUBLISHED = {
    "sepal_length": ([5.55, 6.15], [59, 36, 55]),
    "sepal_width": ([2.95, 3.35], [57, 56, 37]),
    "petal_length": ([2.45, 4.75], [50, 45, 55]),
    "petal_width": ([0.8, 1.75], [50, 54, 46]),
}
"""Cuts of Fisher's iris by MDL, and the rows of each bin: the reference page of
`discretizeDF.supervised` in the R package arulesCBA, method ``"mdlp"``."""


def cuts(model: pc.Model, feature: str) -> list[float]:
    cells = [
        row for row in model.parameters["discretized"].to_pylist() if row["feature"] == feature
    ]
    lower = {row["bin"]: row["lower"] for row in cells}
    upper = {row["bin"]: row["upper"] for row in cells}
    assert lower[0] == -math.inf
    assert upper[len(upper) - 1] == math.inf
    inner = [lower[position] for position in range(1, len(lower))]
    assert inner == [upper[position] for position in range(len(upper) - 1)] == sorted(inner)
    return inner


def counts(model: pc.Model, feature: str) -> list[float]:
    """The number of rows of each bin, over all classes."""
    cells = [
        row for row in model.parameters["discretized"].to_pylist() if row["feature"] == feature
    ]
    bins = 1 + max(row["bin"] for row in cells)
    return [
        sum(row["count"] for row in cells if row["bin"] == position) for position in range(bins)
    ]


def entropy(labels: Sequence[str]) -> float:
    shares = [count / len(labels) for count in Counter(labels).values()]
    return -sum(share * math.log2(share) for share in shares)


def fayyad_irani(values: Sequence[float], labels: Sequence[str]) -> list[float]:
    """The recursion of the paper, row by row: the best cut, if it passes the MDL criterion."""
    rows = sorted(zip(values, labels, strict=True))
    ordered, classes = [value for value, _ in rows], [label for _, label in rows]
    size, best = len(rows), (math.inf, 0)
    for position in range(1, size):
        if ordered[position - 1] < ordered[position]:
            after = position * entropy(classes[:position]) + (size - position) * entropy(
                classes[position:]
            )
            if after < best[0] - 1e-9:
                best = (after, position)
    position = best[1]
    if not position:
        return []
    all_labels, left, right = classes, classes[:position], classes[position:]
    gain = entropy(all_labels) - best[0] / size
    k, k1, k2 = (len(set(part)) for part in (all_labels, left, right))
    delta = math.log2(3**k - 2) - (
        k * entropy(all_labels) - k1 * entropy(left) - k2 * entropy(right)
    )
    if gain <= (math.log2(size - 1) + delta) / size:
        return []
    cut = (ordered[position - 1] + ordered[position]) / 2
    halves = zip(ordered, classes, strict=True)
    below, above = [], []
    for value, label in halves:
        (below if value < cut else above).append((value, label))
    return [
        *fayyad_irani(*map(list, zip(*below, strict=True))),
        cut,
        *fayyad_irani(*map(list, zip(*above, strict=True))),
    ]


def test_bins_of_iris_agree_with_published_ones() -> None:
    """Iris as Fisher printed it: the copy of scikit-learn and R."""
    data, species = load_iris(return_X_y=True)
    table = table_of_matrix(data, IRIS, species=species)
    model = fitted(table, "species", pc.Block("discretized", IRIS))
    for feature, (published_cuts, published_counts) in PUBLISHED.items():
        assert cuts(model, feature) == pytest.approx(published_cuts, rel=1e-12)
        assert counts(model, feature) == published_counts


@given(data=st.data())
def test_cuts_agree_with_the_recursion_of_the_paper(data: st.DataObject) -> None:
    rows = data.draw(
        st.lists(st.tuples(st.integers(0, 12), st.sampled_from("abc")), min_size=4, max_size=60)
    )
    # Values depend on the class, so that there are cuts to find.
    rows = [(value + 9 * "abc".index(label), label) for value, label in rows]
    if len({label for _, label in rows}) > 1:
        values, labels = map(list, zip(*rows, strict=True))
        model = fitted(
            pa.table({"x": pa.array(values, pa.float64()), "c": labels}),
            "c",
            pc.Block("discretized", ["x"]),
        )
        assert cuts(model, "x") == fayyad_irani(values, labels)


@pytest.mark.parametrize("method", ["width", "frequency"])
def test_bins_of_continuous_columns_agree_with_kbins_discretizer(method: str) -> None:
    noise = np.random.default_rng(5)
    label = noise.integers(0, 3, 1000)
    columns = {
        "normal": label + noise.normal(size=1000),
        "skewed": noise.lognormal(label, 2.0, 1000),
        "small": 1e-3 * noise.random(1000),
    }
    table = pa.table({**columns, "c": label})
    strategy = {"width": "uniform", "frequency": "quantile"}[method]
    options = {"quantile_method": "averaged_inverted_cdf"} if method == "frequency" else {}
    for feature, x in columns.items():
        peer = KBinsDiscretizer(7, encode="ordinal", strategy=strategy, subsample=None, **options)
        codes = peer.fit_transform(x[:, None]).astype(int)
        edges = peer.bin_edges_[0][1:-1]
        model = fitted(table, "c", pc.Block("discretized", [feature], method=method, bins=7))
        ours = cuts(model, feature)
        assert counts(model, feature) == np.bincount(codes[:, 0]).tolist()
        if method == "width":
            assert ours == pytest.approx(edges, rel=1e-12)
        else:
            # KBinsDiscretizer can put an edge on a row; here it is midway to the row below.
            assert all(x[x < cut].max() < edge for cut, edge in zip(ours, edges, strict=True))
        naive_bayes = CategoricalNB(alpha=1.0).fit(codes, label)
        assert model.predict_log_proba(table) == pytest.approx(naive_bayes.predict_log_proba(codes))


def test_the_largest_and_smallest_doubles_can_be_cut() -> None:
    largest = float(np.finfo(np.float64).max)
    values = [-largest, -1e308, -1.0, -5e-324, 0.0, 5e-324, 1.0, 1e308, largest]
    table = pa.table({"x": values, "c": list("aaaabbbbb")})
    for method, expected in (("width", [0.0]), ("frequency", [0.0])):
        model = fitted(table, "c", pc.Block("discretized", ["x"], method=method, bins=2))
        assert cuts(model, "x") == expected
    model = fitted(table, "c", pc.Block("discretized", ["x"], pseudo_count=0))
    assert cuts(model, "x") == [0.0]
    assert model.predict(table).to_pylist() == list("aaaabbbbb")


def test_an_uninformative_column_has_one_bin() -> None:
    noise = np.random.default_rng(0)
    table = pa.table(
        {"x": noise.random(500), "constant": [7.0] * 500, "c": noise.choice(["a", "b"], 500)}
    )
    model = fitted(table, "c", pc.Block("discretized", ["x", "constant"]))
    assert cuts(model, "x") == cuts(model, "constant") == []
    assert (model.log_likelihood_by_block(table) == 0.0).all()
    for method in ("width", "frequency"):
        model = fitted(table, "c", pc.Block("discretized", ["constant"], method=method))
        assert cuts(model, "constant") == []


def test_a_coarse_grid_keeps_all_rows_and_approximates_cuts() -> None:
    """For 100,000 distinct values on at most 256 cells, a cut is off by one cell at most."""
    noise = np.random.default_rng(2)
    x = noise.uniform(-3.0, 5.0, 100_000)
    table = pa.table({"x": x, "c": np.where((x > 1.234) ^ (noise.random(len(x)) < 0.1), "b", "a")})
    model = fitted(table, "c", pc.Block("discretized", ["x"], cells=256))
    actual = cuts(model, "x")
    assert actual
    assert actual == pytest.approx([1.234] * len(actual), abs=8.0 / 128)
    assert counts(model, "x") == np.histogram(x, [-3.0, *actual, 5.0])[0].tolist()
    for method in ("width", "frequency"):
        evenly = fitted(table, "c", pc.Block("discretized", ["x"], cells=256, method=method))
        inner = cuts(evenly, "x")
        assert counts(evenly, "x") == np.histogram(x, [-3.0, *inner, 5.0])[0].tolist()
        assert inner == pytest.approx(np.linspace(-3.0, 5.0, 11)[1:-1], abs=8.0 / 128)


def test_error_on_adult_with_bins_and_categories(adult: tuple[pa.Table, pa.Table]) -> None:
    """Naive Bayes has a published error of 16.12 percent on these rows (with default options)."""
    train, test = (part.drop_null() for part in adult)
    assert (train.num_rows, test.num_rows) == (30_162, 15_060)
    others = [name for name in train.column_names if name not in (*ADULT, "income")]
    blocks = [pc.Block("discretized", ADULT), pc.Block("categorical", others)]
    model = fitted(train, "income", *blocks)
    assert 1.0 - pc.evaluate(model, test).accuracy <= 0.162


def test_integers_beyond_float64_are_rounded_with_a_note() -> None:
    values = [2**60 + 1000 * number for number in range(40)]
    labels = ["a"] * 20 + ["b"] * 20
    table = pa.table({"x": pa.array(values, pa.int64()), "y": labels})
    model = fitted(table, "y", pc.Block("discretized", "x"))
    assert model.predict(table).to_pylist() == labels
    (note,) = model.training["notes"]
    assert "'x' has integers beyond 2⁵³, which float64 rounds" in note
    (cut,) = cuts(model, "x")
    near = [int(cut) - 256, int(cut), int(cut) + 1]
    assert model.predict({"x": pa.array(near, pa.int64())}).to_pylist() == ["a", "b", "b"]


def test_integers_that_are_all_the_same_to_float64_are_categories_by_default() -> None:
    table = pa.table({"x": pa.array([2**53, 2**53 + 1] * 10), "y": ["a", "b"] * 10})
    (note,) = fitted(table, "y", pc.Block("discretized", "x")).training["notes"]
    assert "'x' has integers beyond 2⁵³, which float64 rounds" in note
    spec = pc.ModelSpec.auto(table, "y")
    assert [block.estimator for block in spec.pool] == ["categorical"]
    assert pc.fit(table, spec).predict(table).to_pylist() == table["y"].to_pylist()
    z = np.random.default_rng(0).normal(size=180)
    many = {"x": [2**62 + number for number in range(60)] * 3, "y": ["a", "b"] * 90, "z": z}
    (note,) = (note for note in pc.ModelSpec.auto(many, "y").notes if "beyond" in note)
    assert "float64 cannot tell apart (subtract a constant): 'x'" in note


def test_rows_that_differ_beyond_float64_are_different_rows_of_a_sample() -> None:
    values = [2**53 - 1, 2**53, 2**53 + 1, 2**53 + 2, 2**63 - 1, None]
    table = pa.table({"x": pa.array(values, pa.int64()), "y": ["a", "b"] * 3})
    spec = pc.ModelSpec("y", [pc.Block("categorical", "x")], block_weights="fit")
    sample = pc.summarize(table, spec).sample
    assert sorted(sample["x"].to_pylist(), key=str) == sorted(values, key=str)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=2, max_size=8), st.integers(1, 7))
def test_large_integers_obey_the_merge_laws(values: list[int], split: int) -> None:
    table = pa.table({"x": pa.array(values, pa.int64()), "y": ["a", *"b" * (len(values) - 1)]})
    spec = pc.ModelSpec("y", [pc.Block("discretized", "x", cells=4)])
    whole = pc.summarize(table, spec)
    parts = [pc.summarize(part, spec) for part in (table.slice(0, split), table.slice(split))]
    assert digest_of(pc.merge(parts)) == digest_of(whole)


@pytest.mark.parametrize("scale", [1e3, 1e6, 2.0**40])
def test_weights_on_another_scale_do_not_make_noise_look_like_evidence(scale: float) -> None:
    random = np.random.default_rng(4)
    x, y = random.normal(size=200), random.choice(["a", "b"], 200)
    table = pa.table({"x": x, "y": y, "w": np.full(200, scale)})
    spec = pc.ModelSpec("y", [pc.Block("discretized", "x")], weight="w")
    model = pc.fit(table, spec)
    plain = fitted(table, "y", pc.Block("discretized", "x"))
    assert cuts(model, "x") == cuts(plain, "x") == []
    assert "weight 'w' averages" in model.training["notes"][0]


def test_given_cuts_are_used_as_they_are_however_many_values_a_column_has() -> None:
    x = np.random.default_rng(3).normal(size=10_000)
    table = {"c": np.where(x > 0.1, "a", "b"), "x": x}
    block = pc.Block("discretized", ["x"], cuts={"x": [-1, 0.1, 1]}, cells=4, pseudo_count=0)
    parameters = pc.fit(table, pc.ModelSpec("c", [block])).parameters["discretized"]
    in_a = parameters.filter(pa.array([label == "a" for label in parameters["class"].to_pylist()]))
    assert in_a["lower"].to_pylist() == [-np.inf, -1.0, 0.1, 1.0]
    expected = [0, 0, np.sum((x > 0.1) & (x < 1)), np.sum(x >= 1)]
    assert in_a["count"].to_pylist() == expected


def test_cuts_of_thousands_of_classes_are_found_between_groups_of_cells() -> None:
    """Of two classes with many rows the cut is found, among 5,000 classes of one row."""
    random = np.random.default_rng(8)
    x = np.concatenate([random.normal(size=5000), random.uniform(-3.0, 3.0, 4000)])
    y = np.concatenate([np.arange(5000), np.where(x[5000:] < 0.5, -1, -2)])
    spec = pc.ModelSpec("y", pc.Block("discretized", "x"), max_classes=6000)
    found = cuts(pc.fit(pa.table({"x": x, "y": y}), spec), "x")
    assert min(abs(cut - 0.5) for cut in found) < 0.02
