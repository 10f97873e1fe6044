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
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.main import get_command

import probclass_airflow
import probclass_core as pc
from probclass_core import errors
from probclass_core.cli.app import app
from probclass_core.plugins import hookspecs

ROOT = Path(__file__).parent.parent
SOURCES = sorted(
    path
    for folder in ("probclass_core", "plugins", "dags", "tests", "benchmarks")
    for path in (ROOT / folder).rglob("*.py")
)
CORE_MODULES = sorted(
    module.name for module in pkgutil.walk_packages(pc.__path__, "probclass_core.")
)
PACKAGES = [
    "probclass_core",
    *(
        module.name
        for module in pkgutil.walk_packages(pc.__path__, "probclass_core.")
        if module.ispkg
    ),
]
HOOKS = sorted(name for name in vars(hookspecs) if name.startswith("probclass_"))
ERRORS = sorted(
    name
    for name, value in vars(errors).items()
    if inspect.isclass(value) and issubclass(value, errors.ProbClassError)
)
OPERATORS = sorted(
    name for name in probclass_airflow.__all__ if re.fullmatch(r"ProbClass\w+Operator", name)
)


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def documentation() -> str:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    return "\n".join(page.read_text(encoding="utf-8") for page in pages)


def errors_expected(path: Path) -> Iterator[str]:
    """Names of the errors that a test file expects, as in ``pytest.raises(pc.DataError)``."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("raises") and node.args:
            yield from re.findall(r"\w+Error", ast.unparse(node.args[0]))


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_every_module_has_a_docstring(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))


def test_test_files_have_different_names() -> None:
    """Pytest imports them by name alone, and a part of the tests would not notice."""
    names = Counter(path.name for path in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_the_map_of_a_package_lists_its_modules(package: str) -> None:
    """Lines such as ``name  what it contains``, ``folder/  …`` or ``- `name`: …`` are the map.

    The map of a package may also list the modules of its subpackages.
    """
    inside = {
        name.removeprefix(f"{package}.") for name in CORE_MODULES if name.startswith(f"{package}.")
    }
    modules = {name for name in inside if "." not in name and not name.startswith("__")}
    listed = mapped(package) | (mapped(package.rpartition(".")[0]) if "." in package else set())
    assert modules <= listed
    assert mapped(package) <= {part for name in inside for part in name.split(".")}


def mapped(package: str) -> set[str]:
    """Names of modules in the map of a package."""
    text = inspect.getdoc(importlib.import_module(package)) or ""
    names = re.findall(r"(?m)^ *([a-z_]+)  |\b([a-z_]+)/(?=\s|\Z)|`([a-z_]+)`:", text)
    return {name for alternatives in names for name in alternatives if name}


def loaded_by(statement: str) -> set[str]:
    """Modules that a new process has loaded after a statement."""
    script = f"{statement}; import sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_importing_the_core_is_cheap() -> None:
    heavy = {
        *("airflow", "fsspec", "matplotlib", "pandas", "polars", "rich", "sklearn", "typer"),
        *("hypothesis", "pyarrow.dataset", "pyspark", "pytest", "scipy", "yaml"),
    }
    assert not {"numpy", "pyarrow", *heavy} & loaded_by("import probclass_core")
    assert not heavy & loaded_by("from probclass_core import *")


def test_a_fit_imports_only_what_it_needs(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"x": [1.0, 2.0, 5.0, 7.0], "y": list("aabb")}), path)
    spec = 'pc.ModelSpec("y", [pc.Block("gaussian_diagonal", ["x"])])'
    loaded = loaded_by(f"import probclass_core as pc; pc.fit({str(path)!r}, {spec})")
    packages = {name.split(".")[1] for name in loaded if name.startswith("probclass_core.")}
    needed = {
        "arguments",
        "arrow",
        "errors",
        "estimation",
        "execution",
        "io",
        "model",
        "pipeline",
        "plugins",
    }
    assert packages == needed | {"spec", "sql", "training"}
    assert "probclass_core.sql.source" not in loaded
    families = "probclass_core.estimation.families"
    assert f"{families}.gaussian.diagonal" in loaded
    assert not {f"{families}.{other}" for other in ("categorical", "gaussian.full", "knn")} & loaded


def test_type_checkers_see_the_public_names() -> None:
    stub = ast.parse((ROOT / "probclass_core" / "__init__.pyi").read_text(encoding="utf-8"))
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    assert all(alias.asname == alias.name for node in imports for alias in node.names)
    modules = {
        alias.name: f"probclass_core.{node.module}" for node in imports for alias in node.names
    }
    assert sorted(modules) == pc.__all__
    for name, module in modules.items():
        assert getattr(importlib.import_module(module), name) is getattr(pc, name)


@pytest.mark.parametrize("name", sorted(pc.__all__))
def test_a_public_name_is_documented(name: str) -> None:
    value = getattr(pc, name)
    assert not inspect.ismodule(value), "a module has the same name"
    if inspect.isclass(value) or inspect.isroutine(value):
        assert inspect.getdoc(value)
        assert not (inspect.getdoc(value) or "").startswith(f"{name}("), "a generated docstring"


@pytest.mark.parametrize("name", [name for name in ERRORS if name != "ProbClassError"])
def test_an_error_is_public_documented_and_tested(name: str) -> None:
    assert name in pc.__all__
    assert name in documentation()
    tests = [path for path in SOURCES if path.is_relative_to(ROOT / "tests")]
    assert any(name in errors_expected(path) for path in tests)


@pytest.mark.parametrize("name", HOOKS)
def test_a_hook_has_an_example_and_is_documented(name: str) -> None:
    assert ">>>" in (inspect.getdoc(getattr(hookspecs, name)) or "")
    assert name in documentation()


@pytest.mark.parametrize("name", CORE_MODULES)
def test_examples_in_docstrings_run(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


@pytest.mark.parametrize("name", sorted(pc.estimators()))
def test_an_estimator_has_a_section_in_the_docs(name: str) -> None:
    page = (ROOT / "docs" / "estimators.md").read_text(encoding="utf-8")
    assert re.search(rf"^#+ .*\b{name}\b", page, flags=re.MULTILINE)


@pytest.mark.parametrize("name", sorted(get_command(app).commands))
def test_a_command_is_documented(name: str) -> None:
    assert f"probclass {name}" in documentation()


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_is_documented(name: str) -> None:
    assert inspect.getdoc(getattr(probclass_airflow, name))
    assert name in documentation()


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


@pytest.mark.parametrize("workers", ["0", "2"])
@pytest.mark.parametrize(("ci", "code"), [("true", 1), ("", 0)])
def test_a_skipped_test_fails_the_run_in_ci(
    tmp_path: Path, ci: str, code: int, workers: str
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
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", workers, "--rootdir", tmp_path, tmp_path],
        capture_output=True,
        text=True,
        env={**os.environ, "CI": ci},
        check=False,
    )
    assert run.returncode == code
    assert "test_it.py::test_is_skipped" in run.stdout
    assert "\ntest_not_collected.py" in run.stdout
