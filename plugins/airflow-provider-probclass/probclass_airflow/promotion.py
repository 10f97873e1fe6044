"""Promote: the gate between a trained model and those who score by an alias."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from probclass_airflow.base import ProbClassOperator, judged_rows
from probclass_airflow.hooks import store_at, table_at
from probclass_airflow.operators import Where

if TYPE_CHECKING:
    from probclass_core import ModelStore, ModelVersion

Metric = Literal["log_loss", "brier", "ece", "cost", "accuracy"]

_LESS_IS_BETTER = {"log_loss": True, "brier": True, "ece": True, "cost": True, "accuracy": False}


class _Judged(NamedTuple):
    """What an evaluation says of a model, as far as the gate goes."""

    value: float | None
    rows: int
    unseen: int


class ProbClassPromoteOperator(ProbClassOperator):
    """Point an alias at a model that beats the one there on the same rows; else skip, saying why.

    Without a model at the alias, the challenger takes it. A model that is there already stays, and
    the task succeeds: so a retry of a promotion that was made does no harm. What it measures is
    recorded in the store beside each version.

    Args:
        source: path or URI of a Parquet file or (Hive-partitioned) directory, with the label.
        store: path or URI of the model store.
        model: the challenger, ``name@alias`` or ``name@id``.
        alias: what it is to be promoted to; the champion is what the alias names now.
        metric: ``"log_loss"``, ``"brier"``, ``"ece"`` or ``"cost"``, of which less is better, or
            ``"accuracy"``; see `Evaluation`.
        margin: by how much, in the metric's unit, the challenger must be better; at 0, by anything.
        partition: judge on this partition alone.
        where: judge on the rows that meet all of ``(column, operator, value)``.
        decision: ``"map"``, ``"ml"``, or the dict that `DecisionRule.from_dict` takes.
        evaluation: what a `ProbClassEvaluateOperator` returned of the challenger on the same rows
            by the same decision, which are then not read again for it.
        workers: threads to read with; the library decides by default.

    Returns (XCom and the `extra` of outlet assets):
        model (``name@id`` of the challenger), alias, promoted, reason, champion (``name@id`` that
        the alias named before, or null), metric, margin, challenger_value and champion_value (null
        where not measured, or infinite), rows.
    """

    template_fields: Sequence[str] = (
        *ProbClassOperator.template_fields,
        "source",
        "store",
        "model",
        "alias",
        "metric",
        "margin",
        "partition",
        "where",
        "decision",
        "evaluation",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {
        "partition": "json",
        "where": "json",
        "decision": "json",
        "evaluation": "json",
    }
    ui_color = "#f4d9dc"

    def __init__(
        self,
        *,
        source: str,
        store: str,
        model: str,
        alias: str = "champion",
        metric: Metric = "log_loss",
        margin: float | str = 0.0,
        partition: Mapping[str, str] | None = None,
        where: Where | None = None,
        decision: Mapping[str, Any] | str = "map",
        evaluation: Mapping[str, Any] | None = None,
        workers: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.source = source
        self.store = store
        self.model = model
        self.alias = alias
        self.metric = metric
        self.margin = margin
        self.partition = partition
        self.where = where
        self.decision = decision
        self.evaluation = evaluation
        self.workers = workers

    def call(self, run: dict[str, str]) -> dict[str, Any]:
        """Evaluate both, compare, promote.

        Raises:
            AirflowSkipException: the champion stays.
        """
        margin = self._checked_margin()
        store = store_at(self.store, self.store_conn_id)
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
        of_challenger = self._of_challenger(store, challenger, run)
        summary |= {"challenger_value": _plain(of_challenger.value), "rows": of_challenger.rows}
        if champion is not None:
            of_champion = self._evaluated(store, champion, self.alias, run)
            summary["champion_value"] = _plain(of_champion.value)
            better, reason = self._verdict(of_challenger, of_champion, margin)
            summary["reason"] = reason
            if not better:
                raise AirflowSkipException(f"{_short(champion)} stays {self.alias}: {reason}.")
        self.stop_if_asked()
        # Whoever else promoted meanwhile was not what the challenger was compared with.
        store.promote(challenger.model, challenger, alias=self.alias, expected=champion)
        self.log.info("%s is %s now: %s.", _short(challenger), self.alias, summary["reason"])
        return summary

    def _checked_margin(self) -> float:
        """The margin as a number, once all that no retry can mend is checked."""
        if self.metric not in _LESS_IS_BETTER:
            known = ", ".join(map(repr, _LESS_IS_BETTER))
            raise AirflowFailException(f"metric {self.metric!r} is unknown; use one of {known}.")
        try:
            margin = float(self.margin)
        except (TypeError, ValueError):
            margin = math.nan
        if not 0 <= margin < math.inf:
            raise AirflowFailException(f"margin must be a number from 0 on, got {self.margin!r}.")
        return margin

    def _champion(self, store: ModelStore, challenger: ModelVersion) -> ModelVersion | None:
        found = store.aliases(challenger.model).get(self.alias)
        return None if found is None else store.resolve(f"{found.model}@{found.id}")

    def _of_challenger(
        self, store: ModelStore, challenger: ModelVersion, run: dict[str, str]
    ) -> _Judged:
        if self.evaluation is None:
            return self._evaluated(store, challenger, "challenger", run)
        if self.evaluation.get("model") != challenger.ref:
            raise AirflowFailException(
                f"evaluation is of {self.evaluation.get('model')!r} and the challenger is "
                f"{challenger.ref!r}; give the output of the task that evaluated it."
            )
        return self._judged(self.evaluation)

    def _evaluated(
        self, store: ModelStore, version: ModelVersion, role: str, run: dict[str, str]
    ) -> _Judged:
        import probclass_core as pc

        self.log.info("Evaluating %s, the %s", _short(version), role)
        try:
            evaluation = pc.evaluate(
                store.load(version.ref),
                table_at(self.source, self.source_conn_id),
                partition=self.partition,
                where=self.where,
                decision=self.decision,
                workers=self.workers,
                progress=self.watch,
            )
        except pc.DataError as error:
            raise pc.DataError(f"{_short(version)}, the {role}: {error}") from error
        self.stop_if_asked()
        store.record_evaluation(
            version, evaluation, on=judged_rows(self), provenance={"airflow": run}
        )
        return self._judged(evaluation.to_dict())

    def _judged(self, evaluation: Mapping[str, Any]) -> _Judged:
        value: float | None = evaluation[self.metric]
        if value is None and self.metric == "log_loss":
            value = math.inf  # for which JSON has no number
        if value is None and self.metric == "cost" and evaluation["decided"]:
            raise AirflowFailException(
                "metric 'cost' needs a decision with costs; give decision={'costs': …}."
            )
        return _Judged(value, int(evaluation["rows"]), int(evaluation["unseen_labels"]))

    def _verdict(self, challenger: _Judged, champion: _Judged, margin: float) -> tuple[bool, str]:
        """Whether the challenger is better by the margin, and the reason in one line."""
        if challenger.rows != champion.rows:
            raise AirflowFailException(
                f"the challenger was evaluated on {challenger.rows:,} rows and the champion on "
                f"{champion.rows:,}; evaluate both on the same, which must not change meanwhile."
            )
        new, old = challenger.value, champion.value
        unseen, unseen_before = challenger.unseen, champion.unseen
        if self.metric != "accuracy" and unseen != unseen_before:
            # Such rows are left out of the metric, which would reward who knows fewer classes.
            reason = f"{unseen:,} rows are of a class it never saw, against {unseen_before:,}"
            return self.metric == "log_loss" and unseen < unseen_before, reason
        compared = f"{self.metric} {_shown(new)} against {_shown(old)} on {challenger.rows:,} rows"
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


def _shown(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.6g}"


def _plain(value: float | None) -> float | None:
    """JSON has no number for what is infinite."""
    return None if value is None or math.isinf(value) else value
