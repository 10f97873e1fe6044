"""Checks of an evaluation, once labels have come: against floors, and against the promotion.

A check is not passed if the difference is larger than its threshold and than `SURE` standard
errors, those of independent rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from probclass_core.analysis.distributions.verdicts import Verdict

LABEL_CHECKS = ("accuracy", "log_loss", "min_accuracy", "accuracy_drop")
"""Checks of an evaluation; see `Watch`."""

SURE = 2.0
"""Standard errors from which on a difference is more than chance: of 40 evaluations, which are few,
one is reported that is exactly as good as a floor."""


def judge_scores(
    thresholds: Mapping[str, Any], own: Mapping[str, Any], promoted: Mapping[str, Any] | None
) -> Iterator[Verdict]:
    """The checks that an evaluation does not pass.

    Args:
        thresholds: those of a `Watch`, by name.
        own: the evaluation, as `Evaluation.to_dict` has it.
        promoted: evaluation of the same model when it was promoted, likewise, or None.
    """
    if own["accuracy"] is not None:
        yield from _accuracy(thresholds, own, promoted)
    # An infinite log loss is None.
    loss, usual = (
        math.inf if own[name] is None else own[name] for name in ("log_loss", "baseline_log_loss")
    )
    error = own["log_loss_gain_error"] or 0.0
    if loss - SURE * error > usual:
        yield Verdict(
            check="log_loss",
            value=own["log_loss"],
            threshold=own["baseline_log_loss"],
            reference="prior",
            sentence=f"The log loss on {own['rows']:,} labeled rows is {loss:.4f}, more than that "
            f"of the class prior, {usual:.4f} (standard error of the difference {error:.4f}).",
        )


def _accuracy(
    thresholds: Mapping[str, Any], own: Mapping[str, Any], promoted: Mapping[str, Any] | None
) -> Iterator[Verdict]:
    accuracy, baseline, error = own["accuracy"], own["baseline_accuracy"], accuracy_error(own)
    gain_error = accuracy_gain_error(own)
    found = f"The accuracy on {own['rows']:,} labeled rows is {accuracy:.4f}"
    least, drop = thresholds["min_accuracy"], thresholds["accuracy_drop"]
    if baseline is not None and accuracy + SURE * gain_error < baseline:
        yield Verdict(
            check="accuracy",
            value=accuracy,
            threshold=baseline,
            reference="majority",
            sentence=f"{found}, less than that of the class with the largest prior, "
            f"{baseline:.4f} (standard error of the difference {gain_error:.4f}).",
        )
    if least is not None and accuracy + SURE * error < least:
        yield Verdict(
            check="min_accuracy",
            value=accuracy,
            threshold=least,
            sentence=f"{found} (standard error {error:.4f}), less than {least:.4g}.",
        )
    if drop is None or promoted is None or promoted["accuracy"] is None:
        return
    before = promoted["accuracy"]
    if accuracy < before - max(drop, SURE * math.hypot(error, accuracy_error(promoted))):
        yield Verdict(
            check="accuracy_drop",
            value=accuracy,
            threshold=before - drop,
            reference="promotion",
            sentence=f"{found}, and was {before:.4f} on {promoted['rows']:,} rows at the "
            f"promotion; the limit is {drop:.4g} less.",
        )


def accuracy_error(evaluation: Mapping[str, Any]) -> float:
    """Standard error of the accuracy of independent rows."""
    accuracy = evaluation["accuracy"]
    return math.sqrt(accuracy * (1.0 - accuracy) / evaluation["decided"])


def accuracy_gain_error(evaluation: Mapping[str, Any]) -> float:
    """Standard error of the accuracy less that of the class with the largest prior.

    It is that of paired differences, as in the test of McNemar: rows about which both are right or
    both are wrong do not count. A record without its tables gives the largest that it can be.
    """
    rows, baseline = evaluation["decided"], evaluation["baseline_accuracy"]
    if baseline is None:
        return 0.0
    differing = float(rows)
    confusion = [
        [count for name, count in row.items() if name != "class"]
        for row in evaluation.get("confusion") or ()
    ]
    correct = sum(row[number] for number, row in enumerate(confusion))
    for number, row in enumerate(confusion):
        if math.isclose(sum(row) / rows, baseline, abs_tol=1e-12):
            differing = sum(row) + correct - 2 * row[number]
    gain = evaluation["accuracy"] - baseline
    return math.sqrt(max(0.0, differing / rows - gain**2) / rows)
