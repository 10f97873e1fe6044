"""Train from and score Parquet files in many layouts, by other tools, and with other values.

The layouts vary one property at a time from a base: one file that pyarrow writes with row groups of
131,072 rows, snappy and dictionaries, of 20 columns of distinct float64 values (or of text),
without nulls, on a local disk. Others vary two: values that repeat by writers that encode them
differently and with nulls, and several files of an object store.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as compute
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow.fs import S3FileSystem

import probclass_core as pc
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
)
from benchmarks.datasets import FEATURES, LABEL, Dataset, categories, numbers

if TYPE_CHECKING:
    import polars as pl

ROOT = Path(__file__).parents[2]
ROWS = 1_000_000
BUCKET = "layouts"
SHARE_OF_NULLS = 0.1
REMOTE_ROWS = 5
"""A table in an object store has this many times fewer rows."""


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
        remote: whether the files are in an object store.
    """

    name: str
    writer: str = "pyarrow"
    compression: str = "snappy"
    row_group: int = 131_072
    files: int = 1
    values: str = "distinct"
    nulls: bool = False
    features: int = FEATURES
    remote: bool = False

    def rows(self, rows: int) -> int:
        """The number of rows, of as many as the command line asks for."""
        return max(rows * FEATURES // self.features // (REMOTE_ROWS if self.remote else 1), 100)


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
    replace(BASE, name="s3", remote=True),
    replace(BASE, name="s3_files_8", remote=True, files=8),
)
OF_NUMBERS = (
    *COMMON,
    replace(BASE, name="float32", values="float32"),
    replace(BASE, name="decimal", values="decimal"),
    replace(BASE, name="int", values="int"),
    replace(BASE, name="rounded", values="rounded"),
    replace(BASE, name="rounded_nulls", values="rounded", nulls=True),
    replace(BASE, name="rounded_polars", values="rounded", writer="polars"),
    replace(BASE, name="rounded_duckdb", values="rounded", writer="duckdb"),
)
OF_CATEGORIES = (
    *COMMON,
    replace(BASE, name="sorted", values="sorted"),
    replace(BASE, name="sorted_polars", values="sorted", writer="polars"),
    replace(BASE, name="sorted_duckdb", values="sorted", writer="duckdb"),
)
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
    "s3": "S3 server",
    "s3_files_8": "S3 server, 8 files",
    "float32": "float32",
    "decimal": "decimals of two digits",
    "int": "int64",
    "rounded": "one decimal",
    "rounded_nulls": "one decimal, 10 % nulls",
    "rounded_polars": "one decimal, Polars' defaults",
    "rounded_duckdb": "one decimal, DuckDB's defaults",
    "sorted": "each column sorted",
    "sorted_polars": "each column sorted, Polars' defaults",
    "sorted_duckdb": "each column sorted, DuckDB's defaults",
}
"""The layouts in words; what is not named is as in the base."""


@dataclass(frozen=True)
class Files(Dataset):
    """A table of one or more files.

    Attributes:
        files: paths of the files, or their keys in the object store.
        workspace: local folder for output.
        endpoint: URL of the object store, or None for a local disk.
    """

    files: tuple[str, ...]
    workspace: str
    endpoint: str | None

    @property
    def source(self) -> str | pc.TableRef:
        """The table as probclass takes it."""
        if self.endpoint is None:
            return self.path
        return pc.TableRef(self.path.removesuffix("/*.parquet"), options=_options(self.endpoint))

    def arrow(self, dictionaries: Sequence[str] = ()) -> ds.Dataset:
        """The table as pyarrow takes it, with columns to be read as dictionaries."""
        form = ds.ParquetFileFormat(read_options={"dictionary_columns": dictionaries})
        filesystem = None if self.endpoint is None else S3FileSystem(**_options(self.endpoint))
        return ds.dataset(list(self.files), format=form, filesystem=filesystem)

    def polars(self) -> pl.LazyFrame:
        """The table as Polars takes it."""
        import polars as pl

        if self.endpoint is None:
            return pl.scan_parquet(self.path)
        options = {
            "aws_access_key_id": "benchmarks",
            "aws_secret_access_key": "benchmarks",
            "aws_region": "us-east-1",
            "aws_endpoint_url": self.endpoint,
            "aws_allow_http": "true",
        }
        return pl.scan_parquet(self.path, storage_options=options)

    def scratch(self, name: str) -> Path:
        """A local path for output; each process has its own."""
        return Path(self.workspace, f"{name}.{os.getpid()}.parquet")


def stored(kind: Literal["numbers", "categories"], layout: Layout, cache: Path, rows: int) -> Files:
    """A table in a layout, from the cache if it has it."""
    generate = numbers if kind == "numbers" else categories
    data = generate(cache, layout.rows(rows), layout.features)
    folder = Path(data.path).with_suffix(f".{layout.name}")
    if not folder.exists():
        unfinished = folder.with_name(f"_{folder.name}.{os.getpid()}")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir()
        write(_transformed(pq.read_table(data.path), layout), layout, unfinished)
        unfinished.rename(folder)
    files, path, endpoint = sorted(map(str, folder.glob("*.parquet"))), f"{folder}/*.parquet", None
    if layout.remote:
        endpoint = _object_store()
        files = [_upload(endpoint, folder.name, Path(file)) for file in files]
        path = f"s3://{BUCKET}/{folder.name}/*.parquet"
    return Files(path, data.rows, data.features, tuple(files), str(cache), endpoint)


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
    """Write the files of a table; several have equal numbers of rows."""
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
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.driver.memory", "4g")
    for name in ("spark.ui.enabled", "spark.ui.showConsoleProgress"):
        builder = builder.config(name, "false")
    spark = builder.config("spark.log.level", "ERROR").getOrCreate()
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


@functools.cache
def _object_store() -> str:
    """The URL of an S3 server that runs as long as this process."""
    python = ROOT / ".venv-servers" / "bin" / "python"
    if not python.exists():
        raise FileNotFoundError("The S3 server is not installed; run `make servers`.")
    server = subprocess.Popen(
        [python, ROOT / "tests" / "s3_server.py"],
        stdin=subprocess.PIPE,  # it stops when this ends
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert server.stdout is not None
    port = next(int(line.split()[1]) for line in server.stdout if line.startswith("port "))
    endpoint = f"http://127.0.0.1:{port}"
    S3FileSystem(**_options(endpoint), allow_bucket_creation=True).create_dir(BUCKET)
    _servers.append(server)
    return endpoint


_servers: list[subprocess.Popen[str]] = []
"""Servers that this process started."""


def _options(endpoint: str) -> dict[str, Any]:
    keys = {"access_key": "benchmarks", "secret_key": "benchmarks"}
    return {**keys, "region": "us-east-1", "endpoint_override": endpoint}


@functools.cache
def _upload(endpoint: str, folder: str, file: Path) -> str:
    """Upload a file once; return its key."""
    key = f"{BUCKET}/{folder}/{file.name}"
    with S3FileSystem(**_options(endpoint)).open_output_stream(key) as stream:
        stream.write(file.read_bytes())
    return key


def fit_discretized(data: Dataset) -> Outcome:
    """fit of discretized, with cuts by MDL, all threads."""
    return {"rows": fit(data.source, data.features, "discretized").training["rows"]}


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
    # DuckDB reads from object stores by an extension that it downloads.
    peers = (POLARS,) if layout.remote else (DUCKDB, POLARS)
    prepare = functools.partial(stored, "numbers", layout)

    def case(work: str, title: str, *targets: Target, **options: Any) -> Case[Any]:
        described = f"{title}: {TITLES[layout.name]}"
        name = f"layout_{work}.{layout.name}"
        return Case(name, described, ROWS, **{"prepare": prepare, "targets": targets, **options})

    diagonal = case(
        "gaussian_diagonal", "train gaussian_diagonal", Target(0.9, peers), reference=peers[0]
    )
    diagonal.implementation(SCAN, is_baseline=True)(scan)
    diagonal.implementation(OURS)(fit_diagonal)
    if DUCKDB in peers:
        diagonal.implementation(DUCKDB)(duckdb_diagonal)
    diagonal.implementation(POLARS)(polars_diagonal)
    yield diagonal

    reads = tuple(name for name in READS if name != DUCKDB_READ or DUCKDB in peers)
    full = case("gaussian_full", "train gaussian_full", Target(1.5, reads))
    full.implementation(SCAN, is_baseline=True)(scan)
    full.implementation(POLARS_READ, is_baseline=True)(polars_read)
    if DUCKDB in peers:
        full.implementation(DUCKDB_READ, is_baseline=True)(duckdb_read)
    full.implementation(OURS)(fit_full)
    # With nulls the estimate is another, and 125,250 covariances of 500 columns take minutes.
    if DUCKDB in peers and not layout.nulls and layout.features == FEATURES:
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
        reference=peers[0],
        prepare=functools.partial(_score_stored, layout),
        outcome=_scored,
    )
    scoring.implementation(SCAN, is_baseline=True)(scan_features)
    scoring.implementation(OURS)(score.score)
    if DUCKDB in peers:
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
    if not layout.remote and layout.features == FEATURES:
        case.implementation(DUCKDB)(train_categorical.duckdb_sql)
    case.implementation(POLARS)(train_categorical.polars_counts)
    return case


CASES = (
    *(case for layout in OF_NUMBERS for case in _cases_of_numbers(layout)),
    *(_case_of_categories(layout) for layout in OF_CATEGORIES),
)
