"""Count what readers of a bare directory see while its partitions are replaced on an object store.

PYTHONPATH=.:tests python tests/tables/bare_readers.py [--store s3] [--replacements 250]

Four partitions of several row groups are replaced in a loop, and a quarter of the writers is killed
at a random instant. Meanwhile other processes read all four in a loop, by listing the directory.
Every value says which replacement wrote it, so that each partition read is one of these:

- whole: all rows of one replacement, and nothing else
- doubles: all rows of more than one replacement
- mixture: some rows or columns of one replacement, and some of another
- missing: too few rows
- error: the library raised an error

``make servers`` installs the servers.
"""

from __future__ import annotations

import argparse
import functools
import json
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
from buckets import KINDS, Bucket
from servers import SERVERS_BY_KIND

PARTITIONS = 4
KILLED = 0.25
TABLE = "table"


def rows_of(version: int, count: int) -> pa.Table:
    """The rows of a replacement, all values of which name it."""
    noise = np.random.default_rng(version).random(count)
    return pa.table(
        {
            "version": np.full(count, version),
            "rows": np.full(count, count),
            "p_low": version + noise,
            "label": [f"{version:06d}"] * count,
            "p_high": version + noise[::-1],
        }
    )


def kind_of(found: pa.Table) -> str:
    """What a reading of one partition is; see above."""
    versions = np.asarray(found["version"])
    if not len(versions):
        return "missing"
    named = [np.floor(np.asarray(found[name])) for name in ("p_low", "p_high")]
    named.append(np.asarray(found["label"].cast(pa.int64())))
    if not all(np.array_equal(other, versions) for other in named):
        return "mixture"
    counts = {int(version): int((versions == version).sum()) for version in set(versions)}
    expected = {v: int(np.asarray(found["rows"])[versions == v][0]) for v in counts}
    if counts != expected:
        return "mixture" if len(counts) > 1 else "missing"
    for version, count in counts.items():
        low = np.sort(np.asarray(found["p_low"])[versions == version])
        if not np.array_equal(low, np.sort(np.asarray(rows_of(version, count)["p_low"]))):
            return "mixture"
    return "whole" if len(counts) == 1 else "doubles"


def replace(bucket: Bucket, partition: int, rows: pa.Table) -> None:
    """Replace a partition as a scoring commits it."""
    from probclass_core.io.open import open_sink

    sink = open_sink(bucket.at(TABLE), {"p": partition})
    commit = {"commit_id": f"{rows['version'][0].as_py():032x}"}
    with sink.stage(rows.schema, commit) as staged:
        (part,) = staged.parts(1)
        with closing(part):
            for batch in rows.to_batches(max_chunksize=20_000):
                part.write(batch)
            part.finish()
        staged.publish()


# Readers.


def pyarrow(bucket: Bucket) -> pa.Table:
    """Read by a dataset."""
    path, files = f"{bucket.name}/{TABLE}", bucket.filesystem
    return ds.dataset(path, filesystem=files, partitioning="hive", format="parquet").to_table()


def polars(bucket: Bucket) -> pa.Table:
    """Read by a scan."""
    import polars as pl

    options = bucket.delta_options_at(bucket.endpoint)
    if bucket.scheme == "gs":
        options = {"base_url": bucket.endpoint, "skip_signature": "true", "allow_http": "true"}
    uri = f"{bucket.scheme}://{bucket.name}/{TABLE}/*/*.parquet"
    frame = pl.scan_parquet(uri, storage_options=options, hive_partitioning=True)
    return frame.collect().to_arrow()


def probclass(bucket: Bucket) -> pa.Table:
    """Read by a plan."""
    import probclass_core as pc

    plan = pc.open_table(bucket.at(TABLE)).plan()
    return pa.Table.from_batches(plan.batches(), plan.schema)


READERS = (pyarrow, polars, probclass)


def read_on(
    reader: Callable[[Bucket], pa.Table], bucket: Bucket, began: Any, stop: Any, results: Any
) -> None:
    """Read all partitions until it is stopped, and count the kinds of what was read."""
    kinds: Counter[str] = Counter()
    while not stop.is_set():
        try:
            found = reader(bucket)
        except (KeyboardInterrupt, SystemExit):
            break
        except BaseException:  # Polars panics, which is not an Exception
            kinds["error"] += PARTITIONS
            continue
        finally:
            began.release()
        for partition in range(PARTITIONS):
            kinds[kind_of(found.filter(ds.field("p") == partition))] += 1
    results.put((reader.__name__, dict(kinds)))


def write_on(bucket: Bucket, count: int, *, same_rows: bool, pause: float) -> int:
    """Make each partition, or replace them in turn in child processes, and return the kills."""
    random_numbers = random.Random(count)
    kills, seconds = 0, 0.3
    for version in range(1, PARTITIONS + 1) if count == 0 else range(5, count + 5):
        rows = rows_of(version, 60_000 + (0 if same_rows else 1_000 * (version % 37)))
        time.sleep(random_numbers.uniform(0, pause))
        began, child = time.monotonic(), os.fork()
        if child == 0:
            replace(bucket, version % PARTITIONS, rows)
            os._exit(0)
        if count and random_numbers.random() < KILLED:
            time.sleep(random_numbers.uniform(0, seconds))
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        kills += os.WIFSIGNALED(status)
        seconds = 0.8 * seconds + 0.2 * (time.monotonic() - began)
    return kills


def count_readings(
    bucket: Bucket, replacements: int, *, same_rows: bool, pause: float
) -> tuple[int, dict[str, dict[str, int]]]:
    """Replace and read at the same time.

    Returns:
        The number of writers killed, and by reader how many partitions of each kind it read.
    """
    write = functools.partial(write_on, bucket, same_rows=same_rows, pause=pause)
    context = multiprocessing.get_context("spawn")  # the writers fork, so no client is opened here
    began, stop, results = context.Semaphore(0), context.Event(), context.Queue()
    write(0)
    shared = (bucket, began, stop, results)
    readers = [context.Process(target=read_on, args=(reader, *shared)) for reader in READERS]
    for reader in readers:
        reader.start()
        began.acquire()
    kills = write(replacements)
    stop.set()
    found = dict(results.get(timeout=300) for _ in readers)
    for reader in readers:
        reader.join()
    return kills, found


def make_bucket(bucket: Bucket) -> None:
    """Make a bucket, in a process of its own."""
    bucket.make()


def main() -> None:
    """Print the counts as JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--store", choices=KINDS, default="s3")
    parser.add_argument("--replacements", type=int, default=250)
    parser.add_argument("--same-rows", action="store_true", help="as if scored by another model")
    parser.add_argument("--pause", type=float, default=0.3, help="longest, in seconds")
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        SERVERS_BY_KIND[given.store](Path(folder)) as port,
    ):
        bucket = KINDS[given.store](f"bare-{uuid.uuid4().hex[:12]}", f"http://127.0.0.1:{port}")
        maker = multiprocessing.get_context("spawn").Process(target=make_bucket, args=(bucket,))
        maker.start()
        maker.join()
        kills, found = count_readings(
            bucket, given.replacements, same_rows=given.same_rows, pause=given.pause
        )
    sys.stdout.write(json.dumps({**vars(given), "killed": kills, "read": found}) + "\n")


if __name__ == "__main__":
    main()
