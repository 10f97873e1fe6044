"""The metadata of the installed provider, and its retry policy."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.providers_manager import _create_provider_info_schema_validator
from airflow.sdk import DAG, task
from airflow.sdk.module_loading import import_string

import probclass_airflow
import probclass_core as pc
from airflow_provider_probclass import get_provider_info
from probclass_airflow import ProbClassTrainOperator
from probclass_airflow.retries import ProbClassRetryPolicy

ROOT = Path(__file__).parents[2]
PROJECT = ROOT / "plugins" / "airflow-provider-probclass"

PROVIDER = """
import json, sys
from airflow.providers_manager import ProvidersManager
provider = ProvidersManager().providers["airflow-provider-probclass"]
copies = [name for name in sys.modules if name.endswith("airflow_provider_probclass")]
print(json.dumps([provider.version, provider.data["name"], copies]))
"""


@pytest.mark.parametrize("mounted", [False, True], ids=["installed", "installed and mounted"])
def test_airflow_lists_the_provider_and_loads_it_once(mounted: bool, tmp_path: Path) -> None:
    # Metadata of a wheel, made from pyproject.toml.
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    metadata = tmp_path / "airflow_provider_probclass-9.9.9.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 9.9.9\n"
    )
    points = project["entry-points"]["apache_airflow_provider"]
    lines = [f"{name} = {value}" for name, value in points.items()]
    (metadata / "entry_points.txt").write_text("\n".join(["[apache_airflow_provider]", *lines]))
    path = [str(tmp_path), str(PROJECT), str(ROOT)]
    script = f"from airflow import plugins_manager as p\np.ensure_plugins_loaded()\n{PROVIDER}"
    ended = subprocess.run(
        [sys.executable, "-c", script if mounted else PROVIDER],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout.splitlines()[-1]) == [
        "9.9.9",
        "probclass",
        ["airflow_provider_probclass"],
    ]


@pytest.mark.parametrize("kind", ["Operator", "Sensor"])
def test_the_metadata_names_the_modules_of_all_operators_and_sensors(kind: str) -> None:
    entries = get_provider_info()[f"{kind.lower()}s"]
    assert {module for entry in entries for module in entry["python-modules"]} == {
        getattr(probclass_airflow, name).__module__
        for name in probclass_airflow.__all__
        if name.endswith(kind) and name != "ProbClassOperator"
    }


def test_the_metadata_follow_the_schema_of_airflow() -> None:
    assert _create_provider_info_schema_validator().is_valid(get_provider_info())


def test_the_metadata_name_existing_functions() -> None:
    info = get_provider_info()
    (scheme,) = info["asset-uris"]
    named = [scheme[role] for role in ("handler", "factory", "to_openlineage_converter")]
    named += [decorator["class-name"] for decorator in info["task-decorators"]]
    assert all(callable(import_string(name)) for name in named)


def test_airflow_options_are_the_defaults_of_operators(
    run: Any, lake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings: list[tuple[int | None, float]] = []

    class Recorded(ProbClassTrainOperator):
        def call(self, run: dict[str, str]) -> dict[str, Any]:
            settings.append((self.workers, self._seconds_between_log_lines))
            return {}

    fields = {"source": lake, "spec": {}, "store": str(tmp_path), "model": "air"}
    Recorded(task_id="task", **fields).execute({"run_id": "by hand"})
    monkeypatch.setenv("AIRFLOW__PROBCLASS__WORKERS", "2")
    monkeypatch.setenv("AIRFLOW__PROBCLASS__PROGRESS_SECONDS", "0.5")
    Recorded(task_id="task", **fields).execute({"run_id": "by hand"})
    Recorded(task_id="task", workers=3, **fields).execute({"run_id": "by hand"})
    assert settings == [(None, 10.0), (2, 0.5), (3, 0.5)]


@pytest.mark.parametrize(
    ("error", "tries"),
    [
        (pc.SpecError("no such option"), 1),
        (pc.DataError("no such column"), 1),
        (pc.PluginError("no such estimator"), 1),
        (pc.TableMismatchError("no such column"), 1),
        (pc.MissingLabelsError("no labels yet"), 3),
        (pc.TableError("no such partition"), 3),
        (pc.StoreError("no such model"), 3),
        (ConnectionError("no answer"), 3),
        (ZeroDivisionError("not ours"), 3),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_the_policy_retries_only_what_may_be_temporary(
    error: Exception, tries: int, run_dag: Callable[..., Any]
) -> None:
    with DAG(f"policy_{type(error).__name__}", schedule=None) as dag:

        @task(retries=2, retry_delay=timedelta(0), retry_policy=ProbClassRetryPolicy())
        def fails() -> None:
            raise error

        fails()
    ran = run_dag(dag)["fails"]
    assert (ran.state, ran.tries) == ("failed", tries)


def test_the_policy_can_set_the_delay() -> None:
    policy = ProbClassRetryPolicy(retry_delay=timedelta(minutes=5))
    decision = policy.evaluate(pc.StoreError("busy"), 1, 3)
    assert decision.retry_delay == timedelta(minutes=5)
    assert decision.reason == "a StoreError may be temporary"
    assert policy.evaluate(pc.SpecError("bad"), 1, 3).reason == "a retry cannot fix a SpecError"


def test_creating_the_policy_imports_no_heavy_library() -> None:
    script = "import sys, probclass_airflow.retries as r; r.ProbClassRetryPolicy();"
    ended = subprocess.run(
        [sys.executable, "-c", f"{script} print(*sys.modules)"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(PROJECT), str(ROOT)])},
        capture_output=True,
        text=True,
        check=True,
    )
    assert not {"numpy", "pyarrow", "probclass_core"} & set(ended.stdout.split())
