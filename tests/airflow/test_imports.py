"""What Airflow's processes load: little when a DAG is parsed, and each class once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

DAGS = sorted(path.stem for path in (ROOT / "dags").glob("*.py"))


def python(script: str) -> list[str]:
    """Run a script as Airflow's worker would, the plugins folder on its path; its words."""
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
def test_parsing_a_dag_loads_no_heavy_library(
    statement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    loaded = set(python(f"import sys; {statement}; print(*sys.modules)"))
    assert "airflow.sdk" in loaded
    heavy = {"numpy", "pandas", "pyarrow", "pyarrow.dataset", "scipy", "sklearn", "probclass_core"}
    assert not heavy & loaded


def test_operators_are_loaded_once_by_plugins_and_dags() -> None:
    # Installed and mounted at once, which is when there could be two of each.
    script = f"""
import sys
from airflow.plugins_manager import ensure_plugins_loaded, get_import_errors
ensure_plugins_loaded()
assert not get_import_errors()
sys.path.append({str(ROOT / "dags")!r})
from air_quality_train import ProbClassTrainOperator as of_dag
import probclass_airflow.operators
assert of_dag is probclass_airflow.ProbClassTrainOperator
files = [getattr(module, "__file__", None) or "" for module in sys.modules.values()]
own = [file for file in files if "probclass_airflow" in file]
assert len(own) == len(set(own)) > 5, own
assert not {{"operators", "base"}} & set(sys.modules)
print(of_dag.__module__)
"""
    assert python(script)[-1] == "probclass_airflow.operators"


def test_the_core_never_imports_airflow() -> None:
    script = "import sys, probclass_core, probclass_core.plots, probclass_core.demo.lake"
    assert not {"airflow", "airflow.sdk"} & set(python(f"{script}; print(*sys.modules)"))


def test_airflow_runs_one_file_of_the_plugins_folder() -> None:
    """Not the package that DAGs import, nor the distributions that are installed."""
    script = f"""
from airflow.utils.file import find_path_from_directory
found = find_path_from_directory({str(ROOT / "plugins")!r}, ".airflowignore", "glob")
print("found:", *(path for path in map(str, found) if path.endswith(".py")))
"""
    *_, after = " ".join(python(script)).partition("found: ")  # before it, what Airflow logs
    assert after == str(ROOT / "plugins" / "probclass_airflow_plugin.py")
