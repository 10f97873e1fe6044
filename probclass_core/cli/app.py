"""The list of commands. A failure is one line on stderr, with exit code 2."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import probclass_core
from probclass_core.cli.commands import (
    analysis,
    cache,
    demo,
    estimators,
    models,
    plots,
    plugin,
    tables,
    train_and_score,
)
from probclass_core.cli.options import with_groups
from probclass_core.cli.output import show_error, show_warning
from probclass_core.errors import ProbClassError

# Typer's releases export different usage errors from different modules; this is their base class.
_UsageError: type[Exception] = typer.BadParameter.__bases__[0]


class OneLineErrors(TyperGroup):
    """A group of commands that reports each failure as one line on stderr, with exit code 2."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run a command and end the process."""
        kwargs["standalone_mode"] = False  # Typer then raises errors instead of formatting them
        with _collected_warnings() as warnings:
            try:
                code = super().main(*args, **kwargs)
            except ProbClassError as error:
                show_error(str(error))
                sys.exit(2)
            except _UsageError as error:
                show_error(_usage_message(error))
                sys.exit(2)
            except (KeyboardInterrupt, typer.Abort):
                code = 130
        if code == 130:
            show_error("interrupted.")
        for warning in warnings:
            show_warning(warning)
        sys.exit(code if isinstance(code, int) else 0)


class _WarningCollector(logging.Handler):
    """Collects the library's warnings; they are shown only if no error repeats them."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


@contextmanager
def _collected_warnings() -> Iterator[list[str]]:
    collector = _WarningCollector()
    logger = logging.getLogger("probclass_core")
    logger.addHandler(collector)
    try:
        yield collector.messages
    finally:
        logger.removeHandler(collector)


def _usage_message(error: Any) -> str:
    message = str(error.format_message()).rstrip()
    if error.ctx is None:
        return message
    end = "" if message.endswith((".", "?")) else "."
    return f"{message}{end} See '{error.ctx.command_path} --help'."


app = typer.Typer(
    cls=OneLineErrors,
    help="Train Bayes classifiers on tables, and score tables with them.",
    epilog="To try it on bundled data: probclass demo",
    rich_markup_mode="markdown",  # joins the lines of a docstring into paragraphs
    pretty_exceptions_enable=False,
)
for command in (
    train_and_score.fit,
    train_and_score.score,
    analysis.evaluate,
    train_and_score.calibrate,
    analysis.explain,
    analysis.importance,
    analysis.compare,
    analysis.drift,
    models.inspect,
    models.models,
    models.promote,
    estimators.estimators,
    demo.demo,
):
    app.command()(with_groups(command))
for name, group in {
    "plugin": plugin.plugin,
    "plot": plots.plot,
    "table": tables.table,
    "cache": cache.cache,
}.items():
    app.add_typer(group, name=name)


def _show_version(value: bool) -> None:
    if value:
        typer.echo(f"probclass {probclass_core.__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _main_options(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
