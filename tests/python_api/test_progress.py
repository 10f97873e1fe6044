"""``progress=True``: a bar in notebooks and on terminals, lines elsewhere."""

from __future__ import annotations

import io
import sys
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import probclass_core as pc
from probclass_core.errors import SpecError
from probclass_core.execution import progress

ROWS = pa.table({"x": [float(row) for row in range(200)], "y": ["a", "b"] * 100})


class Terminal(io.StringIO):
    """A stderr that is a terminal."""

    def isatty(self) -> bool:
        return True


def fit(*, progress: Any = True) -> pc.Model:
    return pc.fit(ROWS, pc.ModelSpec("y", {"gaussian_diagonal": "x"}), progress=progress)


def test_progress_is_not_part_of_a_model() -> None:
    """Elsewhere than on a terminal, a line is written every few seconds only."""
    assert fit().id == fit(progress=False).id


def test_a_terminal_shows_a_bar_that_is_removed_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    fit()
    shown = terminal.getvalue().split("\r")
    assert f"training [{'#' * 30}] 200 of 200 rows" in shown
    assert shown[-2].strip() == shown[-1] == "", "cleared"


def test_a_notebook_shows_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    import IPython

    monkeypatch.setattr(IPython, "get_ipython", lambda: SimpleNamespace(kernel=None))
    monkeypatch.setattr(sys, "stderr", cell := io.StringIO())
    fit()
    assert f"training [{'#' * 30}] 200 of 200 rows" in cell.getvalue().split("\r")


def test_a_failure_leaves_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())

    def fail() -> None:
        with progress.progress_bar("training") as report:
            report(1, 2)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert terminal.getvalue().endswith(" \r")


@pytest.mark.parametrize("option", [1, "yes", []])
def test_another_option_is_refused(option: Any) -> None:
    with pytest.raises(SpecError, match="progress must be True for a bar, or a function"):
        fit(progress=option)
