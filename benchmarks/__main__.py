"""``python -m benchmarks [names …] [--rows N] [--repeats R] [--out DIR]``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path

from benchmarks import plot, report
from benchmarks.catalog import all_cases
from benchmarks.contest import hold

HERE = Path(__file__).parent


def main(arguments: Sequence[str] | None = None) -> int:
    """Run cases; 1 where a contestant was rejected, 2 on a bad argument, else 0."""
    asked = _arguments(arguments)
    chosen = [(module, case) for module, case in all_cases() if _named(case.name, asked.names)]
    if not chosen:
        known = ", ".join(case.name for _, case in all_cases())
        print(f"no case is named so; there are {known}.", file=sys.stderr)
        return 2
    if asked.list:
        for _, case in chosen:
            print(f"{case.name:26} {case.rows:>12,} rows   {case.title}")
        return 0
    results = []
    for module, case in chosen:
        result = hold(case, module, asked.cache, rows=asked.rows, rounds=asked.repeats, tell=_tell)
        results.append(result)
        print(report.section(result), flush=True)
    report.write(results, asked.out)
    plot.draw(results, asked.out / "ratios.png")
    print(f"Written to {asked.out}: benchmarks.json, benchmarks.md, ratios.png")
    return int(any(entry.rejected for result in results for entry in result.entries.values()))


def _arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", help="cases to run, such as 'train_*'; all by default")
    parser.add_argument("--rows", type=_positive, help="rows, instead of each case's own number")
    parser.add_argument("--repeats", type=_positive, default=5, help="rounds (default 5)")
    parser.add_argument("--out", type=Path, default=HERE / "results", help="where figures go")
    parser.add_argument("--cache", type=Path, default=HERE / "cache", help="for generated tables")
    parser.add_argument("--list", action="store_true", help="show the cases and stop")
    return parser.parse_args(given)


def _positive(text: str) -> int:
    number = int(text.replace("_", ""))
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def _named(name: str, patterns: Sequence[str]) -> bool:
    return not patterns or any(fnmatch(name, pattern) for pattern in patterns)


def _tell(text: str) -> None:
    print(f"  {text} …", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
