"""Train from and score Parquet files in many layouts, by other tools, and with other values.

The layouts vary one property at a time from a base: one file that pyarrow writes with row groups of
131,072 rows, snappy and dictionaries, of 20 columns of distinct float64 values (or of text),
without nulls.
"""

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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
        writer: ``"pyarrow"``, with the options below, or another tool with its defaults.
        compression: codec of pyarrow's writer.
        row_group: rows of a row group of pyarrow's writer.
        files: number of files.
        values: what is done to the values.
        nulls: whether each feature is null in a tenth of the rows.
        features: number of features; there are fewer rows if they are more than 20.
    """

    name: str
    writer: str = "pyarrow"
    compression: str = "snappy"
    row_group: int = 131_072
    files: int = 1
    values: str = "distinct"
    nulls: bool = False
    features: int = FEATURES

    def rows(self, rows: int) -> int:
        """The number of rows, of as many as the command line asks for."""
        return max(rows * FEATURES // self.features, 100)


BASE = Layout("base")
COMMON = (
    BASE,
    replace(BASE, name="pyarrow", row_group=1_048_576),
    replace(BASE, name="pandas", writer="pandas"),
    replace(BASE, name="polars", writer="polars"),
    replace(BASE, name="duckdb", writer="duckdb"),
    replace(BASE, name="spark", writer="spark"),
    replace(BASE, name="delta_rs", writer="delta_rs"),
    replace(BASE, name="zstd", compression="zstd"),
    replace(BASE, name="uncompressed", compression="none"),
    replace(BASE, name="row_groups_10k", row_group=10_000),
    replace(BASE, name="files_8", files=8),
    replace(BASE, name="files_500", files=500),
    replace(BASE, name="nulls", nulls=True),
    replace(BASE, name="wide", features=500),
)
OF_NUMBERS = (
    *COMMON,
    replace(BASE, name="float32", values="float32"),
    replace(BASE, name="decimal", values="decimal"),
    replace(BASE, name="int", values="int"),
    replace(BASE, name="rounded", values="rounded"),
)
OF_CATEGORIES = (*COMMON, replace(BASE, name="sorted", values="sorted"))
TITLES = {
    "base": "pyarrow, one file, row groups of 131,072 rows, snappy",
    "pyarrow": "pyarrow's defaults, row groups of 1,048,576 rows",
    "pandas": "pandas' defaults",
    "polars": "Polars' defaults",
    "duckdb": "DuckDB's defaults",
    "spark": "Spark's defaults",
    "delta_rs": "delta-rs' defaults",
    "zstd": "zstd",
    "uncompressed": "no compression",
    "row_groups_10k": "row groups of 10,000 rows",
    "files_8": "8 files",
    "files_500": "500 files",
    "nulls": "10 % nulls",
    "wide": "500 columns",
    "float32": "float32",
    "decimal": "decimals of two digits",
    "int": "int64",
    "rounded": "one decimal",
    "sorted": "each column sorted",
}
"""The layouts in words; what is not named is as in the base."""


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
    cached(folder, lambda to: write(_transformed(pq.read_table(data.path), layout), layout, to))
    files = sorted(map(str, folder.glob("*.parquet")))
    return Files(f"{folder}/*.parquet", data.rows, data.features, tuple(files), str(cache))


def _transformed(table: pa.Table, layout: Layout) -> pa.Table:
    """The table with the values of a layout."""
    generator = np.random.default_rng(0)
    for position, name in enumerate(table.column_names):
        if name in {LABEL, "id"}:
            continue
        column = VALUES[layout.values](table[name].combine_chunks())
        if layout.nulls:
            null = pa.array(generator.random(len(column)) < SHARE_OF_NULLS)
            column = compute.if_else(null, pa.scalar(None, column.type), column)
        table = table.set_column(position, name, column)
    return table


VALUES: Mapping[str, Callable[[pa.Array], pa.Array]] = {
    "distinct": lambda column: column,
    "float32": lambda column: column.cast(pa.float32()),
    "decimal": lambda column: compute.round(column, 2).cast(pa.decimal128(12, 2)),
    "int": lambda column: compute.round(compute.multiply(column, 1000.0)).cast(pa.int64()),
    "rounded": lambda column: compute.round(column, 1),
    "sorted": lambda column: column.take(compute.sort_indices(column)),
}


def write(table: pa.Table, layout: Layout, folder: Path) -> None:
    """Write the files of a table into a new folder; several have equal numbers of rows."""
    folder.mkdir()
    if layout.writer in WRITERS:
        WRITERS[layout.writer](table, folder)
        return
    rows = -(-table.num_rows // layout.files)
    for number in range(layout.files):
        pq.write_table(
            table.slice(number * rows, rows),
            folder / f"{number:03d}.parquet",
            row_group_size=layout.row_group,
            compression=layout.compression,
        )


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
        described = f"{title}: {TITLES[layout.name]}"
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
        title=f"train categorical: {TITLES[layout.name]}",
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
    *(case for layout in OF_NUMBERS for case in _cases_of_numbers(layout)),
    *(_case_of_categories(layout) for layout in OF_CATEGORIES),
)
