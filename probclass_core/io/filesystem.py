"""Where the files of a table or a store lie: a path or URI, opened as a file system of pyarrow.

What pyarrow knows by itself (S3, Google Cloud Storage, Azure, HDFS) it opens; every other scheme is
left to fsspec. Options are arguments of the file system. Credentials come from them, or from where
the library looks for them by itself, and go no further: what is told and recorded is `Storage.uri`.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow.fs import (
    FileInfo,
    FileSelector,
    FileSystem,
    FileType,
    FSSpecHandler,
    LocalFileSystem,
    PyFileSystem,
)

from probclass_core.errors import TableError, one_line
from probclass_core.io.references import TableRef
from probclass_core.io.retry import RETRIES, retry

_Opened = tuple[FileSystem, str]

_SCRATCH = ".put"
"""How the names of files end that a `Storage.put` is still writing."""


@dataclass(frozen=True)
class Storage:
    """A place in a file system.

    Attributes:
        filesystem: that it lies in.
        path: of the place in that file system.
        uri: of the place, for messages and provenance; free of credentials.
        remote: whether every look at it is a journey.
    """

    filesystem: FileSystem = field(repr=False)
    path: str
    uri: str
    remote: bool

    def name(self, path: str) -> str:
        """The URI of a path at or below the place."""
        return f"{self.uri}/{path.removeprefix(self.path).lstrip('/')}".rstrip("/")

    def info(self, path: str) -> FileInfo:
        """What is at a path, if anything."""
        with self.reached():
            return retry(lambda: self.filesystem.get_file_info(path))

    def files(self, folder: str, *, recursive: bool) -> list[FileInfo]:
        """Files and directories in a folder, in order; none where it is not there."""
        selector = FileSelector(folder, recursive=recursive, allow_not_found=True)
        with self.reached():
            found = retry(lambda: self.filesystem.get_file_info(selector))
        return sorted(found, key=lambda info: str(info.path))

    def read(self, path: str) -> bytes:
        """The bytes of a small file; FileNotFoundError where there is none."""
        with self.reached():
            return retry(partial(self._read, path))

    def put(self, path: str, data: bytes) -> None:
        """Make or replace a small file in one step; raises what the file system does."""
        if self.filesystem.type_name != "abfs":
            retry(partial(self._write, path, data))
            return
        # pyarrow writes to Azure in three steps, the first of which empties what is there.
        scratch = f"{path.rpartition('/')[0]}/.{uuid.uuid4().hex}{_SCRATCH}"
        try:
            retry(partial(self._write, scratch, data))
            retry(partial(self.filesystem.copy_file, scratch, path))
        finally:
            with suppress(OSError):
                self.filesystem.delete_file(scratch)

    # fsspec is asked for whole files: some of its stores show a file as soon as it is opened.

    def _read(self, path: str) -> bytes:
        if isinstance(self.filesystem, PyFileSystem):
            return bytes(self.filesystem.handler.fs.cat_file(path))
        with self.filesystem.open_input_file(path) as file:
            return bytes(file.read())

    def _write(self, path: str, data: bytes) -> None:
        self.make_folder_of(path)
        if isinstance(self.filesystem, PyFileSystem):
            self.filesystem.handler.fs.pipe_file(path, data)
            return
        with self.filesystem.open_output_stream(path) as file:
            file.write(data)

    def make_folder_of(self, path: str) -> None:
        """The folder of a file to come, where the file system has folders."""
        if isinstance(self.filesystem, (PyFileSystem, LocalFileSystem)):
            self.filesystem.create_dir(path.rpartition("/")[0], recursive=True)

    @contextmanager
    def reached(self) -> Iterator[None]:
        """Turns what the file system refuses into a line that names the place.

        What is not there is the caller's to tell: FileNotFoundError passes.

        Raises:
            TableError: the file system refuses.
        """
        try:
            yield
        except FileNotFoundError:
            raise
        except (OSError, pa.ArrowException) as error:
            raise TableError(f"cannot read {self.uri}: {one_line(error)}.") from error


def storage_of(ref: TableRef) -> Storage:
    """The place that a reference names.

    Raises:
        TableError: no library knows the scheme or takes the options, or one is not installed.
    """
    if "://" not in ref.uri:
        if ref.options:
            raise TableError(f"{ref.uri}: files on a local disk take no options.")
        path = str(Path(ref.uri))
        return Storage(LocalFileSystem(), path, path, remote=False)
    shown = ref.uri.partition("?")[0].rstrip("/")  # the query of a signed address is a secret
    scheme = ref.uri.partition("://")[0]
    try:
        filesystem, path = _OPENERS.get(scheme, _other)(ref.uri, ref.options)
    except (ImportError, TypeError, ValueError, OSError, pa.ArrowException) as error:
        raise TableError(f"cannot open {shown}: {one_line(error)}.") from error
    return Storage(filesystem, path.rstrip("/"), shown, remote=True)


def remove_file(filesystem: FileSystem, path: str, name: str) -> None:
    """Remove a file; silent where it is gone already.

    Args:
        filesystem: that it lies in.
        path: of the file in it.
        name: how messages call it.

    Raises:
        TableError: the file system refuses.
    """
    try:
        filesystem.delete_file(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise TableError(f"cannot remove {name}: {one_line(error)}.") from error


def is_scratch(info: FileInfo) -> bool:
    """Whether it is what a `Storage.put` that was killed left."""
    name = str(info.base_name)
    return name.startswith(".") and name.endswith(_SCRATCH)


def is_file(info: FileInfo) -> bool:
    """Whether it is there, and no directory."""
    return bool(info.type == FileType.File)


def _s3(uri: str, options: Mapping[str, Any]) -> _Opened:
    from pyarrow.fs import AwsStandardS3RetryStrategy, S3FileSystem, resolve_s3_region

    path = uri.removeprefix("s3://")
    settings = {
        "allow_delayed_open": True,  # a small file by one PUT
        "retry_strategy": AwsStandardS3RetryStrategy(max_attempts=RETRIES.attempts),
        **options,
    }
    environment = os.environ
    # pyarrow heeds these when it opens a URI, but not when it is given options.
    endpoint = environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL")
    if endpoint and "endpoint_override" not in settings:
        settings["endpoint_override"] = endpoint
    told = {"AWS_REGION", "AWS_DEFAULT_REGION"} & {*environment}
    if not told and "region" not in settings and "endpoint_override" not in settings:
        settings["region"] = resolve_s3_region(path.partition("/")[0])
    return S3FileSystem(**settings), path


def _google(uri: str, options: Mapping[str, Any]) -> _Opened:
    from pyarrow.fs import GcsFileSystem

    # By itself it would try for a quarter of an hour.
    settings = {"retry_time_limit": timedelta(seconds=15), **options}
    return GcsFileSystem(**settings), uri.partition("://")[2]


def _azure(uri: str, options: Mapping[str, Any]) -> _Opened:
    from pyarrow.fs import AzureFileSystem

    place, _, path = uri.partition("://")[2].partition("/")
    container, at, host = place.rpartition("@")
    settings = dict(options)
    if at or "." in host:
        settings.setdefault("account_name", host.partition(".")[0])
    elif "AZURE_STORAGE_ACCOUNT_NAME" in os.environ:
        settings.setdefault("account_name", os.environ["AZURE_STORAGE_ACCOUNT_NAME"])
    if "account_name" not in settings:
        raise ValueError(
            "no storage account; write abfss://container@account.dfs.core.windows.net/path."
        )
    folder = container if at else "" if "." in host else host
    return AzureFileSystem(**settings), f"{folder}/{path}".lstrip("/")


def _hdfs(uri: str, options: Mapping[str, Any]) -> _Opened:
    if options:
        raise ValueError("give the options of HDFS in its own configuration.")
    filesystem, path = FileSystem.from_uri(uri)
    return filesystem, path


def _other(uri: str, options: Mapping[str, Any]) -> _Opened:
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise ImportError("it needs fsspec: pip install 'probclass[fsspec]'.") from error
    filesystem, path = url_to_fs(uri, **options)
    filesystem.invalidate_cache()  # an old listing would hide what another process wrote
    return PyFileSystem(FSSpecHandler(filesystem)), path


_OPENERS: Mapping[str, Callable[[str, Mapping[str, Any]], _Opened]] = {
    "s3": _s3,
    "gs": _google,
    "gcs": _google,
    "abfs": _azure,
    "abfss": _azure,
    "hdfs": _hdfs,
    "viewfs": _hdfs,
}

ARROW_SCHEMES = frozenset(_OPENERS)
"""Those that pyarrow opens by itself."""
