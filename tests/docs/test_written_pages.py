"""Pages that are written from code say what the code says."""

from __future__ import annotations

from pathlib import Path

import cli_page
import estimators_table
import pytest
from pages import PAGES

from benchmarks import pages


def test_the_page_has_the_commands_as_they_are() -> None:
    """If this fails: `make commands`."""
    assert cli_page.PAGE.read_text(encoding="utf-8") == cli_page.written()


def test_the_page_of_estimators_says_what_each_offers() -> None:
    """If this fails: `make commands`."""
    assert estimators_table.PAGE.read_text(encoding="utf-8") == estimators_table.written()


TEMPLATES = sorted(pages.TEMPLATES.glob("*.md"))


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_a_page_is_what_is_written_from_the_stored_figures(template: Path) -> None:
    """If this fails: `make figures`."""
    assert (pages.DOCS / template.name).read_text(encoding="utf-8") == pages.written(template)


def test_no_other_page_has_comments_in_its_sentences() -> None:
    for page in PAGES:
        for line in page.read_text(encoding="utf-8").splitlines():
            assert "<!--" not in line or (line.endswith("-->") and line.startswith("<!--")), page
