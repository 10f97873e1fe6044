"""The backends, a model, files of new rows, and a proxy that injects faults before a bucket."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from backends import BACKENDS, SERVED, Arrives, Backend, in_bucket
from buckets import KINDS, Bucket
from delta_and_iceberg import rows, spec
from monthly_lake import write_lake
from unreliable import Proxy

import probclass_core as pc


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    """A local backend, or one in a new bucket; see `everywhere`."""
    if request.param in BACKENDS:
        return BACKENDS[request.param](tmp_path)
    kind, form = SERVED[request.param]
    endpoint = request.getfixturevalue("served").endpoint(kind)
    bucket = KINDS[kind](f"lake-{uuid.uuid4().hex[:12]}", endpoint)
    bucket.make()
    return in_bucket(bucket, form, tmp_path)


@pytest.fixture(scope="session")
def model() -> pc.Model:
    return pc.fit(rows("2014-01"), spec())


@pytest.fixture
def arrives(tmp_path: Path) -> Arrives:
    """Write a file of rows of one month, whose x counts up from ``start``."""

    def write(name: str, month: str = "2014-01", start: float = 0.0, size: int = 40) -> Path:
        table = rows(month, size)
        x = pa.array([start + value for value in table["x"].to_pylist()])
        path = tmp_path / "in" / f"{name}.parquet"
        path.parent.mkdir(exist_ok=True)
        pq.write_table(table.set_column(0, "x", x), path)
        return path

    return write


@pytest.fixture
def lake(tmp_path: Path, bucket: Bucket) -> Path:
    """A lake of three months on disk, and a copy of it in the bucket."""
    root = write_lake(tmp_path / "lake", "2014-01", "2014-02", "2014-03")
    bucket.copy_from(root, "lake")
    return root


@pytest.fixture
def proxy(bucket: Bucket) -> Iterator[Proxy]:
    """A proxy of the bucket's server."""
    proxy = Proxy(int(bucket.endpoint.rpartition(":")[2]))
    yield proxy
    proxy.close()


@pytest.fixture
def through(bucket: Bucket, proxy: Proxy) -> Callable[[str], pc.TableRef]:
    """Return the reference to a table in the bucket, through the proxy."""
    return lambda path: bucket.at(path, by=proxy.endpoint)
