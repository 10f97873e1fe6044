"""A model operated by a schedule: retrain, judge, fall back and score in one task group.

Each run plans its windows, trains a challenger, promotes it if it passes the gate, judges the
version that scored the newest labeled partition, scores its own partition with the version that the
alias then names, and says what was wrong. Without a label, the model is a density of all rows: the
gate compares log densities, no task judges, and an unusual partition is what can be wrong.
`operate_model` puts the tasks together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from airflow.sdk import Asset, BaseOperator, TaskGroup, XComArg, chain
from airflow.sdk.exceptions import (
    AirflowFailException,
    AirflowSkipException,
    DownstreamTasksSkipped,
)

from probclass_airflow.approval import ProbClassApproveOperator
from probclass_airflow.base import ProbClassOperator
from probclass_airflow.operators import ProbClassTrainOperator
from probclass_airflow.promotion import ProbClassPromoteOperator, short_ref
from probclass_airflow.score import ProbClassScoreOperator

if TYPE_CHECKING:
    from airflow.sdk import Context


class ProbClassPlanRunOperator(ProbClassOperator):
    """Divide the partitions before the one to score into windows to train and judge on.

    Without windows, the tasks that train, promote and judge are skipped. So is scoring if no
    version has the alias yet, or if the model was judged on newer partitions before, as by the
    schedule beside a backfill: no version of the future scores the past.

    Args:
        model: name of the model.
        alias: alias whose version scores.
        partition: partition to score, such as ``{"month": "2014-01"}``.
        sink: path or URI of the scored table, to say which of its partitions changed upstream.
        look_back: number of scored partitions before it that are compared with the source.
        windows: train, judge, label_delay, label, label_share and max_gap, see
            `probclass_core.operation.runs.plan_run`.
        kwargs: source and store, see `ProbClassOperator`; arguments of `BaseOperator`.

    Returns (XCom and the `extra` of outlet assets):
        scored and labeled (partitions), train and judge (conditions), train_partitions (number),
        missing (labels); see `probclass_core.operation.runs.plan_run`. Or scored, problem (why
        there are no windows), and skipped (whether nothing is scored, either). In both cases
        changed and incomplete: a sentence for each scored partition that was rewritten or deleted
        in the source, and for each region or the like that has no rows at the time of the run.
    """

    template_fields: Sequence[str] = (*ProbClassOperator.template_fields, "sink")
    operator_extra_links = ()
    xcom_keys = ("labeled", "train", "judge")
    ui_color = "#e8e8ee"

    def __init__(
        self,
        *,
        model: str,
        partition: Mapping[str, str],
        alias: str = "champion",
        sink: str | None = None,
        look_back: int = 0,
        windows: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(partition=partition, **kwargs)
        self.model = model
        self.alias = alias
        self.sink = sink
        self.look_back = look_back
        self.windows = windows

    def execute(self, context: Context) -> Any:
        """Plan, and skip the tasks for which there is nothing to do."""
        plan = super().execute(context)
        if "problem" not in plan:
            return plan
        self.log.error("%s", plan["problem"])
        context["ti"].xcom_push("return_value", plan)
        kept = (ProbClassReportOperator, *(() if plan["skipped"] else (ProbClassScoreOperator,)))
        tasks = [one for one in self.get_direct_relatives() if not isinstance(one, kept)]
        raise DownstreamTasksSkipped(  # type: ignore[no-untyped-call]
            tasks=[one.task_id for one in tasks]
        )

    def call(self, run: dict[str, str]) -> dict[str, Any]:
        """Compare with what was scored before, and plan."""
        import probclass_core as pc
        from probclass_core.operation.order import changed_since_scored, missing_beside

        assert self.partition is not None
        table, changed = pc.open_table(self.table()), []
        incomplete = missing_beside(table, self.partition, self.look_back)
        if self.sink is not None and self.look_back:
            store = self.model_store()
            changed = changed_since_scored(
                store, self.model, table, self.sink, self.partition, self.look_back
            )
        return {**self._plan(table), "changed": changed, "incomplete": incomplete}

    def _plan(self, table: Any) -> dict[str, Any]:
        from probclass_core.errors import DataError
        from probclass_core.operation.order import judged_beyond
        from probclass_core.operation.runs import plan_run

        assert self.partition is not None
        store = self.model_store()
        try:
            plan = plan_run(table, self.partition, **(self.windows or {}))
        except DataError as error:
            known = self.model in store.models() and self.alias in store.aliases(self.model)
            return {"scored": dict(self.partition), "problem": str(error), "skipped": not known}
        until = judged_beyond(store, self.model, self.alias, table, plan.labeled)
        if until is None:
            return plan.to_dict()
        problem = (
            f"{self.model}@{self.alias} was judged up to {until}, and runs of a model go forward "
            "in time: nothing is done. Backfill before the schedule goes on, or operate the past "
            "under another name; to score this partition with the version in force, clear 'score'."
        )
        return {"scored": dict(self.partition), "problem": problem, "skipped": True}


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
        partition, sentence, served (``name@id`` that scored it, or null), below_prior, fell_back,
        model (``name@id`` that the alias names now), action (``"none"``, ``"promoted"`` or
        ``"rolled_back"``), reason; if the partition was scored also rows, accuracy,
        baseline_accuracy, log_loss, baseline_log_loss and prior_log_loss; late (the same of each
        partition whose labels came late).
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


Fault = Literal["labels", "worse", "changed", "incomplete", "refused", "unhealthy"]


class ProbClassReportOperator(BaseOperator):
    """Say what was wrong in a run of `operate_model`, in a paragraph for each fault.

    A task that did not finish, a partition that was not scored and a run without windows are
    faults in any case. The others:

    - ``"labels"``: a partition should have labels and does not.
    - ``"worse"``: a partition was scored worse than by the class prior, or the alias fell back.
    - ``"changed"``: a scored partition has another number of rows in the source now, or is gone.
    - ``"incomplete"``: a region or the like has no rows on the day of the run, and had some before.
    - ``"refused"``: the challenger did not pass the gate.
    - ``"unhealthy"``: the rows of a scored partition do not resemble those of the training.

    Args:
        results: results of the tasks plan, train, promote, judge and score by name; None of one
            that did not finish.
        fail_on: faults that fail the task, without a retry; the paragraphs are the exception,
            for a notifier as `on_failure_callback`. Others are a ValueError.
        kwargs: arguments of `BaseOperator`. The outlets get an event, with the paragraphs, if there
            was a fault; else a task with outlets is skipped.

    Returns (XCom and the `extra` of outlet assets):
        faults: lists of a fault and its paragraph.
    """

    template_fields: Sequence[str] = ("results",)
    template_fields_renderers: ClassVar[dict[str, str]] = {"results": "json"}
    ui_color = "#e8e8ee"

    def __init__(
        self, *, results: Mapping[str, Any], fail_on: Sequence[str] = (), **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        known = get_args(Fault)
        if isinstance(fail_on, str) or not {*fail_on} <= {*known}:
            raise ValueError(
                f"fail_on is a list of {', '.join(map(repr, known))}, got {fail_on!r}."
            )
        self.results = results
        self.fail_on = fail_on

    def execute(self, context: Context) -> Any:
        """Report.

        Raises:
            AirflowFailException: if there is a fault that fails the task.
            AirflowSkipException: if there are outlets and no fault.
        """
        found: list[Any] = [list(fault) for fault in faults(self.results)]
        for _, paragraph in found:
            self.log.warning("%s", paragraph)
        failed = [paragraph for fault, paragraph in found if fault in ("failed", *self.fail_on)]
        if failed and not self.outlets:
            raise AirflowFailException(" ".join(failed))
        if self.outlets and not found:
            raise AirflowSkipException("There was no fault.")
        for outlet in self.outlets:
            context["outlet_events"][outlet].extra = {"faults": found}
        return {"faults": found}


def faults(results: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The faults of a run, each with what happened, its figures, and what to do."""
    plan, promoted, judged, scored = (
        results.get(task) or {} for task in ("plan", "promote", "judge", "score")
    )
    if "problem" in plan:
        done = "trained or scored" if plan["skipped"] else "trained"
        yield "failed", f"Nothing was {done}: {plan['problem']}"
    elif stopped := [task for task, result in results.items() if result is None]:
        yield "failed", f"{', '.join(stopped)} did not finish; the log of {stopped[0]} says why."
    if missing := plan.get("missing"):
        advice = "What is labeled before is used; if labels are always this late, raise label_delay"
        yield "labels", f"{missing} {advice}."
    for sentence in plan.get("changed", ()):
        advice = (
            "What was served stays: clear 'score' of its run to score it again, or remove what is "
            "gone by score --deleted remove"
        )
        yield "changed", f"{sentence}. {advice}."
    for sentence in plan.get("incomplete", ()):
        yield "incomplete", f"{sentence}. Once it comes, a later run scores it."
    for one in (*judged.get("late", ()), judged):
        if one.get("below_prior") or one.get("fell_back"):
            advice = f"{short_ref(one['model'])} is in force"
            if one.get("below_prior"):
                advice += "; see which columns drifted in that partition"
            elif promoted.get("action") == "proposed":
                advice += f" until {short_ref(promoted['model'])} is approved"
            yield "worse", f"{one['sentence']}. {advice}."
    if promoted.get("action") == "refused":
        yield "refused", f"{short_ref(promoted['model'])} is refused: {promoted['reason']}."
    for sentence in scored.get("errors", ()):
        yield "failed", f"Not scored: {sentence} Later runs try it again."
    for sentence in scored.get("warnings", ()):
        yield "unhealthy", f"{sentence} Check the input of the partition, and score it again."


_OPTIONS = (
    "columns",
    "posterior",
    "prior",
    "rarity",
    "rare",
    "contributions",
    "overwrite",
    "watch",
    "missing_columns",
    "schema",
)
"""Fields of `probclass_core.ScoringOptions` but the decision; to import them takes a second."""


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
    label_column: str | None,
    spec: Mapping[str, Any] | str | None = None,
    exclude: Sequence[str] = (),
    half_life: Literal["auto"] | float | None = "auto",
    train_on: int = 24,
    judge_on: int = 1,
    label_delay: int = 1,
    label_share: float = 0.5,
    max_gap: int = 7,
    alias: str = "champion",
    fallback: Literal["prior", "rollback"] | None = "prior",
    decision: Mapping[str, Any] | str = "map",
    options: Mapping[str, Any] | None = None,
    catch_up: int = 7,
    approval: Mapping[str, Any] | None = None,
    outlets: Sequence[Asset] = (),
    fail_on: Sequence[Fault] | None = None,
    on_fault: Any = None,
    alerts: Sequence[Asset] = (),
    workers: int | None = None,
    source_conn_id: str | None = None,
    store_conn_id: str | None = None,
    sink_conn_id: str | None = None,
    default_args: dict[str, Any] | None = None,
) -> TaskGroup:
    """Retrain, judge, fall back and score: a model operated by a schedule.

    The tasks of a run, in order:

    - ``plan`` divides the partitions before the one to score, up to the newest one with labels,
      into windows. If they are too far away, or the model was judged on newer ones, the next
      three tasks are skipped.
    - ``train`` makes a challenger.
    - ``promote`` gives it the alias if it passes the gate on labeled partitions that it has not
      seen.
    - ``judge`` evaluates the version that scored the newest labeled partition. If the version that
      the alias names is worse there than its class prior, the alias is moved: see `fallback`.
      Without a label there is no such task.
    - ``score`` scores the partition of the run with the version that the alias names, even if a
      task before failed. It also scores what earlier runs missed, such as a day that came late, and
      leaves what is scored as it is, since labels change the rows and not what was predicted.
    - ``done`` says what was wrong, and fails the run if it should not be green: see
      `ProbClassReportOperator`.

    Runs depend on the runs before: give the DAG ``max_active_runs=1``. Tasks have two retries
    unless the DAG or `default_args` say otherwise.

    Args:
        model: name of the model in the store, and id of the group.
        source: path or URI of a partitioned table, in which labels come later.
        sink: path or URI of the scored table.
        store: path or URI of the model store.
        partition: partition to score in a run, such as
            ``{"month": "{{ data_interval_start.strftime('%Y-%m') }}"}``. Its one column is the
            time: of a table by region and month, a run takes all regions of a month.
        label_column: the class column; in Airflow, a task has another `label`. None for a model
            without a label, which says how unusual each row is: a challenger must have a larger
            mean log density on partitions that it was not trained on.
        spec: the model, as a dict or the path of a file; by default the one that `ModelSpec.auto`
            derives from the rows of each training.
        exclude: columns that the derived model does not use, such as what the label is made from.
        half_life: number of partitions after which rows count half as much, None if they do not, or
            ``"auto"``, for the derived model; see `ModelSpec`. Without a label, ``"auto"`` is None.
        train_on: largest number of partitions to train on; a new table has fewer, at least one.
        judge_on: number of partitions after these to judge on.
        label_delay: by how many partitions labels are later than rows; 1 if the partition before
            the one to score is the newest with labels.
        label_share: least share of rows with a label in the newest labeled partition.
        max_gap: largest number of partitions that may be missing between the newest labeled one and
            the one to score, besides the delay; see `probclass_core.operation.runs.plan_run`.
        alias: alias of the version that scores.
        fallback: what the alias names instead of a version that is worse than its class prior:
            ``"prior"``, the prior of the last training, ``"rollback"``, the version before, or None
            to leave it.
        decision: decision rule of predictions and evaluations.
        options: further options of ``score``, see `ProbClassScoreOperator`.
        catch_up: number of partitions before that of the run that are scored as well if they are
            missing in the sink, and before the judged one that are judged as well if their labels
            came late; if one of them cannot be scored, the run fails, too. Those that were scored
            are compared with the source.
        approval: arguments of a task ``approve``, a `ProbClassApproveOperator` that asks a person
            before a challenger is promoted: ``response_timeout``, a timedelta shorter than the
            schedule's, since the next run begins after it, and others of `HITLOperator`. Scoring
            and ``done`` do not wait: the version that is approved scores from the next run on.
        outlets: assets of the scored table.
        fail_on: faults that fail ``done``, and so the run, besides tasks that failed; by default
            ``("labels", "worse", "changed", "incomplete")``, and without a label ``"unhealthy"`` in
            place of the first two.
        on_fault: notifier or callback of ``done``; the exception has a paragraph for each fault.
        alerts: assets that get an event if a run has any fault, by a task ``alert``.
        workers: number of threads of each task.
        source_conn_id: connection with the credentials of the source; see `ProbClassHook`.
        store_conn_id: connection with the credentials of the model store.
        sink_conn_id: connection with the credentials of the sink.
        default_args: arguments of all tasks, such as retries.

    Raises:
        ValueError: if the partition is not one column and its value, a number of partitions is not
            a number or too small, or `options`, `fallback` or `fail_on` has an unknown value.
    """
    if not isinstance(partition, Mapping) or len(partition) != 1:
        raise ValueError(
            f"operate_model counts along one partition column, got {partition!r}; name the one "
            "that is the time, such as {'day': …}: a run scores all partitions with its value."
        )
    if not isinstance(options or {}, Mapping):
        raise ValueError(f"options are by name, such as {{'columns': ['time']}}, got {options!r}.")
    if unknown := [name for name in options or () if name not in _OPTIONS]:
        raise ValueError(
            f"options has no {unknown[0]!r}; it has {', '.join(_OPTIONS)}, and decision is an "
            "argument of operate_model."
        )
    if fallback not in ("prior", "rollback", None):
        raise ValueError(f"fallback is 'prior', 'rollback' or None, got {fallback!r}.")
    for name, count, least in (
        ("train_on", train_on, 1),
        ("judge_on", judge_on, 1),
        ("label_delay", label_delay, 1),
        ("max_gap", max_gap, 0),
        ("catch_up", catch_up, 0),
    ):
        if not isinstance(count, int) or count < least:
            raise ValueError(f"{name} is a number of partitions from {least} on, got {count!r}.")
    (time,) = partition
    if half_life == "auto" and (spec is not None or label_column is None):
        half_life = None  # a spec has its own, and the choice compares log losses of a label
    places: dict[str, Any] = {
        "source": source,
        "source_conn_id": source_conn_id,
        "store": store,
        "store_conn_id": store_conn_id,
        "workers": workers,
    }
    with TaskGroup(model, default_args=default_args or {}) as group:  # type: ignore[arg-type]
        if "retries" not in {**group.dag.default_args, **group.default_args}:
            places["retries"] = 2
        plan = ProbClassPlanRunOperator(
            task_id="plan",
            model=model,
            alias=alias,
            partition=partition,
            sink=sink,
            look_back=catch_up,
            windows={
                "train": train_on,
                "judge": judge_on,
                "label_delay": label_delay,
                "label": label_column,
                "label_share": label_share,
                "max_gap": max_gap,
            },
            **places,
        )
        train = ProbClassTrainOperator(
            task_id="train",
            where=_entry(plan, "train"),
            spec=spec,
            label_column=label_column if spec is None else None,
            no_label=label_column is None and spec is None,
            exclude=exclude,
            groups=time if spec is None else "partitions",
            half_life=half_life,
            model=model,
            cache=True,
            **places,
        )
        promote = ProbClassPromoteOperator(
            task_id="promote",
            where=_entry(plan, "judge"),
            model=f"{{{{ ti.xcom_pull(task_ids='{train.task_id}')['model'] }}}}",
            alias=alias,
            windows=time if judge_on > 1 else None,
            metric="log_density" if label_column is None else "log_loss",
            propose=approval is not None,
            decision=decision,
            **places,
        )
        tasks: list[ProbClassOperator] = [plan, train, promote]
        if label_column is not None:
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
                trigger_rule="all_done",  # without a challenger, too, harm is ended
                **places,
            )
            # With an approval, the challenger is compared with what the judgment leaves in force.
            tasks.insert(3 if approval is None else 2, judge)
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
        tasks.append(score)
        chain(*tasks)
        plan >> score
        if approval is not None:
            score >> ProbClassApproveOperator(
                task_id="approve",
                proposal=_entry(promote),
                store=store,
                store_conn_id=store_conn_id,
                trigger_rule="all_done",
                **approval,
            )
        for task in tasks[1:]:
            task.xcom_keys = ()  # nobody reads them, and each is a row of Airflow's database
        results = {task.label: _entry(task) for task in tasks}
        report: dict[str, Any] = {"results": results, "trigger_rule": "all_done"}
        usual: list[Fault] = ["unhealthy"] if label_column is None else ["labels", "worse"]
        usual += ["changed", "incomplete"]
        ProbClassReportOperator(
            task_id="done",
            do_xcom_push=False,
            fail_on=usual if fail_on is None else fail_on,
            on_failure_callback=on_fault,
            **report,
        )
        if alerts:
            ProbClassReportOperator(task_id="alert", outlets=list(alerts), **report)
    return group
