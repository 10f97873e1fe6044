"""What holds for a table on a disk holds on every object store, in every format they keep."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from datetime import timedelta
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from buckets import Bucket
from lakes import SPEC, model, rows_of, write_lake, write_rows
from unreliable import Fault, Proxy

import probclass_core as pc

At = Callable[..., pc.TableRef]

FEBRUARY = {"month": "2014-02"}

every_store = pytest.mark.parametrize("bucket", ["s3", "azure", "google"], indirect=True)
every_format = pytest.mark.parametrize(
    ("bucket", "form"),
    [
        ("s3", "parquet"),
        ("s3", "delta"),
        ("azure", "parquet"),
        ("azure", "delta"),
        ("google", "parquet"),  # the emulator lacks the kind of upload that delta-rs makes
    ],
    indirect=["bucket"],
)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Two months on disk."""
    return write_lake(tmp_path / "lake", "2014-01", "2014-02")


def places(bucket: Bucket, form: str) -> At:
    return bucket.delta_at if form == "delta" else bucket.at


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[Callable[[int, Path, pc.TableRef], pc.ScoreReport]]:
    """Scores in another process: delta-rs holds Python up while it asks for a file's size."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        yield lambda *arguments: pool.submit(scored_in, *arguments).result(60)


def scored_in(seed: int, lake: Path, sink: pc.TableRef) -> pc.ScoreReport:
    return pc.score(model(seed), lake, sink)


def read(table: pc.TableRef, **rows: Any) -> pa.Table:
    plan = pc.open_table(table).plan(**rows)
    return pa.Table.from_batches(plan.batches(), plan.schema)


@every_store
def test_a_bucket_is_read_as_a_disk_is(bucket: Bucket, lake: Path) -> None:
    bucket.copy_from(lake, "lake")
    assert pc.fit(bucket.at("lake"), SPEC).id == pc.fit(lake, SPEC).id
    assert pc.open_table(bucket.at("lake")).plan(partition=FEBRUARY).rows == 47


@every_format
def test_partitions_are_scored_once_replaced_whole_and_cleaned(
    bucket: Bucket, lake: Path, form: str
) -> None:
    scored = places(bucket, form)("scored")
    report = pc.score(model(50), lake, scored)
    assert (report.rows, report.skipped) == (94, 0)
    assert pc.score(model(50), lake, scored).skipped == 2
    write_rows(lake / "month=2014-02", rows_of(5, rows=9))
    assert pc.score(model(50), lake, scored).skipped == 1
    assert read(scored, partition=FEBRUARY)["id"].to_pylist() == [5000 + n for n in range(9)]

    def stop(done: int, total: int | None) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pc.score(model(51), lake, scored, progress=stop)
    assert pc.clean_table(scored, older_than=timedelta(0)) == []
    told = pc.inspect_table(scored)
    assert told.files is not None
    assert (told.rows, len(told.partitions)) == (56, 2)
    assert all(file.path.startswith(f"{scored.uri}/month=2014-0") for file in told.files)
    assert told.files.models == [model(50).id]


@pytest.mark.parametrize(
    ("bucket", "form", "kind", "requests"),
    [
        ("azure", "parquet", "slow down", "PUT .*_commits"),
        ("azure", "parquet", "cut", "PUT .*parquet"),
        ("azure", "parquet", "lost", "PUT .*_commits"),
        ("azure", "parquet", "slow down", "GET"),
        ("azure", "delta", "slow down", "PUT"),
        ("azure", "delta", "cut", "PUT .*_delta_log"),
        ("s3", "delta", "slow down", "PUT"),
        ("s3", "delta", "cut", "PUT .*_delta_log"),
        ("s3", "delta", "slow down", "GET"),
        ("s3", "delta", "cut", "(GET|PUT) .*parquet"),
    ],
    indirect=["bucket"],
)
def test_writing_outlasts_a_store_that_fails_now_and_then(
    bucket: Bucket,
    lake: Path,
    proxy: Proxy,
    elsewhere: Callable[[int, Path, pc.TableRef], pc.ScoreReport],
    form: str,
    kind: str,
    requests: str,
) -> None:
    at = places(bucket, form)
    pc.score(model(50), lake, at("scored"))
    fault = Fault(kind, requests, times=1)
    proxy.faults.append(fault)
    report = elsewhere(51, lake, at("scored", by=proxy.endpoint))
    assert (report.rows, report.skipped) == (94, 0)
    assert fault.met > fault.times
    scored = read(at("scored"))
    assert scored.num_rows == 94
    assert set(scored["model_id"].to_pylist()) == {model(51).id}
    assert pc.score(model(51), lake, at("scored")).skipped == 2


@pytest.mark.parametrize("bucket", ["s3", "azure"], indirect=True)
def test_of_two_writers_of_a_delta_partition_one_commits(bucket: Bucket, lake: Path) -> None:
    sink = bucket.delta_at("scored")
    pc.score(model(50), lake, sink)
    barrier = threading.Barrier(2)
    ended: dict[int, str] = {}

    def write(seed: int) -> None:
        def wait_at_the_end(done: int, total: int | None) -> None:
            if done == total:
                barrier.wait(30)

        try:
            pc.score(model(seed), lake, sink, partition=FEBRUARY, progress=wait_at_the_end)
            ended[seed] = "committed"
        except pc.TableError as error:
            ended[seed] = str(error)

    writers = [threading.Thread(target=write, args=(seed,)) for seed in (51, 52)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    [winner] = [seed for seed, end in ended.items() if end == "committed"]
    [loser] = [end for end in ended.values() if end != "committed"]
    assert "was replaced by another writer" in loser
    assert set(read(sink, partition=FEBRUARY)["model_id"].to_pylist()) == {model(winner).id}


@pytest.mark.parametrize("bucket", ["azure"], indirect=True)
def test_a_refused_key_is_told_in_one_line_and_never_shown(bucket: Bucket, lake: Path) -> None:
    wrong = "bm90IHRoZSBrZXk="
    refused = [
        bucket.at("lake", account_key=wrong),
        bucket.delta_at("lake", azure_storage_account_key=wrong),
    ]
    for place in refused:
        with pytest.raises(pc.TableError, match="abfs://lake-") as read_from:
            pc.fit(place, SPEC)
        with pytest.raises(pc.TableError, match="abfs://lake-") as written_to:
            pc.score(model(), lake, place)
        for told in (str(read_from.value), str(written_to.value)):
            assert not {"\n", "\x1b"} & {*told}
            assert wrong not in told


@every_store
def test_a_model_store_lies_in_a_bucket(bucket: Bucket) -> None:
    uri = f"{bucket.scheme}://{bucket.name}/models"
    store = pc.ModelStore(uri, options=bucket.options)
    version = store.save(model(), "air")
    store.promote("air", version, alias="champion")
    again = pc.ModelStore(uri, options=bucket.options)
    assert again.models() == ["air"]
    assert again.load("air@champion").id == model().id
    with pytest.raises(pc.StoreError, match="no version or alias 'challenger'"):
        again.load("air@challenger")
