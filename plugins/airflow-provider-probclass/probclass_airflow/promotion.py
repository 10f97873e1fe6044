"""Promote: point an alias at a challenger if it beats the champion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from probclass_airflow.operators import ProbClassEvaluateOperator

if TYPE_CHECKING:
    from probclass_core import Evaluation, ModelVersion

Metric = Literal["log_loss", "brier", "ece", "cost", "accuracy"]


class ProbClassPromoteOperator(ProbClassEvaluateOperator):
    """Promote a challenger to an alias if it beats the champion on the same rows, or else skip.

    This is `ModelStore.promote_if_better`. Without a champion, the challenger is promoted. If the
    alias already names the challenger, the task succeeds and changes nothing, so a retry is
    harmless. A challenger from which the alias was rolled back is skipped. Both evaluations are
    recorded in the store with their versions, and the decision in its ledger of promotions, even if
    it is a refusal.

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
        store = self.model_store()
        challenger = store.resolve(self.model)

        def evaluate(version: ModelVersion) -> Evaluation | Mapping[str, Any]:
            evaluation: Evaluation | Mapping[str, Any] | None = None
            if version == challenger:
                evaluation = self._given_evaluation(challenger)
            if evaluation is None:
                self.log.info("Evaluating %s", _short(version))
                evaluation = self.evaluate(store, version, store.load(version.ref), run)
            self.raise_if_stopped()
            return evaluation

        entry = store.promote_if_better(
            challenger,
            self.alias,
            evaluate,
            metric=self.metric,
            margin=self.margin,
            by=f"{run['dag_id']}.{run['task_id']}",
            provenance={"airflow": run},
        )
        if entry.action == "refused":
            kept = f"{entry.model}@{str(entry.previous)[:12]}"
            raise AirflowSkipException(f"{kept} stays {self.alias}: {entry.reason}.")
        if entry.action == "promoted":
            self.log.info("%s is now %s: %s.", _short(challenger), self.alias, entry.reason)
        return {
            "model": challenger.ref,
            "alias": self.alias,
            "promoted": entry.action == "promoted",
            "reason": entry.reason,
            "champion": None if entry.previous is None else f"{entry.model}@{entry.previous}",
            "challenger_value": None,
            "champion_value": None,
            "rows": 0,
            **entry.metrics,
        }

    def _given_evaluation(self, challenger: ModelVersion) -> Mapping[str, Any] | None:
        if self.evaluation is not None and self.evaluation.get("model") != challenger.ref:
            raise AirflowFailException(
                f"evaluation is of {self.evaluation.get('model')!r} but the challenger is "
                f"{challenger.ref!r}; pass the output of the task that evaluated the challenger."
            )
        return self.evaluation


def _short(version: ModelVersion) -> str:
    return f"{version.model}@{version.id[:12]}"
