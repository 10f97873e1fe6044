"""Rows that no model can be fitted to or score, refused in one line; labels, weights and nulls."""

from __future__ import annotations

import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from refusals import refused

import probclass_core as pc
from probclass_core.errors import DataError
from probclass_core.estimation.kinds import cells

X = [1.0, 2.0, 3.0, 4.0, 5.0, 7.0]
Y = ["a", "a", "a", "b", "b", "b"]
N = [1, 0, 2, 3, 4, 5]
WORDS = [["p"], ["q", "p"], ["q"], [], ["p"], ["q"]]
TALLY = pa.map_(pa.string(), pa.float64())
SCARCE = [None, None, None, 1, 0, 2]
NORMAL = pc.Block("gaussian_diagonal", ["x"])


def fit(rows: dict[str, Any], *blocks: pc.Block, **spec: Any) -> pc.Model:
    return pc.fit(pa.table({"y": Y, **rows}), pc.ModelSpec("y", blocks or [NORMAL], **spec))


def block(estimator: str, columns: str | list[str] = "x", **options: Any) -> pc.Block:
    return pc.Block(estimator, columns, **options)


def tally(first: dict[str, float]) -> pa.Array:
    """Six maps of which five are empty."""
    return pa.array([first, {}, {}, {}, {}, {}], TALLY)


XZ = ["x", "z"]
GIVEN = block("categorical", given=["z"])
JOINT = block("categorical_joint", XZ)
PQ, ST = list("pqpqpq"), list("ststst")
PAIRS = {"x": ["p", None] * 3, "z": [None, "s"] * 3}
NO_WORDS = pa.array([[], [], None, [None], [], []], pa.list_(pa.string()))
NO_TEXT = [None, None, None, "p", "q", "p"]

COUNTS_REFUSED: list[tuple[Any, pc.Block, str]] = [
    ([1, -2, -3, 4, 5, 6], block("multinomial"), "contains 2 counts below 0, such as -2; make"),
    (tally({"p": -1.5}), block("bernoulli"), "contains 1 count below 0, such as -1.5"),
    (tally({"p": math.inf}), block("multinomial"), "contains 1 infinite value"),
    ([2.0**60, *X[1:]], block("poisson"), r"contains 1 count above 2⁵³, such as 1.15292e\+18"),
    (
        [2.5, *X[1:]],
        block("poisson"),
        "has a value 2.5, but its counts must be whole numbers; round",
    ),
    (NO_WORDS, block("bernoulli"), "has no value in any training row: the model leaves it out"),
]
VALUES_REFUSED: list[tuple[Any, pc.Block, str]] = [
    ([math.inf, -math.inf, *X[2:]], NORMAL, "contains 2 infinite values; make them null, or drop"),
    *(
        ([math.inf, *X[1:]], block(estimator), "contains 1 infinite value; make them null")
        for estimator in ("discretized", "bernoulli")
    ),
    (
        [2**53, 2**53 + 3] * 3,
        block("discretized"),
        "has integers beyond 2⁵³, which float64 rounds: .*subtract",
    ),
    *(
        (pa.nulls(6, pa.float64()), block, "has no value in any training row: the model leaves")
        for block in (NORMAL, block("discretized"), block("poisson"))
    ),
    ([math.nan] * 6, block("discretized"), "has no value in any training row: the model leaves"),
    (pa.nulls(6, pa.string()), GIVEN, "has no value in any training row"),
]
ROWS_REFUSED: list[tuple[dict[str, Any], pc.Block, str]] = [
    ({}, block("gaussian_diagonal", "v"), "no column 'v'; the table has 'x', 'y', 'z'"),
    ({"x": [], "z": [], "y": []}, NORMAL, "nothing to train on: the source has no rows"),
    ({"y": pa.nulls(6, pa.string())}, NORMAL, "label 'y' is null .* in all 6 rows"),
    ({"y": ["a"] * 6}, NORMAL, "one class only, 'a'; a classifier needs rows of at least two"),
    ({}, block("knn_density", k=7), "k=7, but there are 6 rows"),
    # Classes whose values do not suffice.
    (PAIRS, JOINT, "no training row has all of x, z: the prob"),
    ({"x": SCARCE}, NORMAL, "class 'a' has no value of column 'x': the mean"),
    *(
        ({"x": values, "z": ST}, block, "class 'a' has no value of column 'x': the prob")
        for values, block in (
            (NO_TEXT, block("categorical", pseudo_count=0)),
            (NO_TEXT, block("categorical", given=["z"], pseudo_count=0)),
            (SCARCE, block("discretized", pseudo_count=0)),
            (SCARCE, block("bernoulli", pseudo_count=0)),
            ([None, None, None, ["p"], [], []], block("bernoulli", pseudo_count=0)),
        )
    ),
    (
        {"x": PQ, "z": ["s"] * 3 + [None] * 3},
        block("categorical_joint", XZ, pseudo_count=0),
        "class 'b' has no row with all of x, z: the prob",
    ),
    (
        {"x": [[], [], [], ["p"], [], []]},
        block("multinomial", pseudo_count=0),
        "class 'a' has no value of column 'x': the prob.* Add rows, .* allow it by on_sc",
    ),
    (
        {"x": SCARCE},
        block("poisson", pseudo_rows=0),
        "class 'a' has no value of column 'x': the prob",
    ),
    # Covariances.
    (
        {"y": ["a", *"bbbbb"]},
        block("gaussian_full"),
        "class 'a' has too few values for a variance of column 'x'",
    ),
    (
        {"y": ["a", *"bbbbb"]},
        block("gaussian_diagonal", ddof=1),
        "class 'a' has too few values for a variance of column 'x': the variance",
    ),
    (
        {"x": X[:2], "z": X[:2], "y": ["a", "b"]},
        block("gaussian_shared"),
        "the rows are too few for the shared covariance of x: it is",
    ),
    (
        {"x": [1.0, 1.0, 2.0, 2.0], "z": [1.0, None, None, 2.0], "y": ["a", "a", "b", "b"]},
        block("gaussian_shared", XZ, ddof=1),
        "the rows are too few for the shared covariance of x, z",
    ),
    *(
        (
            {},
            block(estimator, XZ, on_singular="error"),
            rf"{who}: the covariance .* \(rank 1 of 2\)",
        )
        for estimator, who in (("gaussian_shared", "pooled sample"), ("gaussian_full", "class 'a'"))
    ),
    # Labels.
    (  # Arrow cannot count its values.
        {"y": pa.array([Decimal(1)] * 6, pa.decimal32(5, 1))},
        NORMAL,
        r"label 'y' is decimal32\(5, 1\); a class is text, bool or integer: cast the column",
    ),
    # Values outside a declared domain.
    *(
        (
            {"x": list("pppqqz"), "z": ST},
            pc.Block(block.estimator, block.columns, given=block.given, domain={"x": ["p", "q"]}),
            "column 'x' has value 'z' in 1 training rows, outside its declared domain 'p', 'q'",
        )
        for block in (block("categorical"), GIVEN, JOINT)
    ),
]
OF_ONE_COLUMN = [
    ({"x": values}, block, f"column 'x' {message}")
    for values, block, message in (*COUNTS_REFUSED, *VALUES_REFUSED)
]


@pytest.mark.parametrize(("rows", "block", "message"), [*OF_ONE_COLUMN, *ROWS_REFUSED])
def test_rows_that_no_model_can_be_fitted_to_are_refused(
    rows: dict[str, Any], block: pc.Block, message: str
) -> None:
    with refused(DataError, message):
        fit({"x": X, "z": [2 * x for x in X], **rows}, block, on_scarce="error")


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1, 1, 1, 0, 0, 0], r"only, 'a', in rows with a weight 'w' above 0 \(it is 0 in 3\)"),
        ([1.0, -1.0, 1.0, 1.0, None, 1.0], "weight 'w' is negative or null in 2 rows"),
    ],
)
def test_weights_that_leave_no_two_classes_are_refused(weights: list[Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        fit({"x": X, "w": weights}, weight="w", on_scarce="error")


NOT_SCORED: list[tuple[dict[str, Any], pc.Block, dict[str, Any], str]] = [
    (
        {"x": X},
        block("discretized"),
        {"x": [math.inf, -math.inf]},
        "'x' contains 2 infinite values",
    ),
    (
        {"x": WORDS},
        block("bernoulli"),
        {"x": [1, 2]},
        "int64, neither lists of text nor maps .*cast it",
    ),
    (
        {"x": N},
        block("poisson"),
        {"x": WORDS},
        "'x' is list<.*>, not a number; cast it or re-train",
    ),
    ({"x": N}, block("poisson"), {"x": [0.5]}, "'x' has a value 0.5, but its counts must be whole"),
    (
        {"x": [True, False] * (len(N) // 2)},
        block("categorical"),
        {"x": [0, 2]},
        "column 'x' was bool in training, and 2 is neither 0 nor 1",
    ),
]


@pytest.mark.parametrize(("rows", "block", "scored", "message"), NOT_SCORED)
def test_rows_that_a_model_cannot_score_are_refused(
    rows: dict[str, Any], block: pc.Block, scored: dict[str, Any], message: str
) -> None:
    model = fit(rows, block)
    with pytest.raises(DataError, match=message):
        model.predict(scored)


@pytest.mark.parametrize("trained", [bool, int, float])
@pytest.mark.parametrize("scored", [[True, False, None], [1, 0, None], [1.0, 0.0, math.nan]])
def test_a_bool_is_scored_as_0_and_1_are(trained: type, scored: list[Any]) -> None:
    rows = {"x": [trained(n % 3 == 0) for n in range(30)], "label": ["a", "b", "b"] * 10}
    model = pc.fit(rows, pc.ModelSpec("label", [pc.Block("categorical", ["x"])]))
    expected = model.predict_proba({"x": [trained(True), trained(False), None]})
    np.testing.assert_array_equal(model.predict_proba({"x": scored}), expected)
    assert pc.health(model, {"x": scored}).columns["x"].unseen == 0.0


@pytest.mark.parametrize("block", [JOINT, GIVEN], ids=["joint", "given"])
def test_values_outside_a_declared_domain_may_be_ignored(block: pc.Block) -> None:
    options = {"domain": {"x": ["p"]}, "unseen": "ignore"}
    ignoring = pc.Block(block.estimator, block.columns, given=block.given, **options)
    parameters = fit({"x": PQ, "z": ST}, ignoring).parameters[block.estimator]
    values = parameters["x" if "x" in parameters.column_names else "value"]
    assert set(values.to_pylist()) == {"p"}


def test_a_given_value_may_be_new() -> None:
    assert (
        len(
            fit({"x": PQ, "z": ST}, block("categorical", given=["z"])).predict(
                {"x": ["p"], "z": ["new"]}
            )
        )
        == 1
    )


def test_more_combinations_than_memory_has_room_for_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cells, "MAX_CELLS", 2)
    message = "columns 'x', 'z' have more than 2 combinations of values; leave out columns"
    with pytest.raises(DataError, match=message):
        fit({"x": PQ, "z": ST}, GIVEN)


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


def test_a_constant_column_does_not_change_the_posterior() -> None:
    """A column with variance 0 in every class, such as snow in summer, has no effect."""
    rows = {"x": X, "snow": [0] * 6, "y": Y}
    block = pc.Block("gaussian_diagonal", ["x", "snow"])
    model, without = fit(rows, block), fit(rows)
    winter = {"x": [3.4], "snow": [5]}
    np.testing.assert_allclose(model.predict_proba(winter), without.predict_proba(winter))


def test_a_condition_that_no_row_meets_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": X, "y": Y}), tmp_path / "rows.parquet")
    with pytest.raises(DataError, match=r"no row matches \[\['x', '>', 7\]\]"):
        pc.fit(tmp_path / "rows.parquet", pc.ModelSpec("y", [NORMAL]), where=[("x", ">", 7)])
