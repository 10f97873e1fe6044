"""Promote a challenger that beats the champion, and roll back to the version before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from airflow.sdk import Asset
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from probclass_airflow.base import ProbClassOperator
from probclass_airflow.operators import ProbClassEvaluateOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

    from probclass_core.store.promotions import Promotion

Metric = Literal["log_loss", "brier", "ece", "cost", "accuracy", "log_density"]
OnRefusal = Literal["succeed", "skip", "fail"]


class ProbClassPromoteOperator(ProbClassEvaluateOperator):
    """Promote a challenger to an alias if it beats the champion on the same rows.

    This is `pc.promote_if_better`. Both versions are evaluated in one pass, and their evaluations
    are recorded in the store. A challenger that does not pass is refused: it may be below a floor,
    not better than the champion or not surely so, trained on the rows that it is judged on, or a
    version from which the alias was rolled back. A refusal is recorded in the ledger of promotions,
    logged as a warning, returned, and published as an event of `refusal_outlets`. If the alias
    already names the challenger, the task changes nothing and succeeds, so a retry is harmless.

    Args:
        model: the challenger, ``name@alias`` or ``name@id``.
        alias: the alias to promote to; the champion is the version that it names now.
        metric: ``"log_loss"``, ``"brier"``, ``"ece"`` or ``"cost"``, of which less is better, or
            ``"accuracy"`` or ``"log_density"``, that of models without a label; see `Gate`.
        margin: least improvement, in the unit of the metric.
        min_z: least improvement in its standard errors; by default that of `Gate`.
        floor: what the challenger must reach in any case: ``"prior"``, or None; see `Gate`.
        windows: partition column that divides the rows into judging windows, such as ``"month"``.
        min_windows_better: least share of the windows in which the challenger must be better.
        allow_training_rows: whether the challenger may be judged on rows that it was trained on.
        decision: ``"map"``, ``"ml"``, or a dict for `DecisionRule.from_dict`.
        propose: whether a challenger that passes is only proposed, to a `ProbClassApproveOperator`
            with the result as ``proposal``.
        on_refusal: state of the task after a refusal. ``"succeed"``: downstream tasks run, with the
            champion that stays. ``"skip"``: they are skipped. ``"fail"``: the task fails without a
            retry. The result is pushed to XCom in each case; only a task that succeeds has asset
            events.
        refusal_outlets: assets that get an event if the challenger is refused.
        outlets: assets that get an event if the challenger is the champion now, also if it was
            before the task.
        kwargs: source, store, partition, where, workers and the connections, see
            `ProbClassOperator`; missing_labels, see `ProbClassEvaluateOperator`; arguments of
            `BaseOperator`. The rows must be labeled.

    Returns (XCom and the `extra` of outlet assets):
        model (``name@id`` of the challenger), alias, promoted, action (``"promoted"``,
        ``"refused"``, ``"unchanged"`` or ``"proposed"``), reason, champion (``name@id`` that the
        alias named before, or null), and the numbers of the decision, see `Promotion.metrics`; of
        the windows, which the ledger has, only their number; proposal (the entry without them), if
        it is one.
    """

    template_fields: Sequence[str] = (
        *ProbClassEvaluateOperator.template_fields,
        "alias",
        "metric",
        "margin",
        "min_z",
        "floor",
        "windows",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {
        **ProbClassEvaluateOperator.template_fields_renderers,
        "floor": "json",
    }
    ui_color = "#f4d9dc"

    def __init__(
        self,
        *,
        model: str,
        alias: str = "champion",
        metric: Metric = "log_loss",
        margin: float | str = 0.0,
        min_z: float | str | None = None,
        floor: Literal["prior"] | None = "prior",
        windows: str | None = None,
        min_windows_better: float = 0.5,
        allow_training_rows: bool = False,
        propose: bool = False,
        decision: Mapping[str, Any] | str = "map",
        on_refusal: OnRefusal = "succeed",
        refusal_outlets: Sequence[Asset] = (),
        outlets: Sequence[Any] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(
            model=model,
            decision=decision,
            watch=False,  # the floors of the gate decide
            # A mapped task has them already, see `partial`.
            outlets=[*(one for one in outlets if one not in refusal_outlets), *refusal_outlets],
            **kwargs,
        )
        if on_refusal not in ("succeed", "skip", "fail"):
            raise ValueError(
                f"{self.task_id!r}: on_refusal is 'succeed', 'skip' or 'fail', not {on_refusal!r}."
            )
        self.alias = alias
        self.metric = metric
        self.margin = margin
        self.min_z = min_z
        self.floor = floor
        self.windows = windows
        self.min_windows_better = min_windows_better
        self.allow_training_rows = allow_training_rows
        self.propose = propose
        self.on_refusal = on_refusal
        self.refusal_outlets = list(refusal_outlets)

    @classmethod
    def partial(cls, **kwargs: Any) -> Any:
        """Begin a mapped task; Airflow only considers its ``outlets``."""
        outlets = [*kwargs.get("outlets", ()), *kwargs.get("refusal_outlets", ())]
        return super().partial(**{**kwargs, "outlets": outlets})

    def execute(self, context: Context) -> Any:
        """Judge, promote or refuse, and return the summary.

        Raises:
            AirflowSkipException, AirflowFailException: if the challenger is refused and
                `on_refusal` says so; the summary is pushed to XCom before.
        """
        summary = super().execute(context)
        if summary["action"] != "refused" or self.on_refusal == "succeed":
            return summary
        values = {"return_value": summary, **(summary if self.multiple_outputs else {})}
        for key, value in values.items():
            context["ti"].xcom_push(key, value)
        stop = AirflowSkipException if self.on_refusal == "skip" else AirflowFailException
        raise stop(f"{summary['model']} is refused: {summary['reason']}.")

    def call(self, run: dict[str, str]) -> dict[str, Any]:
        """Evaluate both, compare, promote or refuse."""
        import probclass_core as pc

        with self.labels():
            entry = pc.promote_if_better(
                self.model_store(),
                self.model,
                self.table(),
                self.alias,
                windows=self.windows,
                gate=pc.Gate(
                    metric=self.metric,
                    margin=self.margin,  # type: ignore[arg-type]  # text is converted there
                    min_z=self.min_z,  # type: ignore[arg-type]
                    floor=self.floor,
                    min_windows_better=self.min_windows_better,
                    allow_training_rows=self.allow_training_rows,
                ),
                propose=self.propose,
                decision=self.decision,
                by=f"{run['dag_id']}.{run['task_id']}",
                provenance={"airflow": run},
                **self.read_options(),
            )
        ref, refused = short_ref(entry.ref), entry.action == "refused"
        # Airflow makes an event of each outlet of a task that succeeds.
        self.outlets = [
            outlet
            for outlet in self.outlets
            if (outlet in self.refusal_outlets) == refused and entry.action != "proposed"
        ]
        if refused:
            stays = (
                f"{entry.model}@{entry.previous[:12]} stays" if entry.previous else "no version is"
            )
            self.log.warning("%s is refused, %s %s: %s.", ref, stays, self.alias, entry.reason)
        else:
            proposed = "proposed as " if entry.action == "proposed" else ""
            self.log.info("%s is %s%s: %s.", ref, proposed, self.alias, entry.reason)
        return summary_of(entry)


class ProbClassRollbackOperator(ProbClassOperator):
    """Make an alias name the version that it named before: `ModelStore.rollback`.

    The version left behind does not come back by a repeated task: tasks that would promote it fail
    or refuse it. A retry, or a cleared task of the same run, does not roll back again.

    Args:
        model: name of the model.
        alias: alias to move back.
        steps: number of promotions to undo.
        version: ``name@id`` to roll back from, such as that of a failed evaluation; if the alias
            names another version by now, the task fails, unless it was rolled back from it already.
        reason: why, for the ledger.
        kwargs: store and its connection, see `ProbClassOperator`; arguments of `BaseOperator`. An
            asset of the model among the outlets starts the tasks that score with the version in
            force.

    Returns (XCom and the `extra` of outlet assets):
        model (``name@id`` in force), alias, action (``"rolled_back"`` or ``"unchanged"``), reason,
        rolled_back (``name@id`` that the alias named before), left_behind (``name@id`` of each
        version whose promotion was undone; several with `steps`).
    """

    template_fields: Sequence[str] = (
        "store",
        "store_conn_id",
        "model",
        "alias",
        "steps",
        "version",
        "reason",
    )
    xcom_keys = ("model", "left_behind")
    ui_color = "#f4d9dc"

    def __init__(
        self,
        *,
        model: str,
        alias: str = "champion",
        steps: int | str = 1,
        version: str | None = None,
        reason: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(source=None, **kwargs)
        self.model = model
        self.alias = alias
        self.steps = steps
        self.version = version
        self.reason = reason

    def call(self, run: dict[str, str]) -> dict[str, Any]:
        """Move the alias back, once per run."""
        store = self.model_store()
        for entry in reversed(store.history(self.model, self.alias)):
            if entry.action == "rolled_back" and entry.provenance.get("airflow") == run:
                self.log.info("%s was rolled back by this run already.", self.alias)
                break
        else:
            entry = store.rollback(
                self.model,
                self.alias,
                steps=int(self.steps),
                expected=self.version,
                by=f"{run['dag_id']}.{run['task_id']}",
                reason=self.reason,
                provenance={"airflow": run},
            )
        return {
            "model": entry.ref,
            "alias": self.alias,
            "action": entry.action,
            "reason": entry.reason,
            "rolled_back": f"{entry.model}@{entry.previous}",
            "left_behind": [version.ref for version in store.left_behind(entry)],
        }


def short_ref(ref: str) -> str:
    """The name of a version, and the digits of its id that people read: ``air@4d04f0021a99``."""
    name, _, content_id = ref.partition("@")
    return f"{name}@{content_id[:12]}"


def summary_of(entry: Promotion) -> dict[str, Any]:
    """An entry of the ledger as the result of a task; of a proposal also what to decide on."""
    windows = entry.metrics.get("windows", ())
    metrics = {name: value for name, value in entry.metrics.items() if name != "windows"}
    summary = {
        "model": entry.ref,
        "alias": entry.alias,
        "promoted": entry.action == "promoted",
        "action": entry.action,
        "reason": entry.reason,
        "champion": None if entry.previous is None else f"{entry.model}@{entry.previous}",
        "challenger_value": None,
        "champion_value": None,
        "rows": 0,
        **metrics,
        "windows": len(windows),
    }
    if entry.action == "proposed":
        summary["proposal"] = {**asdict(entry), "metrics": metrics}
    return summary
