"""What was injected, what happened, and how often: collected by tests, and printed as a table.

``make faults`` runs ``python tests/tables/fault_report.py FOLDER``, which prints what the tests
have recorded in the folder that ``PROBCLASS_FAULTS`` names.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path


def record(fault: str, where: str, happened: str, figure: str) -> None:
    """Record what a fault led to in a format; it replaces an earlier record of the same fault."""
    sys.stdout.write(f"{where}, {fault}: {happened} ({figure})\n")
    if folder := os.environ.get("PROBCLASS_FAULTS"):
        name = hashlib.sha256(f"{fault}, {where}".encode()).hexdigest()[:16]
        Path(folder).mkdir(parents=True, exist_ok=True)
        row = json.dumps([fault, where, happened, figure])
        (Path(folder) / f"{name}.json").write_text(row, encoding="utf-8")


def table(folder: Path) -> str:
    """Return the records of a folder as a table in Markdown; formats that are alike share a row."""
    alike: dict[tuple[str, str, str], list[str]] = {}
    for path in folder.glob("*.json"):
        fault, where, happened, figure = json.loads(path.read_text(encoding="utf-8"))
        alike.setdefault((fault, happened, figure), []).append(where)
    rows = sorted(
        (fault, ", ".join(sorted(where)), happened, figure)
        for (fault, happened, figure), where in alike.items()
    )
    lines = [("fault", "where", "what happened", "figure"), ("---",) * 4, *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    sys.stdout.write(table(Path(sys.argv[1])))
