"""The documentation is correct and complete: specs are valid, links work, every name is there.

``test_needs.py`` runs the code of every page; to run that of one page in this environment:
``python tests/docs/run_page.py docs/data.md`` in an empty folder.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pyarrow as pa
import pytest
from pages import PAGES, ROOT, anchors, blocks, links, relative, section, table

import probclass_core as pc

LARGEST_IMAGE = 300_000
IMAGES = sorted((ROOT / "docs").rglob("*.png"))


def test_the_plugin_of_the_page_works_after_installation(tmp_path: Path) -> None:
    """Installed by hand: the module, its entry points as pip writes them, and a script."""
    fenced = blocks((ROOT / "docs" / "plugins.md").read_text(encoding="utf-8"))
    first = {block.language: index for index, block in reversed(list(enumerate(fenced)))}
    module, project, script = (fenced[first[key]].body for key in ("python", "toml", "py"))
    project = tomllib.loads(project)["project"]
    for group, points in project["entry-points"].items():
        lines = [f"[{group}]", *(f"{name} = {value}" for name, value in points.items())]
    (module_name,) = points.values()
    (tmp_path / f"{module_name}.py").write_text(module, encoding="utf-8")
    info = tmp_path / f"{module_name}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Name: {project['name']}\nVersion: {project['version']}\n")
    (info / "entry_points.txt").write_text("\n".join(lines))
    run = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.stderr == ""
    assert run.stdout == fenced[first["py"] + 1].body


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_specs_in_toml_are_valid(page: Path) -> None:
    for block in blocks(page.read_text(encoding="utf-8")):
        values = tomllib.loads(block.body) if block.language == "toml" else {}
        if "blocks" in values:
            pc.ModelSpec.from_dict(values)


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_links_work(page: Path) -> None:
    for target in links(page.read_text(encoding="utf-8")):
        if re.match(r"[a-z]+:", target):
            continue  # links to other sites are not checked
        name, _, anchor = target.partition("#")
        path = page.parent / name if name else page
        assert path.exists(), f"{relative(page)} links to {target}"
        if anchor:
            assert anchor in anchors(path.read_text(encoding="utf-8")), target


@pytest.mark.parametrize("image", IMAGES, ids=relative)
def test_an_image_is_small_and_used(image: Path) -> None:
    assert image.stat().st_size < LARGEST_IMAGE
    used = {
        (page.parent / target).resolve()
        for page in PAGES
        for target in links(page.read_text(encoding="utf-8"))
    }
    assert image.resolve() in used


@pytest.mark.parametrize("name", sorted(pc.__all__))
def test_a_public_name_is_documented(name: str) -> None:
    assert any(re.search(rf"\b{name}\b", page.read_text(encoding="utf-8")) for page in PAGES)


@pytest.mark.parametrize("name", sorted(pc.estimators()))
def test_the_tables_of_an_estimator_are_correct(name: str) -> None:
    text = section((ROOT / "docs" / "estimators.md").read_text(encoding="utf-8"), f"`{name}`")
    # Integers are accepted as numbers and as categories.
    rows = {"x": [1, 2, 3, 4, 6, 5], "y": [1, 0, 0, 1, 1, 0], "c": ["a", "a", "a", "b", "b", "b"]}
    spec = pc.ModelSpec(label="c", blocks=[pc.Block(name, ["x", "y"])])
    statistics = pc.summarize(rows, spec)
    parameters = pc.finalize(statistics).parameters[name]
    estimator = pc.estimators()[name](pa.schema([("x", pa.int64())]), {})
    defaults = {row[0]: ast.literal_eval(row[1]) for row in table(text, "option")}
    assert defaults == estimator.options.plain()
    columns = {
        row[0]: re.findall(r"(?:^|; )`?(\w+)` ([^,;]+)", row[1]) for row in table(text, "table")
    }
    for heading, actual in (("statistics", statistics.blocks[name]), ("parameters", parameters)):
        label, *others = actual.schema
        assert label.name == "class"
        assert columns[heading] == [(field.name, type_in_words(field)) for field in others]


def type_in_words(field: pa.Field) -> str:
    """The type of a column as written in the tables of docs/estimators.md."""
    if isinstance(field.type, pa.FixedShapeTensorType):
        return "d × d tensor"
    if pa.types.is_list(field.type) or pa.types.is_fixed_size_list(field.type):
        return f"list of d {field.type.value_type}s"
    return str(field.type)
