"""The command line: each command parses its options, calls one function, and shows the result.

In reading order:

- `app`: the list of commands; from a function, its parameters and its docstring to a command, its
  options and help; a failure is one line on stderr, with exit code 2. (Without the extra ``cli``
  the exit code is 1.)
- `commands`: one module per group of commands:
    - `start`: init, a project file for a table; demo, train and score the bundled data.
    - `train_and_score`: fit, calibrate, score; sql, the query that scores a table in a database.
    - `analysis`: evaluate, health, explain, importance, compare, drift, report.
    - `models`: models ls, history, delete, prune; inspect, promote, rollback.
    - `tables`: table inspect, table labels, table clean; cache gc.
    - `estimators`: estimators; plugin new, a project for an estimator of your own.
- `options`: options that several commands take, alone and in groups; from text such as
  ``month >= 2013-01`` to their values.
- `project`: the file probclass.toml.
- `output`: results as tables and JSON.
- `messages`: warnings, progress and the log of a command.

A module of commands is imported when one of them is asked for.
"""

import importlib.util
import os
import sys

_REQUIRED = ("click", "rich", "tomli_w")


def main() -> None:
    """Run the console script ``probclass`` and end the process."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed, as by >&-
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
    missing = [name for name in _REQUIRED if importlib.util.find_spec(name) is None]
    if missing:
        sys.stderr.write(
            f"error: the command line needs {missing[0]}, which is not installed: "
            "pip install 'probclass[cli]'\n"
        )
        sys.exit(1)
    try:
        from probclass_core.cli.app import app

        app(prog_name="probclass")
    except KeyboardInterrupt:  # while modules are imported; after that, `app` reports it
        sys.stderr.write("error: interrupted.\n")
        sys.exit(130)
