"""An S3 server of the tests' own on loopback."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from buckets import Bucket
from unreliable import Proxy

import probclass_core as pc

ROOT = Path(__file__).parents[2]
SERVERS = ROOT / ".venv-servers" / "bin" / "python"


@pytest.fixture(scope="session")
def s3_port() -> Iterator[int]:
    """The port of a server that speaks S3 over HTTP."""
    if not SERVERS.exists():
        pytest.fail("there is no .venv-servers; `make servers` makes it.", pytrace=False)
    server = subprocess.Popen(
        [SERVERS, Path(__file__).parent / "s3_server.py"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert server.stdin is not None
    assert server.stdout is not None
    port = next(int(line.split()[1]) for line in server.stdout if line.startswith("port "))
    yield port
    server.stdin.close()
    server.stdout.close()
    server.wait(timeout=30)


@pytest.fixture
def bucket(s3_port: int) -> Bucket:
    """A new bucket."""
    made = Bucket(f"lake-{uuid.uuid4().hex[:12]}", f"http://127.0.0.1:{s3_port}")
    made.filesystem.create_dir(made.name)
    return made


@pytest.fixture
def proxy(s3_port: int) -> Iterator[Proxy]:
    """Before the same server, for faults."""
    made = Proxy(s3_port)
    yield made
    made.close()


@pytest.fixture
def through(bucket: Bucket, proxy: Proxy) -> Callable[[str], pc.TableRef]:
    """Tables of the bucket, by way of the proxy."""
    return lambda path: bucket.at(path, endpoint_override=proxy.endpoint)
