"""Inputs and outputs of a task as OpenLineage datasets.

Airflow's OpenLineage provider asks an operator for its lineage when a task has ended, and
`ProbClassOperator` returns `lineage_of`. Nothing else imports this module, so the rest of the
package works without that provider. Tables and models are datasets, named by their location.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.providers.openlineage.extractors import OperatorLineage
from openlineage.client.event_v2 import InputDataset, OutputDataset
from openlineage.client.facet_v2 import (
    DatasetFacet,
    InputDatasetFacet,
    OutputDatasetFacet,
    RunFacet,
    column_lineage_dataset,
    data_quality_assertions_dataset,
    data_quality_metrics_input_dataset,
    dataset_version_dataset,
    input_statistics_input_dataset,
    output_statistics_output_dataset,
    schema_dataset,
    storage_dataset,
)

if TYPE_CHECKING:
    from probclass_core import ModelSpec

Columns = Mapping[str, str]

_SAME_STORAGE = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfs": "abfss"}
_TABLE_FORMATS = ("delta", "iceberg")


def lineage_of(task: Any, summary: Mapping[str, Any] | None) -> OperatorLineage[Any, Any]:
    """Inputs and outputs of a task with their facets.

    Args:
        task: a `ProbClassOperator` with rendered fields.
        summary: the summary of its call, or None if it failed; datasets then have no numbers.
    """
    summary = summary or {}
    source = task.source or ""  # a rollback reads no table
    read = _columns(task, source, task.source_conn_id) if source else {}
    inputs = [_table_read(source, read, task.spec_used, summary)] if source else []
    outputs = []
    if (sink := getattr(task, "sink", None)) is not None:
        outputs.append(_table_written(task, source, read, sink, summary))
    inputs.extend(
        InputDataset(*model_name(task.store, ref), facets=_version(ref))
        for ref in _models_read(task, summary)
    )
    for ref in _models_written(task, summary):
        facets = _version(ref)
        if (spec := task.spec_used) is not None:
            columns = (*spec.label_and_weight, *spec.source_columns(read))
            facets["columnLineage"] = column_lineage_dataset.ColumnLineageDatasetFacet(
                fields={}, dataset=_fields(source, columns, "INDIRECT")
            )
        outputs.append(OutputDataset(*model_name(task.store, ref), facets=facets))
    run = RunFacet().with_additional_properties(task=type(task).__name__, **summary)
    return OperatorLineage(inputs=inputs, outputs=outputs, run_facets={"probclass": run})


def dataset_name(uri: str) -> tuple[str, str]:
    """Namespace and name of a table by the naming rules of OpenLineage.

    ``/lake/air`` is ``file`` and ``/lake/air``; ``s3://bucket/air`` is ``s3://bucket`` and ``air``;
    ``iceberg://catalog/db.air`` is ``iceberg://catalog`` and ``db.air``.
    """
    import probclass_core as pc

    uri = pc.TableRef.parse(uri).uri
    scheme, separator, rest = uri.partition("://")
    if not separator:
        return "file", os.path.abspath(uri)  # noqa: PTH100 - Path does not resolve ".."
    host, _, path = rest.partition("/")
    return f"{_SAME_STORAGE.get(scheme, scheme)}://{host}", path.strip("/") or "/"


def model_name(store: str, ref: str) -> tuple[str, str]:
    """Namespace and name of a model: its folder in the store, the same for all versions."""
    namespace, folder = dataset_name(store)
    return namespace, f"{folder.rstrip('/')}/{ref.partition('@')[0]}"


def _table_read(
    uri: str, columns: Columns, spec: ModelSpec | None, summary: Mapping[str, Any]
) -> InputDataset:
    input_facets: dict[str, InputDatasetFacet] = {}
    rows, nulls = summary.get("rows"), summary.get("null_labels")
    if rows is not None:
        # An evaluation counts the rows that it does not leave out, a training all rows.
        if "unseen_labels" in summary:
            rows += (nulls or 0) + summary["unseen_labels"]
        input_facets["inputStatistics"] = (
            input_statistics_input_dataset.InputStatisticsInputDatasetFacet(rowCount=rows)
        )
        if spec is not None and spec.label is not None and nulls is not None:
            label = data_quality_metrics_input_dataset.ColumnMetrics(nullCount=nulls)
            input_facets["dataQualityMetrics"] = (
                data_quality_metrics_input_dataset.DataQualityMetricsInputDatasetFacet(
                    rowCount=rows, columnMetrics={spec.label: label}
                )
            )
    if spec is not None and spec.label is not None and "unseen_labels" in summary:
        unseen = summary["unseen_labels"]
        input_facets["dataQualityAssertions"] = (
            data_quality_assertions_dataset.DataQualityAssertionsDatasetFacet(
                assertions=[
                    data_quality_assertions_dataset.Assertion(
                        assertion="accepted_values",
                        success=unseen == 0,
                        column=spec.label,
                        severity="warn",
                        description="Each label is a class of the model.",
                        expected="0",
                        actual=str(unseen),
                    )
                ]
            )
        )
    return InputDataset(*dataset_name(uri), facets=_table(uri, columns), inputFacets=input_facets)


def _table_written(
    task: Any, source: str, read: Columns, sink: str, summary: Mapping[str, Any]
) -> OutputDataset:
    written = _columns(task, sink, task.sink_conn_id) if summary else {}
    facets = _table(sink, written)
    if task.spec_used is not None and written:
        facets["columnLineage"] = _column_lineage(source, read, written, task.spec_used)
    output_facets: dict[str, OutputDatasetFacet] = {}
    if (rows := summary.get("scored_rows")) is not None:
        output_facets["outputStatistics"] = (
            output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(rowCount=rows)
        )
    return OutputDataset(*dataset_name(sink), facets=facets, outputFacets=output_facets)


def _column_lineage(
    source: str, read: Columns, written: Columns, spec: ModelSpec
) -> column_lineage_dataset.ColumnLineageDatasetFacet:
    """A copied column comes from the same column, a scored one from all columns of the model."""
    fields = {}
    for name in written:
        if name in read:
            origin = _fields(source, [name], "DIRECT", "IDENTITY")
        elif name != "model_id":
            origin = _fields(source, spec.source_columns(read), "DIRECT", "TRANSFORMATION")
        else:
            continue
        fields[name] = column_lineage_dataset.Fields(inputFields=origin)
    return column_lineage_dataset.ColumnLineageDatasetFacet(fields=fields)


def _fields(
    source: str, columns: Sequence[str], kind: str, subtype: str | None = None
) -> list[column_lineage_dataset.InputField]:
    transformation = column_lineage_dataset.Transformation(type=kind, subtype=subtype)
    namespace, name = dataset_name(source)
    return [
        column_lineage_dataset.InputField(namespace, name, column, transformations=[transformation])
        for column in columns
    ]


def _table(uri: str, columns: Columns) -> dict[str, DatasetFacet]:
    import probclass_core as pc

    facets: dict[str, DatasetFacet] = {}
    if columns:
        facets["schema"] = schema_dataset.SchemaDatasetFacet(
            fields=[
                schema_dataset.SchemaDatasetFacetFields(name=name, type=kind)
                for name, kind in columns.items()
            ]
        )
    ref = pc.TableRef.parse(uri)
    storage = ref.format or ref.uri.partition("://")[0]
    if storage in _TABLE_FORMATS:
        facets["storage"] = storage_dataset.StorageDatasetFacet(storage, fileFormat="parquet")
    return facets


def _columns(task: Any, uri: str, conn_id: str | None) -> Columns:
    """Names and types of a table's columns; empty if the table cannot be read."""
    import probclass_core as pc
    from probclass_airflow.hooks import connected, table_ref

    try:
        with connected([] if conn_id is None else [(conn_id, uri)]):
            schema = pc.open_table(table_ref(uri, conn_id)).schema
        return {field.name: str(field.type) for field in schema}
    except Exception as error:  # lineage must not fail a task that has succeeded
        task.log.info("Lineage has no columns of %s: %s", uri, error)
        return {}


def _models_read(task: Any, summary: Mapping[str, Any]) -> Iterator[str]:
    if "model" in task.template_fields and not task.saves_model:
        yield summary.get("model", task.model)
    elif "of" in summary:
        yield summary["of"]


def _models_written(task: Any, summary: Mapping[str, Any]) -> Iterator[str]:
    if task.saves_model or summary.get("promoted"):
        yield summary.get("model", task.model)


def _version(ref: str) -> dict[str, DatasetFacet]:
    _, _, selector = ref.partition("@")
    if not selector:
        return {}
    return {"version": dataset_version_dataset.DatasetVersionDatasetFacet(datasetVersion=selector)}
