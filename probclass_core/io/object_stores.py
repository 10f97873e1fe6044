"""Open the location at a path or URI; files on object stores, replaced only as they were seen.

pyarrow opens local paths, S3, Google Cloud Storage and Azure; fsspec opens all other schemes.
Options are those of `storage_options`. Credentials come from them, or from where the library
looks for them on its own; messages and records only contain `Location.uri`, which has none.

pyarrow has no request that replaces an object in a known state, so obstore writes: it compares an
ETag on S3 and Azure (``If-Match``), a generation on Google Cloud Storage.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow.fs import FileSystem, FSSpecHandler, LocalFileSystem, PyFileSystem

from probclass_core.errors import (
    NotSupportedError,
    ProbClassError,
    TableError,
    hide_credentials,
    one_line,
    shown_cause,
)
from probclass_core.io.failures import (
    ATTEMPTS,
    REQUEST_SECONDS,
    retry,
    translate_read_errors,
    translate_write_errors,
)
from probclass_core.io.filesystem import (
    Content,
    FsspecLocation,
    LocalLocation,
    Location,
    Revision,
    scratch_name,
)
from probclass_core.io.storage_options import (
    SERVICE_OF,
    obstore_options,
    pyarrow_options,
    read_options,
)

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import ObjectStore

_OpenedFileSystem = tuple[FileSystem, str, Mapping[str, Any]]
"""A file system, the path in it, and the options of an object store."""

_TAIL = 65_536
"""Bytes at the end of a file that tell ours from any other: a footer, or all."""

_TIMEOUT = 300.0
"""Seconds that a request may take, which may have to put gigabytes."""

_CHECKED: set[tuple[str | None, ...]] = set()
"""Object stores that refuse what they should, by endpoint and bucket."""


@dataclass(frozen=True)
class ObjectStoreLocation(Location):
    """Files of a bucket or container. Paths begin with its name, as in pyarrow.

    Attributes:
        service: the object store, a key of `storage_options.SERVICES`.
        options: its options, as `storage_options.read_options` returns them.
        folder_markers: whether folders on Google Cloud Storage get marker objects; pyarrow lists
            no other folders there.
    """

    service: str = field(kw_only=True)
    options: Mapping[str, Any] = field(kw_only=True, repr=False)
    folder_markers: bool = field(kw_only=True, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without the client, which may have credentials and connections."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    def identity(self, path: str) -> object:
        """The ETag of an object, or its generation on Google Cloud Storage."""
        with translate_read_errors(self.uri_of(path), error=self.error):
            try:
                file = retry(lambda: self.filesystem.open_input_file(self.absolute(path)))
            except FileNotFoundError:
                return None
            with file, suppress(ValueError):  # as of an object that was removed in between
                found = {name.lower(): value for name, value in file.metadata().items()}
                tag = found.get("generation") or found.get("etag")
                return None if tag is None else bytes(tag).decode()
        return None

    def revision(self, path: str, *, content: bool = True) -> Revision:
        store, key = self._store, self._key(self.absolute(path))
        from obstore import get, head

        def read() -> Revision:
            with _translate_errors():
                if not content:
                    return Revision(b"", _version(head(store, key)))
                found = get(store, key)
                return Revision(bytes(found.bytes()), _version(found.meta))

        with translate_read_errors(self.uri_of(path), error=self.error):
            try:
                return retry(read)
            except FileNotFoundError:
                return Revision(None)

    def replace(self, path: str, data: Content, seen: Revision) -> bool:
        """See `Location.replace`.

        Raises:
            ProbClassError: as `error`, if the store refuses, or ignores conditions.
        """
        key = self._key(self.absolute(path))

        def write() -> bool:
            self._check_support(key)
            mode = "create" if seen.data is None else dict(seen.version)
            return self._put_if(key, data, mode) or self._ends_with(key, data)

        with translate_write_errors(self.uri_of(path), error=self.error):
            return retry(write)

    def _put(self, path: str, data: Content) -> None:
        if self.folder_markers and self.filesystem.type_name == "gcs":
            self.filesystem.create_dir(path.rpartition("/")[0], recursive=True)
        self._put_if(self._key(path), data, "overwrite")

    # The methods below take paths in the bucket.

    def _ends_with(self, key: str, data: Content) -> bool:
        """Whether a file that was refused is ours: the answer to a first attempt may be lost."""
        from obstore import get_range

        end = memoryview(data)[-_TAIL:]
        with suppress(OSError), _translate_errors():
            found = get_range(self._store, key, start=len(data) - len(end), end=len(data))
            return bytes(found) == bytes(end)
        return False

    def _put_if(self, key: str, data: Content, mode: Any) -> bool:
        """Put a file in one request; False if it is not in the state that the mode says."""
        store = self._store
        from obstore import put
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        content = memoryview(data).cast("B")
        try:
            with _translate_errors(AlreadyExistsError, PreconditionError):
                put(store, key, content, mode=mode, use_multipart=False)
        except (AlreadyExistsError, PreconditionError):
            return False
        return True

    def _check_support(self, key: str) -> None:
        """Try to replace a file that does not exist: some servers ignore the condition.

        Raises:
            OSError: if the store ignores conditions.
        """
        names = ("endpoint", "base_url", "account_name")
        place = (*(self.options.get(name) for name in names), self._bucket)
        if place in _CHECKED:
            return
        scratch = f"{key.rpartition('/')[0]}/{scratch_name()}"
        version = {"version": "1"} if "Google" in self.service else {"e_tag": '"0"'}
        if self._put_if(scratch, b"", version):
            from obstore import delete

            with _translate_errors():
                delete(self._store, scratch)
            raise OSError(
                "this object store ignores the conditions of conditional writes, so that two "
                "writers would overwrite each other"
            )
        _CHECKED.add(place)

    @property
    def _bucket(self) -> str:
        return self.path.partition("/")[0]

    def _key(self, path: str) -> str:
        return path.removeprefix(f"{self._bucket}/")

    @cached_property
    def _store(self) -> ObjectStore:
        try:
            return _open_store(self.service, self._bucket, dict(self.options))
        except (ImportError, ValueError) as cause:  # of options that obstore does not have
            raise NotSupportedError(f"{self.uri}: {one_line(cause)}.") from cause


def open_location(
    uri: str,
    options: Mapping[str, Any] | None = None,
    *,
    error: type[ProbClassError] = TableError,
    folder_markers: bool = False,
) -> Location:
    """Open the location at a path or URI.

    Args:
        uri: local path, or URI of a file system.
        options: options of the storage, see `storage_options`; a local path takes none.
        error: class of the errors to raise, here and by the location.
        folder_markers: see `ObjectStoreLocation`.

    Raises:
        ProbClassError: as `error`, if no library knows the scheme or accepts the options, or the
            library is not installed.
    """
    options = options or {}
    if "://" not in uri:
        if options:
            raise error(f"{uri}: a local path takes no options; leave them out.")
        path = str(Path(uri))
        return LocalLocation(LocalFileSystem(), path, path, remote=False, error=error)
    shown = hide_credentials(uri).partition("?")[0].rstrip("/")
    service = SERVICE_OF.get(uri.partition("://")[0], "")
    try:
        filesystem, path, settings = _OPENERS.get(service, _by_fsspec)(uri, options)
    except (ImportError, TypeError, ValueError, OSError, pa.ArrowException) as cause:
        raise error(f"cannot open {shown}: {one_line(cause)}.") from shown_cause(cause)
    opened = filesystem, path.rstrip("/"), shown, True, error
    if not service:
        return FsspecLocation(*opened)
    return ObjectStoreLocation(
        *opened, service=service, options=settings, folder_markers=folder_markers
    )


def _s3(uri: str, options: Mapping[str, Any]) -> _OpenedFileSystem:
    from pyarrow.fs import AwsStandardS3RetryStrategy, S3FileSystem, resolve_s3_region

    path, settings = uri.partition("://")[2], read_options("S3", options)
    # pyarrow reads these variables when it opens a URI, but not when it gets options.
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    if endpoint:
        settings.setdefault("endpoint", endpoint)
    in_environment = {"AWS_REGION", "AWS_DEFAULT_REGION"} & {*os.environ}
    if not in_environment and not {"region", "endpoint"} & {*settings}:
        settings["region"] = resolve_s3_region(path.partition("/")[0])
    filesystem = S3FileSystem(
        allow_delayed_open=True,  # a small file by one PUT
        retry_strategy=AwsStandardS3RetryStrategy(max_attempts=ATTEMPTS),
        **pyarrow_options("S3", settings),
    )
    settings["region"] = filesystem.region
    return filesystem, path, settings


def _google(uri: str, options: Mapping[str, Any]) -> _OpenedFileSystem:
    from pyarrow.fs import GcsFileSystem

    service, path = "Google Cloud Storage", uri.partition("://")[2]
    filesystem = GcsFileSystem(
        retry_time_limit=timedelta(seconds=REQUEST_SECONDS),  # by default a quarter of an hour
        **pyarrow_options(service, options),
    )
    return filesystem, path, read_options(service, options)


def _azure(uri: str, options: Mapping[str, Any]) -> _OpenedFileSystem:
    from pyarrow.fs import AzureFileSystem

    authority, _, path = uri.partition("://")[2].partition("/")
    container, at, host = authority.rpartition("@")
    settings = read_options("Azure", options)
    if at or "." in host:
        settings.setdefault("account_name", host.partition(".")[0])
    elif "AZURE_STORAGE_ACCOUNT_NAME" in os.environ:
        settings.setdefault("account_name", os.environ["AZURE_STORAGE_ACCOUNT_NAME"])
    if "account_name" not in settings:
        raise ValueError(
            "no storage account; write abfss://container@account.dfs.core.windows.net/path."
        )
    folder = container if at else "" if "." in host else host
    path = f"{folder}/{path}".lstrip("/")
    filesystem = AzureFileSystem(**pyarrow_options("Azure", settings))
    return filesystem, path, settings


def _by_fsspec(uri: str, options: Mapping[str, Any]) -> _OpenedFileSystem:
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise ImportError("it needs fsspec: pip install 'probclass[fsspec]'.") from error
    filesystem, path = url_to_fs(uri, **options)
    filesystem.invalidate_cache()  # a cached listing would hide what another process wrote
    return PyFileSystem(FSSpecHandler(filesystem)), path, {}


_OPENERS = {"S3": _s3, "Azure": _azure, "Google Cloud Storage": _google}
"""What pyarrow opens, by the services of `storage_options`; fsspec opens all else."""


def _version(meta: ObjectMeta) -> dict[str, str]:
    versions = {"e_tag": meta["e_tag"], "version": meta["version"]}
    return {name: text for name, text in versions.items() if text}


@contextmanager
def _translate_errors(*passed: type[Exception]) -> Iterator[None]:
    """Raise OSError, as pyarrow does, for an error of obstore.

    Args:
        passed: classes of errors to leave to the caller.
    """
    from obstore.exceptions import BaseError

    try:
        yield
    except passed:
        raise
    except BaseError as error:
        # After the first paragraph comes a dump of the error. A query may contain a signature.
        text = re.sub(r"\?\S*", "", str(error).partition("\n\n")[0])
        if "169.254.169.254" in text:
            text = (
                f"no credentials to write with; give them as options or in environment "
                f"variables, or for a profile of AWS install boto3 ({text})"
            )
        raise OSError(text) from None


def _open_store(service: str, bucket: str, options: dict[str, Any]) -> ObjectStore:
    if find_spec("obstore") is None:
        raise ImportError("obstore writes files here: pip install 'probclass[object-store]'")
    from obstore.store import AzureStore, GCSStore, S3Store

    settings: dict[str, Any] = {
        "config": obstore_options({"timeout": _TIMEOUT, **options}),
        "retry_config": {
            "max_retries": ATTEMPTS - 1,
            "retry_timeout": timedelta(seconds=REQUEST_SECONDS),
        },
    }
    if "root_certificate" in options:
        certificate = Path(options["root_certificate"]).read_bytes()
        settings["client_options"] = {"root_certificate": certificate}
    if service == "S3":
        return S3Store(bucket, credential_provider=_aws_credentials(options), **settings)
    if service == "Azure":
        return AzureStore(bucket, **settings)
    if options.get("skip_signature"):
        # Without a token, obstore asks for one before every write, even without signatures.
        settings["config"] |= {"bearer_token": "anonymous"}
    return GCSStore(bucket, **settings)


def _aws_credentials(options: dict[str, Any]) -> Any:
    """A source of credentials that obstore lacks: an assumed role, or a profile.

    Raises:
        ImportError: if boto3 is not installed, which assumes roles.
    """
    role, has_boto3 = options.get("role_arn"), find_spec("boto3") is not None
    if role and not has_boto3:
        raise ImportError("to write with role_arn, install boto3: pip install boto3.")
    given = options.get("access_key_id") or options.get("skip_signature")
    if not role and (given or not has_boto3):
        return None
    from obstore.auth.boto3 import Boto3CredentialProvider, StsCredentialProvider

    if role:
        session = options.get("role_session_name", "probclass")
        external = {"ExternalId": options["external_id"]} if "external_id" in options else {}
        return StsCredentialProvider(RoleArn=role, RoleSessionName=session, **external)
    with suppress(ValueError):  # boto3 finds no credentials
        return Boto3CredentialProvider()
    return None
