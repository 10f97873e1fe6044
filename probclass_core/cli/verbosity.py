"""How much a command says on stderr: its steps with times, warnings and progress, or errors only.

``-v`` logs steps, ``-vv`` also details and the traceback of an error, ``-q`` leaves out warnings
and progress. Without them, warnings are shown at the end, unless an error repeats them.
"""

from __future__ import annotations

import functools
import inspect
import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from probclass_core.cli.options import parameters_of
from probclass_core.execution.progress import Progress, progress_bar

log = logging.getLogger("probclass_core.cli")

Verbose = Annotated[
    int,
    typer.Option(
        "--verbose",
        "-v",
        count=True,
        metavar="",
        show_default=False,
        help="Log steps with times on stderr; -vv also logs details and tracebacks.",
    ),
]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Show no progress and no warnings, only errors.")
]


class Messages(logging.Handler):
    """The library's warnings and, if asked for, its log.

    Attributes:
        verbosity: -1 for errors only, 0 for warnings at the end, 1 for steps, 2 for details; None
            until the command has read its options.
        warnings: warnings to show at the end.
    """

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.verbosity: int | None = None
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
def collected_messages() -> Iterator[Messages]:
    """Collect what the library logs while a command runs."""
    messages, logger = Messages(), logging.getLogger("probclass_core")
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


def with_verbosity(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options ``--verbose`` and ``--quiet``."""

    @functools.wraps(command)
    def run(*, verbose: int, quiet: bool, **values: Any) -> None:
        if _messages:
            _messages[-1].start(-1 if quiet else verbose)
        command(**values)

    options = {
        name: inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default
        )
        for name, annotation, default in (("verbose", Verbose, 0), ("quiet", Quiet, False))
    }
    parameters = [*parameters_of(command).values(), *options.values()]
    run.__dict__["__signature__"] = inspect.Signature(parameters)
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


@contextmanager
def progress(task: str, unit: str = "rows") -> Iterator[Progress]:
    """A function to report progress to: drawn as a bar, unless the command is quiet, and logged."""
    count = 0
    started = time.monotonic()
    log.info("%s", task)
    with progress_bar(task, unit) if not _is_quiet() else _nothing() as draw:

        def report(done: int, total: int | None) -> None:
            nonlocal count
            count = done
            draw(done, total)

        yield report
    log.info("%s: %s %s in %.2f s", task, f"{count:,}", unit, time.monotonic() - started)


def _is_quiet() -> bool:
    return bool(_messages) and _messages[-1].verbosity == -1


@contextmanager
def _nothing() -> Iterator[Progress]:
    yield lambda done, total: None
