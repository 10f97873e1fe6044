"""The provider in Airflow's processes: found once however it is installed, and cheap to import."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path

from airflow._shared.module_loading import find_path_from_directory
from airflow.providers_manager import _create_provider_info_schema_validator
from airflow.sdk.module_loading import import_string
from python_processes import output_of_python

import probclass_airflow
from airflow_provider_probclass import get_provider_info

ROOT = Path(__file__).parents[2]
PROJECT = ROOT / "plugins" / "airflow-provider-probclass"
DAGS = ROOT / "dags"
IMPORT_DAGS = f"""
import sys
sys.path.append({str(DAGS)!r})
import {", ".join(sorted(path.stem for path in DAGS.glob("*.py")))}
"""

IN_AIRFLOW = f"""
import importlib.metadata, importlib_metadata, json, sys

def without_others(distributions):
    return lambda **names: (
        found for found in distributions(**names)
        if "probclass" not in found.name or found.version == "9.9.9"
    )

for library in (importlib.metadata, importlib_metadata):
    library.distributions = without_others(library.distributions)

from airflow import plugins_manager
from airflow.providers_manager import ProvidersManager

pages = [found for found in plugins_manager._get_plugins()[0] if found.name == "probclass"]
errors = [key for key in plugins_manager.get_import_errors() if "probclass" in str(key)]
providers = ProvidersManager().providers
{IMPORT_DAGS}
import probclass_airflow
assert air_quality_train.ProbClassTrainOperator is probclass_airflow.ProbClassTrainOperator
files = [getattr(module, "__file__", None) or "" for module in sys.modules.values()]
ours = [file for file in files if "probclass_airflow" in file]
print(json.dumps({{
    "pages": [view["name"] for plugin in pages for view in plugin.external_views],
    "errors": errors,
    "providers": [name for name in providers if "probclass" in name],
    "versions": [providers[name].version for name in providers if "probclass" in name],
    "imported twice": sorted(file for file in set(ours) if ours.count(file) > 1),
    "by their last names": sorted({{"operators", "base", "plugin", "ui"}} & set(sys.modules)),
    "imported by the API server only": sorted(
        {{"probclass_airflow.ui.app", "probclass_core"}} & set(sys.modules)
    ),
}}))
"""


def python(script: str, path: list[Path], **variables: str) -> str:
    """Run a script in a new process; the last line that it prints."""
    environment = {**variables, "PYTHONPATH": os.pathsep.join(map(str, path))}
    return output_of_python("-c", script, env=environment, cwd=ROOT).splitlines()[-1]


def test_airflow_finds_the_provider_and_its_pages_once_if_installed_and_mounted(
    tmp_path: Path,
) -> None:
    """Distributions that are installed for the tests are hidden by one made here.

    tests/packaging has the provider installed alone and mounted alone.
    """
    metadata = tmp_path / "airflow_provider_probclass-9.9.9.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: airflow-provider-probclass\nVersion: 9.9.9\n"
    )
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    lines = [
        line
        for group, points in project["entry-points"].items()
        for line in (f"[{group}]", *(f"{name} = {value}" for name, value in points.items()))
    ]
    (metadata / "entry_points.txt").write_text("\n".join(lines))
    printed = python(
        IN_AIRFLOW,
        [tmp_path, PROJECT, ROOT],
        AIRFLOW__CORE__PLUGINS_FOLDER=str(ROOT / "plugins"),
    )
    assert json.loads(printed) == {
        "pages": ["Models"],
        "errors": [],
        "providers": ["airflow-provider-probclass"],
        "versions": ["9.9.9"],
        "imported twice": [],
        "by their last names": [],
        "imported by the API server only": [],
    }


def test_parsing_dags_imports_no_heavy_library() -> None:
    script = (
        f"{IMPORT_DAGS}\n"
        "from probclass_airflow.retries import ProbClassRetryPolicy\n"
        "ProbClassRetryPolicy()\n"
        "print(*sys.modules)"
    )
    loaded = set(python(script, [ROOT / "plugins", ROOT]).split())
    assert "airflow.sdk" in loaded
    heavy = {"numpy", "pandas", "pyarrow", "pyarrow.dataset", "scipy", "sklearn", "probclass_core"}
    assert not heavy & loaded


def test_airflow_imports_one_file_of_the_plugins_folder() -> None:
    """Neither the package that DAGs import nor the distributions."""
    paths = find_path_from_directory(str(ROOT / "plugins"), ".airflowignore", "glob")
    assert [path for path in map(str, paths) if path.endswith(".py")] == [
        str(ROOT / "plugins" / "probclass_airflow_plugin.py")
    ]


def test_the_metadata_names_the_modules_of_all_operators() -> None:
    (operators,) = get_provider_info()["operators"]
    assert set(operators["python-modules"]) == {
        getattr(probclass_airflow, name).__module__
        for name in probclass_airflow.__all__
        if name.endswith("Operator") and name != "ProbClassOperator"
    }


def test_the_metadata_follow_the_schema_of_airflow_and_name_existing_functions() -> None:
    info = get_provider_info()
    assert _create_provider_info_schema_validator().is_valid(info)
    (scheme,) = info["asset-uris"]
    named = [scheme[role] for role in ("handler", "factory", "to_openlineage_converter")]
    assert all(callable(import_string(name)) for name in named)
