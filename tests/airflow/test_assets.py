"""Models and tables as assets: each has one URI, in whatever form it is given."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk import Asset

from probclass_airflow import model_asset, table_asset
from probclass_airflow.assets import to_openlineage
from probclass_airflow.lineage import dataset_name, model_name


@pytest.mark.parametrize(
    ("store", "uri"),
    [
        ("/lake/models", "probclass://file/lake/models/air@champion"),
        ("/lake//models/", "probclass://file/lake/models/air@champion"),
        ("file:///lake/models", "probclass://file/lake/models/air@champion"),
        ("/", "probclass://file/air@champion"),
        ("s3://bucket/models/", "probclass://s3/bucket/models/air@champion"),
        ("gs://Bucket", "probclass://gs/Bucket/air@champion"),
    ],
)
def test_a_model_has_one_uri(store: str, uri: str) -> None:
    asset = model_asset(store, "air", extra={"unit": "nats"})
    assert (asset.name, asset.uri, asset.extra) == ("air@champion", uri, {"unit": "nats"})
    assert Asset(uri=uri).uri == uri
    dataset = to_openlineage(asset, None)
    assert (dataset.namespace, dataset.name) == model_name(store, "air@champion")


@pytest.mark.parametrize(
    "written",
    [
        "PROBCLASS://FILE/lake/models/air@champion",
        "probclass:///lake/models/air@champion",
        "probclass://file/lake/./x/../models//air@champion/",
        "probclass://file/lake/models/air@champion?of=2014#now",
    ],
)
def test_airflow_normalizes_the_uri_of_a_model(written: str) -> None:
    assert Asset(uri=written).uri == "probclass://file/lake/models/air@champion"


def test_a_model_without_alias_is_an_asset() -> None:
    assert model_asset("/lake/models", "air", alias=None).uri == "probclass://file/lake/models/air"


@pytest.mark.parametrize(
    ("table", "uri"),
    [
        ("/lake/air/", "file:///lake/air"),
        ("file:///lake/air", "file:///lake/air"),
        ("s3://bucket/air/", "s3://bucket/air"),
        ("delta+s3://bucket/air", "s3://bucket/air"),
        ("iceberg://prod/weather.air", "iceberg://prod/weather.air"),
    ],
)
def test_a_table_has_one_uri(table: str, uri: str) -> None:
    asset = table_asset(table)
    assert (asset.name, asset.uri) == (uri, uri)
    assert dataset_name(asset.uri) == dataset_name(table)
    assert table_asset(table, name="air").name == "air"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: model_asset("models", "air"), "store 'models' must be an absolute path"),
        (
            lambda: model_asset("/models", "air", "a b"),
            "does not name a model; write probclass://file/",
        ),
        (lambda: model_asset("/models", ""), "does not name a model"),
        (lambda: table_asset("lake/air"), "table 'lake/air' must be an absolute path"),
        (lambda: Asset(uri="probclass://s3"), "does not name a model"),
    ],
)
def test_an_invalid_location_is_an_error(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
