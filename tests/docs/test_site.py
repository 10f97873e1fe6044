"""The navigation of the site contains every page, and the API reference every public name.

`make site` also runs the notebooks and fails on broken links.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pages import ROOT, links, relative

import probclass_airflow
import probclass_core as pc
from probclass_core import authoring, plots, sklearn

DOCS = ROOT / "docs"
NOTEBOOKS = sorted(DOCS.rglob("*.ipynb"))
SITE = ROOT / ".ci" / "site"
PUBLIC = {
    f"{module.__name__}.{name}"
    for module in (pc, plots, sklearn, authoring, probclass_airflow)
    for name in module.__all__
}


def nav_pages(nav: Any) -> Iterator[str]:
    """The pages of a navigation, including those of its sections."""
    if isinstance(nav, str):
        yield nav
    else:
        for entry in nav.values() if isinstance(nav, dict) else nav:
            yield from nav_pages(entry)


@pytest.fixture(scope="module")
def nav() -> set[str]:
    return set(nav_pages(yaml.safe_load((SITE / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]))


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")) + NOTEBOOKS, ids=relative)
def test_a_page_is_in_the_navigation(page: Path, nav: set[str]) -> None:
    assert page.relative_to(DOCS).with_suffix(".md").as_posix() in nav, "add it to mkdocs.yml"


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=relative)
def test_a_page_is_linked_in_the_readme(page: Path) -> None:
    assert relative(page) in links((ROOT / "README.md").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_a_public_name_is_in_the_api_reference(name: str) -> None:
    """Exactly once, under its public name or under the name in the module that defines it.

    A plot may have the name of what it draws.
    """
    pages = "\n".join(page.read_text(encoding="utf-8") for page in (DOCS / "api").glob("*.md"))
    package, _, last = name.rpartition(".")
    pattern = rf"^::: {re.escape(package)}(?!\.plots)(\.\w+)*\.{last}$"
    assert len(list(re.finditer(pattern, pages, re.MULTILINE))) == 1, "add it to a page of docs/api"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=relative)
def test_a_notebook_is_committed_without_outputs(path: Path) -> None:
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        assert cell.get("outputs", []) == []
        assert cell.get("execution_count") is None
