"""An S3 server of the tests' own on loopback, and buckets in it."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyarrow.fs import FileSelector, S3FileSystem
from unreliable import Proxy

import probclass_core as pc

ROOT = Path(__file__).parents[2]
SERVERS = ROOT / ".venv-servers" / "bin" / "python"
SECRET = "wJalrXUtnFEMI-test-secret"


@dataclass
class Bucket:
    """A bucket, where it is served, and how to get in."""

    name: str
    endpoint: str
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.options = {
            "access_key": "tester",
            "secret_key": SECRET,
            "region": "us-east-1",
            "endpoint_override": self.endpoint,
        }

    def at(self, path: str, **options: Any) -> pc.TableRef:
        """A table in it."""
        kept = {**self.options, **options}
        return pc.TableRef(f"s3://{self.name}/{path}", options=kept)

    @property
    def filesystem(self) -> S3FileSystem:
        return S3FileSystem(**self.options, allow_bucket_creation=True)

    def keys(self, folder: str) -> list[str]:
        """Of the objects in a folder, relative to it."""
        place = f"{self.name}/{folder}"
        found = self.filesystem.get_file_info(FileSelector(place, recursive=True))
        return sorted(i.path.removeprefix(f"{place}/") for i in found if i.is_file)

    def copy_from(self, folder: Path, to: str) -> None:
        """Put the files of a local folder into it."""
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                key = f"{self.name}/{to}/{path.relative_to(folder).as_posix()}"
                with self.filesystem.open_output_stream(key) as stream:
                    stream.write(path.read_bytes())


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
