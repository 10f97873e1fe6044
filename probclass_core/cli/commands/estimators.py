"""estimators: what there is to model with, and whether every plugin loads."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import pluggy
import typer

import probclass_core
from probclass_core.cli.options import Json
from probclass_core.cli.output import put, put_json, table
from probclass_core.errors import PluginError, SpecError

if TYPE_CHECKING:
    from probclass_core import Traits
    from probclass_core.plugins.manager import FoundPlugin

_LOADERS = tuple(str(Path(str(module.__file__)).parent) for module in (probclass_core, pluggy))


def estimators(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Describe this one and its options.")
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Load every plugin and say what came of it; exit code 2 if one is bad."
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """List the registered estimators, or describe one.

    A plugin that cannot be loaded is an error here; --check shows its traceback.

    Example: probclass estimators gaussian_full
    """
    from probclass_core.plugins.manager import estimator_plugins, find_estimator

    if check:
        if name is not None:
            raise SpecError("--check tells of every plugin; leave out NAME.")
        _check(as_json)
        return
    found = estimator_plugins()
    if name is not None:
        found = {name: find_estimator(name)}
    if as_json:
        listed = [
            {
                "name": plugin.name,
                "summary": plugin.summary,
                "parameters_version": plugin.parameters_version,
                "traits": dataclasses.asdict(plugin.traits),
                "description": inspect.getdoc(plugin.factory),
            }
            for plugin in found.values()
        ]
        put_json({"estimators": listed})
    elif name is not None:
        put(f"{name}\n\n{inspect.getdoc(found[name].factory) or found[name].summary}")
    else:
        columns = {
            "estimator": list(found),
            "models": [plugin.summary for plugin in found.values()],
            "traits": [_traits(plugin.traits) for plugin in found.values()],
        }
        put(table(columns, "Estimators"))


def _traits(traits: Traits) -> str:
    words = {
        "factorizes": traits.factorizes,
        "keeps the rows": traits.state_grows,
        "has evidence": traits.has_evidence,
        f"up to {traits.passes} passes": traits.passes > 1,
    }
    return ", ".join(word for word, holds in words.items() if holds)


def _check(as_json: bool) -> None:
    from probclass_core.plugins.manager import registry

    found = registry().plugins
    if as_json:
        put_json({"plugins": [_checked(plugin) for plugin in found]})
    else:
        columns = {
            "plugin": [plugin.module for plugin in found],
            "distribution": [" ".join(_distribution(plugin)) for plugin in found],
            "offers": [", ".join(plugin.offers) for plugin in found],
            "state": ["broken" if plugin.failure else "good" for plugin in found],
        }
        failures = {str(plugin.failure): plugin for plugin in found if plugin.failure}
        reports = [
            f"{advice}\n\n{their_traceback(plugin.failure)}".rstrip()
            for advice, plugin in failures.items()
        ]
        put(table(columns, "Plugins"), *reports)
    if any(plugin.failure for plugin in found):
        raise typer.Exit(2)


def _checked(plugin: FoundPlugin) -> dict[str, object]:
    distribution, version = _distribution(plugin)
    return {
        "plugin": plugin.module,
        "distribution": distribution,
        "version": version,
        "offers": list(plugin.offers),
        "advice": None if plugin.failure is None else str(plugin.failure),
        "traceback": their_traceback(plugin.failure) or None,
    }


def _distribution(plugin: FoundPlugin) -> tuple[str, str]:
    return plugin.distribution or ("probclass", probclass_core.__version__)


def their_traceback(failure: BaseException | None) -> str:
    """The traceback of what a plugin raised, from its own first line on; empty if there is none.

    Args:
        failure: what its loading ended with, which has the plugin's own error as its cause.
    """
    while isinstance(failure, PluginError):
        failure = failure.__cause__
    if failure is None or isinstance(failure, pluggy.PluginValidationError):
        return ""
    told = traceback.TracebackException.from_exception(failure)
    theirs = list(itertools.dropwhile(_is_loader, told.stack))
    told.stack = traceback.StackSummary.from_list(theirs)
    return "".join(told.format())


def _is_loader(frame: traceback.FrameSummary) -> bool:
    """Whether a line is of those that load plugins: ours, pluggy's or Python's."""
    loading = "importlib" in frame.filename
    return loading or frame.filename.startswith(_LOADERS)
