"""A proxy that injects faults between a test and its bucket."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from buckets import Bucket
from unreliable import Proxy

import probclass_core as pc


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
