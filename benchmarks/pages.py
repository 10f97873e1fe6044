"""``python -m benchmarks.pages``: write the pages of figures from templates and stored figures.

A template in templates/ is a page with lines in braces, each of which a table replaces::

    {section retrain}               the implementations of a case
    {side_by_side knn_*}            the implementations of several cases
    {targets train_* retrain}       what the targets of the cases ask and get
    {partitions}                    the figures of partitions.py; so for scale.py and others
    {accuracy matrix ece real}      a table of accuracy/
    {measured partitions}           day, machine and versions of these figures
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from fnmatch import fnmatch
from pathlib import Path

from benchmarks import anomalies, figures, partitions, report, scale
from benchmarks.accuracy import report as accuracy
from benchmarks.cases import all_cases
from benchmarks.figures import FiguresError
from benchmarks.runner import Result
from benchmarks.years import results as years

TEMPLATES = Path(__file__).parent / "templates"
DOCS = Path(__file__).parents[1] / "docs"
WRITTEN = "<!-- written by `make figures` from benchmarks/templates/{name} -->"

_PLACE = re.compile(r"^\{(\w+)(?: (.+))?\}$", re.MULTILINE)

CASES: Mapping[str, Callable[[list[Result]], str]] = {
    "section": report.section,
    "side_by_side": report.side_by_side,
    "matrix": report.matrix,
    "targets": report.targets,
    "environments": report.environments,
}
"""The tables of cases, by name."""

SUBJECTS: Mapping[str, Callable[..., str]] = {
    "accuracy": accuracy.page,
    "anomalies": anomalies.table,
    "partitions": partitions.table,
    "scale": scale.table,
    "years": years.table,
}
"""The tables of other figures, by the name of these."""


def written(template: Path) -> str:
    """The page of a template.

    Raises:
        FiguresError: if figures of a place are not stored.
    """

    def place(match: re.Match[str]) -> str:
        name, words = match[1], (match[2] or "").split()
        if name in CASES:
            return CASES[name](_matching(words))
        if name == "measured":
            return figures.measured(figures.recorded(words[0]))
        return SUBJECTS[name](figures.recorded(name), *words)

    title, _, rest = template.read_text(encoding="utf-8").partition("\n")
    head = f"{title}\n\n{WRITTEN.format(name=template.name)}\n"
    return head + _PLACE.sub(place, rest)


def _matching(patterns: list[str]) -> list[Result]:
    results, matching = figures.load(case for _, case in all_cases()), []
    for pattern in patterns:
        found = [result for name, result in results.items() if fnmatch(name, pattern)]
        if not found:
            raise FiguresError(
                f"no figures of {pattern} are stored; run `python -m benchmarks '{pattern}' "
                "--record`."
            )
        matching += found
    return matching


def main() -> int:
    """Write the pages; return 1 if a figure is missing, else 0."""
    for template in sorted(TEMPLATES.glob("*.md")):
        try:
            page = written(template)
        except FiguresError as error:
            print(f"{template.name}: {error}", file=sys.stderr)
            return 1
        (DOCS / template.name).write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
