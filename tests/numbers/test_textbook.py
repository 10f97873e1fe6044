"""The textbook's examples: the notebook fails if a computed number differs from the printed one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

NOTEBOOK = Path(__file__).parents[2] / "docs" / "notebooks" / "textbook.ipynb"


def test_the_printed_numbers_of_the_textbook_are_computed() -> None:
    names: dict[str, Any] = {}
    for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]:
        code = "".join(line for line in cell["source"] if not line.startswith("%"))
        if cell["cell_type"] == "code":
            exec(code, names)
    assert "by_word" in names, "the last cell was run"
