"""How well a model does on labeled rows, beside what guessing would do."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from probclass_core.analysis.reliability import (
    BINS,
    bin_sums,
    calibration_errors,
    reliability_table,
)
from probclass_core.arrow.arrays import (
    MISSING,
    BoolArray,
    FloatArray,
    IntArray,
    class_labels,
    label_codes,
)
from probclass_core.errors import DataError, one_of
from probclass_core.model.decision import REASONS, Decided, Decision
from probclass_core.model.model import Model


@dataclass(frozen=True)
class Evaluation:
    """Metrics over the labeled rows of a table.

    A row whose label the model never saw counts as wrong in ``accuracy`` and is left out of the
    other metrics; ``unseen_labels`` says how many there are. ``accuracy``, ``cost``, their
    baselines and ``confusion`` are of the rows that the decision rule decided; ``log_loss``,
    ``brier``, ``ece`` and ``reliability`` judge the posterior, which every row has.

    Attributes:
        rows: labeled rows.
        null_labels: rows left out because their label is null.
        unseen_labels: rows whose label is none of the model's classes.
        decided: labeled rows that the rule decided: all but the rejected.
        rejected: labeled rows that it rejected, by reason.
        rejected_share: of the labeled rows.
        accuracy: share of the decided rows predicted right; none where all were rejected.
        cost: mean cost of a decided row; none where the rule has no costs, or rejected all.
        log_loss: mean −log P(true class | x) in nats; infinite where one true class got 0.
        brier: mean Σ_c (P(c | x) − [c true])², between 0 and 2.
        ece: expected calibration error of the most probable class, between 0 and 1.
        baseline_accuracy: of always predicting the class with the largest prior.
        baseline_cost: of always deciding what costs least under the prior.
        baseline_log_loss: of answering every row with the prior.
        confusion: counts by true and predicted class: class, then one ``predicted_<class>`` each.
        per_class: class, support (its decided rows), predicted, precision, recall, f1 (null where
            undefined), ece.
        reliability: class (null: the most probable of each row), lower, upper, rows, probability
            (mean predicted), frequency (share that came true); see `reliability`.
        model_id: what was evaluated.
    """

    rows: int
    null_labels: int
    unseen_labels: int
    decided: int
    rejected: Mapping[str, int]
    rejected_share: float
    accuracy: float | None
    cost: float | None
    log_loss: float
    brier: float
    ece: float
    baseline_accuracy: float | None
    baseline_cost: float | None
    baseline_log_loss: float
    confusion: pa.Table = field(repr=False)
    per_class: pa.Table = field(repr=False)
    reliability: pa.Table = field(repr=False)
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

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Evaluation:
        """The inverse of `to_dict`.

        Raises:
            DataError: the values are no evaluation, or lack its tables.
        """
        missing = [name for name in cls.__dataclass_fields__ if name not in values]
        if missing:
            raise DataError(f"the values are no whole evaluation: there is no {missing[0]!r}.")
        known = {name: values[name] for name in cls.__dataclass_fields__}
        for name in ("log_loss", "baseline_log_loss"):  # always defined, so null is infinite
            known[name] = np.inf if known[name] is None else known[name]
        labels = pa.array([row["class"] for row in known["reliability"]], pa.string())
        tables = {
            "confusion": pa.Table.from_pylist(known["confusion"]),
            "per_class": pa.Table.from_pylist(known["per_class"]),
            "reliability": pa.Table.from_pylist(known["reliability"]).set_column(
                0, "class", labels
            ),
        }
        return cls(**{**known, **tables})


def true_classes(model: Model, batch: pa.RecordBatch) -> tuple[IntArray, BoolArray]:
    """The label of each row as a position among the model's classes.

    Returns:
        ``(n,)`` positions, `MISSING` for a null and for a label never seen; and ``(n,)``, whether
        the row has a label at all.

    Raises:
        DataError: the label's type is another than in training, or none that holds classes.
    """
    labels = class_labels(batch, model.spec.label)
    kind = labels.dictionary.type
    if kind != model.classes.type and len(labels) > labels.null_count:
        raise DataError(
            f"label {model.spec.label!r} is {kind} here and was {model.classes.type} in training; "
            "cast it."
        )
    truth = label_codes(labels, model.classes)
    return truth, labels.is_valid().to_numpy(zero_copy_only=False)


class Evaluator:
    """Adds up losses batch by batch.

    Args:
        model: what is evaluated.
        decision: how it decides; see `DecisionRule`.

    Raises:
        SpecError: the rule does not fit the model.
    """

    def __init__(self, model: Model, decision: Decision = "map") -> None:
        self.model = model
        self.decider = model.decider(decision)
        size = len(model.classes)
        self.outcomes = np.zeros((size + 1, size + len(REASONS)), dtype=np.int64)
        self.null_labels = 0
        self.losses = np.zeros(3)
        self.bins = np.zeros((1 + size, BINS, 3))

    def measure(self, batch: pa.RecordBatch) -> Measured:
        """What one batch adds; safe to call from many threads."""
        truth, labeled = true_classes(self.model, batch)
        posterior, decided = self.model.decide(batch, self.decider)
        known = np.flatnonzero(truth != MISSING)
        probability = posterior.probability[known]
        surprise = -posterior.log_probability[known, truth[known]]
        error = probability.copy()
        error[np.arange(len(known)), truth[known]] -= 1.0
        losses = np.array(
            [surprise.sum(), (error**2).sum(), -self.model.log_prior[truth[known]].sum()]
        )
        return Measured(
            outcomes=self._outcomes(truth[labeled], decided, labeled),
            losses=losses,
            bins=bin_sums(probability, truth[known]),
            null_labels=int(np.count_nonzero(~labeled)),
        )

    def _outcomes(self, truth: IntArray, decided: Decided, labeled: BoolArray) -> np.ndarray:
        """Rows by true class, the last for a label never seen, and by prediction or reason."""
        rows, columns = self.outcomes.shape
        reason = decided.rejected[labeled]
        outcome = np.where(reason == MISSING, decided.choice[labeled], rows - 1 + reason)
        cells = np.where(truth == MISSING, rows - 1, truth) * columns + outcome
        return np.bincount(cells, minlength=rows * columns).reshape(rows, columns)

    def add(self, part: Measured) -> None:
        """Take in what `measure` gave."""
        self.outcomes += part.outcomes
        self.losses += part.losses
        self.bins += part.bins
        self.null_labels += part.null_labels

    def result(self) -> Evaluation:
        """The metrics so far.

        Raises:
            DataError: no row had a label that the model knows.
        """
        size = len(self.model.classes)
        rows, unseen = int(self.outcomes.sum()), int(self.outcomes[size].sum())
        if rows == unseen:
            known = one_of(self.model.class_names)
            raise DataError(
                f"nothing to evaluate: of the rows, {self.null_labels} have a null label "
                f"{self.model.spec.label!r} and {unseen} one that the model never saw; "
                f"it knows {known}."
            )
        confusion = self.outcomes[:size, :size]
        decided = int(self.outcomes[:, :size].sum())
        rejected = self.outcomes[:, size:].sum(axis=0).tolist()
        likeliest = int(np.argmax(self.model.log_prior))
        cost, baseline_cost = self._costs(confusion)
        log_loss, brier, baseline = (float(loss) / (rows - unseen) for loss in self.losses)
        ece, *class_errors = calibration_errors(self.bins)
        return Evaluation(
            rows=rows,
            null_labels=self.null_labels,
            unseen_labels=unseen,
            decided=decided,
            rejected=dict(zip(REASONS, rejected, strict=True)),
            rejected_share=(rows - decided) / rows,
            accuracy=_mean(np.trace(confusion), decided),
            cost=cost,
            log_loss=log_loss,
            brier=brier,
            ece=float(ece),
            baseline_accuracy=_mean(confusion[likeliest].sum(), decided),
            baseline_cost=baseline_cost,
            baseline_log_loss=baseline,
            confusion=self._confusion_table(confusion),
            per_class=self._per_class_table(confusion, class_errors),
            reliability=reliability_table(self.bins, self.model.class_names),
            model_id=self.model.id,
        )

    def _costs(self, confusion: np.ndarray) -> tuple[float | None, float | None]:
        """Mean cost of a row: of the decisions, and of the one that costs least under the prior."""
        costs = self.decider.costs
        if costs is None:
            return None, None
        cheapest = int(np.argmin(np.exp(self.model.log_prior) @ costs))
        rows = confusion.sum()
        paid, baseline = (confusion * costs).sum(), confusion.sum(axis=1) @ costs[:, cheapest]
        return _mean(paid, rows), _mean(baseline, rows)

    def _confusion_table(self, confusion: np.ndarray) -> pa.Table:
        names = [f"predicted_{name}" for name in self.model.class_names]
        columns = dict(zip(names, confusion.T, strict=True))
        return pa.table({"class": self.model.class_names, **columns})

    def _per_class_table(self, confusion: np.ndarray, errors: Sequence[float]) -> pa.Table:
        right = np.diagonal(confusion)
        support, predicted = confusion.sum(axis=1), confusion.sum(axis=0)

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
class Measured:
    """What a batch adds to an evaluation; see `Evaluator`."""

    outcomes: np.ndarray
    losses: FloatArray
    bins: FloatArray
    null_labels: int

    @property
    def rows(self) -> int:
        """Of the batch."""
        return int(self.outcomes.sum()) + self.null_labels


def _mean(total: float, rows: int) -> float | None:
    return float(total) / int(rows) if rows else None
