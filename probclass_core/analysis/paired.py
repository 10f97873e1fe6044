"""Two models on the same rows in one pass: by how much one predicts better, and how sure that is.

Both models meet the same easy and hard rows, so their losses move together, and the differences row
by row vary far less than the losses. The gain in a metric is the mean of these differences; its
standard error is that of a mean of paired differences. Rows that follow each other in time are
alike, which makes this error too small. Where the rows come from several windows, such as months,
the error is also computed from the sums of the windows (Liang and Zeger, "Longitudinal data
analysis using generalized linear models", Biometrika 73, 1986), and the larger one is reported.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from probclass_core.analysis.batches import RowMoments, sum_over_batches
from probclass_core.analysis.evaluation import (
    METRICS,
    Evaluation,
    EvaluationSums,
    Evaluator,
    RowScores,
)
from probclass_core.arrow.arrays import FloatArray
from probclass_core.display import Part, Report, TablePart, json_values
from probclass_core.errors import naming
from probclass_core.execution.engine import Engine
from probclass_core.execution.progress import RowCounter
from probclass_core.io.filters import partition_text
from probclass_core.io.table import Plan
from probclass_core.model.decision import DecisionOption
from probclass_core.model.model import Model

_METRICS = (*METRICS, "log_density")


@dataclass(frozen=True)
class Gain:
    """By how much a challenger is better than a champion on the same rows.

    Attributes:
        value: improvement of the metric in its unit, positive if the challenger is better; infinite
            if only one log loss is infinite, None if a metric is undefined.
        standard_error: standard error of the value; None if it is unknown: of the calibration
            error, which is not a mean over rows, of an infinite gain, and of fewer than two rows.
    """

    value: float | None
    standard_error: float | None

    @property
    def z(self) -> float | None:
        """The value in standard errors; infinite if the error is 0, None if it is unknown."""
        if self.value is None or self.standard_error is None:
            return None
        if self.standard_error == 0.0:
            return math.copysign(math.inf, self.value) if self.value else 0.0
        return self.value / self.standard_error


@dataclass(frozen=True, repr=False)
class PairedEvaluation(Report):
    """Evaluations of a challenger and of a champion on the same rows.

    Attributes:
        challenger: evaluation of the challenger.
        champion: evaluation of the champion, or None if there is no champion.
        gains: `Gain` by metric: log_loss, brier, accuracy, ece, cost if the decision rule has
            costs, and log_density if both models have one; empty without a champion. Rows of a
            class that only one of the two was trained on are wrong for the other in that of
            accuracy, and left out of the others, which would be infinite or undefined; rows of a
            class that neither was trained on are left out of all.
        window: values of partition columns that all rows have, or None for all rows.
        windows: the same for each window, in order; empty if the rows were not divided.
    """

    challenger: Evaluation
    champion: Evaluation | None
    gains: Mapping[str, Gain] = field(default_factory=dict)
    window: Mapping[str, Any] | None = None
    windows: tuple[PairedEvaluation, ...] = ()

    def _report(self) -> list[Part]:
        """The metrics of both with the gains, and the log losses in each window."""
        challenger, champion = self.challenger, self.champion
        if champion is None:
            return list(challenger._report())
        of_density = challenger.is_of_density
        main = "log_density" if of_density else "log_loss"
        shown = [metric for metric in _METRICS if metric in self.gains]
        metrics = ["log_density"] if of_density else shown
        title = (
            f"Challenger {challenger.model_id[:12]} against champion {champion.model_id[:12]} on "
            f"the same {challenger.rows:,} {'' if of_density else 'labeled '}rows; a gain above 0 "
            "is for the challenger"
        )
        names: dict[str, list[Any]] = {"": [metric.replace("_", " ") for metric in metrics]}
        parts: list[Part] = [title, TablePart(names | _columns([(self, one) for one in metrics]))]
        if self.windows:
            windows: dict[str, list[Any]] = {
                "window": [partition_text(each.window or {}) for each in self.windows],
                "rows": [each.challenger.rows for each in self.windows],
                **_columns([(each, main) for each in self.windows]),
            }
            parts.append(TablePart(windows, f"{main.replace('_', ' ')} by window"))
        return parts

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; an infinite or undefined number is null.

        Of a window: window, rows, the metrics of challenger and champion, and gains.
        """
        return {
            "challenger": self.challenger.to_dict(),
            "champion": None if self.champion is None else self.champion.to_dict(),
            "gains": _plain(self.gains),
            "windows": [
                {
                    "window": json_values(each.window),
                    "rows": each.challenger.rows,
                    "challenger": _metrics(each.challenger),
                    "champion": None if each.champion is None else _metrics(each.champion),
                    "gains": _plain(each.gains),
                }
                for each in self.windows
            ],
        }


def _columns(figures: Sequence[tuple[PairedEvaluation, str]]) -> dict[str, list[Any]]:
    """Columns of a table with one row for each evaluation and metric of it."""
    gains = [of.gains[metric] for of, metric in figures]
    return {
        "challenger": [getattr(of.challenger, metric) for of, metric in figures],
        "champion": [getattr(of.champion, metric) for of, metric in figures],
        "gain": [gain.value for gain in gains],
        "± s.e.": [gain.standard_error for gain in gains],
    }


def _plain(gains: Mapping[str, Gain]) -> dict[str, Any]:
    return {
        metric: dict(json_values({"gain": gain.value, "standard_error": gain.standard_error}))
        for metric, gain in gains.items()
    }


def _metrics(evaluation: Evaluation) -> dict[str, Any]:
    return dict(json_values({metric: getattr(evaluation, metric) for metric in _METRICS}))


def _gain(moments: RowMoments, windows: Sequence[RowMoments] = ()) -> Gain:
    """The difference of the mean scores, and its standard error by the delta method.

    A score is larger if it is better. The four variables of a row are the difference g of the two
    scores, the score h of the champion, and whether the challenger (u) and the champion (w) decided
    the row; a score of an undecided row is 0. So the challenger has the mean score Σ(g + h) / Σu,
    and the champion Σh / Σw.

    Args:
        moments: of g, h, u and w.
        windows: those of the windows that the rows come from.
    """
    g, h, u, w = moments.mean.tolist()
    if not (u and w):
        return Gain(None, None)
    slope = np.array([1.0 / u, 1.0 / u - 1.0 / w, -(g + h) / u**2, h / w**2])
    value = (g + h) / u - h / w if u != w else g / u
    rows = moments.rows
    if rows < 2 or not np.isfinite(moments.scatter).all():
        return Gain(None if math.isnan(value) else value, None)
    variance = float(slope @ moments.scatter @ slope) / (rows - 1) / rows
    windows = [each for each in windows if each.rows]
    if len(windows) > 1:
        sums = np.array([each.rows * (slope @ (each.mean - moments.mean)) for each in windows])
        between = float(sums @ sums) * len(windows) / (len(windows) - 1) / rows**2
        variance = max(variance, between)
    return Gain(value, math.sqrt(max(variance, 0.0)))


@dataclass(frozen=True)
class PairedSums:
    """Sums over rows from which a `PairedEvaluation` is computed; those of batches add up.

    Attributes:
        models: sums of the challenger and, if there is one, of the champion.
        moments: moments of the paired scores by metric; empty without a champion or rows.
    """

    models: tuple[EvaluationSums, ...]
    moments: Mapping[str, RowMoments]

    @property
    def rows(self) -> int:
        """Number of rows, with and without a label."""
        return self.models[0].rows

    def __add__(self, other: PairedSums) -> PairedSums:
        """The sums over the rows of both."""
        models = tuple(own + more for own, more in zip(self.models, other.models, strict=True))
        moments = {**self.moments, **other.moments}
        for metric in self.moments.keys() & other.moments.keys():
            moments[metric] = self.moments[metric] + other.moments[metric]
        return PairedSums(models, moments)


class PairedEvaluator:
    """Evaluates a challenger and a champion batch by batch.

    Args:
        challenger: model to judge.
        champion: model to compare it with, or None to evaluate the challenger alone.
        decision: decision rule; see `DecisionRule`.

    Raises:
        SpecError: if the rule does not fit a model.
    """

    def __init__(
        self, challenger: Model, champion: Model | None, decision: DecisionOption = "map"
    ) -> None:
        models = [challenger] if champion is None else [challenger, champion]
        self.evaluators = [Evaluator(model, decision) for model in models]

    @property
    def no_rows(self) -> PairedSums:
        """The sums of no rows."""
        return PairedSums(tuple(one.no_rows for one in self.evaluators), {})

    def measure_plan(self, plan: Plan, engine: Engine, counter: RowCounter) -> PairedSums:
        """The sums over the rows of a plan."""
        size = min(one.model.batch_rows for one in self.evaluators)
        return sum_over_batches(self.measure, self.no_rows, plan, size, engine, counter)

    def measure(self, batch: pa.RecordBatch) -> PairedSums:
        """The sums of one batch; safe to call from several threads."""
        found = []
        for name, one in zip(("", "the champion"), self.evaluators, strict=False):
            with naming(name):
                found.append(one.measure_rows(batch))
        sums, scores = zip(*found, strict=True)
        return PairedSums(sums, dict(_moments(*scores)) if len(scores) > 1 else {})

    def result(
        self, windows: Sequence[tuple[Mapping[str, Any] | None, PairedSums]]
    ) -> PairedEvaluation:
        """The evaluation of all rows, and of each window if there are several.

        Args:
            windows: window and sums of its rows.

        Raises:
            DataError: if a window has no row with a label that a model knows.
        """
        total = sum((sums for _, sums in windows[1:]), windows[0][1])
        parts = () if windows[0][0] is None else tuple(self._of(*each) for each in windows)
        moments = [sums.moments for _, sums in windows]
        return replace(self._of(None, total, moments), windows=parts)

    def _of(
        self,
        window: Mapping[str, Any] | None,
        sums: PairedSums,
        windows: Sequence[Mapping[str, RowMoments]] = (),
    ) -> PairedEvaluation:
        with naming("" if window is None else f"window {partition_text(window)}"):
            pairs = zip(self.evaluators, sums.models, strict=True)
            challenger, *others = (one.result(of_model) for one, of_model in pairs)
        if not others:
            return PairedEvaluation(challenger, None, window=window)
        gains = {
            metric: _gain(moments, [each[metric] for each in windows if each])
            for metric, moments in sums.moments.items()
        }
        gains["ece"] = Gain(others[0].ece - challenger.ece, None)
        return PairedEvaluation(challenger, others[0], gains, window)


def _moments(challenger: RowScores, champion: RowScores) -> Iterator[tuple[str, RowMoments]]:
    """Moments of the paired scores of one batch by metric."""
    both, either = challenger.known & champion.known, challenger.known | champion.known
    for metric in challenger.scores:
        if metric not in champion.scores:
            continue
        rows = either if metric == "accuracy" else both
        own, other = (each.scores[metric][rows] for each in (challenger, champion))
        u, w = (each.decided[rows].astype(np.float64) for each in (challenger, champion))
        if metric not in ("accuracy", "cost"):
            u = w = np.ones(len(own))
        yield metric, _paired(own, other, u, w)


def _paired(own: FloatArray, other: FloatArray, u: FloatArray, w: FloatArray) -> RowMoments:
    """Moments of scores of challenger and champion, and of whether each decided the row."""
    h = np.where(w > 0.0, other, 0.0)
    with np.errstate(invalid="ignore"):
        g = np.where(u > 0.0, own, 0.0) - h
    return RowMoments.of_rows(np.array([g, h, u, w]))
