"""Tables and model stores on servers of object stores behave as on a local disk.

The laws of a sink are tested with every store and format in `test_sink_laws`.
"""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from buckets import SECRET, Bucket
from click.testing import CliRunner
from deltalake import write_deltalake
from monthly_lake import SPEC, model
from reading import read_rows

import probclass_core as pc
from probclass_core.cli.app import app
from probclass_core.errors import TableError

every_store = pytest.mark.parametrize("bucket", ["s3", "azure", "google"], indirect=True)


@every_store
def test_the_model_is_that_of_the_same_rows_on_a_local_disk(lake: Path, bucket: Bucket) -> None:
    for rows in ({}, {"partition": {"month": "2014-02"}}, {"where": [("month", ">", "2014-01")]}):
        local, remote = (pc.fit(source, SPEC, **rows) for source in (lake, bucket.at("lake")))
        assert local.id == remote.id
    assert remote.training["source"] == f"{bucket.scheme}://{bucket.name}/lake"
    january = bucket.at("lake/month=2014-01/0.parquet")
    assert pc.fit(january, SPEC).training["rows"] == 40


@pytest.mark.parametrize("bucket", ["s3", "azure"], indirect=True)
def test_a_delta_table_in_a_bucket_is_read(lake: Path, bucket: Bucket, tmp_path: Path) -> None:
    table = ds.dataset(lake, partitioning="hive").to_table()
    write_deltalake(tmp_path / "delta", table, partition_by=["month"])
    bucket.copy_from(tmp_path / "delta", "delta")
    assert pc.fit(bucket.delta_at("delta"), SPEC).id == pc.fit(tmp_path / "delta", SPEC).id
    for action in (
        lambda: pc.fit(bucket.at("delta"), SPEC),
        lambda: pc.score(model(), lake, bucket.at("delta")),
    ):
        with pytest.raises(TableError, match="is a Delta table; name its format"):
            action()


def test_options_may_be_given_in_the_query(lake: Path, bucket: Bucket) -> None:
    query = "&".join(f"{name}={value}" for name, value in bucket.options.items())
    fitted = pc.fit(f"s3://{bucket.name}/lake?{query}", SPEC)
    assert fitted.id == pc.fit(lake, SPEC).id
    assert fitted.training["source"] == f"s3://{bucket.name}/lake"


def test_the_cli_takes_uris(
    lake: Path, tmp_path: Path, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = tmp_path / "air.json"
    spec.write_text(json.dumps(SPEC.to_dict()))
    for name, value in {
        "AWS_ACCESS_KEY_ID": "tester",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": bucket.endpoint,
        "PROBCLASS_STORE": str(tmp_path / "store"),
    }.items():
        monkeypatch.setenv(name, value)
    source, sink = f"s3://{bucket.name}/lake", f"s3://{bucket.name}/scored"
    for command in (
        f"fit {source} --spec {spec} --name air --alias champion",
        f"score air@champion {source} {sink} --partition month=2014-01",
    ):
        run = CliRunner().invoke(app, command.split())
        assert run.exit_code == 0, run.output
    assert f"{source}" in str(pc.ModelStore(tmp_path / "store").load("air@champion").training)
    assert read_rows(bucket.at("scored")).num_rows == 47


@pytest.mark.parametrize("bucket", ["azure"], indirect=True)
def test_a_rejected_key_gives_one_line_and_is_never_shown(bucket: Bucket, lake: Path) -> None:
    wrong_key = "bm90IHRoZSBrZXk="
    tables = [
        bucket.at("lake", account_key=wrong_key),
        bucket.delta_at("lake", account_key=wrong_key),
    ]
    for table in tables:
        with pytest.raises(TableError, match="abfs://lake-") as read_error:
            pc.fit(table, SPEC)
        with pytest.raises(TableError, match="abfs://lake-") as write_error:
            pc.score(model(), lake, table)
        for message in (str(read_error.value), str(write_error.value)):
            assert not {"\n", "\x1b"} & {*message}
            assert wrong_key not in message
