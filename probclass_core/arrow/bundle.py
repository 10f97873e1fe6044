"""A model, or its statistics, as files: Arrow tables beside a manifest that can vouch for them.

Nothing here executes what it reads: tables are uncompressed Arrow IPC, everything else is JSON. The
manifest lists the SHA-256 of every table, and the content id is the SHA-256 of what the manifest
says about the content, so equal fits have equal ids and a changed byte anywhere is found before
a table is opened. Where the files lie is not this module's business (see `probclass_core.store`).
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
READER_VERSION = 2
"""The newest bundles that this release reads; 2 brought calibration, which a reader of 1 would not
apply."""

_SUFFIX = ".arrow"
_MANIFEST_KEYS = {
    "kind": str,
    "format_version": int,
    "min_reader_version": int,
    "content_id": str,
    "content": Mapping,
    "files": Mapping,
    "provenance": Mapping,
}
_MEND = "restore it from a copy, or remove this version and save it again"

Buffer: TypeAlias = bytes | pa.Buffer


def to_ipc(table: pa.Table) -> bytes:
    """A table as one uncompressed Arrow IPC file: schema metadata, dictionaries and tensors kept.

    The same rows give the same bytes, however they were sliced or chunked.
    """
    # A slice, or a null, may carry stray bytes that no reader sees but a digest would; taking
    # every row leaves only what is meant.
    table = table.combine_chunks().take(pa.array(np.arange(table.num_rows)))
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return sink.getvalue()


def from_ipc(buffer: Buffer) -> pa.Table:
    """The inverse of `to_ipc`; the table points into ``buffer``, nothing is copied.

    Raises:
        StoreError: the bytes are no Arrow IPC file.
    """
    try:
        return pa.ipc.open_file(pa.py_buffer(buffer)).read_all()
    except (pa.ArrowException, OSError) as error:
        raise StoreError(f"not a readable Arrow IPC file: {one_line(error)}") from error


class _File(NamedTuple):
    data: Buffer
    sha256: str

    @classmethod
    def of(cls, data: Buffer) -> _File:
        return cls(data, hashlib.sha256(data).hexdigest())

    @property
    def size(self) -> int:
        return len(self.data)


@dataclass(frozen=True, eq=False)
class Bundle:
    """What is stored of a model or of statistics; two bundles are equal when their ids are.

    Attributes:
        kind: ``"model"`` or ``"statistics"``.
        content: plain JSON values that, with the tables, make up the thing itself.
        tables: such as ``"priors"`` and one per block, by name.
        provenance: how this one came about (rows, time, source), as plain JSON values; no part of
            the content id.
        format_version: of the manifest and the tables.
        min_reader_version: what a reader must know, lest it take the tables for something else.

    Raises:
        StoreError: content or provenance holds what JSON cannot, such as a time or a NaN.
    """

    kind: str
    content: Mapping[str, Any]
    tables: Mapping[str, pa.Table] = field(repr=False)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    format_version: int = FORMAT_VERSION
    min_reader_version: int = FORMAT_VERSION

    def __post_init__(self) -> None:
        # What is held in memory is what would be read back: lists for tuples, text for keys.
        object.__setattr__(self, "content", plain_json(self.content, "content"))
        object.__setattr__(self, "provenance", plain_json(self.provenance, "provenance"))
        object.__setattr__(self, "tables", dict(self.tables))

    @cached_property
    def content_id(self) -> str:
        """64 hex digits that name the content: equal fits, equal ids, whenever they were run."""
        digests = {name: file.sha256 for name, file in self._files.items()}
        return _content_id(self.kind, self.format_version, self.content, digests)

    def files(self) -> dict[str, Buffer]:
        """The bytes of every table by file name, ``"<table>.arrow"``."""
        return {name: file.data for name, file in self._files.items()}

    def manifest(self) -> dict[str, Any]:
        """What stands beside the files, as plain JSON values."""
        return {
            "kind": self.kind,
            "format_version": self.format_version,
            "min_reader_version": self.min_reader_version,
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
        return {_file_name(name): _File.of(to_ipc(table)) for name, table in self.tables.items()}

    @classmethod
    def from_files(
        cls,
        manifest: Mapping[str, Any],
        read: Callable[[str], Buffer],
        *,
        where: str = "this bundle",
    ) -> Bundle:
        """The bundle that a manifest describes; no table is opened before every file is verified.

        Args:
            manifest: as `manifest` returned it.
            read: the bytes of a file by its name; a memory map is used in place. It raises
                FileNotFoundError where there is none.
            where: how messages name the bundle.

        Raises:
            StoreError: a newer format, an edited manifest, a missing, truncated or altered file.
        """
        _check_manifest(manifest, where)
        verified = {
            name: _verified(name, expected, read, where)
            for name, expected in manifest["files"].items()
        }
        bundle = cls(
            kind=manifest["kind"],
            content=manifest["content"],
            tables={
                _table_name(name): _table(name, file, where) for name, file in verified.items()
            },
            provenance=manifest["provenance"],
            format_version=manifest["format_version"],
            min_reader_version=manifest["min_reader_version"],
        )
        # Fill the cache with the bytes as they lie: writing the tables out again could only differ.
        vars(bundle)["_files"] = verified
        return bundle


def plain_json(values: Mapping[str, Any], what: str) -> dict[str, Any]:
    """A copy of ``values`` as JSON gives it back.

    Raises:
        StoreError: a value that JSON does not know; ``what`` names the whole in the message.
    """
    try:
        plain: dict[str, Any] = json.loads(json.dumps(values, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise StoreError(
            f"{what} must be plain values (text, finite numbers, true, false, lists, tables), "
            f"so that it can be written as JSON: {error}."
        ) from error
    return plain


def as_json(value: Any) -> Any:
    """A value as JSON gives it back; values that JSON lacks, such as times, become text."""
    return json.loads(json.dumps(value, default=str))


def json_digest(values: Any) -> str:
    """SHA-256 of JSON values, as 64 hex digits; the order of keys does not matter."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _canonical(values: Any) -> str:
    return json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _content_id(
    kind: str, version: int, content: Mapping[str, Any], digests: Mapping[str, str]
) -> str:
    named = {"kind": kind, "format_version": version, "content": content, "files": digests}
    return hashlib.sha256(_canonical(named).encode()).hexdigest()


def _file_name(table: str) -> str:
    """Any name makes a file name that stays in its folder: all but ``A-Za-z0-9_.-~`` is quoted."""
    return quote(table, safe="") + _SUFFIX


def _table_name(file: str) -> str:
    return unquote(file.removesuffix(_SUFFIX))


def _check_manifest(manifest: Mapping[str, Any], where: str) -> None:
    if not isinstance(manifest, Mapping):
        raise StoreError(f"{where}: the manifest is no JSON object; {_MEND}.")
    # First of all: what else a newer manifest holds is not ours to judge.
    needed = manifest.get("min_reader_version")
    if isinstance(needed, int) and needed > READER_VERSION:
        raise StoreError(
            f"{where} was written by a newer probclass (it needs a reader of format {needed}, "
            f"this one reads up to {READER_VERSION}); upgrade probclass."
        )
    for key, kind in _MANIFEST_KEYS.items():
        if not isinstance(manifest.get(key), kind):
            raise StoreError(
                f"{where}: the manifest has no valid {key!r}, only {one_of(manifest)}; {_MEND}."
            )
    for name, expected in manifest["files"].items():
        known = isinstance(expected, Mapping) and {"sha256", "bytes"} <= expected.keys()
        if not known or _file_name(_table_name(name)) != name:
            raise StoreError(f"{where}: the manifest's entry for file {name!r} is bad; {_MEND}.")
    digests = {name: expected["sha256"] for name, expected in manifest["files"].items()}
    found = _content_id(manifest["kind"], manifest["format_version"], manifest["content"], digests)
    if found != manifest["content_id"]:
        raise StoreError(
            f"{where}: the manifest was edited, for its content id is {found[:12]}… "
            f"where it says {manifest['content_id'][:12]}…; {_MEND}."
        )


def _verified(
    name: str, expected: Mapping[str, Any], read: Callable[[str], Buffer], where: str
) -> _File:
    try:
        data = read(name)
    except FileNotFoundError as error:
        raise StoreError(f"{where}: file {name!r} is missing; {_MEND}.") from error
    if len(data) != expected["bytes"]:
        raise StoreError(
            f"{where}: file {name!r} has {len(data)} bytes instead of {expected['bytes']}; {_MEND}."
        )
    file = _File.of(data)
    if file.sha256 != expected["sha256"]:
        raise StoreError(
            f"{where}: file {name!r} is damaged (SHA-256 {file.sha256[:12]}… instead of "
            f"{str(expected['sha256'])[:12]}…); {_MEND}."
        )
    return file


def _table(name: str, file: _File, where: str) -> pa.Table:
    try:
        table = from_ipc(file.data)
        # The digest shows that the bytes are those that were stored, not that whoever stored them
        # meant well: offsets that point outside their buffer would crash the process.
        table.validate(full=True)
    except StoreError as error:
        raise StoreError(f"{where}: file {name!r} is {error}; {_MEND}.") from error
    except pa.ArrowException as error:
        raise StoreError(
            f"{where}: file {name!r} is no valid table: {one_line(error)}; {_MEND}."
        ) from error
    return table
