"""One table, many tasks: plans to map over, the summary of a shard, and the merge.

Mapped tasks share statistics through the model store, where each task stores the statistics of the
units that it has read. XCom has only the shards, such as ``"0:8"``, one for each mapped task.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from probclass_airflow.base import ProbClassOperator
from probclass_airflow.operators import ProbClassTrainOperator
from probclass_airflow.specs import model_spec

if TYPE_CHECKING:
    from airflow.sdk import Context

_MAX_PARTITIONS = 100
MAX_XCOM_BYTES = 4096


class ProbClassPlanShardsOperator(ProbClassOperator):
    """Divide the units that a training has not read yet into shards of about equal size.

    Map a `ProbClassSummarizeOperator` over the output, then merge. Units whose statistics are
    in the store already are in no shard, so without new units the list is empty.

    Args:
        spec: the model, as for `ProbClassTrainOperator`.
        max_shards: greatest number of shards; up to 100 keep the XCom small.
        min_rows: least number of rows of a shard.
        kwargs: source, store, partition, where and the connections, see `ProbClassOperator`;
            arguments of `BaseOperator`. The store keeps the statistics.

    Returns (XCom):
        The shards as text, such as ``["0:8", "8:11"]``. The `extra` of outlet assets has shards,
        units, cached, rows.
    """

    template_fields: Sequence[str] = (*ProbClassOperator.template_fields, "spec")
    ui_color = "#e8e8ee"

    def __init__(
        self,
        *,
        spec: Mapping[str, Any] | str,
        max_shards: int = 100,
        min_rows: int = 1_000_000,
        **kwargs: Any,
    ) -> None:
        super().__init__(workers=None, **kwargs)
        self.spec = spec
        self.max_shards = max_shards
        self.min_rows = min_rows

    def execute(self, context: Context) -> list[str]:
        """Plan, and return the list of shards alone, because Airflow maps over a list."""
        shards: list[str] = super().execute(context)["shards"]
        return shards

    def call(self, run: dict[str, str]) -> dict[str, Any]:
        """Plan."""
        from probclass_core.training.shards import plan_shards

        self.spec_used = spec = model_spec(self, self.spec)
        plan = plan_shards(
            self.table(),
            spec,
            cache=self.model_store(),
            partition=self.partition,
            where=self.where,
            most=self.max_shards,
            min_rows=self.min_rows,
        )
        return {
            "shards": [str(shard) for shard in plan.shards],
            "units": plan.units,
            "cached": plan.cached,
            "rows": plan.rows,
        }


class ProbClassSummarizeOperator(ProbClassOperator):
    """Summarize one shard of a table, and store the statistics of its units.

    The statistics of a unit are written in one step, under a name that depends on its content:
    a retry reads only units that are not stored yet, and attempts that overlap write the same
    files.

    Args:
        spec: the model, as in the plan.
        shard: a shard of the plan, such as ``"0:8"``.
        kwargs: source, store, partition, where, workers and the connections, see
            `ProbClassOperator`; arguments of `BaseOperator`. Source, partition and where must be
            those of the plan.

    Returns (XCom and the `extra` of outlet assets):
        shard, rows, null_labels, spec_digest.
    """

    template_fields: Sequence[str] = (*ProbClassOperator.template_fields, "spec", "shard")
    ui_color = "#dfe9f5"

    def __init__(self, *, spec: Mapping[str, Any] | str, shard: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.spec = spec
        self.shard = shard

    def call(self, run: dict[str, str]) -> dict[str, Any]:
        """Summarize the shard and store its statistics."""
        import probclass_core as pc

        self.spec_used = spec = model_spec(self, self.spec)
        statistics = pc.summarize(
            self.table(),
            spec,
            cache=self.model_store(),
            shard=self.shard,
            **self.read_options(),
        )
        return {
            "shard": self.shard,
            "rows": statistics.rows,
            "null_labels": statistics.null_labels,
            "spec_digest": statistics.spec.digest,
        }


class ProbClassMergeOperator(ProbClassTrainOperator):
    """Merge the statistics of a training's shards and save the model.

    Statistics are merged in the order of the units, whichever task summarized them: the model
    has the content id that one `ProbClassTrainOperator` would give it. Units without stored
    statistics are read by this task, and the log has their number.

    Args:
        kwargs: as for `ProbClassTrainOperator`, without ``cache``; source, spec, partition and
            where must be those of the plan.

    Returns (XCom and the `extra` of outlet assets):
        As `ProbClassTrainOperator` with ``cache``: units, reused.
    """

    ui_color = "#c9dff2"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(cache=True, **kwargs)

    def call(self, run: dict[str, str]) -> dict[str, Any]:
        """Merge, save, promote."""
        summary = super().call(run)
        cache = summary["cache"]
        if cache["reused"] < cache["units"]:
            missing = cache["units"] - cache["reused"]
            self.log.info("Read %d of %d units in this task", missing, cache["units"])
        return summary


class ProbClassPlanPartitionsOperator(ProbClassOperator):
    """List the partitions of a table, and resolve the version of a model that scores them.

    Map a `ProbClassScoreOperator` over the output, with ``model=plan.output["model"]``: all mapped
    tasks then use the same version, even if an alias moves between them.

    Args:
        model: ``name@alias`` or ``name@id``, resolved once.
        kwargs: source, store, where and the connections, see `ProbClassOperator`; arguments of
            `BaseOperator`. The source is a partitioned table, and the columns of ``where`` are
            partition columns.

    Returns (XCom):
        The partitions, at most 100, such as ``[{"month": "2014-01"}]``, and under the key ``model``
        the ``name@id``. The `extra` of outlet assets has both.
    """

    template_fields: Sequence[str] = (*ProbClassOperator.template_fields, "model")
    ui_color = "#e8e8ee"

    def __init__(self, *, model: str, **kwargs: Any) -> None:
        super().__init__(partition=None, workers=None, **kwargs)
        self.model = model

    def execute(self, context: Context) -> list[dict[str, str | None]]:
        """List, and return the list of partitions alone, because Airflow maps over a list."""
        partitions: list[dict[str, str | None]] = super().execute(context)["partitions"]
        return partitions

    def call(self, run: dict[str, str]) -> dict[str, Any]:
        """Resolve the model and list the partitions."""
        import probclass_core as pc
        from probclass_core.errors import SpecError, TableError, TableMismatchError
        from probclass_core.io.filters import parse_where

        version = self.model_store().resolve(self.model)
        table = pc.open_table(self.table())
        if not table.partition_columns:
            raise TableMismatchError(
                f"{self.source} has no partitions to map over; score it in one task, with a "
                "ProbClassScoreOperator."
            )
        where = parse_where(self.where)
        for column, *_ in where or ():
            if column not in table.partition_columns:
                raise SpecError(
                    f"{column!r} is not a partition column of {self.source}; it has "
                    f"{', '.join(map(repr, table.partition_columns))}."
                )
        keys = table.partitions(where)
        if not keys:
            raise TableError(f"{self.source} has no partition where {self.where}.")
        if len(keys) > _MAX_PARTITIONS:
            raise SpecError(
                f"{self.source} has {len(keys):,} partitions where {self.where}, and one run maps "
                f"over at most {_MAX_PARTITIONS}; narrow 'where', for example to the data interval "
                "of the run, or score them in batches: score_task_group(batch='auto')."
            )
        partitions = [
            {name: None if value is None else str(value) for name, value in key.items()}
            for key in keys
        ]
        if (size := len(json.dumps(partitions))) >= MAX_XCOM_BYTES:
            raise SpecError(
                f"the names of {len(keys)} partitions of {self.source} take {size:,} bytes, and "
                f"this XCom is limited to {MAX_XCOM_BYTES:,}; narrow 'where', for example to the "
                "data interval of the run."
            )
        return {"model": version.ref, "partitions": partitions}
