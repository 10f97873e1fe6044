"""Figures as JSON for machines and as Markdown tables for readers."""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.contest import Entry, Result, Spread

PACKAGES = ("numpy", "scipy", "pyarrow", "scikit-learn", "duckdb", "polars")


def section(result: Result) -> str:
    """One case as a Markdown section: a table of its contestants, then its bars."""
    case = result.case
    lines = [
        f"### {case.name}",
        "",
        f"{case.title}; {_circumstances(result)}.",
        "",
        f"| contestant | median | least to most | processor time | ratio to {case.floor.name} |",
        "|---|--:|--:|--:|--:|",
        *(_row(result, name, entry) for name, entry in result.entries.items()),
        "",
    ]
    for bar in case.bars:
        ratio = result.ratio(bar.contestant, bar.against)
        verdict = {True: "met", False: "missed", None: "not measured"}[result.clears(bar)]
        lines += [
            f"Bar: {bar.contestant} ≤ {bar.limit:g} × {bar.against}: {_ratio(ratio)}, {verdict}.",
            "",
        ]
    return "\n".join(lines)


def _circumstances(result: Result) -> str:
    before, after = result.load
    rows = f"{result.rows:,} rows, " if result.rows else ""
    return f"{rows}{result.rounds} rounds, load average {before:.1f} before and {after:.1f} after"


def _row(result: Result, name: str, entry: Entry) -> str:
    if not entry.counts:
        return f"| {name} | rejected: {entry.rejected} | | | |"
    figures, unit = Spread.of(entry.figures), result.case.unit
    cells = [
        name,
        amount(figures.median, unit),
        f"{amount(figures.least, unit)} to {amount(figures.largest, unit)}",
        amount(Spread.of(entry.cpu_seconds).median, "s"),
        _ratio(result.to_floor(name)),
    ]
    return "| " + " | ".join(cells) + " |"


def _ratio(ratio: Spread | None) -> str:
    if ratio is None:
        return "none"
    return f"{ratio.median:.2f} ({ratio.least:.2f} to {ratio.largest:.2f})"


def amount(value: float, unit: str) -> str:
    """With its unit, to three digits; short times in milliseconds."""
    if unit == "s" and value < 0.1:
        return f"{value * 1e3:.3g} ms"
    return f"{value:.0f} {unit}" if value >= 100.0 else f"{value:.3g} {unit}"


def write(results: Sequence[Result], out: Path) -> None:
    """``benchmarks.json`` and ``benchmarks.md``."""
    out.mkdir(parents=True, exist_ok=True)
    about = surroundings()
    document = {**about, "cases": [as_dict(result) for result in results]}
    (out / "benchmarks.json").write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    machine = about["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    hardware = f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gb']} GB"
    head = [f"{about['date'][:10]}; {hardware}; {versions}.", ""]
    sections = [section(result) for result in results]
    (out / "benchmarks.md").write_text("\n".join([*head, *sections]), encoding="utf-8")


def surroundings() -> dict[str, Any]:
    """Date, machine and versions."""
    import probclass_core

    versions = {"Python": platform.python_version(), "probclass": probclass_core.__version__}
    for package in PACKAGES:
        versions[package] = importlib.metadata.version(package)
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": {
            "processor": _processor(),
            "cores": os.cpu_count(),
            "memory_gb": round(memory / 1e9),
            "system": platform.platform(),
        },
        "versions": versions,
    }


def _processor() -> str:
    described = Path("/proc/cpuinfo")
    if described.exists():
        for line in described.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def as_dict(result: Result) -> dict[str, Any]:
    """Every figure of a case as plain JSON values."""
    case = result.case
    return {
        "name": case.name,
        "title": case.title,
        "rows": result.rows,
        "rounds": result.rounds,
        "unit": case.unit,
        "load": list(result.load),
        "floor": case.floor.name,
        "contestants": [
            {
                "name": name,
                "does": entry.contestant.does,
                "is_floor": entry.contestant.is_floor,
                "figures": entry.figures,
                "cpu_seconds": entry.cpu_seconds,
                "median": Spread.of(entry.figures).median if entry.counts else None,
                "ratio_to_floor": _spread(result.to_floor(name)),
                "rejected": entry.rejected,
            }
            for name, entry in result.entries.items()
        ],
        "bars": [
            {
                "contestant": bar.contestant,
                "against": bar.against,
                "limit": bar.limit,
                "ratio": _spread(result.ratio(bar.contestant, bar.against)),
                "met": result.clears(bar),
            }
            for bar in case.bars
        ],
    }


def _spread(spread: Spread | None) -> dict[str, float] | None:
    return None if spread is None else vars(spread)
