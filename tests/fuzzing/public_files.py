"""Public Parquet files and Delta tables: read as their own libraries read them, or refused.

    git clone https://github.com/apache/parquet-testing
    python tests/fuzzing/campaign.py public --trials 200 --folders parquet-testing

Public suites have what writers get wrong, and files that are damaged on purpose: apache's
parquet-testing and arrow-testing, DuckDB's data folder, the golden tables of the Delta project. A
trial reads one file or table in all ways: it is equal to what pyarrow or delta-rs reads, or refused
by an error of ours. Rows of a table in ``NAME/delta`` that are published as Parquet files in
``NAME/expected`` are compared with these as well.
"""

from __future__ import annotations

import datetime as dt
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import zip_longest
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pac
import pyarrow.parquet as pq
from campaign import Result, Trial
from deltalake import DeltaTable

import probclass_core as pc
from probclass_core.io.labels import count_labels
from probclass_core.io.open import open_table

EXPLAINED = {
    "data-reader-partition-values": "published in the time zone of its writer, which has no record",
    "issue_1374": "a file has a value below the minimum in the log",
    "table_with_edge_timestamps": "delta-rs reads a time after 2262 in nanoseconds, which overflow",
}
"""Tables whose rows differ from a peer's, by a part of their paths, and why."""

MOST_CLASSES = 20

Check = Callable[[], str]
"""Uses a table, and returns what is wrong with the result, or ""."""


def sources(folders: Sequence[str]) -> list[Path]:
    """The Delta tables below the folders, and the Parquet files."""
    paths = [path for folder in folders for path in sorted(Path(folder).rglob("*"))]
    tables = [path.parent for path in paths if path.name == "_delta_log"]
    files = [path for path in paths if path.is_file() and not {*path.parents} & {*tables}]
    return tables + [path for path in files if is_parquet(path)]


def is_parquet(path: Path) -> bool:
    with path.open("rb") as file:
        return path.suffix == ".parquet" or file.read(4) in (b"PAR1", b"PARE")


def read(source: Path | pc.TableRef, columns: Sequence[str] | None = None) -> pa.Table:
    plan = open_table(source).plan(columns)
    batches = list(plan.batches())
    return pa.Table.from_batches(batches, batches[0].schema if batches else plan.schema)


def read_by_peer(read: Callable[[], pa.Table]) -> pa.Table | None:
    """The rows that another library reads, or None if it refuses them."""
    try:
        return read()
    except BaseException:  # also panics
        return None


def plain(value: object) -> object:
    """A value as text by which equal values of other types of Arrow are equal."""
    if isinstance(value, dict):
        return {name: plain(value[name]) for name in sorted(value)}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, dt.datetime) and value.tzinfo:
        return value.astimezone(dt.UTC).isoformat()
    if isinstance(value, UUID):  # in a struct, some readers leave its bytes
        return value.bytes
    return value.isoformat() if isinstance(value, dt.datetime) else value


def rows_of(table: pa.Table, names: Sequence[str]) -> list[str]:
    """The rows as sorted text: their order does not matter."""
    columns = [[plain(value) for value in table[name].to_pylist()] for name in names]
    return sorted(map(str, zip(*columns, strict=True)))


def difference(ours: pa.Table, theirs: pa.Table | None) -> str:
    """The first column that differs, with values."""
    if theirs is None:
        return ""
    if {*ours.column_names} - {*theirs.column_names}:
        return f"columns {ours.column_names} of {theirs.column_names}"
    names = ours.column_names
    if ours.equals(theirs.select(names)) or rows_of(ours, names) == rows_of(theirs, names):
        return ""
    for name in names:
        for value, other in zip_longest(rows_of(ours, [name]), rows_of(theirs, [name])):
            if value != other:
                return f"{name!r}: {value} is {other}"
    return "rows with other values together"


def compare_labels(path: Path, theirs: pa.Table, column: str) -> str:
    counts = count_labels(path, column)
    missing = theirs[column].is_null(nan_is_null=True)
    expected = theirs.num_rows, theirs.num_rows - (pac.sum(missing).as_py() or 0)
    return "" if (counts.rows, counts.labeled) == expected else f"{counts} of {expected}"


def compare_model(path: Path, theirs: pa.Table, label: str) -> str:
    """Train and score, and compare the classes with those of pyarrow."""
    model = pc.fit(path, label=label)
    values = theirs[label].drop_null().unique().to_pylist()
    expected = {str(value).lower() if isinstance(value, bool) else str(value) for value in values}
    if {*map(str, model.class_names)} != expected:
        return f"the classes {model.class_names}"
    with tempfile.TemporaryDirectory() as folder:
        pc.score(model, path, Path(folder, "scored"))
        scored = pq.read_table(Path(folder, "scored"))
    if scored.num_rows != theirs.num_rows:
        return f"{scored.num_rows} scored rows of {theirs.num_rows}"
    total = sum(scored[f"p_{name}"].to_numpy() for name in model.class_names)
    return "" if (abs(total - 1.0) < 1e-6).all() else "not distributions"


def labels_of(rows: pa.Table) -> list[str]:
    """The columns with a few values."""
    kinds = pa.types.is_string, pa.types.is_boolean, pa.types.is_integer
    columns = [field.name for field in rows.schema if any(kind(field.type) for kind in kinds)]
    return [name for name in columns if 2 <= len(rows[name].drop_null().unique()) <= MOST_CLASSES]


def checks_of_file(path: Path) -> Iterator[tuple[str, Check]]:
    """Uses of a Parquet file, the values first."""
    options = {"partitioning": None, "use_threads": False}
    theirs = read_by_peer(lambda: pq.read_table(path, **options))
    names = [name for name in open_table(path).schema.names if name]
    yield "read", lambda: difference(read(path, names), theirs)
    for name in names:
        yield f"read {name}", lambda name=name: difference(read(path, [name]), theirs)
    yield "inspect", lambda: str(pc.inspect_table(path))[:0]
    if theirs is not None:
        for name in names[:3]:
            yield f"labels {name}", partial(compare_labels, path, theirs, name)
        for label in labels_of(theirs)[:1]:
            yield f"model of {label}", partial(compare_model, path, theirs, label)


def checks_of_delta_table(folder: Path) -> Iterator[tuple[str, Check]]:
    ref = pc.TableRef(str(folder), format="delta")
    ours = read(ref)
    by_delta_rs = read_by_peer(lambda: pa.table(DeltaTable(str(folder)).scan().read_all()))
    yield "delta-rs", lambda: difference(ours, by_delta_rs)
    files = sorted(folder.parent.glob("expected/**/*.parquet")) if folder.name == "delta" else []
    if files:
        parts = [pq.ParquetFile(path).read() for path in files]
        published = pa.concat_tables(parts, promote_options="permissive")
        yield "published", lambda: difference(ours, published)
    for field in ours.schema:
        if not (pa.types.is_nested(field.type) or pa.types.is_null(field.type)):
            yield f"filter {field.name}", partial(rows_lost_by_a_filter, ref, ours, field)


def rows_lost_by_a_filter(ref: pc.TableRef, table: pa.Table, field: pa.Field) -> str:
    """Find the least and the greatest value of a column."""
    for value in pac.min_max(table[field.name]).as_py().values():
        if value is not None:
            condition = pac.field(field.name) == pa.scalar(value, field.type)
            plan = pc.open_table(ref).plan(where=condition)
            found = sum(batch.num_rows for batch in plan.batches())
            if found != (expected := table.filter(condition).num_rows):
                return f"{value!r} finds {found} rows of {expected}"
    return ""


def outcome_of(checks: Iterator[tuple[str, Check]]) -> tuple[str, str]:
    """The outcome of all uses of a table, and what is wrong with it, or ""."""
    name, outcome = "open", "equal"
    while True:
        try:
            name, check = next(checks)
            if wrong := check():
                return "other numbers", f"{name}: {wrong}"
        except StopIteration:
            return outcome, ""
        except pc.ProbClassError:  # not every column is a label
            outcome = "refused" if name in ("open", "read") else outcome
        except Exception as error:
            return "raised", f"{name}: {error!r}"


@contextmanager
def trials(*folders: str) -> Iterator[Trial]:
    """The trials of this campaign, one for each file or table of the folders."""
    paths = sources(folders)

    def trial(seed: int) -> Result:
        path = paths[seed % len(paths)]
        kind, checks = "file", checks_of_file
        if path.is_dir():
            kind, checks = "Delta table", checks_of_delta_table
        outcome, wrong = outcome_of(checks(path))
        if outcome == "other numbers" and EXPLAINED.keys() & {*path.parts}:
            outcome, wrong = "explained", ""
        return Result(kind, str(path), outcome, wrong)

    yield trial
