"""Buckets of object stores that tests serve on loopback, and what tests do with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from pyarrow.fs import AzureFileSystem, FileSelector, FileSystem, GcsFileSystem, S3FileSystem

import probclass_core as pc

SECRET = "wJalrXUtnFEMI-test-secret"

AZURE_ACCOUNT = "devstoreaccount1"
AZURE_KEY = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)
"""The well-known key of the emulator's only account; it opens nothing else."""


class Bucket:
    """A bucket of an S3 server, and how to get in.

    Args:
        name: of the bucket.
        endpoint: where it is served.
    """

    scheme: ClassVar[str] = "s3"

    def __init__(self, name: str, endpoint: str) -> None:
        self.name = name
        self.endpoint = endpoint
        self.options = self.options_at(endpoint)

    def options_at(self, endpoint: str) -> dict[str, Any]:
        """Options of a `TableRef` for tables of Parquet files."""
        return {
            "access_key": "tester",
            "secret_key": SECRET,
            "region": "us-east-1",
            "endpoint_override": endpoint,
        }

    def delta_options_at(self, endpoint: str) -> dict[str, str]:
        """The same for Delta tables."""
        return {
            "aws_access_key_id": "tester",
            "aws_secret_access_key": SECRET,
            "aws_region": "us-east-1",
            "aws_endpoint_url": endpoint,
            "allow_http": "true",
        }

    @property
    def filesystem(self) -> FileSystem:
        return S3FileSystem(**self.options, allow_bucket_creation=True)

    def make(self) -> None:
        self.filesystem.create_dir(self.name)

    def at(self, path: str, *, by: str | None = None, **options: Any) -> pc.TableRef:
        """A table in it; by way of another endpoint, if given."""
        kept = {**self.options_at(by or self.endpoint), **options}
        return pc.TableRef(f"{self.scheme}://{self.name}/{path}", options=kept)

    def delta_at(self, path: str, *, by: str | None = None, **options: str) -> pc.TableRef:
        """A Delta table in it."""
        kept = {**self.delta_options_at(by or self.endpoint), **options}
        return pc.TableRef(f"delta+{self.scheme}://{self.name}/{path}", options=kept)

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


class Container(Bucket):
    """The same of Azure's Blob Storage."""

    scheme = "abfs"

    def options_at(self, endpoint: str) -> dict[str, Any]:
        scheme, _, authority = endpoint.partition("://")
        return {
            "account_name": AZURE_ACCOUNT,
            "account_key": AZURE_KEY,
            "blob_storage_authority": authority,
            "dfs_storage_authority": authority,
            "blob_storage_scheme": scheme,
            "dfs_storage_scheme": scheme,
        }

    def delta_options_at(self, endpoint: str) -> dict[str, str]:
        return {
            "azure_storage_account_name": AZURE_ACCOUNT,
            "azure_storage_account_key": AZURE_KEY,
            "azure_storage_endpoint": f"{endpoint}/{AZURE_ACCOUNT}",
            "allow_http": "true",
        }

    @property
    def filesystem(self) -> FileSystem:
        return AzureFileSystem(**self.options)


class GoogleBucket(Bucket):
    """The same of Google Cloud Storage."""

    scheme = "gs"

    def options_at(self, endpoint: str) -> dict[str, Any]:
        scheme, _, authority = endpoint.partition("://")
        return {
            "anonymous": True,
            "scheme": scheme,
            "endpoint_override": authority,
            "project_id": "tests",
        }

    @property
    def filesystem(self) -> FileSystem:
        return GcsFileSystem(**self.options)


KINDS: dict[str, type[Bucket]] = {"s3": Bucket, "azure": Container, "google": GoogleBucket}
