"""Readers that list the directory of a table on an object store see old rows or new ones."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from buckets import Bucket
from reading import read_rows

from probclass_core.io.open import open_sink

TABLE = "table"


def replace(bucket: Bucket, version: int) -> None:
    """Replace a partition of several row groups, each value of which names the version."""
    noise = np.random.default_rng(version).random(60_000 + 1_000 * version)
    columns = {
        "low": version + noise,
        "label": [str(version)] * len(noise),
        "high": version + noise,
    }
    rows = pa.table(columns)
    sink = open_sink(bucket.at(TABLE), {"p": 0})
    with sink.stage(rows.schema, {"commit_id": f"{version:032x}"}) as staged:
        with closing(staged.part):
            for batch in rows.to_batches(max_chunksize=20_000):
                staged.part.write(batch)
            staged.part.finish()
        staged.publish()


def state(read: Callable[[], pa.Table]) -> str:
    """Read the table: an error, all rows of one version, or a mixture."""
    try:
        rows = read()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # Polars panics, which is not an Exception
        return "error"
    versions = {*np.floor(rows["low"]), *np.floor(rows["high"]), *map(int, rows["label"].unique())}
    whole = versions == {(rows.num_rows - 60_000) // 1_000}
    return "whole" if whole and rows["low"].equals(rows["high"]) else "mixture"


@pytest.mark.services
@pytest.mark.parametrize("bucket", ["s3", "azure", "google"], indirect=True)
def test_readers_of_the_directory_see_whole_partitions_or_an_error(bucket: Bucket) -> None:
    options = bucket.delta_options_at(bucket.endpoint)
    if bucket.scheme == "gs":
        options = {"base_url": bucket.endpoint, "skip_signature": "true", "allow_http": "true"}
    uri, path = f"{bucket.scheme}://{bucket.name}/{TABLE}/*/*.parquet", f"{bucket.name}/{TABLE}"
    readers: dict[str, Callable[[], pa.Table]] = {
        "pyarrow": lambda: ds.dataset(path, filesystem=bucket.filesystem).to_table(),
        "polars": lambda: pl.scan_parquet(uri, storage_options=options).collect().to_arrow(),
        "probclass": lambda: read_rows(bucket.at(TABLE)),
    }

    def replace_each() -> None:
        for version in range(2, 12):
            replace(bucket, version)
            time.sleep(0.5)

    replace(bucket, 1)
    seen: dict[str, set[str]] = {name: set() for name in readers}
    with ThreadPoolExecutor(1) as pool:
        replacing = pool.submit(replace_each)
        while not replacing.done():
            for name, read in readers.items():
                seen[name].add(state(read))
        replacing.result()
    for name, states in seen.items():
        assert "whole" in states, name
        assert states <= {"whole", "error"}, name
