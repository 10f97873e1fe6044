"""`probclass plugin new`: a project that is whole from its first minute."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from installing import run
from typer.testing import CliRunner

from probclass_core.cli.app import app

NEXT_TO_PYTHON = Path(sys.executable).parent


def new(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "probclass_core", "plugin", "new", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("src")
    made = new("log_normal", "--directory", str(folder))
    assert made.returncode == 0, made.stderr
    assert "pip install -e '.[test]'" in made.stdout
    return folder / "probclass-log-normal"


@pytest.mark.parametrize(
    "tool", ["ruff check .", "ruff format --check .", "mypy", "pytest -q -p no:cacheprovider"]
)
def test_the_project_passes_its_own_checks(project: Path, tool: str) -> None:
    command, *arguments = tool.split()
    ran = subprocess.run(
        [NEXT_TO_PYTHON / command, *arguments],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_no_word_of_the_template_is_left(project: Path) -> None:
    files = [path for path in project.rglob("*") if path.suffix in {".py", ".md", ".toml"}]
    assert len(files) == 5
    for path in files:
        assert not re.search(r"\$[a-z_]+", path.read_text(encoding="utf-8").replace("$ pip", ""))


def test_once_installed_the_estimator_is_found_by_its_entry_point(project: Path) -> None:
    """By path: what pip would put into site-packages, metadata and module."""
    info = project / "probclass_log_normal-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: probclass-log-normal\nVersion: 0.1.0\n"
    )
    (info / "entry_points.txt").write_text("[probclass]\nlog_normal = probclass_log_normal\n")
    script = """
spec = pk.ModelSpec("y", [pk.Block("log_normal", ["x"])])
print(pk.fit(table, spec).predict({"x": [2.0, 25.0]}).to_pylist())
"""
    done = run(project, script)
    assert done.stdout == "['a', 'b']\n", done.stderr


def test_a_folder_that_is_there_is_left_alone(project: Path) -> None:
    readme = project / "README.md"
    before = readme.read_text(encoding="utf-8")
    again = new("log_normal", "--directory", str(project.parent))
    assert again.returncode == 2
    assert "probclass-log-normal already exists; choose another name" in again.stderr
    assert readme.read_text(encoding="utf-8") == before


@pytest.mark.parametrize("name", ["LogNormal", "log-normal", "1st", "a__b", "_a", "class", "é", ""])
def test_a_bad_name_is_refused(tmp_path: Path, name: str) -> None:
    ran = CliRunner().invoke(app, ["plugin", "new", "--directory", str(tmp_path), "--", name])
    assert ran.exit_code == 2
    assert f"{name!r} cannot name an estimator" in ran.stderr
    assert not list(tmp_path.iterdir())


def test_the_name_of_another_estimator_is_refused(tmp_path: Path) -> None:
    ran = CliRunner().invoke(app, ["plugin", "new", "poisson", "--directory", str(tmp_path)])
    assert ran.exit_code == 2
    assert "estimator 'poisson' is already registered" in ran.stderr
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_made_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    where = str(tmp_path / "file")
    ran = CliRunner().invoke(app, ["plugin", "new", "gumbel", "--directory", where])
    assert ran.exit_code == 2
    assert f"cannot write {where}/probclass-gumbel: " in ran.stderr
    assert ran.stderr.count("\n") == 1


def test_what_was_written_as_json(tmp_path: Path) -> None:
    ran = CliRunner().invoke(
        app, ["plugin", "new", "gumbel", "--directory", str(tmp_path), "--json"]
    )
    said = json.loads(ran.stdout)
    assert said["distribution"] == "probclass-gumbel"
    assert all(Path(path).is_file() for path in said["files"])
