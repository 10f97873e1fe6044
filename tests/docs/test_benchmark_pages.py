"""The pages of figures are what the script writes from the stored figures."""

from __future__ import annotations

from pathlib import Path

import pytest
from pages import PAGES

from benchmarks import figures, pages
from benchmarks.case import OURS, Case, Target
from benchmarks.environment import Environment
from benchmarks.figures import FiguresError, from_record, load, recorded, store, to_record
from benchmarks.report import section
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
