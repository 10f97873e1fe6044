"""The champion gate: whether a challenger may take over an alias."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from probclass_core.arguments import check_argument, checked_number
from probclass_core.display import ShortRepr
from probclass_core.errors import DataError, SpecError, check_known

LESS_IS_BETTER = {
    **dict.fromkeys(("log_loss", "brier", "ece", "cost"), True),
    **dict.fromkeys(("accuracy", "log_density"), False),
}
"""The metrics of an evaluation that can be compared."""

_DEFAULT_MIN_Z = 1.0
_NOISE = 1e-9
"""Relative difference below which a metric is as good as its floor."""

TrainedOn = Literal["no", "yes", "unknown"]
"""Whether a model was trained on some of the rows that it is judged on."""


@dataclass(frozen=True, repr=False)
class Gate(ShortRepr):
    """The conditions under which a challenger takes over an alias from the champion.

    Attributes:
        metric: ``"log_loss"``, ``"brier"``, ``"ece"`` or ``"cost"``, of which less is better, or
            ``"accuracy"`` or ``"log_density"``. Without a label, only the last differs between
            models; it compares densities of the same columns.
        margin: least improvement, in the unit of the metric.
        min_z: least improvement in its standard errors; 1 by default. The calibration error,
            ``"ece"``, has no standard error: its default is 0.
        floor: what the challenger must reach whether or not there is a champion. ``"prior"``: log
            loss and metric at least as good as those of the class prior on the same rows. None:
            nothing.
        min_windows_better: least share of the windows in which the challenger must be better, if
            the rows are divided into windows.
        allow_training_rows: whether the challenger may be judged on rows that it was trained on.

    Raises:
        SpecError: if a metric is unknown, or a number is not finite or negative.
    """

    metric: str = "log_loss"
    margin: float = 0.0
    min_z: float | None = None
    floor: Literal["prior"] | None = "prior"
    min_windows_better: float = 0.5
    allow_training_rows: bool = False

    def __post_init__(self) -> None:
        check_known([self.metric], LESS_IS_BETTER, "unknown metric", "use one of")
        check_argument("floor", self.floor, Literal["prior"] | None)
        if self.min_z is None:
            object.__setattr__(self, "min_z", 0.0 if self.metric == "ece" else _DEFAULT_MIN_Z)
        for name, most in (("margin", math.inf), ("min_z", math.inf), ("min_windows_better", 1.0)):
            number = checked_number(name, getattr(self, name), most=most)
            object.__setattr__(self, name, number)
        if self.metric == "ece" and self.min_z:
            raise SpecError(
                "metric 'ece' is not a mean over rows and has no standard error; leave min_z out, "
                "and set a margin instead."
            )

    def describe(self) -> dict[str, Any]:
        """The conditions as plain JSON values, for the ledger."""
        names = ("metric", "margin", "min_z", "min_windows_better", "allow_training_rows")
        return {name: getattr(self, name) for name in names}

    def decide(self, judged: Mapping[str, Any], champion: str) -> Decision:
        """Whether the challenger takes over, why, and the numbers behind it.

        Args:
            judged: `PairedEvaluation.to_dict`, with or without tables, and ``trained_on``: whether
                challenger and champion were trained on the rows; see `TrainedOn`.
            champion: what the champion is called, for reasons.

        Raises:
            SpecError: if a metric is the cost and the decision rule has no costs.
        """
        trained_on = dict(judged.get("trained_on") or {})
        if trained_on.get("challenger") == "yes" and not self.allow_training_rows:
            reason = "it was trained on rows that it is judged on; judge it on others"
            return Decision(False, reason, {"trained_on": trained_on})
        own, other = judged["challenger"], judged.get("champion")
        if self.metric == "cost" and own["cost"] is None and own["decided"]:
            raise SpecError(
                "metric 'cost' needs a decision with costs; pass decision={'costs': …}, or --costs."
            )
        numbers: dict[str, Any] = {
            "rows": own["rows"],
            "challenger_value": own[self.metric],
            "champion_value": None if other is None else other[self.metric],
            "floors": {
                metric: {"value": own[metric], "floor": own.get(f"baseline_{metric}")}
                for metric in (dict.fromkeys(("log_loss", self.metric)) if self.floor else ())
            },
            "trained_on": trained_on,
        }
        if (below := self._below_floor(numbers)) is not None:
            return Decision(False, below, numbers)
        if other is None:
            return Decision(True, f"there is no {champion} yet", numbers)
        gain = judged["gains"].get(self.metric) or {}
        numbers |= {"gain": gain.get("gain"), "standard_error": gain.get("standard_error")}
        z = _z(numbers["gain"], numbers["standard_error"])
        windows = [
            {
                "window": window["window"],
                "rows": window["rows"],
                "challenger_value": window["challenger"][self.metric],
                "champion_value": window["champion"][self.metric],
                **window["gains"][self.metric],
            }
            for window in judged.get("windows") or ()
        ]
        numbers["z"] = None if z is None or math.isinf(z) else z
        numbers["windows"] = windows
        numbers["windows_better"] = sum((window["gain"] or 0.0) > 0.0 for window in windows)
        accepted, reason = self._compare(own, other, numbers, z)
        return Decision(accepted, reason, numbers)

    def _below_floor(self, numbers: Mapping[str, Any]) -> str | None:
        """Why the challenger does not reach a floor, or None if it does."""
        for metric, found in numbers["floors"].items():
            value, floor = found["value"], found["floor"]
            sign = 1.0 if LESS_IS_BETTER[metric] else -1.0
            if floor is None:  # undefined, or an infinite log loss of the prior
                continue
            if value is None or sign * value > sign * floor + _NOISE * abs(floor):
                return (
                    f"{metric} {_text(metric, value)} on {numbers['rows']:,} rows is worse than "
                    f"that of the class prior, {floor:.6g}"
                )
        return None

    def _compare(
        self,
        own: Mapping[str, Any],
        other: Mapping[str, Any],
        numbers: Mapping[str, Any],
        z: float | None,
    ) -> tuple[bool, str]:
        """Whether the challenger is better than the champion, and why."""
        rows, windows = own["rows"], numbers["windows"]
        labeled, expected = (each["rows"] + each["unseen_labels"] for each in (own, other))
        if labeled != expected:
            raise DataError(
                f"the challenger was evaluated on {labeled:,} rows and the champion on "
                f"{expected:,}; evaluate both on the same rows, unchanged in between."
            )
        if self.metric != "accuracy" and own["unseen_labels"] != other["unseen_labels"]:
            # The gain leaves such rows out, which would favor the model with fewer classes.
            reason = (
                f"{own['unseen_labels']:,} rows have a class that it was not trained on, against "
                f"{other['unseen_labels']:,}"
            )
            fewer = own["unseen_labels"] < other["unseen_labels"]
            return self.metric == "log_loss" and fewer, reason
        new, old = own[self.metric], other[self.metric]
        of_challenger = f" on {rows:,} rows" if rows != other["rows"] else ""
        compared = (
            f"{self.metric} {_text(self.metric, new)}{of_challenger} against "
            f"{_text(self.metric, old)} on {other['rows']:,} rows"
        )
        if of_challenger:
            compared += ", with the other rows, of classes that training never saw, as wrong,"
        if old is None and new is not None:  # infinite, or all rows rejected
            return True, compared
        gain = numbers["gain"]
        if gain is None or gain <= 0.0:
            return False, f"{compared} is not better"
        error = numbers["standard_error"]
        compared += f" is better by {gain:.3g}" + ("" if error is None else f" ± {error:.2g}")
        if gain < self.margin:
            return False, f"{compared}, less than the margin {self.margin:g}"
        assert self.min_z is not None
        if self.min_z and z is None:
            return False, f"{compared}, and its standard error is unknown (min_z {self.min_z:g})"
        if self.min_z and z is not None and z < self.min_z:
            return False, f"{compared}, {z:.2g} standard errors and not {self.min_z:g}"
        if windows:
            better = numbers["windows_better"]
            compared += f", in {better} of {len(windows)} windows"
            if better < self.min_windows_better * len(windows):
                return False, f"{compared}, less than a share of {self.min_windows_better:g}"
        return True, compared


@dataclass(frozen=True)
class Decision:
    """What a gate decided.

    Attributes:
        accepted: whether the challenger takes over.
        reason: why, in one line.
        numbers: the numbers behind it, as plain JSON values; see `Promotion.metrics`.
    """

    accepted: bool
    reason: str
    numbers: Mapping[str, Any] = field(default_factory=dict)


def _z(gain: float | None, error: float | None) -> float | None:
    if gain is None or error is None:
        return None
    return gain / error if error else math.copysign(math.inf, gain)


def _text(metric: str, value: float | None) -> str:
    if value is None:  # JSON cannot express an infinite log loss
        return {"log_loss": "inf", "log_density": "-inf"}.get(metric, "undefined")
    return f"{value:.6g}"
