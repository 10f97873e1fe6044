"""``python -m benchmarks.accuracy [tables …] [--models …] [--folds N] [--record]``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path

from benchmarks import figures
from benchmarks.accuracy import plot, report
from benchmarks.accuracy.generators import LABEL
from benchmarks.accuracy.models import MODELS, Model, khiops
from benchmarks.accuracy.scores import Result, from_record, run_table, to_record, warm_up
from benchmarks.accuracy.tables import ROOT, TABLES, Table, from_file

PICTURE = ROOT / "docs" / "images" / "accuracy.png"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run models on tables; return 2 for a bad argument, else 0."""
    options = _parse(arguments)
    models = dict(MODELS)
    if options.khiops.exists():
        model = khiops(options.khiops)
        models[model.name] = model
    try:
        tables = _tables(options.tables, options.label)
        chosen = [models[name] for name in _matching(options.models, models, "model")]
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    if options.list:
        _list(tables, chosen)
        return 0
    warm_up(chosen, TABLES["iris"])
    results = []
    for table in tables:
        result = run_table(table, chosen, options.folds, _log)
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
    if result.name in stored:
        outcomes = {**stored[result.name].outcomes, **result.outcomes}
        result = replace(result, outcomes=outcomes)
    stored[result.name] = result
    figures.record("accuracy", {"tables": to_record(stored.values())})
    plot.draw([stored[name] for name in TABLES if name in stored], PICTURE)


def _tables(names: Sequence[str], label: str) -> list[Table]:
    """The named tables; a name with a suffix such as .parquet is a path."""
    files = [name for name in names if Path(name).suffix in (".csv", ".parquet")]
    patterns = [name for name in names if name not in files]
    if files and not patterns:
        return [from_file(Path(name), label) for name in files]
    found = [TABLES[name] for name in _matching(patterns, TABLES, "table")]
    return [*found, *(from_file(Path(name), label) for name in files)]


def _matching(patterns: Sequence[str], names: Iterable[str], kind: str) -> list[str]:
    """The names that a pattern matches, or all of them without patterns."""
    found = [n for n in names if not patterns or any(fnmatch(n, pattern) for pattern in patterns)]
    for pattern in patterns:
        if not any(fnmatch(name, pattern) for name in found):
            raise ValueError(f"no {kind} {pattern!r}; there are {', '.join(names)}.")
    return found


def _list(tables: Sequence[Table], models: Sequence[Model]) -> None:
    for table in tables:
        print(f"{table.name:20} {table.kind:10} {table.description}")
    print()
    for model in models:
        print(f"{model.name:20} {model.kind:10} {model.description}")


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy", description=__doc__)
    parser.add_argument(
        "tables",
        nargs="*",
        help="tables such as 'iris' or 'german*', and paths of .parquet or .csv; by default all "
        "tables of the benchmark",
    )
    parser.add_argument("--models", nargs="+", default=[], help="models; by default all")
    parser.add_argument("--folds", type=_positive, default=3, help="folds to use (default 3)")
    parser.add_argument(
        "--label", default=LABEL, help="class column of tables given by path (default label)"
    )
    parser.add_argument(
        "--record", action="store_true", help="store the figures; other models and tables stay"
    )
    parser.add_argument(
        "--khiops",
        type=Path,
        default=ROOT / ".venv-khiops" / "bin" / "python",
        help="Python interpreter that has the package khiops (default: that of `make khiops`)",
    )
    parser.add_argument("--list", action="store_true", help="list tables and models, and stop")
    return parser.parse_args(arguments)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def _log(text: str) -> None:
    print(f"  {text} …", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
