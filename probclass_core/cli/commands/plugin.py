"""plugin new: a project for an estimator of one's own, which keeps every law from the start."""

from __future__ import annotations

import keyword
import re
import string
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from probclass_core.cli.options import Json
from probclass_core.cli.output import put, put_json
from probclass_core.errors import PluginError, SpecError

plugin = typer.Typer(help="Write an estimator of your own.", no_args_is_help=True)

_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


@plugin.callback()
def _plugin() -> None:
    """Keep `new` a command of its own; a lone one would take the group's place."""


@plugin.command("new")
def new(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="Of the estimator, as specs call it: log_normal."),
    ],
    directory: Annotated[
        Path, typer.Option("--directory", metavar="DIR", help="Where the project's folder goes.")
    ] = Path(),
    as_json: Json = False,
) -> None:
    """Write a project for an estimator: module, tests, metadata.

    It begins as exponential waiting times and passes its own tests; make your density of it.

    Example: probclass plugin new log_normal --directory ~/src
    """
    words = _words(name)
    folder = directory / words["distribution"]
    if folder.exists():
        raise SpecError(f"{folder} is there already; choose another name or --directory.")
    written = {folder / path: text for path, text in _files(words)}
    try:
        for path, text in written.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SpecError(f"cannot write {folder}: {error.strerror}.") from error
    if as_json:
        put_json({"folder": str(folder), "files": [str(path) for path in written], **words})
        return
    files = "\n".join(f"  {path}" for path in written)
    put(
        f"A project for the estimator {name}:\n{files}",
        f"Next:\n  cd {folder}\n  pip install -e '.[test]'\n  pytest",
    )


def _words(name: str) -> dict[str, str]:
    """What the template calls things.

    Raises:
        SpecError: the name is none for an estimator, or another's.
    """
    import probclass_core
    from probclass_core.plugins.manager import registry

    if not _NAME.fullmatch(name) or keyword.iskeyword(name):
        raise SpecError(
            f"{name!r} is no name for an estimator: lower-case words of letters and digits, joined "
            "by '_', the first beginning with a letter, such as 'log_normal'."
        )
    found = registry()
    if name in found.estimators or any(name in plugin.offers for plugin in found.plugins):
        raise PluginError(f"estimator {name!r} is registered already; give yours another name.")
    major, minor = probclass_core.__version__.split(".")[:2]
    class_name = "".join(word.capitalize() for word in name.split("_"))
    return {
        "name": name,
        "distribution": f"probclass-{name.replace('_', '-')}",
        "package": f"probclass_{name}",
        "class_name": class_name,
        "likelihood_name": f"{class_name}Likelihood",
        "api": str(probclass_core.PROBCLASS_API),
        "release": f"{major}.{minor}",
        "next_release": f"{major}.{int(minor) + 1}" if major == "0" else f"{int(major) + 1}",
    }


def _files(words: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Path in the project and text of every file."""
    package = words["package"]
    template = resources.files("probclass_core.cli") / "plugin_template"
    for path, source in {
        "pyproject.toml": "pyproject.toml",
        "README.md": "README.md",
        f"{package}/__init__.py": "package.py",
        f"{package}/estimator.py": "estimator.py",
        f"tests/test_{words['name']}.py": "test.py",
    }.items():
        text = (template / f"{source}.txt").read_text(encoding="utf-8")
        yield path, string.Template(text).substitute(words)
    yield f"{package}/py.typed", ""
