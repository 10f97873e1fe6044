"""The conformance kit: every law rejects an estimator that breaks it, with a clear message."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from broken_estimators import ADDS_THREE, BROKEN
from hypothesis import errors, settings

from probclass_core.arrow.rows import Rows
from probclass_core.errors import DataError
from probclass_core.estimation.families.gaussian.diagonal import GaussianDiagonal
from probclass_core.estimation.families.gaussian.full import GaussianFull
from probclass_core.plugins.manager import find_estimator
from probclass_core.testing.laws import (
    LAWS,
    densities_integrate_to_1,
    laws_of,
    masses_sum_to_1,
    merging_is_commutative,
    weights_count_rows,
)
from probclass_core.testing.suite import counts, numbers, try_law
from probclass_core.testing.trial import LABEL, LINE, WEIGHT, Law, Trial

COLUMNS = {"x": numbers(), "y": numbers()}
COUNTS = {"x": counts(), "y": counts()}
OPTIONS = [{"conjugate_prior": {"mean": 0.0, "variance": 1.0}}]


@pytest.fixture
def many_examples() -> Iterator[None]:
    """As many examples as `try_law` asks for: few of them may show that a law is broken."""
    lane = settings.get_current_profile_name()
    settings.register_profile("many", deadline=None, max_examples=300, derandomize=True)
    settings.load_profile("many")
    yield
    settings.load_profile(lane)


def test_every_law_has_an_estimator_that_breaks_it() -> None:
    assert set(BROKEN) == {law.__name__ for law in LAWS}


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_a_law_rejects_the_estimator_that_breaks_it(law: Law, many_examples: None) -> None:
    estimator = BROKEN[law.__name__]
    assert law in laws_of(estimator)
    columns, options = (COUNTS, [{}]) if law is masses_sum_to_1 else (COLUMNS, OPTIONS)
    with pytest.raises(AssertionError) as broken:
        try_law(law, estimator, columns, options, examples=300)
    message = str(broken.value)
    assert message.startswith(f"broken breaks the law {law.__name__}: ")
    for part in (
        "expected: ",
        " got: ",
        f"options: {json.dumps(options[0])}",
        f"\n    {{{LABEL!r}: ",
    ):
        assert part in message
    assert (WEIGHT in message) == (law is weights_count_rows)


def test_a_wrong_constant_breaks_no_law_but_that_of_totals() -> None:
    broken = []
    for law in laws_of(ADDS_THREE):
        try:
            try_law(law, ADDS_THREE, COLUMNS, OPTIONS, examples=2)
        except AssertionError:
            broken.append(law)
    assert broken == [densities_integrate_to_1]


@pytest.mark.parametrize("correlation", [0.0, 0.999])
def test_joint_densities_are_integrated_over_each_column_given_those_before(
    correlation: float,
) -> None:
    rng = np.random.default_rng(1)
    common = rng.normal(size=60)
    columns = {name: rng.normal(size=60) + 30.0 * correlation * common for name in "xyz"}
    table = pa.table({LABEL: ["a", "b"] * 30, **columns})

    class Doubled(GaussianFull):
        name = "doubled"

        def likelihood(self, parameters: pa.Table, classes: pa.Array) -> Any:
            inner = super().likelihood(parameters, classes)
            return Shifted(inner.log_likelihood)

    class Shifted:
        normalized = True

        def __init__(self, inner: Callable[[Rows], np.ndarray]) -> None:
            self.inner = inner

        def log_likelihood(self, rows: Rows) -> np.ndarray:
            return self.inner(rows) + np.log(2.0) * ~np.isnan(rows.numbers("z"))[:, None]

    spaces = dict.fromkeys(columns, LINE)
    densities_integrate_to_1(
        Trial(find_estimator("gaussian_full"), list(columns), spaces=spaces), table=table
    )
    with pytest.raises(AssertionError, match=r"of 1 of class 'a' over column 'z' .* given x="):
        densities_integrate_to_1(Trial(Doubled, list(columns), spaces=spaces), table=table)


def test_a_message_shows_the_law_the_rows_and_both_results() -> None:
    table = pa.table({LABEL: ["a", "b", "a"], WEIGHT: [1, 2, 1], "x": [0.0, 3.0, None]})
    trial = Trial(BROKEN["weights_count_rows"], ["x"], {"variance_floor": 1.0})
    with pytest.raises(AssertionError) as broken:
        weights_count_rows(trial, table=table)
    assert str(broken.value).splitlines() == [
        f"broken breaks the law weights_count_rows: {weights_count_rows.__doc__}",
        "expected: parameter 'count' of class 'b', feature 'x' is 2.0",
        "     got: it is 1.0",
        'options: {"variance_floor": 1.0}',
        "table:",
        "    {'(label)': 'a', '(weight)': 1, 'x': 0.0}",
        "    {'(label)': 'b', '(weight)': 2, 'x': 3.0}",
        "    {'(label)': 'a', '(weight)': 1, 'x': None}",
    ]


def test_a_law_is_a_plain_function_that_accepts_a_correct_estimator() -> None:
    table = pa.table({LABEL: ["a", "b"] * 3, WEIGHT: [1] * 6, "x": [1.0, 2, 3, 4, 5, 6]})
    trial = Trial(find_estimator("gaussian_diagonal"), ["x"])
    merging_is_commutative(trial, parts=[table[:2], table[2:2], table[2:3], table[3:]])


def test_an_estimator_that_refuses_all_rows_fails() -> None:
    class Refuses(GaussianDiagonal):
        name = "refuses"

        def finalize(self, statistics: pa.Table, classes: pa.Array) -> pa.Table:
            raise DataError("no.")

    with pytest.raises((errors.Unsatisfiable, errors.FailedHealthCheck)):
        try_law(LAWS[0], Refuses, COLUMNS)


def test_laws_need_neither_pytest_nor_hypothesis() -> None:
    script = (
        "import sys, probclass_core.testing.laws\n"
        "print({'hypothesis', 'pytest', '_pytest'} & set(sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout == "set()\n"


SUITES = """
import probclass_core as pc
from broken_estimators import BROKEN
from probclass_core.estimation.families.gaussian.diagonal import GaussianDiagonal
from probclass_core.plugins.manager import find_estimator
from probclass_core.testing.suite import numbers
from probclass_core.testing.suite import EstimatorLaws

class NoMerge(GaussianDiagonal):
    name = "no_merge"
    def merge(self, tables):
        raise RuntimeError("not written yet")

class TestCorrect(EstimatorLaws):
    estimator = find_estimator("gaussian_diagonal").estimator
    columns = {"x": numbers()}
    examples = 2

class TestBroken(TestCorrect):
    estimator = BROKEN["a_row_without_features_has_log_likelihood_0"]

class TestNoMerge(TestCorrect):
    estimator = NoMerge
"""


def test_a_plugin_author_subclasses_one_class(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(SUITES)
    command = [sys.executable, "-m", "pytest", "-rA", "-p", "no:cacheprovider", str(tmp_path)]
    command += ["-o", f"pythonpath={Path(__file__).parent}"]
    ran = subprocess.run(
        [*command, "-k", "merging or log_likelihood_0"], capture_output=True, text=True, check=False
    )
    law = "a_row_without_features_has_log_likelihood_0"
    assert f"broken breaks the law {law}: For a row whose features are all null" in ran.stdout
    outcomes = Counter(re.findall(r"^(PASSED|FAILED) .*::(\w+)::test_law", ran.stdout, re.M))
    assert outcomes["PASSED", "TestCorrect"] > 1
    assert ("FAILED", "TestCorrect") not in outcomes
    assert outcomes["FAILED", "TestBroken"] >= 1
    assert outcomes["FAILED", "TestNoMerge"] > 1
