"""Read the Delta tables of a folder, and compare them with delta-rs.

The folder is a copy of published test tables, such as the golden tables of the Delta project. A
table in ``NAME/delta`` whose rows are published as Parquet files in ``NAME/expected`` is compared
with these as well. Run it from the repository::

    python tests/fuzzing/public_delta_tables.py FOLDER
"""

from __future__ import annotations

import argparse
import datetime as dt
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pac
import pyarrow.parquet as pq
from deltalake import DeltaTable

import probclass_core as pc

EXPLAINED = {
    "data-reader-partition-values": "published in the time zone of its writer, which has no record",
    "issue_1374": "a file has a value below the minimum in the log",
    "table_with_edge_timestamps": "delta-rs reads a time after 2262 in nanoseconds, which overflow",
}
"""Tables whose rows differ from a peer's, by a part of their paths, and why."""

PROBLEMS = {"raw", "abort", "other numbers"}
"""Outcomes that no table may have."""


def rows_of(table: pa.Table, names: list[str]) -> list[str]:
    """Return the rows as sorted text, so that neither their order nor layouts of Arrow matter."""
    columns = [[plain(value) for value in table[name].to_pylist()] for name in names]
    return sorted(map(str, zip(*columns, strict=True)))


def first_difference(ours: pa.Table, rows: pa.Table) -> str | None:
    """Return the first column that differs, with values; None if the rows are equal."""
    if rows_of(ours, ours.column_names) == rows_of(rows, ours.column_names):
        return None
    for name in ours.column_names:
        pairs = zip_longest(rows_of(ours, [name]), rows_of(rows, [name]))
        for value, other in pairs:
            if value != other:
                kinds = f"{ours.schema.field(name).type}, {rows.schema.field(name).type}"
                return f"{name!r}: {value} is {other} ({kinds})"
    return "rows with other values together"


def lost_by_filters(folder: Path, table: pa.Table) -> str | None:
    """Return the first filter by which rows are lost: of each column by its extremes."""
    for field in table.schema:
        if pa.types.is_nested(field.type) or pa.types.is_null(field.type):
            continue
        column = table[field.name]
        ends = pac.min_max(column)
        for value in {ends["min"].as_py(), ends["max"].as_py()} - {None}:
            condition = pac.field(field.name) == pa.scalar(value, field.type)
            plan = pc.open_table(pc.TableRef(str(folder), format="delta")).plan(where=condition)
            found = sum(batch.num_rows for batch in plan.batches())
            if found != (expected := table.filter(condition).num_rows):
                return f"{field.name} == {value!r} finds {found} rows of {expected}"
    return None


def plain(value: object) -> object:
    """Return a value without differences that are no differences of numbers."""
    if isinstance(value, dict):
        return {name: plain(value[name]) for name in sorted(value)}
    if isinstance(value, list):
        return [plain(part) for part in value]
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    if isinstance(value, dt.datetime):
        zoned = value if value.tzinfo is None else value.astimezone(dt.UTC)
        return zoned.isoformat()
    return value


def peers(folder: Path) -> dict[str, pa.Table | str]:
    """Return the rows by delta-rs and as published, or the reason why there are none."""
    found: dict[str, pa.Table | str] = {}
    try:
        found["delta-rs"] = pa.table(DeltaTable(str(folder)).scan().read_all())
    except BaseException as error:  # also panics
        found["delta-rs"] = f"{type(error).__name__}: {error}"
    published = sorted(folder.parent.glob("expected/**/*.parquet"))
    if folder.name == "delta" and published:
        found["published"] = pa.concat_tables(
            [pq.ParquetFile(path).read() for path in published], promote_options="permissive"
        )
    return found


def compare(folder: Path) -> str:
    """Return the outcome of one table, with a reason."""
    try:
        plan = pc.open_table(pc.TableRef(str(folder), format="delta")).plan()
        table = pa.Table.from_batches(plan.batches(), plan.schema)
    except pc.ProbClassError as error:
        ours = None
        outcome = f"refused: {error}"
    except Exception as error:
        return f"raw: {type(error).__name__}: {error}"
    else:
        ours = table
        outcome = "equal: to"
    reason = next((EXPLAINED[part] for part in folder.parts if part in EXPLAINED), None)
    differs = "other numbers" if reason is None else f"explained: {reason}"
    if ours is not None and (lost := lost_by_filters(folder, ours)):
        return f"{differs}: {lost}"
    for peer, rows in peers(folder).items():
        if ours is None:
            readable = "unreadable" if isinstance(rows, str) else f"{len(rows)} rows"
            outcome += f" [{peer}: {readable}]"
        elif isinstance(rows, str):
            outcome += f" [{peer} fails: {rows[:100]}]"
        elif set(ours.column_names) != set(rows.column_names):
            return f"other numbers: columns {ours.column_names}, {peer} has {rows.column_names}"
        elif difference := first_difference(ours, rows):
            return f"{differs}: than {peer}, {difference}"
        else:
            outcome += f" {peer}"
    return outcome


def outcomes(tables: list[Path]) -> Iterator[str]:
    """Yield the outcome of each table, read in one process until a table ends that process."""
    done = 0
    while done < len(tables):
        command = [sys.executable, __file__, "--tables", *map(str, tables[done:])]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        for line in process.stdout:
            done += 1
            yield line.rstrip()
        if process.wait():
            done += 1
            yield f"abort: the process ended with {process.returncode}"


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    """Print the outcome of each table and their counts; return 1 if there are problems."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--tables", type=Path, nargs="+", help="tables to read in this process")
    arguments = parser.parse_args()
    for table in arguments.tables or ():
        say(" ".join(compare(table).split()))
    if arguments.tables:
        return 0
    tables = [log.parent for log in sorted(arguments.folder.rglob("_delta_log"))]
    counts: Counter[str] = Counter()
    for table, outcome in zip(tables, outcomes(tables), strict=True):
        counts[outcome.partition(":")[0]] += 1
        say(f"{table.relative_to(arguments.folder)}: {outcome}")
    say(str(dict(counts)))
    return int(bool(PROBLEMS & counts.keys()))


if __name__ == "__main__":
    sys.exit(main())
