"""Invalid counts and words are refused in one line that names the column and how to fix it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import probclass_core as pc

Y = list("aabb")
X = [1, 0, 2, 3]
WORDS = [["p"], ["q", "p"], ["q"], []]
TALLY = pa.map_(pa.string(), pa.float64())


def fitted(rows: dict[str, Any], *blocks: pc.Block, **spec: Any) -> pc.Model:
    return pc.fit(pa.table({"y": Y, **rows}), pc.ModelSpec("y", blocks, **spec))


def fit_later(rows: dict[str, Any], *blocks: pc.Block) -> Callable[[], object]:
    return lambda: fitted(rows, *blocks, on_scarce="error")


def block(estimator: str, columns: str | list[str] = "x", **options: Any) -> pc.Block:
    return pc.Block(estimator, columns, **options)


DICTS = pa.array([{"p": 1, "q": 2}] * 4)  # pyarrow makes a struct of Python dicts

INVALID: dict[str, tuple[Callable[[], object], type[pc.ProbClassError], str]] = {
    "lists next to another column": (
        fit_later({"w": WORDS, "x": X}, block("multinomial", ["x", "w"])),
        pc.SpecError,
        (
            "multinomial: column 'w' is list<.*>, whose features are its terms, but the "
            "block has other columns too; give it its own block"
        ),
    ),
    "two columns of lists": (
        fit_later({"w": WORDS, "v": WORDS}, block("bernoulli", ["w", "v"])),
        pc.SpecError,
        "bernoulli: column 'w' .* give it its own block",
    ),
    "a vocabulary of columns": (
        fit_later({"x": X}, block("poisson", "x", vocabulary=["p"])),
        pc.SpecError,
        "poisson: vocabulary is for a column of lists or maps, not for columns of numbers",
    ),
    "text that is not split": (
        fit_later({"x": ["a b", "b", "c", "d"]}, block("multinomial")),
        pc.SpecError,
        (
            "column 'x' is string, but it models counts: numbers, or one column of lists of text "
            "or of maps from text to numbers; choose another estimator for it, or cast it"
        ),
    ),
    "lists of numbers": (
        fit_later({"x": [[1.0, 2.0]] * 4}, block("multinomial")),
        pc.SpecError,
        "column 'x' is list<.*double>, but it models counts",
    ),
    "a struct": (
        fit_later({"x": DICTS}, block("multinomial")),
        pc.SpecError,
        r"column 'x' is struct<.*>, but it models counts.*; give its dicts the type pa.map_\(",
    ),
    "counts below 0": (
        fit_later({"x": [1, -2, -3, 4]}, block("multinomial")),
        pc.DataError,
        "column 'x' contains 2 counts below 0, such as -2; make them null, or choose another",
    ),
    "counts below 0 in maps": (
        fit_later({"x": pa.array([{"p": -1.5}, {}, {}, {}], TALLY)}, block("bernoulli")),
        pc.DataError,
        "column 'x' contains 1 count below 0, such as -1.5",
    ),
    "infinite counts": (
        fit_later({"x": [1.0, math.inf, 2.0, 0.0]}, block("bernoulli")),
        pc.DataError,
        "column 'x' contains 1 infinite value; make them null",
    ),
    "infinite counts in maps": (
        fit_later({"x": pa.array([{"p": math.inf}, {}, {}, {}], TALLY)}, block("multinomial")),
        pc.DataError,
        "column 'x' contains 1 infinite value",
    ),
    "counts too large for float64 to distinguish": (
        fit_later({"x": [2.0**60, 1.0, 2.0, 0.0]}, block("poisson")),
        pc.DataError,
        r"column 'x' contains 1 count above 2⁵³, such as 1.15292e\+18",
    ),
    "fractions for a Poisson": (
        fit_later({"x": [1.0, 2.0, 2.5, 0.0]}, block("poisson")),
        pc.DataError,
        "column 'x' has a value 2.5, but poisson counts are whole numbers; round it",
    ),
    "a column of nulls": (
        fit_later({"x": pa.nulls(4, pa.int64())}, block("poisson")),
        pc.DataError,
        "column 'x' has no value in any training row; leave it out",
    ),
    "no word in any row": (
        fit_later(
            {"x": pa.array([[], [], None, [None]], pa.list_(pa.string()))}, block("bernoulli")
        ),
        pc.DataError,
        "column 'x' has no term in any training row; leave it out, or declare its vocabulary",
    ),
    "a class without values and without pseudo-counts": (
        fit_later({"x": [None, None, 1, 0]}, block("bernoulli", pseudo_count=0)),
        pc.DataError,
        "class 'a' has no value of column 'x' and its pseudo-counts are 0; give it a pseudo_count",
    ),
    "a class without documents and without pseudo-counts": (
        fit_later({"x": [None, None, ["p"], []]}, block("bernoulli", pseudo_count=0)),
        pc.DataError,
        "class 'a' has no value of column 'x'",
    ),
    "a class without counts and without pseudo-counts": (
        fit_later({"x": [[], [], ["p"], []]}, block("multinomial", pseudo_count=0)),
        pc.DataError,
        "class 'a' has no count above 0 in 'x' and its pseudo-counts are 0",
    ),
    "a class without rows and without pseudo-rows": (
        fit_later({"x": [None, None, 1, 0]}, block("poisson", pseudo_rows=0)),
        pc.DataError,
        "class 'a' has no value of column 'x' and pseudo_rows is 0; set it above 0",
    ),
    "a vocabulary that is text": (
        fit_later({"x": WORDS}, block("bernoulli", vocabulary="pq")),
        pc.SpecError,
        "vocabulary must be a list of text, got 'pq'",
    ),
    "a vocabulary of numbers": (
        fit_later({"x": WORDS}, block("bernoulli", vocabulary=[1, 2])),
        pc.SpecError,
        "vocabulary must be a list of text, not of 1",
    ),
    "a vocabulary with a repeated word": (
        fit_later({"x": WORDS}, block("bernoulli", vocabulary=["p", "q", "p"])),
        pc.SpecError,
        "vocabulary has 'p' twice; list each term once",
    ),
    "a vocabulary for columns of numbers": (
        fit_later({"x": X}, block("multinomial", vocabulary=["p"])),
        pc.SpecError,
        "multinomial: vocabulary is for a column of lists or maps, not for columns of numbers",
    ),
    "a policy for unseen terms for columns of numbers": (
        fit_later({"x": X}, block("multinomial", unseen="error")),
        pc.SpecError,
        "multinomial: unseen is for a column of lists or maps",
    ),
    "an unknown policy": (
        fit_later({"x": WORDS}, block("multinomial", unseen="pseudo_count")),
        pc.SpecError,
        "unseen must be one of 'error', 'ignore', got 'pseudo_count'",
    ),
    "text for a flag": (
        fit_later({"x": X}, block("poisson", predictive="yes")),
        pc.SpecError,
        "poisson: predictive must be true or false, got 'yes'",
    ),
    "a pseudo-count below 0": (
        fit_later({"x": X}, block("poisson", pseudo_rows=-1)),
        pc.SpecError,
        "poisson: pseudo_rows must be a number of at least 0, got -1",
    ),
    "a training word outside the vocabulary with unseen=error": (
        fit_later({"x": WORDS}, block("multinomial", vocabulary=["p"], unseen="error")),
        pc.DataError,
        "column 'x' contains 2 terms outside the vocabulary, such as 'q'; set unseen='ignore'",
    ),
    "a scored word outside the vocabulary with unseen=error": (
        lambda: fitted({"x": WORDS}, block("bernoulli", unseen="error")).predict(
            {"x": [["p", None, "new"], ["newer"]]}
        ),
        pc.DataError,
        "column 'x' contains 2 terms outside the vocabulary, such as 'new'",
    ),
    "numbers to score by a model of words": (
        lambda: fitted({"x": WORDS}, block("bernoulli")).predict({"x": [1, 2]}),
        pc.DataError,
        "column 'x' is int64, neither lists of text nor maps from text to numbers; cast it",
    ),
    "words to score by a model of numbers": (
        lambda: fitted({"x": X}, block("poisson")).predict({"x": WORDS}),
        pc.DataError,
        "column 'x' is list<.*>, not a number; cast it or re-train",
    ),
    "fractions to score by a Poisson": (
        lambda: fitted({"x": X}, block("poisson")).predict({"x": [0.5]}),
        pc.DataError,
        "column 'x' has a value 0.5, but poisson counts are whole numbers",
    ),
    "lists of numbers without an estimator": (
        lambda: pc.ModelSpec.auto(pa.table({"y": Y, "x": [[1.0]] * 4}).schema, "y"),
        pc.SpecError,
        r"column 'x' is list<.*double>, which no default estimator models; leave it out",
    ),
}


@pytest.mark.parametrize("case", INVALID)
def test_invalid_counts_are_refused(case: str) -> None:
    action, error, message = INVALID[case]
    with pytest.raises(error, match=message) as error_info:
        action()
    assert "\n" not in str(error_info.value)


def test_auto_chooses_multinomial_for_words() -> None:
    tallies = pa.array([{"p": 1.0}] * 4, TALLY)
    table = pa.table({"y": Y, "x": X, "w": WORDS, "t": tallies, "c": Y})
    spec = pc.ModelSpec.auto(table.schema, "y")
    assert [(block.estimator, block.columns) for block in spec.blocks] == [
        ("discretized", ("x",)),
        ("multinomial", ("w",)),
        ("multinomial", ("t",)),
        ("categorical", ("c",)),
    ]
    assert len(pc.fit(table, spec).predict(table)) == 4


def test_unknown_words_are_ignored_by_default() -> None:
    model = fitted({"x": WORDS}, block("bernoulli"))
    known, unknown = (model.predict_proba({"x": [words]}) for words in (["p"], ["p", "new"]))
    assert (known == unknown).all()
