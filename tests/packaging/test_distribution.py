"""What users install: the sdist and wheel of probclass and of its Airflow provider.

The wheels are installed into new environments: probclass into one for each supported version of
Python that is found on the path or below the root of pyenv.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from collections.abc import Callable, Iterator
from configparser import ConfigParser
from dataclasses import dataclass
from pathlib import Path

import pytest
from environments import CONSTRAINTS, PROJECTS, ROOT, build_wheel, install, new_environment, run

import probclass_core as pc

pytestmark = pytest.mark.nightly  # makes an environment for each supported version of Python

PROVIDER = PROJECTS["airflow-provider-probclass"]
SUPPORTED = re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text(encoding="utf-8"))
THIS_VERSION = f"{sys.version_info[0]}.{sys.version_info[1]}"
ADULT = ROOT / "probclass_core" / "demo" / "data" / "adult_test.parquet"
FIT = f"""
import probclass_core as pc
blocks = [pc.Block("gaussian_full", ["age", "hours_per_week"]), pc.Block("knn_density", ["fnlwgt"])]
print(pc.fit({str(ADULT)!r}, pc.ModelSpec("income", blocks)).id)
"""
USER = """
import probclass_core as pc

spec = pc.ModelSpec(label="y", blocks=[pc.Block("gaussian_full", ["x"])])
model: pc.Model = pc.fit({"x": [1.0, 2.0], "y": ["a", "b"]}, spec)
reveal_type(model.predict_proba({"x": [1.5]}))
pc.fit({"x": [1.0]}, spec, workers="two")
"""
IN_AIRFLOW = """
import json
from airflow import plugins_manager
from airflow.providers_manager import ProvidersManager
plugins_manager.ensure_plugins_loaded()
import probclass_airflow
import probclass_core
names = [name for name in ProvidersManager().providers if "probclass" in name]
plugins = [plugin.name for plugin in plugins_manager._get_plugins()[0] if "prob" in plugin.name]
print(json.dumps([names, plugins, probclass_core.__file__, probclass_airflow.__file__]))
"""


def pythons() -> Iterator[tuple[str, Path]]:
    """The first interpreter of each supported version that can create an environment."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    for version in SUPPORTED:
        candidates = [sys.executable, shutil.which(f"python{version}")]
        candidates += sorted(str(path) for path in root.glob(f"versions/{version}.*/bin/python"))
        for python in filter(None, candidates):
            probe = "import ensurepip, sys; print(*sys.version_info[:2], sep='.')"
            answer = subprocess.run(
                [python, "-c", probe], capture_output=True, text=True, check=False
            )
            if answer.stdout.strip() == version:
                yield version, Path(python)
                break


PYTHONS = dict(pythons())


@dataclass(frozen=True)
class Built:
    """Files of one project: its sdist, the wheel built from the sdist, the wheel of the tree."""

    sdist: Path
    wheel: Path
    from_tree: Path


def checksums(wheel: Path) -> dict[str, int]:
    """The files of a wheel with their checksums."""
    return {file.filename: file.CRC for file in zipfile.ZipFile(wheel).infolist()}


def packages(wheel: Path) -> set[str]:
    """Top-level packages and modules of a wheel."""
    names = {name.partition("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    return {name for name in names if not name.endswith(".dist-info")}


def entry_point_groups(wheel: Path) -> set[str]:
    """Groups in which a wheel registers entry points."""
    archive = zipfile.ZipFile(wheel)
    (path,) = (name for name in archive.namelist() if name.endswith("/entry_points.txt"))
    parser = ConfigParser(delimiters="=")
    parser.read_string(archive.read(path).decode())
    return set(parser.sections())


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Built]:
    """Build a project, once."""
    projects: dict[str, Built] = {}

    def build(project: str) -> Built:
        if project not in projects:
            chain, tree = (tmp_path_factory.mktemp(name) for name in ("chain", "tree"))
            run(sys.executable, "-m", "build", "--outdir", chain, PROJECTS[project])
            (sdist,), (wheel,) = chain.glob("*.tar.gz"), chain.glob("*.whl")
            projects[project] = Built(sdist, wheel, build_wheel(project, tree))
        return projects[project]

    return build


@pytest.fixture(scope="module")
def installed(
    built: Callable[[str], Built], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Callable[..., Path]]:
    """Install probclass under a version of Python, with an extra if given; its Python."""
    environments: dict[str, Path] = {}

    def under(version: str) -> Callable[..., Path]:
        if version not in environments:
            folder = tmp_path_factory.mktemp("environment") / version
            environments[version] = new_environment(folder, PYTHONS[version])

        def with_extra(extra: str = "") -> Path:
            install(environments[version], f"{built('probclass').wheel}{extra}")
            return environments[version]

        return with_extra

    return under


def add_airflow(python: Path) -> None:
    """Link Airflow and all else from the environment of this test run, except this project."""
    (site_packages,) = python.parents[1].glob("lib/python*/site-packages")
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if "probclass" not in entry.name and not (site_packages / entry.name).exists():
            (site_packages / entry.name).symlink_to(entry)


@pytest.mark.parametrize("project", PROJECTS)
def test_the_sdist_and_the_tree_give_the_same_wheel(
    project: str, built: Callable[[str], Built]
) -> None:
    files = built(project)
    assert files.wheel.name == files.from_tree.name
    assert checksums(files.wheel) == checksums(files.from_tree)
    assert any(name.endswith("licenses/LICENSE") for name in checksums(files.wheel))


def test_the_wheel_of_probclass_registers_nothing_with_airflow(
    built: Callable[[str], Built],
) -> None:
    wheel = built("probclass").wheel
    assert packages(wheel) == {"probclass_core"}
    assert entry_point_groups(wheel) == {"console_scripts"}
    data = {"demo/beijing_pm25.parquet", "py.typed", "report/static/report.css"}
    assert {f"probclass_core/{name}" for name in data} <= set(checksums(wheel))


def test_the_wheel_of_the_provider_registers_it_with_airflow(
    built: Callable[[str], Built],
) -> None:
    wheel = built("airflow-provider-probclass").wheel
    assert packages(wheel) == {"airflow_provider_probclass.py", "probclass_airflow"}
    assert entry_point_groups(wheel) == {"airflow.plugins", "apache_airflow_provider"}
    assert {"probclass_airflow/py.typed", "probclass_airflow/ui/templates/card.html"} <= set(
        checksums(wheel)
    )


def test_the_provider_has_the_version_and_the_license_of_probclass() -> None:
    project = tomllib.loads((PROVIDER / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == pc.__version__
    assert (PROVIDER / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_probclass_and_its_provider_work_in_one_environment(
    built: Callable[[str], Built], tmp_path: Path
) -> None:
    python = new_environment(tmp_path / "environment")
    install(python, "--no-deps", *(built(project).wheel for project in PROJECTS))
    add_airflow(python)
    answer = run(python, "-c", IN_AIRFLOW, AIRFLOW__CORE__PLUGINS_FOLDER=str(tmp_path / "none"))
    providers, plugins, *files = json.loads(answer.splitlines()[-1])
    assert (providers, plugins) == (["airflow-provider-probclass"], ["probclass"])
    assert all(Path(file).is_relative_to(tmp_path / "environment") for file in files)


@pytest.mark.parametrize("copied", [True, False], ids=["copied", "the checkout's folder"])
def test_a_mounted_plugins_folder_replaces_the_provider(
    copied: bool, built: Callable[[str], Built], tmp_path: Path
) -> None:
    python = new_environment(tmp_path / "environment")
    install(python, "--no-deps", built("probclass").wheel)
    add_airflow(python)
    folder = ROOT / "plugins"
    if copied:
        folder = tmp_path / "plugins"
        shutil.copytree(PROVIDER / "probclass_airflow", folder / "probclass_airflow")
        for file in ("probclass_airflow_plugin.py", ".airflowignore"):
            shutil.copy(ROOT / "plugins" / file, folder)
    answer = run(python, "-c", IN_AIRFLOW, AIRFLOW__CORE__PLUGINS_FOLDER=str(folder))
    providers, plugins, core, operators = json.loads(answer.splitlines()[-1])
    assert (providers, plugins) == ([], ["probclass"])
    assert Path(core).is_relative_to(tmp_path / "environment")
    assert Path(operators) == folder / "probclass_airflow" / "__init__.py"


def test_an_older_airflow_lists_the_provider_and_refuses_its_operators(tmp_path: Path) -> None:
    (tmp_path / "airflow").mkdir()
    (tmp_path / "airflow" / "__init__.py").write_text('__version__ = "2.10.5"', encoding="utf-8")
    path = os.pathsep.join([str(tmp_path), str(PROVIDER)])
    listed = "from airflow_provider_probclass import get_provider_info as i; print(i()['name'])"
    assert run(sys.executable, "-c", listed, PYTHONPATH=path) == "probclass\n"
    for module in ("probclass_airflow", "probclass_airflow.ui.plugin", "probclass_airflow.hooks"):
        with pytest.raises(AssertionError) as refused:
            run(sys.executable, "-c", f"import {module}", PYTHONPATH=path)
        assert (
            "RuntimeError: The package `airflow-provider-probclass` needs Apache Airflow 3.2+, "
            "but version 2.10.5 is installed: pip install --upgrade 'apache-airflow>=3.2'\n"
        ) in str(refused.value)


@pytest.mark.parametrize("version", PYTHONS)
def test_the_wheel_works_in_a_new_environment(
    version: str, installed: Callable[[str], Callable[..., Path]]
) -> None:
    """First without extras, then with the command line."""
    python = installed(version)()
    blocks = [
        pc.Block("gaussian_full", ["age", "hours_per_week"]),
        pc.Block("knn_density", ["fnlwgt"]),
    ]
    model = pc.fit(ADULT, pc.ModelSpec("income", blocks))
    assert run(python, "-c", FIT).strip() == model.id
    bare = subprocess.run(
        [python, "-m", "probclass_core"], capture_output=True, text=True, check=False
    )
    advice = "the command line needs click, which is not installed: pip install 'probclass[cli]'"
    assert (bare.returncode, bare.stderr) == (1, f"error: {advice}\n")

    run(
        *(sys.executable, "-m", "pip", "--python", python, "install", "--quiet"),
        *("--constraint", CONSTRAINTS, "probclass[cli]"),
    )
    output = run(python, "-m", "probclass_core", "--version")
    assert output == run(python.with_name("probclass"), "--version")
    assert pc.__version__ in output


def test_the_shell_completes_commands() -> None:
    settings = {"_PROBCLASS_COMPLETE": "bash_complete", "COMP_CWORD": "1"}
    command = Path(sys.executable).with_name("probclass")
    assert "evaluate" in run(command, COMP_WORDS="probclass ev", **settings)


def test_type_checkers_see_the_types(
    installed: Callable[[str], Callable[..., Path]], tmp_path: Path
) -> None:
    """`py.typed` of the installed wheel has its effect, and a wrong argument is an error."""
    (tmp_path / "user.py").write_text(USER, encoding="utf-8")
    python = installed(THIS_VERSION)()
    ended = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--python-executable", python, "user.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    messages = [line for line in ended.stdout.splitlines() if line.startswith("user.py")]
    assert len(messages) == 2, ended.stdout
    assert "ndarray" in messages[0]
    assert '"workers"' in messages[1]
