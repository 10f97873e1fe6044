"""Common pipelines as task groups: train and promote, score by partition, roll back and rescore."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from airflow.sdk import Asset, TaskGroup, XComArg

from probclass_airflow.base import Where
from probclass_airflow.mapped import (
    ProbClassPlanBatchesOperator,
    ProbClassPlanShardsOperator,
    ProbClassSummarizeOperator,
)
from probclass_airflow.operators import ProbClassTrainOperator
from probclass_airflow.promotion import ProbClassPromoteOperator, ProbClassRollbackOperator
from probclass_airflow.score import ProbClassScoreOperator


def train_task_group(
    group_id: str = "train",
    *,
    source: str,
    spec: Mapping[str, Any] | str,
    store: str,
    model: str,
    partition: Mapping[str, str] | None = None,
    where: Where | None = None,
    held_out_source: str | None = None,
    held_out_partition: Mapping[str, str] | None = None,
    held_out_where: Where | None = None,
    density_quantiles: bool = False,
    max_shards: int = 100,
    min_shard_rows: int = 1_000_000,
    workers: int | None = None,
    outlets: Sequence[Asset] = (),
    source_conn_id: str | None = None,
    store_conn_id: str | None = None,
    default_args: dict[str, Any] | None = None,
    **gate: Any,
) -> TaskGroup:
    """Plan, summarize in mapped tasks, merge, promote: a complete training.

    The tasks are ``plan``, ``summarize``, ``merge`` and ``promote``, which evaluates the model and
    the champion in one pass and records both evaluations. If the champion stays, tasks downstream
    of the group run all the same, unless ``on_refusal`` says otherwise. Statistics are stored, so a
    later run reads only new units; without new units, ``summarize`` is skipped.

    Args:
        group_id: id of the group, the prefix of its task ids.
        source: path or URI of the table to train on.
        spec: the model, as a dict or the path of a file.
        store: path or URI of the model store.
        model: name to save the model under.
        partition: train on this partition only.
        where: train on the rows that meet these conditions only.
        held_out_source: table to evaluate on; by default the source.
        held_out_partition: evaluate on this partition only.
        held_out_where: evaluate on the rows that meet these conditions only.
        density_quantiles: save density quantiles with the model, see `ProbClassTrainOperator`.
        max_shards: greatest number of mapped tasks.
        min_shard_rows: least number of rows of a mapped task.
        workers: number of threads of each task.
        outlets: assets of the promoted model, which get an event if the champion changes.
        source_conn_id: connection with the credentials of the source and the held-out source; see
            `ProbClassHook`.
        store_conn_id: connection with the credentials of the model store.
        default_args: arguments of all tasks, such as retries.
        gate: further arguments of ``promote``, see `ProbClassPromoteOperator`: alias, metric,
            margin, min_z, floor, windows, decision, on_refusal, refusal_outlets and others.

    Raises:
        ValueError: if no held-out rows are given.
    """
    if not (held_out_source or held_out_partition or held_out_where):
        raise ValueError(
            f"train_task_group {group_id!r} has no rows to evaluate on; give held_out_where, "
            "held_out_partition or held_out_source. On its training rows a model looks too good."
        )
    places: dict[str, Any] = {
        "source": source,
        "source_conn_id": source_conn_id,
        "store": store,
        "store_conn_id": store_conn_id,
    }
    training = {**places, "spec": spec, "partition": partition, "where": where}
    with TaskGroup(group_id, default_args=default_args or {}) as group:  # type: ignore[arg-type]
        plan = ProbClassPlanShardsOperator(
            task_id="plan", max_shards=max_shards, min_rows=min_shard_rows, **training
        )
        summarize = ProbClassSummarizeOperator.partial(
            task_id="summarize", workers=workers, **training
        ).expand(shard=plan.output)
        merge = ProbClassTrainOperator(
            task_id="merge",
            model=model,
            cache=True,
            density_quantiles=density_quantiles,
            workers=workers,
            # Without new units all mapped tasks are skipped, and the merge must still run.
            trigger_rule="none_failed_min_one_success",
            **training,
        )
        judged: dict[str, Any] = {
            **places,
            **gate,
            "source": held_out_source or source,
            "model": XComArg(merge, key="model"),
        }
        promote = ProbClassPromoteOperator(
            **judged,
            task_id="promote",
            partition=held_out_partition,
            where=held_out_where,
            workers=workers,
            outlets=list(outlets),
        )
        plan >> [summarize, merge]
        summarize >> merge >> promote
    return group


def score_task_group(
    group_id: str = "score",
    *,
    source: str,
    sink: str,
    store: str,
    model: str,
    partitions: Where | None = None,
    batch: int | Literal["auto"] = "auto",
    options: Mapping[str, Any] | None = None,
    where: Where | None = None,
    deleted: str = "keep",
    outlets: Sequence[Asset] = (),
    changed: Sequence[Asset] = (),
    workers: int | None = None,
    source_conn_id: str | None = None,
    sink_conn_id: str | None = None,
    store_conn_id: str | None = None,
    default_args: dict[str, Any] | None = None,
) -> TaskGroup:
    """Score the partitions of a table in mapped tasks, all with the same version of a model.

    The tasks are ``plan``, which resolves the model and divides the partitions that are missing or
    stale in the scored table into ranges, and ``score``, mapped over these. A partition that cannot
    be scored fails its task once the others of its range are committed; if nothing is missing or
    stale, ``score`` is skipped.

    Args:
        group_id: id of the group, the prefix of its task ids.
        source: path or URI of a partitioned table.
        sink: path or URI of the scored table.
        store: path or URI of the model store.
        model: ``name@alias`` or ``name@id``.
        partitions: score the partitions that meet these conditions on partition columns; all by
            default.
        batch: number of partitions of a task, about, or ``"auto"``, see
            `ProbClassPlanBatchesOperator`.
        options: options of scoring, see `ProbClassScoreOperator`.
        where: rows to score.
        deleted: what happens to partitions of the sink that are gone from the source, see
            `ProbClassScoreOperator`.
        outlets: assets of the scored table; each mapped task makes an event.
        changed: assets that get an event from each task that changed a partition.
        workers: number of threads of each task.
        source_conn_id: connection with the credentials of the source; see `ProbClassHook`.
        sink_conn_id: connection with the credentials of the sink.
        store_conn_id: connection with the credentials of the model store.
        default_args: arguments of all tasks, such as retries.
    """
    scoring: dict[str, Any] = {
        "source": source,
        "source_conn_id": source_conn_id,
        "store": store,
        "store_conn_id": store_conn_id,
        "sink": sink,
        "sink_conn_id": sink_conn_id,
        "where": where,
        "options": options,
        "deleted": deleted,
        "workers": workers,
    }
    with TaskGroup(group_id, default_args=default_args or {}) as group:  # type: ignore[arg-type]
        plan = ProbClassPlanBatchesOperator(
            task_id="plan", model=model, size=batch, partitions=partitions, **scoring
        )
        ProbClassScoreOperator.partial(
            task_id="score",
            model=XComArg(plan, key="model"),
            outlets=list(outlets),
            changed=list(changed),
            **scoring,
        ).expand(partitions=plan.output)
    return group


def rollback_task_group(
    group_id: str = "rollback",
    *,
    model: str,
    source: str,
    sink: str,
    store: str,
    alias: str = "champion",
    steps: int | str = 1,
    version: str | None = None,
    reason: str | None = None,
    options: Mapping[str, Any] | None = None,
    outlets: Sequence[Asset] = (),
    changed: Sequence[Asset] = (),
    source_conn_id: str | None = None,
    sink_conn_id: str | None = None,
    store_conn_id: str | None = None,
    default_args: dict[str, Any] | None = None,
) -> TaskGroup:
    """Roll back a model, and score again what the versions left behind have scored.

    The tasks are ``rollback``, a `ProbClassRollbackOperator`, and ``rescore``, a
    `ProbClassScoreOperator` that scores those partitions with the version in force; all others
    are left as they are. Repeated, also in part, the group changes nothing more.

    Args:
        group_id: id of the group, the prefix of its task ids.
        model: name of the model.
        source: path or URI of the table that is scored.
        sink: path or URI of the scored table.
        store: path or URI of the model store.
        alias: alias to move back.
        steps: number of promotions to undo.
        version: ``name@id`` to roll back from; the task fails if the alias names another one.
        reason: why, for the ledger.
        options: options of scoring, see `ProbClassScoreOperator`: the same as where the table is
            scored, since partitions scored by another rule are stale there.
        outlets: assets of the model, which get an event from ``rollback``.
        changed: assets of the scored table, which get an event if a partition was scored.
        source_conn_id: connection with the credentials of the source; see `ProbClassHook`.
        sink_conn_id: connection with the credentials of the sink.
        store_conn_id: connection with the credentials of the model store.
        default_args: arguments of both tasks, such as retries.
    """
    with TaskGroup(group_id, default_args=default_args or {}) as group:  # type: ignore[arg-type]
        rollback = ProbClassRollbackOperator(
            task_id="rollback",
            model=model,
            store=store,
            store_conn_id=store_conn_id,
            alias=alias,
            steps=steps,
            version=version,
            reason=reason,
            outlets=list(outlets),
        )
        in_force: Any = XComArg(rollback, key="model")
        left_behind: Any = XComArg(rollback, key="left_behind")
        ProbClassScoreOperator(
            task_id="rescore",
            source=source,
            source_conn_id=source_conn_id,
            sink=sink,
            sink_conn_id=sink_conn_id,
            store=store,
            store_conn_id=store_conn_id,
            model=in_force,
            partitions={"scored_by": left_behind},
            options=options,
            changed=changed,
        )
    return group
