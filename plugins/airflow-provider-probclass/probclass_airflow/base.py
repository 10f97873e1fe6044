"""The base of all operators: everything around the one library call of a task.

`execute` checks the rendered fields, makes the call, publishes the summary as XCom and as the
`extra` of each outlet asset's event, and turns the library's errors into failures with or without a
retry. A task that gets SIGTERM stops between two batches, or right before it would commit.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import Asset, BaseOperator
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from probclass_airflow.hooks import connected, open_store, table_ref
from probclass_airflow.links import RunReportLink
from probclass_airflow.specs import parsed_spec, spec_sha256

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage
    from airflow.sdk import Context

    from probclass_core import Model, ModelSpec, ModelStore, TableRef
    from probclass_core.store.records import ModelVersion

Where = str | Sequence[str | tuple[str, str, Any]]
"""Rows to read: as text, such as ``"month >= '2014-01'"``, or a list of conditions."""


class ProbClassTaskStopped(AirflowException):
    """The task got SIGTERM and stopped before it committed anything."""


class ProbClassOperator(BaseOperator):
    """A task that makes one call of probclass on a table and a model store.

    A subclass implements `call` with `table`, `model_store` and `read_options`.

    Args:
        source: path or URI of the table: a Parquet file, a (Hive-partitioned) directory, a Delta or
            an Iceberg table; None for a task that reads no table.
        store: path or URI of the model store.
        partition: read only this partition, such as ``{"month": "2014-01"}``.
        where: read only the rows that meet every condition ``(column, operator, value)``.
        workers: number of threads; by default the option ``[probclass] workers``, or else one for
            each processor.
        source_conn_id: connection with the credentials of the source, see `ProbClassHook`; by
            default, the credentials of the machine.
        store_conn_id: connection with the credentials of the model store.
        multiple_outputs: push each entry of the summary as an XCom of its own as well, a row of
            Airflow's database each, so that a later task can use ``evaluate.output["accuracy"]``;
            `xcom_keys` are pushed in any case.
    """

    template_fields: Sequence[str] = (
        "source",
        "source_conn_id",
        "store",
        "store_conn_id",
        "partition",
        "where",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = dict.fromkeys(
        (
            "columns",
            "decision",
            "evaluation",
            "options",
            "partition",
            "partitions",
            "spec",
            "where",
        ),
        "json",
    )
    operator_extra_links: Sequence[RunReportLink] = (RunReportLink(),)

    saves_model: ClassVar[bool] = False
    """Whether the task saves the model that its summary names, rather than loads it."""

    xcom_keys: Sequence[str] = ("model",)
    """Entries of the summary that are XComs of their own, such as ``train.output["model"]``."""

    spec_used: ModelSpec | None = None
    """The spec of the model, once the call knows it; lineage reports its columns."""

    spec_sha256: str | None = None
    """Digest of the field ``spec``, if the task has one and it is known when the DAG is parsed."""

    _seconds_between_log_lines = 10.0
    _stop_requested = False
    _last_log_line = 0.0
    _summary: dict[str, Any] | None = None

    def __init__(
        self,
        *,
        source: str | None,
        store: str,
        partition: Mapping[str, str] | None = None,
        where: Where | None = None,
        workers: int | None = None,
        source_conn_id: str | None = None,
        store_conn_id: str | None = None,
        multiple_outputs: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(multiple_outputs=multiple_outputs, **kwargs)
        self.source = source
        self.store = store
        self.partition = partition
        self.where = where
        self.workers = workers
        self.source_conn_id = source_conn_id
        self.store_conn_id = store_conn_id

    @abstractmethod
    def call(self, run: dict[str, str]) -> dict[str, Any]:
        """Make the library call.

        Args:
            run: dag_id, task_id, run_id and, of a mapped task, map_index, to record in the
                provenance of results.

        Returns:
            The summary: references and numbers, never rows.
        """

    def execute(self, context: Context) -> Any:
        """Make the call, publish its summary, and return it.

        Raises:
            AirflowFailException: if a field, the spec, the data or a connection is wrong, or the
                table does not fit; the task fails without a retry, which would fail again.
            TableError, StoreError: if a table or model could not be read or written; the task is
                retried, as after any error with `is_transient`.
            ProbClassTaskStopped: if the task got SIGTERM; nothing is committed.
        """
        check_rendered_fields(self)
        self._read_configuration()
        self._last_log_line = time.monotonic()
        with TranslatedErrors(), connected(self._connections()):
            summary = self.call(self._run(context))
        self._summary = summary
        for outlet in self.outlets:
            if isinstance(outlet, Asset):
                context["outlet_events"][outlet].extra = summary
        if not self.multiple_outputs:
            for key in summary.keys() & {*self.xcom_keys}:
                context["ti"].xcom_push(key, summary[key])
        self.log.info("%s: %s", self.task_id, summary)
        return summary

    @classmethod
    def get_serialized_fields(cls) -> frozenset[str]:
        """The fields that a version of the DAG contains, besides the template fields."""
        return frozenset(BaseOperator.get_serialized_fields() | {"spec_sha256"})  # type: ignore[no-untyped-call]

    def resolve_template_files(self) -> None:
        """Read the spec file, when Airflow parses the DAG; see `specs`."""
        if "spec" in self.template_fields:
            self.spec: Any = parsed_spec(self, self.spec)
            self.spec_sha256 = spec_sha256(self.spec)
        super().resolve_template_files()

    def table(self) -> TableRef | str:
        """The source, with the options of its connection."""
        return table_ref(str(self.source), self.source_conn_id)

    def model_store(self) -> ModelStore:
        """The model store, with the options of its connection."""
        return open_store(self.store, self.store_conn_id)

    def read_options(self) -> dict[str, Any]:
        """Keyword arguments of a library function that reads the rows of the source."""
        return {
            "partition": self.partition,
            "where": self.where,
            "workers": self.workers,
            "progress": self.on_progress,
        }

    def load_model(self, store: ModelStore, ref: str) -> tuple[ModelVersion, Model]:
        """Resolve a reference, once, and load its model."""
        version = store.resolve(ref)
        model = store.load(version.ref)
        self.spec_used = model.spec
        return version, model

    def save_model(
        self, store: ModelStore, model: Model, name: str, alias: str | None, run: dict[str, str]
    ) -> ModelVersion:
        """Save a model and, if an alias is given, promote the version to it."""
        self.raise_if_stopped()
        version = store.save(model, name, provenance={"airflow": run})
        if alias is not None:
            self.raise_if_stopped()
            by = f"{run['dag_id']}.{run['task_id']}"
            store.promote(name, version, alias=alias, by=by, provenance={"airflow": run})
        return version

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> OperatorLineage[Any, Any]:
        """Inputs and outputs of the task, for Airflow's OpenLineage provider; see `lineage`."""
        from probclass_airflow.lineage import lineage_of

        return lineage_of(self, self._summary)

    def get_openlineage_facets_on_failure(self, task_instance: Any) -> OperatorLineage[Any, Any]:
        """Inputs and outputs of the failed task, without numbers."""
        return self.get_openlineage_facets_on_complete(task_instance)

    def on_kill(self) -> None:
        """Ask the running call to stop.

        Airflow calls this on SIGTERM and lets `execute` continue, so this only sets a flag.
        """
        self._stop_requested = True

    def raise_if_stopped(self) -> None:
        """Stop the task if it got SIGTERM; call this right before anything becomes visible.

        Raises:
            ProbClassTaskStopped: if the task got SIGTERM.
        """
        if self._stop_requested:
            raise ProbClassTaskStopped(
                f"{self.task_id} was asked to stop and stopped before it committed anything."
            )

    def on_progress(self, rows_done: int, rows_total: int | None) -> None:
        """Progress callback of the library: stop if asked to, and log at intervals.

        Raises:
            ProbClassTaskStopped: if the task got SIGTERM.
        """
        self.raise_if_stopped()
        now = time.monotonic()
        if now - self._last_log_line >= self._seconds_between_log_lines:
            self._last_log_line = now
            if rows_total:
                percent = 100 * rows_done / rows_total
                self.log.info(
                    "%s of %s rows (%.0f %%)", f"{rows_done:,}", f"{rows_total:,}", percent
                )
            else:
                self.log.info("%s rows", f"{rows_done:,}")

    def _run(self, context: Context) -> dict[str, str]:
        run = {"dag_id": self.dag_id, "task_id": self.task_id, "run_id": context["run_id"]}
        index = getattr(context.get("ti"), "map_index", None)
        return run if index in (None, -1) else {**run, "map_index": str(index)}

    def _read_configuration(self) -> None:
        """Apply the section ``[probclass]`` of Airflow's configuration."""
        seconds = conf.getfloat("probclass", "progress_seconds", fallback=10.0)
        self._seconds_between_log_lines = seconds
        if self.workers is None:
            self.workers = conf.getint("probclass", "workers", fallback=0) or None

    def _connections(self) -> Iterator[tuple[str, str]]:
        """The ids of connections with the URIs that they are for."""
        for field in ("source", "sink", "store"):
            conn_id = getattr(self, f"{field}_conn_id", None)
            if conn_id is not None:
                yield conn_id, getattr(self, field)


class TranslatedErrors(AbstractContextManager[None]):
    """Lets a task fail without a retry if the library raises an error that a retry cannot fix.

    Raises:
        AirflowFailException: for such an error.
        ProbClassError: an error that may go away, without its frames: its message is complete, and
            they would bury it in the log.
    """

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Raise the error as Airflow understands it."""
        import probclass_core as pc

        if isinstance(error, pc.ProbClassError):
            if not error.is_transient:
                raise AirflowFailException(str(error)) from None
            # A generator could not do this: `contextmanager` gives the frames back.
            raise error.with_traceback(None) from None


def check_rendered_fields(task: BaseOperator) -> None:
    """Refuse a task with a field that is empty after rendering.

    Raises:
        AirflowFailException: if a field is empty; the task fails without a retry.
    """
    for field in task.template_fields:
        if field == "spec":
            continue  # an empty string may be a category there; the library checks the rest
        for path, value in _leaves(field, getattr(task, field)):
            if isinstance(value, str) and not value.strip():
                raise AirflowFailException(
                    f"{type(task).__name__} {task.task_id!r}: {path} is empty after rendering; "
                    "check the variable, param or upstream result that its template names."
                )


def _leaves(path: str, value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _leaves(f"{path}[{key!r}]", item)
    elif isinstance(value, (list, tuple)):
        for position, item in enumerate(value):
            yield from _leaves(f"{path}[{position}]", item)
    else:
        yield path, value
