"""The list of commands. A failure is one line on stderr, with exit code 2."""

from __future__ import annotations

import os
import sys
import traceback
from typing import Any

import click

import probclass_core
from probclass_core.cli.command import Group, Tree
from probclass_core.cli.messages import Messages, collected_messages, show_message
from probclass_core.errors import ProbClassError

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
            if code == _BROKEN_PIPE:
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
