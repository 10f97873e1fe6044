"""Write the commands into docs/cli.md, from what ``--help`` prints.

python tests/docs/cli_page.py
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import click
from pages import ROOT

from probclass_core.cli.app import app

PAGE = ROOT / "docs" / "cli.md"
BEGIN = "<!-- written by tests/docs/cli_page.py -->\n"
OF_EVERY_COMMAND = ("- `--json", "- `--verbose", "- `--quiet")

Command = tuple[str, Any]
"""The words of a command, such as ``models prune``, and what Click knows of it."""


def commands(group: Any = None, words: str = "") -> Iterator[Command]:
    """All commands, in the order of ``--help``."""
    group = group or app
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        if isinstance(command, click.Group):
            yield from commands(command, f"{words}{name} ")
        else:
            yield f"{words}{name}", command


def written() -> str:
    """The page with its commands as they are now."""
    found = list(commands())
    lines = [line for _, command in found for line in map(_line, command.params)]
    shared = {line: None for line in lines if Counter(lines)[line] > 1}
    sections = [_section(words, command, shared) for words, command in found]
    table = "\n".join(line for line in shared if not _is_of_every_command(line))
    head = PAGE.read_text(encoding="utf-8").partition(BEGIN)[0]
    return "\n".join((head + BEGIN, table, "", *sections)).rstrip() + "\n"


def _section(words: str, command: Any, shared: dict[str, None]) -> str:
    """Heading, help, example and options of a command."""
    text, _, example = command.help.partition("Example: ")
    arguments = [_name(one) for one in command.params if one.param_type_name == "argument"]
    own = [line for line in map(_line, command.params) if line not in shared]
    also = [
        line.partition("`:")[0].removeprefix("- `").split()[0]
        for line in map(_line, command.params)
        if line in shared and line.startswith("- `--") and not _is_of_every_command(line)
    ]
    paragraph = [_coded(" ".join(text.split()))]
    if len(own) == 1:
        paragraph.append(own.pop().removeprefix("- "))
    if example:
        paragraph.append(f"Example: `{example}`.")
    if also:
        paragraph.append(f"Shared options: {', '.join(f'`{name}`' for name in also)}.")
    usage = " ".join(("probclass", words, *arguments))
    return "\n".join([f"### {usage}", "", " ".join(paragraph), "", *own, *([""] if own else [])])


def _line(parameter: Any) -> str:
    """The line of an argument or an option: its name, its help and its default."""
    text = _coded(str(parameter.help).rstrip("."))
    default = parameter.to_info_dict()["default"]
    if parameter.param_type_name == "option" and default not in (None, False, (), []):
        text += f"; by default `{default}`"
    if parameter.envvar:
        text += f"; by default `{parameter.envvar}` of the environment"
    return f"- `{_name(parameter)}`: {text}."


def _name(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return str(parameter.metavar) if parameter.required else f"[{parameter.metavar}]"
    return " ".join(filter(None, ("/".join(parameter.opts), parameter.metavar)))


def _coded(text: str) -> str:
    """A text with its options and quoted texts as code."""
    text = re.sub(r"(?<![\w-])'([^']+)'(?!\w)", r"`\1`", text)
    return re.sub(r"(?<![\w`-])(--[a-z][a-z-]*)(?![^`]*`(?:[^`]*`[^`]*`)*[^`]*$)", r"`\1`", text)


def _is_of_every_command(line: str) -> bool:
    return line.startswith(OF_EVERY_COMMAND)


if __name__ == "__main__":
    PAGE.write_text(written(), encoding="utf-8")
