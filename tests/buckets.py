"""Buckets of object stores that tests run on localhost."""

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
"""The public key of the only account of the emulator."""


class Bucket:
    """A bucket of an S3 server, and the options to access it.

    Args:
        name: name of the bucket.
        endpoint: URL of the server.
    """

    scheme: ClassVar[str] = "s3"

    def __init__(self, name: str, endpoint: str) -> None:
        self.name = name
        self.endpoint = endpoint
        self.options = self.options_at(endpoint)

    def options_at(self, endpoint: str) -> dict[str, Any]:
        """Return the options of a `TableRef` of any format."""
        return {
            "access_key_id": "tester",
            "secret_access_key": SECRET,
            "region": "us-east-1",
            "endpoint": endpoint,
        }

    def delta_options_at(self, endpoint: str) -> dict[str, str]:
        """Return the options that delta-rs and Polars take."""
        return {
            "aws_access_key_id": "tester",
            "aws_secret_access_key": SECRET,
            "aws_region": "us-east-1",
            "aws_endpoint_url": endpoint,
            "allow_http": "true",
        }

    @property
    def filesystem(self) -> FileSystem:
        return S3FileSystem(
            access_key="tester",
            secret_key=SECRET,
            region="us-east-1",
            endpoint_override=self.endpoint,
            allow_bucket_creation=True,
        )

    def make(self) -> None:
        self.filesystem.create_dir(self.name)

    def at(self, path: str, *, by: str | None = None, **options: Any) -> pc.TableRef:
        """Return a table in the bucket, accessed through another endpoint if given."""
        options = {**self.options_at(by or self.endpoint), **options}
        return pc.TableRef(f"{self.scheme}://{self.name}/{path}", options=options)

    def delta_at(self, path: str, *, by: str | None = None, **options: Any) -> pc.TableRef:
        """Return a Delta table in the bucket."""
        options = {**self.options_at(by or self.endpoint), **options}
        return pc.TableRef(f"delta+{self.scheme}://{self.name}/{path}", options=options)

    def keys(self, folder: str) -> list[str]:
        """List the keys of the objects in a folder, relative to the folder."""
        prefix = f"{self.name}/{folder}"
        entries = self.filesystem.get_file_info(FileSelector(prefix, recursive=True))
        return sorted(info.path.removeprefix(f"{prefix}/") for info in entries if info.is_file)

    def copy_from(self, folder: Path, to: str) -> None:
        """Upload the files of a local folder."""
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                key = f"{self.name}/{to}/{path.relative_to(folder).as_posix()}"
                with self.filesystem.open_output_stream(key) as stream:
                    stream.write(path.read_bytes())


class Container(Bucket):
    """A container of Azure Blob Storage."""

    scheme = "abfs"

    def options_at(self, endpoint: str) -> dict[str, Any]:
        return {
            "account_name": AZURE_ACCOUNT,
            "account_key": AZURE_KEY,
            "endpoint": f"{endpoint}/{AZURE_ACCOUNT}",
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
        scheme, _, authority = self.endpoint.partition("://")
        return AzureFileSystem(
            account_name=AZURE_ACCOUNT,
            account_key=AZURE_KEY,
            blob_storage_authority=authority,
            dfs_storage_authority=authority,
            blob_storage_scheme=scheme,
            dfs_storage_scheme=scheme,
        )


class GoogleBucket(Bucket):
    """A bucket of Google Cloud Storage."""

    scheme = "gs"

    def options_at(self, endpoint: str) -> dict[str, Any]:
        return {"skip_signature": True, "base_url": endpoint}

    @property
    def filesystem(self) -> FileSystem:
        scheme, _, authority = self.endpoint.partition("://")
        return GcsFileSystem(
            anonymous=True, scheme=scheme, endpoint_override=authority, project_id="tests"
        )


KINDS: dict[str, type[Bucket]] = {"s3": Bucket, "azure": Container, "google": GoogleBucket}
