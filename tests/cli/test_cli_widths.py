"""Reports on narrow terminals: no number and no name is broken, and no line is too long."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from probclass_core.cli.layout import Column, fits, reflowed, tables, wrapped
from probclass_core.demo.lake import lay_out

NUMBERS = ["dew_point", "temperature", "pressure", "log_wind_speed"]
CATEGORIES = {"categorical": ["wind_direction", "hour"]}

ID = re.compile(r"[0-9a-f]{64}$")

REPORTS = {
    "calibrate": "calibrate air@first lake --partition month=2011-01",
    "compare": "compare lake spec.json naive.json --partition month=2010-02",
    "cache": "cache ls",
    "drift": "drift air@first air@second",
    "estimator": "estimators discretized",
    "estimators": "estimators",
    "evaluate": "evaluate air@first lake --partition month=2010-04",
    "explain": "explain air@first lake --partition month=2010-04 --row 3",
    "formats": "table formats",
    "history": "models history air",
    "importance": "importance air@first lake --partition month=2010-04",
    "inspect": "inspect air@first",
    "models": "models",
    "plugins": "estimators --check",
    "table": "table inspect lake",
    "versions": "models air",
}


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A folder with the bundled lake."""
    folder = tmp_path_factory.mktemp("air")
    lay_out(folder / "lake")
    return folder


@pytest.mark.parametrize("width", [80, 60])
def test_every_word_of_a_report_is_whole_on_a_narrow_terminal(
    workplace: Any, probclass: Any, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("PROBCLASS_STORE", "models")  # a short path
    (probclass.folder / "lake").symlink_to(workplace / "lake")
    probclass.spec("air", gaussian_diagonal=NUMBERS, **CATEGORIES).rename("naive.json")
    probclass.spec("air", gaussian_full=NUMBERS, **CATEGORIES)
    fit = "fit lake --spec spec.json --name air --cache"
    probclass.ok(f"{fit} --partition month=2010-03 --alias second")
    reports = {**REPORTS, "fit": f"{fit} --partition month=2010-02 --alias first"}
    # Reports that write come first, so that the second run of each writes nothing new.
    probclass(reports["fit"])
    probclass(reports["calibrate"])
    if width < 80:
        # Long names of modules; and text for Python as well, of 80 columns.
        for name in ("plugins", "explain", "importance"):
            del reports[name]
    broken, too_long = {}, {}
    for name, command in reports.items():
        monkeypatch.delenv("COLUMNS", raising=False)
        whole = probclass(command).out
        monkeypatch.setenv("COLUMNS", str(width))
        narrow = probclass(command).out
        broken[name] = words(whole) - words(narrow)
        lines = [line for line in narrow.splitlines() if len(line) > width]
        too_long[name] = [line for line in lines if not ID.search(line)]
    assert {name: missing for name, missing in broken.items() if missing} == {}
    assert {name: lines for name, lines in too_long.items() if lines} == {}


def words(text: str) -> Counter[str]:
    return Counter(word for word in text.split() if set(word) != {"─"})


texts = st.text("abc é漢 ", max_size=12)


@given(
    cells=st.integers(1, 4).flatmap(
        lambda rows: st.lists(
            st.tuples(st.booleans(), st.lists(texts, min_size=rows, max_size=rows)),
            min_size=1,
            max_size=6,
        )
    ),
    width=st.integers(1, 60),
)
def test_a_table_has_every_word_whole_and_fits_if_it_can(
    cells: list[tuple[bool, list[str]]], width: int
) -> None:
    columns = [Column(f"c {number}", texts, right) for number, (right, texts) in enumerate(cells)]
    lines = printed(tables(columns, width), width)
    shown = words("\n".join(lines))
    assert not words(" ".join(text for column in columns for text in column.cells)) - shown
    if fits(columns, width):
        assert max(map(len, lines)) <= width


def printed(parts: Iterable[Any], width: int) -> list[str]:
    """Lines that rich prints, without spaces at their ends."""
    console = Console(file=io.StringIO(), width=width)
    with console.capture() as captured:
        for part in parts:
            console.width = max(width, getattr(part, "width", None) or 0)
            console.print(part, crop=False)
    return [line.rstrip() for line in captured.get().splitlines()]


def test_text_is_broken_between_words_and_keeps_its_indentation() -> None:
    assert wrapped("  one two three", 9) == "  one two\n  three"
    assert wrapped("unbreakable words", 5) == "unbreakable\nwords"
    text = "A paragraph\nof two lines.\n\nRaises:\n    A: one.\n    B: two and three."
    assert reflowed(text, 80) == text
    assert reflowed(text, 12).split("\n") == [
        *("A paragraph", "of two", "lines.", "", "Raises:"),
        *("    A: one.", "    B: two", "    and", "    three."),
    ]
