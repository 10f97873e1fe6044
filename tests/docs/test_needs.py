"""The code of every page and notebook prints what it shows, with what the page says it needs.

probclass comes from its wheel, in a new environment with no more than that, in an empty folder
outside the clone. `run_page` says which code is run, and compares the output.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from environments import PROJECTS, ROOT, Environments, run
from pages import NOTEBOOKS, PAGES, blocks, examples, needs, relative, table
from run_page import commands_to_run

import probclass_core as pc

EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
    "optional-dependencies"
]


def has_code(page: Path) -> bool:
    text = page.read_text(encoding="utf-8")
    return bool(list(examples(text)) or any(map(commands_to_run, blocks(text))))


# Pages that need little come first, so that environments are shared.
WITH_CODE = sorted(filter(has_code, PAGES), key=lambda page: len(needs(page) or ()))


@pytest.fixture(scope="module")
def environments(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Environments]:
    made = Environments(tmp_path_factory.mktemp("environments"))
    yield made
    made.remove()


def test_the_table_of_extras_is_that_of_pyproject() -> None:
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    documented = {name: packages for name, _, packages in table(page, "extra")}
    assert documented.pop("all") == ""
    # The other extras serve the development of probclass.
    assert set(EXTRAS) - set(documented) == {"all", "bench", "dev", "docs", "test"}
    for name, packages in documented.items():
        names = sorted(re.split(r"[^\w-]", requirement)[0] for requirement in EXTRAS[name])
        assert re.findall(r"[\w-]+", packages) == names
    (everything,) = re.findall(r"`all` \|(.+?)\|", page)
    assert re.findall(r"`([\w-]+)`", everything) == re.findall(r"[\w-]+", EXTRAS["all"][0])[1:]


def test_the_page_names_the_wheels_that_are_built() -> None:
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    named = set(re.findall(r"dist/(\w+)-([\w.]+)-py3-none-any\.whl", page))
    assert named == {(name.replace("-", "_"), pc.__version__) for name in PROJECTS}


def test_no_page_installs_this_project_from_an_index() -> None:
    """An extra can be added by name once probclass is installed; the rest comes from files."""
    for page in [*PAGES, *ROOT.glob("plugins/*/README.md")]:
        for command in re.findall(r"pip install ([^`\n#]+)", page.read_text(encoding="utf-8")):
            assert not set(PROJECTS) & set(command.replace("'", "").split()), (page, command)


@pytest.mark.nightly
@pytest.mark.parametrize("page", WITH_CODE, ids=relative)
def test_a_page_runs_with_what_it_says_it_needs(
    page: Path, environments: Environments, tmp_path: Path
) -> None:
    wanted = needs(page)
    assert wanted is not None, "add 'To run this page, [install](install.md) …'; see pages.py"
    runner = ROOT / "tests" / "docs" / "run_page.py"
    run(environments.python(wanted), runner, page, cwd=tmp_path, PYTHONSAFEPATH="")


@pytest.mark.nightly
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=relative)
def test_a_notebook_runs_with_what_it_says_it_needs(
    notebook: Path, environments: Environments, tmp_path: Path
) -> None:
    wanted = needs(notebook)
    assert wanted is not None, "add 'To run this notebook, [install](../install.md) …'"
    (tmp_path / notebook.name).write_bytes(notebook.read_bytes())
    execute = environments.python(wanted).with_name("jupyter-execute")
    settings = {f"{name}_DIR": str(tmp_path / name) for name in ("JUPYTER_RUNTIME", "IPYTHON")}
    run(execute, "--KernelManager.transport=ipc", notebook.name, cwd=tmp_path, **settings)
