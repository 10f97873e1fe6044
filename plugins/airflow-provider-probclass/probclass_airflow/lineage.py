"""What a task read and wrote, as OpenLineage has it.

Airflow's OpenLineage provider asks an operator for its lineage once a task has ended;
`ProbClassOperator` answers with `lineage_of`. Only there is this module imported, so only where the
provider is installed. Tables and models are datasets, named by the place they lie in.
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
_LAYERS = ("delta", "iceberg")


def lineage_of(task: Any, summary: Mapping[str, Any] | None) -> OperatorLineage[Any, Any]:
    """Inputs, outputs and what is known of them.

    Args:
        task: a `ProbClassOperator` with its fields rendered.
        summary: what its call returned; none if it failed, and then what it was to read and write
            is told without any numbers.
    """
    known = summary or {}
    source: str = task.source
    read = _columns(task, source, task.source_conn_id)
    inputs = [_table_read(source, read, task.spec_of_call, known)]
    outputs = []
    if (sink := getattr(task, "sink", None)) is not None:
        outputs.append(_table_written(task, source, read, sink, known))
    inputs.extend(
        InputDataset(*model_name(task.store, ref), facets=_version(ref))
        for ref in _models_read(task, known)
    )
    for ref in _models_written(task, known):
        facets = _version(ref)
        if task.spec_of_call is not None:
            facets["columnLineage"] = column_lineage_dataset.ColumnLineageDatasetFacet(
                fields={}, dataset=_fields(source, task.spec_of_call.training_columns, "INDIRECT")
            )
        outputs.append(OutputDataset(*model_name(task.store, ref), facets=facets))
    told = RunFacet().with_additional_properties(task=type(task).__name__, **known)
    return OperatorLineage(inputs=inputs, outputs=outputs, run_facets={"probclass": told})


def dataset_name(uri: str) -> tuple[str, str]:
    """Namespace and name of a table, by the naming rules of OpenLineage.

    ``/lake/air`` is ``file`` and ``/lake/air``; ``s3://bucket/air`` is ``s3://bucket`` and ``air``;
    ``iceberg://catalog/db.air`` is ``iceberg://catalog`` and ``db.air``.
    """
    import probclass_core as pc

    uri = pc.TableRef.parse(uri).uri
    scheme, separator, rest = uri.partition("://")
    if not separator:
        return "file", os.path.abspath(uri)  # noqa: PTH100, for Path would follow no "..".
    host, _, path = rest.partition("/")
    return f"{_SAME_STORAGE.get(scheme, scheme)}://{host}", path.strip("/") or "/"


def model_name(store: str, ref: str) -> tuple[str, str]:
    """Namespace and name of a model: its folder in the store, whatever the version."""
    namespace, folder = dataset_name(store)
    return namespace, f"{folder.rstrip('/')}/{ref.partition('@')[0]}"


def _table_read(
    uri: str, columns: Columns, spec: ModelSpec | None, known: Mapping[str, Any]
) -> InputDataset:
    facts: dict[str, InputDatasetFacet] = {}
    labeled, nulls = known.get("rows"), known.get("null_labels")
    if labeled is not None:
        # An evaluation counts the labeled rows, a training all that it read.
        rows = labeled + (nulls or 0) if "unseen_labels" in known else labeled
        facts["inputStatistics"] = input_statistics_input_dataset.InputStatisticsInputDatasetFacet(
            rowCount=rows
        )
        if spec is not None and nulls is not None:
            of_label = data_quality_metrics_input_dataset.ColumnMetrics(nullCount=nulls)
            facts["dataQualityMetrics"] = (
                data_quality_metrics_input_dataset.DataQualityMetricsInputDatasetFacet(
                    rowCount=rows, columnMetrics={spec.label: of_label}
                )
            )
    if spec is not None and "unseen_labels" in known:
        unseen = known["unseen_labels"]
        facts["dataQualityAssertions"] = (
            data_quality_assertions_dataset.DataQualityAssertionsDatasetFacet(
                assertions=[
                    data_quality_assertions_dataset.Assertion(
                        assertion="accepted_values",
                        success=unseen == 0,
                        column=spec.label,
                        severity="warn",
                        description="Each label is a class that the model knows.",
                        expected="0",
                        actual=str(unseen),
                    )
                ]
            )
        )
    return InputDataset(*dataset_name(uri), facets=_table(uri, columns), inputFacets=facts)


def _table_written(
    task: Any, source: str, read: Columns, sink: str, known: Mapping[str, Any]
) -> OutputDataset:
    written = _columns(task, sink, task.sink_conn_id) if known else {}
    facets = _table(sink, written)
    if task.spec_of_call is not None and written:
        facets["columnLineage"] = _column_lineage(source, read, written, task.spec_of_call)
    facts: dict[str, OutputDatasetFacet] = {}
    if (rows := _rows_written(known)) is not None:
        facts["outputStatistics"] = (
            output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(rowCount=rows)
        )
    return OutputDataset(*dataset_name(sink), facets=facets, outputFacets=facts)


def _rows_written(known: Mapping[str, Any]) -> int | None:
    """Of a scoring; none where some partitions were written and some stood there already."""
    skipped, partitions = known.get("skipped"), known.get("partitions", 0)
    if skipped == 0:
        return int(known["rows"])
    return 0 if skipped is not None and skipped >= max(partitions, 1) else None


def _column_lineage(
    source: str, read: Columns, written: Columns, spec: ModelSpec
) -> column_lineage_dataset.ColumnLineageDatasetFacet:
    """What is kept comes of its own column, what is scored of all columns of the model."""
    fields = {}
    for name in written:
        if name in read:
            origin = _fields(source, [name], "DIRECT", "IDENTITY")
        elif name != "model_id":
            origin = _fields(source, spec.features, "DIRECT", "TRANSFORMATION")
        else:
            continue
        fields[name] = column_lineage_dataset.Fields(inputFields=origin)
    return column_lineage_dataset.ColumnLineageDatasetFacet(fields=fields)


def _fields(
    source: str, columns: Sequence[str], kind: str, subtype: str | None = None
) -> list[column_lineage_dataset.InputField]:
    how = column_lineage_dataset.Transformation(type=kind, subtype=subtype)
    namespace, name = dataset_name(source)
    return [
        column_lineage_dataset.InputField(namespace, name, column, transformations=[how])
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
    layer = ref.format or ref.uri.partition("://")[0]
    if layer in _LAYERS:
        facets["storage"] = storage_dataset.StorageDatasetFacet(layer, fileFormat="parquet")
    return facets


def _columns(task: Any, uri: str, conn_id: str | None) -> Columns:
    """Names and types; none where the table cannot be looked at, which lineage leaves at that."""
    import probclass_core as pc
    from probclass_airflow.hooks import connected, table_at

    try:
        with connected([] if conn_id is None else [(conn_id, uri)]):
            schema = pc.open_table(table_at(uri, conn_id)).schema
        return {field.name: str(field.type) for field in schema}
    except Exception as error:  # whatever it is, the task itself has done its work
        task.log.info("Lineage tells no columns of %s: %s", uri, error)
        return {}


def _models_read(task: Any, known: Mapping[str, Any]) -> Iterator[str]:
    if "model" in task.template_fields and not task.makes_model:
        yield known.get("model", task.model)
    elif "of" in known:
        yield known["of"]


def _models_written(task: Any, known: Mapping[str, Any]) -> Iterator[str]:
    if task.makes_model or known.get("promoted"):
        yield known.get("model", task.model)


def _version(ref: str) -> dict[str, DatasetFacet]:
    _, _, selector = ref.partition("@")
    if not selector:
        return {}
    return {"version": dataset_version_dataset.DatasetVersionDatasetFacet(datasetVersion=selector)}
