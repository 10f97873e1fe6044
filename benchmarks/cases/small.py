"""One small batch in memory: fit 1,000 rows of 10 features, then predict them.

There is no floor to speak of; what is measured is the fixed cost, beside scikit-learn's.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from benchmarks.case import OURS, Bar, Case, Outcome
from benchmarks.cases.train_gaussian import fitted, matrix
from benchmarks.lake import LABEL, numbers


@dataclass(frozen=True, eq=False)
class Batch:
    """The same rows as a table and as arrays.

    Attributes:
        table: features and label.
        features: names of the feature columns.
        rows: ``(n, d)``.
        labels: ``(n,)``.
    """

    table: pa.Table
    features: tuple[str, ...]
    rows: np.ndarray
    labels: np.ndarray


def batch(cache: Path, rows: int) -> Batch:
    """Ten features."""
    lake = numbers(cache, rows, features=10)
    table = ds.dataset(lake.path).to_table(columns=lake.columns).combine_chunks()
    return Batch(table, lake.features, matrix(table, lake.features), table[LABEL].to_numpy())


small_batch: Case[Batch] = Case(
    name="small_batch",
    title="fit and predict one batch of 10 features in memory",
    rows=1_000,
    prepare=batch,
    reference="scikit-learn",
    calls=20,
    bars=(Bar(2.0, "scikit-learn"),),
    tolerance=0.02,
)
CASES = (small_batch,)


def told(given: Batch, labels: np.ndarray) -> Outcome:
    """How many rows, and how many got their label."""
    return {"rows": len(labels), "right": float(np.mean(labels == given.labels))}


@small_batch.contestant("scikit-learn", is_floor=True)
def sklearn(given: Batch) -> Outcome:
    """GaussianNB.fit and predict on arrays."""
    from sklearn.naive_bayes import GaussianNB

    model = GaussianNB(var_smoothing=0.0).fit(given.rows, given.labels)
    return told(given, model.predict(given.rows))


@small_batch.contestant("river, row by row")
def river(given: Batch) -> Outcome:
    """GaussianNB.learn_one and predict_one; its variances divide by n − 1."""
    from river.naive_bayes import GaussianNB

    model: Any = GaussianNB()  # type: ignore[no-untyped-call]
    rows: list[dict[Hashable, float]] = [dict(enumerate(row)) for row in given.rows.tolist()]
    for row, label in zip(rows, given.labels, strict=True):
        model.learn_one(row, label)
    return told(given, np.array([model.predict_one(row) for row in rows]))


@small_batch.contestant(OURS)
def ours(given: Batch) -> Outcome:
    """fit and predict on a table."""
    model = fitted(given.table, given.features, "gaussian_diagonal")
    return told(given, model.predict(given.table).to_numpy(zero_copy_only=False))
