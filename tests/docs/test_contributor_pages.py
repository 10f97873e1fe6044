"""The pages for contributors name files, functions, commands and layers that exist.

In their text, `pipeline/training.py` is a file below the repository or below ``probclass_core``,
`pipeline/training.py::fit` something defined in it, and `pipeline/` a folder.
"""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest
from pages import ROOT, prose, relative

DOCS = ROOT / "docs"
ARCHITECTURE = DOCS / "architecture.md"
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
PAGES = [CONTRIBUTING, ARCHITECTURE, DOCS / "decision-records.md"]

_PATH = re.compile(r"`([\w.-]+(?:/[\w.-]+)*(?:/|\.(?:c|md|pyi?|toml|yml)))(?:::([\w.]+))?`")


def named(page: Path) -> list[tuple[str, str]]:
    """Paths in the text of a page, each with the name after ``::`` or an empty string."""
    return _PATH.findall(prose(page.read_text(encoding="utf-8")))


def find(path: str) -> Path | None:
    """The file or folder with a path, or None."""
    places = (folder / path for folder in (ROOT, ROOT / "probclass_core"))
    return next((place for place in places if place.exists()), None)


def is_defined(name: str, body: list[ast.stmt]) -> bool:
    """Whether statements define a name, such as ``fit`` or ``Model.decide``."""
    first, _, rest = name.partition(".")
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == first:
            return not rest or is_defined(rest, node.body)
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            return True
    return False


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_what_a_page_for_contributors_names_exists(page: Path) -> None:
    found = named(page)
    assert len(found) > 3
    for path, name in found:
        file = find(path)
        assert file is not None, f"{relative(page)} names {path}, which does not exist"
        if name:
            body = ast.parse(file.read_text(encoding="utf-8")).body
            assert is_defined(name, body), f"{relative(page)}: {path} does not define {name}"


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=relative)
def test_commands_of_a_page_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    assert {*re.findall(r"(?:`|\$ )make ([a-z-]+)", text)} <= {*targets}
    for path in re.findall(r"`(\.ci/\w+)`|^\$ pytest (.+?) -", text, re.M):
        for name in "".join(path).split():
            assert (ROOT / name).exists(), f"{relative(page)} names {name}, which does not exist"


def test_the_layers_of_the_page_are_those_that_are_checked() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    layers = next(one["layers"] for one in contracts if one["id"] == "one-way")
    checked = [set(re.findall(r"\w+", layer)) - {"__main__"} for layer in layers]
    lines = ARCHITECTURE.read_text(encoding="utf-8").partition("| layer |")[2].splitlines()[2:]
    rows = [line.split("|")[1] for line in lines[: len(checked)]]
    assert [set(re.findall(r"`(\w+)`", row)) for row in rows] == checked


def test_every_promise_names_a_test() -> None:
    page = ARCHITECTURE.read_text(encoding="utf-8")
    tables = re.findall(r"^\| promise .*\n\|---.*\n((?:\|.*\n)+)", page, re.MULTILINE)
    promises = "".join(tables).splitlines()
    assert len(promises) >= 20
    for promise in promises:
        assert re.search(r"`tests/[\w/]+\.py::[tT]est\w+`", promise), f"without a test: {promise}"
