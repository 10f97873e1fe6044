"""Promote: point an alias at a challenger if it beats the champion."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from probclass_airflow.operators import ProbClassEvaluateOperator

if TYPE_CHECKING:
    from probclass_core import ModelStore, ModelVersion

Metric = Literal["log_loss", "brier", "ece", "cost", "accuracy"]

_LESS_IS_BETTER = {"log_loss": True, "brier": True, "ece": True, "cost": True, "accuracy": False}


class _Measurement(NamedTuple):
    """The numbers of an evaluation that the comparison needs."""

    value: float | None
    rows: int
    unseen: int


class ProbClassPromoteOperator(ProbClassEvaluateOperator):
    """Promote a challenger to an alias if it beats the champion on the same rows, or else skip.

    Without a champion, the challenger is promoted. If the alias already names the challenger, the
    task succeeds and changes nothing, so a retry is harmless. Both evaluations are recorded in the
    store with their versions.

    Args:
        model: the challenger, ``name@alias`` or ``name@id``.
        alias: the alias to promote to; the champion is the version that it names now.
        metric: ``"log_loss"``, ``"brier"``, ``"ece"`` or ``"cost"``, of which less is better, or
            ``"accuracy"``; see `Evaluation`.
        margin: least improvement, in the unit of the metric; at 0, any improvement is enough.
        decision: ``"map"``, ``"ml"``, or a dict for `DecisionRule.from_dict`.
        evaluation: result of a `ProbClassEvaluateOperator` for the challenger on the same rows with
            the same decision; the challenger is then not evaluated again.
        kwargs: source, store, partition, where, workers and the connections, see
            `ProbClassOperator`; arguments of `BaseOperator`. The rows must be labeled.

    Returns (XCom and the `extra` of outlet assets):
        model (``name@id`` of the challenger), alias, promoted, reason, champion (``name@id`` that
        the alias named before, or null), metric, margin, challenger_value and champion_value (null
        if not measured or infinite), rows.
    """

    template_fields: Sequence[str] = (
        *ProbClassEvaluateOperator.template_fields,
        "alias",
        "metric",
        "margin",
        "evaluation",
    )
    ui_color = "#f4d9dc"

    def __init__(
        self,
        *,
        model: str,
        alias: str = "champion",
        metric: Metric = "log_loss",
        margin: float | str = 0.0,
        decision: Mapping[str, Any] | str = "map",
        evaluation: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(model=model, decision=decision, **kwargs)
        self.alias = alias
        self.metric = metric
        self.margin = margin
        self.evaluation = evaluation

    def call(self, run: dict[str, str]) -> dict[str, Any]:
        """Evaluate both, compare, promote.

        Raises:
            AirflowSkipException: if the champion is not beaten.
        """
        margin = self._checked_margin()
        store = self.model_store()
        challenger = store.resolve(self.model)
        champion = self._champion(store, challenger)
        summary = {
            "model": challenger.ref,
            "alias": self.alias,
            "promoted": True,
            "reason": f"{challenger.model} has no {self.alias} yet",
            "champion": champion.ref if champion else None,
            "metric": self.metric,
            "margin": margin,
            "challenger_value": None,
            "champion_value": None,
            "rows": 0,
        }
        if champion is not None and champion.id == challenger.id:
            reason = f"{_short(challenger)} is the {self.alias} already"
            return {**summary, "promoted": False, "reason": reason}
        new = self._measure_challenger(store, challenger, run)
        summary |= {"challenger_value": _finite(new.value), "rows": new.rows}
        if champion is not None:
            old = self._measure(store, champion, self.alias, run)
            summary["champion_value"] = _finite(old.value)
            is_better, reason = self._compare(new, old, margin)
            summary["reason"] = reason
            if not is_better:
                raise AirflowSkipException(f"{_short(champion)} stays {self.alias}: {reason}.")
        self.raise_if_stopped()
        # If another task has promoted since, the challenger was not compared with that champion.
        store.promote(challenger.model, challenger, alias=self.alias, expected=champion)
        self.log.info("%s is now %s: %s.", _short(challenger), self.alias, summary["reason"])
        return summary

    def _checked_margin(self) -> float:
        """The margin as a number, after checking the fields that a retry cannot change."""
        if self.metric not in _LESS_IS_BETTER:
            known = ", ".join(map(repr, _LESS_IS_BETTER))
            raise AirflowFailException(f"metric {self.metric!r} is unknown; use one of {known}.")
        try:
            margin = float(self.margin)
        except (TypeError, ValueError):
            margin = math.nan
        if not 0 <= margin < math.inf:
            raise AirflowFailException(
                f"margin must be a finite number of at least 0, got {self.margin!r}."
            )
        return margin

    def _champion(self, store: ModelStore, challenger: ModelVersion) -> ModelVersion | None:
        alias = store.aliases(challenger.model).get(self.alias)
        return None if alias is None else store.resolve(f"{alias.model}@{alias.id}")

    def _measure_challenger(
        self, store: ModelStore, challenger: ModelVersion, run: dict[str, str]
    ) -> _Measurement:
        if self.evaluation is None:
            return self._measure(store, challenger, "challenger", run)
        if self.evaluation.get("model") != challenger.ref:
            raise AirflowFailException(
                f"evaluation is of {self.evaluation.get('model')!r} but the challenger is "
                f"{challenger.ref!r}; pass the output of the task that evaluated the challenger."
            )
        return self._measurement(self.evaluation)

    def _measure(
        self, store: ModelStore, version: ModelVersion, role: str, run: dict[str, str]
    ) -> _Measurement:
        import probclass_core as pc

        self.log.info("Evaluating %s, the %s", _short(version), role)
        try:
            evaluation = self.evaluate(store, version, store.load(version.ref), run)
        except pc.DataError as error:
            raise pc.DataError(f"{_short(version)}, the {role}: {error}") from error
        return self._measurement(evaluation.to_dict())

    def _measurement(self, evaluation: Mapping[str, Any]) -> _Measurement:
        value: float | None = evaluation[self.metric]
        if value is None and self.metric == "log_loss":
            value = math.inf  # which JSON cannot express
        if value is None and self.metric == "cost" and evaluation["decided"]:
            raise AirflowFailException(
                "metric 'cost' needs a decision with costs; pass decision={'costs': …}."
            )
        return _Measurement(value, int(evaluation["rows"]), int(evaluation["unseen_labels"]))

    def _compare(
        self, challenger: _Measurement, champion: _Measurement, margin: float
    ) -> tuple[bool, str]:
        """Whether the challenger is better by the margin, and why, in one line."""
        if challenger.rows != champion.rows:
            raise AirflowFailException(
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
        gain = old - new if _LESS_IS_BETTER[self.metric] else new - old
        if gain <= 0:
            return False, f"{compared} is not better"
        if gain < margin:
            return False, f"{compared} is better by {gain:.6g}, less than the margin {margin:g}"
        return True, f"{compared} is better by {gain:.6g}"


def _short(version: ModelVersion) -> str:
    return f"{version.model}@{version.id[:12]}"


def _text(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.6g}"


def _finite(value: float | None) -> float | None:
    """The value, or None if it is infinite, which JSON cannot express."""
    return None if value is None or math.isinf(value) else value
