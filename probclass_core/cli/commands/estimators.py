"""estimators: list and describe the registered estimators; plugin new: a project for another."""

from __future__ import annotations

import inspect
import json
import keyword
import re
import string
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

import probclass_core
from probclass_core.cli.output import prose, show
from probclass_core.display import TablePart
from probclass_core.errors import PluginError, SpecError
from probclass_core.estimation.options import describe_options
from probclass_core.plugins.hookspecs import PROBCLASS_API, EstimatorPlugin
from probclass_core.plugins.manager import estimator_plugins, find_estimator, registry

_TRAITS = ("factorizes", "passes", "proper", "state_grows")
_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


def estimators(
    name: Annotated[str | None, "NAME: Describe this estimator and its options."] = None,
) -> None:
    """List the registered estimators, or describe one and its options.

    If a plugin cannot be loaded, the command fails with its error; -vv shows the traceback.

    Example: probclass estimators gaussian_full
    """
    plugins = estimator_plugins() if name is None else {name: find_estimator(name)}
    records = [
        {
            "name": plugin.name,
            "summary": plugin.summary,
            "parameters_version": plugin.estimator.parameters_version,
            "description": inspect.getdoc(plugin.estimator),
            **_declared(plugin.estimator),
            "conditional": plugin.conditional and _declared(plugin.conditional),
        }
        for plugin in plugins.values()
    ]
    if name is not None:
        (record,) = records
        own = _options_text("Options:", record["options"])
        conditional = record["conditional"] or {"options": []}
        given = _options_text("Options of blocks with given:", conditional["options"])
        parts = [name, *map(prose, (record["description"] or record["summary"], *own, *given))]
    else:
        columns = {
            "estimator": list(plugins),
            "models": [plugin.summary for plugin in plugins.values()],
            "traits": [_described(plugin) for plugin in plugins.values()],
        }
        parts = [TablePart(columns, "Estimators", most=len(plugins))]
    show({"estimators": records}, *parts)


def _declared(estimator: Any) -> dict[str, Any]:
    """What the class of an estimator declares: traits and options."""
    traits = {name: getattr(estimator, name) for name in _TRAITS}
    options = [
        {
            "name": name,
            "expected": option.expected,
            "default": option.default,
            "description": option.doc,
        }
        for name, option in describe_options(estimator).items()
    ]
    return {"traits": {**traits, "has_evidence": estimator.has_evidence()}, "options": options}


def _options_text(title: str, options: Sequence[Mapping[str, object]]) -> list[str]:
    """The section on options; empty if there are none."""
    lines = [title]
    for option in options:
        default = json.dumps(option["default"])
        lines.append(f"    {option['name']}: {option['expected']}; default {default}.")
        lines.append(f"        {option['description']}")
    return ["\n".join(lines)] if len(lines) > 1 else []


def _described(plugin: EstimatorPlugin) -> str:
    kind = plugin.estimator
    descriptions = {
        "factorizes": kind.factorizes,
        "keeps the rows": kind.state_grows,
        "has evidence": kind.has_evidence(),
        f"up to {kind.passes} passes": kind.passes > 1,
        "takes given": plugin.conditional is not None,
    }
    return ", ".join(description for description, applies in descriptions.items() if applies)


def new(
    name: Annotated[str, "NAME: Name of the estimator in specs, such as log_normal."],
    *,
    directory: Path = Path(),
    summary: str | None = None,
) -> None:
    """Create a project for your own estimator: module, tests and metadata.

    The project starts as an exponential density that passes its tests; replace it by yours.

    Example: probclass plugin new log_normal --summary "Log-normal waiting times."

    Options:
        directory: DIR: directory to create the project in.
        summary: TEXT: what the estimator models, as a sentence, for 'probclass estimators'.
    """
    names = _names(name)
    description = summary or f"The estimator {name} for probclass."
    names["description"] = json.dumps(description, ensure_ascii=False)  # as TOML quotes text, too
    described = summary or f"Describe {name} here."
    names["summary"] = described.replace("\\", r"\\").replace('"""', r"\"\"\"")
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
    if name in registry().estimators:
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
