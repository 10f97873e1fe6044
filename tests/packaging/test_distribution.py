"""What a user installs: the sdist, the wheel, and what works in environments made of them.

Tried on every Python of a supported version that is found, on the path or below pyenv's root.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import probclass_core as pc

ROOT = Path(__file__).parents[2]
CONSTRAINTS = ROOT / "constraints.txt"
SUPPORTED = re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text(encoding="utf-8"))
ADULT = ROOT / "tests" / "data" / "adult_test.parquet"
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


def run(*command: str | Path, **settings: str) -> str:
    """What a command prints; where it fails, the test does, with its words."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=Path(sys.prefix).parent.anchor,  # not the checkout, whose packages would be found first
        env={**os.environ, "PYTHONSAFEPATH": "1", **settings},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def pythons() -> Iterator[tuple[str, Path]]:
    """Of each supported version the first interpreter that can make an environment."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    for version in SUPPORTED:
        known = [sys.executable, shutil.which(f"python{version}")]
        known += sorted(str(path) for path in root.glob(f"versions/{version}.*/bin/python"))
        for python in filter(None, known):
            probe = "import ensurepip, sys; print(*sys.version_info[:2], sep='.')"
            found = subprocess.run(
                [python, "-c", probe], capture_output=True, text=True, check=False
            )
            if found.stdout.strip() == version:
                yield version, Path(python)
                break


PYTHONS = dict(pythons())


@dataclass(frozen=True)
class Built:
    """Files of one build: the sdist, the wheel made of it, the wheel made of the tree."""

    sdist: Path
    wheel: Path
    from_tree: Path


def contents(wheel: Path) -> dict[str, int]:
    """The files of a wheel, with their checksums."""
    return {file.filename: file.CRC for file in zipfile.ZipFile(wheel).infolist()}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    chain, tree = (tmp_path_factory.mktemp(name) for name in ("chain", "tree"))
    run(sys.executable, "-m", "build", "--outdir", chain, ROOT)
    run(sys.executable, "-m", "build", "--wheel", "--outdir", tree, ROOT)
    ((sdist,), (wheel,), (from_tree,)) = (
        chain.glob("*.tar.gz"),
        chain.glob("*.whl"),
        tree.glob("*.whl"),
    )
    return Built(sdist, wheel, from_tree)


@pytest.fixture(scope="module")
def installed(
    built: Built, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Callable[..., Path]]:
    """Install the wheel under a version of Python, with an extra if given; its interpreter."""
    made: dict[str, Path] = {}

    def under(version: str) -> Callable[..., Path]:
        if version not in made:
            folder = tmp_path_factory.mktemp("environment") / version
            run(PYTHONS[version], "-m", "venv", "--without-pip", folder)
            made[version] = folder / "bin" / "python"

        def with_extra(extra: str = "") -> Path:
            wheel = f"{built.wheel}{extra}"
            pip = (sys.executable, "-m", "pip", "--python", made[version], "install", "--quiet")
            run(*pip, "--no-compile", "--constraint", CONSTRAINTS, wheel)
            return made[version]

        return with_extra

    return under


def test_the_wheel_of_the_sdist_is_that_of_the_tree(built: Built) -> None:
    assert built.wheel.name == built.from_tree.name
    assert contents(built.wheel) == contents(built.from_tree)


def test_an_index_would_take_them(built: Built) -> None:
    files = (built.sdist, built.wheel)
    assert "PASSED" in run(sys.executable, "-m", "twine", "--no-color", "check", "--strict", *files)


def test_the_wheel_holds_two_packages_and_their_data(built: Built) -> None:
    names = zipfile.ZipFile(built.wheel).namelist()
    folders = {name.partition("/")[0] for name in names}
    assert {name for name in folders if not name.endswith("-info")} == {
        "probclass_airflow",
        "probclass_core",
    }
    assert {"probclass_core/py.typed", "probclass_core/demo/beijing_pm25.parquet"} <= set(names)
    assert any(name.endswith("licenses/LICENSE") for name in names)


@pytest.mark.parametrize("version", PYTHONS)
def test_the_wheel_works_in_a_fresh_environment(
    version: str, installed: Callable[[str], Callable[..., Path]]
) -> None:
    """First without extras, then with the command line."""
    python = installed(version)()
    blocks = [
        pc.Block("gaussian_full", ["age", "hours_per_week"]),
        pc.Block("knn_density", ["fnlwgt"]),
    ]
    here = pc.fit(ADULT, pc.ModelSpec("income", blocks))
    assert run(python, "-c", FIT).strip() == here.id
    bare = subprocess.run(
        [python, "-m", "probclass_core"], capture_output=True, text=True, check=False
    )
    assert (bare.returncode, bare.stderr) == (
        2,
        "error: probclass needs typer: pip install 'probclass[cli]'\n",
    )

    python = installed(version)("[cli]")
    told = run(python, "-m", "probclass_core", "--version")
    assert told == run(python.with_name("probclass"), "--version")
    assert pc.__version__ in told


@pytest.mark.parametrize(
    ("shell", "settings"),
    [
        ("bash", {"COMP_WORDS": "probclass ev", "COMP_CWORD": "1"}),
        ("zsh", {"_TYPER_COMPLETE_ARGS": "probclass ev"}),
        (
            "fish",
            {"_TYPER_COMPLETE_ARGS": "probclass ev", "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
        ),
    ],
)
def test_a_shell_completes_commands(shell: str, settings: dict[str, str]) -> None:
    command = Path(sys.executable).with_name("probclass")
    assert "evaluate" in run(command, _PROBCLASS_COMPLETE=f"complete_{shell}", **settings)
    script = run(
        command, "--show-completion", shell, _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1"
    )
    assert "_PROBCLASS_COMPLETE" in script


def test_completion_is_installed(tmp_path: Path) -> None:
    command = Path(sys.executable).with_name("probclass")
    settings = {"HOME": str(tmp_path), "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    assert "completion installed" in run(command, "--install-completion", "bash", **settings)
    assert "probclass" in (tmp_path / ".bashrc").read_text(encoding="utf-8")


def test_type_checkers_see_the_types(
    installed: Callable[[str], Callable[..., Path]], tmp_path: Path
) -> None:
    """Of the wheel as installed: `py.typed` is heeded, and a wrong argument is an error."""
    (tmp_path / "user.py").write_text(USER, encoding="utf-8")
    python = installed(f"{sys.version_info[0]}.{sys.version_info[1]}")()
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--python-executable", python, "user.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    told = [line for line in done.stdout.splitlines() if line.startswith("user.py")]
    assert len(told) == 2, done.stdout
    assert "ndarray" in told[0]
    assert '"workers"' in told[1]
