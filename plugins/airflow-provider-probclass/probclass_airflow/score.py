"""Score a table: one task scores whatever is missing or stale.

Asset events coalesce: a DAG on an asset runs once for several of them. So an event only wakes this
task, and the partitions follow from the tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, AssetAlias
from airflow.sdk.exceptions import AirflowFailException

from probclass_airflow.base import ProbClassOperator, Where
from probclass_airflow.hooks import table_ref

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage
    from airflow.sdk import Context

    from probclass_core import ProbClassError
    from probclass_core.scoring.reports import ScoreReport

_NAMES = 5
"""Partitions of each outcome that a summary names."""

_KEY_DELIMITER = "|"
"""Between the values of a partition key, as Airflow's `ProductMapper` has it."""

_MAX_SENTENCE = 300
"""Characters of a sentence in a summary; the log has all of it."""


class ProbClassScoreOperator(ProbClassOperator):
    """Score the partitions of a table that are missing in another, or stale there.

    A partition is stale if its input, the model or the rule (where, columns, decision) changed
    since it was scored. Each is committed on its own, and a retry leaves it as it is. One that
    cannot be scored fails alone: the others are committed, then the task fails, and a retry takes
    up only what is left. The task is retried if that may help one of them. This is
    `probclass_core.score`; the commits and the store record the run.

    Args:
        sink: path or URI of the scored table.
        model: ``name@alias`` or ``name@id``; an alias is resolved once, and the id is recorded.
        sink_conn_id: connection with the credentials of the sink; see `ProbClassHook`.
        partitions: conditions on partition columns, such as ``"month >= '2014-01'"``, a list of
            partitions, or a mapping of the fields of `probclass_core.Partitions`, such as
            ``{"where": [{"month": "2014-01"}], "catch_up": 7}``; all by default. In place of
            `partition`, which must have rows; both are a ValueError.
        options: mapping of the fields of `probclass_core.ScoringOptions`.
        deleted: partitions of the sink that are gone from the source: ``"keep"`` and report them,
            ``"remove"`` each in one step, or ``"fail"`` before anything is written.
        changed: assets that get an event if a partition was scored or removed, and after a retry.
        outlets: assets that get an event whenever the task succeeds. In a DAG whose runs have
            partitions, they get one for each partition that the run has scored, with its values as
            partition key, such as ``"2014-01"`` or ``"eu|2014-01"``.
        kwargs: source, store, partition, where, workers and the connections, see
            `ProbClassOperator`; arguments of `BaseOperator`.

    Returns (XCom, also of a failed task, and the `extra` of assets):
        model (``name@id``), partition, rows (in the sink because of this task or an equal one
        before it), scored_rows, scored, unchanged, pending, empty, orphaned, removed and failed
        (numbers of partitions), names (the first partitions of each outcome but unchanged), errors
        (the first of the partitions that failed), warnings (the first verdicts), model_id, uri,
        commit_id, seconds.
    """

    template_fields: Sequence[str] = (
        *ProbClassOperator.template_fields,
        "sink",
        "sink_conn_id",
        "model",
        "partitions",
        "options",
        "deleted",
    )
    ui_color = "#d3f0e3"

    def __init__(
        self,
        *,
        sink: str,
        model: str,
        sink_conn_id: str | None = None,
        partitions: Where | Sequence[Mapping[str, str]] | Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        deleted: str = "keep",
        changed: Sequence[Asset] = (),
        outlets: Sequence[Any] = (),
        **kwargs: Any,
    ) -> None:
        if partitions is not None and kwargs.get("partition") is not None:
            raise ValueError("give partition or partitions, not both.")
        aliases = _aliases(changed)
        # A mapped task has them already, see `partial`.
        outlets = [*(one for one in outlets if one not in aliases), *aliases]
        super().__init__(outlets=outlets, **kwargs)
        self.sink = sink
        self.model = model
        self.sink_conn_id = sink_conn_id
        self.partitions = partitions
        self.options = options
        self.deleted: Any = deleted  # checked after rendering, by the library
        self.changed = aliases

    @classmethod
    def partial(cls, **kwargs: Any) -> Any:
        """Begin a mapped task; Airflow only considers its ``outlets``."""
        aliases = _aliases(kwargs.get("changed", ()))
        return super().partial(**{**kwargs, "outlets": [*kwargs.get("outlets", ()), *aliases]})

    def execute(self, context: Context) -> Any:
        """Score; publish the summary also if some partitions failed.

        Raises:
            AirflowFailException, TableError: as `ProbClassOperator.execute`; if some partitions
                failed, which of them a retry may help decides.
        """
        self._failure: ProbClassError | None = None
        summary = super().execute(context)
        if self._failure is not None:
            context["ti"].xcom_push("return_value", summary)
            if self._failure.is_transient:
                raise self._failure
            raise AirflowFailException(str(self._failure))
        if self.outlets and _has_partitions(context):
            self._add_partition_keys(context)
        did = summary["scored"] or summary["removed"]
        if self.changed and (did or _is_retried(context)):
            for alias, asset in self.changed.items():
                context["outlet_events"][alias].add(asset, extra=summary)
        return summary

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> OperatorLineage[Any, Any]:
        """Inputs and outputs of the task; the columns are the features of the model."""
        import probclass_core as pc

        if self._summary is not None:
            with suppress(pc.ProbClassError):  # lineage never fails a task
                self.spec_used = self.model_store().load(self._summary["model"]).spec
        return super().get_openlineage_facets_on_complete(task_instance)

    def _add_partition_keys(self, context: Context) -> None:
        """Name what the run has scored in the events of the outlets, one for each partition."""
        scored = self._scored
        if _is_retried(context):  # an earlier attempt may have scored some
            import probclass_core as pc

            run = {"dag_id": self.dag_id, "run_id": context["run_id"]}
            found = pc.commits(table_ref(self.sink, self.sink_conn_id))
            scored = [
                record["partition"]
                for record in found
                if run.items() <= record["provenance"].get("airflow", {}).items()
            ]
        keys = [_KEY_DELIMITER.join(map(str, one.values())) for one in scored if one]
        assets = [outlet for outlet in self.outlets if isinstance(outlet, Asset)]
        for event in [context["outlet_events"][asset] for asset in assets if keys]:
            if hasattr(event, "add_partitions"):  # since Airflow 3.3
                event.add_partitions(keys)
        if not keys and context["dag_run"].partition_key is None:
            # Without a key, Airflow would warn that no DAG can be started.
            self.outlets = [one for one in self.outlets if one not in assets]

    def call(self, run: dict[str, str]) -> dict[str, Any]:
        """Compare, score, commit, record."""
        version, report, self._failure = self.score(run)
        self._scored = [one.partition for one in report.scored]
        for one in report.failed:
            self.log.error("%s failed: %s", one, one.cause)
        return {"model": version, "partition": self.partition, **summary_of(report)}

    def score(
        self, run: dict[str, str], *, dry_run: bool = False
    ) -> tuple[str, ScoreReport, ProbClassError | None]:
        """Score; returns ``name@id``, the report, and the error if some partitions failed."""
        import probclass_core as pc
        from probclass_core.errors import PartitionError

        store = self.model_store()
        version = store.resolve(self.model)
        reading = self.read_options()
        if self.partitions is not None:
            reading["partition"] = pc.Partitions.parse(self.partitions)
        try:
            report = pc.score(
                version,
                self.table(),
                table_ref(self.sink, self.sink_conn_id),
                options=self.options,
                deleted=self.deleted,
                dry_run=dry_run,
                store=store,
                provenance={"airflow": run},
                **reading,
            )
        except pc.ProbClassError as error:
            if error.report is None or (dry_run and not isinstance(error, PartitionError)):
                raise
            return version.ref, error.report, error.with_traceback(None)
        return version.ref, report, None


def _is_retried(context: Context) -> bool:
    return (getattr(context.get("ti"), "try_number", 1) or 1) > 1


def _has_partitions(context: Context) -> bool:
    """Whether the run has a partition key, or its task is to say which partitions it has."""
    timetable = getattr(context.get("dag"), "timetable", None)
    at_runtime = getattr(timetable, "partitioned_at_runtime", False)
    return at_runtime or getattr(context.get("dag_run"), "partition_key", None) is not None


def _aliases(changed: Sequence[Asset]) -> dict[AssetAlias, Asset]:
    """Assets that get an event only if a task adds it; any other outlet gets one in any case."""
    return {AssetAlias(f"probclass:{asset.uri}"): asset for asset in changed}


def summary_of(report: ScoreReport) -> dict[str, Any]:
    """A scoring in a few hundred bytes: counts, and the names of the first partitions."""
    names: dict[str, list[str]] = {}
    for one in report.partitions:
        if one.outcome != "unchanged" and len(names.setdefault(one.outcome, [])) < _NAMES:
            names[one.outcome].append(str(one))
    errors = [*dict.fromkeys(one.error or "" for one in report.failed)]
    return {
        "rows": report.rows,
        "scored_rows": report.scored_rows,
        **report.counts,
        "names": names,
        "errors": [_shortened(error) for error in errors[:_NAMES]],
        "warnings": [_shortened(sentence) for sentence in report.warnings[:_NAMES]],
        "model_id": report.model_id,
        "uri": report.uri,
        "commit_id": report.commit_id,
        "seconds": report.seconds,
    }


def _shortened(sentence: str) -> str:
    return sentence if len(sentence) <= _MAX_SENTENCE else f"{sentence[:_MAX_SENTENCE]} …"
