"""The list of commands. A failure is one line on stderr, with exit code 2."""

from __future__ import annotations

import os
import sys
import traceback
from typing import Annotated, Any

import typer

import probclass_core
from probclass_core.cli.command import Commands, Group, Tree
from probclass_core.cli.messages import Messages, collected_messages, show_message
from probclass_core.errors import ProbClassError

COMMANDS: Tree = {
    "init": "init",
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
    "sql": "sql",
    "promote": "models",
    "rollback": "models",
    "estimators": "estimators",
    "demo": "demo",
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
    "cache": {"": "Remove cached statistics.", "gc": "cache"},
}
"""Where the function of each command is; of a group, its help and its commands."""

# Typer's releases export different usage errors from different modules; this is their base class.
_UsageError: type[Exception] = typer.BadParameter.__bases__[0]


_BROKEN_PIPE = 128 + 13
"""Exit code if the reader of stdout has gone, as of programs that the signal SIGPIPE ends."""


_ELSEWHERE = {
    "train": "'probclass fit' trains a model",
    "predict": "'probclass score' writes predictions",
    "watch": "checks are the option --watch of score, evaluate and health, as the page "
    "docs/monitoring.md says",
}
"""What commands are called here, by words that come to mind first."""


class OneLineErrors(Group):
    """A group of commands that reports each failure as one line on stderr, with exit code 2."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = Commands(COMMANDS)  # type: ignore[assignment]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command of the first word; for words of other tools, say which one it is here."""
        try:
            return super().resolve_command(ctx, args)
        except _UsageError as error:
            if args[0] in _ELSEWHERE:
                error.message = f"No such command {args[0]!r}: {_ELSEWHERE[args[0]]}."  # type: ignore[attr-defined]
            raise

    def main(self, args: Any = None, *others: Any, **kwargs: Any) -> Any:
        """Run a command and end the process."""
        kwargs["standalone_mode"] = False  # Typer then raises errors instead of formatting them
        given = sys.argv[1:] if args is None else args
        with collected_messages(as_json="--json" in given) as messages:
            failed = True  # until it ends
            try:
                code = super().main(args, *others, **kwargs)
                sys.stdout.flush()
                failed = False
            except ProbClassError as error:
                code = _fail(error, str(error), messages)
            except _UsageError as error:
                code = _fail(error, _usage_message(error), messages)
            except (KeyboardInterrupt, typer.Abort):
                code = 130
            except BrokenPipeError:
                code = _BROKEN_PIPE
            except SystemExit as end:  # of rich and Typer, which close stdout
                code = _BROKEN_PIPE if isinstance(end.__context__, OSError) else end.code
            if code == _BROKEN_PIPE:
                os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # which is flushed at exit
            elif code == 130:
                show_message("error", "interrupted.")
            for warning in [] if failed else messages.warnings:
                show_message("warning", warning)
        sys.exit(code if isinstance(code, int) else 0)


def _fail(error: Exception, message: str, messages: Messages) -> int:
    if (messages.verbosity or 0) > 1:
        traceback.print_exception(error)
    details = {"type": type(error).__name__} if isinstance(error, ProbClassError) else {}
    show_message("error", message, **details)
    return 2


def _usage_message(error: Any) -> str:
    message = str(error.format_message()).rstrip()
    if error.ctx is None:
        return message
    end = "" if message.endswith((".", "?")) else "."
    return f"{message}{end} See '{error.ctx.command_path} --help'."


app = typer.Typer(
    cls=OneLineErrors,
    help="Train Bayes classifiers on tables, and score tables with them.",
    epilog="Options and arguments that are not given come from environment variables, then from "
    "probclass.toml in the working directory or the nearest parent. "
    "To try it on bundled data: probclass demo",
    rich_markup_mode="markdown",  # joins the lines of a docstring into paragraphs
    pretty_exceptions_enable=False,
)


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
