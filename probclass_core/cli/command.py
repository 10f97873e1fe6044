"""A command that takes missing values from the project file, and shows its options plainly."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from probclass_core.cli.project import Key, defaults, keys_of
from probclass_core.cli.verbosity import with_verbosity

COMMANDS: dict[tuple[str, ...], dict[str, Key]] = {}
"""The keys of the project file for each command, by its words."""


class _PlainHelp:
    """Arguments and flags show no type in the help."""

    def get_params(self, ctx: Any) -> list[Any]:
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for parameter in parameters:
            if getattr(parameter, "is_flag", False):
                parameter.metavar = ""
            elif parameter.param_type_name == "argument":
                parameter.__dict__["display_type_rich"] = _no_type
        return parameters


class Group(_PlainHelp, TyperGroup):
    """A group of commands."""


class Command(_PlainHelp, TyperCommand):
    """A command whose missing options and arguments come from the project file."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        words = tuple(ctx.command_path.split()[1:])
        if not ctx.resilient_parsing and "--help" not in args:
            ctx.default_map = defaults(words, args, COMMANDS)
        return super().parse_args(ctx, args)


def complete_commands(app: typer.Typer) -> None:
    """Give every command of an app the options of all commands, and the project file."""
    for words, info in _commands(app, ()):
        callback: Callable[..., None] = info.callback
        COMMANDS[words] = keys_of(callback)
        info.callback, info.cls = with_verbosity(callback), Command


def _commands(app: typer.Typer, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for info in app.registered_commands:
        assert info.callback is not None
        yield (*words, info.name or info.callback.__name__), info
    for group in app.registered_groups:
        assert group.typer_instance is not None
        yield from _commands(group.typer_instance, (*words, str(group.name)))


def _no_type(ctx: Any) -> str:
    return ""
