"""The site, before it is built: every page has its place, every public name its reference.

`make site` builds it, runs the notebooks, and refuses a link that leads nowhere.
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
SITE = DOCS / "site"
PUBLIC = {
    f"{module.__name__}.{name}"
    for module in (pc, plots, sklearn, authoring, probclass_airflow)
    for name in module.__all__
}


def places(nav: Any) -> Iterator[str]:
    """The pages of a navigation, its sections opened."""
    if isinstance(nav, str):
        yield nav
    else:
        for part in nav.values() if isinstance(nav, dict) else nav:
            yield from places(part)


@pytest.fixture(scope="module")
def nav() -> set[str]:
    return set(places(yaml.safe_load((SITE / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]))


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")) + NOTEBOOKS, ids=relative)
def test_a_page_is_in_the_navigation(page: Path, nav: set[str]) -> None:
    assert page.relative_to(DOCS).with_suffix(".md").as_posix() in nav, "add it to mkdocs.yml"


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=relative)
def test_a_page_is_in_the_table_of_the_readme(page: Path) -> None:
    assert relative(page) in links((ROOT / "README.md").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_a_public_name_has_its_reference(name: str) -> None:
    """Once, by this name, or, where a module has the name too, by the name in its own module."""
    pages = "\n".join(page.read_text(encoding="utf-8") for page in (DOCS / "api").glob("*.md"))
    package, _, last = name.rpartition(".")
    pattern = rf"^::: {re.escape(package)}(\.\w+)*\.{last}$"
    assert len(list(re.finditer(pattern, pages, re.MULTILINE))) == 1, "give it a line in docs/api"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=relative)
def test_a_notebook_is_kept_without_outputs(path: Path) -> None:
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        assert cell.get("outputs", []) == []
        assert cell.get("execution_count") is None
