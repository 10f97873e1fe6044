"""A model, or its statistics, as Arrow files and a manifest with their checksums.

Reading a bundle executes no code: tables are uncompressed Arrow IPC, everything else is JSON. The
manifest lists the SHA-256 of every table, and the content id is the SHA-256 of the manifest's
content, so equal fits have equal ids, and any changed byte is detected before a table is opened.
`probclass_core.store` decides where the files are stored.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import quote, unquote

import numpy as np
import pyarrow as pa

from probclass_core.errors import StoreError, one_line, one_of

FORMAT_VERSION = 1
"""Version of the manifest and the tables."""

_SUFFIX = ".arrow"
_MANIFEST_KEYS = {
    "kind": str,
    "format_version": int,
    "content_id": str,
    "content": Mapping,
    "files": Mapping,
    "provenance": Mapping,
}
RESTORE = "restore it from a copy, or remove this version and save it again"
"""How to repair a bundle that is damaged."""

Buffer: TypeAlias = bytes | pa.Buffer


def to_ipc(table: pa.Table) -> bytes:
    """A table as an uncompressed Arrow IPC file, with schema metadata, dictionaries and tensors.

    The same rows give the same bytes, no matter how they are sliced or chunked.
    """
    # Slices and nulls may carry stray bytes that readers ignore but a digest would include;
    # taking every row drops them.
    table = table.combine_chunks().take(pa.array(np.arange(table.num_rows)))
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return sink.getvalue()


def from_ipc(buffer: Buffer) -> pa.Table:
    """The inverse of `to_ipc`; the table uses the memory of ``buffer`` without copying it.

    Raises:
        StoreError: if the bytes are not an Arrow IPC file, or it has more rows or larger columns
            than they can be without compression.
    """
    return _read_ipc(pa.ipc.open_file, buffer)


def from_ipc_stream(buffer: Buffer) -> pa.Table:
    """As `from_ipc`, of an Arrow IPC stream."""
    return _read_ipc(pa.ipc.open_stream, buffer)


def _read_ipc(open_reader: Callable[[pa.Buffer], Any], buffer: Buffer) -> pa.Table:
    data = pa.py_buffer(buffer)
    try:
        table = open_reader(data).read_all()
    except (pa.ArrowException, OSError, ValueError) as error:  # names may be no UTF-8
        raise StoreError(f"not a readable Arrow IPC file: {one_line(error)}") from error
    if table.num_rows > 8 * len(data):
        raise StoreError(f"of {table.num_rows:,} rows, which its {len(data):,} bytes cannot be")
    if table.get_total_buffer_size() > len(data):
        raise StoreError("compressed; probclass writes models without compression")
    return table


class _File(NamedTuple):
    data: Buffer
    sha256: str

    @classmethod
    def hash(cls, data: Buffer) -> _File:
        return cls(data, hashlib.sha256(data).hexdigest())

    @property
    def size(self) -> int:
        return len(self.data)


@dataclass(frozen=True, eq=False)
class Bundle:
    """The stored form of a model or of statistics.

    Attributes:
        kind: ``"model"`` or ``"statistics"``.
        content: plain JSON values that the content id covers, together with the tables.
        tables: tables by name, such as ``"priors"`` and one per block.
        provenance: rows, time, source and the like, as plain JSON values; not part of the
            content id.

    Raises:
        StoreError: if content or provenance contains a value that JSON lacks: a time, a NaN.
    """

    kind: str
    content: Mapping[str, Any]
    tables: Mapping[str, pa.Table] = field(repr=False)
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # The values that a reader will get: lists instead of tuples, text as keys.
        object.__setattr__(self, "content", plain_json(self.content, "content"))
        object.__setattr__(self, "provenance", plain_json(self.provenance, "provenance"))
        object.__setattr__(self, "tables", dict(self.tables))

    @cached_property
    def content_id(self) -> str:
        """SHA-256 of the content, as 64 hex digits: equal fits have equal ids."""
        digests = {name: file.sha256 for name, file in self._files.items()}
        return _content_id(self.kind, self.content, digests)

    def files(self) -> dict[str, Buffer]:
        """Bytes of every table by file name, ``"<table>.arrow"``."""
        return {name: file.data for name, file in self._files.items()}

    def manifest(self) -> dict[str, Any]:
        """Checksums, content and provenance, stored next to the files as plain JSON values."""
        return {
            "kind": self.kind,
            "format_version": FORMAT_VERSION,
            "content_id": self.content_id,
            "content": self.content,
            "files": {
                name: {"sha256": file.sha256, "bytes": file.size}
                for name, file in self._files.items()
            },
            "provenance": self.provenance,
        }

    @cached_property
    def _files(self) -> dict[str, _File]:
        return {_file_name(name): _File.hash(to_ipc(table)) for name, table in self.tables.items()}

    @classmethod
    def from_files(
        cls,
        manifest: Mapping[str, Any],
        read: Callable[[str], Buffer],
        *,
        where: str = "this bundle",
    ) -> Bundle:
        """Read the bundle that a manifest describes, once all its files are verified.

        Args:
            manifest: value that `manifest` returned.
            read: returns the bytes of a file by its name, which may be a memory map, or raises
                FileNotFoundError.
            where: name of the bundle in messages.

        Raises:
            StoreError: if the bundle is in another format, the manifest was edited, or a file is
                missing, truncated or altered.
        """
        _check_manifest(manifest, where)
        verified = {
            name: _read_verified(name, expected, read, where)
            for name, expected in manifest["files"].items()
        }
        bundle = cls(
            kind=manifest["kind"],
            content=manifest["content"],
            tables={
                _table_name(name): _read_table(name, file, where) for name, file in verified.items()
            },
            provenance=manifest["provenance"],
        )
        # Cache the bytes as they are stored: serialized again, they could differ.
        vars(bundle)["_files"] = verified
        return bundle


def plain_json(values: Mapping[str, Any], what: str) -> dict[str, Any]:
    """A copy of ``values`` after a round trip through JSON.

    Args:
        values: values to copy.
        what: name of the values in the message.

    Raises:
        StoreError: if JSON lacks a value.
    """
    try:
        plain: dict[str, Any] = json.loads(json.dumps(values, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise StoreError(
            f"{what} must be plain values (text, finite numbers, true, false, lists, tables), "
            f"because it is stored as JSON: {error}."
        ) from error
    return plain


def as_json(value: Any) -> Any:
    """A value after a round trip through JSON; others, such as times, become text."""
    return json.loads(json.dumps(value, default=str))


def json_digest(values: Any) -> str:
    """SHA-256 of JSON values, as 64 hex digits; the order of keys does not matter."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _canonical(values: Any) -> str:
    return json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _content_id(kind: str, content: Mapping[str, Any], digests: Mapping[str, str]) -> str:
    values = {
        "kind": kind,
        "format_version": FORMAT_VERSION,
        "content": content,
        "files": digests,
    }
    return hashlib.sha256(_canonical(values).encode()).hexdigest()


def _file_name(table: str) -> str:
    """The file name of a table: all characters but ``A-Za-z0-9_.-~`` are percent-encoded."""
    return quote(table, safe="") + _SUFFIX


def _table_name(file: str) -> str:
    return unquote(file.removesuffix(_SUFFIX))


def _check_manifest(manifest: Mapping[str, Any], where: str) -> None:
    if not isinstance(manifest, Mapping):
        raise StoreError(f"{where}: the manifest is not a JSON object; {RESTORE}.")
    # Checked first, because a manifest in another format may differ in everything else.
    version = manifest.get("format_version")
    if isinstance(version, int) and version != FORMAT_VERSION:
        raise StoreError(
            f"{where} is in format {version}; this release reads format {FORMAT_VERSION}; "
            "upgrade probclass."
        )
    for key, kind in _MANIFEST_KEYS.items():
        if not isinstance(manifest.get(key), kind):
            raise StoreError(
                f"{where}: the manifest has no valid {key!r}, only {one_of(manifest)}; {RESTORE}."
            )
    for name, expected in manifest["files"].items():
        complete = isinstance(expected, Mapping) and {"sha256", "bytes"} <= expected.keys()
        if not complete or _file_name(_table_name(name)) != name:
            raise StoreError(
                f"{where}: the manifest's entry for file {name!r} is invalid; {RESTORE}."
            )
    digests = {name: expected["sha256"] for name, expected in manifest["files"].items()}
    try:
        actual = _content_id(manifest["kind"], manifest["content"], digests)
    except ValueError as error:  # Python reads NaN and Infinity, which JSON lacks
        raise StoreError(f"{where}: the manifest is not JSON: {error}; {RESTORE}.") from error
    if actual != manifest["content_id"]:
        raise StoreError(
            f"{where}: the manifest was edited: its content id is {actual[:12]}… instead of "
            f"{manifest['content_id'][:12]}…; {RESTORE}."
        )


def _read_verified(
    name: str, expected: Mapping[str, Any], read: Callable[[str], Buffer], where: str
) -> _File:
    try:
        data = read(name)
    except FileNotFoundError as error:
        raise StoreError(f"{where}: file {name!r} is missing; {RESTORE}.") from error
    if len(data) != expected["bytes"]:
        raise StoreError(
            f"{where}: file {name!r} has {len(data)} bytes instead of {expected['bytes']}; "
            f"{RESTORE}."
        )
    file = _File.hash(data)
    if file.sha256 != expected["sha256"]:
        raise StoreError(
            f"{where}: file {name!r} is damaged (SHA-256 {file.sha256[:12]}… instead of "
            f"{str(expected['sha256'])[:12]}…); {RESTORE}."
        )
    return file


def _read_table(name: str, file: _File, where: str) -> pa.Table:
    try:
        table = from_ipc(file.data)
        # A matching digest does not make the bytes safe: in a file that was crafted, offsets that
        # point outside their buffer would crash the process.
        table.validate(full=True)
    except StoreError as error:
        raise StoreError(f"{where}: file {name!r} is {error}; {RESTORE}.") from error
    except (pa.ArrowException, ValueError) as error:
        raise StoreError(
            f"{where}: file {name!r} is not a valid table: {one_line(error)}; {RESTORE}."
        ) from error
    return table
