"""The list of commands, which are made of functions when they are first asked for.

Positional parameters are arguments, the others options. A parameter whose type is a frozen class
stands for the options that are the fields of the class: those of ``score`` are the fields of
`ScoringOptions`. The help of an option is its entry below ``Options:`` or ``Attributes:``. It may
begin with the name of the option and what stands for its value::

    explained: --rows N: number of rows to explain.

A type may be annotated with such an entry, with a `Parser`, a `MadeOf` or a type of Click, and with
a dict of more arguments for Click.

A failure is one line on stderr, with exit code 2.
"""

from __future__ import annotations

import dataclasses
import errno
import functools
import inspect
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import click

import probclass_core
from probclass_core.cli.messages import Messages, collected_messages, show_message
from probclass_core.cli.options import FIELDS, EveryCommand, MadeOf, Parser
from probclass_core.cli.project import defaults
from probclass_core.errors import ProbClassError, nearest, one_line

Tree = Mapping[str, "str | Tree"]
"""Modules by the names of their commands; a group of commands is a tree of its own."""

COMMANDS: Tree = {
    "init": "start",
    "fit": "train_and_score",
    "score": "train_and_score",
    "evaluate": "analysis",
    "health": "analysis",
    "calibrate": "train_and_score",
    "explain": "analysis",
    "importance": "analysis",
    "compare": "analysis",
    "drift": "analysis",
    "inspect": "models",
    "report": "analysis",
    "sql": "train_and_score",
    "promote": "models",
    "rollback": "models",
    "estimators": "estimators",
    "demo": "start",
    "models": {
        "": "List the models of a store and their versions; their promotions; delete versions.",
        "ls": "models",
        "history": "models",
        "delete": "models",
        "prune": "models",
    },
    "plugin": {"": "Create your own estimator.", "new": "estimators"},
    "table": {
        "": "Inspect tables, and remove leftovers of killed writers.",
        "inspect": "tables",
        "labels": "tables",
        "clean": "tables",
    },
    "cache": {"": "Remove cached statistics.", "gc": "tables"},
}
"""Where the function of each command is; of a group, its help and its commands."""

_BROKEN_PIPE = 128 + 13
"""Exit code if the reader of stdout has gone, as of programs that the signal SIGPIPE ends."""

_INTERRUPTED = 128 + 2

_PREFIX = re.compile(r"(--[\w-]+)?(?:/(-\w))?(?:(?:^| )([A-Z]+\b\S*|\S+\|\S+))?")
"""What an entry may begin with: the option, its short form, and what stands for its value."""

_LONGEST_CHOICES = 18
"""Length of choices from which on only the help names them, which has room for it."""

_METAVARS = {int: "N", float: "NUMBER", Path: "FILE"}
_TYPES = {Path: click.Path(path_type=Path)}

_ELSEWHERE = {
    "train": ": 'probclass fit' trains a model.",
    "predict": ": 'probclass score' writes predictions.",
    "watch": ": checks are the option --watch of score, evaluate and health, as the page "
    "docs/monitoring.md says.",
}
"""What commands are called here, by words that come to mind first."""


class Command(click.Command):
    """A command whose missing options and arguments come from the project file."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing and "--help" not in args:
            words = tuple(ctx.command_path.split()[1:])
            root: Any = ctx.find_root().command
            ctx.default_map = defaults(words, args, lambda: dict(_keys(root.tree)))
        return super().parse_args(ctx, args)


def _keys(tree: Tree, words: tuple[str, ...] = ()) -> Iterator[Any]:
    """The parameters of all commands by their keys, by the words of the command."""
    for name, where in tree.items():
        if isinstance(where, Mapping):
            yield from _keys(where, (*words, name))
        elif name:
            found = parameters(_function(name, where))
            yield (*words, name), {one.name: one for one in found}


class Group(click.Group):
    """Commands of a tree; without one, its ``ls`` runs if it has one, or the help is shown."""

    def __init__(self, tree: Tree, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.tree = tree

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name in self.tree if name]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        where = self.tree.get(name) if name else None
        if name not in self.commands and where is not None:
            self.commands[name] = (
                command_of(_function(name, where), name)
                if isinstance(where, str)
                else Group(where, name=name, help=str(where[""]))
            )
        return self.commands.get(name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands with their first sentences, which Click would cut off."""
        found = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, one.get_short_help_str(limit=200)) for name, one in found if one]
            )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "ls" in self.tree and args[:1] != ["--help"] and not {*args[:1]} & {*self.tree}:
            args = ["ls", *args]
        return super().parse_args(ctx, args or ["--help"])

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """The command of the first word; for words of other tools, say which one it is here."""
        name = args[0]
        if not name.startswith("-") and name not in self.list_commands(ctx):
            hint = _ELSEWHERE.get(name) or f".{nearest(name, self.list_commands(ctx))}"
            raise click.UsageError(f"No such command {name!r}{hint}", ctx)
        return super().resolve_command(ctx, args)


def _function(name: str, module: str) -> Callable[..., None]:
    found = import_module(f"probclass_core.cli.commands.{module}")
    function: Callable[..., None] = getattr(found, name.replace("-", "_"))
    return function


def command_of(function: Callable[..., None], name: str) -> Command:
    """The command that calls a function."""

    def run(**given: Any) -> None:
        call(EveryCommand, given).begin()
        call(function, given)

    params = [*parameters(function), *parameters(EveryCommand)]
    settings = {"show_default": True}
    help_ = documented(function)[0]
    return Command(name, callback=run, params=params, help=help_, context_settings=settings)


@functools.cache
def places(owner: Callable[..., Any]) -> Mapping[str, click.Parameter | type[Any]]:
    """What each parameter of a function, or field of a class, is: an option, or a class of them."""
    found: dict[str, click.Parameter | type[Any]] = {}
    hints, entries = get_type_hints(owner, include_extras=True), documented(owner)[1]
    for name, parameter in inspect.signature(owner).parameters.items():
        declared = [f"{one.__qualname__}.{name}" for one in getattr(owner, "__mro__", [owner])]
        hint = next((FIELDS[key] for key in declared if key in FIELDS), hints[name])
        kind, extras = _unwrapped(hint)
        notes: dict[type, Any] = {str: entries.get(name, "")}
        for one in extras:
            notes[click.ParamType if isinstance(one, click.ParamType) else type(one)] = one
        if MadeOf in notes:
            kind = notes[MadeOf].options()
        if isinstance(kind, type) and dataclasses.is_dataclass(kind):
            found[name] = kind
        elif kind is not None:
            is_argument = parameter.kind is parameter.POSITIONAL_OR_KEYWORD and (
                inspect.isfunction(owner) or parameter.default is parameter.empty
            )
            make = _argument if is_argument else _option
            found[name] = make(name, kind, parameter.default, notes)
    return found


def _unwrapped(hint: Any) -> tuple[Any, list[Any]]:
    """A type without None, and what it is annotated with."""
    if get_origin(hint) is Annotated:
        kind, extras = _unwrapped(hint.__origin__)
        return kind, [*extras, *hint.__metadata__]
    if get_origin(hint) in (UnionType, Union):
        return _unwrapped(next(part for part in get_args(hint) if part is not NoneType))
    return hint, []


def _argument(name: str, kind: Any, default: Any, notes: Mapping[type, Any]) -> click.Argument:
    key, _, repeats, more = _described(name, kind, default, notes)
    help_ = more.pop("help")
    argument = click.Argument([key], nargs=-1 if repeats else 1, **more)
    argument.help = help_  # which Click shows from 8.5 on
    return argument


def _option(name: str, kind: Any, default: Any, notes: Mapping[type, Any]) -> click.Option:
    key, short, repeats, more = _described(name, kind, default, notes)
    names = [key, f"--{key.replace('_', '-')}", *([short] if short else [])]
    if more["type"] is bool:
        more |= {"is_flag": True, "metavar": None}
    return click.Option(names, multiple=repeats, **more)


def _described(
    name: str, kind: Any, default: Any, notes: Mapping[type, Any]
) -> tuple[str, str | None, bool, dict[str, Any]]:
    """Key in the project file, short form, whether it repeats, and more for Click.

    Args:
        name: name of the parameter.
        kind: its type.
        default: its default; ``inspect.Parameter.empty`` if it is required.
        notes: what its type is annotated with, by their types.
    """
    prefix, colon, help_ = notes[str].partition(": ")
    match = _PREFIX.fullmatch(prefix) if colon else None
    option, short, metavar = match.groups() if match else (None, None, None)
    key = name if option is None else option[2:].replace("-", "_")
    parser: Parser | None = notes.get(Parser)
    kind, repeats, choices = _kind(kind, parser)
    if choices and not metavar:
        metavar = choices if len(choices) <= _LONGEST_CHOICES else "HOW"
    more = {
        "type": notes.get(click.ParamType) or _TYPES.get(kind, kind),
        "help": _plain(help_ if match else notes[str]),
        "metavar": metavar or _METAVARS.get(kind, key.upper()),
        "required": default is inspect.Parameter.empty,
    }

    def value(ctx: click.Context, parameter: click.Parameter, given: Any) -> Any:
        if not given:
            return default
        return parser.parse(given, f"--{key.replace('_', '-')}") if parser else [*given]

    if repeats or parser:
        more["callback"] = value
    elif not more["required"]:
        more["default"] = default
    return key, short, repeats, {**more, **notes.get(dict, {})}


def _kind(kind: Any, parser: Parser | None) -> tuple[Any, bool, str]:
    """What Click converts text to, whether it repeats, and the choices if there are any."""
    if parser is not None:
        return str, parser.repeats, ""
    if get_origin(kind) is Literal:
        return str, False, "|".join(get_args(kind))
    if get_origin(kind) in (Sequence, list):
        return get_args(kind)[0], True, ""
    return kind, False, ""


def parameters(owner: Callable[..., Any]) -> Iterator[click.Parameter]:
    """The options of a function or class, in order."""
    for place in places(owner).values():
        yield from parameters(place) if isinstance(place, type) else [place]


def call(owner: Callable[..., Any], given: Mapping[str, Any]) -> Any:
    """Call a function, or make an instance of a class, with what Click read."""
    values = {}
    for name, place in places(owner).items():
        if isinstance(place, type):
            made = call(place, given)
            values[name] = made.parsed() if hasattr(made, "parsed") else made
        else:
            values[name] = given[place.name]
    return owner(**values)


def documented(owner: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """A docstring without its list of options, and the entries of the list and of base classes."""
    entries: dict[str, str] = {}
    for one in reversed(owner.__mro__[:-1] if isinstance(owner, type) else (owner,)):
        text, *sections = re.split(
            r"\n\n(?:Attributes|Options):\n", inspect.cleandoc(one.__doc__ or "")
        )
        found = re.findall(r"(?m)^ {4}(\w+): ((?:.*\n {8})*.*)$", "".join(sections))
        entries |= {name: " ".join(entry.split()) for name, entry in found}
    return text, entries


def _plain(text: str) -> str:
    """A sentence of a docstring for a terminal: values and names without marks."""
    plain = re.sub(r'``"([^"`]*)"``', r"\1", text).replace("`", "")
    return plain if text[:1] == "`" else plain[:1].upper() + plain[1:]


class OneLineErrors(Group):
    """A group of commands that reports each failure as one line on stderr, with exit code 2."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command, without what Click does about an interrupt and a closed pipe."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise click.Abort from None
        except BrokenPipeError:
            return _BROKEN_PIPE

    def main(self, args: Any = None, *others: Any, **kwargs: Any) -> Any:
        """Run a command and end the process."""
        kwargs["standalone_mode"] = False  # Click then raises errors instead of formatting them
        given = sys.argv[1:] if args is None else args
        with collected_messages(as_json="--json" in given) as messages:
            warnings: list[str] = []
            full = False
            try:
                code = super().main(args, *others, **kwargs)
                sys.stdout.flush()
                warnings = messages.warnings
            except ProbClassError as error:
                code = _fail(error, str(error), messages)
            except click.ClickException as error:
                code = _fail(error, _usage_message(error), messages)
            except click.Abort:
                code = _INTERRUPTED
                show_message("error", "interrupted.")
            except BrokenPipeError:
                code = _BROKEN_PIPE
            except OSError as error:
                code = _fail(error, f"{one_line(error)}.", messages)
                full = error.errno == errno.ENOSPC
            if full or code == _BROKEN_PIPE:
                os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # which is flushed at exit
            for warning in warnings:
                show_message("warning", warning)
        sys.exit(code if isinstance(code, int) else 0)


def _fail(error: Exception, message: str, messages: Messages) -> int:
    if (messages.verbosity or 0) > 1:
        traceback.print_exception(error)
    details = {"type": type(error).__name__} if isinstance(error, ProbClassError) else {}
    show_message("error", message, **details)
    return 2


def _usage_message(error: click.ClickException) -> str:
    message = error.format_message().rstrip()
    context = getattr(error, "ctx", None)
    if context is None:
        return message
    end = "" if message.endswith((".", "?")) else "."
    return f"{message}{end} See '{context.command_path} --help'."


app = OneLineErrors(
    COMMANDS,
    name="probclass",
    help="Train Bayes classifiers on tables, and score tables with them.",
    epilog="Options and arguments that are not given come from environment variables, then from "
    "probclass.toml in the working directory or the nearest parent. "
    "To try it on bundled data: probclass demo",
)
click.version_option(probclass_core.__version__, message="probclass %(version)s")(app)
