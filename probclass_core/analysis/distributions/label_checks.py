"""Checks of an evaluation, once labels have come: against floors, and against the promotion.

A check is not passed if the difference is larger than its threshold and than `Watch.label_z`
standard errors, those of independent rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from probclass_core.analysis.distributions.verdicts import Verdict
from probclass_core.analysis.evaluation import Evaluation

if TYPE_CHECKING:
    from probclass_core.analysis.distributions.watch import Watch

LABEL_CHECKS: Mapping[str, str] = {
    "accuracy": "accuracy below that of the class with the largest prior",
    "log_loss": "log loss above that of the class prior, in nats",
    "min_accuracy": "least accuracy",
    "max_log_loss": "largest log loss, in nats",
    "accuracy_drop": "accuracy below that of the evaluation at the promotion",
    "log_loss_rise": "log loss above that of the evaluation at the promotion, in nats",
}
"""Checks of an evaluation, and what their thresholds mean."""


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
        log_loss_error: standard error of `log_loss`.
        log_loss_gain_error: standard error of `log_loss` less `baseline_log_loss`.
    """

    rows: int
    accuracy: float | None
    baseline_accuracy: float | None
    accuracy_error: float
    accuracy_gain_error: float
    log_loss: float
    baseline_log_loss: float
    log_loss_error: float
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
            log_loss_error=values["log_loss_error"] or 0.0,
            log_loss_gain_error=values["log_loss_gain_error"] or 0.0,
        )


def judge_scores(watch: Watch, own: Scores, promoted: Scores | None) -> Iterator[Verdict]:
    """The checks that an evaluation does not pass.

    Args:
        watch: thresholds.
        own: scores of the evaluation.
        promoted: scores of the same model when it was promoted, or None.
    """
    yield from _below_accuracy(watch, own)
    yield from _above_log_loss(watch, own)
    if promoted is not None:
        yield from _worse_than_promoted(watch, own, promoted)


def _below_accuracy(watch: Watch, own: Scores) -> Iterator[Verdict]:
    if own.accuracy is None:
        return
    found = f"The accuracy on {own.rows:,} labeled rows is {own.accuracy:.4f}"
    if watch.accuracy is not None and own.baseline_accuracy is not None:
        floor = own.baseline_accuracy - watch.accuracy
        if own.accuracy + watch.label_z * own.accuracy_gain_error < floor:
            yield Verdict(
                check="accuracy",
                value=own.accuracy,
                threshold=floor,
                reference="majority",
                sentence=f"{found}, less than that of the class with the largest prior, "
                f"{own.baseline_accuracy:.4f} (standard error of the difference "
                f"{own.accuracy_gain_error:.4f}).",
            )
    if (
        watch.min_accuracy is not None
        and own.accuracy + watch.label_z * own.accuracy_error < watch.min_accuracy
    ):
        yield Verdict(
            check="min_accuracy",
            value=own.accuracy,
            threshold=watch.min_accuracy,
            sentence=f"{found} (standard error {own.accuracy_error:.4f}), less than "
            f"{watch.min_accuracy:.4g}.",
        )


def _above_log_loss(watch: Watch, own: Scores) -> Iterator[Verdict]:
    found = f"The log loss on {own.rows:,} labeled rows is {own.log_loss:.4f}"
    if watch.log_loss is not None:
        limit = own.baseline_log_loss + watch.log_loss
        if own.log_loss - watch.label_z * own.log_loss_gain_error > limit:
            yield Verdict(
                check="log_loss",
                value=_finite(own.log_loss),
                threshold=_finite(limit),
                reference="prior",
                sentence=f"{found}, more than that of the class prior, "
                f"{own.baseline_log_loss:.4f} (standard error of the difference "
                f"{own.log_loss_gain_error:.4f}).",
            )
    if (
        watch.max_log_loss is not None
        and own.log_loss - watch.label_z * own.log_loss_error > watch.max_log_loss
    ):
        yield Verdict(
            check="max_log_loss",
            value=_finite(own.log_loss),
            threshold=watch.max_log_loss,
            sentence=f"{found} (standard error {own.log_loss_error:.4f}), more than "
            f"{watch.max_log_loss:.4g}.",
        )


def _worse_than_promoted(watch: Watch, own: Scores, before: Scores) -> Iterator[Verdict]:
    if watch.accuracy_drop is not None and own.accuracy is not None and before.accuracy is not None:
        error = math.hypot(own.accuracy_error, before.accuracy_error)
        if own.accuracy < before.accuracy - max(watch.accuracy_drop, watch.label_z * error):
            yield Verdict(
                check="accuracy_drop",
                value=own.accuracy,
                threshold=before.accuracy - watch.accuracy_drop,
                reference="promotion",
                sentence=f"The accuracy on {own.rows:,} labeled rows is {own.accuracy:.4f}, and "
                f"was {before.accuracy:.4f} on {before.rows:,} rows at the promotion; the limit is "
                f"{watch.accuracy_drop:.4g} less.",
            )
    if watch.log_loss_rise is not None:
        error = math.hypot(own.log_loss_error, before.log_loss_error)
        if own.log_loss > before.log_loss + max(watch.log_loss_rise, watch.label_z * error):
            yield Verdict(
                check="log_loss_rise",
                value=_finite(own.log_loss),
                threshold=_finite(before.log_loss + watch.log_loss_rise),
                reference="promotion",
                sentence=f"The log loss on {own.rows:,} labeled rows is {own.log_loss:.4f}, and "
                f"was {before.log_loss:.4f} on {before.rows:,} rows at the promotion; the limit is "
                f"{watch.log_loss_rise:.4g} more.",
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
