"""`probclass plugin new` generates a project that passes its own checks."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from probclass_core.cli.app import app

SUMMARY = "log-normal waiting times"
NEXT_TO_PYTHON = Path(sys.executable).parent


def plugin_new(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["plugin", "new", *map(str, arguments)])


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("src")
    result = plugin_new("log_normal", "--directory", folder, "--summary", SUMMARY)
    assert result.exit_code == 0, result.stderr
    assert "pip install -e '.[test]'" in result.stdout
    return folder / "probclass-log-normal"


@pytest.mark.parametrize(
    "tool",
    [
        "ruff check .",
        "ruff format --check .",
        pytest.param("pytest -q -p no:cacheprovider", marks=pytest.mark.nightly),
        pytest.param("mypy", marks=pytest.mark.nightly),
    ],
)
def test_the_generated_project_passes_its_checks(project: Path, tool: str) -> None:
    command, *arguments = tool.split()
    result = subprocess.run(
        [NEXT_TO_PYTHON / command, *arguments],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("summary", [SUMMARY, 'Waits "of" \\d+ or """ hours\\'])
def test_the_summary_is_that_of_the_class_and_of_the_distribution(
    tmp_path: Path, summary: str
) -> None:
    assert plugin_new("waits", "--directory", tmp_path, "--summary", summary).exit_code == 0
    project = tmp_path / "probclass-waits"
    metadata = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))
    assert metadata["project"]["description"] == summary
    module = ast.parse((project / "probclass_waits" / "estimator.py").read_text(encoding="utf-8"))
    (estimator,) = (node for node in module.body if isinstance(node, ast.ClassDef))
    assert (ast.get_docstring(estimator) or "").split("\n")[0] == summary


BAD_NAMES = ["LogNormal", "log-normal", "1st", "a__b", "_a", "class", "é", ""]


@pytest.mark.parametrize(
    ("name", "folder", "message"),
    [
        *((name, "src", f"{name!r} cannot name an estimator") for name in BAD_NAMES),
        ("poisson", "src", "estimator 'poisson' is already registered"),
        ("gumbel", "src", "probclass-gumbel already exists; choose another name"),
        ("gumbel", "file", "file/probclass-gumbel: "),
    ],
)
def test_a_project_that_cannot_be_made_changes_nothing(
    tmp_path: Path, name: str, folder: str, message: str
) -> None:
    readme = tmp_path / "src" / "probclass-gumbel" / "README.md"
    readme.parent.mkdir(parents=True)
    for path in (readme, tmp_path / "file"):
        path.write_text("mine")
    before = {*tmp_path.rglob("*")}
    result = plugin_new("--directory", tmp_path / folder, "--", name)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert ({*tmp_path.rglob("*")}, readme.read_text()) == (before, "mine")
