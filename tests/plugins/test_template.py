"""`probclass plugin new` generates a project that passes its own checks."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from fake_install import run
from typer.testing import CliRunner

from probclass_core.cli.app import app

SUMMARY = "log-normal waiting times"
NEXT_TO_PYTHON = Path(sys.executable).parent


def plugin_new(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "probclass_core", "plugin", "new", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("src")
    result = plugin_new("log_normal", "--directory", str(folder), "--summary", SUMMARY)
    assert result.returncode == 0, result.stderr
    assert "pip install -e '.[test]'" in result.stdout
    return folder / "probclass-log-normal"


@pytest.mark.parametrize(
    "tool",
    [
        "ruff check .",
        "ruff format --check .",
        "pytest -q -p no:cacheprovider",
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


def test_every_placeholder_of_the_template_is_replaced(project: Path) -> None:
    files = [path for path in project.rglob("*") if path.suffix in {".py", ".md", ".toml"}]
    assert len(files) == 5
    for path in files:
        assert not re.search(r"\$[a-z_]+", path.read_text(encoding="utf-8").replace("$ pip", ""))


def test_the_installed_estimator_is_found_by_its_entry_point(project: Path) -> None:
    """Installed by hand, with the files that pip would write into site-packages."""
    info = project / "probclass_log_normal-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: probclass-log-normal\nVersion: 0.1.0\n"
    )
    (info / "entry_points.txt").write_text("[probclass]\nlog_normal = probclass_log_normal\n")
    script = """
spec = pc.ModelSpec("y", [pc.Block("log_normal", ["x"])])
print(pc.fit(table, spec).predict({"x": [2.0, 25.0]}).to_pylist())
"""
    result = run(project, script)
    assert result.stdout == "['a', 'b']\n", result.stderr

    listing = "from probclass_core.plugins.manager import find_estimator\n"
    listed = run(project, listing + 'print(find_estimator("log_normal").summary)')
    assert listed.stdout == f"{SUMMARY}\n", listed.stderr


def test_without_a_summary_the_list_says_where_to_write_it(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["plugin", "new", "gumbel", "--directory", str(tmp_path)])
    assert result.exit_code == 0
    module = tmp_path / "probclass-gumbel" / "probclass_gumbel" / "__init__.py"
    text = module.read_text(encoding="utf-8")
    assert 'summary="describe it in probclass_gumbel/__init__.py"' in text
    assert "exponential" not in text


def test_an_existing_folder_is_not_changed(project: Path) -> None:
    readme = project / "README.md"
    before = readme.read_text(encoding="utf-8")
    again = plugin_new("log_normal", "--directory", str(project.parent))
    assert again.returncode == 2
    assert "probclass-log-normal already exists; choose another name" in again.stderr
    assert readme.read_text(encoding="utf-8") == before


@pytest.mark.parametrize("name", ["LogNormal", "log-normal", "1st", "a__b", "_a", "class", "é", ""])
def test_a_bad_name_is_refused(tmp_path: Path, name: str) -> None:
    result = CliRunner().invoke(app, ["plugin", "new", "--directory", str(tmp_path), "--", name])
    assert result.exit_code == 2
    assert f"{name!r} cannot name an estimator" in result.stderr
    assert not list(tmp_path.iterdir())


def test_the_name_of_another_estimator_is_refused(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["plugin", "new", "poisson", "--directory", str(tmp_path)])
    assert result.exit_code == 2
    assert "estimator 'poisson' is already registered" in result.stderr
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_created_is_an_error_of_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    where = str(tmp_path / "file")
    result = CliRunner().invoke(app, ["plugin", "new", "gumbel", "--directory", where])
    assert result.exit_code == 2
    assert f"cannot write {where}/probclass-gumbel: " in result.stderr
    assert result.stderr.count("\n") == 1


def test_json_lists_the_files_that_were_written(tmp_path: Path) -> None:
    result = CliRunner().invoke(
        app, ["plugin", "new", "gumbel", "--directory", str(tmp_path), "--json"]
    )
    report = json.loads(result.stdout)
    assert report["distribution"] == "probclass-gumbel"
    assert all(Path(path).is_file() for path in report["files"])
