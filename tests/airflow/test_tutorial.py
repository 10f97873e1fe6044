"""The DAG at the end of docs/tutorial.md, run by Airflow on the results of the page."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

pytestmark = pytest.mark.nightly  # runs the code of a page, as tests/docs/test_needs.py

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"


@pytest.fixture
def tutorial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The names that the code blocks of the page define, run in an empty folder."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in re.findall(
        r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    ):
        exec(compile(block, str(PAGE), "exec"), names)
    return names


def test_the_dag_continues_the_tutorial(
    tutorial: dict[str, Any], run_dag: Callable[..., Any], tmp_path: Path
) -> None:
    february = run_dag(tutorial["monthly"], date="2014-03-01")
    assert {task.state for task in february.values()} == {"success"}
    scored = pq.read_table(tmp_path / "air" / "scored", columns=["month"]).to_pandas()
    assert scored["month"].value_counts().to_dict() == {"2014-01": 744, "2014-02": 672}
