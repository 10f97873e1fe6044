"""Train a normal per class from Parquet, with diagonal and with full covariance.

The baselines read the same columns, which every implementation needs, and do not use them.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa

import probclass_core as pc
from benchmarks.case import NUMPY, OURS, Case, Outcome, Target
from benchmarks.datasets import CLASSES, LABEL, ROW_GROUP, Dataset, numbers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DUCKDB, POLARS = "DuckDB SQL", "Polars"
SCAN, POLARS_READ, DUCKDB_READ = "bare scan", "bare read by Polars", "bare read by DuckDB"
READS = (SCAN, POLARS_READ, DUCKDB_READ)

train_diagonal: Case[Dataset] = Case(
    name="train_gaussian_diagonal",
    title="train gaussian_diagonal from Parquet",
    rows=4_000_000,
    prepare=numbers,
    reference=DUCKDB,
    targets=(
        Target(0.9, (DUCKDB, POLARS)),
        Target(1.25, SCAN),
        Target(1 / 8, "scikit-learn, streaming"),
    ),
)
train_full: Case[Dataset] = Case(
    name="train_gaussian_full",
    title="train gaussian_full from Parquet",
    rows=4_000_000,
    prepare=numbers,
    reference=DUCKDB,
    targets=(Target(1.5, READS), Target(0.3, DUCKDB)),
)
CASES = (train_diagonal, train_full)


@train_full.implementation(SCAN, is_baseline=True)
@train_diagonal.implementation(SCAN, is_baseline=True)
def scan(data: Dataset) -> Outcome:
    """pyarrow.dataset to batches, all threads."""
    batches = data.arrow().to_batches(columns=data.columns)
    return {"rows": sum(batch.num_rows for batch in batches)}


@train_full.implementation(POLARS_READ, is_baseline=True)
@train_diagonal.implementation(POLARS_READ, is_baseline=True)
def polars_read(data: Dataset) -> Outcome:
    """scan_parquet and collect_batches, all threads."""
    batches = data.polars().select(data.columns).collect_batches()
    return {"rows": sum(batch.height for batch in batches)}


@train_full.implementation(DUCKDB_READ, is_baseline=True)
@train_diagonal.implementation(DUCKDB_READ, is_baseline=True)
def duckdb_read(data: Dataset) -> Outcome:
    """SELECT to a reader of Arrow batches, all threads."""
    columns = ", ".join(data.columns)
    connection = connect()
    reader = connection.sql(f"SELECT {columns} FROM {data.sql}").to_arrow_reader(ROW_GROUP)
    return {"rows": sum(batch.num_rows for batch in reader)}


@train_diagonal.implementation(OURS)
def fit_diagonal(data: Dataset) -> Outcome:
    """fit, all threads."""
    return moments(fit(data.path, data.features, "gaussian_diagonal"))


@train_diagonal.implementation(NUMPY)
def fit_diagonal_by_numpy(data: Dataset) -> Outcome:
    """fit without probclass-kernels, all threads."""
    without_kernels()
    return moments(fit(data.path, data.features, "gaussian_diagonal"))


def without_kernels() -> None:
    """Leave out probclass-kernels in this process."""
    sys.modules["probclass_kernels"] = None  # type: ignore[assignment]


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
    return covariances(data)


def covariances(data: Dataset) -> Outcome:
    """Means and covariances of each class, by fit."""
    model = fit(data.path, data.features, "gaussian_full")
    parameters = model.parameters["gaussian_full"]
    covariance = parameters["covariance"].combine_chunks().to_numpy_ndarray()
    return {
        "rows": model.training["rows"],
        "mean": np.array(parameters["mean"].to_pylist()),
        "covariance": covariance,
    }


@train_full.implementation(NUMPY)
def fit_full_by_numpy(data: Dataset) -> Outcome:
    """fit without probclass-kernels, all threads."""
    without_kernels()
    return covariances(data)


def fit(source: Any, features: Sequence[str], estimator: str) -> pc.Model:
    """Fit a model with one block."""
    return pc.fit(source, pc.ModelSpec(label=LABEL, blocks=[pc.Block(estimator, list(features))]))


@train_diagonal.implementation(DUCKDB)
def duckdb_diagonal(data: Dataset) -> Outcome:
    """avg and var_pop, grouped by class."""
    terms = [f"avg({x}), var_pop({x})" for x in data.features]
    columns = _numbers(query_duckdb(_group_by(terms, data.sql)))
    return {"rows": columns[:, 0].sum(), "mean": columns[:, 1::2], "variance": columns[:, 2::2]}


@train_full.implementation(DUCKDB)
def duckdb_full(data: Dataset) -> Outcome:
    """avg and covar_pop of every pair, grouped by class."""
    cells = [f"covar_pop({a}, {b})" for a, b in _pairs(data.features)]
    means = [f"avg({x})" for x in data.features]
    query = _group_by([*means, *cells], data.sql)
    return _covariances(_numbers(query_duckdb(query)), len(data.features))


@train_diagonal.implementation(POLARS)
def polars_diagonal(data: Dataset) -> Outcome:
    """mean and var, grouped by class, lazily over scan_parquet."""
    numbers = [pl.col(x).cast(pl.Float64) for x in data.features]
    terms = [term for x in numbers for term in (x.mean().name.prefix("m"), x.var(0))]
    columns = _by_class(data, terms)
    return {"rows": columns[:, 0].sum(), "mean": columns[:, 1::2], "variance": columns[:, 2::2]}


@train_full.implementation(POLARS)
def polars_full(data: Dataset) -> Outcome:
    """mean and cov of every pair, grouped by class, lazily over scan_parquet."""
    means = [pl.col(x).cast(pl.Float64).mean() for x in data.features]
    cells = [
        pl.cov(pl.col(a).cast(pl.Float64), pl.col(b).cast(pl.Float64), ddof=0).alias(f"{a} {b}")
        for a, b in _pairs(data.features)
    ]
    return _covariances(_by_class(data, [*means, *cells]), len(data.features))


def _by_class(data: Dataset, terms: Sequence[pl.Expr]) -> np.ndarray:
    """The count and the terms of each class, ``(k, 1 + number of terms)``."""
    grouped = data.polars().group_by(LABEL).agg(pl.len(), *terms)
    return grouped.sort(LABEL).drop(LABEL).collect().to_numpy().astype(float)


def connect() -> duckdb.DuckDBPyConnection:
    """A connection that shows no progress bar."""
    connection = duckdb.connect()
    connection.execute("SET enable_progress_bar = false")
    return connection


def query_duckdb(query: str) -> list[tuple[Any, ...]]:
    """The rows of a query."""
    return connect().execute(query).fetchall()


def _group_by(terms: Sequence[str], source: str) -> str:
    columns = ", ".join([LABEL, "count(*) AS n", *terms])
    return f"SELECT {columns} FROM {source} GROUP BY {LABEL} ORDER BY {LABEL}"


def _pairs(features: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each pair once, in the order of `numpy.triu_indices`."""
    for number, first in enumerate(features):
        for second in features[number:]:
            yield first, second


def _numbers(rows: Sequence[Sequence[Any]]) -> np.ndarray:
    """The rows of a query, without the class in the first column."""
    return np.array([row[1:] for row in rows], dtype=float)


def _covariances(columns: np.ndarray, d: int) -> Outcome:
    """The outcome of columns with count, means and upper triangle of the covariance."""
    upper, left = np.triu_indices(d)
    covariance = np.empty((len(columns), d, d))
    covariance[:, upper, left] = columns[:, 1 + d :]
    covariance[:, left, upper] = covariance[:, upper, left]
    return {"rows": columns[:, 0].sum(), "mean": columns[:, 1 : 1 + d], "covariance": covariance}


@train_diagonal.implementation("scikit-learn, streaming")
def sklearn_streaming(data: Dataset) -> Outcome:
    """GaussianNB.partial_fit, batch by batch."""
    from sklearn.naive_bayes import GaussianNB

    model = GaussianNB(var_smoothing=0.0)
    for batch in data.arrow().to_batches(columns=data.columns):
        model.partial_fit(matrix(batch, data.features), batch[LABEL].to_numpy(False), CLASSES)
    return {"rows": model.class_count_.sum(), "mean": model.theta_, "variance": model.var_}


@train_diagonal.implementation("scikit-learn, in memory")
def sklearn_in_memory(data: Dataset) -> Outcome:
    """GaussianNB.fit on one matrix."""
    from sklearn.naive_bayes import GaussianNB

    table = data.arrow().to_table(columns=data.columns)
    model = GaussianNB(var_smoothing=0.0).fit(matrix(table, data.features), table[LABEL].to_numpy())
    return {"rows": model.class_count_.sum(), "mean": model.theta_, "variance": model.var_}


@train_diagonal.implementation("Spark ML")
def spark_ml(data: Dataset) -> Outcome:
    """NaiveBayes of gaussian type, in local mode; all calls share one session.

    It adds 1e-9 of the largest variance of any column to every variance, which is subtracted here.
    """
    from pyspark.ml.classification import NaiveBayes
    from pyspark.ml.feature import StringIndexer, VectorAssembler

    table = spark_session().read.parquet(data.path).select(*data.columns)
    codes = StringIndexer(inputCol=LABEL, outputCol="code", stringOrderType="alphabetAsc")
    table = codes.fit(table).transform(table)
    table = VectorAssembler(inputCols=list(data.features), outputCol="x").transform(table)
    model = NaiveBayes(modelType="gaussian", featuresCol="x", labelCol="code").fit(table)
    share, mean, variance = np.exp(model.pi.toArray()), model.theta.toArray(), model.sigma.toArray()
    overall = share @ (variance + mean**2) - (share @ mean) ** 2
    return {"rows": data.rows, "mean": mean, "variance": variance - 1e-9 * overall.max()}


def spark_session() -> SparkSession:
    """The session of this process, in local mode."""
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas")
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[*]").config("spark.driver.memory", "4g")
    for name in ("spark.ui.enabled", "spark.ui.showConsoleProgress"):
        builder = builder.config(name, "false")
    return builder.config("spark.log.level", "ERROR").getOrCreate()


@train_full.implementation("scikit-learn QDA, in memory")
def sklearn_qda(data: Dataset) -> Outcome:
    """QuadraticDiscriminantAnalysis.fit on one matrix."""
    from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis

    table = data.arrow().to_table(columns=data.columns)
    model = QuadraticDiscriminantAnalysis(store_covariance=True)
    model.fit(matrix(table, data.features), table[LABEL].to_numpy())
    covariance = np.stack(model.covariance_)
    return {"rows": table.num_rows, "mean": model.means_, "covariance": covariance}


def matrix(data: pa.Table | pa.RecordBatch, features: Sequence[str]) -> np.ndarray:
    """Columns as an ``(n, d)`` array, for scikit-learn."""
    return np.column_stack([data[name].to_numpy(zero_copy_only=False) for name in features])
