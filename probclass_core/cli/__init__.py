"""The command line: every command a thin skin over one public function.

A map of the folder, in reading order:

- `app`: the list of commands, and what a failure looks like: one line, exit code 2.
- `options`: the options that commands share.
- `parsing`: text such as ``month >= 2013-01`` to the values the library takes.
- `deciding`: a decision rule from the options of a command.
- `road`: fit, score, evaluate; `evaluating`: what an evaluation looks like.
- `calibrate`: calibrate.
- `judgment`: explain, compare, drift.
- `shelf`: models, promote, inspect.
- `tables`: table inspect, table clean, table formats.
- `cache`: cache ls, cache gc.
- `gallery`: estimators; `plugin`: plugin new, a project for one's own.
- `pictures`: plot, one command for each picture.
- `demo`: a first look, on the bundled data.
- `output`: tables, JSON and progress; `toml`: a spec as a file.

Importing any of it is cheap: a command imports what it needs when it runs.
"""

import importlib.util
import sys


def main() -> None:
    """The console script ``probclass``; ends the process."""
    missing = [name for name in ("typer", "rich") if importlib.util.find_spec(name) is None]
    if missing:
        sys.stderr.write(f"error: probclass needs {missing[0]}: pip install 'probclass[cli]'\n")
        sys.exit(2)
    from probclass_core.cli.app import app

    app(prog_name="probclass")
