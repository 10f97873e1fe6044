"""Each promise names a test, which another file checks."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def test_every_promise_names_a_test() -> None:
    tables = re.findall(r"^\| promise .*\n\|---.*\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    promises = "".join(tables).splitlines()
    assert len(promises) >= 20
    for promise in promises:
        assert re.search(r"`tests/[\w/]+\.py::[tT]est\w+`", promise), f"without a test: {promise}"
