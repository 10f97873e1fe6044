"""The pages of figures are what the script writes from the stored figures."""

from __future__ import annotations

from pathlib import Path

import pytest
from pages import PAGES

from benchmarks import pages

TEMPLATES = sorted(pages.TEMPLATES.glob("*.md"))


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_a_page_is_what_is_written_from_the_stored_figures(template: Path) -> None:
    """If this fails: `make figures`."""
    assert (pages.DOCS / template.name).read_text(encoding="utf-8") == pages.written(template)


def test_no_other_page_has_comments_in_its_sentences() -> None:
    for page in PAGES:
        for line in page.read_text(encoding="utf-8").splitlines():
            assert "<!--" not in line or (line.endswith("-->") and line.startswith("<!--")), page
