"""Invalid options, estimators, column types and priors are errors before a row is read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import probclass_core as pc
from probclass_core.errors import PluginError, SpecError
from probclass_core.estimation.families.counted.options import ConditionalOptions
from probclass_core.estimation.options import describe_options

ROWS = pa.table(
    {
        "c": ["a", "b"] * 3,
        "x": [1.0, 2, 3, 4, 5, 6],
        "u": ["p", "q"] * 3,
        "v": ["s", "s", "t"] * 2,
        "n": [1, 2, 3] * 2,
        "w": [["p"], ["q", "p"], []] * 2,
        "numbers": [[1.0, 2.0]] * 6,
        "dict": [{"p": 1, "q": 2}] * 6,  # a struct, as pyarrow reads Python dicts
        "day": [date(2024, 1, 1)] * 6,
        "t": pa.array([0, 1, 2] * 2, pa.timestamp("s")),
        "class": ["p", "q"] * 3,
        "count": ["p", "q"] * 3,
        "log_probability": ["p", "q"] * 3,
    }
)
COLUMNS = dict.fromkeys(pc.estimators(), "x")
COLUMNS |= {"categorical": "u", "categorical_joint": "u", "multinomial": "w", "bernoulli": "w"}
COLUMNS |= {"poisson": "n"}


def refusal(estimator: str, options: dict[str, Any]) -> str:
    """The error of a fit, which names the estimator in one line."""
    block = pc.Block(estimator, **{"columns": COLUMNS[estimator], **options})
    with pytest.raises(SpecError) as caught:
        pc.fit(ROWS, pc.ModelSpec("c", [block]))
    message = str(caught.value)
    assert message.startswith(f"{estimator}: ")
    assert "\n" not in message
    return message


DECLARED = {name: describe_options(factory) for name, factory in pc.estimators().items()}
# Parts of a table are described by their own words, and metrics by a list of them.
OF_PARTS = {
    "a number of at least 0, or a table of one number or a number per value by column": (
        "a number of at least 0"
    ),
    "a table of lists of values, by column": "a table keyed by column",
    "a table of lists of ascending numbers, by column": "a table keyed by column",
    "the name of a metric": "unknown metric",
}


def unexpected(expected: str) -> Iterator[Any]:
    """Values that are not what a declaration expects."""
    yield from ("no such value", -1.5, [True])
    if bound := re.search(r"^a (whole )?number of at least (\d+)$", expected):
        yield from (True, int(bound[2]) - 0.25)
        if bound[1]:
            yield int(bound[2]) + 0.5


@pytest.mark.parametrize("estimator", DECLARED)
def test_an_option_says_what_it_expects(estimator: str) -> None:
    for name, option in DECLARED[estimator].items():
        for value in unexpected(option.expected):
            message = refusal(estimator, {name: value})
            assert name in message
            assert OF_PARTS.get(option.expected, option.expected) in message


def test_an_option_of_a_block_with_given_columns_says_what_it_expects() -> None:
    for name, option in ConditionalOptions.declared().items():
        for value in unexpected(option.expected):
            message = refusal("categorical", {"given": "v", name: value})
            assert OF_PARTS.get(option.expected, option.expected) in message


SHRINKAGE = "shrinkage must be a number from 0 to 1, or 'oas', or None, got "
PRIOR = "of conjugate_prior must be a number above"
NUMBERS = "column 'u' is string, but it models numbers; choose another estimator for it"
NOT_COUNTS = "but it models counts: numbers, or one column of lists of text or of maps from text"
REFUSED: dict[str, list[tuple[dict[str, Any], str]]] = {
    "gaussian_full": [
        ({"shrinkage": True}, f"{SHRINKAGE}True"),
        ({"conjugate_prior": {"counts": 3}}, r"has no key 'counts'; .* Did you mean 'count'\?"),
        ({"conjugate_prior": {"count": 0}}, rf"count {PRIOR} 0 and up to 1e\+100, got 0"),
        ({"conjugate_prior": {"degrees_of_freedom": 2}}, f"{PRIOR} 2 and .*, got 2"),
        ({"conjugate_prior": {"mean": 1e200}}, rf"mean {PRIOR} .* up to 1e\+100, got 1e\+200"),
        ({"conjugate_prior": {"variance": {"x": -1}}}, rf"variance \('x'\) {PRIOR} 0 .*, got -1"),
        ({"columns": "u"}, NUMBERS),
    ],
    "gaussian_shared": [
        ({"shrinkage": 1.5}, f"{SHRINKAGE}1.5"),
    ],
    "categorical": [
        ({"pseudo_count": {"u": -1}}, "pseudo_count of 'u' must be .*got -1"),
        ({"pseudo_count": {"u": {"p": 1, "q": -2}}}, r"of 'u' \('q'\) must be .*got -2"),
        ({"pseudo_count": {"m": 1}}, "pseudo_count names column 'm'; the block has"),
        ({"domain": {"u": "pq"}}, "domain of 'u' must be a list of values"),
        ({"domain": {"u": ["p", "p"]}}, "domain of 'u' lists a value twice"),
        (
            {"domain": {"u": ["p", "q"]}, "pseudo_count": {"u": {"p": 1}}},
            "domain of 'u' has value 'q', pseudo_count has not; give both the same values",
        ),
        *(
            ({"shared_strength": value}, "shared_strength must be a number above 0, or 'loo', or N")
            for value in (0, True)
        ),
        ({"columns": "day"}, r"'day' is date32.* it models categories \(text, bool, "),
    ],
    "categorical_joint": [
        *(
            ({"columns": ["v", name]}, f"column '{name}' has the name .*; rename it")
            for name in ("class", "count", "log_probability")
        ),
    ],
    "discretized": [
        ({"cuts": {"m": [1]}}, "cuts names column 'm'; the block has 'x'"),
        *(
            ({"cuts": {"x": cuts}}, "cuts of 'x' must be a list of ascending numbers, got ")
            for cuts in (5, "12", [2, 1], [1, 1], [1, "2"], [True])
        ),
        ({"columns": "u", "given": "v"}, NUMBERS),
    ],
    "knn_density": [
        ({"metric": "euclidian"}, r"'euclidian'; use 'euclidean', .* Did you mean 'euclidean'\?"),
        ({"metric": "mahalanobis"}, "metric 'mahalanobis' depends on a scale"),
    ],
    "bernoulli": [
        ({"vocabulary": ["p", "q", "p"]}, "vocabulary has 'p' twice; list each term once")
    ],
    "multinomial": [
        ({"vocabulary": [1, 2]}, "vocabulary must be a list of text, not of 1"),
        ({"columns": "n", "vocabulary": ["p"]}, "vocabulary is for a column of lists or maps"),
        ({"columns": "u"}, f"column 'u' is string, {NOT_COUNTS}"),
        ({"columns": "numbers"}, f"column 'numbers' is list<.*double>, {NOT_COUNTS}"),
        ({"columns": "dict"}, r"'dict' is struct<.*; give its dicts the type pa.map_\("),
        (
            {"columns": ["n", "w"]},
            "'w' is .*, whose features are its terms, .* give it its own block",
        ),
    ],
    "poisson": [({"vocabulary": ["p"]}, "vocabulary is for a column of lists or maps, not for")],
}
REFUSED_IF_GIVEN: list[tuple[dict[str, Any], str]] = [
    *(
        ({"strength": value}, "strength must be a number above 0, or 'loo'")
        for value in (0, True, None)
    ),
    ({"cuts": {"v": [1]}}, "cuts names column 'v', which is string"),
    ({"domain": {"v": ["s"]}}, "domain names column 'v', which is given; declare domains of 'u'"),
    ({"columns": "n", "cuts": {"n": [1]}, "domain": {"n": ["1"]}}, "names column 'n', whose"),
    ({"columns": "t", "given": "u"}, "column 't' is timestamp.* it models categories"),
    ({"given": "t"}, "column 't' is .*, but it models numbers and categories"),
]
BLOCKS = [
    *((name, *refused) for name, table in REFUSED.items() for refused in table),
    *(("categorical", {"given": ["v", "x"]} | keys, message) for keys, message in REFUSED_IF_GIVEN),
]


@pytest.mark.parametrize(("estimator", "options", "message"), BLOCKS)
def test_an_invalid_block_is_refused(estimator: str, options: dict[str, Any], message: str) -> None:
    assert re.search(message, refusal(estimator, options))


@pytest.mark.parametrize(
    ("estimator", "options", "message"),
    [
        ("gaussian_diagonal", {"dof": 1}, r"has no option 'dof'; it has .*'ddof', .* mean 'ddof'"),
        ("categorical", {"given": "v", "smooth": "zeros"}, "categorical has no option 'smooth'"),
    ],
)
def test_an_unknown_option_is_refused_before_there_is_data(
    estimator: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(SpecError, match=message):
        pc.Block(estimator, "x", **options)


def test_a_spec_of_an_estimator_that_is_not_installed_can_be_read() -> None:
    values = {"label": "c", "blocks": [{"estimator": "tweedie", "columns": ["x"], "power": 1.5}]}
    assert pc.ModelSpec.from_dict(values).to_dict()["blocks"][0]["power"] == 1.5


def test_an_unknown_estimator_is_refused() -> None:
    spec = pc.ModelSpec("c", [pc.Block("gausian_ful", ["x"])])
    with pytest.raises(PluginError, match=r"'gausian_ful'.* mean 'gaussian_full'\?") as caught:
        pc.fit(ROWS, spec)
    assert ", ".join(map(repr, sorted(pc.estimators()))) in str(caught.value)


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        ({"a": 0.5, "z": 0.5}, "the prior names class 'z'; training saw 'a', 'b'"),
        ({"a": 1.0}, "the prior leaves out class 'b'; training saw 'a', 'b'"),
    ],
)
def test_a_prior_of_other_classes_is_refused(prior: dict[str, float], message: str) -> None:
    blocks = {"gaussian_diagonal": "x"}
    with pytest.raises(SpecError, match=message):
        pc.fit(ROWS, pc.ModelSpec("c", blocks, prior=prior))
    with pytest.raises(SpecError, match=message):
        pc.fit(ROWS, pc.ModelSpec("c", blocks)).with_prior(prior)


def test_a_class_with_prior_zero_is_never_predicted() -> None:
    spec = pc.ModelSpec("c", {"gaussian_diagonal": "x"}, prior={"a": 0.0, "b": 1})
    model = pc.fit(ROWS, spec)
    assert set(model.predict(ROWS).to_pylist()) == {"b"}
    np.testing.assert_array_equal(model.predict_proba(ROWS)[:, 0], 0.0)
    assert (model.predict_log_proba(ROWS)[:, 0] == -np.inf).all()
