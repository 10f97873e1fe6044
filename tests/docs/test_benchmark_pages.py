"""Figures of speed and memory in the pages are those that were measured last."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from pages import ROOT

from benchmarks import pages
from benchmarks.case import OURS, Case, Target
from benchmarks.environment import Environment
from benchmarks.figures import FiguresError, from_record, load, store, to_record
from benchmarks.runner import Entry, Result


def test_pages_have_the_stored_figures() -> None:
    """If this fails: `python -m benchmarks.pages`."""
    results = pages.stored()
    for page in sorted((ROOT / "docs").glob("*.md")):
        text = page.read_text(encoding="utf-8")
        assert pages.with_figures(text, results) == text, f"{page.name} has other figures"


@pytest.fixture
def result() -> Result:
    """A case of which one implementation was rejected."""
    case: Case[None] = Case(
        "sums",
        "add numbers",
        rows=0,
        prepare=lambda cache, rows: None,
        targets=(Target(0.9, ("slow", "slower", "wrong")), Target(0.1, "slow")),
    )
    figures = {OURS: [0.4, 0.5, 1.2], "slow": [0.8, 1.0, 1.2], "slower": [2.0, 3.0, 2.0]}
    entries = {}
    for name in (*figures, "wrong"):
        case.implementation(name, is_baseline=name == "slow")(lambda inputs: None)
        entry = Entry(case.implementations[name], figures.get(name, []), figures.get(name, []))
        entries[name] = entry
    entries["wrong"].rejected = "sums differs"
    about = Environment("2026-01-31", "a machine, 2 cores, 25 GB", {"Python": "3.11"})
    return Result(case, 1_000, 3, entries, (0.5, 1.0), about)


@pytest.mark.parametrize(
    ("comment", "figure"),
    [
        ("<!-- sums: probclass -->", "0.5 s"),
        ("<!-- sums: probclass, range -->", "0.4 s to 1.2 s"),
        ("<!-- sums: probclass / slow -->", "0.50"),
        ("<!-- sums: probclass / slow, range -->", "0.50 to 1.00"),
        ("<!-- sums: probclass / slow, processor time -->", "0.50"),
    ],
)
def test_a_figure_in_a_sentence_is_replaced(result: Result, comment: str, figure: str) -> None:
    for old in ("1,234 ms", "7", "0.25 to 0.5", figure):
        text = f"It took {comment}{old}, which is little."
        written = pages.with_figures(text, {"sums": result})
        assert written == f"It took {comment}{figure}, which is little."


def test_sections_targets_and_environments_are_replaced(result: Result) -> None:
    contents = ("su*", "targets of sums", "environments")
    text = "".join(f"<!-- figures: {each} -->\nold\n<!-- end of figures -->\n" for each in contents)
    written = pages.with_figures(text, {"sums": result})
    assert "old" not in written
    assert "| wrong | rejected: sums differs" in written
    assert "Target: probclass ≤ 0.9 × the fastest of slow, slower and wrong: 0.50" in written
    assert "Met: 1 of 2 targets." in written
    assert "- 2026-01-31, 1 case of 3 rounds: a machine, 2 cores, 25 GB;" in written
    assert pages.with_figures(written, {"sums": result}) == written


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "took <!-- summs: probclass -->1 s",
            r"no figures of summs .* `python -m benchmarks 'summs'",
        ),
        ("took <!-- sums: slowest -->1 s", "sums has no figures of 'slowest'"),
        ("took <!-- sums: wrong -->1 s", "sums has no figures of 'wrong'"),
        ("took <!-- sums: slow -->many s", "no figure follows <!-- sums: slow -->"),
        ("and\n  <!-- sums: slow -->1 s", "slow --> begins a line"),
        ("<!-- figures: t* -->\n<!-- end of figures -->", r"no figures of t\*"),
        ("<!-- figures: sums -->\n", "no line <!-- end of figures --> follows"),
    ],
)
def test_a_figure_without_a_source_is_an_error(result: Result, text: str, message: str) -> None:
    with pytest.raises(FiguresError, match=message):
        pages.with_figures(text, {"sums": result})


def test_pages_of_a_folder_are_written(
    result: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "same.md").write_text("took <!-- sums: slow -->1 s")
    (tmp_path / "other.md").write_text("took <!-- sums: slow -->2 s")
    assert pages.write_pages({"sums": result}, tmp_path) == [tmp_path / "other.md"]
    assert (tmp_path / "other.md").read_text() == "took <!-- sums: slow -->1 s"
    (tmp_path / "wrong.md").write_text("took <!-- sums: slow -->")
    with pytest.raises(FiguresError, match=r"wrong\.md: no figure follows"):
        pages.write_pages({"sums": result}, tmp_path)


def test_stored_figures_are_those_that_were_measured(result: Result, tmp_path: Path) -> None:
    store(result, tmp_path)
    first = (tmp_path / "sums.json").read_text()
    (loaded,) = load(tmp_path, [result.case]).values()
    assert to_record(loaded) == to_record(result)
    store(loaded, tmp_path)
    assert (tmp_path / "sums.json").read_text() == first
    assert str(tmp_path) not in first
    with pytest.raises(FiguresError, match="figures of no case; remove sums"):
        load(tmp_path, [])
    with pytest.raises(FiguresError, match="in MB, and the case measures s"):
        from_record(result.case, {**to_record(result), "unit": "MB"})


def test_a_matrix_has_the_median_and_the_worst_ratio(result: Result) -> None:
    results = {}
    for layout, factor in {"one file": 1.0, "many files": 3.0, "nulls": 2.0}.items():
        case = dataclasses.replace(result.case, name=f"sums.{layout[0]}", title=f"add: {layout}")
        entries = {name: dataclasses.replace(entry) for name, entry in result.entries.items()}
        entries[OURS].figures = [factor * figure for figure in result.entries[OURS].figures]
        results[case.name] = dataclasses.replace(result, case=case, entries=entries)
    text = pages.with_figures(
        "<!-- figures: matrix of sums.* -->\n<!-- end of figures -->", results
    )
    assert "3 cases of 1,000 rows, 3 rounds:" in text
    assert "| `sums`, slow / slower / wrong | 0.9 | 1 of 3 | 1.00 | 1.50 | many files |" in text
    assert "| `sums`, slow | 0.1 | 0 of 3 | 1.00 | 1.50 | many files |" in text
    assert "| one file | **0.50** (0.50) | 0.50 (0.50) |" in text
