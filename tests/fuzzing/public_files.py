"""Read every Parquet file of some folders, and compare each value with what pyarrow reads.

    git clone https://github.com/apache/parquet-testing
    python tests/fuzzing/public_files.py parquet-testing arrow-testing/data duckdb/data

Public suites have what writers get wrong, and files that are damaged on purpose: apache's
parquet-testing and arrow-testing, DuckDB's data folder. Each file is inspected, read, counted,
trained on and scored. It is equal to what pyarrow reads, or refused by an error of ours; anything
else is a defect: a process that ends or hangs, an error that is not ours, other numbers. Files are
read in processes that may die; the next process goes on with the next file.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

import probclass_core as pc
from probclass_core.io.open import open_table

LONGEST = 120.0
"""Seconds that a step of a file may take."""

OUTCOMES = ("equal", "refused", "abort", "hang", "raw", "other numbers")
"""Outcomes of a file, the worst last; all but the first two are defects."""

MOST_CLASSES = 20


class Step(NamedTuple):
    """The outcome of a step of a file, and details for a person."""

    name: str
    outcome: str
    detail: str = ""


def parquet_files(folders: Sequence[str]) -> list[Path]:
    """The files below the folders that are named as Parquet files, or begin as such."""
    found = []
    for folder in folders:
        for path in sorted(Path(folder).rglob("*")):
            if not path.is_file():
                continue
            with path.open("rb") as file:
                if path.suffix == ".parquet" or file.read(4) in (b"PAR1", b"PARE"):
                    found.append(path)
    return found


def step(name: str, work: Callable[[], str]) -> Step:
    """The outcome of some work, which returns what is wrong with its numbers, or ""."""
    try:
        wrong = work()
    except pc.ProbClassError as error:
        return Step(name, "refused", str(error))
    except Exception as error:
        return Step(name, "raw", repr(error))
    return Step(name, "other numbers" if wrong else "equal", wrong)


def as_pyarrow_reads(path: Path, columns: Sequence[str] | None = None) -> pa.Table | None:
    """The rows of a file, or None if pyarrow refuses it."""
    try:
        return pq.read_table(path, columns=columns, partitioning=None, use_threads=False)
    except Exception:
        return None


def differs(ours: pa.ChunkedArray, theirs: pa.ChunkedArray) -> bool:
    """Whether values differ; the type may, as a dictionary does from its values."""
    if ours.equals(theirs):
        return False
    try:
        if ours.cast(theirs.type).equals(theirs):
            return False
    except (pa.ArrowException, ValueError):
        pass
    return repr(ours.to_pylist()) != repr(theirs.to_pylist())


def compare_rows(path: Path, theirs: pa.Table | None, columns: Sequence[str]) -> str:
    """Read columns, and compare them with those of pyarrow."""
    plan = open_table(path).plan(columns)
    batches = list(plan.batches())
    ours = pa.Table.from_batches(batches, batches[0].schema if batches else plan.schema)
    if theirs is None:
        theirs = as_pyarrow_reads(path, columns)
    if theirs is None:
        return "pyarrow refuses to read them"
    if ours.num_rows != theirs.num_rows:
        return f"{ours.num_rows} rows of {theirs.num_rows}"
    different = [name for name in columns if differs(ours[name], theirs[name])]
    return f"other values in {different}" if different else ""


def compare_labels(path: Path, theirs: pa.Table, column: str) -> str:
    """Count rows and labels, and compare them with those of pyarrow."""
    counts = pc.count_labels(path, column)
    missing = theirs[column].is_null(nan_is_null=True)
    expected = theirs.num_rows, theirs.num_rows - (pa.compute.sum(missing).as_py() or 0)
    return "" if (counts.rows, counts.labeled) == expected else f"{counts} of {expected}"


def compare_model(path: Path, theirs: pa.Table, label: str) -> str:
    """Train and score, and compare the classes with those of pyarrow."""
    model = pc.fit(path, label=label)
    expected = theirs[label].drop_null().value_counts()
    if dict.fromkeys(map(str, model.class_names)).keys() != {
        str(value).lower() if isinstance(value, bool) else str(value)
        for value in expected.field("values").to_pylist()
    }:
        return f"the classes {model.class_names}"
    sink = Path(tempfile.mkdtemp())
    try:
        pc.score(model, path, sink / "scored")
        scored = pq.read_table(sink / "scored")
    finally:
        shutil.rmtree(sink)
    if scored.num_rows != theirs.num_rows:
        return f"{scored.num_rows} scored rows of {theirs.num_rows}"
    total = sum(scored[f"p_{name}"].to_numpy() for name in model.class_names)
    return "" if (abs(total - 1.0) < 1e-6).all() else "not distributions"


def label_of(rows: pa.Table) -> str | None:
    """A column with a few values, or None."""
    for number, field in enumerate(rows.schema):
        if (
            pa.types.is_string(field.type)
            or pa.types.is_boolean(field.type)
            or pa.types.is_integer(field.type)
        ):
            values = rows.column(number).drop_null()
            if 2 <= len(values.unique()) <= MOST_CLASSES:
                return str(field.name)
    return None


def steps(path: Path, begin: Callable[[str], None]) -> Iterator[Step]:
    """Read one file in all ways; `begin` is told the name of the step that comes next."""
    begin("pyarrow")
    theirs = as_pyarrow_reads(path)
    begin("inspect")
    yield step("inspect", lambda: str(pc.inspect_table(path))[:0])
    begin("open")
    opened = step("open", lambda: str(open_table(path).schema)[:0])
    if opened.outcome != "equal":
        yield opened
        return
    names = [name for name in open_table(path).schema.names if name]
    begin("read")
    whole = step("read", lambda: compare_rows(path, theirs, names))
    yield whole
    if whole.outcome == "refused" and len(names) > 1:
        for name in names:
            begin(f"read {name}")
            yield step(f"read {name}", functools.partial(compare_rows, path, theirs, [name]))
    if theirs is None:
        return
    for name in names[:3]:
        begin(f"labels {name}")
        yield step(f"labels {name}", functools.partial(compare_labels, path, theirs, name))
    label = label_of(theirs)
    if label is not None:
        begin(f"model of {label}")
        yield step(f"model of {label}", lambda: compare_model(path, theirs, label))


def work() -> None:
    """Read the files whose paths come on the standard input, and print their steps."""
    warnings.simplefilter("ignore")
    sys.stdout.flush()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(**values: Any) -> None:
        answers.write(json.dumps(values) + "\n")
        answers.flush()

    for line in sys.stdin:
        for one in steps(Path(line.rstrip("\n")), lambda name: say(begin=name)):
            say(step=one)
        say(done=True)


class Reader:
    """A process that reads files, which is replaced when it dies or hangs."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def read(self, path: Path) -> list[Step]:
        """The steps of a file."""
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, __file__, "--worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        process, begun = self._process, "start"
        found: list[Step] = []
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{path}\n")
        process.stdin.flush()
        while True:
            timer = threading.Timer(LONGEST, process.kill)
            timer.start()
            line = process.stdout.readline()
            hung = not timer.is_alive()
            timer.cancel()
            if not line:
                self._process = None
                outcome = "hang" if hung else "abort"
                by_pyarrow = "pyarrow alone: " if begun == "pyarrow" else ""
                return [*found, Step(begun, outcome, f"{by_pyarrow}status {process.wait()}")]
            said = json.loads(line)
            if "done" in said:
                return found
            if "begin" in said:
                begun = said["begin"]
            else:
                found.append(Step(*said["step"]))

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


def outcome_of(steps_of_file: Sequence[Step]) -> str:
    """The outcome of a file: its worst step.

    A refusal counts if the values are not read: not every column is a label.
    """
    found = [
        one.outcome
        for one in steps_of_file
        if one.outcome != "refused" or one.name in ("inspect", "open", "read")
    ]
    return max(found, key=OUTCOMES.index, default="equal")


def main() -> None:
    """Read the files of folders, and print the outcome of each and their counts."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("folders", nargs="*", metavar="FOLDER")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--verbose", action="store_true", help="also print what was refused")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work()
        return
    waiting: queue.SimpleQueue[Path] = queue.SimpleQueue()
    for path in (files := parquet_files(options.folders)):
        waiting.put(path)
    counts: Counter[str] = Counter()

    def run() -> None:
        reader = Reader()
        while not waiting.empty():
            path = waiting.get()
            found = reader.read(path)
            outcome = outcome_of(found)
            counts[outcome] += 1
            shown = OUTCOMES[1:] if options.verbose else OUTCOMES[2:]
            for one in found:
                if one.outcome in shown:
                    sys.stdout.write(f"{path}: {one.name}: {one.outcome}: {one.detail[:300]}\n")
            sys.stdout.flush()
        reader.close()

    threads = [threading.Thread(target=run) for _ in range(options.processes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = [f"{outcome:>14} {counts[outcome]:>6,}" for outcome in OUTCOMES]
    sys.stdout.write("\n".join([*lines, f"{'files':>14} {len(files):>6,}", ""]))
    sys.exit(1 if any(counts[outcome] for outcome in OUTCOMES[2:]) else 0)


if __name__ == "__main__":
    main()
