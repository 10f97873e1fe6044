"""What goes wrong on the way to an object store: throttled, cut off, killed, overtaken, refused."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as compute
import pyarrow.parquet as pq
import pytest
from buckets import Bucket
from lakes import SPEC, model, rows_of, write_lake, write_rows
from unreliable import Fault, Proxy

import probclass_core as pc
from probclass_core.arrow.arrays import BATCH_ROWS

Through = Callable[[str], pc.TableRef]

PROCESSES = Path(__file__).parent / "object_store_processes.py"
ROWS = {"old": 40, "new": 60}
FEBRUARY = {"month": "2014-02"}


@pytest.fixture
def lake(tmp_path: Path, bucket: Bucket) -> Path:
    """Months on disk, and a copy of them in the bucket."""
    root = write_lake(tmp_path / "lake", "2014-01", "2014-02")
    bucket.copy_from(root, "lake")
    return root


def read(table: pc.TableRef) -> pa.Table:
    plan = pc.open_table(table).plan()
    return pa.Table.from_batches(plan.batches(), plan.schema)


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
def test_reading_outlasts_a_store_that_fails_now_and_then(
    lake: Path, proxy: Proxy, through: Through, kind: str, requests: str
) -> None:
    fault = Fault(kind, requests, times=5)
    proxy.faults.append(fault)
    assert pc.fit(through("lake"), SPEC).id == pc.fit(lake, SPEC).id
    assert fault.met > fault.times


@pytest.mark.parametrize(
    ("kind", "requests"),
    [
        ("slow down", ".*"),
        ("cut", ".*"),
        ("lost", "PUT .*parquet"),
        ("lost", "PUT .*_commits"),
        ("slow down", "PUT .*_commits"),
        ("lost", "DELETE"),
    ],
)
def test_writing_outlasts_it_as_well(
    lake: Path, bucket: Bucket, proxy: Proxy, through: Through, kind: str, requests: str
) -> None:
    pc.score(model(50), lake, bucket.at("scored"))
    fault = Fault(kind, requests, times=3)
    proxy.faults.append(fault)
    report = pc.score(model(51), lake, through("scored"))
    assert (report.rows, report.skipped) == (94, 0)
    assert fault.met > fault.times
    scored = read(bucket.at("scored"))
    assert scored.num_rows == 94
    assert set(scored["model_id"].to_pylist()) == {model(51).id}
    assert pc.score(model(51), lake, through("scored")).skipped == 2


def test_no_row_is_read_twice_where_a_file_fails_half_way(
    tmp_path: Path, bucket: Bucket, proxy: Proxy, through: Through
) -> None:
    # Four row groups, fetched by more than one request, of which a later one fails.
    size = BATCH_ROWS
    noise = np.random.default_rng(0)
    columns = {f"x{number}": noise.normal(size=size) for number in range(20)}
    (tmp_path / "rows").mkdir()
    rows = pa.table({"id": np.arange(size), **columns})
    pq.write_table(rows, tmp_path / "rows" / "0.parquet", row_group_size=BATCH_ROWS // 4)
    bucket.copy_from(tmp_path / "rows", "rows")
    plan = pc.open_table(through("rows")).plan()
    [fragment] = plan.fragments
    # More often than the library below tries by itself.
    fault = Fault("cut", r"GET .*parquet bytes=[1-9]\d{7}", times=6)
    proxy.faults.append(fault)
    batches, given_before_the_end = [], None
    for batch in fragment.read():
        if not fault.met > fault.times:
            given_before_the_end = len(batches)
        batches.append(batch)
    assert fault.met > fault.times
    assert given_before_the_end is not None, "it failed at once, not half-way"
    assert pa.Table.from_batches(batches).equals(rows)


def test_a_store_that_never_recovers_is_given_up(
    lake: Path, bucket: Bucket, proxy: Proxy, through: Through
) -> None:
    pc.score(model(50), lake, bucket.at("scored"))
    proxy.faults.append(Fault("slow down", "PUT", times=10_000))
    began = time.monotonic()
    with pytest.raises(
        pc.TableError, match=r"cannot write s3://.*SLOW_DOWN.* is unchanged"
    ) as told:
        pc.score(model(51), lake, through("scored"), partition=FEBRUARY)
    assert time.monotonic() - began < 60
    assert "\n" not in str(told.value)
    assert set(read(bucket.at("scored"))["model_id"].to_pylist()) == {model(50).id}


def test_what_will_not_heal_fails_at_once(
    lake: Path, bucket: Bucket, proxy: Proxy, through: Through
) -> None:
    nowhere = pc.TableRef("s3://no-such-bucket/lake", options=bucket.options)
    closed = bucket.at("lake", endpoint_override="http://127.0.0.1:9")
    proxy.faults.append(Fault("denied", ".*", times=10_000))
    for action, message in [
        (lambda: pc.fit(nowhere, SPEC), "s3://no-such-bucket/lake does not exist"),
        (lambda: pc.score(model(), lake, nowhere), "s3://no-such-.*: bucket .* does not exist"),
        (lambda: pc.fit(closed, SPEC), r"cannot read s3://.*/lake: .*not connect"),
        (lambda: pc.score(model(), lake, closed), r"cannot read s3://.*/lake: .*not connect"),
        (lambda: pc.fit(through("lake"), SPEC), r"cannot read s3://.*/lake: .*ACCESS_DENIED"),
        (lambda: pc.score(model(), lake, through("scored")), r"s3://.*/scored: .*ACCESS_DENIED"),
    ]:
        began = time.monotonic()
        with pytest.raises(pc.TableError, match=message) as told:
            action()
        assert time.monotonic() - began < 10
        assert "\n" not in str(told.value)
    assert len(proxy.requests) < 6, "refused, and asked again"


def test_a_file_deleted_while_it_is_read_is_told_by_name(lake: Path, bucket: Bucket) -> None:
    plan = pc.open_table(bucket.at("lake")).plan()
    bucket.filesystem.delete_file(f"{bucket.name}/lake/month=2014-02/0.parquet")
    with pytest.raises(pc.TableError, match=r"cannot read s3://.*/lake/month=2014-02/0\.parquet"):
        list(plan.batches())


@pytest.fixture
def folder(tmp_path: Path, bucket: Bucket) -> Path:
    """Two models, two lakes of as many rows, and the old one's scored table in the bucket."""
    store = pc.ModelStore(tmp_path / "store")
    for seed, (which, rows) in enumerate(ROWS.items(), start=50):
        store.save(model(seed), which)
        write_rows(tmp_path / which / "month=2014-01", rows_of(1))
        write_rows(tmp_path / which / "month=2014-02", rows_of(2, rows))
    pc.score(model(50), tmp_path / "old", bucket.at("scored"))
    return tmp_path


def state(table: pc.TableRef) -> str:
    """Which of the two February is; it must be all of one, and nothing else."""
    rows = pa.Table.from_batches(pc.open_table(table).plan(partition=FEBRUARY).batches())
    [model_id] = set(rows["model_id"].to_pylist())
    which = {model(50).id: "old", model(51).id: "new"}[model_id]
    assert rows.num_rows == ROWS[which]
    assert compute.sum(rows["id"]).as_py() == sum(range(2000, 2000 + ROWS[which]))
    return which


class Scorer:
    """A process whose scorings die at a request of theirs."""

    def __init__(self, folder: Path, sink: pc.TableRef, proxy: Proxy, through: Through) -> None:
        self.proxy = proxy
        self.process = subprocess.Popen(
            [sys.executable, PROCESSES, folder, sink.uri],
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(sys.path),
                "OPTIONS": json.dumps(dict(through("scored").options)),
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def dies(self, overwrite: str, step: int) -> bool:
        """Whether a scoring came to the point, before or after a request, at which it is killed."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        count = itertools.count()
        child: list[int] = []

        def killed(request: str) -> bool:
            now = next(count) == step
            if now:
                os.kill(child[0], signal.SIGKILL)
            return now

        self.proxy.before = self.proxy.after = killed
        print(overwrite, file=self.process.stdin, flush=True)
        child.append(int(self.process.stdout.readline()))
        outcome = self.process.stdout.readline().strip()
        assert outcome in ("killed", "0")
        return outcome == "killed"

    def __enter__(self) -> Scorer:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.communicate()


@pytest.mark.parametrize(
    ("bucket", "stride"),
    [("s3", 1), ("azure", 7)],  # where there are many more requests
    indirect=["bucket"],
)
def test_killed_at_any_request_all_is_old_or_new_and_a_rerun_completes(
    folder: Path, bucket: Bucket, proxy: Proxy, through: Through, stride: int
) -> None:
    sink = bucket.at("scored")
    states = []
    with Scorer(folder, sink, proxy, through) as scorer:
        for step in itertools.count(step=stride):
            pc.score(model(50), folder / "old", sink, partition=FEBRUARY)
            killed = scorer.dies("partition", step)
            states.append(state(sink))
            report = pc.score(model(51), folder / "new", sink, partition=FEBRUARY)
            assert report.skipped == (1 if states[-1] == "new" else 0)
            assert state(sink) == "new"
            january = pc.open_table(sink).plan(partition={"month": "2014-01"})
            assert january.rows == 40
            if not killed:
                break
    rows = read(sink).num_rows
    pc.clean_table(sink, older_than=timedelta(0))
    assert read(sink).num_rows == rows
    assert len(bucket.keys("scored")) == 4, "two partitions and their manifests"
    # Old before the one request that commits, new after it; the kill came on either side.
    assert states == sorted(states, reverse=True)
    assert states.count("old") >= 2
    assert states.count("new") >= 2


def test_killed_while_rows_are_added_all_are_there_once_or_none(
    folder: Path, bucket: Bucket, proxy: Proxy, through: Through
) -> None:
    sink = bucket.at("scored")
    counts = []
    with Scorer(folder, sink, proxy, through) as scorer:
        for step in itertools.count(step=3):
            pc.score(model(50), folder / "old", sink, partition=FEBRUARY)
            assert state(sink) == "old"
            killed = scorer.dies("append", step)
            counts.append(pc.open_table(sink).plan(partition=FEBRUARY).rows)
            for _ in range(2):
                report = pc.score(
                    *(model(51), folder / "new", sink), partition=FEBRUARY, overwrite="append"
                )
            assert (report.rows, report.skipped) == (ROWS["new"], 1)
            rows = pc.open_table(sink).plan(["model_id"], partition=FEBRUARY)
            ids = pa.Table.from_batches(rows.batches())["model_id"].to_pylist()
            assert sorted(ids) == sorted(
                [model(50).id] * ROWS["old"] + [model(51).id] * ROWS["new"]
            )
            if not killed:
                break
    pc.clean_table(sink, older_than=timedelta(0))
    assert len(bucket.keys("scored")) == 6, "January, February and more of it, with manifests"
    assert counts == sorted(counts)
    assert {*counts} == {ROWS["old"], ROWS["old"] + ROWS["new"]}


def test_of_two_writers_of_one_partition_the_later_stands_whole(
    folder: Path, bucket: Bucket
) -> None:
    sink = bucket.at("scored")
    for _ in range(5):
        pc.score(model(52), folder / "old", sink, partition=FEBRUARY)
        barrier = threading.Barrier(2)

        def wait_at_the_end(done: int, total: int | None, barrier: Any = barrier) -> None:
            if done == total:
                barrier.wait(30)

        def write(which: str, seed: int, meet: Any = wait_at_the_end) -> None:
            lake = folder / which
            pc.score(model(seed), lake, sink, partition=FEBRUARY, progress=meet)

        writers = [
            threading.Thread(target=write, args=("old", 50)),
            threading.Thread(target=write, args=("new", 51)),
        ]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        assert state(sink) in ("old", "new")


def test_a_canceled_scoring_leaves_nothing(folder: Path, bucket: Bucket) -> None:
    before = bucket.keys("scored")

    def stop(done: int, total: int | None) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pc.score(model(51), folder / "new", bucket.at("scored"), progress=stop)
    assert bucket.keys("scored") == before
