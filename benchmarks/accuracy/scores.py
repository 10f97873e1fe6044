"""Metrics, and the runs of every model on every fold.

Models run one after the other in this process, so times are comparable within a run; set
``OMP_NUM_THREADS=1`` to compare the work rather than the number of threads.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from scipy.stats import rankdata

from benchmarks.accuracy.models import Model
from benchmarks.accuracy.tables import Table

FLOOR = 1e-15
"""Probabilities are raised to this for the log loss; an excluded class costs 34.5 nats."""
BINS = 15
OPTIMUM = "optimum"


class Scores(NamedTuple):
    """How well a model does, on average over the folds.

    Attributes:
        error: part of the rows whose most probable class is not theirs.
        log_loss: mean of −log p(class of the row), nats.
        ece: expected calibration error of the most probable class.
        fit_seconds: time to fit the model, the choice of its structure included.
        rows_per_second: rows scored per second.
        auroc: area under the ROC curve of each class against the others, mean over the classes.
        log_losses: log loss of each fold.
        errors: error of each fold.
    """

    error: float
    log_loss: float
    ece: float
    fit_seconds: float = 0.0
    rows_per_second: float = 0.0
    auroc: float = 0.0
    log_losses: Sequence[float] = ()
    errors: Sequence[float] = ()

    def mean(self, metric: str, folds: int) -> float:
        """A metric on the first folds; the mean of all if it is not known by fold."""
        each = {"log_loss": self.log_losses, "error": self.errors}.get(metric, ())[:folds]
        return float(np.mean(each) if each else getattr(self, metric))


@dataclass
class Result:
    """A table: its size, and the outcome of each model.

    Attributes:
        name: name of the table.
        kind: see `tables.Table`.
        rows: number of rows.
        columns: number of columns to classify by.
        classes: number of classes.
        folds: number of folds that were used.
        outcomes: by name of the model, its scores or why it was refused; `OPTIMUM` is the true
            posterior, if it is known.
    """

    name: str
    kind: str
    rows: int
    columns: int
    classes: int
    folds: int
    outcomes: dict[str, Scores | str] = field(default_factory=dict)

    def scores(self, name: str) -> Scores | None:
        """The scores of a model; None if it was refused or not run."""
        outcome = self.outcomes.get(name)
        return outcome if isinstance(outcome, Scores) else None


def score(probabilities: np.ndarray, classes: np.ndarray, labels: np.ndarray) -> Scores:
    """Scores of class probabilities, without times.

    Args:
        probabilities: ``(n, k)``.
        classes: ``(k,)`` class of each column.
        labels: ``(n,)`` true classes; one that is not among the classes has probability 0.

    Raises:
        ValueError: if a probability is not a number, or a row does not sum to 1.
    """
    if not np.allclose(probabilities.sum(1), 1.0, atol=1e-6):  # false for NaN as well
        raise ValueError("probabilities of a row do not sum to 1")
    known = labels[:, None] == classes[None, :]
    of_truth = np.where(known, probabilities, 0.0).sum(1)
    top = probabilities.argmax(1)
    confidence, right = probabilities.max(1), known[np.arange(len(labels)), top]
    bins = np.clip(np.ceil(confidence * BINS).astype(int) - 1, 0, BINS - 1)
    gaps = np.bincount(bins, right, BINS) - np.bincount(bins, confidence, BINS)
    log_loss = -np.log(np.maximum(of_truth, FLOOR)).mean()
    ranks = rankdata(probabilities, axis=0)
    with np.errstate(invalid="ignore"):  # a class of none or of all rows has no AUROC
        members = known.sum(0)
        pairs = (ranks * known).sum(0) - members * (members + 1) / 2
        auroc = pairs / (members * (len(labels) - members))
    ece = float(np.abs(gaps).sum() / len(labels))
    return Scores(
        error=1.0 - float(right.mean()),
        log_loss=float(log_loss),
        ece=ece,
        auroc=float(np.nanmean(auroc)) if np.isfinite(auroc).any() else 0.0,
    )


def run_table(
    table: Table, models: Iterable[Model], folds: int, log: Callable[[str], None]
) -> Result:
    """Fit every model to the training rows of each fold, and score it on the test rows."""
    rows = table.load()
    splits = table.split(rows, folds)
    classes = np.unique(rows.labels)
    result = Result(
        table.name,
        table.kind,
        rows.features.num_rows,
        rows.features.num_columns,
        len(classes),
        len(splits),
    )
    for model in models:
        log(f"{table.name}: {model.name}")
        try:
            each = [measure(model, rows.table(train), rows.table(test)) for train, test in splits]
        except Exception as error:  # the other models must still be measured
            reason = " ".join(str(error).split())
            result.outcomes[model.name] = f"{type(error).__name__}: {reason}"
        else:
            result.outcomes[model.name] = _mean(each)
    if rows.posterior is not None:
        parts = [score(rows.posterior[test], classes, rows.labels[test]) for _, test in splits]
        result.outcomes[OPTIMUM] = _mean(parts)
    return result


def _mean(folds: list[Scores]) -> Scores:
    """Means over the folds, with the log loss and the error of each."""
    means = np.mean([fold[:6] for fold in folds], axis=0)
    return Scores._make([*means.tolist(), [f.log_loss for f in folds], [f.error for f in folds]])


def measure(model: Model, train: pa.Table, test: pa.Table) -> Scores:
    """Fit a model and score it on other rows."""
    labels = test["label"].to_numpy(zero_copy_only=False)
    classes = np.unique(train["label"].to_numpy(zero_copy_only=False))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # such as: constant columns, or an end without convergence
        start = time.perf_counter()
        fitted = model.fit(train)
        fit_seconds = time.perf_counter() - start
        start = time.perf_counter()
        probabilities = fitted(test.drop_columns(["label"]))
        predict_seconds = time.perf_counter() - start
    scores = score(probabilities, classes, labels)
    return scores._replace(fit_seconds=fit_seconds, rows_per_second=len(test) / predict_seconds)


def warm_up(models: Iterable[Model], table: Table) -> None:
    """Fit every model once, so that imports do not count; failures are those of the runs."""
    rows = table.load()
    everything = rows.table(np.arange(len(rows.labels)))
    for model in models:
        try:
            measure(model, everything, everything)
        except Exception:
            continue


def to_record(results: Iterable[Result]) -> dict[str, Any]:
    """Results as JSON values, by name of the table."""
    return {result.name: asdict(result) for result in results}


def from_record(tables: Mapping[str, Any]) -> dict[str, Result]:
    """The inverse of `to_record`, by name of the table."""
    results = {}
    for name, values in tables.items():
        outcomes = {
            model: outcome if isinstance(outcome, str) else Scores(*outcome)
            for model, outcome in values["outcomes"].items()
        }
        results[name] = Result(**{**values, "outcomes": outcomes})
    return results
