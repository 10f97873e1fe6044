"""Results as Markdown tables."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchmarks.case import OURS, Target
from benchmarks.runner import Entry, Result, Spread

VERDICTS = {True: "met", False: "missed", None: "not measured"}


def table(header: Sequence[str], rows: Iterable[Sequence[str]], words: int = 1) -> str:
    """A Markdown table whose columns are aligned right, except for the first, which are words."""
    aligned = ["---"] * words + ["--:"] * (len(header) - words)
    return "\n".join(
        [f"| {' | '.join(header)} |", f"|{'|'.join(aligned)}|"]
        + [f"| {' | '.join(row)} |" for row in rows]
    )


def section(results: Sequence[Result]) -> str:
    """The implementations of some cases, with ratios to the first baseline of each case."""
    rows = []
    for result in results:
        size = f", {result.rows:,} rows" if result.rows else ""
        title = f"`{result.case.name}`{size}"
        for name, entry in result.entries.items():
            rows.append([title, _name(name), *_figures(result, name, entry)])
            title = ""
    return table(["case", "implementation", "median", "processor time", "ratio"], rows, words=2)


def _figures(result: Result, name: str, entry: Entry) -> list[str]:
    if not entry.is_valid:
        return [f"rejected: {entry.rejected}", "", ""]
    return [
        amount(entry.median, result.case.unit),
        amount(statistics.median(entry.cpu_seconds), "s"),
        _ratio(result.ratio_to_baseline(name)),
    ]


def _name(name: str) -> str:
    return f"**{name}**" if name.startswith(OURS) else name


def side_by_side(results: Sequence[Result]) -> str:
    """Cases of similar implementations: the median of each, and its ratio to the baseline."""
    names = dict.fromkeys(name for result in results for name in result.entries)
    header = ["implementation", *(f"`{result.case.name}`" for result in results)]
    return table(
        header, ([_name(name), *(_cell(each, name) for each in results)] for name in names)
    )


def _cell(result: Result, name: str) -> str:
    entry, ratio = result.entries.get(name), result.ratio_to_baseline(name)
    if entry is None or ratio is None:
        return "–" if entry is None else "rejected"
    return f"{amount(entry.median, result.case.unit)} ({times(ratio.median)})"


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
    """How many targets are met, and what each case asks and gets."""
    verdicts, rows = [], []
    for result in results:
        lines = []
        for target in result.case.targets:
            verdict = VERDICTS[result.meets(target)]
            ours = "" if target.implementation == OURS else f"{target.implementation} "
            limit = f"{ours}≤ {target.limit:.3g} × {' or '.join(target.rivals)}"
            lines.append(f"{limit}: {_ratio(result.ratio_of(target))}, {verdict}")
            verdicts.append(verdict)
        if lines:
            rows.append([f"`{result.case.name}`", "; ".join(lines)])
    met = f"Met: {verdicts.count('met')} of {len(verdicts)} targets."
    return f"{met}\n\n{table(['case', 'target'], rows, words=2)}"


def matrix(results: Sequence[Result]) -> str:
    """The ratios that targets limit, by work and layout; bold if above the limit.

    The name of a case ends with a dot and the name of its layout, its title with a colon and the
    layout in words.
    """
    columns: dict[tuple[str, Target], dict[str, float]] = {}
    layouts: dict[str, None] = {}
    for result in results:
        work, layout = result.case.name.partition(".")[0], result.case.title.partition(": ")[2]
        layouts.setdefault(layout)
        for target in result.case.targets:
            if ratio := result.ratio_of(target):
                columns.setdefault((work, target), {})[layout] = ratio.median

    def cell(target: Target, ratios: Mapping[str, float], layout: str) -> str:
        if layout not in ratios:
            return "–"
        bold = "**" if ratios[layout] > target.limit else ""
        return f"{bold}{times(ratios[layout])}{bold}"

    titles = [f"`{work.partition('_')[2]}` / {' / '.join(t.rivals)}" for work, t in columns]
    limits = [f"{target.limit:g}" for _, target in columns]
    met = [
        f"{sum(ratio <= target.limit for ratio in ratios.values())} of {len(ratios)}"
        for (_, target), ratios in columns.items()
    ]
    medians = [times(statistics.median(ratios.values())) for ratios in columns.values()]
    rows = [["at most", *limits], ["met", *met], ["median", *medians]] + [
        [layout, *(cell(target, ratios, layout) for (_, target), ratios in columns.items())]
        for layout in layouts
    ]
    size = f"{len(results):,} cases of {_extremes(result.rows for result in results)} rows:"
    return f"{size}\n\n{table(['layout', *titles], rows)}"
