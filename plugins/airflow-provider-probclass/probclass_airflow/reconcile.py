"""Reconcile a scored table with its source: one task scores whatever is missing or stale.

Asset events coalesce: a DAG on an asset runs once for several of them. So an event only wakes this
task, and the partitions follow from the tables.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from airflow.sdk import Asset, AssetAlias
from airflow.sdk.exceptions import AirflowFailException

from probclass_airflow.base import ProbClassOperator, Where
from probclass_airflow.hooks import table_ref
from probclass_airflow.mapped import MAX_XCOM_BYTES
from probclass_airflow.operators import ProbClassScoreOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

    from probclass_core import Model, ModelStore, PartitionError, ReconcileReport

_NAMES = 5
"""Partitions of each outcome that a summary names."""

_MAX_SENTENCE = 300
"""Characters of the error of a partition in a summary; the log has all of it."""


class ProbClassReconcileOperator(ProbClassScoreOperator):
    """Score the partitions of a table that are missing in another, or stale there.

    A partition is stale if its input, the model or the rule (where, columns, decision) changed
    since it was scored. Each is committed on its own. One that cannot be scored fails alone: the
    others are committed, then the task fails, and a retry takes up only what is left. The task is
    retried if that may help one of them.

    Args:
        partitions: conditions on partition columns, such as ``"month >= '2014-01'"``, or a list of
            partitions; all by default. With `partition`, that one alone.
        batch: first and last partition of a range, from a plan of several tasks.
        catch_up: with `partition`, number of partitions before it that are scored as well if they
            are missing in the sink.
        scored_by: ``name@id`` or a list of them; only partitions that these versions scored, such
            as the ``left_behind`` of a `ProbClassRollbackOperator`.
        deleted: partitions of the sink that are gone from the source: ``"keep"`` and report them,
            ``"remove"`` each in one step, or ``"fail"`` before anything is written.
        missing: partitions that were asked for by name and do not exist or have no rows:
            ``"skip"`` or ``"fail"``.
        limit: largest number of partitions to score in this run.
        changed: assets that get an event if a partition was scored or removed, and after a retry;
            `outlets` get one whenever the task succeeds.
        kwargs: sink, model, columns, posterior, decision, prior, watch, missing_columns, schema and
            the connections, see `ProbClassScoreOperator`; source, store, partition, where and
            workers, see `ProbClassOperator`; arguments of `BaseOperator`.

    Returns (XCom, also of a failed task, and the `extra` of assets):
        model (``name@id``), rows (scored now), scored, unchanged, pending, empty, orphaned, removed
        and failed (numbers of partitions), names (the first partitions of each outcome but
        unchanged), errors (of the first partitions that failed), warnings (the first verdicts),
        model_id, uri, seconds.
    """

    template_fields: Sequence[str] = (
        *ProbClassScoreOperator.template_fields,
        "partitions",
        "batch",
        "catch_up",
        "scored_by",
        "deleted",
        "missing",
        "limit",
    )
    ui_color = "#b9e4d0"

    def __init__(
        self,
        *,
        partitions: Where | Sequence[Mapping[str, str]] | None = None,
        batch: Mapping[str, Any] | None = None,
        catch_up: int | str = 0,
        scored_by: Sequence[str] | str | None = None,
        deleted: str = "keep",
        missing: str = "skip",
        limit: int | str | None = None,
        changed: Sequence[Asset] = (),
        outlets: Sequence[Any] = (),
        **kwargs: Any,
    ) -> None:
        aliases = _aliases(changed)
        # A mapped task has them already, see `partial`.
        outlets = [*(one for one in outlets if one not in aliases), *aliases]
        super().__init__(outlets=outlets, **kwargs)
        if self.overwrite != "partition":
            raise ValueError(f"{self.task_id!r}: overwrite is of ProbClassScoreOperator.")
        self.partitions = partitions
        self.batch = batch
        self.catch_up = catch_up
        self.scored_by = scored_by
        self.deleted: Any = deleted  # checked after rendering, by the library
        self.missing: Any = missing
        self.limit = limit
        self.changed = aliases

    @classmethod
    def partial(cls, **kwargs: Any) -> Any:
        """Begin a mapped task; Airflow only considers its ``outlets``."""
        aliases = _aliases(kwargs.get("changed", ()))
        return super().partial(**{**kwargs, "outlets": [*kwargs.get("outlets", ()), *aliases]})

    def execute(self, context: Context) -> Any:
        """Reconcile; publish the summary also if some partitions failed.

        Raises:
            AirflowFailException, TableError: as `ProbClassOperator.execute`; if some partitions
                failed, which of them a retry may help decides.
        """
        self._failure: PartitionError | None = None
        summary = super().execute(context)
        if self._failure is not None:
            context["ti"].xcom_push("return_value", summary)
            if self._failure.is_transient:
                raise self._failure
            raise AirflowFailException(str(self._failure))
        retried = (getattr(context.get("ti"), "try_number", 1) or 1) > 1
        if retried or summary["scored"] or summary["removed"]:
            for alias, asset in self.changed.items():
                context["outlet_events"][alias].add(asset, extra=summary)
        return summary

    def call(self, run: dict[str, str]) -> dict[str, Any]:
        """Load, compare, score, commit."""
        store = self.model_store()
        version, model = self.load_model(store, self.model)
        with self.recorded_stops(store, version, run):
            report, self._failure = self.reconcile(store, model, run)
        self.record(store, version, report, run)
        for one in report.failed:
            self.log.error("%s failed: %s", one, one.error)
        return {"model": version.ref, **summary_of(report)}

    def reconcile(
        self, store: ModelStore, model: Model, run: dict[str, str], *, dry_run: bool = False
    ) -> tuple[ReconcileReport, PartitionError | None]:
        """Reconcile with a model; returns the report, and the error if some partitions failed."""
        import probclass_core as pc

        options = self.read_options()
        partition = options.pop("partition")
        scored_by = [self.scored_by] if isinstance(self.scored_by, str) else self.scored_by
        try:
            report = pc.reconcile(
                model,
                self.table(),
                table_ref(self.sink, self.sink_conn_id),
                partitions=self.partitions if partition is None else [partition],
                batch=None if self.batch is None else pc.PartitionRange(**self.batch),
                catch_up=int(self.catch_up),
                scored_by=scored_by and [store.resolve(ref).id for ref in scored_by],
                deleted=self.deleted,
                missing=self.missing,
                limit=None if self.limit is None else int(self.limit),
                dry_run=dry_run,
                **self.score_options(run),
                **options,
            )
        except pc.PartitionError as error:
            return error.report, error.with_traceback(None)
        return report, None


class ProbClassPlanBatchesOperator(ProbClassReconcileOperator):
    """Divide the partitions that are missing or stale in a scored table into ranges of equal work.

    With ``deleted="remove"``, partitions that are gone from the source are in the ranges, too.

    Map a `ProbClassReconcileOperator` over the output as ``batch``, with
    ``model=plan.output["model"]`` and the same arguments: a task for many partitions costs little
    more than a task for one. If nothing is missing or stale the list is empty, and the mapped tasks
    are skipped.

    Args:
        size: number of partitions of a batch, about; ``"auto"`` for at most 32 batches of at least
            a million rows, if there are so many.
        kwargs: as for `ProbClassReconcileOperator`, which must get the same.

    Returns (XCom):
        The first and last partition of each batch, such as ``[{"first": {"month": "2014-01"},
        "last": {"month": "2014-04"}}]``, and under the key ``model`` the ``name@id``. The `extra`
        of outlet assets has both.
    """

    ui_color = "#e8e8ee"

    def __init__(self, *, size: int | Literal["auto"] = "auto", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.size = size

    def execute(self, context: Context) -> Any:
        """Plan, and return the list of batches alone, because Airflow maps over a list."""
        return ProbClassOperator.execute(self, context)["batches"]

    def call(self, run: dict[str, str]) -> dict[str, Any]:
        """Resolve the model, compare, divide."""
        import probclass_core as pc

        store = self.model_store()
        version, model = self.load_model(store, self.model)
        report, _ = self.reconcile(store, model, run, dry_run=True)
        remove = self.deleted == "remove"
        if self.size == "auto":
            ranges = report.batches(orphaned=remove)
        else:
            count = len(report.pending) + remove * len(report.orphaned)
            ranges = report.batches(-(-count // self.size) or 1, min_rows=1, orphaned=remove)
        batches = [one.to_dict() for one in ranges]
        if (size := len(json.dumps(batches))) >= MAX_XCOM_BYTES:
            raise pc.SpecError(
                f"{len(batches)} batches take {size:,} bytes, and this XCom is limited to "
                f"{MAX_XCOM_BYTES:,}; make batches larger than {self.size} partitions."
            )
        return {"model": version.ref, "batches": batches, **report.counts}


def _aliases(changed: Sequence[Asset]) -> dict[AssetAlias, Asset]:
    """Assets that get an event only if a task adds it; any other outlet gets one in any case."""
    return {AssetAlias(f"probclass:{asset.uri}"): asset for asset in changed}


def summary_of(report: ReconcileReport) -> dict[str, Any]:
    """A reconciliation in a few hundred bytes: counts, and the names of the first partitions."""
    names: dict[str, list[str]] = {}
    for one in report.partitions:
        if one.outcome != "unchanged" and len(names.setdefault(one.outcome, [])) < _NAMES:
            names[one.outcome].append(str(one))
    return {
        "rows": report.rows,
        **report.counts,
        "names": names,
        "errors": [(one.error or "")[:_MAX_SENTENCE] for one in report.failed[:_NAMES]],
        "warnings": [sentence[:_MAX_SENTENCE] for sentence in report.warnings[:_NAMES]],
        "model_id": report.model_id,
        "uri": report.uri,
        "seconds": report.seconds,
    }
