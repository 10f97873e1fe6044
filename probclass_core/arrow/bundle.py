"""A model as one Arrow file of tables, and a manifest with its checksum.

Reading a bundle executes no code: the tables are uncompressed Arrow IPC, everything else is JSON.
The manifest has the SHA-256 of the file, and the content id is the SHA-256 of the manifest's
content, so equal fits have equal ids, and any changed byte is detected before a table is opened.
`probclass_core.store` decides where the files are stored.

The file has one row. Each column is a table: a list of structs, with the table's metadata as that
of the field.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from probclass_core.errors import StoreError, one_line, one_of

FORMAT_VERSION = 2
"""Version of the manifest and of the file of tables; 1 had a file for each table."""

TABLES = "tables.arrow"
"""Name of the file of tables."""

_MANIFEST_KEYS = {
    "format_version": int,
    "content_id": str,
    "content": Mapping,
    "tables_sha256": str,
    "provenance": Mapping,
}
RESTORE = "restore it from a copy, or remove this version and save it again"
"""How to repair a bundle that is damaged."""

Buffer: TypeAlias = bytes | pa.Buffer


def to_ipc(table: pa.Table) -> bytes:
    """A table as an uncompressed Arrow IPC file, with schema metadata, dictionaries and tensors.

    The same rows give the same bytes, no matter how they are sliced or chunked.
    """
    return _write_ipc(pa.ipc.new_file, _without_stray_bytes(table))


def from_ipc(buffer: Buffer) -> pa.Table:
    """The inverse of `to_ipc`; the table uses the memory of ``buffer`` without copying it.

    Raises:
        StoreError: if the bytes are not an Arrow IPC file, or it has more rows or larger columns
            than they can be without compression.
    """
    return _read_ipc(pa.ipc.open_file, buffer)


def pack_tables(tables: Mapping[str, pa.Table], *, stream: bool = False) -> bytes:
    """Tables by name as one Arrow IPC file of one row; equal tables give equal bytes.

    Args:
        tables: the tables.
        stream: whether to write an IPC stream, whose length is a multiple of eight bytes.
    """
    columns, fields = [], []
    for name, table in tables.items():
        rows = _without_stray_bytes(table)
        structs = pa.StructArray.from_arrays(
            [column.combine_chunks() for column in rows.columns], fields=list(rows.schema)
        )
        column = pa.ListArray.from_arrays([0, len(structs)], structs)
        columns.append(column)
        fields.append(pa.field(name, column.type, metadata=rows.schema.metadata))
    row = pa.table(columns, schema=pa.schema(fields))
    return _write_ipc(pa.ipc.new_stream if stream else pa.ipc.new_file, row)


def unpack_tables(buffer: Buffer, *, stream: bool = False) -> dict[str, pa.Table]:
    """The inverse of `pack_tables`; the tables use the memory of ``buffer`` without copying it.

    Raises:
        StoreError: if the bytes are not such a file, naming the table that is not valid.
    """
    row = _read_ipc(pa.ipc.open_stream if stream else pa.ipc.open_file, buffer)
    batches = row.to_batches()
    if [batch.num_rows for batch in batches] != [1]:
        raise StoreError("not one row of tables")
    tables = {}
    for column, lists in zip(row.schema, batches[0].columns, strict=True):
        try:
            # Matching checksums do not make the bytes safe: in a file that was crafted, offsets
            # that point outside their buffer would crash the process.
            lists.validate(full=True)
            rows = pa.Table.from_struct_array(lists.flatten())
        except (pa.ArrowException, ValueError, TypeError, AttributeError) as error:
            raise StoreError(f"not valid: table {column.name!r}: {one_line(error)}") from error
        _check_rows(rows, buffer)
        tables[column.name] = rows.replace_schema_metadata(column.metadata)
    return tables


def _without_stray_bytes(table: pa.Table) -> pa.Table:
    """The same rows in one chunk; slices and nulls may carry bytes that only a digest notices."""
    return table.combine_chunks().take(pa.array(np.arange(table.num_rows))).combine_chunks()


def _write_ipc(new_writer: Callable[[Any, pa.Schema], Any], table: pa.Table) -> bytes:
    sink = io.BytesIO()
    with new_writer(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def _read_ipc(open_reader: Callable[[pa.Buffer], Any], buffer: Buffer) -> pa.Table:
    data = pa.py_buffer(buffer)
    try:
        table = open_reader(data).read_all()
        size = table.get_total_buffer_size()
    except (pa.ArrowException, OSError, ValueError) as error:  # names may be no UTF-8
        raise StoreError(f"not a readable Arrow IPC file: {one_line(error)}") from error
    _check_rows(table, data)
    if size > len(data):
        raise StoreError("compressed; probclass writes models without compression")
    return table


def _check_rows(table: pa.Table, data: Buffer) -> None:
    """Refuse a table of more rows than its bytes have bits, whose columns need no memory."""
    if table.num_rows > 8 * len(data):
        raise StoreError(f"of {table.num_rows:,} rows, which its {len(data):,} bytes cannot be")


@dataclass(frozen=True, eq=False)
class Bundle:
    """The stored form of a model.

    Attributes:
        content: plain JSON values that the content id covers, together with the tables.
        tables: tables by name, such as ``"priors"`` and one per block.
        provenance: rows, time, source and the like, as plain JSON values; not part of the
            content id.

    Raises:
        StoreError: if content or provenance contains a value that JSON lacks: a time, a NaN.
    """

    content: Mapping[str, Any]
    tables: Mapping[str, pa.Table] = field(repr=False)
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # The values that a reader will get: lists instead of tuples, text as keys.
        object.__setattr__(self, "content", plain_json(self.content, "content"))
        object.__setattr__(self, "provenance", plain_json(self.provenance, "provenance"))
        object.__setattr__(self, "tables", dict(self.tables))

    @cached_property
    def data(self) -> Buffer:
        """Bytes of the file of tables."""
        return pack_tables(self.tables)

    @cached_property
    def content_id(self) -> str:
        """SHA-256 of the content, as 64 hex digits: equal fits have equal ids."""
        return _content_id(self.content, _sha256(self.data))

    def manifest(self) -> dict[str, Any]:
        """Checksum, content and provenance, stored next to the tables as plain JSON values."""
        return {
            "format_version": FORMAT_VERSION,
            "content_id": self.content_id,
            "content": self.content,
            "tables_sha256": _sha256(self.data),
            "provenance": self.provenance,
        }

    @classmethod
    def from_files(
        cls,
        manifest: Mapping[str, Any],
        read: Callable[[str], Buffer],
        *,
        where: str = "this bundle",
    ) -> Bundle:
        """Read the bundle that a manifest describes, once its file is verified.

        Args:
            manifest: value that `manifest` returned.
            read: returns the bytes of a file by its name, which may be a memory map, or raises
                FileNotFoundError.
            where: name of the bundle in messages.

        Raises:
            StoreError: if the bundle is in another format, the manifest was edited, or the file
                of tables is missing, truncated or altered.
        """
        _check_manifest(manifest, where)
        data = _read_verified(manifest["tables_sha256"], read, where)
        try:
            tables = unpack_tables(data)
        except StoreError as error:
            raise StoreError(f"{where}: file {TABLES!r} is {error}; {RESTORE}.") from error
        bundle = cls(manifest["content"], tables, manifest["provenance"])
        # The bytes as they are stored: another Arrow release might write others.
        vars(bundle)["data"] = data
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
    return _sha256(json.dumps(values, sort_keys=True).encode())


def _content_id(content: Mapping[str, Any], tables_sha256: str) -> str:
    values = {
        "format_version": FORMAT_VERSION,
        "content": content,
        "tables_sha256": tables_sha256,
    }
    canonical = json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return _sha256(canonical.encode())


def _sha256(data: Buffer) -> str:
    return hashlib.sha256(data).hexdigest()


def _check_manifest(manifest: Mapping[str, Any], where: str) -> None:
    if not isinstance(manifest, Mapping):
        raise StoreError(f"{where}: the manifest is not a JSON object; {RESTORE}.")
    # Checked first, because a manifest in another format may differ in everything else.
    version = manifest.get("format_version")
    if isinstance(version, int) and version != FORMAT_VERSION:
        fix = "upgrade probclass" if version > FORMAT_VERSION else "train and save the model again"
        raise StoreError(
            f"{where} is in format {version}; this release reads format {FORMAT_VERSION}; {fix}."
        )
    for key, kind in _MANIFEST_KEYS.items():
        if not isinstance(manifest.get(key), kind):
            raise StoreError(
                f"{where}: the manifest has no valid {key!r}, only {one_of(manifest)}; {RESTORE}."
            )
    try:
        actual = _content_id(manifest["content"], manifest["tables_sha256"])
    except ValueError as error:  # Python reads NaN and Infinity, which JSON lacks
        raise StoreError(f"{where}: the manifest is not JSON: {error}; {RESTORE}.") from error
    if actual != manifest["content_id"]:
        raise StoreError(
            f"{where}: the manifest was edited: its content id is {actual[:12]}… instead of "
            f"{manifest['content_id'][:12]}…; {RESTORE}."
        )


def _read_verified(sha256: str, read: Callable[[str], Buffer], where: str) -> Buffer:
    try:
        data = read(TABLES)
    except FileNotFoundError as error:
        raise StoreError(f"{where}: file {TABLES!r} is missing; {RESTORE}.") from error
    if (actual := _sha256(data)) != sha256:
        raise StoreError(
            f"{where}: file {TABLES!r} is damaged (SHA-256 {actual[:12]}… instead of "
            f"{sha256[:12]}…); {RESTORE}."
        )
    return data
