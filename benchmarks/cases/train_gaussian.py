"""Train a normal per class from Parquet, with diagonal and with full covariance.

The baseline is a bare scan of the same columns, which every implementation needs.
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
from benchmarks.case import OURS, Case, Outcome, Target
from benchmarks.datasets import CLASSES, LABEL, Dataset, numbers

SCAN = "bare scan"

train_diagonal: Case[Dataset] = Case(
    name="train_gaussian_diagonal",
    title="train gaussian_diagonal from Parquet",
    rows=4_000_000,
    prepare=numbers,
    reference="DuckDB SQL",
    targets=(
        Target(1.25, SCAN),
        Target(1.0, "DuckDB SQL"),
        Target(1.0, "Polars SQL"),
        Target(1 / 8, "scikit-learn, streaming"),
    ),
)
train_full: Case[Dataset] = Case(
    name="train_gaussian_full",
    title="train gaussian_full from Parquet",
    rows=4_000_000,
    prepare=numbers,
    reference="DuckDB SQL",
    targets=(Target(2.0, SCAN), Target(1 / 10, "DuckDB SQL")),
)
CASES = (train_diagonal, train_full)


@train_full.implementation(SCAN, is_baseline=True)
@train_diagonal.implementation(SCAN, is_baseline=True)
def scan(data: Dataset) -> Outcome:
    """pyarrow.dataset to batches, all threads; the batches are not used."""
    batches = ds.dataset(data.path).to_batches(columns=data.columns)
    return {"rows": sum(batch.num_rows for batch in batches)}


@train_full.implementation("bare scan, one thread", is_baseline=True)
@train_diagonal.implementation("bare scan, one thread", is_baseline=True)
def scan_on_one_thread(data: Dataset) -> Outcome:
    """pyarrow.dataset to batches with use_threads=False."""
    batches = ds.dataset(data.path).to_batches(columns=data.columns, use_threads=False)
    return {"rows": sum(batch.num_rows for batch in batches)}


@train_full.implementation("bare scan into a table", is_baseline=True)
@train_diagonal.implementation("bare scan into a table", is_baseline=True)
def scan_to_table(data: Dataset) -> Outcome:
    """pyarrow.dataset to_table, all threads."""
    return {"rows": ds.dataset(data.path).to_table(columns=data.columns).num_rows}


@train_diagonal.implementation(OURS)
def fit_diagonal(data: Dataset) -> Outcome:
    """fit, all threads."""
    return moments(fit(data.path, data.features, "gaussian_diagonal"))


def moments(model: pc.Model) -> Outcome:
    """Means and variances of each class and feature."""
    parameters = model.parameters["gaussian_diagonal"]
    shape = (len(CLASSES), -1)
    return {
        "rows": model.training["rows"],
        "mean": parameters["mean"].to_numpy().reshape(shape),
        "variance": parameters["variance"].to_numpy().reshape(shape),
    }


@train_full.implementation(OURS)
def fit_full(data: Dataset) -> Outcome:
    """fit, all threads."""
    model = fit(data.path, data.features, "gaussian_full")
    parameters = model.parameters["gaussian_full"]
    covariance = parameters["covariance"].combine_chunks().to_numpy_ndarray()
    return {
        "rows": model.training["rows"],
        "mean": np.array(parameters["mean"].to_pylist()),
        "covariance": covariance,
    }


def fit(source: Any, features: Sequence[str], estimator: str) -> pc.Model:
    """Fit a model with one block."""
    return pc.fit(source, pc.ModelSpec(label=LABEL, blocks=[pc.Block(estimator, list(features))]))


@train_diagonal.implementation("DuckDB SQL")
def duckdb_diagonal(data: Dataset) -> Outcome:
    """avg and var_pop, grouped by class."""
    terms = [f"avg({x}), var_pop({x})" for x in data.features]
    rows = query_duckdb(_group_by(terms, f"'{data.path}'"))
    columns = np.array([row[1:] for row in rows], dtype=float)
    return {"rows": columns[:, 0].sum(), "mean": columns[:, 1::2], "variance": columns[:, 2::2]}


@train_full.implementation("DuckDB SQL")
def duckdb_full(data: Dataset) -> Outcome:
    """avg and covar_pop of every pair, grouped by class."""
    cells = [f"covar_pop({a}, {b})" for a, b in _pairs(data.features)]
    means = [f"avg({x})" for x in data.features]
    query = _group_by([*means, *cells], f"'{data.path}'")
    return _covariances(query_duckdb(query), len(data.features))


@train_diagonal.implementation("Polars SQL")
def polars_diagonal(data: Dataset) -> Outcome:
    """avg and variance, grouped by class, lazily over scan_parquet."""
    terms = [f"AVG({x}) AS m{x}, VARIANCE({x}) AS v{x}" for x in data.features]
    rows = _polars(data, _group_by(terms, "data"))
    columns = np.array([row[1:] for row in rows], dtype=float)
    count = columns[:, :1]
    variance = columns[:, 2::2] * (count - 1.0) / count  # Polars divides by n - 1
    return {"rows": count.sum(), "mean": columns[:, 1::2], "variance": variance}


@train_full.implementation("Polars SQL")
def polars_full(data: Dataset) -> Outcome:
    """avg and covar of every pair, grouped by class, lazily over scan_parquet."""
    means = [f"AVG({x}) AS m{x}" for x in data.features]
    cells = [f"COVAR({a}, {b}) AS c{a}{b}" for a, b in _pairs(data.features)]
    return _covariances(
        _polars(data, _group_by([*means, *cells], "data")), len(data.features), ddof=1
    )


def query_duckdb(query: str) -> list[tuple[Any, ...]]:
    """The rows of a query, without a progress bar."""
    connection = duckdb.connect()
    connection.execute("SET enable_progress_bar = false")
    return connection.execute(query).fetchall()


def _polars(data: Dataset, query: str) -> list[tuple[Any, ...]]:
    return pl.SQLContext(data=pl.scan_parquet(data.path)).execute(query).collect().rows()


def _group_by(terms: Sequence[str], source: str) -> str:
    columns = ", ".join([LABEL, "count(*) AS n", *terms])
    return f"SELECT {columns} FROM {source} GROUP BY {LABEL} ORDER BY {LABEL}"


def _pairs(features: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each pair once, in the order of `numpy.triu_indices`."""
    for number, first in enumerate(features):
        for second in features[number:]:
            yield first, second


def _covariances(rows: Sequence[Sequence[Any]], d: int, ddof: int = 0) -> Outcome:
    """The outcome of rows with class, count, means and upper triangle of the covariance."""
    columns = np.array([row[1:] for row in rows], dtype=float)
    count = columns[:, 0]
    upper, left = np.triu_indices(d)
    covariance = np.empty((len(columns), d, d))
    covariance[:, upper, left] = columns[:, 1 + d :] * ((count - ddof) / count)[:, None]
    covariance[:, left, upper] = covariance[:, upper, left]
    return {"rows": count.sum(), "mean": columns[:, 1 : 1 + d], "covariance": covariance}


@train_diagonal.implementation("scikit-learn, streaming")
def sklearn_streaming(data: Dataset) -> Outcome:
    """GaussianNB.partial_fit, batch by batch."""
    from sklearn.naive_bayes import GaussianNB

    model = GaussianNB(var_smoothing=0.0)
    for batch in ds.dataset(data.path).to_batches(columns=data.columns):
        model.partial_fit(matrix(batch, data.features), batch[LABEL].to_numpy(False), CLASSES)
    return {"rows": model.class_count_.sum(), "mean": model.theta_, "variance": model.var_}


@train_diagonal.implementation("scikit-learn, in memory")
def sklearn_in_memory(data: Dataset) -> Outcome:
    """GaussianNB.fit on one matrix."""
    from sklearn.naive_bayes import GaussianNB

    table = ds.dataset(data.path).to_table(columns=data.columns)
    model = GaussianNB(var_smoothing=0.0).fit(matrix(table, data.features), table[LABEL].to_numpy())
    return {"rows": model.class_count_.sum(), "mean": model.theta_, "variance": model.var_}


@train_diagonal.implementation("Spark ML")
def spark_ml(data: Dataset) -> Outcome:
    """NaiveBayes of gaussian type, in local mode; all calls share one session.

    It adds 1e-9 of the largest variance of any column to every variance, which is subtracted here.
    """
    from pyspark.ml.classification import NaiveBayes
    from pyspark.ml.feature import StringIndexer, VectorAssembler
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.log.level", "ERROR").getOrCreate()
    table = spark.read.parquet(data.path).select(*data.columns)
    codes = StringIndexer(inputCol=LABEL, outputCol="code", stringOrderType="alphabetAsc")
    table = codes.fit(table).transform(table)
    table = VectorAssembler(inputCols=list(data.features), outputCol="x").transform(table)
    model = NaiveBayes(modelType="gaussian", featuresCol="x", labelCol="code").fit(table)
    share, mean, variance = np.exp(model.pi.toArray()), model.theta.toArray(), model.sigma.toArray()
    overall = share @ (variance + mean**2) - (share @ mean) ** 2
    return {"rows": data.rows, "mean": mean, "variance": variance - 1e-9 * overall.max()}


@train_full.implementation("scikit-learn QDA, in memory")
def sklearn_qda(data: Dataset) -> Outcome:
    """QuadraticDiscriminantAnalysis.fit on one matrix."""
    from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis

    table = ds.dataset(data.path).to_table(columns=data.columns)
    model = QuadraticDiscriminantAnalysis(store_covariance=True)
    model.fit(matrix(table, data.features), table[LABEL].to_numpy())
    covariance = np.stack(model.covariance_)
    return {"rows": table.num_rows, "mean": model.means_, "covariance": covariance}


def matrix(data: pa.Table | pa.RecordBatch, features: Sequence[str]) -> np.ndarray:
    """Columns as an ``(n, d)`` array, for scikit-learn."""
    return np.column_stack([data[name].to_numpy(zero_copy_only=False) for name in features])
