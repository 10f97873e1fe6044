"""``python -m benchmarks.pages``: write the stored figures into the pages of the documentation.

Comments of a page mark its figures. Sections and tables are between two lines::

    <!-- figures: retrain knn_* -->           the sections of the cases
    <!-- figures: targets of train_* -->      what the targets of the cases ask and get
    <!-- figures: matrix of layout_* -->      ratios of works and layouts, the median and the worst
    <!-- figures: environments -->            when and on which machines all figures were measured
    <!-- end of figures -->

A figure in a sentence follows a comment that names the case and what is quoted::

    <!-- retrain: probclass, one new day -->54 ms
    <!-- retrain: probclass, one new day / every day read -->0.04
    <!-- retrain: probclass, one new day / every day read, range -->0.03 to 0.07

They are the median, the median of the ratios, and the range of the rounds; ``, processor time`` at
the end quotes processor time instead.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from fnmatch import fnmatch
from functools import partial
from pathlib import Path

from benchmarks import figures
from benchmarks.cases import all_cases
from benchmarks.figures import FiguresError
from benchmarks.report import amount, environments, matrix, section, targets, times
from benchmarks.runner import Result, Spread

DOCS = Path(__file__).parents[1] / "docs"

_END = "<!-- end of figures -->"
_REGION = re.compile(rf"(<!-- figures: (.+) -->\n)(?:(?s:[^<]|<(?!!-- ))*)({_END})?")
_NUMBER = r"\d+(?:,\d{3})*(?:\.\d+)?(?: (?:CPU )?(?:s|ms|MB)\b)?"
_INLINE = re.compile(rf"(<!-- (\w[\w.]*): (.+?) -->)({_NUMBER}(?: to {_NUMBER})?)?")


def stored() -> dict[str, Result]:
    """The stored figures of all cases."""
    return figures.load(figures.FOLDER, (case for _, case in all_cases()))


def with_figures(text: str, results: Mapping[str, Result]) -> str:
    """The text of a page with the figures of these results.

    Raises:
        FiguresError: if a comment names figures that are not stored, or no figure follows it.
    """

    def region(match: re.Match[str]) -> str:
        begin, content, end = match.groups()
        if end is None:
            raise FiguresError(f"no line {_END} follows {begin.strip()}")
        return f"{begin}\n{_region(content, results).strip()}\n\n{end}"

    def inline(match: re.Match[str]) -> str:
        comment, case, expression, figure = match.groups()
        if case == "figures":
            return match[0]
        if not match.string[: match.start()].rpartition("\n")[2].strip():
            raise FiguresError(f"{comment} begins a line, which ends the paragraph before")
        if figure is None:
            raise FiguresError(f"no figure follows {comment}")
        return comment + _quoted(_result(case, results), expression)

    return _INLINE.sub(inline, _REGION.sub(region, text))


def write_pages(results: Mapping[str, Result], docs: Path) -> list[Path]:
    """Write the figures into every page of a folder; return the pages that changed.

    Raises:
        FiguresError: as `with_figures`, with the name of the page.
    """
    changed = []
    for page in sorted(docs.glob("*.md")):
        text = page.read_text(encoding="utf-8")
        try:
            written = with_figures(text, results)
        except FiguresError as error:
            raise FiguresError(f"{page.name}: {error}") from None
        if written != text:
            page.write_text(written, encoding="utf-8")
            changed.append(page)
    return changed


def _region(content: str, results: Mapping[str, Result]) -> str:
    if content == "environments":
        return environments(results.values())
    show, _, patterns = content.rpartition(" of ")
    shown = []
    for pattern in patterns.split():
        matching = [result for name, result in results.items() if fnmatch(name, pattern)]
        if not matching:
            raise _missing(pattern)
        shown += matching
    tables = {"targets": targets, "matrix": matrix}
    return tables[show](shown) if show in tables else "\n".join(map(section, shown))


def _result(name: str, results: Mapping[str, Result]) -> Result:
    if name not in results:
        raise _missing(name)
    return results[name]


def _missing(name: str) -> FiguresError:
    return FiguresError(
        f"no figures of {name} are stored; run `python -m benchmarks '{name}' --record`."
    )


def _quoted(result: Result, expression: str) -> str:
    """The figure that a comment names."""
    names, *options = re.split(r", (?=range$|range, |processor time$)", expression)
    cpu = "processor time" in options
    name, _, against = names.partition(" / ")
    for each in filter(None, (name, against)):
        if each not in result.entries or not result.entries[each].is_valid:
            raise FiguresError(f"{result.case.name} has no figures of {each!r}")
    entry = result.entries[name]
    show: Callable[[float], str] = times
    spread = result.ratio(name, against, cpu=cpu)
    if spread is None:
        spread = Spread.of(entry.cpu_seconds if cpu else entry.figures)
        show = partial(amount, unit="s" if cpu else result.case.unit)
    if "range" in options:
        return f"{show(spread.minimum)} to {show(spread.maximum)}"
    return show(spread.median)


def main() -> int:
    """Write the pages; return 1 if a figure is missing, else 0."""
    try:
        changed = write_pages(stored(), DOCS)
    except FiguresError as error:
        print(error, file=sys.stderr)
        return 1
    for page in changed:
        print(f"Written: {page.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
