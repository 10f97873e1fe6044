"""A bucket of an S3 server, and what tests do with it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyarrow.fs import FileSelector, S3FileSystem

import probclass_core as pc

SECRET = "wJalrXUtnFEMI-test-secret"


@dataclass
class Bucket:
    """A bucket, where it is served, and how to get in."""

    name: str
    endpoint: str
    options: dict[str, Any] = field(init=False)

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
