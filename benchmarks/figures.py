"""Figures of the last recorded run of each case, and of each other subject.

A case NAME is stored in ``figures/cases/NAME.json``; the scale, the partitions and other subjects
are stored in ``figures/NAME.json``. What a file lacks (titles, units, targets) is in the code.
Medians, ratios and verdicts are computed from the figures whenever they are shown.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.case import Case
from benchmarks.environment import Environment, environment
from benchmarks.runner import Entry, Result

FOLDER = Path(__file__).parent / "figures"
DIGITS = 5
"""Significant digits of a stored figure."""


class FiguresError(ValueError):
    """Stored figures that a page needs are missing, or do not fit the cases."""


def record(name: str, figures: Mapping[str, Any]) -> None:
    """Replace the figures of a subject, with the environment in which they were measured."""
    _write(name, {**asdict(environment()), **figures})


def recorded(name: str) -> dict[str, Any]:
    """The figures of a subject, with their environment.

    Raises:
        FiguresError: if there are none.
    """
    path = FOLDER / f"{name}.json"
    if not path.exists():
        raise FiguresError(f"no figures of {name} are stored; run `make {name}`.")
    figures: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return figures


def measured(figures: Mapping[str, Any]) -> str:
    """The environment of the figures of a subject, in words."""
    about = Environment(figures["date"], figures["machine"], figures["versions"])
    return f"Measured on {about.date}: {about.machine}; {about.software}."


def store(result: Result) -> None:
    """Replace the figures of a case."""
    _write(f"cases/{result.case.name}", to_record(result))


def load(cases: Iterable[Case[Any]]) -> dict[str, Result]:
    """The stored figures by name of the case, in the order of the cases.

    Raises:
        FiguresError: if a file belongs to no case, or its unit is not that of its case.
    """
    folder = FOLDER / "cases"
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
        "load": result.load,
        "implementations": {
            name: {"rejected": entry.rejected}
            if entry.rejected
            else {"figures": entry.figures, "cpu_seconds": entry.cpu_seconds}
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


def _write(name: str, figures: Mapping[str, Any]) -> None:
    path = FOLDER / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_lines(_rounded(figures)) + "\n", encoding="utf-8")


def _rounded(value: Any) -> Any:
    """The value with `DIGITS` significant digits of each number that is not whole."""
    if isinstance(value, Mapping):
        return {key: _rounded(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(each) for each in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def _lines(value: Any, indent: str = "") -> str:
    """JSON with sorted keys and one line per key; lists are on one line."""
    if not isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    inner = f"{indent} "
    lines = (f"{inner}{json.dumps(key)}: {_lines(value[key], inner)}" for key in sorted(value))
    return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
