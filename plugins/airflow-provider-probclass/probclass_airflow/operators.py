"""Train, score, evaluate: one operator for each verb of the library.

Every field that names data or a model is a template. Runs triggered by hand or by an asset may
have no logical date, where ``{{ ds }}`` raises; build partitions from ``data_interval_start`` in a
DAG on a schedule, from ``{{ partition_key or (ds if ds is defined else run_id) }}`` in another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from probclass_airflow.base import ProbClassOperator, judged_rows, model_spec
from probclass_airflow.hooks import store_at, table_at

Where = Sequence[tuple[str, str, Any]]


class ProbClassTrainOperator(ProbClassOperator):
    """Fit a model on a table, save it under its content id, and point an alias at it.

    The same rows and spec give the same id, so a retry or a rerun adds nothing to the store.

    Args:
        source: path or URI of a Parquet file or (Hive-partitioned) directory.
        spec: the model, as the dict that `ModelSpec.from_dict` takes, or the path of a TOML, YAML
            or JSON file that holds one.
        store: path or URI of the model store.
        model: name to save the model under.
        alias: name to promote the saved version to, such as ``"champion"`` or the month.
        partition: train on this partition alone, as ``{"month": "2014-01"}``.
        where: train on the rows that meet all of ``(column, operator, value)``.
        density_quantiles: read the rows again and keep with the model how dense they are, for a
            decision rule's ``min_density_quantile``.
        cache: keep the statistics of each fragment in the store, and read only fragments that it
            has none of; the model is the same.
        workers: threads to read with; the library decides by default.

    Returns (XCom and the `extra` of outlet assets):
        model (``name@id``), alias, rows, null_labels, spec_digest; with ``cache`` also cache, the
        number of fragments and how many of them were reused.
    """

    template_fields: Sequence[str] = (
        *ProbClassOperator.template_fields,
        "source",
        "spec",
        "store",
        "model",
        "alias",
        "partition",
        "where",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {
        "spec": "json",
        "partition": "json",
        "where": "json",
    }
    makes_model = True
    ui_color = "#d7ebf7"

    def __init__(
        self,
        *,
        source: str,
        spec: Mapping[str, Any] | str,
        store: str,
        model: str,
        alias: str | None = None,
        partition: Mapping[str, str] | None = None,
        where: Where | None = None,
        density_quantiles: bool = False,
        cache: bool = False,
        workers: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.source = source
        self.spec = spec
        self.store = store
        self.model = model
        self.alias = alias
        self.partition = partition
        self.where = where
        self.density_quantiles = density_quantiles
        self.cache = cache
        self.workers = workers

    def call(self, run: dict[str, str]) -> dict[str, Any]:
        """Fit, save, promote."""
        import probclass_core as pc

        rows: dict[str, Any] = {
            "partition": self.partition,
            "where": self.where,
            "workers": self.workers,
            "progress": self.watch,
        }
        store = store_at(self.store, self.store_conn_id)
        self.spec_of_call = spec = model_spec(self.spec)
        source = table_at(self.source, self.source_conn_id)
        fitted = pc.fit(source, spec, **rows, cache=store if self.cache else None)
        if self.density_quantiles:
            fitted = pc.with_density_quantiles(fitted, source, **rows)
        self.stop_if_asked()
        version = store.save(fitted, self.model, provenance={"airflow": run})
        if self.alias is not None:
            self.stop_if_asked()
            store.promote(self.model, version, alias=self.alias)
        return {
            "model": version.ref,
            "alias": self.alias,
            "rows": fitted.training["rows"],
            "null_labels": fitted.training["null_labels"],
            "spec_digest": fitted.spec.digest,
            **({"cache": fitted.training["cache"]} if self.cache else {}),
        }


class ProbClassScoreOperator(ProbClassOperator):
    """Score a table with a stored model; replace a partition of the sink, or add to it, as a whole.

    The commit records the id of the DAG run. A retry finds what it committed and leaves it alone.

    Args:
        source: path or URI of a Parquet file or (Hive-partitioned) directory.
        sink: path or URI of the scored table.
        sink_conn_id: connection with its credentials; see `ProbClassHook`.
        store: path or URI of the model store.
        model: ``name@alias`` or ``name@id``; an alias is resolved once, and its id recorded.
        partition: score, and replace or add to in the sink, this partition alone.
        where: score the rows that meet all of ``(column, operator, value)``.
        columns: columns of the source to pass through; by default as the library does.
        posterior: ``"columns"`` for one ``p_<class>`` per class, or ``"list"``.
        decision: ``"map"``, ``"ml"``, or the dict that `DecisionRule.from_dict` takes.
        overwrite: ``"partition"`` replaces what stands there, ``"append"`` adds to it, ``"never"``
            refuses unless it came of the same inputs.
        workers: threads to read with; the library decides by default.

    Returns (XCom and the `extra` of outlet assets):
        model (``name@id``), partition, partitions (how many), rows, skipped, model_id, uri,
        commit_id, seconds.
    """

    template_fields: Sequence[str] = (
        *ProbClassOperator.template_fields,
        "source",
        "sink",
        "sink_conn_id",
        "store",
        "model",
        "partition",
        "where",
        "columns",
        "decision",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {
        "partition": "json",
        "where": "json",
        "columns": "json",
        "decision": "json",
    }
    ui_color = "#d3f0e3"

    def __init__(
        self,
        *,
        source: str,
        sink: str,
        sink_conn_id: str | None = None,
        store: str,
        model: str,
        partition: Mapping[str, str] | None = None,
        where: Where | None = None,
        columns: Sequence[str] | None = None,
        posterior: Literal["columns", "list"] = "columns",
        decision: Mapping[str, Any] | str = "map",
        overwrite: Literal["partition", "append", "never"] = "partition",
        workers: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.source = source
        self.sink = sink
        self.sink_conn_id = sink_conn_id
        self.store = store
        self.model = model
        self.partition = partition
        self.where = where
        self.columns = columns
        self.posterior = posterior
        self.decision = decision
        self.overwrite = overwrite
        self.workers = workers

    def call(self, run: dict[str, str]) -> dict[str, Any]:
        """Load, score, commit."""
        import probclass_core as pc

        store = store_at(self.store, self.store_conn_id)
        version = store.resolve(self.model)
        model = store.load(version.ref)
        self.spec_of_call = model.spec
        report = pc.score(
            model,
            table_at(self.source, self.source_conn_id),
            table_at(self.sink, self.sink_conn_id),
            partition=self.partition,
            where=self.where,
            columns=self.columns,
            posterior=self.posterior,
            decision=self.decision,
            overwrite=self.overwrite,
            run_id=run["run_id"],
            workers=self.workers,
            progress=self.watch,
        )
        summary = report.to_dict()
        return {
            "model": version.ref,
            "partition": self.partition,
            # A whole lake can have more partitions than belong into a message.
            "partitions": len(summary.pop("partitions")),
            **summary,
        }


class ProbClassEvaluateOperator(ProbClassOperator):
    """Measure a stored model on labeled rows, beside the baseline that knows the prior alone.

    What was measured is recorded in the store beside the version; the same rows again add nothing.

    Args:
        source: path or URI of a Parquet file or (Hive-partitioned) directory, with the label.
        store: path or URI of the model store.
        model: ``name@alias`` or ``name@id``; an alias is resolved once, and its id recorded.
        partition: evaluate on this partition alone.
        where: evaluate on the rows that meet all of ``(column, operator, value)``.
        decision: ``"map"``, ``"ml"``, or the dict that `DecisionRule.from_dict` takes.
        workers: threads to read with; the library decides by default.

    Returns (XCom and the `extra` of outlet assets):
        model (``name@id``), partition, rows, null_labels, unseen_labels, decided, rejected (by
        reason), rejected_share, accuracy, cost, log_loss (nats; null where it is infinite), brier,
        ece, baseline_accuracy, baseline_cost, baseline_log_loss, model_id.
    """

    template_fields: Sequence[str] = (
        *ProbClassOperator.template_fields,
        "source",
        "store",
        "model",
        "partition",
        "where",
        "decision",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {
        "partition": "json",
        "where": "json",
        "decision": "json",
    }
    ui_color = "#f7ecd0"

    def __init__(
        self,
        *,
        source: str,
        store: str,
        model: str,
        partition: Mapping[str, str] | None = None,
        where: Where | None = None,
        decision: Mapping[str, Any] | str = "map",
        workers: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.source = source
        self.store = store
        self.model = model
        self.partition = partition
        self.where = where
        self.decision = decision
        self.workers = workers

    def call(self, run: dict[str, str]) -> dict[str, Any]:
        """Load and evaluate."""
        import probclass_core as pc

        store = store_at(self.store, self.store_conn_id)
        version = store.resolve(self.model)
        model = store.load(version.ref)
        self.spec_of_call = model.spec
        evaluation = pc.evaluate(
            model,
            table_at(self.source, self.source_conn_id),
            partition=self.partition,
            where=self.where,
            decision=self.decision,
            workers=self.workers,
            progress=self.watch,
        )
        self.stop_if_asked()
        store.record_evaluation(
            version, evaluation, on=judged_rows(self), provenance={"airflow": run}
        )
        summary = evaluation.to_dict()
        # One row per class and more: too much for a message where classes are many.
        del summary["confusion"], summary["per_class"], summary["reliability"]
        return {"model": version.ref, "partition": self.partition, **summary}
