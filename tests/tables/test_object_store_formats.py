"""Tables and model stores behave on every object store as on a local disk, in all formats."""

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
from monthly_lake import SPEC, model, rows_of, write_lake, write_rows
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
    """A table of two months on a local disk."""
    return write_lake(tmp_path / "lake", "2014-01", "2014-02")


def table_in(bucket: Bucket, form: str) -> At:
    """Return the method that gives a table of a format in the bucket."""
    return bucket.delta_at if form == "delta" else bucket.at


@pytest.fixture(scope="module")
def score_in_process() -> Iterator[Callable[[int, Path, pc.TableRef], pc.ScoreReport]]:
    """Score in another process, because delta-rs keeps the GIL while it requests a file's size."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        yield lambda *arguments: pool.submit(score, *arguments).result(60)


def score(seed: int, lake: Path, sink: pc.TableRef) -> pc.ScoreReport:
    return pc.score(model(seed), lake, sink)


def read(table: pc.TableRef, **selection: Any) -> pa.Table:
    plan = pc.open_table(table).plan(**selection)
    return pa.Table.from_batches(plan.batches(), plan.schema)


@every_store
def test_tables_in_a_bucket_are_read(bucket: Bucket, lake: Path) -> None:
    bucket.copy_from(lake, "lake")
    assert pc.fit(bucket.at("lake"), SPEC).id == pc.fit(lake, SPEC).id
    assert pc.open_table(bucket.at("lake")).plan(partition=FEBRUARY).rows == 47


@every_format
def test_partitions_are_scored_once_replaced_and_cleaned(
    bucket: Bucket, lake: Path, form: str
) -> None:
    scored = table_in(bucket, form)("scored")
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
    inspection = pc.inspect_table(scored)
    assert inspection.files is not None
    assert (inspection.rows, len(inspection.partitions)) == (56, 2)
    assert all(f.path.startswith(f"{scored.uri}/month=2014-0") for f in inspection.files)
    assert inspection.files.models == [model(50).id]


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
def test_writing_survives_transient_failures(
    bucket: Bucket,
    lake: Path,
    proxy: Proxy,
    score_in_process: Callable[[int, Path, pc.TableRef], pc.ScoreReport],
    form: str,
    kind: str,
    requests: str,
) -> None:
    at = table_in(bucket, form)
    pc.score(model(50), lake, at("scored"))
    fault = Fault(kind, requests, times=1)
    proxy.faults.append(fault)
    report = score_in_process(51, lake, at("scored", by=proxy.endpoint))
    assert (report.rows, report.skipped) == (94, 0)
    assert fault.met > fault.times
    scored = read(at("scored"))
    assert scored.num_rows == 94
    assert set(scored["model_id"].to_pylist()) == {model(51).id}
    assert pc.score(model(51), lake, at("scored")).skipped == 2


@pytest.mark.parametrize("bucket", ["s3", "azure"], indirect=True)
def test_one_of_two_concurrent_writers_of_a_delta_partition_commits(
    bucket: Bucket, lake: Path
) -> None:
    sink = bucket.delta_at("scored")
    pc.score(model(50), lake, sink)
    barrier = threading.Barrier(2)
    outcomes: dict[int, str] = {}

    def write(seed: int) -> None:
        def wait_before_commit(done: int, total: int | None) -> None:
            if done == total:
                barrier.wait(30)

        try:
            pc.score(model(seed), lake, sink, partition=FEBRUARY, progress=wait_before_commit)
            outcomes[seed] = "committed"
        except pc.TableError as error:
            outcomes[seed] = str(error)

    writers = [threading.Thread(target=write, args=(seed,)) for seed in (51, 52)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    [winner] = [seed for seed, outcome in outcomes.items() if outcome == "committed"]
    [loser] = [outcome for outcome in outcomes.values() if outcome != "committed"]
    assert "was replaced by another writer" in loser
    assert set(read(sink, partition=FEBRUARY)["model_id"].to_pylist()) == {model(winner).id}


@pytest.mark.parametrize("bucket", ["azure"], indirect=True)
def test_a_rejected_key_gives_one_line_and_is_never_shown(bucket: Bucket, lake: Path) -> None:
    wrong_key = "bm90IHRoZSBrZXk="
    tables = [
        bucket.at("lake", account_key=wrong_key),
        bucket.delta_at("lake", azure_storage_account_key=wrong_key),
    ]
    for table in tables:
        with pytest.raises(pc.TableError, match="abfs://lake-") as read_error:
            pc.fit(table, SPEC)
        with pytest.raises(pc.TableError, match="abfs://lake-") as write_error:
            pc.score(model(), lake, table)
        for message in (str(read_error.value), str(write_error.value)):
            assert not {"\n", "\x1b"} & {*message}
            assert wrong_key not in message


@every_store
def test_a_model_store_in_a_bucket(bucket: Bucket) -> None:
    uri = f"{bucket.scheme}://{bucket.name}/models"
    store = pc.ModelStore(uri, options=bucket.options)
    version = store.save(model(), "air")
    store.promote("air", version, alias="champion")
    again = pc.ModelStore(uri, options=bucket.options)
    assert again.models() == ["air"]
    assert again.load("air@champion").id == model().id
    with pytest.raises(pc.StoreError, match="no version or alias 'challenger'"):
        again.load("air@challenger")
