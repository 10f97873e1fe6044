"""The project file ``probclass.toml``: values for options and arguments that are not given.

The file is the first one found in the working directory and its parents. Keys at its top apply to
every command that has such an option; a table such as ``[fit]`` or ``[models.prune]`` applies to
one command and comes first. The table ``[watch]`` has the thresholds and actions of `Watch`.
Relative paths are relative to the file.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from probclass_core.arguments import check_argument
from probclass_core.errors import SpecError, nearest, one_of
from probclass_core.spec.files import read_values

FILE = "probclass.toml"

SHARED = (
    "store",
    "source",
    "sink",
    "spec",
    "model",
    "label",
    "no_label",
    "exclude",
    "weight",
    "effort",
    "engine",
    "workers",
    "decision",
    "costs",
    "min_probability",
    "min_rarity",
    "watch",
    "fail_on",
)
"""Keys at the top of the file."""

_PATHS = ("store", "source", "sink", "spec", "cache_store", "costs", "watch")
"""Keys whose values may be paths."""

_LOCAL = re.compile(r"^(\w+\+(?=/|\w+://))?((file|duckdb|sqlite)://)?")
"""What comes before the path of a local table: its format, and the scheme of its URI."""

_PROMOTION = ("model", "store", "alias", "reason", "force")
"""Keys of a promotion in any case, without ``--if-better``."""

_KINDS = {
    click.types.BoolParamType: bool,
    click.types.IntParamType: int,
    click.types.FloatParamType: float,
}
"""Values by the types of Click, if they are not text."""

log = logging.getLogger("probclass_core.cli")


Keys = Mapping[str, Any]
"""The parameters of a command by their keys, as Click has them."""

Commands = Mapping[tuple[str, ...], Keys]
"""The keys of each command by its words, such as ``("models", "prune")``."""


def defaults(
    command: tuple[str, ...], arguments: Sequence[str], settings: Callable[[], Commands]
) -> dict[str, Any]:
    """Values of the project file for the parameters of a command; empty without a project file.

    Args:
        command: words of the command.
        arguments: what was given on the command line, which the values must not contradict.
        settings: gives those of all commands, for the whole file is checked.

    Raises:
        SpecError: if the file cannot be read, or contains an unknown key or a value of another
            type.
    """
    path = next(_candidates(), None)
    if path is None:
        return {}
    commands = settings()
    values = _values(read_values(path, "the project"), path, commands)
    keys = commands[command]
    own = values.get(command, {})
    shared = {key: value for key, value in values[()].items() if key in keys}
    chosen = {**shared, **_from_model(command, values[()].get("model", "")), **own}
    if {"spec", "label"} <= keys.keys():
        chosen = _one_spec(chosen, arguments)
    if "if_better" in keys and not ("--if-better" in arguments or chosen.get("if_better")):
        # A promotion without comparing has neither rows nor conditions.
        chosen = {key: value for key, value in chosen.items() if key in _PROMOTION}
    chosen = {key: value for key, value in chosen.items() if value is not None}
    log.info("options from %s: %s", path, ", ".join(chosen) or "none")
    return chosen


def _candidates() -> Iterator[Path]:
    folder = Path.cwd()
    for parent in (folder, *folder.parents):
        if (parent / FILE).is_file():
            # Relative to the working directory if that is the folder, as a user would type it.
            yield Path(FILE) if parent == folder else parent / FILE


def _values(
    document: Mapping[str, Any], path: Path, commands: Commands
) -> dict[tuple[str, ...], dict[str, Any]]:
    """The checked values by the words of a command; of no words, those at the top of the file."""
    everywhere = {key: found for keys in commands.values() for key, found in keys.items()}
    top = {key: everywhere[key] for key in SHARED}
    tables = {words[0] for words in commands}
    values: dict[tuple[str, ...], dict[str, Any]] = {(): {}}
    for name, value in document.items():
        if name == "watch" and isinstance(value, Mapping):
            values[()][name] = _watch_of(path, value)
        elif name in tables and isinstance(value, Mapping):
            for words, table in _command_tables(name, value, path, commands):
                where = f"[{'.'.join(words)}] "
                known = commands[words]
                values[words] = {
                    key: _checked(path, where, key, item, known) for key, item in table.items()
                }
        elif name in top:
            values[()][name] = _checked(path, "", name, value, top)
        else:
            raise SpecError(_unknown(path, "", name, top, tables))
    return values


def _watch_of(path: Path, table: Mapping[str, Any]) -> str:
    """The project file as the file of its table ``[watch]``, which is checked.

    Raises:
        SpecError: if a check or a threshold is invalid.
    """
    from probclass_core import Watch

    try:
        Watch.from_dict(table)
    except SpecError as error:
        raise SpecError(f"{path}: [watch]: {error}") from None
    return str(path)


def _command_tables(
    name: str, table: Mapping[str, Any], path: Path, commands: Commands
) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    """The tables of the commands of a group, or the one of a command that is in no group."""
    if (name,) in commands:
        yield (name,), table
        return
    known = [words[1] for words in commands if words[0] == name]
    for command, value in table.items():
        if command not in known or not isinstance(value, Mapping):
            raise SpecError(_unknown(path, f"[{name}] ", command, known))
        yield (name, command), value


def _checked(path: Path, where: str, name: str, value: Any, known: Keys) -> Any:
    """The value of a key as the command line takes it."""
    if name not in known:
        raise SpecError(_unknown(path, where, name, known))
    parameter = known[name]
    repeats = parameter.multiple or parameter.nargs == -1
    kind = next((kind for one, kind in _KINDS.items() if isinstance(parameter.type, one)), str)
    several = value if repeats and isinstance(value, list) else [value]
    for one in several:
        check_argument(f"{path}: {where}{name}", one, kind)
    if name in _PATHS:
        return _located(value, path)
    return several if repeats else value


def _located(value: str, path: Path) -> str:
    """A path relative to the project file as one relative to the working directory."""
    place = _LOCAL.sub("", value)
    if "://" in place or path == Path(FILE):
        return value
    return f"{value.removesuffix(place)}{path.parent / place}"


def _unknown(
    path: Path, where: str, name: str, keys: Iterable[str], tables: Iterable[str] = ()
) -> str:
    if name in [*keys, *tables]:
        table = ".".join([*where.strip("[] ").split(), name])
        return f"{path}: {where}{name!r} is a command; its options are a table, [{table}]."
    hint = nearest(name, [*keys, *tables])
    if not hint:
        commands = ", and a table for each command, such as [fit]" if tables else ""
        hint = f" Keys are {one_of(keys)}{commands}."
    return f"{path}: unknown key {where}{name!r}.{hint}"


def _from_model(command: tuple[str, ...], model: str) -> dict[str, Any]:
    """What ``model = "name@alias"`` sets in commands that take its name or its alias."""
    name, _, alias = model.partition("@")
    values: dict[tuple[str, ...], dict[str, Any]] = {
        ("fit",): {"name": name},
        ("promote",): {"model": None, "alias": alias},
        ("rollback",): {"model": name, "alias": alias},
        ("models", "history"): {"model": name},
    }
    return {key: value or None for key, value in values.get(command, {}).items()}


def _one_spec(values: dict[str, Any], arguments: Sequence[str]) -> dict[str, Any]:
    """Either the file of a spec or what derives one, as the command line or the file says."""
    from probclass_core.cli.commands.train_and_score import SpecOptions

    given = {argument.partition("=")[0] for argument in arguments}
    derived = {"--label", "--no-label"} & given or ("--spec" not in given and "spec" not in values)
    left_out = {"spec"} if derived else {*vars(SpecOptions())} - {"spec"}
    left_out |= {"no_label"} if "--label" in given else set()
    left_out |= {"label"} if "--no-label" in given else set()
    return {key: value for key, value in values.items() if key not in left_out}
