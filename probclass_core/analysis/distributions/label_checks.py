"""Checks of an evaluation, once labels have come: against floors, and against the promotion.

A check is not passed if the difference is larger than its threshold and than `SURE` standard
errors, those of independent rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from probclass_core.analysis.distributions.verdicts import Verdict
from probclass_core.analysis.evaluation import Evaluation

LABEL_CHECKS: Mapping[str, str] = {
    "accuracy": "accuracy below that of the class with the largest prior",
    "log_loss": "log loss above that of the class prior, in nats",
    "min_accuracy": "least accuracy",
    "accuracy_drop": "accuracy below that of the evaluation at the promotion",
}
"""Checks of an evaluation, and what they compare."""

SURE = 2.0
"""Standard errors from which on a difference is more than chance: of 40 evaluations, which are few,
one is reported that is exactly as good as a floor."""


@dataclass(frozen=True)
class Scores:
    """The scores of an evaluation and their standard errors, if the rows are independent.

    Attributes:
        rows: number of labeled rows.
        accuracy: share of the decided rows that are right; None if no row is decided.
        baseline_accuracy: that of the class with the largest prior.
        accuracy_error: standard error of `accuracy`.
        accuracy_gain_error: standard error of `accuracy` less `baseline_accuracy`.
        log_loss: in nats; may be infinite.
        baseline_log_loss: that of the class prior.
        log_loss_gain_error: standard error of `log_loss` less `baseline_log_loss`.
    """

    rows: int
    accuracy: float | None
    baseline_accuracy: float | None
    accuracy_error: float
    accuracy_gain_error: float
    log_loss: float
    baseline_log_loss: float
    log_loss_gain_error: float

    @classmethod
    def of(cls, evaluation: Evaluation | Mapping[str, Any]) -> Scores:
        """The scores of an evaluation, or of its `Evaluation.to_dict`."""
        values = evaluation if isinstance(evaluation, Mapping) else evaluation.to_dict()
        accuracy, decided = values["accuracy"], values["decided"]
        error = 0.0 if accuracy is None else math.sqrt(accuracy * (1 - accuracy) / decided)
        return cls(
            rows=values["rows"],
            accuracy=accuracy,
            baseline_accuracy=values["baseline_accuracy"],
            accuracy_error=error,
            accuracy_gain_error=_gain_error(values),
            log_loss=_infinite(values["log_loss"]),
            baseline_log_loss=_infinite(values["baseline_log_loss"]),
            log_loss_gain_error=values["log_loss_gain_error"] or 0.0,
        )


def judge_scores(
    thresholds: Mapping[str, Any], own: Scores, promoted: Scores | None
) -> Iterator[Verdict]:
    """The checks that an evaluation does not pass.

    Args:
        thresholds: those of a `Watch`, by name.
        own: scores of the evaluation.
        promoted: scores of the same model when it was promoted, or None.
    """
    if own.accuracy is not None:
        yield from _accuracy(thresholds, own, own.accuracy, promoted)
    if own.log_loss - SURE * own.log_loss_gain_error > own.baseline_log_loss:
        yield Verdict(
            check="log_loss",
            value=_finite(own.log_loss),
            threshold=_finite(own.baseline_log_loss),
            reference="prior",
            sentence=f"The log loss on {own.rows:,} labeled rows is {own.log_loss:.4f}, more than "
            f"that of the class prior, {own.baseline_log_loss:.4f} (standard error of the "
            f"difference {own.log_loss_gain_error:.4f}).",
        )


def _accuracy(
    thresholds: Mapping[str, Any], own: Scores, accuracy: float, promoted: Scores | None
) -> Iterator[Verdict]:
    found = f"The accuracy on {own.rows:,} labeled rows is {accuracy:.4f}"
    baseline = own.baseline_accuracy
    least, drop = thresholds["min_accuracy"], thresholds["accuracy_drop"]
    if baseline is not None and accuracy + SURE * own.accuracy_gain_error < baseline:
        yield Verdict(
            check="accuracy",
            value=accuracy,
            threshold=baseline,
            reference="majority",
            sentence=f"{found}, less than that of the class with the largest prior, "
            f"{baseline:.4f} (standard error of the difference {own.accuracy_gain_error:.4f}).",
        )
    if least is not None and accuracy + SURE * own.accuracy_error < least:
        yield Verdict(
            check="min_accuracy",
            value=accuracy,
            threshold=least,
            sentence=f"{found} (standard error {own.accuracy_error:.4f}), less than {least:.4g}.",
        )
    if drop is None or promoted is None or promoted.accuracy is None:
        return
    error = math.hypot(own.accuracy_error, promoted.accuracy_error)
    if accuracy < promoted.accuracy - max(drop, SURE * error):
        yield Verdict(
            check="accuracy_drop",
            value=accuracy,
            threshold=promoted.accuracy - drop,
            reference="promotion",
            sentence=f"{found}, and was {promoted.accuracy:.4f} on {promoted.rows:,} rows at the "
            f"promotion; the limit is {drop:.4g} less.",
        )


def _gain_error(values: Mapping[str, Any]) -> float:
    """Standard error of the accuracy less that of the class with the largest prior.

    It is that of paired differences, as in the test of McNemar: rows about which both are right or
    both are wrong do not count. A record without its tables gives the largest that it can be.
    """
    rows, baseline = values["decided"], values["baseline_accuracy"]
    if baseline is None:
        return 0.0
    gain = values["accuracy"] - baseline
    differing = float(rows)
    confusion = [
        [count for name, count in row.items() if name != "class"]
        for row in values.get("confusion") or ()
    ]
    correct = sum(row[number] for number, row in enumerate(confusion))
    for number, row in enumerate(confusion):
        if math.isclose(sum(row) / rows, baseline, abs_tol=1e-12):
            differing = sum(row) + correct - 2 * row[number]
    return math.sqrt(max(0.0, differing / rows - gain**2) / rows)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _infinite(value: float | None) -> float:
    return math.inf if value is None else float(value)
