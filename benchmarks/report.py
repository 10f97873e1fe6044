"""Results as Markdown."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.case import OURS, Target
from benchmarks.runner import Entry, Result, Spread

BEGIN, END = "<!-- figures -->\n", "<!-- end of figures -->"
"""Lines of a page between which figures are written."""

VERDICTS = {True: "met", False: "missed", None: "not measured"}


def section(result: Result) -> str:
    """One case: where it was measured, a table of its implementations, and its targets."""
    case = result.case
    lines = [
        f"**{case.title[0].upper()}{case.title[1:]}** (`{case.name}`): {_conditions(result)}.",
        "",
        f"| implementation | median | range | processor time | ratio to {case.baseline.name} |",
        "|---|--:|--:|--:|--:|",
        *(_row(result, name, entry) for name, entry in result.entries.items()),
        "",
    ]
    for target in case.targets:
        ratio, verdict = _ratio(result.ratio_of(target)), VERDICTS[result.meets(target)]
        lines += [f"Target: {_limit(target)}: {ratio}, {verdict}.", ""]
    return "\n".join(lines)


def _conditions(result: Result) -> str:
    before, after = result.load
    rows = f"{result.rows:,} rows, " if result.rows else ""
    load = f"load average {before:.1f} before and {after:.1f} after"
    return f"{rows}{result.rounds} rounds, {result.environment.date}, {load}"


def _row(result: Result, name: str, entry: Entry) -> str:
    if not entry.is_valid:
        return f"| {name} | rejected: {entry.rejected} | | | |"
    figures, unit = Spread.of(entry.figures), result.case.unit
    cells = [
        f"**{name}**" if name.startswith(OURS) else name,
        amount(figures.median, unit),
        f"{amount(figures.minimum, unit)} to {amount(figures.maximum, unit)}",
        amount(Spread.of(entry.cpu_seconds).median, "s"),
        _ratio(result.ratio_to_baseline(name)),
    ]
    return "| " + " | ".join(cells) + " |"


def _limit(target: Target) -> str:
    *others, last = target.rivals
    against = f"the fastest of {', '.join(others)} and {last}" if others else last
    return f"{target.implementation} ≤ {target.limit:.3g} × {against}"


def _ratio(ratio: Spread | None) -> str:
    if ratio is None:
        return "none"
    median, low, high = map(times, (ratio.median, ratio.minimum, ratio.maximum))
    return f"{median} ({low} to {high})"


def times(ratio: float) -> str:
    """A ratio to two decimals, or to three digits if it is large."""
    return f"{ratio:.2f}" if ratio < 10.0 else f"{ratio:.3g}"


def amount(value: float, unit: str) -> str:
    """A figure with its unit, to three digits; short times in milliseconds."""
    if unit.endswith("s") and value < 0.1:
        return f"{value * 1e3:.3g} {unit[:-1]}ms"
    return f"{value:.0f} {unit}" if value >= 100.0 else f"{value:.3g} {unit}"


def environments(results: Iterable[Result]) -> str:
    """Each machine with its versions, with the days of its figures and their cases."""
    groups: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        about = result.environment
        groups.setdefault((about.machine, about.software), []).append(result)
    lines = []
    for (machine, software), measured in groups.items():
        count = f"{len(measured)} case{'s' if len(measured) > 1 else ''}"
        days = _extremes(result.environment.date for result in measured)
        rounds = _extremes(result.rounds for result in measured)
        loads = _extremes(load for result in measured for load in result.load)
        lines.append(
            f"- {days}, {count} of {rounds} rounds: {machine}; load average {loads}; {software}."
        )
    return "\n".join(lines)


def _extremes(values: Iterable[Any]) -> str:
    """The least and the greatest value, or the value if all are equal."""
    ordered = sorted(values)
    shown = (f"{value:,}" if isinstance(value, int) else str(value) for value in ordered)
    return " to ".join(dict.fromkeys([*shown][:: max(len(ordered) - 1, 1)]))


def targets(results: Iterable[Result]) -> str:
    """How many targets are met, and a table of all of them."""
    verdicts, lines = [], ["| case | target | ratio | |", "|---|---|--:|---|"]
    for result in results:
        for target in result.case.targets:
            verdict = VERDICTS[result.meets(target)]
            ratio = _ratio(result.ratio_of(target))
            verdicts.append(verdict)
            lines.append(f"| `{result.case.name}` | {_limit(target)} | {ratio} | {verdict} |")
    return "\n".join([f"Met: {verdicts.count('met')} of {len(verdicts)} targets.", "", *lines])


def matrix(results: Sequence[Result]) -> str:
    """The ratios of works and layouts: the median and the worst over all layouts, and each of them.

    The name of a case ends with a dot and the name of its layout, its title with a colon and the
    layout in words.
    """
    columns: dict[tuple[str, float], _Column] = {}
    layouts: dict[str, None] = {}
    for result in results:
        case = result.case
        work, layout = case.name.partition(".")[0], case.title.partition(": ")[2]
        layouts.setdefault(layout)
        asked = {target.rivals: target for target in case.targets}
        baseline = Target(math.inf, case.baseline.name)
        for rivals, target in ({baseline.rivals: baseline} | asked).items():
            title = f"`{work.removeprefix('layout_')}`, {' / '.join(rivals)}"
            column = columns.setdefault((work, target.limit), _Column(title, target.limit))
            rival = result.rival(target)
            wall = result.ratio_of(target)
            if rival is not None and wall is not None:
                cpu = result.ratio(target.implementation, rival, cpu=True)
                column.wall[layout] = wall.median
                column.cpu[layout] = math.nan if cpu is None else cpu.median
    rows, rounds = (
        _extremes(each.rows for each in results),
        _extremes(each.rounds for each in results),
    )
    lines = [
        f"{len(results):,} cases of {rows} rows, {rounds} rounds:",
        "",
        "| work, against the fastest of | at most | met | median | worst | layout of the worst |",
        "|---|--:|--:|--:|--:|---|",
        *(f"| {column.title} | {column.summary} |" for column in columns.values()),
        "",
        f"| layout | {' | '.join(column.title for column in columns.values())} |",
        "|---|" + "--:|" * len(columns),
    ]
    for layout in layouts:
        cells = " | ".join(column.cell(layout) for column in columns.values())
        lines.append(f"| {layout} | {cells} |")
    return "\n".join(lines)


@dataclass
class _Column:
    """The ratios of a work to the implementations of a target.

    Attributes:
        title: the work and the implementations, of which the first case has all.
        limit: largest ratio that meets the target, infinite if there is none.
        wall: ratio of wall times by layout.
        cpu: ratio of processor times by layout.
    """

    title: str
    limit: float
    wall: dict[str, float] = field(default_factory=dict)
    cpu: dict[str, float] = field(default_factory=dict)

    @property
    def summary(self) -> str:
        """Limit, number of layouts that meet it, median, worst, and the layout of the worst."""
        worst = max(self.wall, key=lambda layout: self.wall[layout])
        limit, met = "–", "–"
        if math.isfinite(self.limit):
            count = sum(ratio <= self.limit for ratio in self.wall.values())
            limit, met = f"{self.limit:g}", f"{count} of {len(self.wall)}"
        median = statistics.median(self.wall.values())
        return f"{limit} | {met} | {times(median)} | {times(self.wall[worst])} | {worst}"

    def cell(self, layout: str) -> str:
        """The ratios of wall and of processor time; bold if above the limit."""
        if layout not in self.wall:
            return "–"
        bold = "**" if self.wall[layout] > self.limit else ""
        return f"{bold}{times(self.wall[layout])}{bold} ({times(self.cpu[layout])})"


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
