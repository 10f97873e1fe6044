"""Conventions that a linter cannot check, such as: every public name is documented and tested."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import os
import pkgutil
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from graphlib import TopologicalSorter
from itertools import chain
from pathlib import Path

import grimp
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from python_processes import output_of_python

import probclass_core as pc
from probclass_core import errors, report
from probclass_core.plugins import hookspecs

ROOT = Path(__file__).parent.parent
SOURCES = sorted(
    path
    for folder in ("probclass_core", "plugins", "dags", "tests", "benchmarks")
    for path in (ROOT / folder).rglob("*.py")
)
CORE_MODULES = {
    module.name: module.ispkg for module in pkgutil.walk_packages(pc.__path__, "probclass_core.")
}
"""Modules and whether they are packages."""


def errors_expected(path: Path) -> Iterator[str]:
    """Names of the errors that a test file expects, as in ``pytest.raises(DataError)``."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("raises") and node.args:
            yield from re.findall(r"\w+Error", ast.unparse(node.args[0]))


def test_test_files_have_different_names() -> None:
    """Pytest imports them by name alone, and a part of the tests would not notice."""
    names = Counter(path.name for path in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []


def test_nothing_is_left_behind_at_the_top_level() -> None:
    """Such as a table that an experiment wrote to the working directory."""
    files = subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).splitlines()
    folders = {path.partition("/")[0] for path in files if "/" in path if path[0] != "."}
    product = {"dags", "plugins", "probclass_core", "tests", "docker"}
    assert folders == product | {"benchmarks", "docs", "pins"}


def test_the_map_of_a_package_lists_its_modules() -> None:
    """Lines such as ``name  what it contains``, ``folder/  …`` or ``- `name`: …`` are the map.

    The map of a package may also list the modules of its subpackages.
    """
    for package in (
        "probclass_core",
        *(name for name, is_package in CORE_MODULES.items() if is_package),
    ):
        parent = package.rpartition(".")[0]
        inside = {
            name.removeprefix(f"{package}.")
            for name in CORE_MODULES
            if name.startswith(f"{package}.")
        }
        modules = {name for name in inside if "." not in name and not name.startswith("__")}
        listed = mapped(package) | (mapped(parent) if parent else set())
        assert modules <= listed, package
        assert mapped(package) <= {part for name in inside for part in name.split(".")}, package


def mapped(package: str) -> set[str]:
    """Names of modules in the map of a package."""
    text = inspect.getdoc(importlib.import_module(package)) or ""
    names = re.findall(r"(?m)^ *([a-z_]+)  |\b([a-z_]+)/(?=\s|\Z)|`([a-z_]+)`:", text)
    return {name for alternatives in names for name in alternatives if name}


def loaded_by(statement: str) -> set[str]:
    """Modules that a new process has loaded after a statement."""
    return set(output_of_python("-c", f"{statement}; import sys; print(*sys.modules)").split())


def test_importing_the_core_is_cheap() -> None:
    heavy = {
        *("airflow", "fsspec", "matplotlib", "pandas", "polars", "rich", "sklearn", "click"),
        *("hypothesis", "pyarrow.dataset", "pyspark", "pytest", "scipy", "yaml"),
    }
    assert not {"numpy", "pyarrow", *heavy} & loaded_by("import probclass_core")
    assert not heavy & loaded_by("from probclass_core import *")


def test_no_module_imports_itself_through_others() -> None:
    """Imports inside functions and for types count, but not those of the stubs of the face."""
    graph = grimp.build_graph("probclass_core", cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    TopologicalSorter(imports).prepare()  # raises CycleError


def test_a_fit_imports_only_what_it_needs(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"x": [1.0, 2.0, 5.0, 7.0], "y": list("aabb")}), path)
    spec = 'pc.ModelSpec("y", [pc.Block("gaussian_diagonal", ["x"])])'
    loaded = loaded_by(f"import probclass_core as pc; pc.fit({str(path)!r}, {spec})")
    packages = {name.split(".")[1] for name in loaded if name.startswith("probclass_core.")}
    needed = {
        "arguments",
        "arrow",
        "attached",
        "display",
        "errors",
        "estimation",
        "execution",
        "io",
        "model",
        "pipeline",
        "plugins",
    }
    assert packages == needed | {"release", "spec", "sql", "training"}
    assert "probclass_core.sql.source" not in loaded
    families = "probclass_core.estimation.families"
    assert f"{families}.gaussian.diagonal" in loaded
    assert not {f"{families}.{other}" for other in ("counted", "counts", "knn")} & loaded


def test_type_checkers_see_the_public_names() -> None:
    stub = ast.parse((ROOT / "probclass_core" / "__init__.pyi").read_text(encoding="utf-8"))
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    assert all(alias.asname == alias.name for node in imports for alias in node.names)
    modules = {
        alias.name: f"probclass_core.{node.module or ''}".rstrip(".")
        for node in imports
        for alias in node.names
    }
    assert sorted(modules) == pc.__all__
    for name, module in modules.items():
        assert getattr(importlib.import_module(module), name) is getattr(pc, name)


def test_the_public_face_stays_small() -> None:
    """A record, or a function that few call, is imported from its module; see docs/api."""
    assert len(pc.__all__) <= 40
    assert pc.errors is errors


def documented_names() -> set[str]:
    """Names with an entry in docs/api."""
    pages = (ROOT / "docs" / "api").glob("*.md")
    texts = [page.read_text(encoding="utf-8") for page in pages]
    return {name for text in texts for name in re.findall(r"(?m)^::: (\S+)$", text)}


def test_the_provider_uses_public_names_only() -> None:
    allowed = {
        *documented_names(),
        *(f"probclass_core.{name}" for name in ("plots", *pc.__all__)),
        *(f"probclass_core.report.{name}" for name in report.__all__),
        # The pages show values as reports and the command line do.
        "probclass_core.errors.hide_credentials",
        "probclass_core.display.described_rows",
        "probclass_core.display.minute",
    }
    provider = ROOT / "plugins" / "airflow-provider-probclass" / "probclass_airflow"
    used = {
        f"{node.module}.{alias.name}": path.name
        for path in provider.rglob("*.py")
        if path.parent.name != "demo"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom)
        and str(node.module).startswith("probclass_core")
        and node.module != "probclass_core.report.html"
        for alias in node.names
    }
    assert {name: path for name, path in used.items() if name not in allowed} == {}


def test_every_public_name_has_a_docstring() -> None:
    public = {name.rpartition(".")[::2] for name in documented_names() if "airflow" not in name}
    for module, name in public | {("probclass_core", name) for name in pc.__all__}:
        value = getattr(importlib.import_module(module), name)
        assert not inspect.ismodule(value) or value is errors, f"a module is named {name} as well"
        if inspect.isclass(value) or inspect.isroutine(value):
            text = inspect.getdoc(value)
            assert text, name
            assert not text.startswith(f"{name}("), f"{name} has a generated docstring"


def test_every_error_is_public_and_tested() -> None:
    names = {
        name
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, errors.ProbClassError)
    }
    tests = (path for path in SOURCES if path.is_relative_to(ROOT / "tests"))
    expected = {name for path in tests for name in errors_expected(path)}
    assert names - {name.rpartition(".")[2] for name in documented_names()} == set()
    assert names - expected == set()


def test_every_hook_has_an_example() -> None:
    hooks = [value for name, value in vars(hookspecs).items() if name.startswith("probclass_")]
    assert hooks
    assert [hook for hook in hooks if ">>>" not in (inspect.getdoc(hook) or "")] == []


def test_examples_in_docstrings_run() -> None:
    ran = {name: doctest.testmod(importlib.import_module(name)) for name in CORE_MODULES}
    assert [name for name, results in ran.items() if results.failed] == []


def pins(name: str) -> dict[str, str]:
    """The packages of a file in pins/ and their versions; nothing else may be in it."""
    text = (ROOT / "pins" / name).read_text(encoding="utf-8")
    pin = re.compile(
        r"([a-z0-9-]+)==([\w.!]+)(?: ; [^/\n\\]+)?((?: \\\n    --hash=sha256:[0-9a-f]{64})*)\n"
    )
    header, rest = text.split("\n#    make constraints\n")
    assert header.startswith("# "), "the file says how to update it"
    assert pin.sub("", rest) == "", "an address, or a version that is not exact"
    found = list(pin.finditer(rest))
    assert all(bool(match[3]) == (name != "constraints.txt") for match in found)
    return {match[1]: match[2] for match in found}


def test_every_pinned_file_has_the_versions_of_the_constraints() -> None:
    constraints = pins("constraints.txt")
    assert pins("development.txt").items() | pins("image.txt").items() == constraints.items()
    assert pins("image.txt").items() < constraints.items()
    assert pins("build.txt").items() < constraints.items()
    assert pins("installer.txt").items() < constraints.items()


def test_packages_with_a_copyleft_license_are_listed() -> None:
    report = subprocess.run(
        [sys.executable, ROOT / ".ci" / "licenses.py"], capture_output=True, check=True, text=True
    ).stdout
    copyleft = {
        line.split()[0]
        for line in report.splitlines()
        if re.search("GPL|MPL|EPL|CDDL|EUPL|Mozilla|GNU", line)
    }
    page = (ROOT / "docs" / "deployment.md").read_text(encoding="utf-8")
    table = page.partition("| package | license |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
    assert set(re.findall(r"`([\w-]+)`", " ".join(rows))) == copyleft


def test_every_direct_dependency_is_pinned() -> None:
    constraints = pins("constraints.txt")
    for path in (
        ROOT / "pyproject.toml",
        ROOT / "plugins/airflow-provider-probclass/pyproject.toml",
    ):
        project = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
        for requirement in chain(
            project["dependencies"], *project["optional-dependencies"].values()
        ):
            name = re.split(r"[^\w.-]", requirement)[0].lower().replace("_", "-")
            assert name == "probclass" or name in constraints, requirement


@pytest.mark.parametrize(("workers", "ci", "code"), [("1", "true", 1), ("0", "", 0)])
def test_a_skipped_test_fails_the_run_in_ci(
    tmp_path: Path, workers: str, ci: str, code: int
) -> None:
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    # These files are tests of another run, whose skips conftest.py must turn into failures.
    (tmp_path / "test_it.py").write_text(
        "import pytest\n"
        "def test_runs(): pass\n"
        "@pytest.mark.skip(reason='shows that CI refuses it')\n"
        "def test_is_skipped(): pass\n"
    )
    (tmp_path / "test_not_collected.py").write_text(
        "import pytest\npytest.importorskip('absent')\n"
    )
    options = ("-p", "xdist", "-n", workers, "--rootdir", tmp_path)
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *options, tmp_path],
        capture_output=True,
        text=True,
        env={**os.environ, "CI": ci, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        check=False,
    )
    assert run.returncode == code
    assert "test_it.py::test_is_skipped" in run.stdout
    assert "\ntest_not_collected.py" in run.stdout
