"""Each promise names a test, which `test_contributor_pages` checks, and each fault is recorded."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "promises.md").read_text(encoding="utf-8")


def test_every_promise_names_a_test() -> None:
    rows = [line for line in PAGE.partition("## Next to others")[0].splitlines() if "|" in line]
    promises = [row for row in rows if not row.startswith(("| promise", "|---"))]
    assert len(promises) >= 20
    for promise in promises:
        assert re.search(r"`tests/[\w/]+\.py::test_\w+`", promise), f"without a test: {promise}"


def test_every_fault_of_the_table_is_one_that_a_test_records() -> None:
    table = PAGE.partition("<!-- faults -->")[2].partition("<!-- end of faults -->")[0]
    assert table.strip().startswith("| fault | where | what happened | figure |")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    recorders = [
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "tests").rglob("test_*.py")
        if "\nfrom fault_report import record\n" in path.read_text(encoding="utf-8")
    ]
    assert recorders
    assert [path for path in recorders if path not in makefile] == []
