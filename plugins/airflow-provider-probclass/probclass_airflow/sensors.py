"""Wait until the rows of a table have labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseSensorOperator, PokeReturnValue, timezone
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowFailException, AirflowSensorTimeout, TaskDeferred

from probclass_airflow.base import Where, check_rendered_fields
from probclass_airflow.hooks import connected, table_ref

if TYPE_CHECKING:
    from airflow.sdk import Context


@dataclass(frozen=True)
class LabelCheck:
    """How many rows of a table must have a label.

    Attributes:
        source: path or URI of the table.
        label: the class column.
        partition: partition to count, or None for all.
        where: rows to count, or None for all.
        min_share: least share of rows with a label, from 0 to 1.
        min_rows: least number of rows with a label.
        source_conn_id: connection with the credentials of the source, or None.
    """

    source: str
    label: str
    partition: Mapping[str, str] | None
    where: Where | None
    min_share: float
    min_rows: int
    source_conn_id: str | None

    def run(self) -> tuple[dict[str, Any] | None, str]:
        """Count the labels.

        Returns:
            rows, labeled and share if they suffice, or else None; and the state in one sentence.

        Raises:
            AirflowFailException: if waiting cannot help, as for a column that does not exist.
        """
        import probclass_core as pc
        from probclass_core.io.labels import count_labels

        conn_id = self.source_conn_id
        try:
            with connected([] if conn_id is None else [(conn_id, self.source)]):
                counts = count_labels(
                    table_ref(self.source, conn_id),
                    self.label,
                    partition=self.partition,
                    where=self.where,
                )
        except pc.ProbClassError as error:
            if not error.is_transient:
                raise AirflowFailException(str(error)) from None
            return None, str(error)  # the partition may not be there yet
        enough = counts.labeled >= self.min_rows and counts.share >= self.min_share
        state = (
            f"{counts.labeled:,} of {counts.rows:,} rows of {self.source} "
            f"{'' if self.partition is None else f'in {dict(self.partition)} '}"
            f"have a label {self.label!r} ({counts.share:.1%})"
        )
        if not enough:
            state += f"; waiting for {self.min_share:.0%} and at least {self.min_rows:,}"
        return counts.to_dict() if enough else None, f"{state}."


class ProbClassLabelsSensor(BaseSensorOperator):
    """Wait until enough rows of a table have a label, because labels come later than the rows.

    A check reads only the label; see `count_labels`. A partition
    that does not exist yet has no labels. A missing column fails the task at once.

    Args:
        source: path or URI of the table, see `ProbClassOperator`.
        label_column: the class column; in Airflow, a task has another `label`.
        partition: count only this partition, such as ``{"month": "2014-01"}``.
        where: count only the rows that meet every condition ``(column, operator, value)``.
        min_share: least share of the rows with a label. Some rows may never get one: of the 60
            months of the demo, the least has 65 %.
        min_rows: least number of rows with a label.
        source_conn_id: connection with the credentials of the source, see `ProbClassHook`.
        deferrable: wait in the triggerer, without a worker; by default the option ``[operators]
            default_deferrable``. The triggerer needs this package and the same access to the table.
        mode: ``"reschedule"`` gives the worker back between two checks, ``"poke"`` keeps it; only
            if the sensor is not deferrable.
        poke_interval: time or seconds between two checks; by default a twelfth of the timeout, from
            one second to ten minutes.
        kwargs: arguments of `BaseSensorOperator`, such as timeout and soft_fail, and of
            `BaseOperator`.

    Returns (XCom):
        rows, labeled, share.
    """

    template_fields: Sequence[str] = (
        "source",
        "source_conn_id",
        "label_column",
        "partition",
        "where",
        "min_share",
        "min_rows",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {"partition": "json", "where": "json"}
    ui_color = "#e8e8ee"

    _state = "The labels were not counted."

    def __init__(
        self,
        *,
        source: str,
        label_column: str,
        partition: Mapping[str, str] | None = None,
        where: Where | None = None,
        min_share: float | str = 0.5,
        min_rows: int | str = 1,
        source_conn_id: str | None = None,
        deferrable: bool | None = None,
        mode: str = "reschedule",
        poke_interval: timedelta | float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(mode=mode, poke_interval=poke_interval or 1.0, **kwargs)
        if poke_interval is None:
            self.poke_interval = min(max(self.timeout / 12, 1.0), 600.0)
        self.source = source
        self.label_column = label_column
        self.partition = partition
        self.where = where
        self.min_share = min_share
        self.min_rows = min_rows
        self.source_conn_id = source_conn_id
        if deferrable is None:
            deferrable = conf.getboolean("operators", "default_deferrable", fallback=False)
        self.deferrable = deferrable

    def execute(self, context: Context) -> Any:
        """Check until there are enough labels, on the worker or in the triggerer.

        Raises:
            AirflowFailException: if waiting cannot help; the task fails without a retry.
            AirflowSensorTimeout: if the labels did not arrive in time.
        """
        if self.deferrable:
            # Airflow applies soft_fail and never_fail to a method that it resumes.
            return self.resume_execution("check_or_defer", None, context)
        try:
            return super().execute(context)
        except AirflowSensorTimeout:
            raise self._too_late(self._state) from None

    def poke(self, context: Context) -> PokeReturnValue:
        """Check once."""
        counts, self._state = self._check().run()
        self.log.info("%s", self._state)
        return PokeReturnValue(counts is not None, counts)

    def check_or_defer(self, context: Context) -> Any:
        """Check once, and leave further checks to the triggerer."""
        checked = self.poke(context)
        if checked:
            return checked.xcom_value
        from probclass_airflow.triggers import ProbClassLabelsTrigger

        deadline = timezone.utcnow() + timedelta(seconds=self.timeout)
        trigger = ProbClassLabelsTrigger(
            asdict(self._check()), self.poke_interval, deadline.timestamp()
        )
        raise TaskDeferred(trigger=trigger, method_name="resume")

    def resume(self, context: Context, event: dict[str, Any]) -> Any:
        """End the task with the event of the trigger."""
        self.log.info("%s", event["state"])
        if event["failed"]:
            raise AirflowFailException(event["state"])
        if event["counts"] is None:
            raise self._too_late(event["state"])
        return event["counts"]

    def _check(self) -> LabelCheck:
        check_rendered_fields(self)
        try:
            min_share, min_rows = float(self.min_share), int(self.min_rows)
        except ValueError:
            min_share = min_rows = -1
        if not (0 <= min_share <= 1 and min_rows >= 0):
            raise AirflowFailException(
                f"{type(self).__name__} {self.task_id!r}: min_share must be from 0 to 1 and "
                f"min_rows at least 0, got {self.min_share!r} and {self.min_rows!r}."
            )
        return LabelCheck(
            self.source,
            self.label_column,
            self.partition,
            self.where,
            min_share,
            min_rows,
            self.source_conn_id,
        )

    def _too_late(self, state: str) -> AirflowSensorTimeout:
        waited = timedelta(seconds=self.timeout)
        return AirflowSensorTimeout(f"Stopped waiting for labels after {waited}: {state}")
