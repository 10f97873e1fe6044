"""Train from and score Parquet files as people's own tools write them by default.

A table has 20 columns of distinct float64 values (or of text) in one file, without nulls. Three
more layouts of pyarrow's have many files, nulls, or many columns.
"""

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as compute
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from benchmarks.case import OURS, Case, Outcome, Target
from benchmarks.cases import score, train_categorical
from benchmarks.cases.train_gaussian import (
    DUCKDB,
    DUCKDB_READ,
    POLARS,
    POLARS_READ,
    READS,
    SCAN,
    duckdb_diagonal,
    duckdb_full,
    duckdb_read,
    fit,
    fit_diagonal,
    fit_full,
    polars_diagonal,
    polars_read,
    scan,
    spark_session,
)
from benchmarks.datasets import FEATURES, LABEL, Dataset, cached, categories, numbers

ROWS = 1_000_000
SHARE_OF_NULLS = 0.1


@dataclass(frozen=True)
class Layout:
    """How a table is stored.

    Attributes:
        name: name of the cell.
        title: the layout in words.
        writer: name of the tool that writes it with its defaults.
        files: number of files of pyarrow's writer.
        nulls: whether each feature is null in a tenth of the rows.
        features: number of features; there are fewer rows if they are more than 20.
    """

    name: str
    title: str
    writer: str = "pyarrow"
    files: int = 1
    nulls: bool = False
    features: int = FEATURES

    def rows(self, rows: int) -> int:
        """The number of rows, of as many as the command line asks for."""
        return max(rows * FEATURES // self.features, 100)


LAYOUTS = (
    Layout("pyarrow", "pyarrow"),
    Layout("pandas", "pandas", "pandas"),
    Layout("polars", "Polars", "polars"),
    Layout("duckdb", "DuckDB", "duckdb"),
    Layout("spark", "Spark", "spark"),
    Layout("delta_rs", "delta-rs", "delta_rs"),
    Layout("files_500", "pyarrow, 500 files", files=500),
    Layout("nulls", "pyarrow, 10 % nulls", nulls=True),
    Layout("wide", "pyarrow, 500 columns", features=500),
)


@dataclass(frozen=True)
class Files(Dataset):
    """A table of one or more files.

    Attributes:
        files: paths of the files.
        workspace: folder for output.
    """

    files: tuple[str, ...]
    workspace: str

    def arrow(self, dictionaries: Sequence[str] = ()) -> ds.Dataset:
        """The table as pyarrow takes it, with columns to be read as dictionaries."""
        form = ds.ParquetFileFormat(read_options={"dictionary_columns": dictionaries})
        return ds.dataset(list(self.files), format=form)

    def scratch(self, name: str) -> Path:
        """A path for output; each process has its own."""
        return Path(self.workspace, f"{name}.{os.getpid()}.parquet")


def stored(kind: Literal["numbers", "categories"], layout: Layout, cache: Path, rows: int) -> Files:
    """A table in a layout, from the cache if it has it."""
    generate = numbers if kind == "numbers" else categories
    data = generate(cache, layout.rows(rows), layout.features)
    folder = Path(data.path).with_suffix(f".{layout.name}")
    cached(folder, lambda to: write(pq.read_table(data.path), layout, to))
    files = sorted(map(str, folder.glob("*.parquet")))
    return Files(f"{folder}/*.parquet", data.rows, data.features, tuple(files), str(cache))


def _with_nulls(table: pa.Table) -> pa.Table:
    """The table with nulls in the features."""
    generator = np.random.default_rng(0)
    for position, name in enumerate(table.column_names):
        if name not in {LABEL, "id"}:
            null = pa.array(generator.random(len(table)) < SHARE_OF_NULLS)
            empty = pa.scalar(None, table[name].type)
            table = table.set_column(position, name, compute.if_else(null, empty, table[name]))
    return table


def write(table: pa.Table, layout: Layout, folder: Path) -> None:
    """Write the files of a table into a new folder; several have equal numbers of rows."""
    folder.mkdir()
    if layout.nulls:
        table = _with_nulls(table)
    if layout.writer in WRITERS:
        WRITERS[layout.writer](table, folder)
        return
    rows = -(-table.num_rows // layout.files)
    for number in range(layout.files):
        pq.write_table(table.slice(number * rows, rows), folder / f"{number:03d}.parquet")


def _write_with_polars(table: pa.Table, folder: Path) -> None:
    import polars as pl

    pl.DataFrame(table).write_parquet(folder / "0.parquet")


def _write_with_spark(table: pa.Table, folder: Path) -> None:
    spark = spark_session()
    with tempfile.TemporaryDirectory() as temporary:
        pq.write_table(table, f"{temporary}/copy.parquet")
        spark.read.parquet(temporary).write.mode("append").parquet(str(folder))
    spark.stop()


def _write_with_delta_rs(table: pa.Table, folder: Path) -> None:
    import deltalake

    deltalake.write_deltalake(folder, table)


WRITERS: Mapping[str, Callable[[pa.Table, Path], None]] = {
    "pandas": lambda table, folder: table.to_pandas().to_parquet(folder / "0.parquet"),
    "polars": _write_with_polars,
    "duckdb": lambda table, folder: duckdb.from_arrow(table).write_parquet(
        str(folder / "0.parquet")
    ),
    "spark": _write_with_spark,
    "delta_rs": _write_with_delta_rs,
}
"""Tools that write a table with their defaults, by name."""


def fit_discretized(data: Dataset) -> Outcome:
    """fit of discretized, with cuts by MDL, all threads."""
    return {"rows": fit(data.path, data.features, "discretized").training["rows"]}


def scan_features(scoring: score.Scoring) -> Outcome:
    """pyarrow.dataset to batches, all threads."""
    batches = scoring.data.arrow().to_batches(columns=scoring.columns)
    return {"rows": sum(batch.num_rows for batch in batches)}


def _scored(scoring: score.Scoring, returned: Any) -> Outcome:
    return returned if isinstance(returned, dict) else score.summarize(scoring, returned)


def _counts(data: Dataset, returned: Any) -> Outcome:
    """Counts of the values that are not null."""
    counts = dict(train_categorical.to_counts(data, returned))
    del counts["rows"]
    return counts


def _score_stored(layout: Layout, cache: Path, rows: int) -> score.Scoring:
    return score.Scoring(stored("numbers", layout, cache, rows), "gaussian_diagonal")


def _cases_of_numbers(layout: Layout) -> Iterator[Case[Any]]:
    """Train three estimators, and score with one of them."""
    peers = (DUCKDB, POLARS)
    prepare = functools.partial(stored, "numbers", layout)

    def case(work: str, title: str, *targets: Target, **options: Any) -> Case[Any]:
        described = f"{title}: {layout.title}"
        name = f"layout_{work}.{layout.name}"
        return Case(name, described, ROWS, **{"prepare": prepare, "targets": targets, **options})

    diagonal = case(
        "gaussian_diagonal", "train gaussian_diagonal", Target(0.9, peers), reference=DUCKDB
    )
    diagonal.implementation(SCAN, is_baseline=True)(scan)
    diagonal.implementation(OURS)(fit_diagonal)
    diagonal.implementation(DUCKDB)(duckdb_diagonal)
    diagonal.implementation(POLARS)(polars_diagonal)
    yield diagonal

    full = case("gaussian_full", "train gaussian_full", Target(1.5, READS))
    full.implementation(SCAN, is_baseline=True)(scan)
    full.implementation(POLARS_READ, is_baseline=True)(polars_read)
    full.implementation(DUCKDB_READ, is_baseline=True)(duckdb_read)
    full.implementation(OURS)(fit_full)
    # With nulls the estimate is another, and 125,250 covariances of 500 columns take minutes.
    if not layout.nulls and layout.features == FEATURES:
        full.implementation(DUCKDB)(duckdb_full)
        full.reference, full.targets = DUCKDB, (*full.targets, Target(0.3, DUCKDB))
    yield full

    discretized = case("discretized", "train discretized", Target(2.0, SCAN))
    discretized.implementation(SCAN, is_baseline=True)(scan)
    discretized.implementation(OURS)(fit_discretized)
    yield discretized

    scoring = case(
        "score",
        "score gaussian_diagonal, no column copied",
        Target(0.8, peers),
        reference=DUCKDB,
        prepare=functools.partial(_score_stored, layout),
        outcome=_scored,
    )
    scoring.implementation(SCAN, is_baseline=True)(scan_features)
    scoring.implementation(OURS)(score.score)
    scoring.implementation(DUCKDB)(score.duckdb_copy)
    scoring.implementation(POLARS)(score.polars_sink)
    yield scoring


def _case_of_categories(layout: Layout) -> Case[Files]:
    case: Case[Files] = Case(
        name=f"layout_categorical.{layout.name}",
        title=f"train categorical: {layout.title}",
        rows=ROWS,
        prepare=functools.partial(stored, "categories", layout),
        reference=POLARS,
        targets=(Target(1.0, train_categorical.SCAN), Target(0.5, POLARS)),
        tolerance=0.0,
        outcome=_counts,
    )
    baseline = case.implementation(train_categorical.SCAN, is_baseline=True)
    baseline(train_categorical.scan_dictionaries)
    case.implementation(OURS)(train_categorical.fit)
    if layout.features == FEATURES:
        case.implementation(DUCKDB)(train_categorical.duckdb_sql)
    case.implementation(POLARS)(train_categorical.polars_counts)
    return case


CASES = (
    *(case for layout in LAYOUTS for case in _cases_of_numbers(layout)),
    *map(_case_of_categories, LAYOUTS),
)
