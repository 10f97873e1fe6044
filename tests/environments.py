"""New environments with the wheels of this project, as users have them, and commands in them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

ROOT = Path(__file__).parents[1]
CONSTRAINTS = ROOT / "pins" / "constraints.txt"
PROJECTS = {
    "probclass": ROOT,
    "airflow-provider-probclass": ROOT / "plugins" / "airflow-provider-probclass",
}


def run(*command: str | Path, cwd: Path | None = None, **variables: str) -> str:
    """Output of a command outside the clone; if it fails, so does the test, with its output."""
    ended = subprocess.run(
        [str(part) for part in command],
        cwd=cwd or Path(sys.prefix).parent.anchor,
        env={**os.environ, "PYTHONPATH": "", "PYTHONSAFEPATH": "1", **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def build_wheel(project: str, folder: Path) -> Path:
    """Build the wheel of a project from the tree; its path."""
    run(
        *(sys.executable, "-m", "build", "--wheel", "--no-isolation"),
        *("--outdir", folder, PROJECTS[project]),
    )
    (wheel,) = folder.glob(f"{project.replace('-', '_')}-*.whl")
    return wheel


def new_environment(folder: Path, base: str | Path = sys.executable) -> Path:
    """Create an environment without pip; the path of its Python."""
    run(base, "-m", "venv", "--without-pip", folder)
    return folder / "bin" / "python"


def install(python: Path, *arguments: str | Path) -> None:
    """Install into an environment, with the versions of ``pins/constraints.txt``."""
    run(ROOT / ".ci" / "install", python, "--constraint", CONSTRAINTS, *arguments)


class Environments:
    """Environments with probclass and exactly what is asked for, made when they are needed.

    An environment that has a part of what is asked for gets the rest, since a new one takes longer;
    ask for little first.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._installed: dict[Path, frozenset[str]] = {}
        self._wheels: dict[str, Path] = {}

    def python(self, needs: Collection[str] = ()) -> Path:
        """The Python of an environment with these requirements, such as ``probclass[cli]``."""
        wanted = frozenset(needs)
        parts = [python for python, has in self._installed.items() if has <= wanted]
        if parts:
            python = max(parts, key=lambda python: len(self._installed[python]))
        else:
            python = new_environment(self._folder / f"environment{len(self._installed)}")
            install(python, self._wheel("probclass"))
            self._installed[python] = frozenset()
        missing = sorted(wanted - self._installed[python])
        if missing:
            # For an extra, uv finds probclass in the environment, so its name is enough.
            install(python, *(self._wheel(need) if need in PROJECTS else need for need in missing))
        self._installed[python] = wanted
        return python

    def remove(self) -> None:
        """Remove all environments, which are large."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _wheel(self, project: str) -> Path:
        if project not in self._wheels:
            self._wheels[project] = build_wheel(project, self._folder)
        return self._wheels[project]
