"""The navigation of the site contains every page, and the API reference every public name.

`make site` also runs the notebooks and fails on broken links.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from typing import Any

import yaml
from pages import ROOT, links, relative

import probclass_airflow
import probclass_core as pc
from probclass_core import authoring, plots, sklearn

DOCS = ROOT / "docs"
NOTEBOOKS = sorted(DOCS.rglob("*.ipynb"))
SITE = ROOT / ".ci" / "site"


def nav_pages(nav: Any) -> Iterator[str]:
    """The pages of a navigation, including those of its sections."""
    if isinstance(nav, str):
        yield nav
    else:
        for entry in nav.values() if isinstance(nav, dict) else nav:
            yield from nav_pages(entry)


def test_every_page_is_in_the_navigation() -> None:
    nav = set(nav_pages(yaml.safe_load((SITE / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]))
    pages = {
        path.relative_to(DOCS).with_suffix(".md").as_posix()
        for path in [*DOCS.rglob("*.md"), *NOTEBOOKS]
    }
    assert pages - nav == set(), "add it to mkdocs.yml"


def test_every_page_is_linked_in_the_readme() -> None:
    linked = links((ROOT / "README.md").read_text(encoding="utf-8"))
    assert {*map(relative, DOCS.glob("*.md"))} - {*linked} == set()


def test_every_public_name_is_in_the_api_reference_once() -> None:
    """Under its public name or under the name in the module that defines it.

    A plot may have the name of what it draws.
    """
    modules = (pc, plots, sklearn, authoring, probclass_airflow)
    pages = "\n".join(page.read_text(encoding="utf-8") for page in (DOCS / "api").glob("*.md"))

    def times(package: str, name: str) -> int:
        pattern = rf"^::: {re.escape(package)}(?!\.plots)(\.\w+)*\.{name}$"
        return len(re.findall(pattern, pages, re.MULTILINE))

    public = [
        (module.__name__, name)
        for module in modules
        for name in getattr(module, "__all__", vars(module))
        if not name.startswith("_")
        if not inspect.ismodule(getattr(module, name))
    ]
    wrong = [name for name in public if times(*name) != 1]
    assert wrong == [], "add it to a page of docs/api"


def test_notebooks_are_committed_without_outputs() -> None:
    for path in NOTEBOOKS:
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            assert cell.get("outputs", []) == [], path
            assert cell.get("execution_count") is None, path
