"""Commands, made of functions when they are first asked for, and groups of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from probclass_core.cli.options import EveryCommand
from probclass_core.cli.project import defaults
from probclass_core.cli.settings import call, documented, settings

Tree = Mapping[str, "str | Tree"]
"""Modules by the names of their commands; a group of commands is a tree of its own."""


class _PlainHelp:
    """Arguments and flags show no type in the help."""

    def get_params(self, ctx: Any) -> list[Any]:
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for parameter in parameters:
            if getattr(parameter, "is_flag", False):
                parameter.metavar = ""
            elif parameter.param_type_name == "argument":
                parameter.__dict__["display_type_rich"] = lambda ctx: ""
        return parameters


class Command(_PlainHelp, TyperCommand):
    """A command whose missing options and arguments come from the project file."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing and "--help" not in args:
            words, root = tuple(ctx.command_path.split()[1:]), ctx.find_root().command
            ctx.default_map = defaults(words, args, lambda: dict(_keys(root.commands.tree)))
        return super().parse_args(ctx, args)


def _keys(tree: Tree, words: tuple[str, ...] = ()) -> Iterator[Any]:
    """The settings of all commands by their keys, by the words of the command."""
    for name, where in tree.items():
        if not name:
            continue
        if isinstance(where, str):
            yield (*words, name), {one.key: one for one in settings(_function(name, where))}
        else:
            yield from _keys(where, (*words, name))


class Group(_PlainHelp, TyperGroup):
    """A group of commands; if the first one is ``ls``, it runs unless another one is named."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if "ls" in self.commands and args[:1] != ["--help"] and not {*args[:1]} & {*self.commands}:
            args = ["ls", *args]
        return super().parse_args(ctx, args)


class Commands(Mapping[str, Any]):
    """The commands of a group, each made from its function when it is first asked for."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self._made: dict[str, Any] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(name for name in self.tree if name)

    def __len__(self) -> int:
        return len(self.tree) - ("" in self.tree)

    def __getitem__(self, name: str) -> Any:
        if not name:
            raise KeyError(name)
        if name not in self._made:
            self._made[name] = _made(name, self.tree[name])
        return self._made[name]


def _made(name: str, where: str | Tree) -> Any:
    if isinstance(where, str):
        return command_of(_function(name, where), name)
    group = Group(name=name, help=str(where[""]), rich_markup_mode="markdown")
    group.commands = Commands(where)  # type: ignore[assignment]
    return group


def _function(name: str, module: str) -> Callable[..., None]:
    found = import_module(f"probclass_core.cli.commands.{module}")
    function: Callable[..., None] = getattr(found, name.replace("-", "_"))
    return function


def command_of(function: Callable[..., None], name: str) -> Any:
    """The command that calls a function."""

    def run(**given: Any) -> None:
        call(EveryCommand, given).begin()
        call(function, given)

    parameters = [one.parameter for owner in (function, EveryCommand) for one in settings(owner)]
    run.__dict__["__signature__"] = inspect.Signature(parameters)
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    app = typer.Typer(add_completion=False, rich_markup_mode="markdown")
    app.command(name, cls=Command, help=documented(function)[0])(run)
    return typer.main.get_command(app)
