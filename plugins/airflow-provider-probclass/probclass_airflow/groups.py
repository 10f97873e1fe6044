"""The two common shapes as task groups: a training that ends at a gate, a scoring by partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from airflow.sdk import Asset, TaskGroup, XComArg

from probclass_airflow.mapped import (
    ProbClassMergeOperator,
    ProbClassPlanPartitionsOperator,
    ProbClassPlanShardsOperator,
    ProbClassSummarizeOperator,
)
from probclass_airflow.operators import (
    ProbClassEvaluateOperator,
    ProbClassScoreOperator,
    Where,
)
from probclass_airflow.promotion import Metric, ProbClassPromoteOperator


def train_task_group(
    group_id: str = "train",
    *,
    source: str,
    spec: Mapping[str, Any] | str,
    store: str,
    model: str,
    alias: str = "champion",
    partition: Mapping[str, str] | None = None,
    where: Where | None = None,
    held_out_source: str | None = None,
    held_out_partition: Mapping[str, str] | None = None,
    held_out_where: Where | None = None,
    metric: Metric = "log_loss",
    margin: float | str = 0.0,
    decision: Mapping[str, Any] | str = "map",
    density_quantiles: bool = False,
    shards: int = 100,
    min_shard_rows: int = 1_000_000,
    workers: int | None = None,
    outlets: Sequence[Asset] = (),
    source_conn_id: str | None = None,
    store_conn_id: str | None = None,
    default_args: dict[str, Any] | None = None,
) -> TaskGroup:
    """Plan, summarize in mapped tasks, merge, evaluate, promote: a whole training.

    The tasks are ``plan``, ``summarize``, ``merge``, ``evaluate`` and ``promote``; what comes after
    the group is skipped where the champion stays. Statistics are kept in the store: a later run
    reads only fragments it has not met, and where there are none, ``summarize`` is skipped.

    Args:
        group_id: of the group, before the id of each task.
        source: path or URI of the table to train on.
        source_conn_id: connection with its credentials; see `ProbClassHook`. The rows to judge on
            are read by it, too.
        store_conn_id: the same of the model store.
        spec: the model, as a dict or the path of a file.
        store: path or URI of the model store.
        model: name to save the model under.
        alias: what the model is promoted to if it beats who is there.
        partition: train on this partition alone.
        where: train on these rows alone.
        held_out_source: the table to judge on; by default the source.
        held_out_partition: judge on this partition alone.
        held_out_where: judge on these rows alone.
        metric: see `ProbClassPromoteOperator`, as for margin and decision.
        margin: by how much the model must be better.
        decision: the rule, in the evaluation and at the gate.
        density_quantiles: see `ProbClassTrainOperator`.
        shards: mapped tasks, at most.
        min_shard_rows: rows that are worth a task of their own.
        workers: threads to read with, in each task.
        outlets: assets of the promoted model.
        default_args: of the tasks, such as retries.

    Raises:
        ValueError: nothing says which rows the model is judged on.
    """
    if not (held_out_source or held_out_partition or held_out_where):
        raise ValueError(
            f"train_task_group {group_id!r}: say which rows judge the model, by held_out_where, "
            "held_out_partition or held_out_source; those it was trained on would flatter it."
        )
    connections = {"source_conn_id": source_conn_id, "store_conn_id": store_conn_id}
    rows: dict[str, Any] = {
        **connections,
        "source": source,
        "spec": spec,
        "store": store,
        "partition": partition,
        "where": where,
    }
    with TaskGroup(group_id, default_args=default_args or {}) as group:  # type: ignore[arg-type]
        plan = ProbClassPlanShardsOperator(
            task_id="plan", most=shards, min_rows=min_shard_rows, **rows
        )
        summarize = ProbClassSummarizeOperator.partial(
            task_id="summarize", workers=workers, **rows
        ).expand(shard=plan.output)
        merge = ProbClassMergeOperator(
            task_id="merge",
            model=model,
            density_quantiles=density_quantiles,
            workers=workers,
            # Where all is kept already, no shard is summarized, and there is all the more to merge.
            trigger_rule="none_failed_min_one_success",
            **rows,
        )
        judged: dict[str, Any] = {
            **connections,
            "source": held_out_source or source,
            "store": store,
            "model": XComArg(merge, key="model"),
            "partition": held_out_partition,
            "where": held_out_where,
            "decision": decision,
            "workers": workers,
        }
        evaluate = ProbClassEvaluateOperator(task_id="evaluate", **judged)
        judged["evaluation"] = XComArg(evaluate)
        promote = ProbClassPromoteOperator(
            task_id="promote",
            alias=alias,
            metric=metric,
            margin=margin,
            outlets=list(outlets),
            **judged,
        )
        plan >> [summarize, merge]
        summarize >> merge >> evaluate >> promote
    return group


def score_task_group(
    group_id: str = "score",
    *,
    source: str,
    sink: str,
    store: str,
    model: str,
    partitions: Where | None = None,
    where: Where | None = None,
    columns: Sequence[str] | None = None,
    posterior: Literal["columns", "list"] = "columns",
    decision: Mapping[str, Any] | str = "map",
    workers: int | None = None,
    outlets: Sequence[Asset] = (),
    source_conn_id: str | None = None,
    sink_conn_id: str | None = None,
    store_conn_id: str | None = None,
    default_args: dict[str, Any] | None = None,
) -> TaskGroup:
    """Score the partitions of a table in mapped tasks, one each, all by the same version.

    The tasks are ``plan``, which lists at most 100 partitions and resolves the model, and
    ``score``. A partition that was scored so before is left alone.

    Args:
        group_id: of the group, before the id of each task.
        source: path or URI of a (Hive-partitioned) directory.
        source_conn_id: connection with its credentials; see `ProbClassHook`.
        sink_conn_id: the same of the sink.
        store_conn_id: the same of the model store.
        sink: path or URI of the scored table.
        store: path or URI of the model store.
        model: ``name@alias`` or ``name@id``.
        partitions: score those that meet these conditions on partition columns; all by default.
        where: score the rows that meet these.
        columns: see `ProbClassScoreOperator`, as for posterior and decision.
        posterior: ``"columns"`` or ``"list"``.
        decision: the rule.
        workers: threads to read with, in each task.
        outlets: assets of the scored table; there is an event for each partition.
        default_args: of the tasks, such as retries.
    """
    places: dict[str, Any] = {
        "source": source,
        "source_conn_id": source_conn_id,
        "store": store,
        "store_conn_id": store_conn_id,
    }
    with TaskGroup(group_id, default_args=default_args or {}) as group:  # type: ignore[arg-type]
        plan = ProbClassPlanPartitionsOperator(
            task_id="plan", model=model, where=partitions, **places
        )
        ProbClassScoreOperator.partial(
            task_id="score",
            sink=sink,
            sink_conn_id=sink_conn_id,
            model=XComArg(plan, key="model"),
            where=where,
            columns=columns,
            posterior=posterior,
            decision=decision,
            workers=workers,
            outlets=list(outlets),
            **places,
        ).expand(partition=plan.output)
    return group
