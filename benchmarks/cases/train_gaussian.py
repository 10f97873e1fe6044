"""Train a normal per class from Parquet, with diagonal and with full covariance.

The floor is a bare scan of the same columns: what reading costs, whoever computes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds

import probclass_core as pc
from benchmarks.case import OURS, Bar, Case, Outcome
from benchmarks.lake import CLASSES, LABEL, Lake, numbers

SCAN = "bare scan"

train_diagonal: Case[Lake] = Case(
    name="train_gaussian_diagonal",
    title="train gaussian_diagonal from Parquet",
    rows=4_000_000,
    prepare=numbers,
    reference="DuckDB SQL",
    bars=(
        Bar(1.25, SCAN),
        Bar(1.0, "DuckDB SQL"),
        Bar(1.0, "Polars SQL"),
        Bar(1 / 8, "scikit-learn, streaming"),
    ),
)
train_full: Case[Lake] = Case(
    name="train_gaussian_full",
    title="train gaussian_full from Parquet",
    rows=4_000_000,
    prepare=numbers,
    reference="DuckDB SQL",
    bars=(Bar(2.0, SCAN), Bar(1 / 10, "DuckDB SQL")),
)
CASES = (train_diagonal, train_full)


@train_full.contestant(SCAN, is_floor=True)
@train_diagonal.contestant(SCAN, is_floor=True)
def scan(lake: Lake) -> Outcome:
    """pyarrow.dataset to batches, all threads, every batch let go."""
    batches = ds.dataset(lake.path).to_batches(columns=lake.columns)
    return {"rows": sum(batch.num_rows for batch in batches)}


@train_full.contestant("bare scan, one thread", is_floor=True)
@train_diagonal.contestant("bare scan, one thread", is_floor=True)
def scan_on_one_thread(lake: Lake) -> Outcome:
    """the same with use_threads=False."""
    batches = ds.dataset(lake.path).to_batches(columns=lake.columns, use_threads=False)
    return {"rows": sum(batch.num_rows for batch in batches)}


@train_full.contestant("bare scan into a table", is_floor=True)
@train_diagonal.contestant("bare scan into a table", is_floor=True)
def scan_to_table(lake: Lake) -> Outcome:
    """pyarrow.dataset to_table, all threads."""
    return {"rows": ds.dataset(lake.path).to_table(columns=lake.columns).num_rows}


@train_diagonal.contestant(OURS)
def fit_diagonal(lake: Lake) -> Outcome:
    """fit, all threads."""
    return told(fitted(lake.path, lake.features, "gaussian_diagonal"))


def told(model: pc.Model) -> Outcome:
    """What must be equal of a normal for each class and feature."""
    parameters = model.parameters["gaussian_diagonal"]
    shape = (len(CLASSES), -1)
    return {
        "rows": model.training["rows"],
        "mean": parameters["mean"].to_numpy().reshape(shape),
        "variance": parameters["variance"].to_numpy().reshape(shape),
    }


@train_full.contestant(OURS)
def fit_full(lake: Lake) -> Outcome:
    """fit, all threads."""
    model = fitted(lake.path, lake.features, "gaussian_full")
    parameters = model.parameters["gaussian_full"]
    covariance = parameters["covariance"].combine_chunks().to_numpy_ndarray()
    return {
        "rows": model.training["rows"],
        "mean": np.array(parameters["mean"].to_pylist()),
        "covariance": covariance,
    }


def fitted(source: Any, features: Sequence[str], estimator: str) -> pc.Model:
    """Ours."""
    return pc.fit(source, pc.ModelSpec(label=LABEL, blocks=[pc.Block(estimator, list(features))]))


@train_diagonal.contestant("DuckDB SQL")
def duckdb_diagonal(lake: Lake) -> Outcome:
    """avg and var_pop, grouped by class."""
    moments = [f"avg({x}), var_pop({x})" for x in lake.features]
    rows = asked_of_duckdb(_grouped(moments, f"'{lake.path}'"))
    found = np.array([row[1:] for row in rows], dtype=float)
    return {"rows": found[:, 0].sum(), "mean": found[:, 1::2], "variance": found[:, 2::2]}


@train_full.contestant("DuckDB SQL")
def duckdb_full(lake: Lake) -> Outcome:
    """avg and covar_pop of every pair, grouped by class."""
    cells = [f"covar_pop({a}, {b})" for a, b in _pairs(lake.features)]
    means = [f"avg({x})" for x in lake.features]
    query = _grouped([*means, *cells], f"'{lake.path}'")
    return _moments(asked_of_duckdb(query), len(lake.features))


@train_diagonal.contestant("Polars SQL")
def polars_diagonal(lake: Lake) -> Outcome:
    """avg and variance, grouped by class, lazily over scan_parquet."""
    moments = [f"AVG({x}) AS m{x}, VARIANCE({x}) AS v{x}" for x in lake.features]
    rows = _polars(lake, _grouped(moments, "lake"))
    found = np.array([row[1:] for row in rows], dtype=float)
    count = found[:, :1]
    variance = found[:, 2::2] * (count - 1.0) / count  # Polars divides by n - 1
    return {"rows": count.sum(), "mean": found[:, 1::2], "variance": variance}


@train_full.contestant("Polars SQL")
def polars_full(lake: Lake) -> Outcome:
    """avg and covar of every pair, grouped by class, lazily over scan_parquet."""
    means = [f"AVG({x}) AS m{x}" for x in lake.features]
    cells = [f"COVAR({a}, {b}) AS c{a}{b}" for a, b in _pairs(lake.features)]
    return _moments(_polars(lake, _grouped([*means, *cells], "lake")), len(lake.features), ddof=1)


def asked_of_duckdb(query: str) -> list[tuple[Any, ...]]:
    """The rows of the answer, without a progress bar."""
    connection = duckdb.connect()
    connection.execute("SET enable_progress_bar = false")
    return connection.execute(query).fetchall()


def _polars(lake: Lake, query: str) -> list[tuple[Any, ...]]:
    return pl.SQLContext(lake=pl.scan_parquet(lake.path)).execute(query).collect().rows()


def _grouped(terms: Sequence[str], source: str) -> str:
    listed = ", ".join([LABEL, "count(*) AS n", *terms])
    return f"SELECT {listed} FROM {source} GROUP BY {LABEL} ORDER BY {LABEL}"


def _pairs(features: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Every pair once, in the order of `numpy.triu_indices`."""
    for number, first in enumerate(features):
        for second in features[number:]:
            yield first, second


def _moments(rows: Sequence[Sequence[Any]], d: int, ddof: int = 0) -> Outcome:
    """Rows of class, count, means and upper triangle as what `fit_full` gives."""
    found = np.array([row[1:] for row in rows], dtype=float)
    count = found[:, 0]
    upper, left = np.triu_indices(d)
    covariance = np.empty((len(found), d, d))
    covariance[:, upper, left] = found[:, 1 + d :] * ((count - ddof) / count)[:, None]
    covariance[:, left, upper] = covariance[:, upper, left]
    return {"rows": count.sum(), "mean": found[:, 1 : 1 + d], "covariance": covariance}


@train_diagonal.contestant("scikit-learn, streaming")
def sklearn_streaming(lake: Lake) -> Outcome:
    """GaussianNB.partial_fit, batch by batch."""
    from sklearn.naive_bayes import GaussianNB

    model = GaussianNB(var_smoothing=0.0)
    for batch in ds.dataset(lake.path).to_batches(columns=lake.columns):
        model.partial_fit(matrix(batch, lake.features), batch[LABEL].to_numpy(False), CLASSES)
    return {"rows": model.class_count_.sum(), "mean": model.theta_, "variance": model.var_}


@train_diagonal.contestant("scikit-learn, in memory")
def sklearn_in_memory(lake: Lake) -> Outcome:
    """GaussianNB.fit on one matrix."""
    from sklearn.naive_bayes import GaussianNB

    table = ds.dataset(lake.path).to_table(columns=lake.columns)
    model = GaussianNB(var_smoothing=0.0).fit(matrix(table, lake.features), table[LABEL].to_numpy())
    return {"rows": model.class_count_.sum(), "mean": model.theta_, "variance": model.var_}


@train_diagonal.contestant("Spark ML")
def spark_ml(lake: Lake) -> Outcome:
    """NaiveBayes of gaussian type, in local mode; the session stays from call to call.

    It adds 1e-9 of the largest variance of any column to every variance, which is taken off here.
    """
    from pyspark.ml.classification import NaiveBayes
    from pyspark.ml.feature import StringIndexer, VectorAssembler
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.log.level", "ERROR").getOrCreate()
    table = spark.read.parquet(lake.path).select(*lake.columns)
    codes = StringIndexer(inputCol=LABEL, outputCol="code", stringOrderType="alphabetAsc")
    table = codes.fit(table).transform(table)
    table = VectorAssembler(inputCols=list(lake.features), outputCol="x").transform(table)
    model = NaiveBayes(modelType="gaussian", featuresCol="x", labelCol="code").fit(table)
    share, mean, variance = np.exp(model.pi.toArray()), model.theta.toArray(), model.sigma.toArray()
    overall = share @ (variance + mean**2) - (share @ mean) ** 2
    return {"rows": lake.rows, "mean": mean, "variance": variance - 1e-9 * overall.max()}


@train_full.contestant("scikit-learn QDA, in memory")
def sklearn_qda(lake: Lake) -> Outcome:
    """QuadraticDiscriminantAnalysis.fit on one matrix."""
    from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis

    table = ds.dataset(lake.path).to_table(columns=lake.columns)
    model = QuadraticDiscriminantAnalysis(store_covariance=True)
    model.fit(matrix(table, lake.features), table[LABEL].to_numpy())
    covariance = np.stack(model.covariance_)
    return {"rows": table.num_rows, "mean": model.means_, "covariance": covariance}


def matrix(data: pa.Table | pa.RecordBatch, features: Sequence[str]) -> np.ndarray:
    """Columns as the ``(n, d)`` array that scikit-learn wants."""
    return np.column_stack([data[name].to_numpy(zero_copy_only=False) for name in features])
