"""The champion gate: whether a challenger is better than the version that an alias names."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from probclass_core.errors import DataError, SpecError, nearest, one_of

LESS_IS_BETTER = {"log_loss": True, "brier": True, "ece": True, "cost": True, "accuracy": False}
"""The metrics of an evaluation that can be compared."""


@dataclass(frozen=True)
class Gate:
    """A metric and the least improvement that it must show.

    Attributes:
        metric: ``"log_loss"``, ``"brier"``, ``"ece"`` or ``"cost"``, of which less is better, or
            ``"accuracy"``.
        margin: least improvement, in the unit of the metric; at 0, any improvement is enough.

    Raises:
        SpecError: if the metric is unknown, or the margin is not a finite number of at least 0.
    """

    metric: str = "log_loss"
    margin: float = 0.0

    def __post_init__(self) -> None:
        if self.metric not in LESS_IS_BETTER:
            raise SpecError(
                f"metric {self.metric!r} is unknown; use one of {one_of(LESS_IS_BETTER)}."
                + nearest(self.metric, LESS_IS_BETTER)
            )
        try:
            margin = float(self.margin)
        except (TypeError, ValueError):
            margin = math.nan
        if not 0 <= margin < math.inf:
            raise SpecError(f"margin must be a finite number of at least 0, got {self.margin!r}.")
        object.__setattr__(self, "margin", margin)

    def measure(self, evaluation: Mapping[str, Any]) -> Measurement:
        """The numbers of an evaluation that the comparison needs.

        Args:
            evaluation: `Evaluation.to_dict`, with or without its tables.

        Raises:
            SpecError: if the metric is the cost and the evaluation has none.
        """
        value: float | None = evaluation[self.metric]
        if value is None and self.metric == "log_loss":
            value = math.inf  # which JSON cannot express
        if value is None and self.metric == "cost" and evaluation["decided"]:
            raise SpecError(
                "metric 'cost' needs a decision with costs; pass decision={'costs': …}, or --costs."
            )
        return Measurement(value, int(evaluation["rows"]), int(evaluation["unseen_labels"]))

    def compare(self, challenger: Measurement, champion: Measurement) -> tuple[bool, str]:
        """Whether the challenger is better by the margin, and why, in one line.

        Raises:
            DataError: if they were measured on different numbers of rows.
        """
        if challenger.rows != champion.rows:
            raise DataError(
                f"the challenger was evaluated on {challenger.rows:,} rows and the champion on "
                f"{champion.rows:,}; evaluate both on the same rows, unchanged in between."
            )
        new, old = challenger.value, champion.value
        if self.metric != "accuracy" and challenger.unseen != champion.unseen:
            # The metric leaves such rows out, which would favor the model with fewer classes.
            reason = (
                f"{challenger.unseen:,} rows have a class that it was not trained on, against "
                f"{champion.unseen:,}"
            )
            return self.metric == "log_loss" and challenger.unseen < champion.unseen, reason
        compared = f"{self.metric} {_text(new)} against {_text(old)} on {challenger.rows:,} rows"
        if new is None or (old is not None and new == old):
            return False, f"{compared} is not better"
        if old is None:
            return True, compared
        gain = old - new if LESS_IS_BETTER[self.metric] else new - old
        if gain <= 0:
            return False, f"{compared} is not better"
        if gain < self.margin:
            margin = f"less than the margin {self.margin:g}"
            return False, f"{compared} is better by {gain:.6g}, {margin}"
        return True, f"{compared} is better by {gain:.6g}"


@dataclass(frozen=True)
class Measurement:
    """The numbers of an evaluation that a gate compares.

    Attributes:
        value: the metric; infinite for a log loss without bound, None if undefined.
        rows: number of labeled rows.
        unseen: number of rows whose class the model was not trained on.
    """

    value: float | None
    rows: int
    unseen: int

    @property
    def finite(self) -> float | None:
        """The value, or None if it is infinite, which JSON cannot express."""
        return None if self.value is None or math.isinf(self.value) else self.value


def _text(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.6g}"
