"""Calibrate: the verb between training and scoring, for who wants probabilities that mean it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from probclass_airflow.base import ProbClassOperator
from probclass_airflow.hooks import store_at, table_at
from probclass_airflow.operators import Where


class ProbClassCalibrateOperator(ProbClassOperator):
    """Put a stored model's posteriors right by labeled rows, and save that as a new version.

    Args:
        source: path or URI of a Parquet file or (Hive-partitioned) directory, with the label.
        store: path or URI of the model store.
        model: ``name@alias`` or ``name@id``; the calibrated version is saved under the same name.
        alias: name to promote the saved version to.
        method: ``"temperature"`` or ``"isotonic"``.
        partition: calibrate on this partition alone.
        where: calibrate on the rows that meet all of ``(column, operator, value)``.
        workers: threads to read with; the library decides by default.

    Returns (XCom and the `extra` of outlet assets):
        model (``name@id``), alias, of (the model it came from), method, rows.
    """

    template_fields: Sequence[str] = (
        *ProbClassOperator.template_fields,
        "source",
        "store",
        "model",
        "alias",
        "method",
        "partition",
        "where",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {"partition": "json", "where": "json"}
    makes_model = True
    ui_color = "#e6dcf4"

    def __init__(
        self,
        *,
        source: str,
        store: str,
        model: str,
        alias: str | None = None,
        method: Literal["temperature", "isotonic"] = "temperature",
        partition: Mapping[str, str] | None = None,
        where: Where | None = None,
        workers: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.source = source
        self.store = store
        self.model = model
        self.alias = alias
        self.method = method
        self.partition = partition
        self.where = where
        self.workers = workers

    def call(self, run: dict[str, str]) -> dict[str, Any]:
        """Load, calibrate, save, promote."""
        import probclass_core as pc

        store = store_at(self.store, self.store_conn_id)
        version = store.resolve(self.model)
        model = store.load(version.ref)
        self.spec_of_call = model.spec
        calibrated = pc.calibrate(
            model,
            table_at(self.source, self.source_conn_id),
            self.method,
            partition=self.partition,
            where=self.where,
            workers=self.workers,
            progress=self.watch,
        )
        self.stop_if_asked()
        saved = store.save(calibrated, version.model, provenance={"airflow": run})
        if self.alias is not None:
            self.stop_if_asked()
            store.promote(version.model, saved, alias=self.alias)
        return {
            "model": saved.ref,
            "alias": self.alias,
            "of": version.ref,
            "method": self.method,
            "rows": calibrated.training["calibration"]["rows"],
        }
