"""Imports in Airflow's processes: few when a DAG is parsed, and each class once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

DAGS = sorted(path.stem for path in (ROOT / "dags").glob("*.py"))


def python(script: str) -> list[str]:
    """Run a script with the plugins folder on the path, as on a worker; the words it prints."""
    ended = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "plugins"), str(ROOT)])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.split()


@pytest.mark.parametrize(
    "statement",
    [
        "import probclass_airflow",
        f"import sys; sys.path.append({str(ROOT / 'dags')!r}); import {', '.join(DAGS)}",
    ],
    ids=["operators", "dags"],
)
def test_parsing_a_dag_imports_no_heavy_library(
    statement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    loaded = set(python(f"import sys; {statement}; print(*sys.modules)"))
    assert "airflow.sdk" in loaded
    heavy = {"numpy", "pandas", "pyarrow", "pyarrow.dataset", "scipy", "sklearn", "probclass_core"}
    assert not heavy & loaded


def test_plugins_and_dags_share_the_operator_classes() -> None:
    # Installed and mounted at the same time: without care, each class would exist twice.
    script = f"""
import sys
from airflow.plugins_manager import ensure_plugins_loaded, get_import_errors
ensure_plugins_loaded()
assert not get_import_errors()
sys.path.append({str(ROOT / "dags")!r})
from air_quality_train import ProbClassTrainOperator as dag_class
import probclass_airflow.operators
assert dag_class is probclass_airflow.ProbClassTrainOperator
files = [getattr(module, "__file__", None) or "" for module in sys.modules.values()]
modules = [file for file in files if "probclass_airflow" in file]
assert len(modules) == len(set(modules)) > 5, modules
assert not {{"operators", "base"}} & set(sys.modules)
print(dag_class.__module__)
"""
    assert python(script)[-1] == "probclass_airflow.operators"


def test_the_core_never_imports_airflow() -> None:
    script = "import sys, probclass_core, probclass_core.plots, probclass_core.demo.lake"
    assert not {"airflow", "airflow.sdk"} & set(python(f"{script}; print(*sys.modules)"))


def test_airflow_imports_one_file_of_the_plugins_folder() -> None:
    """Neither the package that DAGs import nor the distributions."""
    script = f"""
from airflow.utils.file import find_path_from_directory
paths = find_path_from_directory({str(ROOT / "plugins")!r}, ".airflowignore", "glob")
print("paths:", *(path for path in map(str, paths) if path.endswith(".py")))
"""
    *_, printed = " ".join(python(script)).partition("paths: ")  # after the lines that Airflow logs
    assert printed == str(ROOT / "plugins" / "probclass_airflow_plugin.py")
