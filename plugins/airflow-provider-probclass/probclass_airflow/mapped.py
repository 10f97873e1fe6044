"""One table, many tasks: plans to map over, the summarizing of a shard, and the merge.

Shards meet in the model store, where each task keeps the statistics of the fragments it has read;
through XCom go positions such as ``"0:8"``, one for each mapped task.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from probclass_airflow.base import ProbClassOperator, model_spec
from probclass_airflow.hooks import store_at, table_at
from probclass_airflow.operators import ProbClassTrainOperator, Where

if TYPE_CHECKING:
    from airflow.sdk import Context

_MOST_PARTITIONS = 100
_LARGEST_MESSAGE = 4096
"""What one plan may have, and take as JSON."""


class ProbClassPlanShardsOperator(ProbClassOperator):
    """Cut what a training has yet to read into shards of about equal numbers of rows.

    Map a `ProbClassSummarizeOperator` over the output, then merge. Fragments whose statistics the
    store keeps already are in no shard, so where nothing is new there is nothing to map over.

    Args:
        source: path or URI of a Parquet file or (Hive-partitioned) directory.
        spec: the model, as for `ProbClassTrainOperator`.
        store: path or URI of the model store that keeps the statistics.
        partition: train on this partition alone.
        where: train on the rows that meet all of ``(column, operator, value)``.
        most: shards, at most; up to 100 keep the message small.
        min_rows: rows that are worth a task of their own.

    Returns (XCom):
        The shards as text, such as ``["0:8", "8:11"]``. The `extra` of outlet assets has shards,
        fragments, kept, rows.
    """

    template_fields: Sequence[str] = (
        *ProbClassOperator.template_fields,
        "source",
        "spec",
        "store",
        "partition",
        "where",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {
        "spec": "json",
        "partition": "json",
        "where": "json",
    }
    ui_color = "#e8e8ee"

    def __init__(
        self,
        *,
        source: str,
        spec: Mapping[str, Any] | str,
        store: str,
        partition: Mapping[str, str] | None = None,
        where: Where | None = None,
        most: int = 100,
        min_rows: int = 1_000_000,
        **kwargs: Any,
    ) -> None:
        super().__init__(multiple_outputs=False, **kwargs)
        self.source = source
        self.spec = spec
        self.store = store
        self.partition = partition
        self.where = where
        self.most = most
        self.min_rows = min_rows

    def execute(self, context: Context) -> list[str]:
        """Plan; Airflow maps over a list, so the shards alone are returned."""
        shards: list[str] = super().execute(context)["shards"]
        return shards

    def call(self, run: dict[str, str]) -> dict[str, Any]:
        """Plan."""
        import probclass_core as pc

        self.spec_of_call = spec = model_spec(self.spec)
        plan = pc.plan_shards(
            table_at(self.source, self.source_conn_id),
            spec,
            cache=store_at(self.store, self.store_conn_id),
            partition=self.partition,
            where=self.where,
            most=self.most,
            min_rows=self.min_rows,
        )
        return {
            "shards": [str(shard) for shard in plan.shards],
            "fragments": plan.fragments,
            "cached": plan.cached,
            "rows": plan.rows,
        }


class ProbClassSummarizeOperator(ProbClassOperator):
    """Summarize one shard of a table, and keep the statistics of its fragments in the store.

    A fragment's statistics are written in one step, under a name that its content decides: a retry
    reads only what is not there yet, and attempts that overlap write the same.

    Args:
        source: as for `ProbClassPlanShardsOperator`, as are spec, partition and where.
        spec: the model.
        store: path or URI of the model store that keeps the statistics.
        shard: one of the plan's, such as ``"0:8"``.
        partition: train on this partition alone.
        where: train on the rows that meet all of ``(column, operator, value)``.
        workers: threads to read with; the library decides by default.

    Returns (XCom and the `extra` of outlet assets):
        shard, rows, null_labels, spec_digest.
    """

    template_fields: Sequence[str] = (
        *ProbClassOperator.template_fields,
        "source",
        "spec",
        "store",
        "shard",
        "partition",
        "where",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {
        "spec": "json",
        "partition": "json",
        "where": "json",
    }
    ui_color = "#dfe9f5"

    def __init__(
        self,
        *,
        source: str,
        spec: Mapping[str, Any] | str,
        store: str,
        shard: str,
        partition: Mapping[str, str] | None = None,
        where: Where | None = None,
        workers: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.source = source
        self.spec = spec
        self.store = store
        self.shard = shard
        self.partition = partition
        self.where = where
        self.workers = workers

    def call(self, run: dict[str, str]) -> dict[str, Any]:
        """Summarize and keep."""
        import probclass_core as pc

        self.spec_of_call = spec = model_spec(self.spec)
        statistics = pc.summarize(
            table_at(self.source, self.source_conn_id),
            spec,
            partition=self.partition,
            where=self.where,
            workers=self.workers,
            progress=self.watch,
            cache=store_at(self.store, self.store_conn_id),
            shard=self.shard,
        )
        return {
            "shard": self.shard,
            "rows": statistics.rows,
            "null_labels": statistics.null_labels,
            "spec_digest": statistics.spec.digest,
        }


class ProbClassMergeOperator(ProbClassTrainOperator):
    """Merge what the shards of a training have kept, and save a model: the end of a training.

    Statistics merge in the order of the fragments, whoever summarized them and whenever: the model
    has the content id that one `ProbClassTrainOperator` would give it. Fragments that nobody
    summarized are read here, and the log says how many.

    Args:
        kwargs: as for `ProbClassTrainOperator`; source, spec, partition and where as in the plan.

    Returns (XCom and the `extra` of outlet assets):
        As `ProbClassTrainOperator` does, with cache: fragments, reused.
    """

    ui_color = "#c9dff2"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(cache=True, **kwargs)

    def call(self, run: dict[str, str]) -> dict[str, Any]:
        """Merge, save, promote."""
        summary = super().call(run)
        cache = summary["cache"]
        if cache["reused"] < cache["fragments"]:
            read = cache["fragments"] - cache["reused"]
            self.log.info("%d of %d fragments were read here", read, cache["fragments"])
        return summary


class ProbClassPlanPartitionsOperator(ProbClassOperator):
    """List the partitions of a table, and settle which version of a model is to score them.

    Map a `ProbClassScoreOperator` over the output, with ``model=plan.output["model"]``: an alias
    that moves between two of the mapped tasks then changes nothing.

    Args:
        source: path or URI of a (Hive-partitioned) directory.
        store: path or URI of the model store.
        model: ``name@alias`` or ``name@id``, to be resolved once.
        where: list the partitions that meet all of ``(column, operator, value)``; the columns are
            partition columns.

    Returns (XCom):
        The partitions, at most 100, such as ``[{"month": "2014-01"}]``, and under the key ``model``
        the ``name@id``. The `extra` of outlet assets has both.
    """

    template_fields: Sequence[str] = (
        *ProbClassOperator.template_fields,
        "source",
        "store",
        "model",
        "where",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {"where": "json"}
    ui_color = "#e8e8ee"

    def __init__(
        self,
        *,
        source: str,
        store: str,
        model: str,
        where: Where | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(multiple_outputs=False, **kwargs)
        self.source = source
        self.store = store
        self.model = model
        self.where = where

    def execute(self, context: Context) -> list[dict[str, str | None]]:
        """List; Airflow maps over a list, so the partitions alone are returned."""
        summary = super().execute(context)
        context["ti"].xcom_push("model", summary["model"])
        partitions: list[dict[str, str | None]] = summary["partitions"]
        return partitions

    def call(self, run: dict[str, str]) -> dict[str, Any]:
        """Resolve, list."""
        import probclass_core as pc

        version = store_at(self.store, self.store_conn_id).resolve(self.model)
        table = pc.open_table(table_at(self.source, self.source_conn_id))
        if not table.partition_columns:
            raise pc.TableError(
                f"{self.source} has no partitions to map over; score it in one task, by a "
                "ProbClassScoreOperator."
            )
        for column, *_ in self.where or ():
            if column not in table.partition_columns:
                raise pc.SpecError(
                    f"{column!r} is no partition column of {self.source}; it has "
                    f"{', '.join(map(repr, table.partition_columns))}."
                )
        found = table.partitions(self.where)
        if not found:
            raise pc.TableError(f"{self.source} has no partition where {self.where}.")
        if len(found) > _MOST_PARTITIONS:
            raise pc.SpecError(
                f"{self.source} has {len(found):,} partitions where {self.where}, and one run maps "
                f"over {_MOST_PARTITIONS}; narrow 'where', such as to the run's data interval."
            )
        partitions = [
            {name: None if value is None else str(value) for name, value in keys.items()}
            for keys in found
        ]
        if (size := len(json.dumps(partitions))) >= _LARGEST_MESSAGE:
            raise pc.SpecError(
                f"the names of {len(found)} partitions of {self.source} take {size:,} bytes, and a "
                f"message has less than {_LARGEST_MESSAGE:,}; narrow 'where', such as to the run's "
                "data interval."
            )
        return {"model": version.ref, "partitions": partitions}
