"""Score a table inside DuckDB: the query of a model against one written by hand.

The queries read a table of the database and write another. Those by hand marginalize nulls by
COALESCE, as the model does; one of them also makes NaN null, as the model does, and so gives the
same result for the same rows. Neither looks for infinite numbers, as the query of the model does.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pyarrow.dataset as ds

import probclass_core as pc
from benchmarks.case import OURS, Case, Outcome, Target
from benchmarks.cases.train_gaussian import fit
from benchmarks.datasets import CLASSES, LABEL, Dataset, numbers
from benchmarks.peers import duckdb_query

BY_HAND = "hand-written SQL"
NAN_IS_NULL = "hand-written SQL, NaN as null"


@dataclass(frozen=True)
class Scored:
    """A scored table of the database."""

    connection: duckdb.DuckDBPyConnection


def summarize(data: Dataset, scored: Scored) -> Outcome:
    """Means of the posteriors and of the log density, and the share of right predictions."""
    posteriors = ", ".join(f'avg("p_{name}")' for name in CLASSES)
    query = (
        f"SELECT count(*), avg(log_density), avg(CAST(prediction = {LABEL} AS INT)), {posteriors} "
        "FROM scored"
    )
    rows, density, accuracy, *means = scored.connection.execute(query).fetchall()[0]
    return {
        "rows": rows,
        "log_density": density,
        "accuracy": accuracy,
        "posterior": np.array(means),
    }


score_sql: Case[Dataset] = Case(
    name="score_sql",
    title="score 20 features in DuckDB by gaussian_diagonal",
    rows=1_000_000,
    prepare=functools.partial(numbers, features=20),
    reference=BY_HAND,
    targets=(Target(1.2, NAN_IS_NULL),),
    outcome=summarize,
)
CASES = (score_sql,)


@functools.cache
def _prepared(path: str, features: tuple[str, ...]) -> tuple[duckdb.DuckDBPyConnection, pc.Model]:
    """A database of one thread with the table, and a model of it."""
    connection = duckdb.connect()
    connection.execute("SET enable_progress_bar = false")
    connection.execute("SET threads = 1")
    connection.execute(f"CREATE TABLE rows AS SELECT * FROM '{Path(path)}'")
    return connection, fit(ds.dataset(path).head(50_000), features, "gaussian_diagonal")


def _run(data: Dataset, query: str) -> Scored:
    connection, _ = _prepared(data.path, data.features)
    connection.execute(f"CREATE OR REPLACE TEMP TABLE scored AS {query}")
    return Scored(connection)


@score_sql.implementation(BY_HAND, is_baseline=True)
def by_hand(data: Dataset) -> Scored:
    """Sums of normal log densities, a log-sum-exp and a CASE."""
    return _run(data, _query_by_hand(data, "rows"))


@score_sql.implementation(NAN_IS_NULL)
def by_hand_without_nan(data: Dataset) -> Scored:
    """The same, after a CASE for each column."""
    columns = ", ".join(f"CASE WHEN NOT isnan({x}) THEN {x} END AS {x}" for x in data.features)
    return _run(data, _query_by_hand(data, f"(SELECT {LABEL}, {columns} FROM rows)"))


@score_sql.implementation(OURS)
def ours(data: Dataset) -> Scored:
    """The query of `Model.to_sql`."""
    return _run(data, _query_of(data, "rows"))


@score_sql.implementation("probclass, of rows that leave the database")
def in_python(data: Dataset) -> Scored:
    """Rows as Arrow, `Model.predict_table`, and the scored table back into the database."""
    connection, model = _prepared(data.path, data.features)
    table = model.predict_table(
        connection.sql("FROM rows").to_arrow_table(), options={"columns": [LABEL]}
    )
    connection.register("arrow", table)
    return _run(data, "FROM arrow")


@score_sql.implementation("probclass, SQL of a Parquet file")
def of_parquet(data: Dataset) -> Scored:
    """The query of `Model.to_sql` with the file as its source."""
    return _run(data, _query_of(data, f"(FROM '{Path(data.path)}')"))


@functools.cache
def _query_of(data: Dataset, source: str) -> str:
    _, model = _prepared(data.path, data.features)
    return model.to_sql(dialect="duckdb", source=source, options={"columns": LABEL})


@functools.cache
def _query_by_hand(data: Dataset, source: str) -> str:
    _, model = _prepared(data.path, data.features)
    return duckdb_query(model, data.features, source, [LABEL])
