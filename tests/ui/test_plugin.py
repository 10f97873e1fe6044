"""How Airflow finds the page: from an installed package, from a mounted folder, or from both."""

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

FOUND = """
import json, sys
import importlib.metadata, importlib_metadata

def without_others(every):
    return lambda **which: (
        each for each in every(**which) if "probclass" not in each.name or each.version == "9.9.9"
    )

for library in (importlib.metadata, importlib_metadata):
    library.distributions = without_others(library.distributions)
from airflow import plugins_manager
plugins = [each for each in plugins_manager._get_plugins()[0] if each.name == "probclass"]
errors = [key for key in plugins_manager.get_import_errors() if "probclass_airflow" in str(key)]
built = "probclass_airflow.ui.app" in sys.modules, "probclass_core" in sys.modules
views = [view["name"] for each in plugins for view in each.external_views]
copies = [name for name in sys.modules if name.endswith("ui.plugin") or name == "plugin"]
print(json.dumps([views, errors, copies, built]))
"""


@pytest.mark.parametrize(
    ("installed", "mounted"),
    [(True, False), (False, True), (True, True)],
    ids=["installed", "mounted", "installed and mounted"],
)
def test_the_page_is_there_once(installed: bool, mounted: bool, tmp_path: Path) -> None:
    # The metadata that a wheel would bring, made of what the project says; whatever the project was
    # installed as for the tests is not looked at.
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
        [sys.executable, "-c", FOUND],
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
