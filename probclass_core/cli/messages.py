"""What a command says on stderr: errors, and its steps with times, warnings and progress.

``-v`` logs steps, ``-vv`` also details and the traceback of an error, ``-q`` leaves out warnings
and progress. Without them, warnings are shown at the end, unless an error repeats them.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

import click

from probclass_core.errors import hide_credentials
from probclass_core.execution.progress import Progress, progress_bar

if TYPE_CHECKING:
    from rich.console import Console

log = logging.getLogger("probclass_core.cli")

_STYLES = {"error": "bold red", "warning": "yellow"}


class Messages(logging.Handler):
    """The library's warnings and, if asked for, its log.

    Attributes:
        verbosity: -1 for errors only, 0 for warnings at the end, 1 for steps, 2 for details; None
            until the command has read its options.
        as_json: whether results, errors and warnings are JSON.
        warnings: warnings to show at the end.
    """

    def __init__(self, *, as_json: bool) -> None:
        super().__init__(logging.DEBUG)
        self.verbosity: int | None = None
        self.as_json = as_json
        self.warnings: list[str] = []
        self._early: list[logging.LogRecord] = []
        form = logging.Formatter("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%SZ")
        form.converter = time.gmtime
        self.setFormatter(form)

    def start(self, verbosity: int) -> None:
        """Set the verbosity, and handle what was logged before it was known."""
        self.verbosity = verbosity
        for record in self._early:
            self.emit(record)

    def emit(self, record: logging.LogRecord) -> None:
        if self.verbosity is None:
            self._early.append(record)
        elif self.verbosity > 0:
            if record.levelno >= (logging.DEBUG if self.verbosity > 1 else logging.INFO):
                sys.stderr.write(f"{self.format(record)}\n")
        elif record.levelno >= logging.WARNING and self.verbosity == 0:
            self.warnings.append(record.getMessage())


_messages: list[Messages] = []
"""The messages of the command that runs, if one does."""


@contextmanager
def collected_messages(*, as_json: bool) -> Iterator[Messages]:
    """Collect what the library logs while a command runs."""
    messages, logger = Messages(as_json=as_json), logging.getLogger("probclass_core")
    before = logger.level
    _messages.append(messages)
    logger.addHandler(messages)
    logger.setLevel(logging.DEBUG)  # the handler chooses
    try:
        yield messages
    finally:
        logger.removeHandler(messages)
        logger.setLevel(before)
        _messages.pop()


def begin(verbosity: int) -> None:
    """Handle the messages of the running command as its options say."""
    if _messages:
        _messages[-1].start(verbosity)


def prints_json() -> bool:
    """Whether the running command prints JSON."""
    return bool(_messages) and _messages[-1].as_json


def show_message(kind: str, message: str, **details: str) -> None:
    """Print an error or a warning as one line on stderr, of JSON if results are.

    Args:
        kind: ``"error"`` or ``"warning"``.
        message: what happened; line breaks become spaces.
        details: more entries of the JSON object, which text leaves out.
    """
    line = hide_credentials(" ".join(part.strip() for part in message.splitlines()))
    if prints_json():
        click.echo(json.dumps({kind: line, **details}, ensure_ascii=False), err=True)
        return
    from rich.text import Text

    text = Text.assemble((f"{kind}: ", _STYLES[kind]), line)
    console_of(stderr=True).print(text, soft_wrap=True)


def console_of(*, stderr: bool) -> Console:
    """A console of rich, whose lines are as long as need be unless it is a terminal."""
    from rich.console import Console

    console = Console(stderr=stderr, highlight=False, emoji=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = 1_000  # lines in a file or a pipe need not wrap
    return console


@contextmanager
def progress(task: str, unit: str = "rows") -> Iterator[Progress]:
    """A function to report progress to: drawn as a bar, unless the command is quiet, and logged."""
    count = 0
    started = time.monotonic()
    log.info("%s", task)
    with progress_bar(task, unit) if not _is_quiet() else nullcontext() as draw:

        def report(done: int, total: int | None) -> None:
            nonlocal count
            count = done
            if draw is not None:
                draw(done, total)

        yield report
    log.info("%s: %s %s in %.2f s", task, f"{count:,}", unit, time.monotonic() - started)


def _is_quiet() -> bool:
    return bool(_messages) and _messages[-1].verbosity == -1
