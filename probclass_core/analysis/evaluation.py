"""How well a model predicts labeled rows, compared with predicting from the prior alone.

Predicted probabilities are cut into bins of equal width; each bin compares its mean probability
with the share of its rows in which the prediction came true (DeGroot and Fienberg, "The comparison
and evaluation of forecasters", 1983). The expected calibration error is the mean difference of the
two, weighted by rows: Σ_b n_b/n |frequency_b − probability_b| (Guo, Pleiss, Sun and Weinberger, "On
calibration of modern neural networks", 2017).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from probclass_core.analysis.batches import RowMoments
from probclass_core.arrow.arrays import (
    MISSING,
    ONE_CLASS,
    BoolArray,
    FloatArray,
    IntArray,
    class_labels,
    label_codes,
)
from probclass_core.attached import EvaluationMethods
from probclass_core.display import Part, Report, TablePart, counted, json_values
from probclass_core.errors import DataError, MissingLabelsError, one_of
from probclass_core.estimation.kinds.summary import MAX_CLASSES
from probclass_core.model.decision import REJECTION_REASONS, DecisionOption, Decisions
from probclass_core.model.model import Model

METRICS = {
    "accuracy": "share predicted right",
    "log_loss": "nats per row, less is better",
    "brier": "0 to 2, less is better",
    "ece": "calibration error, 0 to 1, less is better",
    "cost": "mean of a decided row, less is better",
}
"""Metrics of an `Evaluation` that have one of the class prior, ``baseline_…``; what they are."""

_MAX_MATRIX = 12
"""Largest number of classes whose confusion matrix is shown."""

_COMPARED = ("log_loss", "brier", "accuracy", "cost")
"""Metrics by which the prior alone may predict better."""

_ROUNDING = 1e-9
"""Relative difference below which two metrics are equal."""

_BY_CLASS = ("class", "precision", "recall", "f1")

_BINS = 15
"""Number of bins. Each includes its upper edge and not its lower one; the first also includes 0."""

_EDGES = np.linspace(0.0, 1.0, _BINS + 1)


@dataclass(frozen=True, repr=False)
class Evaluation(Report, EvaluationMethods):
    """Metrics over the labeled rows of a table.

    A row whose class training never saw is left out of all metrics, the baselines too:
    ``unseen_labels`` counts these rows. A model cannot predict such a class, so its log loss would
    be infinite, however good the model is. ``accuracy``, ``cost``, their baselines and
    ``confusion`` cover the rows that the decision rule did not reject; ``log_loss``, ``brier``,
    ``ece`` and ``reliability`` evaluate the posterior and cover all rows.

    Attributes:
        rows: number of rows whose label is a class of the model.
        null_labels: number of rows left out because their label is null.
        unseen_labels: number of rows left out because their label is not a class of the model.
        decided: number of rows that the rule did not reject.
        rejected: number of rejected rows by reason.
        rejected_share: share of the rows that were rejected.
        accuracy: share of the decided rows predicted correctly; None if all were rejected.
        cost: mean cost of a decided row; None if the rule has no costs or rejected all rows.
        log_loss: mean −log P(true class | x) in nats; infinite if a true class got probability 0.
        brier: mean Σ_c (P(c | x) − [c true])², between 0 and 2.
        ece: expected calibration error of the most probable class, between 0 and 1.
        baseline_accuracy: accuracy of always predicting the class with the largest prior.
        baseline_cost: mean cost of always predicting the class that costs least under the prior.
        baseline_log_loss: log loss of predicting the prior for every row.
        baseline_brier: Brier score of predicting the prior.
        baseline_ece: calibration error of predicting the prior.
        log_loss_error: standard error of `log_loss`, if the rows are independent; None if the log
            loss is infinite or there are fewer than two rows.
        log_loss_gain_error: standard error of the difference of `log_loss` and
            `baseline_log_loss`, whose rows are the same; None as above.
        accuracy_gain_error: standard error of the difference of `accuracy` and `baseline_accuracy`,
            as in the test of McNemar: rows about which both are right or both are wrong do not
            count; None if all rows were rejected.
        log_density: mean log p(x) in nats, a proper score of densities of the same columns; −inf if
            a row has density 0, None if the model has no density.
        log_density_error: standard error of `log_density`; None as above.
        model_id: content id of the evaluated model.
        confusion: counts by true and predicted class: class, then one ``predicted_<class>`` each.
        per_class: class, support (its decided rows), predicted, precision, recall, f1 (null if
            undefined), ece.
        reliability: class (null for the most probable class of each row), lower, upper, rows,
            probability (mean predicted), frequency (share that came true).
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
    baseline_brier: float
    baseline_ece: float
    log_loss_error: float | None
    log_loss_gain_error: float | None
    accuracy_gain_error: float | None
    log_density: float | None
    log_density_error: float | None
    model_id: str
    confusion: pa.Table
    per_class: pa.Table
    reliability: pa.Table

    @property
    def worse_than_prior(self) -> tuple[str, ...]:
        """Those of log_loss, brier, accuracy and cost by which the prior alone predicts better."""
        return tuple(filter(self._is_worse, _COMPARED))

    def _is_worse(self, metric: str) -> bool:
        value, baseline = getattr(self, metric), getattr(self, f"baseline_{metric}")
        if value is None or baseline is None:
            return False
        sign = -1.0 if metric == "accuracy" else 1.0
        return bool(sign * value > sign * baseline + _ROUNDING * abs(baseline))

    @property
    def is_of_density(self) -> bool:
        """Whether the model has no label, so that only `log_density` says something of it."""
        return bool(self.confusion["class"].to_pylist() == [ONE_CLASS])

    @property
    def left_out(self) -> str | None:
        """How many rows are left out of all metrics, and why; None if there are none."""
        counts = {
            "without a label": self.null_labels,
            "of a class that training never saw": self.unseen_labels,
        }
        return ", ".join(f"{rows:,} {why}" for why, rows in counts.items() if rows) or None

    @property
    def warning(self) -> str | None:
        """A line if the prior alone predicts better by a metric; None otherwise."""
        if not self.worse_than_prior:
            return None
        figures = ", ".join(
            f"{name.replace('_', ' ')} {getattr(self, name):.4f} against "
            f"{getattr(self, f'baseline_{name}'):.4f}"
            for name in self.worse_than_prior
        )
        return f"the model predicts these rows worse than its class prior alone: {figures}"

    def _whole_report(self) -> list[Part]:
        """The report, the confusion matrix, and the metrics by class."""
        parts, names = self._report(), self.confusion["class"].to_pylist()
        if self.is_of_density:
            return parts
        if len(names) <= _MAX_MATRIX:
            matrix = self.confusion.rename_columns(["true class", *names]).to_pydict()
            title = "confusion: rows by true class, columns by predicted class"
            parts.append(TablePart(matrix, title))
        by_class = self.per_class.select([*_BY_CLASS, "support", "ece"]).to_pydict()
        return [*parts, TablePart(by_class, "by class", most=MAX_CLASSES)]

    def _report(self) -> list[Part]:
        """The rows, the warning, and the metrics with those of the prior alone."""
        if self.is_of_density:
            return [f"Evaluation on {counted(self.rows, 'row')}", self._density]
        lines = [] if self.warning is None else [f"{self.warning[:1].upper()}{self.warning[1:]}."]
        names = [name for name in METRICS if name != "cost" or self.cost is not None]
        rest = [
            *([f"left out: {self.left_out}"] if self.left_out else []),
            *(
                f"{rows:,} rejected for {reason.replace('_', ' ')}"
                for reason, rows in self.rejected.items()
                if rows
            ),
        ]
        return [
            "; ".join([f"Evaluation on {counted(self.rows, 'labeled row')}", *rest]),
            *lines,
            TablePart(
                {
                    "metric": [name.replace("_", " ") for name in names],
                    "model": [getattr(self, name) for name in names],
                    "prior alone": [getattr(self, f"baseline_{name}") for name in names],
                    "": [METRICS[name] for name in names],
                }
            ),
        ]

    @property
    def _density(self) -> str:
        """The mean log density as a line."""
        if self.log_density is None:
            return "log density: unknown"
        error = "" if self.log_density_error is None else f" ± {self.log_density_error:.4f}"
        return f"log density: {self.log_density:.4f}{error} nats per row, more is better"

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values, with the properties; an infinite or undefined number is null."""
        names = ("worse_than_prior", "is_of_density")
        return dict(json_values({**vars(self), **{name: getattr(self, name) for name in names}}))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Evaluation:
        """The inverse of `to_dict`.

        Raises:
            DataError: if a field is missing.
        """
        missing = [name for name in cls.__dataclass_fields__ if name not in values]
        if missing:
            raise DataError(f"the values are not a complete evaluation: {missing[0]!r} is missing.")
        fields = {name: values[name] for name in cls.__dataclass_fields__}
        for name in ("log_loss", "baseline_log_loss"):  # always defined, so null means infinite
            fields[name] = np.inf if fields[name] is None else fields[name]
        tables = {
            name: pa.Table.from_pylist(fields[name])
            for name in ("confusion", "per_class", "reliability")
        }
        labels = tables["reliability"]["class"].cast(pa.string())
        tables["reliability"] = tables["reliability"].set_column(0, "class", labels)
        return cls(**{**fields, **tables})


def true_classes(model: Model, batch: pa.RecordBatch) -> tuple[IntArray, BoolArray]:
    """The label of each row as a position in the model's classes.

    Returns:
        Positions, ``(n,)``, `MISSING` for a null or unseen label; and whether each row has a
        label, ``(n,)``.

    Raises:
        DataError: if the label's type differs from training, or cannot be a class.
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


@dataclass(frozen=True)
class EvaluationSums:
    """Sums over rows from which an `Evaluation` is computed; those of batches add up.

    Attributes:
        outcomes: rows by true class and by predicted class, then rejection reason,
            ``(k, k + reasons)``.
        scores: moments of the log loss, of its difference from that of the prior, of the Brier
            score, and of log p(x).
        bins: see `_bin_sums`, ``(1 + k, _BINS, 3)``.
        null_labels: number of rows without a label.
        unseen_labels: number of rows with a label that is not a class of the model.
    """

    outcomes: np.ndarray
    scores: RowMoments
    bins: FloatArray
    null_labels: int
    unseen_labels: int

    @property
    def rows(self) -> int:
        """Number of rows, those that are left out included."""
        return int(self.outcomes.sum()) + self.null_labels + self.unseen_labels

    def __add__(self, other: EvaluationSums) -> EvaluationSums:
        """The sums over the rows of both."""
        return EvaluationSums(
            **{name: own + getattr(other, name) for name, own in vars(self).items()}
        )


@dataclass(frozen=True)
class RowScores:
    """Scores of the ``n`` rows of a batch.

    Attributes:
        known: whether the row has a label that is a class of the model, ``(n,)``.
        decided: whether the decision rule did not reject it, ``(n,)``.
        scores: score of each row by metric, ``(n,)``, larger if it is better; of rows that are not
            known only that of accuracy, 0, is meant. Without cost if the rule has no costs, and
            without log_density if the model has no density.
    """

    known: BoolArray
    decided: BoolArray
    scores: Mapping[str, FloatArray]


class Evaluator:
    """Evaluates a model batch by batch.

    Args:
        model: model to evaluate.
        decision: decision rule; see `DecisionRule`.

    Raises:
        SpecError: if the rule does not fit the model.
    """

    def __init__(self, model: Model, decision: DecisionOption = "map") -> None:
        self.model = model
        self.compiled_rule = model.compile_rule(decision)

    @property
    def no_rows(self) -> EvaluationSums:
        """The sums over no rows."""
        size = len(self.model.classes)
        outcomes = np.zeros((size, size + len(REJECTION_REASONS)), dtype=np.int64)
        scores = RowMoments.of_rows(np.zeros((4, 0)))
        return EvaluationSums(outcomes, scores, np.zeros((1 + size, _BINS, 3)), 0, 0)

    def measure(self, batch: pa.RecordBatch) -> EvaluationSums:
        """The sums of one batch; safe to call from several threads."""
        return self.measure_rows(batch)[0]

    def measure_rows(self, batch: pa.RecordBatch) -> tuple[EvaluationSums, RowScores]:
        """The sums of one batch, and the scores row by row."""
        truth, labeled = true_classes(self.model, batch)
        posterior, decisions = self.model.decide(batch, self.compiled_rule)
        # Of rows without a known class, whose position is −1, scores mean nothing.
        known, rows = truth != MISSING, np.arange(len(truth))
        log_loss = -posterior.log_probability[rows, truth]
        error = posterior.probability.copy()
        error[rows, truth] -= 1.0
        brier = (error**2).sum(axis=1)
        with np.errstate(invalid="ignore"):  # a class with the prior 0: ∞ − ∞
            gain = log_loss + self.model.log_prior[truth]
        correct = (decisions.choice == truth) & known
        scores = {"log_loss": -log_loss, "brier": -brier, "accuracy": correct.astype(np.float64)}
        if (costs := self.compiled_rule.costs) is not None:
            scores["cost"] = -costs[truth, decisions.choice]
        if self.model.normalized:
            scores["log_density"] = posterior.log_density
        moments = np.stack([log_loss, gain, brier, posterior.log_density])
        kept = slice(None) if known.all() else known  # views are faster than copies
        sums = EvaluationSums(
            outcomes=self._outcomes(truth[kept], decisions, kept),
            scores=RowMoments.of_rows(moments[:, kept]),
            bins=_bin_sums(posterior.probability[kept], truth[kept]),
            null_labels=int(np.count_nonzero(~labeled)),
            unseen_labels=int(np.count_nonzero(labeled & ~known)),
        )
        return sums, RowScores(known, decisions.rejected == MISSING, scores)

    def _outcomes(
        self, truth: IntArray, decisions: Decisions, known: BoolArray | slice
    ) -> np.ndarray:
        size = len(self.model.classes)
        columns = size + len(REJECTION_REASONS)
        reason = decisions.rejected[known]
        outcome = np.where(reason == MISSING, decisions.choice[known], size + reason)
        cells = np.bincount(truth * columns + outcome, minlength=size * columns)
        return cells.reshape(size, columns)

    def result(self, sums: EvaluationSums) -> Evaluation:
        """The metrics of all rows.

        Raises:
            MissingLabelsError: if there were rows, but none had a label.
            DataError: if no row had a label that the model knows.
        """
        outcomes, size = sums.outcomes, len(self.model.classes)
        rows, unseen = int(outcomes.sum()), sums.unseen_labels
        if not rows and not unseen and sums.null_labels:
            raise MissingLabelsError(
                f"nothing to evaluate: none of {sums.null_labels:,} rows has a label "
                f"{self.model.spec.label!r} yet; evaluate when labels have arrived."
            )
        if not rows and not unseen:
            raise DataError("nothing to evaluate: there are no rows, or none that meets where.")
        if not rows:
            raise DataError(
                f"nothing to evaluate: {sums.null_labels} rows have a null label "
                f"{self.model.spec.label!r} and {unseen} have one that the model never saw; "
                f"it knows {one_of(self.model.class_names)}."
            )
        confusion = outcomes[:, :size]
        decided = int(confusion.sum())
        rejected = outcomes[:, size:].sum(axis=0).tolist()
        most_frequent = int(np.argmax(self.model.log_prior))
        cost, baseline_cost = self._costs(confusion)
        log_loss, _, brier, log_density = sums.scores.mean.tolist()
        baselines = _prior_metrics(self.model.log_prior, outcomes.sum(axis=1))
        log_loss_error, gain_error, _, density_error = sums.scores.standard_errors
        normalized = self.model.normalized
        ece, *class_errors = _calibration_errors(sums.bins)
        return Evaluation(
            rows=rows,
            null_labels=sums.null_labels,
            unseen_labels=unseen,
            decided=decided,
            rejected=dict(zip(REJECTION_REASONS, rejected, strict=True)),
            rejected_share=(rows - decided) / rows,
            accuracy=_mean(np.trace(confusion), decided),
            cost=cost,
            log_loss=log_loss,
            brier=brier,
            ece=float(ece),
            baseline_accuracy=_mean(confusion[most_frequent].sum(), decided),
            baseline_cost=baseline_cost,
            **baselines,
            log_loss_error=log_loss_error,
            log_loss_gain_error=gain_error,
            accuracy_gain_error=_gain_error(confusion, most_frequent),
            log_density=log_density if normalized else None,
            log_density_error=density_error if normalized else None,
            model_id=self.model.id,
            confusion=self._confusion_table(confusion),
            per_class=self._per_class_table(confusion, class_errors),
            reliability=_reliability_table(sums.bins, self.model.class_names),
        )

    def _costs(self, confusion: np.ndarray) -> tuple[float | None, float | None]:
        """Mean cost per row of the predictions, and of the cheapest class under the prior."""
        costs = self.compiled_rule.costs
        if costs is None:
            return None, None
        cheapest = int(np.argmin(np.exp(self.model.log_prior) @ costs))
        rows = confusion.sum()
        total, baseline = (confusion * costs).sum(), confusion.sum(axis=1) @ costs[:, cheapest]
        return _mean(total, rows), _mean(baseline, rows)

    def _confusion_table(self, confusion: np.ndarray) -> pa.Table:
        names = [f"predicted_{name}" for name in self.model.class_names]
        columns = dict(zip(names, confusion.T, strict=True))
        return pa.table({"class": self.model.class_names, **columns})

    def _per_class_table(self, confusion: np.ndarray, errors: Sequence[float]) -> pa.Table:
        correct = np.diagonal(confusion)
        support, predicted = confusion.sum(axis=1), confusion.sum(axis=0)

        def ratio(part: IntArray, total: IntArray) -> pa.Array:
            values = part / np.where(total > 0, total, 1)
            return pa.array(values, mask=total == 0)

        return pa.table(
            {
                "class": self.model.class_names,
                "support": support,
                "predicted": predicted,
                "precision": ratio(correct, predicted),
                "recall": ratio(correct, support),
                "f1": ratio(2 * correct, support + predicted),
                "ece": errors,
            }
        )


def _prior_metrics(log_prior: FloatArray, support: IntArray) -> dict[str, float]:
    """Metrics of predicting the prior for every row.

    Args:
        log_prior: log P(c), ``(k,)``.
        support: number of rows by true class, ``(k,)``.
    """
    share, prior = support / support.sum(), np.exp(log_prior)
    present, best = support > 0, int(np.argmax(log_prior))
    return {
        "baseline_log_loss": 0.0 - float(share[present] @ log_prior[present]),
        "baseline_brier": float(1.0 + (prior**2).sum() - 2.0 * share @ prior),
        "baseline_ece": float(abs(share[best] - prior[best])),
    }


def _gain_error(confusion: np.ndarray, constant: int) -> float | None:
    """Standard error of the accuracy less that of always predicting one class."""
    rows, correct = int(confusion.sum()), int(np.trace(confusion))
    if not rows:
        return None
    of_class = int(confusion[constant].sum())
    differing = correct + of_class - 2 * int(confusion[constant, constant])
    gain = (correct - of_class) / rows
    return math.sqrt(max(0.0, differing / rows - gain**2) / rows)


def _mean(total: float, rows: int) -> float | None:
    return float(total) / int(rows) if rows else None


def _bin_sums(probability: FloatArray, truth: IntArray) -> FloatArray:
    """Sums by bin: rows, Σ probability, Σ [came true].

    Args:
        probability: P(c | x), ``(n, k)``.
        truth: position of the true class of each row, ``(n,)``.

    Returns:
        ``(1 + k, _BINS, 3)``, to be added up over batches: first for the most probable class of
        each row, then for each class.
    """
    rows, classes = probability.shape
    best = probability.argmax(axis=1)
    sums = np.empty((1 + classes, _BINS, 3))
    sums[0] = _sums(probability[np.arange(rows), best], best == truth)
    for position in range(classes):
        sums[1 + position] = _sums(probability[:, position], truth == position)
    return sums


def _sums(probability: FloatArray, came_true: np.ndarray) -> FloatArray:
    # Rounding can bring a probability above 1.
    bins = np.clip(np.searchsorted(_EDGES, probability, side="left") - 1, 0, _BINS - 1)
    summands = (None, probability, came_true)
    return np.stack([np.bincount(bins, weights=each, minlength=_BINS) for each in summands], axis=1)


def _reliability_table(sums: FloatArray, class_names: Sequence[str]) -> pa.Table:
    """One row per bin that has rows.

    Returns:
        class (null for the most probable class of each row), lower, upper, rows, probability (mean
        predicted), frequency (share that came true).
    """
    position, number = np.nonzero(sums[:, :, 0])
    rows, probability, came_true = sums[position, number].T
    return pa.table(
        {
            "class": pa.array([None, *class_names], pa.string()).take(pa.array(position)),
            "lower": _EDGES[number],
            "upper": _EDGES[number + 1],
            "rows": rows.astype(np.int64),
            "probability": probability / rows,
            "frequency": came_true / rows,
        }
    )


def _calibration_errors(sums: FloatArray) -> FloatArray:
    """Expected calibration errors, ``(1 + k,)``: of the most probable class, then of each class."""
    gaps = np.abs(sums[:, :, 1] - sums[:, :, 2]).sum(axis=1)
    errors: FloatArray = gaps / sums[:, :, 0].sum(axis=1)
    return errors
