"""Faults on the way to an object store: throttling, dropped connections, kills, refusals."""

from __future__ import annotations

import itertools
import re
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from buckets import Bucket
from monthly_lake import SPEC, model
from reading import read_rows
from unreliable import Fault, Proxy

import probclass_core as pc
from probclass_core.arrow.arrays import BATCH_ROWS
from probclass_core.errors import TableError
from probclass_core.io.failures import skip_rows
from probclass_core.io.open import Parquet
from probclass_core.scoring.reports import ScoreReport
from probclass_core.testing.tables import FIRST, SECOND, TableUnderTest, sorted_rows

Through = Callable[[str], pc.TableRef]

FEBRUARY = {"month": "2014-02"}


@pytest.mark.parametrize(
    ("kind", "requests"),
    [
        ("slow down", ".*"),
        ("cut", ".*"),
        ("half", "GET .*list-type"),
        ("half", "GET .*parquet"),
        ("cut", "HEAD .*parquet"),
    ],
)
def test_reads_are_retried(
    lake: Path, proxy: Proxy, through: Through, kind: str, requests: str
) -> None:
    fault = Fault(kind, requests, times=5)
    proxy.faults.append(fault)
    assert pc.fit(through("lake"), SPEC).id == pc.fit(lake, SPEC).id
    assert fault.met > fault.times


@pytest.fixture(scope="module")
def score_in_process() -> Iterator[Callable[[int, Path, pc.TableRef], ScoreReport]]:
    """Score in another process, because delta-rs keeps the GIL while it requests a file's size."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        yield lambda *arguments: pool.submit(_score, *arguments).result(60)


def _score(seed: int, lake: Path, sink: pc.TableRef) -> ScoreReport:
    return pc.score(model(seed), lake, sink)


@pytest.mark.parametrize(
    ("bucket", "form", "kind", "requests", "times"),
    [
        ("s3", "parquet", "slow down", ".*", 3),
        ("s3", "parquet", "cut", ".*", 3),
        ("s3", "parquet", "lost", "PUT .*parquet", 3),
        ("s3", "parquet", "slow down", "PUT .*parquet", 3),
        ("azure", "parquet", "slow down", "PUT .*parquet", 1),
        ("azure", "parquet", "cut", "PUT .*parquet", 1),
        ("azure", "parquet", "lost", "PUT .*parquet", 1),
        ("azure", "parquet", "slow down", "GET", 1),
        ("azure", "delta", "slow down", "PUT", 1),
        ("azure", "delta", "cut", "PUT .*_delta_log", 1),
        ("s3", "delta", "slow down", "PUT", 1),
        ("s3", "delta", "cut", "PUT .*_delta_log", 1),
        ("s3", "delta", "slow down", "GET", 1),
        ("s3", "delta", "cut", "(GET|PUT) .*parquet", 1),
    ],
    indirect=["bucket"],
)
def test_writes_are_retried(
    bucket: Bucket,
    lake: Path,
    proxy: Proxy,
    score_in_process: Callable[[int, Path, pc.TableRef], ScoreReport],
    form: str,
    kind: str,
    requests: str,
    times: int,
) -> None:
    at = bucket.delta_at if form == "delta" else bucket.at
    pc.score(model(50), lake, at("scored"))
    fault = Fault(kind, requests, times)
    proxy.faults.append(fault)
    report = score_in_process(51, lake, at("scored", by=proxy.endpoint))
    assert (report.rows, report.counts["unchanged"]) == (141, 0)
    assert fault.met > fault.times
    scored = read_rows(at("scored"))
    assert scored.num_rows == 141
    assert set(scored["model_id"].to_pylist()) == {model(51).id}
    assert pc.score(model(51), lake, at("scored")).counts["unchanged"] == 3


def test_no_row_is_read_twice_if_a_file_fails_half_way(
    tmp_path: Path,
    bucket: Bucket,
    proxy: Proxy,
    through: Through,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Four row groups, fetched by several requests, of which a later one fails.
    size = BATCH_ROWS
    noise = np.random.default_rng(0)
    columns = {f"x{number}": noise.normal(size=size) for number in range(20)}
    (tmp_path / "rows").mkdir()
    rows = pa.table({"id": np.arange(size), **columns})
    pq.write_table(rows, tmp_path / "rows" / "0.parquet", row_group_size=BATCH_ROWS // 4)
    bucket.copy_from(tmp_path / "rows", "rows")
    plan = pc.open_table(through("rows")).plan()
    [unit] = plan.units
    # More often than the library itself retries.
    fault = Fault("cut", r"GET .*parquet bytes=[1-9]\d{7}", times=6)
    proxy.faults.append(fault)
    read_before = []

    def skip(count: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        read_before.append(count)
        return skip_rows(count, batches)

    monkeypatch.setattr("probclass_core.io.failures.skip_rows", skip)
    assert pa.Table.from_batches(unit.read()).equals(rows)
    assert fault.met > fault.times
    assert read_before[0] == 0
    assert read_before[-1] > 0, "it failed at once, not half-way"


@pytest.mark.parametrize(
    ("bucket", "kind", "reason"),
    [("s3", "slow down", "503 Service Unavailable"), ("s3", "cut", ""), ("azure", "cut", "")],
    indirect=["bucket"],
)
def test_retries_of_a_store_that_never_recovers_end(
    lake: Path, bucket: Bucket, proxy: Proxy, through: Through, kind: str, reason: str
) -> None:
    pc.score(model(50), lake, bucket.at("scored"))
    before = bucket.keys("scored")
    proxy.faults.append(Fault(kind, "PUT", times=10_000))
    began, message = time.monotonic(), rf"cannot write .*scored.*{reason}.* is unchanged"
    with pytest.raises(TableError, match=message) as caught:
        pc.score(model(51), lake, through("scored"), partition=FEBRUARY)
    assert time.monotonic() - began < 60
    assert "\n" not in str(caught.value)
    assert set(read_rows(bucket.at("scored"))["model_id"].to_pylist()) == {model(50).id}
    assert bucket.keys("scored") == before


def test_permanent_errors_are_not_retried(
    lake: Path, bucket: Bucket, proxy: Proxy, through: Through
) -> None:
    nowhere = pc.TableRef("s3://no-such-bucket/lake", options=bucket.options)
    closed = bucket.at("lake", endpoint="http://127.0.0.1:9")
    proxy.faults.append(Fault("denied", ".*", times=10_000))
    february: dict[str, Any] = {"partition": FEBRUARY}
    for action, message in [
        (lambda: pc.fit(nowhere, SPEC), "s3://no-such-bucket/lake does not exist"),
        (lambda: pc.score(model(), lake, nowhere), "s3://no-such-.*: bucket .* does not exist"),
        (lambda: pc.fit(closed, SPEC), r"cannot read s3://.*/lake: .*not connect"),
        (
            lambda: pc.score(model(), lake, closed, **february),
            r"cannot read s3://.*: .*not connect",
        ),
        (lambda: pc.fit(through("lake"), SPEC), r"cannot read s3://.*/lake: .*ACCESS_DENIED"),
        (lambda: pc.score(model(), lake, through("scored")), r"s3://.*/scored: .*ACCESS_DENIED"),
    ]:
        began = time.monotonic()
        with pytest.raises(TableError, match=message) as caught:
            action()
        assert time.monotonic() - began < 60
        assert "\n" not in str(caught.value)
    assert len(proxy.requests) < 6, "refused requests were retried"


def test_that_a_file_does_not_exist_is_an_answer_and_no_fault(
    lake: Path, proxy: Proxy, through: Through
) -> None:
    pc.score(model(), lake, through("scored"), partition=FEBRUARY)
    asked = [request for request in proxy.requests if re.match("HEAD .*scored.*parquet", request)]
    assert len(asked) <= 4, "it was asked again"


@pytest.mark.parametrize("bucket", ["s3", "azure", "google"], indirect=True)
def test_an_object_replaced_while_it_is_read_is_an_error(bucket: Bucket) -> None:
    path = f"{bucket.name}/rows/0.parquet"
    bucket.filesystem.create_dir(f"{bucket.name}/rows")
    old, new = (pa.table({"x": np.full(100, value)}) for value in (1.0, 2.0))
    for _ in range(50):
        pq.write_table(old, path, filesystem=bucket.filesystem)
        before = bucket.filesystem.get_file_info(path)
        [unit] = pc.open_table(bucket.at("rows")).plan().units
        reading = unit.read()
        next(reading)
        pq.write_table(new, path, filesystem=bucket.filesystem)
        with pytest.raises(TableError, match=r"rows/0\.parquet has changed while"):
            list(reading)
        after = bucket.filesystem.get_file_info(path)
        # Google reports fractions of a second; elsewhere size and time are soon the same.
        if bucket.scheme == "gs" or (after.size, after.mtime) == (before.size, before.mtime):
            return
    pytest.fail("the object was never replaced within a second")


def kill_at(step: int, process: subprocess.Popen[str]) -> Callable[[str], bool]:
    """Kill a process at a request, counted from 0; return whether a request is that one."""
    requests = itertools.count()

    def kill(request: str) -> bool:
        if reached := next(requests) == step:
            process.kill()
        return reached

    return kill


@pytest.mark.parametrize("bucket", ["s3", "azure"], indirect=True)
def test_killed_at_any_request_the_partition_is_old_or_new_and_a_rerun_completes(
    bucket: Bucket, proxy: Proxy, through: Through
) -> None:
    """Writers are killed before and after each request of theirs that changes something."""
    table = TableUnderTest(Parquet(), bucket.at("scored"), partitioned=True, readers={})
    slow = TableUnderTest(Parquet(), through("scored"), partitioned=True, readers={})
    old, new = FIRST, {**FIRST, "a": SECOND}
    committed = []
    for step in itertools.count():
        for name in FIRST:
            table.replace(name, FIRST[name])
        writer = slow.start("a", SECOND, append=False)
        proxy.before = proxy.after = kill_at(step, writer)
        writer.communicate()
        committed.append(table.state() != sorted_rows(old))
        table.check(new if committed[-1] else old)
        table.replace("a", SECOND)
        table.check(new)
        if writer.returncode == 0:
            break
    table.clean()
    table.check(new)
    assert len(bucket.keys("scored")) == 2, "one object for each partition"
    # Old before the request that commits, new after it; kills came before and after it.
    assert committed == sorted(committed)
    assert committed.count(False) >= 2
    assert committed.count(True) >= 2
