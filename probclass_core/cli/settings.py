"""The settings of a command: what the parameters of a function are on the command line.

Positional parameters are arguments, the others options. A parameter whose type is a frozen class
stands for the options that are the fields of the class: those of ``score`` are the fields of
`ScoringOptions`. The help of an option is its entry below ``Options:`` or ``Attributes:``. It may
begin with the name of the option and what stands for its value::

    explained: --rows N: number of rows to explain.

A type may be annotated with such an entry, with a `Parser` or a `MadeOf`, and with a dict of more
arguments for Typer.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import keyword
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import typer

from probclass_core.cli.options import FIELDS, MadeOf, Parser

_PREFIX = re.compile(r"(--[\w-]+)?(?:/(-\w))?(?:(?:^| )([A-Z]+\b\S*|\S+\|\S+))?")
"""What an entry may begin with: the option, its short form, and what stands for its value."""

_LONGEST_CHOICES = 18
"""Length of choices from which on only the help names them, which has room for it."""

_METAVARS = {int: "N", float: "NUMBER", Path: "FILE"}


@dataclasses.dataclass(frozen=True)
class Setting:
    """An argument or an option of a command.

    Attributes:
        key: its name in the project file, and its long name with ``_`` for ``-``.
        kind: type as Typer converts text: bool, int, float, str, Path, or a list of one of them.
        default: value if it is not given; ``inspect.Parameter.empty`` if it is required.
        info: name, help and more for Typer.
        parser: what makes the value of the text; None if Typer does.
    """

    key: str
    kind: Any
    default: Any
    info: Any
    parser: Parser | None = None

    @property
    def parameter(self) -> inspect.Parameter:
        """The parameter that Typer sees."""
        name = f"{self.key}_" if keyword.iskeyword(self.key) else self.key
        default = self.default
        if default is not inspect.Parameter.empty and (self.parser or get_origin(self.kind)):
            default = None  # until it is known whether there is text
        kind = self.kind if default is not None else self.kind | None
        return inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=default,
            annotation=Annotated[kind, self.info],
        )

    def value(self, given: Any) -> Any:
        """The value of what Typer read."""
        if not given and (self.parser or get_origin(self.kind)):
            return self.default
        option = f"--{self.key.replace('_', '-')}"
        return self.parser.parse(given, option) if self.parser else given


@functools.cache
def places(owner: Callable[..., Any]) -> Mapping[str, Setting | type[Any]]:
    """What each parameter of a function, or field of a class, is: an option, or a class of them."""
    found: dict[str, Setting | type[Any]] = {}
    hints, entries = get_type_hints(owner, include_extras=True), documented(owner)[1]
    for name, parameter in inspect.signature(owner).parameters.items():
        hint = FIELDS.get(f"{owner.__qualname__}.{name}", hints[name])
        kind, *extras = get_args(hint) if get_origin(hint) is Annotated else (hint,)
        notes: dict[type, Any] = {str: entries.get(name, "")} | {type(one): one for one in extras}
        if MadeOf in notes:
            kind = notes[MadeOf].options()
        if isinstance(kind, type) and dataclasses.is_dataclass(kind):
            found[name] = kind
        elif kind is not None:
            is_argument = parameter.kind is parameter.POSITIONAL_OR_KEYWORD and (
                inspect.isfunction(owner) or parameter.default is parameter.empty
            )
            found[name] = _setting(name, kind, parameter.default, notes, is_argument=is_argument)
    return found


def _setting(
    name: str, kind: Any, default: Any, notes: Mapping[type, Any], *, is_argument: bool
) -> Setting:
    """The option of a parameter; `notes` are what its type is annotated with, by their types."""
    prefix, colon, help_ = notes[str].partition(": ")
    match = _PREFIX.fullmatch(prefix) if colon else None
    option, short, metavar = match.groups() if match else (None, None, None)
    parser = notes.get(Parser)
    kind, choices = _kind(kind, parser)
    if choices and not metavar:
        metavar = choices if len(choices) <= _LONGEST_CHOICES else "HOW"
    key = name if option is None else option[2:].replace("-", "_")
    more: dict[str, Any] = {
        "help": _plain(help_ if match else notes[str]),
        "metavar": "" if kind is bool else metavar or _METAVARS.get(kind, key.upper()),
        **notes.get(dict, {}),
    }
    if is_argument:
        return Setting(key, kind, default, typer.Argument(**more), parser)
    names = [option or f"--{key.replace('_', '-')}", *([short] if short else [])]
    return Setting(key, kind, default, typer.Option(*names, **more), parser)


def _kind(kind: Any, parser: Parser | None) -> tuple[Any, str]:
    """What Typer converts text to, and the choices if there are any."""
    if parser is not None:
        return (list[str] if parser.repeats else str), ""
    if get_origin(kind) in (UnionType, Union):
        kind = next(part for part in get_args(kind) if part is not NoneType)
    if get_origin(kind) is Literal:
        return str, "|".join(get_args(kind))
    return list[get_args(kind)] if get_origin(kind) is Sequence else kind, ""  # type: ignore[misc]


def settings(owner: Callable[..., Any]) -> Iterator[Setting]:
    """The options of a function or class, in order."""
    for place in places(owner).values():
        yield from [place] if isinstance(place, Setting) else settings(place)


def call(owner: Callable[..., Any], given: Mapping[str, Any]) -> Any:
    """Call a function, or make an instance of a class, with what Typer read."""
    values = {}
    for name, place in places(owner).items():
        if isinstance(place, Setting):
            values[name] = place.value(given[place.parameter.name])
        else:
            made = call(place, given)
            values[name] = made.parsed() if hasattr(made, "parsed") else made
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
