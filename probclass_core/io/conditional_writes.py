"""Conditional writes on object stores: replace a file only if it has not changed since it was read.

pyarrow has no request for that, so obstore sends it: an ETag on S3 and Azure (``If-Match``), a
generation on Google Cloud Storage.
"""

from __future__ import annotations

import mmap
import re
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from probclass_core.arrow.bundle import Buffer
from probclass_core.io.failures import ATTEMPTS, REQUEST_SECONDS
from probclass_core.io.storage_options import is_plain_http

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import ObjectStore

SCRATCH_SUFFIX = ".put"
"""End of the names of files that are removed at once; a killed process may leave one."""

Content: TypeAlias = Buffer | mmap.mmap

_TAIL = 65_536
"""Bytes at the end of a file that tell ours from any other: a footer, or all."""

_TIMEOUT = 300
"""Seconds that a request may take, which may have to put gigabytes."""

_CHECKED: set[tuple[str | None, ...]] = set()
"""Object stores that refuse what they should, by endpoint and bucket."""


@dataclass(frozen=True)
class Revision:
    """What a file contained at one time.

    Attributes:
        data: content of the file; None if it did not exist.
        version: what the object store calls this state: an ETag or a generation, or both.
        compared: whether a file is only replaced in this state, if the store has no versions.
    """

    data: Buffer | None
    version: Mapping[str, str] = field(default_factory=dict)
    compared: bool = True


@dataclass(frozen=True)
class ConditionalWrites:
    """Conditional writes to one bucket. Paths begin with the bucket, as in pyarrow.

    Attributes:
        service: the object store, a key of `storage_options.SERVICES`.
        bucket: name of the bucket, or container.
        options: its options, as `storage_options.read_options` returns them.
    """

    service: str
    bucket: str
    options: Mapping[str, Any] = field(repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without the client, which may have credentials and connections."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @property
    def available(self) -> bool:
        """Whether obstore is installed."""
        return find_spec("obstore") is not None

    def read(self, path: str, *, content: bool = True) -> Revision:
        """Read a file with its version, or the version alone.

        Raises:
            OSError: if the store refuses.
        """
        from obstore import get, head

        try:
            with _translate_errors():
                if not content:
                    return Revision(b"", _version(head(self._store, self._key(path))))
                found = get(self._store, self._key(path))
                return Revision(bytes(found.bytes()), _version(found.meta))
        except FileNotFoundError:
            return Revision(None)

    def write(self, path: str, data: Content, seen: Revision) -> bool:
        """Make or replace a file in one request, if it is still as it was seen.

        Args:
            path: path of the file.
            data: new content.
            seen: what `read` returned.

        Returns:
            False if another process replaced, made or removed the file first.

        Raises:
            OSError: if the store refuses, or does not support conditional writes.
        """
        self._check_support(path)
        if self._put(path, data, seen):
            return True
        return self._ends_with(path, data)

    def _ends_with(self, path: str, data: Content) -> bool:
        """Whether a file that was refused is ours: the answer to a first attempt may be lost."""
        from obstore import get_range

        end = memoryview(data)[-_TAIL:]
        with suppress(OSError), _translate_errors():
            found = get_range(
                self._store, self._key(path), start=len(data) - len(end), end=len(data)
            )
            return bytes(found) == bytes(end)
        return False

    def _put(self, path: str, data: Content, seen: Revision) -> bool:
        from obstore import put
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        mode: Any = "create" if seen.data is None else dict(seen.version)
        content = memoryview(data).cast("B")
        try:
            with _translate_errors(AlreadyExistsError, PreconditionError):
                put(self._store, self._key(path), content, mode=mode, use_multipart=False)
        except (AlreadyExistsError, PreconditionError):
            return False
        return True

    def _check_support(self, path: str) -> None:
        """Try to replace a file that does not exist: some servers ignore the condition.

        Raises:
            OSError: if the store ignores conditions.
        """
        names = ("endpoint", "base_url", "account_name")
        place = (*(self.options.get(name) for name in names), self.bucket)
        if place in _CHECKED:
            return
        scratch = f"{path.rpartition('/')[0]}/.{uuid.uuid4().hex}{SCRATCH_SUFFIX}"
        version = {"version": "1"} if "Google" in self.service else {"e_tag": '"0"'}
        if self._put(scratch, b"", Revision(b"", version)):
            from obstore import delete

            with _translate_errors():
                delete(self._store, self._key(scratch))
            raise OSError(
                "this object store ignores the conditions of conditional writes, so that two "
                "writers would overwrite each other"
            )
        _CHECKED.add(place)

    def _key(self, path: str) -> str:
        return path.removeprefix(f"{self.bucket}/")

    @cached_property
    def _store(self) -> ObjectStore:
        return _open(self.service, self.bucket, dict(self.options))


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
                f"no credentials for conditional writes; give them as options or in environment "
                f"variables, or for a profile of AWS install boto3 ({text})"
            )
        raise OSError(text) from None


def _open(service: str, bucket: str, options: dict[str, Any]) -> ObjectStore:
    from obstore.store import AzureStore, GCSStore, S3Store

    client: dict[str, Any] = {
        "allow_http": is_plain_http(options),
        "timeout": timedelta(seconds=options.get("timeout", _TIMEOUT)),
    }
    if "connect_timeout" in options:
        client["connect_timeout"] = timedelta(seconds=options["connect_timeout"])
    if "proxy_url" in options:
        client["proxy_url"] = options["proxy_url"]
    if "root_certificate" in options:
        client["root_certificate"] = Path(options["root_certificate"]).read_bytes()
    settings: dict[str, Any] = {
        "config": {name: options[name] for name in options if name not in NOT_IN_CONFIG},
        "client_options": client,
        "retry_config": {
            "max_retries": ATTEMPTS - 1,
            "retry_timeout": timedelta(seconds=REQUEST_SECONDS),
        },
    }
    if service == "S3":
        return S3Store(bucket, credential_provider=_aws_credentials(options), **settings)
    if service == "Azure":
        return AzureStore(bucket, **settings)
    if options.get("skip_signature"):
        # Without a token, obstore asks for one before every write, even without signatures.
        settings["config"] |= {"bearer_token": "anonymous"}
    return GCSStore(bucket, **settings)


NOT_IN_CONFIG = {
    *("timeout", "connect_timeout", "proxy_url", "root_certificate"),
    *("role_arn", "role_session_name", "external_id"),
}
"""Options that obstore takes as arguments of their own, or its sources of credentials do."""


def _aws_credentials(options: dict[str, Any]) -> Any:
    """A source of credentials that obstore lacks: an assumed role, or a profile.

    Raises:
        ImportError: if boto3 is not installed, which assumes roles.
    """
    role, has_boto3 = options.get("role_arn"), find_spec("boto3") is not None
    if role and not has_boto3:
        raise ImportError("conditional writes with role_arn need boto3: pip install boto3.")
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
