"""Small batches in memory: fit and predict 1,000 rows of 10 features, and predict a single row.

This measures the fixed cost, compared with that of scikit-learn.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

import probclass_core as pc
from benchmarks.case import OURS, Case, Outcome, Target
from benchmarks.cases.train_gaussian import fit, matrix
from benchmarks.datasets import LABEL, numbers

if TYPE_CHECKING:
    from sklearn.naive_bayes import GaussianNB


@dataclass(frozen=True, eq=False)
class Batch:
    """The same rows as a table and as arrays.

    Attributes:
        table: features and label.
        features: names of the feature columns.
        rows: feature values, ``(n, d)``.
        labels: class labels, ``(n,)``.
    """

    table: pa.Table
    features: tuple[str, ...]
    rows: np.ndarray
    labels: np.ndarray


def batch(cache: Path, rows: int) -> Batch:
    """A batch of ten features."""
    data = numbers(cache, rows, features=10)
    table = ds.dataset(data.path).to_table(columns=data.columns).combine_chunks()
    return Batch(table, data.features, matrix(table, data.features), table[LABEL].to_numpy())


small_batch: Case[Batch] = Case(
    name="small_batch",
    title="fit and predict one batch of 10 features in memory",
    rows=1_000,
    prepare=batch,
    reference="scikit-learn",
    calls=20,
    targets=(Target(1.5, "scikit-learn"),),
    tolerance=0.02,
)
one_row: Case[Batch] = Case(
    name="one_row",
    title="predict one row of 10 features in memory",
    rows=1_000,
    prepare=batch,
    reference="scikit-learn",
    calls=200,
    targets=(Target(1.0, "scikit-learn"),),
)
CASES = (small_batch, one_row)


def accuracy(batch: Batch, labels: np.ndarray) -> Outcome:
    """The number of rows and the share of right predictions."""
    return {"rows": len(labels), "right": float(np.mean(labels == batch.labels))}


@small_batch.implementation("scikit-learn", is_baseline=True)
def sklearn(batch: Batch) -> Outcome:
    """GaussianNB.fit and predict on arrays."""
    from sklearn.naive_bayes import GaussianNB

    model = GaussianNB(var_smoothing=0.0).fit(batch.rows, batch.labels)
    return accuracy(batch, model.predict(batch.rows))


@small_batch.implementation("river, row by row")
def river(batch: Batch) -> Outcome:
    """GaussianNB.learn_one and predict_one; its variances divide by n − 1."""
    from river.naive_bayes import GaussianNB

    model: Any = GaussianNB()  # type: ignore[no-untyped-call]
    rows: list[dict[Hashable, float]] = [dict(enumerate(row)) for row in batch.rows.tolist()]
    for row, label in zip(rows, batch.labels, strict=True):
        model.learn_one(row, label)
    return accuracy(batch, np.array([model.predict_one(row) for row in rows]))


@small_batch.implementation(OURS)
def ours(batch: Batch) -> Outcome:
    """fit and predict on a table."""
    model = fit(batch.table, batch.features, "gaussian_diagonal")
    return accuracy(batch, model.predict(batch.table).to_numpy(zero_copy_only=False))


@functools.cache
def _fitted(batch: Batch) -> tuple[GaussianNB, pc.Model]:
    from sklearn.naive_bayes import GaussianNB

    return (
        GaussianNB(var_smoothing=0.0).fit(batch.rows, batch.labels),
        fit(batch.table, batch.features, "gaussian_diagonal"),
    )


@one_row.implementation("scikit-learn", is_baseline=True)
def sklearn_row(batch: Batch) -> Outcome:
    """GaussianNB.predict of an array of one row."""
    model, _ = _fitted(batch)
    return {"prediction": model.predict(batch.rows[:1])}


@one_row.implementation(OURS)
def our_row(batch: Batch) -> Outcome:
    """predict of a record batch of one row."""
    _, model = _fitted(batch)
    row = batch.table.slice(0, 1).to_batches()[0]
    return {"prediction": model.predict(row).to_numpy(zero_copy_only=False)}
