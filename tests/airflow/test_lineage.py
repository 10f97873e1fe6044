"""Events of Airflow's OpenLineage provider for our tasks, and the names of datasets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openlineage.client import facet_v2
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent
from python_processes import output_of_python

import probclass_core as pc
from probclass_airflow import ProbClassScoreOperator
from probclass_airflow.lineage import dataset_name, lineage_of, model_name

RUNNER = Path(__file__).with_name("lineage_run.py")
COPIED, FEATURES = ("time", "air", "month"), ("dew_point", "temperature", "wind_direction")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lineage")


@pytest.fixture(scope="module")
def lineage_events(
    airflow_database: None, lake: str, folder: Path
) -> dict[tuple[str, str], dict[str, Any]]:
    """The events of a DAG run, by task and type."""
    file = folder / "events.jsonl"
    transport = {"type": "file", "log_file_path": str(file), "append": True}
    to_file = {"AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(transport)}
    output_of_python(RUNNER, lake, folder, env=to_file)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    return {(e["job"]["name"].removeprefix("lineage."), e["eventType"]): e for e in lines}


def named(datasets: list[dict[str, Any]], ending: str) -> dict[str, Any]:
    (dataset,) = [dataset for dataset in datasets if dataset["name"].endswith(ending)]
    return dataset


def facets(event: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The facets of an event's datasets."""
    for dataset in (*event["inputs"], *event["outputs"]):
        for kind in ("facets", "inputFacets", "outputFacets"):
            yield from dataset.get(kind, {}).values()


def test_events_follow_the_openlineage_schema(lineage_events: dict[tuple[str, str], Any]) -> None:
    classes = {
        name: value
        for module in vars(facet_v2).values()
        for name, value in getattr(module, "__dict__", {}).items()
        if name.endswith("Facet")
    }
    assert {kind for _, kind in lineage_events} == {"START", "COMPLETE", "FAIL"}
    for event in lineage_events.values():
        rebuilt = RunEvent(
            eventType=event["eventType"],
            eventTime=event["eventTime"],
            run=Run(**event["run"]),
            job=Job(**event["job"]),
            inputs=[InputDataset(**dataset) for dataset in event["inputs"]],
            outputs=[OutputDataset(**dataset) for dataset in event["outputs"]],
            producer=event["producer"],
        )
        assert rebuilt.schemaURL == event["schemaURL"]
        for facet in facets(event):
            fields = {key: value for key, value in facet.items() if not key.startswith("_")}
            name = facet["_schemaURL"].rpartition("/")[2]
            assert classes[name](**fields)._schemaURL == facet["_schemaURL"]


def test_a_training_reads_a_table_and_writes_a_model(
    lineage_events: dict[tuple[str, str], Any], lake: str, folder: Path
) -> None:
    event = lineage_events["train", "COMPLETE"]
    (source,) = event["inputs"]
    assert (source["namespace"], source["name"]) == ("file", lake)
    columns = {field["name"]: field["type"] for field in source["facets"]["schema"]["fields"]}
    assert columns == {field.name: str(field.type) for field in pc.open_table(lake).schema}
    labels = pc.open_table(lake).plan(["air"], partition={"month": "2013-03"}).batches()
    nulls = sum(batch["air"].null_count for batch in labels)
    quality = source["inputFacets"]["dataQualityMetrics"]
    assert quality["rowCount"] == 31 * 24
    assert quality["columnMetrics"]["air"]["nullCount"] == nulls > 0
    (model,) = event["outputs"]
    assert (model["namespace"], model["name"]) == ("file", str(folder / "models" / "air"))
    version = pc.ModelStore(folder / "models").resolve("air@new")
    assert model["facets"]["version"]["datasetVersion"] == version.id
    read = {field["field"] for field in model["facets"]["columnLineage"]["dataset"]}
    assert read == {"air", *FEATURES}
    assert event["run"]["facets"]["probclass"]["model"] == version.ref


def test_a_scored_column_names_the_columns_it_comes_from(
    lineage_events: dict[tuple[str, str], Any], lake: str, folder: Path
) -> None:
    event = lineage_events["score", "COMPLETE"]
    assert {dataset["name"] for dataset in event["inputs"]} == {
        lake,
        str(folder / "models" / "air"),
    }
    (scored,) = event["outputs"]
    assert scored["outputFacets"]["outputStatistics"]["rowCount"] == 30 * 24
    columns = [field["name"] for field in scored["facets"]["schema"]["fields"]]
    assert {*COPIED, "prediction", "p_good", "log_density", "model_id"} < set(columns)
    lineage = scored["facets"]["columnLineage"]["fields"]
    assert set(lineage) == set(columns) - {"model_id"}
    for name, field in lineage.items():
        origins = field["inputFields"]
        assert {(origin["namespace"], origin["name"]) for origin in origins} == {("file", lake)}
        assert {origin["field"] for origin in origins} == (
            {name} if name in COPIED else set(FEATURES)
        )
        kind = "IDENTITY" if name in COPIED else "TRANSFORMATION"
        assert {t["subtype"] for origin in origins for t in origin["transformations"]} == {kind}


def test_an_evaluation_reports_labels_and_metrics(
    lineage_events: dict[tuple[str, str], Any], lake: str, folder: Path
) -> None:
    event = lineage_events["evaluate", "COMPLETE"]
    input_facets = named(event["inputs"], lake)["inputFacets"]
    assert input_facets["inputStatistics"]["rowCount"] == 30 * 24
    (assertion,) = input_facets["dataQualityAssertions"]["assertions"]
    assert (assertion["column"], assertion["success"], assertion["actual"]) == ("air", True, "0")
    model = pc.ModelStore(folder / "models").load("air@new")
    evaluation = pc.evaluate(model, lake, partition={"month": "2013-04"})
    run = event["run"]["facets"]["probclass"]
    assert run["log_loss"] == evaluation.log_loss
    assert run["rejected"] == evaluation.rejected
    assert event["outputs"] == []


def test_a_promotion_writes_the_model_it_promotes(
    lineage_events: dict[tuple[str, str], Any], folder: Path
) -> None:
    event = lineage_events["promote", "COMPLETE"]
    model = str(folder / "models" / "air")
    assert named(event["inputs"], model)["facets"] == named(event["outputs"], model)["facets"]
    assert event["run"]["facets"]["probclass"]["alias"] == "champion"


def test_a_failed_task_has_inputs_and_outputs(
    lineage_events: dict[tuple[str, str], Any], lake: str, folder: Path
) -> None:
    event = lineage_events["fail", "FAIL"]
    assert {dataset["name"] for dataset in event["inputs"]} == {
        lake,
        str(folder / "models" / "air"),
    }
    (sink,) = event["outputs"]
    assert sink["name"] == str(folder / "never")
    assert sink["outputFacets"]["outputStatistics"]["rowCount"] == 0
    assert "2031-01" in event["run"]["facets"]["errorMessage"]["message"]


def test_a_table_that_cannot_be_read_has_no_columns(airflow_database: None, lake: str) -> None:
    fields = {"source": lake, "sink": "/no/such", "store": "/models", "model": "air@champion"}
    task = ProbClassScoreOperator(task_id="score", source_conn_id="no_such", **fields)
    lineage = lineage_of(task, {"scored_rows": 3, "model": "air@0123"})
    assert [(dataset.name, set(dataset.facets)) for dataset in lineage.inputs] == [
        (lake, set()),
        ("/models/air", {"version"}),
    ]
    (sink,) = lineage.outputs
    assert sink.outputFacets["outputStatistics"].rowCount == 3
    assert sink.facets == {}


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("/lake/../lake/air/", ("file", "/lake/air")),
        ("file:///lake/air", ("file", "/lake/air")),
        ("delta+file:///lake/air", ("file", "/lake/air")),
        ("s3://bucket/lake/air/", ("s3://bucket", "lake/air")),
        ("delta+s3://bucket/air", ("s3://bucket", "air")),
        ("s3://bucket/air?region=eu-west-1", ("s3://bucket", "air")),
        ("s3a://bucket/air", ("s3://bucket", "air")),
        ("gcs://bucket/air", ("gs://bucket", "air")),
        ("s3://bucket", ("s3://bucket", "/")),
        (
            "abfss://lake@account.dfs.core.windows.net/air",
            ("abfss://lake@account.dfs.core.windows.net", "air"),
        ),
        ("iceberg://prod/weather.air", ("iceberg://prod", "weather.air")),
    ],
)
def test_a_dataset_is_named_by_the_rules_of_openlineage(
    uri: str, expected: tuple[str, str]
) -> None:
    assert dataset_name(uri) == expected


def test_all_versions_of_a_model_are_one_dataset() -> None:
    assert model_name("s3://bucket/models", "air@champion") == ("s3://bucket", "models/air")
    assert model_name("/lake/models", "air") == ("file", "/lake/models/air")
