"""Rows that no model can be fitted to, refused in one line; labels, weights and nulls."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import probclass_core as pc

X = [1.0, 2.0, 3.0, 4.0, 5.0, 7.0]
Y = ["a", "a", "a", "b", "b", "b"]
NORMAL = pc.Block("gaussian_diagonal", ["x"])


def fit(rows: dict[str, Any], *blocks: pc.Block, **spec: Any) -> pc.Model:
    return pc.fit(pa.table(rows), pc.ModelSpec("y", blocks or [NORMAL], **spec))


def refused(rows: dict[str, Any], *blocks: pc.Block, **spec: Any) -> Callable[[], object]:
    return lambda: fit(rows, *blocks, **{"on_scarce": "error", **spec})


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "a missing column": (refused({"y": Y}), "no column 'x'; the table has 'y'"),
    "text for a number": (
        refused({"x": list("pqrstu"), "y": Y}),
        "column 'x' is string, but it models numbers",
    ),
    "infinite values": (
        refused({"x": [math.inf, -math.inf, *X[2:]], "y": Y}),
        "column 'x' contains 2 infinite values; make them null, or drop the rows",
    ),
    "an empty table": (refused({"x": pa.array([], pa.float64()), "y": pa.array([], pa.string())}),
                       "nothing to train on: the source has no rows"),
    "only null labels": (
        refused({"x": X, "y": pa.nulls(6, pa.string())}),
        "label 'y' is null .* in all 6 rows",
    ),
    "a single class": (
        refused({"x": X, "y": ["a"] * 6}),
        "one class only, 'a'; a classifier needs rows of at least two",
    ),
    "a single class of positive weight": (
        refused({"x": X, "y": Y, "w": [1, 1, 1, 0, 0, 0]}, weight="w"),
        r"one class only, 'a', in rows with a weight 'w' above 0 \(it is 0 in 3\)",
    ),
    "integers that float64 rounds": (
        refused(
            {"x": [2**53, 2**53 + 3] * 3, "y": Y}, pc.Block("discretized", "x")
        ),
        "column 'x' has integers beyond 2⁵³, which float64 rounds to multiples of 2; subtract",
    ),
    "nulls, one covariance per class, predictive": (
        refused(
            {"x": [None, *X[1:]], "z": X, "y": Y},
            pc.Block("gaussian_full", ["x", "z"], predictive=True),
        ),
        "class 'a' has 2 values of column 'x', 3 of 'z' and 2 rows with both;",
    ),
    "a column of nulls": (
        refused({"x": pa.nulls(6, pa.float64()), "y": Y}),
        "column 'x' has no value in any training row; leave it out",
    ),
    "a class without values": (
        refused({"x": [None, None, None, 1.0, 2.0, 3.0], "y": Y}),
        "class 'a' has 0 values of column 'x' and needs a value",
    ),
    "a class of one row, one covariance per class": (
        refused({"x": X, "y": ["a", *"bbbbb"]}, pc.Block("gaussian_full", ["x"])),
        "class 'a' has 1 row, which gives no covariance",
    ),
    "a class of one row, ddof=1": (
        refused({"x": X, "y": ["a", *"bbbbb"]}, pc.Block("gaussian_diagonal", ["x"], ddof=1)),
        "class 'a' has 1 values of column 'x' and needs more than 1 values with ddof=1",
    ),
    "classes of one row, shared covariance": (
        refused({"x": X[:2], "y": ["a", "b"]}, pc.Block("gaussian_shared", ["x"])),
        "the pooled sample has 2 rows, which gives no covariance of 1 feature;",
    ),
    "as many complete rows as classes, ddof=1": (
        refused(
            {"x": [1.0, 1.0, 2.0, 2.0], "z": [1.0, None, None, 2.0], "y": ["a", "a", "b", "b"]},
            pc.Block("gaussian_shared", ["x", "z"], ddof=1),
        ),
        "the pooled sample has 2 rows with both 'x' and 'z' and needs more than 2 with ddof=1",
    ),
    "a singular shared covariance": (
        refused(
            {"x": X, "z": X, "y": Y},
            pc.Block("gaussian_shared", ["x", "z"], on_singular="error"),
        ),
        r"the pooled sample: the covariance of x, z is singular \(rank 1 of 2\)",
    ),
    "nulls in training, predictive": (
        refused(
            {"x": X, "z": [None, *X[1:]], "y": Y},
            pc.Block("gaussian_full", ["x", "z"], predictive=True),
        ),
        "gaussian_full: class 'a' has 3 values of column 'x', 2 of 'z' and 2 rows .* use gaussian_",
    ),
    "nulls in training, predictive with a shared covariance": (
        refused(
            {"x": X, "z": [*X[:5], None], "y": Y},
            pc.Block("gaussian_shared", ["x", "z"], predictive=True),
        ),
        "gaussian_shared: class 'b' has 3 values of column 'x', 2 of 'z' and 2 rows with both; ",
    ),
    "a column of nulls, predictive": (
        refused({"x": [None] * 6, "y": Y}, pc.Block("gaussian_full", ["x"], predictive=True)),
        "column 'x' has no value in any training row",
    ),
    "a negligible prior variance": (
        refused(
            {"x": X, "z": X, "y": Y},
            pc.Block(
                "gaussian_full",
                ["x", "z"],
                predictive=True,
                conjugate_prior={"variance": 1e-30},
            ),
        ),
        "singular to working precision.* set a larger variance in conjugate_prior",
    ),
    "a measurement as label": (
        refused({"x": np.arange(3000.0), "y": np.linspace(0.0, 1.0, 3000)}),
        "label 'y' is double and has 3000 distinct values in 3000 rows",
    ),
    "a label of a type whose values Arrow cannot count": (
        refused({"x": X, "y": pa.array([Decimal(1)] * 6, pa.decimal32(5, 1))}),
        r"label 'y' is decimal32\(5, 1\); a class is text, bool or integer: cast the column",
    ),
    "a key as label": (
        refused({"x": np.arange(10_001.0), "y": np.arange(10_001)}),
        r"at least 10,001 different values in 10,001 rows \(0, 1, 2, …\), as .* an id",
    ),
    "weights below 0": (
        refused({"x": X, "y": Y, "w": [1.0, -1.0, 1.0, 1.0, None, 1.0]}, weight="w"),
        "weight 'w' is negative or null in 2 rows",
    ),
    "more neighbors than rows": (
        refused({"x": X, "y": Y}, pc.Block("knn_density", ["x"], k=7)),
        "k=7 neighbors of 6 training rows; lower k",
    ),
    "a value outside its domain": (
        refused({"x": list("pppqqz"), "y": Y},
                pc.Block("categorical", ["x"], domain={"x": ["p", "q"]})),
        "column 'x' has value 'z' in 1 training rows, outside its declared domain 'p', 'q'",
    ),
    "nothing to count": (
        refused({"x": [None, None, None, "p", "q", "p"], "y": Y},
                pc.Block("categorical", ["x"], pseudo_count=0)),
        "class 'a' has no value of column 'x' and its pseudo-counts are 0",
    ),
    "a redundant feature with on_singular=error": (
        refused({"x": X, "z": [2 * x for x in X], "y": Y},
                pc.Block("gaussian_full", ["x", "z"], on_singular="error")),
        r"class 'a': the covariance of x, z is singular \(rank 1 of 2\); drop a feature",
    ),
    "a missing path": (
        lambda: pc.fit("no/such/lake", pc.ModelSpec("y", [NORMAL])),
        "no/such/lake does not exist",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_rows_that_no_model_can_be_fitted_to_are_refused(case: str) -> None:
    call, message = REFUSED[case]
    with pytest.raises(pc.ProbClassError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


LABELS = {
    "text": pa.array(Y),
    "large text": pa.array(Y, pa.large_string()),
    "bool": pa.array([label == "b" for label in Y]),
    "small integers": pa.array([1, 1, 1, 2, 2, 2], pa.int8()),
    "a dictionary of text": pa.array(Y).dictionary_encode(),
    "a dictionary of integers": pa.array([7, 7, 7, 9, 9, 9]).dictionary_encode(),
}


@pytest.mark.parametrize("kind", LABELS)
def test_predictions_have_the_type_of_the_label(kind: str, tmp_path: Path) -> None:
    label = LABELS[kind]
    plain = label.dictionary_decode() if pa.types.is_dictionary(label.type) else label
    model = fit({"x": X, "y": label})
    predicted = model.predict({"x": X})
    assert predicted.type in (pa.string(), pa.bool_(), pa.int64())
    assert predicted.to_pylist() == plain.to_pylist()
    pc.score(model, {"x": X}, tmp_path / "scored.parquet")
    assert pq.read_table(tmp_path / "scored.parquet")["prediction"].to_pylist() == plain.to_pylist()
    assert pc.evaluate(model, {"x": X, "y": label}).accuracy == 1.0


def test_null_labels_are_left_out_and_counted() -> None:
    model = fit({"x": [*X, 1e9], "y": [*Y, None]})
    assert model.id == fit({"x": X, "y": Y}).id
    assert model.training["rows"] == 7
    assert model.training["null_labels"] == 1
    quality = pc.evaluate(model, {"x": [*X, 1.0, 1.0], "y": [*Y, None, "never seen"]})
    assert (quality.rows, quality.null_labels, quality.unseen_labels) == (6, 1, 1)
    assert quality.accuracy == 1.0


def test_gaussians_use_the_rows_without_nulls_in_their_features() -> None:
    """Available-case estimates: the variances of gaussian_full are those of gaussian_diagonal."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(2, 40)) + np.repeat([0.0, 3.0], 20)
    values[0, :4] = np.nan
    values[1, 3:9] = np.nan
    rows = {"x": values[0], "z": values[1], "y": ["a"] * 20 + ["b"] * 20}
    full = fit(rows, pc.Block("gaussian_full", ["x", "z"])).parameters["gaussian_full"]
    diagonal = fit(rows, pc.Block("gaussian_diagonal", ["x", "z"])).parameters["gaussian_diagonal"]
    covariance = full["covariance"].combine_chunks().to_numpy_ndarray()
    variances = diagonal["variance"].to_numpy().reshape(2, 2)
    np.testing.assert_allclose(np.diagonal(covariance, axis1=1, axis2=2), variances, rtol=1e-14)
    assert diagonal["count"].to_pylist() == [16.0, 14.0, 20.0, 20.0]
    both = values[:, 9:20]  # the rows of class a that have both features
    assert covariance[0, 0, 1] == pytest.approx(np.cov(both, ddof=0)[0, 1])


def test_an_unseen_value_follows_the_policy() -> None:
    """With α = 1, 2 values and 3 rows per class, an unseen value has probability 1/5."""
    rows = {"u": list("pppqqp"), "y": Y}
    new = {"u": ["never"]}

    def likelihood(**options: Any) -> np.ndarray:
        model = fit(rows, pc.Block("categorical", ["u"], **options))
        return np.exp(model.log_likelihood_by_block(new)[0, :, 0])

    np.testing.assert_allclose(likelihood(), [1 / 5, 1 / 5])
    np.testing.assert_allclose(likelihood(unseen="ignore"), [1.0, 1.0])
    np.testing.assert_allclose(likelihood(pseudo_count=0.0), [0.0, 0.0])
    with pytest.raises(pc.DataError, match="column 'u': rows outside its domain: 1, such as 'nev"):
        likelihood(unseen="error")


def test_a_constant_column_does_not_change_the_posterior() -> None:
    """A column with variance 0 in every class, such as snow in summer, has no effect."""
    rows = {"x": X, "snow": [0] * 6, "y": Y}
    block = pc.Block("gaussian_diagonal", ["x", "snow"])
    model, without = fit(rows, block), fit(rows)
    winter = {"x": [3.4], "snow": [5]}
    np.testing.assert_allclose(model.predict_proba(winter), without.predict_proba(winter))


def test_a_name_instead_of_a_model_or_a_path_instead_of_a_spec_is_refused(tmp_path: Path) -> None:
    rows, model = {"x": X, "y": Y}, fit({"x": X, "y": Y})
    name: Any = "air@champion"
    path: Any = "air.toml"
    refused: dict[Callable[[], object], str] = {
        lambda: pc.fit(rows, path): "expected a ModelSpec, got str; .*ModelSpec.from_file",
        lambda: pc.summarize(rows, {"label": "y"}): "expected a ModelSpec, got dict",  # type: ignore[arg-type]
        lambda: pc.score(name, rows, tmp_path / "scored"): "expected a Model, got str; .*load",
        lambda: pc.evaluate(model.spec, rows): "expected a Model, got ModelSpec",  # type: ignore[arg-type]
        lambda: pc.explain(name, rows): "expected a Model, got str",
        lambda: pc.calibrate(name, rows): "expected a Model, got str",
    }
    for call, message in refused.items():
        with pytest.raises(pc.SpecError, match=message):
            call()


def test_a_condition_that_no_row_meets_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": X, "y": Y}), tmp_path / "rows.parquet")
    with pytest.raises(pc.DataError, match=r"no row matches \[\['x', '>', 7\]\]"):
        pc.fit(tmp_path / "rows.parquet", pc.ModelSpec("y", [NORMAL]), where=[("x", ">", 7)])
