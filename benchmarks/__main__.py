"""``python -m benchmarks [names …] [--rows N] [--repeats R] [--record]``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path

from benchmarks import figures, report
from benchmarks.cases import all_cases
from benchmarks.runner import run_case

HERE = Path(__file__).parent


def main(arguments: Sequence[str] | None = None) -> int:
    """Run cases.

    Returns:
        0; 1 if an implementation was rejected; 2 for a bad argument.
    """
    options = _parse(arguments)
    cases = [
        (module, case)
        for module, case in all_cases()
        if not options.names or any(fnmatch(case.name, pattern) for pattern in options.names)
    ]
    if not cases:
        names = ", ".join(case.name for _, case in all_cases())
        print(f"no case has such a name; the cases are {names}.", file=sys.stderr)
        return 2
    if options.list:
        for _, case in cases:
            print(f"{case.name:40} {case.rows:>12,} rows   {case.title}")
        return 0
    results = []
    for module, case in cases:
        result = run_case(
            case, module, options.cache, rows=options.rows, rounds=options.repeats, log=_log
        )
        results.append(result)
        print(f"{case.title}\n\n{report.section([result])}\n", flush=True)
        if options.record:
            figures.store(result)
    print(f"{report.targets(results)}\n\n{report.environments(results)}")
    return int(any(entry.rejected for result in results for entry in result.entries.values()))


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", help="cases to run, such as 'train_*'; by default all")
    parser.add_argument("--rows", type=_positive, help="number of rows; by default each case's own")
    parser.add_argument("--repeats", type=_positive, default=5, help="rounds (default 5)")
    parser.add_argument(
        "--record", action="store_true", help="store the figures, from which pages are written"
    )
    parser.add_argument("--cache", type=Path, default=HERE / "cache", help="folder for datasets")
    parser.add_argument("--list", action="store_true", help="list the cases and stop")
    return parser.parse_args(arguments)


def _positive(text: str) -> int:
    number = int(text.replace("_", ""))
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def _log(text: str) -> None:
    print(f"  {text} …", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
