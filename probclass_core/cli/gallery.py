"""estimators: what there is to model with."""

from __future__ import annotations

import dataclasses
import inspect
from typing import TYPE_CHECKING, Annotated

import typer

from probclass_core.cli.options import Json
from probclass_core.cli.output import put, put_json, table

if TYPE_CHECKING:
    from probclass_core import Traits


def estimators(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Describe this one and its options.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List the registered estimators, or describe one.

    A plugin that cannot be loaded is an error here.

    Example: probclass estimators gaussian_full
    """
    from probclass_core.plugins import estimator_plugins, find_estimator

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
        "factorises": traits.factorises,
        "keeps the rows": traits.state_grows,
        "has evidence": traits.has_evidence,
    }
    return ", ".join(word for word, holds in words.items() if holds)
