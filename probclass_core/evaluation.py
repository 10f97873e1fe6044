"""How well a model does on labelled rows, beside what guessing would do."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from probclass_core.arrays import MISSING, FloatArray, IntArray, class_labels, label_codes
from probclass_core.errors import DataError
from probclass_core.model import Model
from probclass_core.reliability import BINS, bin_sums, calibration_errors, reliability_table


@dataclass(frozen=True)
class Evaluation:
    """Metrics over the labelled rows of a table.

    A row whose label the model never saw counts as wrong in ``accuracy`` and is left out of the
    other metrics; ``unseen_labels`` says how many there are.

    Attributes:
        rows: labelled rows.
        null_labels: rows left out because their label is null.
        unseen_labels: rows whose label is none of the model's classes.
        accuracy: share of rows predicted right.
        log_loss: mean −log P(true class | x) in nats; infinite where one true class got 0.
        brier: mean Σ_c (P(c | x) − [c true])², between 0 and 2.
        ece: expected calibration error of the most probable class, between 0 and 1.
        baseline_accuracy: of always predicting the class with the largest prior.
        baseline_log_loss: of answering every row with the prior.
        confusion: counts by true and predicted class: class, then one ``predicted_<class>`` each.
        per_class: class, support, predicted, precision, recall, f1 (null where undefined), ece.
        reliability: class (null: the most probable of each row), lower, upper, rows, probability
            (mean predicted), frequency (share that came true); see `reliability`.
        model_id: what was evaluated.
    """

    rows: int
    null_labels: int
    unseen_labels: int
    accuracy: float
    log_loss: float
    brier: float
    ece: float
    baseline_accuracy: float
    baseline_log_loss: float
    confusion: pa.Table
    per_class: pa.Table
    reliability: pa.Table
    model_id: str

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; an infinite or undefined number is null."""
        numbers = {
            key: value if not isinstance(value, float) or np.isfinite(value) else None
            for key, value in vars(self).items()
            if not isinstance(value, pa.Table)
        }
        tables = {
            key: value.to_pylist()
            for key, value in vars(self).items()
            if isinstance(value, pa.Table)
        }
        plain: dict[str, Any] = json.loads(json.dumps({**numbers, **tables}, allow_nan=False))
        return plain


class Evaluator:
    """Adds up losses batch by batch.

    Args:
        model: what is evaluated.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        size = len(model.classes)
        self.confusion = np.zeros((size, size), dtype=np.int64)
        self.null_labels = self.unseen_labels = 0
        self.losses = np.zeros(3)
        self.bins = np.zeros((1 + size, BINS, 3))

    def measure(self, batch: pa.RecordBatch) -> _Measured:
        """What one batch adds; safe to call from many threads."""
        labels = class_labels(batch, self.model.spec.label)
        kind = labels.dictionary.type
        if kind != self.model.classes.type and len(labels) > labels.null_count:
            raise DataError(
                f"label {self.model.spec.label!r} is {kind} here and was "
                f"{self.model.classes.type} in training; cast it."
            )
        truth = label_codes(labels, self.model.classes)
        known = np.flatnonzero(truth != MISSING)
        posterior = self.model.posterior(batch)
        size = len(self.model.classes)
        cells = truth[known] * size + posterior.decision[known]
        confusion = np.bincount(cells, minlength=size * size).reshape(size, size)
        probability = posterior.probability[known]
        surprise = -posterior.log_probability[known, truth[known]]
        error = probability.copy()
        error[np.arange(len(known)), truth[known]] -= 1.0
        losses = np.array(
            [surprise.sum(), (error**2).sum(), -self.model.log_prior[truth[known]].sum()]
        )
        unseen = batch.num_rows - labels.null_count - len(known)
        bins = bin_sums(probability, truth[known])
        return _Measured(confusion, losses, bins, labels.null_count, unseen)

    def add(self, part: _Measured) -> None:
        """Take in what `measure` gave."""
        self.confusion += part.confusion
        self.losses += part.losses
        self.bins += part.bins
        self.null_labels += part.null_labels
        self.unseen_labels += part.unseen_labels

    def result(self) -> Evaluation:
        """The metrics so far.

        Raises:
            DataError: no row had a label that the model knows.
        """
        known = int(self.confusion.sum())
        if not known:
            raise DataError(
                f"nothing to evaluate: of the rows, {self.null_labels} have a null label "
                f"{self.model.spec.label!r} and {self.unseen_labels} one that the model never saw."
            )
        rows = known + self.unseen_labels
        likeliest = int(np.argmax(self.model.log_prior))
        log_loss, brier, baseline = (float(loss) / known for loss in self.losses)
        ece, *class_errors = calibration_errors(self.bins)
        return Evaluation(
            rows=rows,
            null_labels=self.null_labels,
            unseen_labels=self.unseen_labels,
            accuracy=float(np.trace(self.confusion)) / rows,
            log_loss=log_loss,
            brier=brier,
            ece=float(ece),
            baseline_accuracy=float(self.confusion[likeliest].sum()) / rows,
            baseline_log_loss=baseline,
            confusion=self._confusion_table(),
            per_class=self._per_class_table(class_errors),
            reliability=reliability_table(self.bins, self.model.class_names),
            model_id=self.model.id,
        )

    def _confusion_table(self) -> pa.Table:
        names = [f"predicted_{name}" for name in self.model.class_names]
        columns = dict(zip(names, self.confusion.T, strict=True))
        return pa.table({"class": self.model.class_names, **columns})

    def _per_class_table(self, errors: Sequence[float]) -> pa.Table:
        right = np.diagonal(self.confusion)
        support, predicted = self.confusion.sum(axis=1), self.confusion.sum(axis=0)

        def ratio(part: IntArray, whole: IntArray) -> pa.Array:
            values = part / np.where(whole > 0, whole, 1)
            return pa.array(values, mask=whole == 0)

        return pa.table(
            {
                "class": self.model.class_names,
                "support": support,
                "predicted": predicted,
                "precision": ratio(right, predicted),
                "recall": ratio(right, support),
                "f1": ratio(2 * right, support + predicted),
                "ece": errors,
            }
        )


@dataclass(frozen=True)
class _Measured:
    confusion: np.ndarray
    losses: FloatArray
    bins: FloatArray
    null_labels: int
    unseen_labels: int
