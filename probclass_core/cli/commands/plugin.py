"""plugin new: create a project for your own estimator, which passes its tests from the start."""

from __future__ import annotations

import keyword
import re
import string
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Annotated

import probclass_core
from probclass_core.cli.output import show
from probclass_core.errors import PluginError, SpecError
from probclass_core.plugins.descriptors import PROBCLASS_API
from probclass_core.plugins.manager import registry

_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


def new(
    name: Annotated[str, "NAME: Name of the estimator in specs, such as log_normal."],
    *,
    directory: Path = Path(),
    summary: str | None = None,
) -> None:
    """Create a project for your own estimator: module, tests and metadata.

    The project starts as an exponential density that passes its tests; replace it by yours.

    Example: probclass plugin new log_normal --summary "log-normal waiting times"

    Options:
        directory: DIR: directory to create the project in.
        summary: TEXT: what the estimator models, in a few words, for 'probclass estimators'.
    """
    names = _names(name)
    names["summary"] = summary or f"Describe {name} here."
    folder = directory / names["distribution"]
    if folder.exists():
        raise SpecError(f"{folder} already exists; choose another name or --directory.")
    files = {folder / path: text for path, text in _files(names)}
    try:
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SpecError(f"cannot write {folder}: {error.strerror}.") from error
    listing = "\n".join(f"  {path}" for path in files)
    show(
        {"folder": str(folder), "files": [str(path) for path in files], **names},
        f"Created a project for the estimator {name}:\n{listing}",
        f"Next:\n  cd {folder}\n  pip install -e '.[test]'\n  pytest",
    )


def _names(name: str) -> dict[str, str]:
    """The names that the template's placeholders stand for.

    Raises:
        SpecError: if the name cannot name an estimator.
        PluginError: if an estimator of that name is registered.
    """
    if not _NAME.fullmatch(name) or keyword.iskeyword(name):
        raise SpecError(
            f"{name!r} cannot name an estimator: use lower-case words of letters and digits, "
            "joined by '_' and starting with a letter, such as 'log_normal'."
        )
    known = registry()
    if name in known.estimators or any(name in plugin.offers for plugin in known.plugins):
        raise PluginError(f"estimator {name!r} is already registered; choose another name.")
    major, minor = probclass_core.__version__.split(".")[:2]
    class_name = "".join(word.capitalize() for word in name.split("_"))
    return {
        "name": name,
        "distribution": f"probclass-{name.replace('_', '-')}",
        "package": f"probclass_{name}",
        "class_name": class_name,
        "api": str(PROBCLASS_API),
        "release": f"{major}.{minor}",
        "next_release": f"{major}.{int(minor) + 1}" if major == "0" else f"{int(major) + 1}",
    }


def _files(names: dict[str, str]) -> Iterator[tuple[str, str]]:
    """The path within the project and the text of each file."""
    package = names["package"]
    template = resources.files("probclass_core.cli") / "plugin_template"
    for path, source in {
        "pyproject.toml": "pyproject.toml",
        "README.md": "README.md",
        f"{package}/__init__.py": "package.py",
        f"{package}/estimator.py": "estimator.py",
        f"tests/test_{names['name']}.py": "test.py",
    }.items():
        text = (template / f"{source}.txt").read_text(encoding="utf-8")
        yield path, string.Template(text).substitute(names)
    yield f"{package}/py.typed", ""
