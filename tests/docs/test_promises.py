"""Each promise names a test, which another file checks, and each fault is run by `make faults`."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "promises.md").read_text(encoding="utf-8")


def test_every_promise_names_a_test() -> None:
    tables = re.findall(r"^\| promise .*\n\|---.*\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    promises = "".join(tables).splitlines()
    assert len(promises) >= 20
    for promise in promises:
        assert re.search(r"`tests/[\w/]+\.py::test_\w+`", promise), f"without a test: {promise}"


def test_every_file_of_tests_that_records_faults_is_run_by_make_faults() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    recorders = [
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "tests").rglob("test_*.py")
        if "\nfrom fault_report import record\n" in path.read_text(encoding="utf-8")
    ]
    assert recorders
    assert [path for path in recorders if path not in makefile] == []
