"""Airflow finds the pages of models in an installed package, in a mounted folder, or in both."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROVIDER = ROOT / "plugins" / "airflow-provider-probclass"
POINT = tomllib.loads((PROVIDER / "pyproject.toml").read_text())["project"]["entry-points"]

LOADED = """
import json, sys
import importlib.metadata, importlib_metadata

def without_others(distributions):
    return lambda **names: (
        found for found in distributions(**names)
        if "probclass" not in found.name or found.version == "9.9.9"
    )

for library in (importlib.metadata, importlib_metadata):
    library.distributions = without_others(library.distributions)
from airflow import plugins_manager
plugins = [found for found in plugins_manager._get_plugins()[0] if found.name == "probclass"]
errors = [key for key in plugins_manager.get_import_errors() if "probclass_airflow" in str(key)]
built = "probclass_airflow.ui.app" in sys.modules, "probclass_core" in sys.modules
views = [view["name"] for plugin in plugins for view in plugin.external_views]
copies = [name for name in sys.modules if name.endswith("ui.plugin") or name == "plugin"]
print(json.dumps([views, errors, copies, built]))
"""


@pytest.mark.parametrize(
    ("installed", "mounted"),
    [(True, False), (False, True), (True, True)],
    ids=["installed", "mounted", "installed and mounted"],
)
def test_the_pages_are_registered_once(installed: bool, mounted: bool, tmp_path: Path) -> None:
    # Metadata of a wheel, made from pyproject.toml; distributions that are installed for the tests
    # are hidden.
    metadata = tmp_path / "site" / "airflow_provider_probclass-9.9.9.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: airflow-provider-probclass\nVersion: 9.9.9\n"
    )
    points = POINT["airflow.plugins"] if installed else {}
    lines = [f"{name} = {value}" for name, value in points.items()]
    (metadata / "entry_points.txt").write_text("\n".join(["[airflow.plugins]", *lines]))
    (tmp_path / "plugins").mkdir()
    folder = ROOT / "plugins" if mounted else tmp_path / "plugins"
    path = [str(tmp_path / "site"), str(ROOT / "plugins"), str(ROOT)]
    ended = subprocess.run(
        [sys.executable, "-c", LOADED],
        env={
            **os.environ,
            "AIRFLOW__CORE__PLUGINS_FOLDER": str(folder),
            "PYTHONPATH": os.pathsep.join(path),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    views, errors, copies, built = json.loads(ended.stdout.splitlines()[-1])
    assert views == ["Models"]
    assert errors == []
    assert copies == ["probclass_airflow.ui.plugin"]
    assert built == [False, False]  # only the API server asks for the application
