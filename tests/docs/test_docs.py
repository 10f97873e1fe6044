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

import probclass_airflow
import probclass_core as pc
from probclass_core.cli.app import app
from probclass_core.plugins import hookspecs

LARGEST_IMAGE = 300_000
TEXTS = {page: page.read_text(encoding="utf-8") for page in PAGES}


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


def test_specs_in_toml_are_valid() -> None:
    found = [block for text in TEXTS.values() for block in blocks(text) if block.language == "toml"]
    specs = [
        values for values in (tomllib.loads(block.body) for block in found) if "blocks" in values
    ]
    assert specs
    for spec in specs:
        pc.ModelSpec.from_dict(spec)


def test_links_work() -> None:
    """Those to other sites are not checked."""
    for page, text in TEXTS.items():
        for target in links(text):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            path = page.parent / name if name else page
            assert path.exists(), f"{relative(page)} links to {target}"
            if anchor:
                found = anchors(path.read_text(encoding="utf-8"))
                assert anchor in found, f"{relative(page)} links to {target}"


def test_images_are_small_and_used() -> None:
    images = set((ROOT / "docs").rglob("*.png"))
    used = {
        (page.parent / target).resolve() for page, text in TEXTS.items() for target in links(text)
    }
    assert images - used == set()
    assert [image for image in images if image.stat().st_size >= LARGEST_IMAGE] == []


def test_every_name_is_documented() -> None:
    """Public names, hooks, commands, operators and sensors."""
    commands = {f"probclass {name}" for name in app.tree}
    hooks = {name for name in vars(hookspecs) if name.startswith("probclass_")}
    tasks = {
        name
        for name in probclass_airflow.__all__
        if re.fullmatch(r"ProbClass\w+(Operator|Sensor)", name)
    }
    text = "\n".join(TEXTS.values())
    names = {*pc.__all__, *commands, *hooks, *tasks}
    assert {name for name in names if not re.search(rf"\b{name}\b", text)} == set()


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
        row[0]: re.findall(r"(?:^|; )`?([\w ]+)` ([^,;]+)", row[1]) for row in table(text, "table")
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
