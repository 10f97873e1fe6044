"""What every probclass operator does around its one library call.

`execute` looks at the rendered fields, makes the call, publishes the summary as XCom and as the
`extra` of each outlet asset's event, and turns the library's errors into what Airflow should do
next. A task that is told to stop does so between two batches, or just before it would commit.
"""

from __future__ import annotations

import json
import time
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import Asset, BaseOperator
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from probclass_airflow.hooks import connected
from probclass_airflow.links import ModelCardLink, RunReportLink

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage
    from airflow.sdk import Context

    from probclass_core import ModelSpec


class ProbClassTaskStopped(AirflowException):
    """The task was told to stop (SIGTERM), and stopped before anything was committed."""


class ProbClassOperator(BaseOperator):
    """A task that makes one call of probclass; a subclass says which, in `call`.

    Args:
        source_conn_id: connection with the credentials of the source; see `ProbClassHook`. Those
            of the machine by default, as for the others.
        store_conn_id: connection with the credentials of the model store.
        multiple_outputs: let each entry of the summary be an XCom of its own as well, so that a
            later task can take ``train.output["model"]``.
    """

    template_fields: Sequence[str] = ("source_conn_id", "store_conn_id")

    operator_extra_links = (ModelCardLink(), RunReportLink())

    makes_model: ClassVar[bool] = False
    """Whether the model that the task names is what it saves, rather than what it loads."""

    spec_of_call: ModelSpec | None = None
    """The model's, once the call knows it; its columns are told to lineage."""

    _seconds_between_log_lines = 10.0
    _stop_requested = False
    _last_log_line = 0.0
    _summary: dict[str, Any] | None = None

    def __init__(
        self,
        *,
        source_conn_id: str | None = None,
        store_conn_id: str | None = None,
        multiple_outputs: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(multiple_outputs=multiple_outputs, **kwargs)
        self.source_conn_id = source_conn_id
        self.store_conn_id = store_conn_id

    @abstractmethod
    def call(self, run: dict[str, str]) -> dict[str, Any]:
        """Make the library call and return its summary: references and numbers, never rows.

        Args:
            run: dag_id, task_id and run_id, to be recorded with what the call leaves behind.
        """

    def execute(self, context: Context) -> Any:
        """Run the call, tell the outlet assets, and return the summary.

        Raises:
            AirflowFailException: the spec, the data, a connection or a rendered field is wrong; a
                retry would fail alike, so none is made.
            TableError, StoreError: a table or model could not be reached; retried as the task says.
            ProbClassTaskStopped: the task was told to stop; nothing was committed.
        """
        self._check_rendered_fields()
        self._take_settings()
        import probclass_core as pc

        self._last_log_line = time.monotonic()
        try:
            with connected(self._connections()):
                summary = self.call(
                    {"dag_id": self.dag_id, "task_id": self.task_id, "run_id": context["run_id"]}
                )
        except (pc.SpecError, pc.DataError, pc.PluginError, pc.NotSupportedError) as error:
            raise AirflowFailException(str(error)) from None
        except pc.ProbClassError as error:
            # The message says it all; the frames of the library below would bury it in the log.
            raise error.with_traceback(None) from None
        self._summary = summary
        for outlet in self.outlets:
            if isinstance(outlet, Asset):
                context["outlet_events"][outlet].extra = summary
        self.log.info("%s: %s", self.task_id, summary)
        return summary

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> OperatorLineage[Any, Any]:
        """What the task read and wrote, for Airflow's OpenLineage provider; see `lineage`."""
        from probclass_airflow.lineage import lineage_of

        return lineage_of(self, self._summary)

    def get_openlineage_facets_on_failure(self, task_instance: Any) -> OperatorLineage[Any, Any]:
        """What the task was to read and write; there are no numbers to tell."""
        return self.get_openlineage_facets_on_complete(task_instance)

    def on_kill(self) -> None:
        """Ask the running call to stop; `watch` and `stop_if_asked` see to it.

        Airflow calls this on SIGTERM and then lets `execute` go on, so a flag is what is needed.
        """
        self._stop_requested = True

    def stop_if_asked(self) -> None:
        """Raise if the task was told to stop: call it right before anything becomes visible.

        Raises:
            ProbClassTaskStopped: it was.
        """
        if self._stop_requested:
            raise ProbClassTaskStopped(
                f"{self.task_id} was told to stop, and did so before anything was committed."
            )

    def watch(self, rows_done: int, rows_total: int | None) -> None:
        """The library's progress callback: stop if asked, else log now and then.

        Raises:
            ProbClassTaskStopped: the task was told to stop.
        """
        self.stop_if_asked()
        now = time.monotonic()
        if now - self._last_log_line >= self._seconds_between_log_lines:
            self._last_log_line = now
            if rows_total:
                share = 100 * rows_done / rows_total
                self.log.info("%s of %s rows (%.0f %%)", f"{rows_done:,}", f"{rows_total:,}", share)
            else:
                self.log.info("%s rows", f"{rows_done:,}")

    def _take_settings(self) -> None:
        """What the section ``[probclass]`` of Airflow's configuration says; see `provider_info`."""
        seconds = conf.getfloat("probclass", "progress_seconds", fallback=10.0)
        self._seconds_between_log_lines = seconds
        if getattr(self, "workers", None) is None:
            self.workers = conf.getint("probclass", "workers", fallback=0) or None

    def _connections(self) -> Iterator[tuple[str, str]]:
        """The ids of connections, and the places that they open."""
        for field in ("source", "sink", "store"):
            conn_id = getattr(self, f"{field}_conn_id", None)
            if conn_id is not None:
                yield conn_id, getattr(self, field)

    def _check_rendered_fields(self) -> None:
        for field in self.template_fields:
            if field == "spec":
                continue  # empty text may be a category there; the library checks the rest of it
            for place, value in _leaves(field, getattr(self, field)):
                if isinstance(value, str) and not value.strip():
                    raise AirflowFailException(
                        f"{type(self).__name__} {self.task_id!r}: {place} is empty once rendered; "
                        "check the variable, param or upstream result that its template names."
                    )


def model_spec(spec: Mapping[str, Any] | str) -> ModelSpec:
    """The model of an operator's field `spec`: a dict, or the path of a TOML, YAML or JSON file.

    Raises:
        SpecError: it is no spec.
    """
    import probclass_core as pc

    if isinstance(spec, Mapping):
        return pc.ModelSpec.from_dict(spec)
    return pc.ModelSpec.from_file(spec)


def judged_rows(task: ProbClassOperator) -> dict[str, Any]:
    """Which rows a task judges a model on, and by which decision, as plain values to record."""
    fields = ("source", "partition", "where", "decision")
    given = {name: getattr(task, name) for name in fields if getattr(task, name) is not None}
    return dict(json.loads(json.dumps(given, default=str)))  # a condition may hold a date


def _leaves(place: str, value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _leaves(f"{place}[{key!r}]", item)
    elif isinstance(value, (list, tuple)):
        for position, item in enumerate(value):
            yield from _leaves(f"{place}[{position}]", item)
    else:
        yield place, value
