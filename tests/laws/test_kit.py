"""The conformance kit: every law rejects an estimator that breaks it, with a clear message."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import errors

import probclass_core as pc
from probclass_core.estimation.families.gaussian.diagonal import GaussianDiagonal
from probclass_core.plugins.manager import find_estimator
from probclass_core.testing.broken import BROKEN
from probclass_core.testing.generators import numbers
from probclass_core.testing.law import Law
from probclass_core.testing.laws import LAWS, laws_of, merging_is_commutative, weights_count_rows
from probclass_core.testing.suite import try_law
from probclass_core.testing.trial import LABEL, WEIGHT, Trial

pytestmark = pytest.mark.slow

COLUMNS = {"x": numbers(), "y": numbers()}
OPTIONS = [{"conjugate_prior": {"mean": 0.0, "variance": 1.0}}]


def test_every_law_has_an_estimator_that_breaks_it() -> None:
    assert set(BROKEN) == {law.__name__ for law in LAWS}


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_a_law_rejects_the_estimator_that_breaks_it(law: Law) -> None:
    plugin = BROKEN[law.__name__]
    assert law in laws_of(plugin)
    with pytest.raises(AssertionError) as broken:
        try_law(law, plugin, COLUMNS, OPTIONS, examples=60)
    message = str(broken.value)
    assert message.startswith(f"broken breaks the law {law.__name__}: ")
    for part in ("expected: ", " got: ", 'options: {"conjugate_prior"', f"\n    {LABEL}"):
        assert part in message


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
        "    (label)  (weight)  x",
        "    'a'      1         0.0",
        "    'b'      2         3.0",
        "    'a'      1         –",
    ]


def test_a_law_is_a_plain_function_that_accepts_a_correct_estimator() -> None:
    table = pa.table({LABEL: ["a", "b"] * 3, WEIGHT: [1] * 6, "x": [1.0, 2, 3, 4, 5, 6]})
    trial = Trial(find_estimator("gaussian_diagonal"), ["x"])
    merging_is_commutative(trial, parts=[table[:2], table[2:2], table[2:3], table[3:]])


def test_an_estimator_that_refuses_all_rows_fails() -> None:
    class Refuses(GaussianDiagonal):
        name = "refuses"

        def finalize(self, statistics: pa.Table, classes: pa.Array) -> pa.Table:
            raise pc.DataError("no.")

    plugin = pc.EstimatorPlugin("refuses", Refuses, "refuses all rows")
    with pytest.raises((errors.Unsatisfiable, errors.FailedHealthCheck)):
        try_law(LAWS[0], plugin, COLUMNS)


def test_laws_need_neither_pytest_nor_hypothesis() -> None:
    script = (
        "import sys, probclass_core.testing.laws, probclass_core.testing.broken\n"
        "print({'hypothesis', 'pytest', '_pytest'} & set(sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout == "set()\n"


def test_a_plugin_author_subclasses_one_class(tmp_path: Path) -> None:
    """pytest accepts a correct estimator and rejects a broken one."""
    (tmp_path / "test_mine.py").write_text(
        "from probclass_core.plugins.manager import find_estimator\n"
        "from probclass_core.testing.broken import BROKEN\n"
        "from probclass_core.testing.generators import numbers\n"
        "from probclass_core.testing.suite import EstimatorLaws\n"
        "class TestCorrect(EstimatorLaws):\n"
        "    plugin = find_estimator('gaussian_diagonal')\n"
        "    columns = {'x': numbers()}\n"
        "    examples = 2\n"
        "class TestBroken(TestCorrect):\n"
        "    plugin = BROKEN['a_row_without_features_has_log_likelihood_0']\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    ran = subprocess.run(
        [*command, "-k", "log_likelihood_0"], capture_output=True, text=True, check=False
    )
    assert "1 failed, 1 passed" in ran.stdout
    law = "a_row_without_features_has_log_likelihood_0"
    assert f"TestBroken::test_law[{law}]" in ran.stdout
    assert f"broken breaks the law {law}: For a row whose features are all null" in ran.stdout
