"""A model operated by a schedule: retrain, judge, fall back and score in one task group.

Each run plans its windows, waits for labels, trains a challenger, promotes it if it passes the
gate, judges the version that scored the newest labeled partition, and scores its own partition with
the version that the alias then names. `operate_model` puts the tasks together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import Asset, TaskGroup, XComArg, chain
from airflow.sdk.exceptions import AirflowSkipException

from probclass_airflow.base import ProbClassOperator
from probclass_airflow.operators import ProbClassTrainOperator
from probclass_airflow.promotion import ProbClassPromoteOperator
from probclass_airflow.score import ProbClassScoreOperator
from probclass_airflow.sensors import ProbClassLabelsSensor


class ProbClassPlanRunOperator(ProbClassOperator):
    """Divide the partitions before the one to score into windows to train and judge on.

    Args:
        partition: partition to score, such as ``{"month": "2014-01"}``.
        train_on: number of partitions to train on.
        judge_on: number of partitions to judge on.
        label_delay: by how many partitions labels are later than rows.
        kwargs: source and store, see `ProbClassOperator`; arguments of `BaseOperator`.

    Returns (XCom and the `extra` of outlet assets):
        scored and labeled (partitions), train and judge (conditions); see
        `probclass_core.operation.runs.plan_run`.
    """

    xcom_keys = ("labeled", "train", "judge")
    ui_color = "#e8e8ee"

    def __init__(
        self,
        *,
        partition: Mapping[str, str],
        train_on: int = 12,
        judge_on: int = 1,
        label_delay: int = 1,
        **kwargs: Any,
    ) -> None:
        super().__init__(partition=partition, **kwargs)
        self.train_on = train_on
        self.judge_on = judge_on
        self.label_delay = label_delay

    def call(self, run: dict[str, str]) -> dict[str, Any]:
        """Plan."""
        from probclass_core.operation.runs import plan_run

        assert self.partition is not None
        plan = plan_run(
            self.table(),
            self.partition,
            train=self.train_on,
            judge=self.judge_on,
            label_delay=self.label_delay,
        )
        return plan.to_dict()


class ProbClassJudgeOperator(ProbClassOperator):
    """Judge the version that scored a partition once labels are there; fall back if need be.

    This is `probclass_core.operation.runs.judge_served`. The log has a warning if the version was
    worse than its class prior, and what was done. Without any labels the task is skipped.

    Args:
        model: name of the model.
        sink: path or URI of the scored table.
        partition: partition whose labels have come.
        alias: alias whose version scores.
        fallback: ``"prior"`` or ``"rollback"``, what the alias names instead of a version that is
            worse than its class prior; None leaves it.
        prior_of: result of the `ProbClassTrainOperator` whose class prior to fall back to, or its
            ``name@id``; by default the prior of the version that the alias names.
        decision: ``"map"``, ``"ml"``, or a dict for `DecisionRule.from_dict`.
        catch_up: number of partitions before it that are judged as well, without a fallback, if
            they were scored and their labels came late.
        kwargs: source, store, workers and the connections, see `ProbClassOperator`; arguments of
            `BaseOperator`.

    Returns (XCom and the `extra` of outlet assets):
        partition, served (``name@id`` that scored it, or null), below_prior, model (``name@id``
        that the alias names now), action (``"none"``, ``"promoted"`` or ``"rolled_back"``), reason;
        if the partition was scored also rows, accuracy, baseline_accuracy, log_loss and
        baseline_log_loss; late (the same of each partition whose labels came late).
    """

    template_fields: Sequence[str] = (
        *ProbClassOperator.template_fields,
        "model",
        "sink",
        "alias",
        "prior_of",
        "decision",
    )
    ui_color = "#f7ecd0"

    def __init__(
        self,
        *,
        model: str,
        sink: str,
        partition: Mapping[str, str],
        alias: str = "champion",
        fallback: Literal["prior", "rollback"] | None = "prior",
        prior_of: Mapping[str, Any] | str | None = None,
        decision: Mapping[str, Any] | str = "map",
        catch_up: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(partition=partition, **kwargs)
        self.model = model
        self.sink = sink
        self.alias = alias
        self.fallback = fallback
        self.prior_of = prior_of
        self.decision = decision
        self.catch_up = catch_up

    def call(self, run: dict[str, str]) -> dict[str, Any]:
        """Evaluate, fall back."""
        from probclass_core.errors import MissingLabelsError
        from probclass_core.operation.runs import judge_served

        assert self.partition is not None
        prior_of = self.prior_of
        try:
            judgment = judge_served(
                self.model_store(),
                self.model,
                self.table(),
                self.sink,
                self.partition,
                alias=self.alias,
                fallback=self.fallback,
                prior_of=prior_of["model"] if isinstance(prior_of, Mapping) else prior_of,
                decision=self.decision,
                catch_up=self.catch_up,
                by=f"{run['dag_id']}.{run['task_id']}",
                provenance={"airflow": run},
                workers=self.workers,
                progress=self.on_progress,
            )
        except MissingLabelsError as error:
            raise AirflowSkipException(str(error)) from None
        for one in (*judgment.late, judgment):
            if one.below_prior or one.promotion is not None:
                self.log.warning("%s", one)
        return judgment.to_dict()


def _entry(task: ProbClassOperator, key: str = "return_value") -> Any:
    """An entry of the summary of a task, or all of it, as an argument of another task."""
    return XComArg(task, key=key)


def operate_model(
    model: str,
    *,
    source: str,
    sink: str,
    store: str,
    partition: Mapping[str, str],
    label_column: str,
    spec: Mapping[str, Any] | str | None = None,
    exclude: Sequence[str] = (),
    half_life: Literal["auto"] | float | None = None,
    train_on: int = 12,
    judge_on: int = 1,
    label_delay: int = 1,
    label_share: float = 0.5,
    label_timeout: timedelta = timedelta(hours=1),
    alias: str = "champion",
    fallback: Literal["prior", "rollback"] | None = "prior",
    decision: Mapping[str, Any] | str = "map",
    options: Mapping[str, Any] | None = None,
    catch_up: int = 7,
    outlets: Sequence[Asset] = (),
    workers: int | None = None,
    source_conn_id: str | None = None,
    store_conn_id: str | None = None,
    sink_conn_id: str | None = None,
    default_args: dict[str, Any] | None = None,
) -> TaskGroup:
    """Retrain, judge, fall back and score: a model operated by a schedule.

    The tasks of a run, in order:

    - ``plan`` divides the partitions before the one to score into windows.
    - ``labels`` waits until the newest labeled partition has its labels. If they do not come in
      time, the run scores with the version that the alias names.
    - ``train`` makes a challenger.
    - ``promote`` gives it the alias if it passes the gate on labeled partitions that it has not
      seen.
    - ``judge`` evaluates the version that scored the newest labeled partition. If the version that
      the alias names is worse there than its class prior, the alias is moved: see `fallback`.
    - ``score`` scores the partition of the run with the version that the alias names, even if a
      task before failed. It also scores what earlier runs missed, such as a day that came late, and
      leaves what is scored as it is, since labels change the rows and not what was predicted.
    - ``done`` fails the run if any task failed.

    Runs depend on the runs before: give the DAG ``max_active_runs=1``.

    Args:
        model: name of the model in the store, and id of the group.
        source: path or URI of a table with one partition column, in which labels come later.
        sink: path or URI of the scored table.
        store: path or URI of the model store.
        partition: partition to score in a run, such as
            ``{"month": "{{ data_interval_start.strftime('%Y-%m') }}"}``.
        label_column: the class column; in Airflow, a task has another `label`.
        spec: the model, as a dict or the path of a file; by default the one that `ModelSpec.auto`
            derives from the rows of each training.
        exclude: columns that the derived model does not use, such as what the label is made from.
        half_life: number of partitions after which rows count half as much, or ``"auto"``, for the
            derived model; see `ModelSpec`.
        train_on: number of partitions to train on.
        judge_on: number of partitions after these to judge on.
        label_delay: by how many partitions labels are later than rows; 1 if the partition before
            the one to score is the newest with labels.
        label_share: least share of rows with a label, see `ProbClassLabelsSensor`.
        label_timeout: how long to wait for labels before the run scores without a new training.
        alias: alias of the version that scores.
        fallback: what the alias names instead of a version that is worse than its class prior:
            ``"prior"``, the prior of the last training, ``"rollback"``, the version before, or None
            to leave it.
        decision: decision rule of predictions and evaluations.
        options: further options of ``score``, see `ProbClassScoreOperator`.
        catch_up: number of partitions before that of the run that are scored as well if they are
            missing in the sink, and before the judged one that are judged as well if their labels
            came late; if one of them cannot be scored, the run fails, too.
        outlets: assets of the scored table.
        workers: number of threads of each task.
        source_conn_id: connection with the credentials of the source; see `ProbClassHook`.
        store_conn_id: connection with the credentials of the model store.
        sink_conn_id: connection with the credentials of the sink.
        default_args: arguments of all tasks, such as retries.
    """
    places: dict[str, Any] = {
        "source": source,
        "source_conn_id": source_conn_id,
        "store": store,
        "store_conn_id": store_conn_id,
        "workers": workers,
    }
    with TaskGroup(model, default_args=default_args or {}) as group:  # type: ignore[arg-type]
        plan = ProbClassPlanRunOperator(
            task_id="plan",
            partition=partition,
            train_on=train_on,
            judge_on=judge_on,
            label_delay=label_delay,
            **places,
        )
        labels = ProbClassLabelsSensor(
            task_id="labels",
            source=source,
            source_conn_id=source_conn_id,
            label_column=label_column,
            partition=_entry(plan, "labeled"),
            min_share=label_share,
            timeout=label_timeout,
            soft_fail=True,
        )
        train = ProbClassTrainOperator(
            task_id="train",
            where=_entry(plan, "train"),
            spec=spec,
            label_column=label_column if spec is None else None,
            exclude=exclude,
            half_life=half_life,
            model=model,
            cache=True,
            **places,
        )
        promote = ProbClassPromoteOperator(
            task_id="promote",
            where=_entry(plan, "judge"),
            model=_entry(train, "model"),
            alias=alias,
            windows=next(iter(partition)) if judge_on > 1 else None,
            decision=decision,
            **places,
        )
        judge = ProbClassJudgeOperator(
            task_id="judge",
            partition=_entry(plan, "labeled"),
            model=model,
            sink=sink,
            alias=alias,
            fallback=fallback,
            prior_of=_entry(train),
            decision=decision,
            catch_up=catch_up,
            trigger_rule="all_done",  # a champion that does harm is replaced without a challenger
            **places,
        )
        score = ProbClassScoreOperator(
            task_id="score",
            partitions={"where": [partition], "catch_up": catch_up},
            model=f"{model}@{alias}",
            sink=sink,
            sink_conn_id=sink_conn_id,
            options={**(options or {}), "decision": decision},
            outlets=list(outlets),
            trigger_rule="all_done",
            **places,
        )
        done = EmptyOperator(task_id="done", trigger_rule="none_failed")
        tasks = [plan, labels, train, promote, judge, score]
        chain(*tasks)
        tasks >> done
    return group
