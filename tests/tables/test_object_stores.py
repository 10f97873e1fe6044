"""Tables in a bucket, over the S3 protocol, behave as on a local disk."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from buckets import SECRET, Bucket
from deltalake import DeltaTable, write_deltalake
from monthly_lake import SPEC, model, rows_of, write_lake, write_rows

import probclass_core as pc
from probclass_core.scoring import partition as scoring

MONTHS = ("2014-01", "2014-02", "2014-03")


@pytest.fixture
def lake(tmp_path: Path, bucket: Bucket) -> Path:
    """A lake on disk, and a copy of it in the bucket."""
    root = write_lake(tmp_path / "lake", *MONTHS)
    bucket.copy_from(root, "lake")
    return root


def read(table: pc.TableRef | Path, month: str | None = None) -> pa.Table:
    partition = None if month is None else {"month": month}
    plan = pc.open_table(table).plan(partition=partition)
    return pa.Table.from_batches(plan.batches(), plan.schema)


def test_the_model_is_that_of_the_same_rows_on_a_local_disk(lake: Path, bucket: Bucket) -> None:
    for rows in ({}, {"partition": {"month": "2014-02"}}, {"where": [("month", ">", "2014-01")]}):
        local, remote = (pc.fit(source, SPEC, **rows) for source in (lake, bucket.at("lake")))
        assert local.id == remote.id
    assert remote.training["source"] == f"s3://{bucket.name}/lake"
    january = bucket.at("lake/month=2014-01/0.parquet")
    assert pc.fit(january, SPEC).training["rows"] == 40


def test_compressed_csv_is_read_by_pattern_and_by_directory(lake: Path, bucket: Bucket) -> None:
    for month in MONTHS:
        rows = read(lake, month)
        text = pa.BufferOutputStream()
        pa.csv.write_csv(rows.drop_columns(["month"]), text)
        path = f"{bucket.name}/text/month={month}/part.csv.gz"
        with bucket.filesystem.open_output_stream(path, compression="gzip") as file:
            file.write(text.getvalue())
    expected = pc.fit(lake, SPEC, where="month > 2014-01")
    by_pattern, folder = bucket.at("text/*/part.csv.gz"), bucket.at("text")
    for source in (by_pattern, dataclasses.replace(folder, format="csv")):
        found = pc.fit(source, SPEC, where="month > 2014-01")
        assert found.training["rows"] == expected.training["rows"]
        assert found.priors.equals(expected.priors)
        assert read(source, "2014-02")["id"].equals(read(lake, "2014-02")["id"])
    with pytest.raises(pc.TableError, match=r"no file matches s3://.*/text/none"):
        pc.open_table(bucket.at("text/none*.csv"))


def test_partitions_are_scored_once_and_as_on_a_local_disk(
    lake: Path, tmp_path: Path, bucket: Bucket
) -> None:
    sink = bucket.at("scored")
    pc.score(model(), lake, tmp_path / "scored")
    report = pc.score(model(), bucket.at("lake"), sink)
    assert (report.rows, report.skipped, len(report.partitions)) == (141, 0, 3)
    assert read(sink).equals(read(tmp_path / "scored"))
    before = bucket.keys("scored")
    again = pc.score(model(), bucket.at("lake"), sink)
    assert (again.rows, again.skipped, again.commit_id) == (141, 3, report.commit_id)
    assert bucket.keys("scored") == before
    assert len(before) == 6
    assert [key for key in before if key.startswith("_commits/")] == [
        f"_commits/month={month}.json" for month in MONTHS
    ]
    # A reader that ignores the manifests finds the same rows.
    folder = f"{bucket.name}/scored/month=2014-01"
    assert pq.read_table(folder, filesystem=bucket.filesystem, partitioning=None).num_rows == 47


def test_a_smaller_rerun_leaves_no_stale_rows(tmp_path: Path, bucket: Bucket) -> None:
    lake, sink = write_lake(tmp_path / "lake", *MONTHS), bucket.at("scored")
    pc.score(model(), lake, sink)
    write_rows(lake / "month=2014-02", rows_of(9, rows=5))
    report = pc.score(model(), lake, sink)
    assert (report.rows, report.skipped) == (99, 2)
    assert read(sink, "2014-02").num_rows == 5
    assert len(bucket.keys("scored/month=2014-02")) == 1
    with pytest.raises(pc.TableError, match="made from other inputs"):
        pc.score(model(51), lake, sink, overwrite="never")


def test_an_unpartitioned_table_and_partitions_of_two_columns(
    tmp_path: Path, bucket: Bucket
) -> None:
    rows = write_rows(tmp_path / "rows", rows_of(1))
    for size in (40, 7):
        write_rows(rows, rows_of(1, size))
        assert pc.score(model(), rows, bucket.at("unpartitioned")).rows == size
        assert read(bucket.at("unpartitioned")).num_rows == size
    assert "_commits/table.json" in bucket.keys("unpartitioned")
    values = {"year": 2014, "place": "a/b=c %41"}
    pc.score(model(), rows, bucket.at("deep"), partition=None)
    assert pc.score(model(), with_columns(rows, tmp_path, values), bucket.at("parts")).rows == 7
    assert pc.open_table(bucket.at("parts")).partitions() == [values]
    assert pc.score(model(), tmp_path / "deep", bucket.at("parts")).skipped == 1


def with_columns(rows: Path, folder: Path, partition: dict[str, Any]) -> Path:
    table = pq.read_table(rows)
    for name, value in partition.items():
        table = table.append_column(name, pa.array([value] * table.num_rows))
    pq.write_to_dataset(table, folder / "deep", partition_cols=[*partition])
    return folder / "deep"


def test_a_partition_in_parts_is_committed_by_one_manifest(
    lake: Path, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scoring, "PART_ROWS", 20)
    sink, partition = bucket.at("scored"), {"month": "2014-01"}
    expected = pc.open_table(lake).plan(["id"], partition=partition)
    ids = pa.Table.from_batches(expected.batches())["id"].to_pylist()
    first: list[str] = []
    with ThreadPoolExecutor(2) as executor:
        for engine, seed in ((None, 50), (executor, 51)):
            report = pc.score(model(seed), lake, sink, partition=partition, engine=engine)
            assert (report.rows, report.skipped) == (47, 0)
            assert read(sink)["id"].to_pylist() == ids, "in the order of the source"
            files = bucket.keys("scored/month=2014-01")
            assert len(files) == 2, "those of the other model are gone"
            assert not set(files) & set(first)
            first = files
            assert pc.score(model(seed), lake, sink, partition=partition).skipped == 1
    # No row of the second part matches the filter.
    few = {"partition": partition, "where": [("id", "<", 30)]}
    for rows, skipped in ((30, 0), (30, 1)):
        report = pc.score(model(), lake, sink, overwrite="append", **few)
        assert (report.rows, report.skipped) == (rows, skipped)
    assert sorted(read(sink)["id"].to_pylist()) == sorted([*ids, *range(30)])
    assert pc.clean_table(sink, older_than=timedelta(0)) == []


def test_files_of_another_writer_are_replaced(lake: Path, bucket: Bucket) -> None:
    pc.score(model(), lake, lake.parent / "by_hand", partition={"month": "2014-01"})
    bucket.copy_from(lake.parent / "by_hand", "scored")
    sink = bucket.at("scored")
    assert read(sink).num_rows == 47
    report = pc.score(model(51), lake, sink, partition={"month": "2014-01"})
    assert (report.rows, report.skipped) == (47, 0)
    assert set(read(sink)["model_id"].to_pylist()) == {model(51).id}
    keys = bucket.keys("scored")
    assert not [key for key in keys if key.endswith("part-0.parquet")]


def test_files_that_no_manifest_names_are_ignored_and_cleaned(lake: Path, bucket: Bucket) -> None:
    sink = bucket.at("scored")
    pc.score(model(), lake, sink, partition={"month": "2014-01"})
    stray = f"{bucket.name}/scored/month=2014-01/part-abc-{'0' * 32}.parquet"
    pq.write_table(rows_of(3), stray, filesystem=bucket.filesystem)
    assert read(sink).num_rows == 47
    # Nor do those of a partition without a manifest: another writer may be about to commit.
    first = f"{bucket.name}/scored/month=2014-02/part-abc-{'1' * 32}.parquet"
    pq.write_table(rows_of(3), first, filesystem=bucket.filesystem)
    assert read(sink).num_rows == 47
    with pytest.raises(pc.TableError, match="has no Parquet files"):
        read(bucket.at("scored/month=2014-02"))
    leftovers = pc.clean_table(sink, dry_run=True)
    assert not leftovers, "their writer may still be running"
    leftovers = pc.clean_table(sink, older_than=timedelta(0), dry_run=True)
    assert [leftover.path.rpartition("/")[2] for leftover in leftovers] == [
        name.rpartition("/")[2] for name in (stray, first)
    ]
    pc.score(model(51), lake, sink, partition={"month": "2014-01"})
    assert read(sink).num_rows == 47
    assert stray.rpartition("/")[2] in "".join(bucket.keys("scored"))
    # A partition that lost a file is scored again.
    files = bucket.keys("scored/month=2014-01")
    [name] = [name for name in files if not stray.endswith(name)]
    bucket.filesystem.delete_file(f"{bucket.name}/scored/month=2014-01/{name}")
    with pytest.raises(pc.TableError, match="which its manifest names"):
        read(sink)
    report = pc.score(model(51), lake, sink, partition={"month": "2014-01"})
    assert (report.rows, report.skipped) == (47, 0)


def test_refused_sources_and_sinks(lake: Path, bucket: Bucket) -> None:
    scored = bucket.at("scored")
    for source, sink, options, message in [
        (bucket.at("lake"), bucket.at("lake"), {}, "is the source"),
        (bucket.at("lake"), bucket.at("lake/month=2014-09"), {}, "is inside s3://"),
        (bucket.at("lake"), bucket.at("scored.parquet"), {}, "name a directory"),
        (lake, scored, {"partition": {"month": "2013-01"}}, "has no partition"),
        (bucket.at("sea"), scored, {}, "s3://.*/sea does not exist"),
        (dataclasses.replace(scored, version=3), scored, {}, "has no versions"),
    ]:
        with pytest.raises(pc.TableError, match=message):
            pc.score(model(), source, sink, **options)
    pc.score(model(), lake, scored)
    with pytest.raises(pc.TableError, match="contains 'month=2014-01'"):
        pc.score(model(), rows_of(1), scored)
    bucket.copy_from(lake / "month=2014-01", "delta/_delta_log")
    for action in (lambda: pc.fit(bucket.at("delta"), SPEC), lambda: to_delta(lake, bucket)):
        with pytest.raises(pc.TableError, match="is a Delta table; name its format"):
            action()


def test_stores_that_only_fsspec_supports_are_read_and_written(lake: Path) -> None:
    root = f"memory://{lake.parent.name}"
    report = pc.score(model(), lake, f"{root}/scored")
    assert report.rows == 141
    assert pc.score(model(), lake, f"{root}/scored").skipped == 3
    assert pc.score(model(51), lake, f"{root}/scored", partition={"month": "2014-01"}).skipped == 0
    scored = read(pc.TableRef(f"{root}/scored"))
    assert scored.num_rows == 141
    assert set(scored["model_id"].to_pylist()) == {model().id, model(51).id}
    # Such a table is a source, and its snapshot identifies its state.
    spec = pc.ModelSpec("prediction", SPEC.blocks)
    fitted = [pc.fit(f"{root}/scored", spec) for _ in range(2)]
    pc.score(model(), lake, f"{root}/scored", partition={"month": "2014-01"})
    fitted.append(pc.fit(f"{root}/scored", spec))
    snapshots = [fitted_model.training["snapshot"] for fitted_model in fitted]
    assert snapshots[0] == snapshots[1] != snapshots[2]


def test_a_delta_table_in_a_bucket_is_read_and_scored(lake: Path, bucket: Bucket) -> None:
    options = {
        "AWS_ACCESS_KEY_ID": "tester",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": bucket.endpoint,
        "AWS_ALLOW_HTTP": "true",
    }
    source, sink = (
        pc.TableRef(f"delta+s3://{bucket.name}/{name}", options=options) for name in ("d", "scored")
    )
    table = ds.dataset(lake, partitioning="hive").to_table()
    write_deltalake(lake.parent / "d", table, partition_by=["month"])
    bucket.copy_from(lake.parent / "d", "d")
    fitted = pc.fit(source, SPEC)
    assert fitted.id == pc.fit(lake.parent / "d", SPEC).id
    report = pc.score(fitted, source, sink)
    assert (report.rows, report.skipped, len(report.partitions)) == (141, 0, 3)
    assert pc.score(fitted, source, sink).skipped == 3
    assert read(sink).num_rows == 141
    assert DeltaTable(sink.uri, storage_options=options).version() == 2


def to_delta(lake: Path, bucket: Bucket) -> pc.ScoreReport:
    return pc.score(model(), lake, bucket.at("delta"))


def test_a_uri_is_not_a_path(tmp_path: Path) -> None:
    with pytest.raises(pc.TableError, match="was a URI before it was made a Path"):
        pc.fit(Path("s3://bucket/lake"), SPEC)
    with pytest.raises(pc.TableError, match="must not contain a password") as caught:
        pc.fit(f"s3://tester:{SECRET}@bucket/lake", SPEC)
    assert SECRET not in str(caught.value)
    with pytest.raises(pc.TableError, match="'acess_key'"):
        pc.fit(pc.TableRef("s3://bucket/lake", options={"acess_key": "x", "region": "x"}), SPEC)
    with pytest.raises(pc.TableError, match="takes no options"):
        pc.fit(pc.TableRef(str(tmp_path), options={"region": "x"}), SPEC)


def test_options_may_be_given_in_the_query(lake: Path, bucket: Bucket) -> None:
    query = "&".join(f"{name}={value}" for name, value in bucket.options.items())
    fitted = pc.fit(f"s3://{bucket.name}/lake?{query}", SPEC)
    assert fitted.id == pc.fit(lake, SPEC).id
    assert fitted.training["source"] == f"s3://{bucket.name}/lake"


def test_a_secret_is_neither_shown_nor_written(lake: Path, tmp_path: Path, bucket: Bucket) -> None:
    fitted = pc.fit(bucket.at("lake"), SPEC)
    store = pc.ModelStore(tmp_path / "store")
    store.save(fitted, "air")
    report = pc.score(fitted, bucket.at("lake"), bucket.at("scored"))
    shown = [repr(bucket.at("lake")), repr(report), json.dumps(report.to_dict()), repr(fitted)]
    shown.append(repr(pc.open_table(bucket.at("lake")).plan()))
    with pytest.raises(pc.TableError) as caught:
        pc.fit(bucket.at("sea"), SPEC)
    shown.append(str(caught.value))
    written = [path.read_bytes() for path in (tmp_path / "store").rglob("*") if path.is_file()]
    for key in bucket.keys("scored"):
        with bucket.filesystem.open_input_file(f"{bucket.name}/scored/{key}") as file:
            written.append(file.read())
    assert not [text for text in shown if SECRET in text]
    assert not [data for data in written if SECRET.encode() in data]


def test_the_cli_takes_uris(lake: Path, tmp_path: Path, bucket: Bucket) -> None:
    spec = tmp_path / "air.json"
    spec.write_text(json.dumps(SPEC.to_dict()))
    environment = {
        **os.environ,
        "AWS_ACCESS_KEY_ID": "tester",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": bucket.endpoint,
        "PROBCLASS_STORE": str(tmp_path / "store"),
    }
    source, sink = f"s3://{bucket.name}/lake", f"s3://{bucket.name}/scored"
    for command in (
        f"fit {source} --spec {spec} --name air --alias champion",
        f"score air@champion {source} {sink} --partition month=2014-01",
    ):
        run = subprocess.run(
            [sys.executable, "-m", "probclass_core", *command.split()],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert run.returncode == 0, run.stderr
    assert f"{source}" in str(pc.ModelStore(tmp_path / "store").load("air@champion").training)
    assert read(bucket.at("scored")).num_rows == 47
