"""``python -m benchmarks.accuracy [tables …] [--models …] [--folds N] [--record]``.

A kind of table such as ``lakes`` stands for all of its tables, and ``--models ours`` for all models
of probclass.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatch
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

from benchmarks import figures
from benchmarks.accuracy import plot, report
from benchmarks.accuracy.generators import LABEL
from benchmarks.accuracy.models import MODELS, Model, models_for
from benchmarks.accuracy.scores import Result, from_record, run_table, to_record, warm_up
from benchmarks.accuracy.tables import ROOT, TABLES, Table, from_file

PICTURE = ROOT / "docs" / "images" / "accuracy.png"
INSTALLED = ROOT / ".peers"
"""Where `make peers` installs other libraries, and packages of tables."""
_Item = TypeVar("_Item", Table, Model)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run models on tables; return 2 for a bad argument, else 0."""
    options = _parse(arguments)
    sys.path.append(str(INSTALLED))  # last, so that the packages of this environment come first
    os.environ["PATH"] += f"{os.pathsep}{INSTALLED / 'bin'}"  # of Khiops
    os.environ.setdefault("KHIOPS_PROC_NUMBER", "1")  # one process, as the others have one thread
    try:
        tables = _installed(_tables(options.tables, options.label))
        chosen = _installed(_matching(options.models, MODELS, "model"))
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    if options.list:
        listed: list[Table | Model] = [*tables, *chosen]
        for item in listed:
            print(f"{item.name:20} {item.kind:10} {item.description}")
        return 0
    warm_up(chosen, TABLES["iris"])
    results = []
    for table in tables:
        suitable = {*models_for(table.kind), *options.models}
        result = run_table(table, [m for m in chosen if m.name in suitable], options.folds, _log)
        results.append(result)
        print(f"{report.section(result)}\n", flush=True)
        if options.record and table.name in TABLES:  # each, so that a run may be stopped
            _record(result)
    print("\n\n".join(show(results) for show in (report.comparison, report.checks, report.targets)))
    return 0


def _record(result: Result) -> None:
    """Store the figures of a table, keep those of other models, and draw all tables again."""
    try:
        stored = from_record(figures.recorded("accuracy")["tables"])
    except figures.FiguresError:
        stored = {}
    if old := stored.get(result.name):
        outcomes = {**old.outcomes, **result.outcomes}
        result = replace(result, outcomes=outcomes, folds=max(old.folds, result.folds))
    stored[result.name] = result
    figures.record("accuracy", {"tables": to_record(stored.values())})
    shown = [name for name, table in TABLES.items() if table.kind not in ("keel", "lakes")]
    plot.draw([stored[name] for name in shown if name in stored], PICTURE)


def _tables(names: Sequence[str], label: str) -> list[Table]:
    """The named tables; a name with a suffix such as .parquet is a path."""
    files = [name for name in names if Path(name).suffix in (".csv", ".parquet")]
    patterns = [name for name in names if name not in files]
    if files and not patterns:
        return [from_file(Path(name), label) for name in files]
    found = _matching(patterns, TABLES, "table")
    return [*found, *(from_file(Path(name), label) for name in files)]


def _matching(patterns: Sequence[str], items: Mapping[str, _Item], what: str) -> list[_Item]:
    """The items whose name or kind a pattern matches, or all of them without patterns."""

    def matches(item: _Item, pattern: str) -> bool:
        return fnmatch(item.name, pattern) or item.kind == pattern

    found = [item for item in items.values() if any(matches(item, each) for each in patterns)]
    for pattern in patterns:
        if not any(matches(item, pattern) for item in found):
            raise ValueError(f"no {what} {pattern!r}; there are {', '.join(items)}.")
    return found if patterns else list(items.values())


def _installed(items: Sequence[_Item]) -> list[_Item]:
    """The items whose packages are installed; the others are named on standard error."""
    found = []
    for item in items:
        if item.package is None or find_spec(item.package):
            found.append(item)
        else:
            print(f"{item.name} is left out: run `make peers` for {item.package}.", file=sys.stderr)
    return found


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy", description=__doc__)
    parser.add_argument(
        "tables",
        nargs="*",
        help="tables such as 'iris' or 'german*', kinds such as 'lakes', and paths of .parquet or "
        ".csv; by default all tables of the benchmark",
    )
    parser.add_argument("--models", nargs="+", default=[], help="models, or 'ours'; by default all")
    parser.add_argument(
        "--folds", type=int, choices=range(1, 6), default=3, help="folds (default 3)"
    )
    parser.add_argument(
        "--label", default=LABEL, help="class column of tables given by path (default label)"
    )
    parser.add_argument(
        "--record", action="store_true", help="store the figures; other models and tables stay"
    )
    parser.add_argument("--list", action="store_true", help="list tables and models, and stop")
    return parser.parse_args(arguments)


def _log(text: str) -> None:
    print(f"  {text} …", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
