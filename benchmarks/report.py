"""Figures as JSON and as Markdown tables."""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.runner import Entry, Result, Spread

BEGIN, END = "<!-- figures -->\n", "<!-- end of figures -->"
"""Lines of a page between which figures are written."""

PACKAGES = ("numpy", "scipy", "pyarrow", "scikit-learn", "duckdb", "polars")


def section(result: Result) -> str:
    """One case as a Markdown section: a table of its implementations, then its targets."""
    case = result.case
    lines = [
        f"### {case.name}",
        "",
        f"{case.title}; {_conditions(result)}.",
        "",
        f"| implementation | median | range | processor time | ratio to {case.baseline.name} |",
        "|---|--:|--:|--:|--:|",
        *(_row(result, name, entry) for name, entry in result.entries.items()),
        "",
    ]
    for target in case.targets:
        ratio = result.ratio(target.implementation, target.against)
        verdict = {True: "met", False: "missed", None: "not measured"}[result.meets(target)]
        limit = f"{target.implementation} ≤ {target.limit:g} × {target.against}"
        lines += [f"Target: {limit}: {_ratio(ratio)}, {verdict}.", ""]
    return "\n".join(lines)


def _conditions(result: Result) -> str:
    before, after = result.load
    rows = f"{result.rows:,} rows, " if result.rows else ""
    return f"{rows}{result.rounds} rounds, load average {before:.1f} before and {after:.1f} after"


def _row(result: Result, name: str, entry: Entry) -> str:
    if not entry.is_valid:
        return f"| {name} | rejected: {entry.rejected} | | | |"
    figures, unit = Spread.of(entry.figures), result.case.unit
    cells = [
        name,
        amount(figures.median, unit),
        f"{amount(figures.minimum, unit)} to {amount(figures.maximum, unit)}",
        amount(Spread.of(entry.cpu_seconds).median, "s"),
        _ratio(result.ratio_to_baseline(name)),
    ]
    return "| " + " | ".join(cells) + " |"


def _ratio(ratio: Spread | None) -> str:
    if ratio is None:
        return "none"
    return f"{ratio.median:.2f} ({ratio.minimum:.2f} to {ratio.maximum:.2f})"


def amount(value: float, unit: str) -> str:
    """A figure with its unit, to three digits; short times in milliseconds."""
    if unit.endswith("s") and value < 0.1:
        return f"{value * 1e3:.3g} {unit[:-1]}ms"
    return f"{value:.0f} {unit}" if value >= 100.0 else f"{value:.3g} {unit}"


def write(results: Sequence[Result], out: Path) -> None:
    """Write ``benchmarks.json`` and ``benchmarks.md``."""
    out.mkdir(parents=True, exist_ok=True)
    about = environment()
    document = {**about, "cases": [to_dict(result) for result in results]}
    (out / "benchmarks.json").write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    machine = about["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    hardware = f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gb']} GB"
    head = [f"{about['date'][:10]}; {hardware}; {versions}.", ""]
    sections = [section(result) for result in results]
    (out / "benchmarks.md").write_text("\n".join([*head, *sections]), encoding="utf-8")


def update_page(page: Path, figures: str) -> None:
    """Replace the text between the lines `BEGIN` and `END` of a page.

    Raises:
        ValueError: if the page lacks one of the lines.
    """
    text = page.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{page} lacks the lines {BEGIN!r} and {END!r}.")
    page.write_text(f"{before}{begin}\n{figures.strip()}\n\n{end}{after}", encoding="utf-8")


def environment() -> dict[str, Any]:
    """The date, the machine and the versions of packages."""
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
    cpu_info = Path("/proc/cpuinfo")
    if cpu_info.exists():
        for line in cpu_info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def to_dict(result: Result) -> dict[str, Any]:
    """All figures of a case as JSON values."""
    case = result.case
    return {
        "name": case.name,
        "title": case.title,
        "rows": result.rows,
        "rounds": result.rounds,
        "unit": case.unit,
        "load": list(result.load),
        "baseline": case.baseline.name,
        "implementations": [
            {
                "name": name,
                "description": entry.implementation.description,
                "is_baseline": entry.implementation.is_baseline,
                "figures": entry.figures,
                "cpu_seconds": entry.cpu_seconds,
                "median": Spread.of(entry.figures).median if entry.is_valid else None,
                "ratio_to_baseline": _spread(result.ratio_to_baseline(name)),
                "rejected": entry.rejected,
            }
            for name, entry in result.entries.items()
        ],
        "targets": [
            {
                "implementation": target.implementation,
                "against": target.against,
                "limit": target.limit,
                "ratio": _spread(result.ratio(target.implementation, target.against)),
                "met": result.meets(target),
            }
            for target in case.targets
        ],
    }


def _spread(spread: Spread | None) -> dict[str, float] | None:
    return None if spread is None else vars(spread)
