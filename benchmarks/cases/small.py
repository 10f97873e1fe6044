"""One small batch in memory: fit 1,000 rows of 10 features, then predict them.

This measures the fixed cost, compared with that of scikit-learn.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from benchmarks.case import OURS, Case, Outcome, Target
from benchmarks.cases.train_gaussian import fit, matrix
from benchmarks.datasets import LABEL, numbers


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
    targets=(Target(2.0, "scikit-learn"),),
    tolerance=0.02,
)
CASES = (small_batch,)


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
