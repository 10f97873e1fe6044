"""What was injected, what happened, and how often: collected by tests, and printed as a table.

``python fault_report.py <folder>`` prints what the tests have recorded in the folder that
``PROBCLASS_FAULTS`` names; ``make faults`` does both.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path


def record(fault: str, happened: str, figure: str) -> None:
    """Record what happened to a fault; a later record of the same fault replaces it."""
    sys.stdout.write(f"{fault}: {happened} ({figure})\n")
    if folder := os.environ.get("PROBCLASS_FAULTS"):
        name = hashlib.sha256(fault.encode()).hexdigest()[:16]
        Path(folder).mkdir(parents=True, exist_ok=True)
        row = json.dumps([fault, happened, figure])
        (Path(folder) / f"{name}.json").write_text(row, encoding="utf-8")


def table(folder: Path) -> str:
    """Return the records of a folder as a table in Markdown."""
    rows = sorted(json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*.json"))
    lines = [("fault", "what happened", "figure"), ("---", "---", "---"), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    sys.stdout.write(table(Path(sys.argv[1])))
