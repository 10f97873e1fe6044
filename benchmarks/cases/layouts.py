"""Train from Parquet files as other tools write them by default, or with values that repeat.

The rows are the same in each layout, except for those that are rounded. Processor time is measured,
because it depends less than wall time on what else the machine does.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.case import OURS, Case, Outcome, Target
from benchmarks.cases.train_gaussian import (
    SCAN,
    duckdb_diagonal,
    fit,
    fit_diagonal,
    polars_diagonal,
    scan,
)
from benchmarks.datasets import Dataset, numbers


def rounded(table: pa.Table) -> pa.Table:
    """The table with numbers of one decimal, as prices and measurements often have."""
    for position, column in enumerate(table.schema):
        if pa.types.is_floating(column.type):
            table = table.set_column(position, column, pc.round(table[column.name], 1))
    return table


def _with_polars(table: pa.Table, path: str) -> None:
    pl.DataFrame(table).write_parquet(path)


WRITERS: Mapping[str, Callable[[pa.Table, str], None]] = {
    "pyarrow": pq.write_table,
    "pandas": lambda table, path: table.to_pandas().to_parquet(path),
    "polars": _with_polars,
    "duckdb": lambda table, path: duckdb.from_arrow(table).write_parquet(path),
    "rounded": lambda table, path: pq.write_table(rounded(table), path, row_group_size=131_072),
}
"""How each layout is written."""

TITLES = {name: f"written by {name} with its defaults" for name in WRITERS} | {
    "rounded": "values of one decimal, written by pyarrow in row groups of 131,072 rows"
}


def written(writer: str, cache: Path, rows: int) -> Dataset:
    """The rows of `numbers` in a layout, from the cache if it has them."""
    data = numbers(cache, rows)
    path = Path(data.path).with_suffix(f".{writer}.parquet")
    if not path.exists():
        unfinished = path.with_name(f"_{path.name}.{os.getpid()}")
        WRITERS[writer](pq.read_table(data.path), str(unfinished))
        unfinished.replace(path)
    return Dataset(str(path), rows, data.features)


def fit_discretized(data: Dataset) -> Outcome:
    """fit of discretized, with cuts by MDL, all threads."""
    return {"rows": fit(data.path, data.features, "discretized").training["rows"]}


def _cases(writer: str) -> tuple[Case[Dataset], Case[Dataset]]:
    """Train gaussian_diagonal and discretized from one layout."""
    case = partial(Case, rows=1_000_000, prepare=partial(written, writer), unit="CPU s")
    diagonal: Case[Dataset] = case(
        name=f"layout_{writer}",
        title=f"train gaussian_diagonal: {TITLES[writer]}",
        reference="DuckDB SQL",
        targets=(Target(0.9, "DuckDB SQL"), Target(0.9, "Polars SQL")),
    )
    diagonal.implementation(SCAN, is_baseline=True)(scan)
    diagonal.implementation(OURS)(fit_diagonal)
    diagonal.implementation("DuckDB SQL")(duckdb_diagonal)
    diagonal.implementation("Polars SQL")(polars_diagonal)
    discretized: Case[Dataset] = case(
        name=f"layout_{writer}_discretized",
        title=f"train discretized: {TITLES[writer]}",
        targets=(Target(2.0, SCAN),),
    )
    discretized.implementation(SCAN, is_baseline=True)(scan)
    discretized.implementation(OURS)(fit_discretized)
    return diagonal, discretized


CASES = tuple(case for writer in WRITERS for case in _cases(writer))
