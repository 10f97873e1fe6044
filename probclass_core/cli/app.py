"""The list of commands, and what a failure looks like: one line on stderr, exit code 2."""

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
    calibrate,
    demo,
    estimators,
    models,
    plots,
    plugin,
    tables,
    train_and_score,
)
from probclass_core.cli.output import put_error, put_warning
from probclass_core.errors import ProbClassError

# Typer exports one usage error, and not from the same place in every release; this is their base.
_UsageError: type[Exception] = typer.BadParameter.__bases__[0]


class OneLineErrors(TyperGroup):
    """Commands whose every failure is one line on stderr, with exit code 2."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run a command and end the process."""
        kwargs["standalone_mode"] = False  # typer raises instead of drawing a box around it
        with _logged() as warnings:
            try:
                code = super().main(*args, **kwargs)
            except ProbClassError as error:
                put_error(str(error))
                sys.exit(2)
            except _UsageError as error:
                put_error(_usage(error))
                sys.exit(2)
            except (KeyboardInterrupt, typer.Abort):
                code = 130
        if code == 130:
            put_error("stopped.")
        for warning in warnings:
            put_warning(warning)
        sys.exit(code if isinstance(code, int) else 0)


class _Kept(logging.Handler):
    """Warnings of the library, to be shown once it is known that no error says the same."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


@contextmanager
def _logged() -> Iterator[list[str]]:
    kept = _Kept()
    log = logging.getLogger("probclass_core")
    log.addHandler(kept)
    try:
        yield kept.messages
    finally:
        log.removeHandler(kept)


def _usage(error: Any) -> str:
    message = str(error.format_message()).rstrip()
    if error.ctx is None:
        return message
    end = "" if message.endswith((".", "?")) else "."
    return f"{message}{end} See '{error.ctx.command_path} --help'."


app = typer.Typer(
    cls=OneLineErrors,
    help="Bayes classifiers from tables, and scored tables from Bayes classifiers.",
    epilog="A first look, in seconds: probclass demo",
    rich_markup_mode="markdown",  # a docstring's lines flow together
    pretty_exceptions_enable=False,
)
app.command("fit")(train_and_score.fit)
app.command("score")(train_and_score.score)
app.command("evaluate")(train_and_score.evaluate)
app.command("calibrate")(calibrate.calibrate)
app.command("explain")(analysis.explain)
app.command("compare")(analysis.compare)
app.command("drift")(analysis.drift)
app.command("inspect")(models.inspect)
app.command("models")(models.models)
app.command("promote")(models.promote)
app.command("estimators")(estimators.estimators)
app.add_typer(plugin.plugin, name="plugin")
app.add_typer(plots.plot, name="plot")
app.add_typer(tables.table, name="table")
app.add_typer(cache.cache, name="cache")
app.command("demo")(demo.demo)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"probclass {probclass_core.__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _all_commands(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
