"""The pages of figures are what the script writes from the stored figures."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from pages import PAGES

from benchmarks import figures, pages
from benchmarks.case import OURS, Case, Target
from benchmarks.environment import Environment
from benchmarks.figures import FiguresError, from_record, load, recorded, store, to_record
from benchmarks.report import environments, matrix, section, side_by_side, targets
from benchmarks.runner import Entry, Result

TEMPLATES = sorted(pages.TEMPLATES.glob("*.md"))


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_a_page_is_what_is_written_from_the_stored_figures(template: Path) -> None:
    """If this fails: `make figures`."""
    assert (pages.DOCS / template.name).read_text(encoding="utf-8") == pages.written(template)


def test_no_other_page_has_comments_in_its_sentences() -> None:
    for page in PAGES:
        for line in page.read_text(encoding="utf-8").splitlines():
            assert "<!--" not in line or (line.endswith("-->") and line.startswith("<!--")), page


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
    measured = {OURS: [0.4, 0.5, 1.2], "slow": [0.8, 1.0, 1.2], "slower": [2.0, 3.0, 2.0]}
    entries = {}
    for name in (*measured, "wrong"):
        case.implementation(name, is_baseline=name == "slow")(lambda inputs: None)
        entry = Entry(case.implementations[name], measured.get(name, []), measured.get(name, []))
        entries[name] = entry
    entries["wrong"].rejected = "sums differs"
    about = Environment("2026-01-31", "a machine, 2 cores, 25 GB", {"Python": "3.11"})
    return Result(case, 1_000, 3, entries, (0.5, 1.0), about)


def test_tables_of_a_case(result: Result) -> None:
    lines = section([result]).splitlines()
    assert "| `sums`, 1,000 rows | **probclass** | 0.5 s | 0.5 s | 0.50 (0.50 to 1.00) |" in lines
    assert "|  | wrong | rejected: sums differs |  |  |" in lines
    assert "| **probclass** | 0.5 s (0.50) |" in side_by_side([result])
    assert "| wrong | rejected |" in side_by_side([result])
    assert targets([result]).startswith("Met: 1 of 2 targets.")
    assert "≤ 0.9 × slow or slower or wrong: 0.50 (0.50 to 1.00), met; ≤ 0.1" in targets([result])
    assert environments([result]).startswith("- 2026-01-31, 1 case of 3 rounds: a machine, 2 cores")


def test_a_matrix_has_the_ratios_of_works_and_layouts(result: Result) -> None:
    results = []
    for layout, factor in {"one file": 1.0, "many files": 3.0, "nulls": 2.0}.items():
        case = dataclasses.replace(result.case, name=f"of_sums.{layout}", title=f"add: {layout}")
        entries = {name: dataclasses.replace(entry) for name, entry in result.entries.items()}
        entries[OURS].figures = [factor * figure for figure in result.entries[OURS].figures]
        results.append(dataclasses.replace(result, case=case, entries=entries))
    assert matrix(results).splitlines() == [
        "3 cases of 1,000 rows:",
        "",
        "| layout | `sums` / slow / slower / wrong | `sums` / slow |",
        "|---|--:|--:|",
        "| at most | 0.9 | 0.1 |",
        "| met | 1 of 3 | 0 of 3 |",
        "| median | 1.00 | 1.00 |",
        "| one file | 0.50 | **0.50** |",
        "| many files | **1.50** | **1.50** |",
        "| nulls | **1.00** | **1.00** |",
    ]


def test_a_page_is_written_from_its_template(
    result: Result,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(pages, "DOCS", tmp_path / "docs")
    monkeypatch.setattr(pages, "TEMPLATES", tmp_path)
    monkeypatch.setattr(pages, "all_cases", lambda: [("sums", result.case)])
    monkeypatch.setattr(figures, "FOLDER", tmp_path / "figures")
    (tmp_path / "docs").mkdir()
    (tmp_path / "page.md").write_text("# Page\n\nBefore {braces}.\n\n{section su*}\n\nAfter.\n")
    assert pages.main() == 1
    assert "page.md: no figures of su* are stored; run `python" in capsys.readouterr().err
    store(result)
    assert pages.main() == 0
    page = (tmp_path / "docs" / "page.md").read_text()
    assert page.startswith("# Page\n\n<!-- written by `make figures` from ")
    assert f"Before {{braces}}.\n\n{section([result])}\n\nAfter.\n" in page


def test_stored_figures_are_those_that_were_measured(
    result: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures, "FOLDER", tmp_path)
    store(result)
    first = (tmp_path / "cases" / "sums.json").read_text()
    (loaded,) = load([result.case]).values()
    assert to_record(loaded) == to_record(result)
    store(loaded)
    assert (tmp_path / "cases" / "sums.json").read_text() == first
    assert str(tmp_path) not in first
    with pytest.raises(FiguresError, match="figures of no case; remove sums"):
        load([])
    with pytest.raises(FiguresError, match="in MB, and the case measures s"):
        from_record(result.case, {**to_record(result), "unit": "MB"})
    with pytest.raises(FiguresError, match="no figures of scale are stored; run `make scale`"):
        recorded("scale")
