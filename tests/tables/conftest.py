"""A faulty way to the buckets that tests are served."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from buckets import Bucket
from unreliable import Proxy

import probclass_core as pc


@pytest.fixture
def proxy(bucket: Bucket) -> Iterator[Proxy]:
    """Before the same server, for faults."""
    made = Proxy(int(bucket.endpoint.rpartition(":")[2]))
    yield made
    made.close()


@pytest.fixture
def through(bucket: Bucket, proxy: Proxy) -> Callable[[str], pc.TableRef]:
    """Tables of the bucket, by way of the proxy."""
    return lambda path: bucket.at(path, by=proxy.endpoint)
