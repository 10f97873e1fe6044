"""One table, many tasks: plans to map over, and the summary of a shard.

Mapped trainings share statistics through the model store, where each task stores the statistics of
the units that it has read; a `ProbClassTrainOperator` with ``cache`` merges them. XCom has only the
shards, such as ``"0:8"``, or ranges of partitions, one for each mapped task.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from probclass_airflow.base import ProbClassOperator
from probclass_airflow.score import ProbClassScoreOperator
from probclass_airflow.specs import model_spec

if TYPE_CHECKING:
    from airflow.sdk import Context

_MAX_XCOM_BYTES = 4096


class ProbClassPlanShardsOperator(ProbClassOperator):
    """Divide the units that a training has not read yet into shards of about equal size.

    Map a `ProbClassSummarizeOperator` over the output, then train with ``cache=True``. Units whose
    statistics are in the store already are in no shard, so without new units the list is empty.

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


class ProbClassPlanBatchesOperator(ProbClassScoreOperator):
    """Divide the partitions that are missing or stale in a scored table into ranges of equal work.

    With ``deleted="remove"``, partitions that are gone from the source are in the ranges, too.

    Map a `ProbClassScoreOperator` over the output as ``partitions``, with
    ``model=plan.output["model"]`` and the same options: a task for many partitions costs little
    more than a task for one. If nothing is missing or stale the list is empty, and the mapped tasks
    are skipped.

    Args:
        size: number of partitions of a batch, about; ``"auto"`` for at most 32 batches of at least
            a million rows, if there are so many.
        kwargs: as for `ProbClassScoreOperator`.

    Returns (XCom):
        The fields of `probclass_core.Partitions` for each batch, such as ``[{"first": {"month":
        "2014-01"}, "last": {"month": "2014-04"}}]``, and under the key ``model`` the ``name@id``.
        The `extra` of outlet assets has both.
    """

    ui_color = "#e8e8ee"

    def __init__(self, *, size: int | Literal["auto"] = "auto", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.size = size

    def execute(self, context: Context) -> Any:
        """Plan, and return the list of batches alone, because Airflow maps over a list."""
        return ProbClassOperator.execute(self, context)["batches"]

    def call(self, run: dict[str, str]) -> dict[str, Any]:
        """Compare, divide."""
        from probclass_core.errors import SpecError

        version, report, _ = self.score(run, dry_run=True)
        remove = self.deleted == "remove"
        if self.size == "auto":
            ranges = report.batches(orphaned=remove)
        else:
            count = len(report.pending) + remove * len(report.orphaned)
            ranges = report.batches(-(-count // self.size) or 1, min_rows=1, orphaned=remove)
        batches = [one.to_dict() for one in ranges]
        if (size := len(json.dumps(batches))) >= _MAX_XCOM_BYTES:
            raise SpecError(
                f"{len(batches)} batches take {size:,} bytes, and this XCom is limited to "
                f"{_MAX_XCOM_BYTES:,}; make batches larger than {self.size} partitions."
            )
        return {"model": version, "batches": batches, **report.counts}
