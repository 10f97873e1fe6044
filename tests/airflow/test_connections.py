"""Credentials from Airflow connections: read for each type, used, checked, and never shown."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG, Connection
from airflow.sdk.exceptions import AirflowFailException
from buckets import AZURE_ACCOUNT, AZURE_KEY, SECRET, Bucket

import probclass_core as pc
from airflow_provider_probclass import get_provider_info
from probclass_airflow import (
    ProbClassEvaluateOperator,
    ProbClassHook,
    ProbClassScoreOperator,
    ProbClassTrainOperator,
)
from probclass_airflow.hooks import connected
from probclass_core.errors import TableError

SPEC = {"label": "air", "blocks": [{"estimator": "gaussian_diagonal", "columns": ["temperature"]}]}
JANUARY = {"month": "2013-01"}

Connect = Callable[..., str]


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Connect:
    """Create a connection; returns its id."""

    def create(**values: Any) -> str:
        name = f"lake_{values['conn_type']}"
        monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps(values))
        return name

    return create


def aws(bucket: Bucket) -> dict[str, Any]:
    extra = {"region_name": "us-east-1", "endpoint_url": bucket.endpoint}
    return {"conn_type": "aws", "login": "tester", "password": SECRET, "extra": extra}


def wasb(bucket: Bucket) -> dict[str, Any]:
    host = f"{bucket.endpoint}/{AZURE_ACCOUNT}"
    return {"conn_type": "wasb", "login": AZURE_ACCOUNT, "password": AZURE_KEY, "host": host}


@pytest.mark.parametrize(
    ("bucket", "connection", "prefix"),
    [
        ("s3", aws, ""),
        ("azure", wasb, "delta+"),
    ],
    indirect=["bucket"],
)
def test_source_sink_and_store_are_opened_by_connections(
    run_dag: Any,
    lake: str,
    bucket: Bucket,
    connect: Connect,
    connection: Callable[[Bucket], dict[str, Any]],
    prefix: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    bucket.copy_from(Path(lake) / "month=2013-01", "lake/month=2013-01")
    root = f"{bucket.scheme}://{bucket.name}"
    conn_id = connect(**connection(bucket))
    places = {"source": f"{root}/lake", "store": f"{root}/models"}
    connections = {"source_conn_id": conn_id, "store_conn_id": "{{ '" + conn_id + "' }}"}
    with DAG(f"opened_by_{conn_id}", schedule=None) as dag:
        train = ProbClassTrainOperator(
            task_id="train", spec=SPEC, model="air", alias="a", **places, **connections
        )
        ProbClassScoreOperator(
            task_id="score",
            sink=f"{prefix}{root}/scored",
            sink_conn_id=conn_id,
            model=train.output["model"],
            partition=JANUARY,
            **places,
            **connections,
        )
    ran = run_dag(dag)
    assert {name: task.state for name, task in ran.items()} == {
        "train": "success",
        "score": "success",
    }
    assert ran["train"].result["model"] == f"air@{pc.fit(lake, spec(), partition=JANUARY).id}"
    assert ran["score"].result["scored"] == 1
    texts = [repr(ran), *capfd.readouterr()]
    for folder in ("scored", "models"):
        keys = bucket.keys(folder)
        assert keys
        for key in keys:
            with bucket.filesystem.open_input_stream(f"{bucket.name}/{folder}/{key}") as stream:
                texts.append(stream.read().decode(errors="replace"))
    for text in texts:
        assert SECRET not in text
        assert AZURE_KEY not in text


def spec() -> pc.ModelSpec:
    return pc.ModelSpec.from_dict(SPEC)


@pytest.mark.parametrize(
    ("connection", "message"),
    [
        (None, "connection 'nowhere' does not exist; create it, or use another one"),
        (
            {"conn_type": "aws"},
            "'lake_aws' has no credentials: give login and password",
        ),
        ({"conn_type": "aws", "extra": {"profile_name": "me"}}, "'lake_aws' names a profile; give"),
        ({"conn_type": "http"}, "'lake_http' is of type 'http'; use one of aws, wasb, adls"),
        (
            {"conn_type": "wasb", "login": "lake", "password": SECRET},
            "'lake_wasb' is of type 'wasb', which does not fit s3://bucket/lake",
        ),
        (
            {"conn_type": "probclass", "extra": {"options": f"not JSON {SECRET}"}},
            "'lake_probclass' has a value of 'options' in its extra that is not a JSON object",
        ),
        ({"conn_type": "generic"}, "'lake_generic' has no credentials"),
    ],
)
def test_a_wrong_connection_fails_without_a_retry_in_one_line(
    connect: Connect,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    connection: dict[str, Any] | None,
    message: str,
) -> None:
    conn_id = "nowhere" if connection is None else connect(**connection)
    task = ProbClassEvaluateOperator(
        task_id="evaluate",
        source="s3://bucket/lake",
        source_conn_id=conn_id,
        store=str(tmp_path),
        model="air@champion",
    )
    with pytest.raises(AirflowFailException) as raised:
        task.execute({"run_id": "by hand"})  # type: ignore[typeddict-item]
    text = str(raised.value)
    assert message in text
    assert "\n" not in text
    assert SECRET not in text


def options(uri: str, connect: Connect, **values: Any) -> dict[str, Any]:
    return dict(ProbClassHook(connect(**values)).table(uri).options)


def test_an_iceberg_table_is_written_with_a_connection(
    run: Any, lake: str, connect: Connect, tmp_path: Path
) -> None:
    store = pc.ModelStore(tmp_path / "models")
    store.save(pc.fit(lake, spec(), partition=JANUARY), "air")
    catalog = {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "warehouse": f"file://{tmp_path}/warehouse",
    }
    conn_id = connect(conn_type="probclass", extra={"options": json.dumps(catalog)})
    sink = "iceberg://lake/air.scored"
    task = run(
        ProbClassScoreOperator,
        source=lake,
        sink=sink,
        sink_conn_id=conn_id,
        store=store.uri,
        model="air",
        partition=JANUARY,
    )
    assert task.state == "success"
    assert pc.open_table(pc.TableRef(sink, options=catalog)).plan().rows == task.result["rows"]


ABFSS = "abfss://lake@account.dfs.core.windows.net/air"
KEYS = {"login": "key", "password": SECRET}


@pytest.mark.parametrize(
    ("uri", "connection", "expected"),
    [
        (
            ABFSS,
            {
                "conn_type": "wasb",
                "login": "app",
                "password": SECRET,
                "host": "https://account.blob.core.windows.net",
                "extra": {"tenant_id": "tenant"},
            },
            {
                "account_name": "account",
                "tenant_id": "tenant",
                "client_id": "app",
                "client_secret": SECRET,
            },
        ),
        (
            ABFSS,
            {"conn_type": "wasb", "login": "account", "extra": {"sas_token": "?sv=1&sig=x"}},
            {"account_name": "account", "sas_key": "?sv=1&sig=x"},
        ),
        (
            f"delta+{ABFSS}",
            {"conn_type": "adls", "host": "account", "password": AZURE_KEY},
            {"account_name": "account", "account_key": AZURE_KEY},
        ),
        (
            ABFSS,
            {
                "conn_type": "adls",
                "extra": {
                    "connection_string": f"AccountName=account;AccountKey={AZURE_KEY};"
                    "EndpointSuffix=core.windows.net"
                },
            },
            {"account_name": "account", "account_key": AZURE_KEY},
        ),
        (
            "s3://lake/air",
            {"conn_type": "generic", "extra": {"endpoint": "http://127.0.0.1:9"}},
            {"endpoint": "http://127.0.0.1:9"},
        ),
        (
            "delta+s3://lake/air",
            {
                "conn_type": "probclass",
                "extra": {"region": "eu-west-1", "options": '{"skip_signature": "false"}'},
                **KEYS,
            },
            {
                "access_key_id": "key",
                "secret_access_key": SECRET,
                "region": "eu-west-1",
                "skip_signature": "false",
            },
        ),
        (
            "s3://lake/air",
            {
                "conn_type": "aws",
                "extra": {"role_arn": "arn:r", "assume_role_kwargs": {"ExternalId": "x"}},
            },
            {"role_arn": "arn:r", "external_id": "x"},
        ),
        (
            "iceberg://lake/air.scored",
            {"conn_type": "aws", **KEYS},
            {"access_key_id": "key", "secret_access_key": SECRET},
        ),
        (
            "iceberg://lake/air.scored",
            {
                "conn_type": "iceberg",
                "host": "https://catalog.example.com/v1",
                "extra": {"warehouse": "s3://lake/", "s3.region": "eu-west-1"},
                **KEYS,
            },
            {
                "uri": "https://catalog.example.com/v1",
                "type": "rest",
                "credential": f"key:{SECRET}",
                "warehouse": "s3://lake/",
                "s3.region": "eu-west-1",
            },
        ),
    ],
)
def test_connections_are_read_as_their_providers_read_them(
    connect: Connect, uri: str, connection: dict[str, Any], expected: dict[str, str]
) -> None:
    assert options(uri, connect, **connection) == expected


def test_a_google_key_is_in_the_environment_during_the_call(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    key = {"type": "service_account", "private_key": SECRET}
    conn_id = connect(conn_type="google_cloud_platform", extra={"keyfile_dict": json.dumps(key)})
    with connected([(conn_id, "gs://lake/air")]):
        file = Path(os.environ["GOOGLE_APPLICATION_CREDENTIALS"])
        assert json.loads(file.read_text()) == key
        assert file.stat().st_mode & 0o077 == 0
    assert not file.exists()
    assert "GOOGLE_APPLICATION_CREDENTIALS" not in os.environ
    delta = options(
        "delta+gs://lake/air",
        connect,
        conn_type="google_cloud_platform",
        extra={"keyfile_dict": key},
    )
    assert json.loads(delta["service_account_key"]) == key


def test_a_secret_in_an_error_of_the_library_is_hidden(connect: Connect) -> None:
    conn_id = connect(conn_type="aws", login="key", password=SECRET)
    hidden = pytest.raises(TableError, match=r"cannot open s3://lake: \*\*\* is not a key")
    with hidden, connected([(conn_id, "s3://lake")]):
        raise TableError(f"cannot open s3://lake: {SECRET} is not a key")


@pytest.mark.parametrize(("password", "works"), [(SECRET, True), ("", False)])
def test_the_form_can_test_a_connection(bucket: Bucket, password: str, works: bool) -> None:
    extra = {"endpoint": bucket.endpoint, "region": "us-east-1"}
    place = f"s3://{bucket.name}/models"
    connection = Connection(
        conn_id="tested",
        conn_type="probclass",
        login="tester" if works else None,
        password=password or None,
        extra=json.dumps({**extra, "place": place}),
    )
    status, message = connection.test_connection()
    assert status is works
    assert (f"{place} can be read" if works else "has no credentials") in message


def test_airflow_shows_a_form_for_the_type() -> None:
    from airflow.api_fastapi.core_api.services.ui.connections import HookMetaService

    [declared] = get_provider_info()["connection-types"]
    assert declared["connection-type"] == ProbClassHook.conn_type
    assert declared["hook-name"] == ProbClassHook.hook_name
    forms = {meta.connection_type: meta for meta in HookMetaService.hook_meta_data()}
    form = forms["probclass"]
    assert form.hook_class_name == declared["hook-class-name"]
    assert form.extra_fields is not None
    assert {*form.extra_fields} == {"region", "endpoint", "options", "place"}
    assert form.extra_fields["options"]["schema"]["format"] == "password"
