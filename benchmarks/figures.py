"""The figures of the last recorded run of each case, one JSON file per case.

What a file lacks (titles, units, targets) is in the case itself. Medians, ratios and verdicts are
computed from the figures whenever they are shown.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.case import Case
from benchmarks.environment import Environment
from benchmarks.runner import Entry, Result

FOLDER = Path(__file__).parent / "figures"
DIGITS = 4
"""Significant digits of a stored figure."""


class FiguresError(ValueError):
    """Stored figures that a page needs are missing, or do not fit the cases."""


def store(result: Result, folder: Path) -> None:
    """Replace the figures of a case."""
    folder.mkdir(parents=True, exist_ok=True)
    text = _lines(to_record(result)) + "\n"
    (folder / f"{result.case.name}.json").write_text(text, encoding="utf-8")


def load(folder: Path, cases: Iterable[Case[Any]]) -> dict[str, Result]:
    """The stored figures by name of the case, in the order of the cases.

    Raises:
        FiguresError: if a file belongs to no case, or its unit is not that of its case.
    """
    files = {path.stem: path for path in folder.glob("*.json")}
    results = {}
    for case in cases:
        if path := files.pop(case.name, None):
            results[case.name] = from_record(case, json.loads(path.read_text(encoding="utf-8")))
    if files:
        raise FiguresError(f"{folder} has figures of no case; remove {', '.join(sorted(files))}.")
    return results


def to_record(result: Result) -> dict[str, Any]:
    """The figures of a case as JSON values."""
    return {
        **asdict(result.environment),
        "rows": result.rows,
        "rounds": result.rounds,
        "unit": result.case.unit,
        "load": [round(load, 1) for load in result.load],
        "implementations": {
            name: {"rejected": entry.rejected}
            if entry.rejected
            else {
                "figures": _rounded(entry.figures),
                "cpu_seconds": _rounded(entry.cpu_seconds),
            }
            for name, entry in result.entries.items()
        },
    }


def from_record(case: Case[Any], record: dict[str, Any]) -> Result:
    """The figures that `to_record` gave, of the implementations that the case still has.

    Raises:
        FiguresError: if the figures have another unit than the case.
    """
    if record["unit"] != case.unit:
        raise FiguresError(
            f"the figures of {case.name} are in {record['unit']}, and the case measures "
            f"{case.unit}; run `python -m benchmarks {case.name} --record`."
        )
    entries = {
        name: Entry(implementation, **record["implementations"][name])
        for name, implementation in case.implementations.items()
        if name in record["implementations"]
    }
    about = Environment(record["date"], record["machine"], record["versions"])
    before, after = record["load"]
    return Result(case, record["rows"], record["rounds"], entries, (before, after), about)


def _rounded(figures: Iterable[float]) -> list[float]:
    return [float(f"{figure:.{DIGITS}g}") for figure in figures]


def _lines(value: Any, indent: str = "") -> str:
    """JSON with sorted keys and one line per key; lists are on one line."""
    if not isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    inner = f"{indent} "
    lines = (f"{inner}{json.dumps(key)}: {_lines(value[key], inner)}" for key in sorted(value))
    return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
