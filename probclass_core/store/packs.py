"""Packs: what is kept of many fragments, in one file that can vouch for itself.

    64 hex digits   SHA-256 of the index, with its length before it
    8 bytes         length of the index, little-endian
    index           JSON: what is told of all entries, schemas, and the entries by name
    entries         tables as record batches of Arrow IPC, each from a multiple of 64 bytes on

The index has the SHA-256 of every entry, so that an entry is verified when it is used, and damage
to one leaves the others. Schemas are told once, by number: entries of one kind share them, and to
read one costs a tenth of reading a file of its own. A memory map of a pack is used in place.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from probclass_core.arrow.bundle import Buffer, from_ipc, to_ipc
from probclass_core.errors import StoreError, one_line
from probclass_core.io.footers import Footer

_DIGEST_BYTES = 64
_LENGTH_BYTES = 8
_ALIGNMENT = 64
"""Bytes, as Arrow aligns its buffers."""


@dataclass(frozen=True)
class Entry:
    """What is kept under one name.

    Attributes:
        told: plain JSON values.
        data: of the tables, one after the other.
        sha256: of the data.
        parts: table to its schema, and where its record batch begins and how long it is; a table
            without a schema is an Arrow IPC file.
        footer: of the file that it is of, if that is kept with it.
    """

    told: Mapping[str, Any]
    data: Buffer
    sha256: str
    parts: Mapping[str, tuple[pa.Schema | None, int, int]]
    footer: Footer | None

    @classmethod
    def of(
        cls, told: Mapping[str, Any], tables: Mapping[str, pa.Table], footer: Footer | None
    ) -> Entry:
        """An entry of these tables."""
        data = bytearray()
        parts: dict[str, tuple[pa.Schema | None, int, int]] = {}
        for name, table in tables.items():
            schema, stored = _stored(table)
            data += bytes(_aligned(len(data)) - len(data))
            parts[name] = (schema, len(data), len(stored))
            data += stored
        return cls(told, bytes(data), hashlib.sha256(data).hexdigest(), parts, footer)

    def verify(self, where: str) -> None:
        """Whether its bytes are those that were stored.

        Args:
            where: how messages name the pack.

        Raises:
            StoreError: they are not.
        """
        if hashlib.sha256(self.data).hexdigest() != self.sha256:
            raise StoreError(f"{where} is damaged: an entry's SHA-256 is another.")

    def tables(self, where: str) -> dict[str, pa.Table]:
        """Its tables, which point into its data.

        Raises:
            StoreError: it was truncated or altered.
        """
        self.verify(where)
        data = pa.py_buffer(self.data)
        tables = {}
        for name, (schema, begin, size) in self.parts.items():
            stored = data.slice(begin, size)
            try:
                if schema is None:
                    table = from_ipc(stored)
                else:
                    batch = pa.ipc.read_record_batch(stored, schema)
                    table = pa.Table.from_batches([batch], schema)
                # The digest shows that the bytes are those that were stored, not who stored them:
                # offsets that point outside their buffer would crash the process.
                table.validate(full=True)
            except (pa.ArrowException, OSError) as error:
                raise StoreError(f"{where} is damaged: {one_line(error)}.") from error
            tables[name] = table
        return tables


class Pack:
    """The index of a pack.

    Args:
        data: of the whole file.
        where: how messages name it.

    Attributes:
        told: of all entries, plain JSON values.
        where: as above.
        size: of its entries, in bytes.

    Raises:
        StoreError: it is no pack, or was truncated or altered; entries are verified later.
    """

    def __init__(self, data: Buffer, where: str) -> None:
        begin = _DIGEST_BYTES + _LENGTH_BYTES
        buffer = pa.py_buffer(data)
        end = begin + int.from_bytes(buffer[_DIGEST_BYTES:begin], "little")
        if _digest(buffer[_DIGEST_BYTES:end]) != bytes(buffer[:_DIGEST_BYTES]):
            raise StoreError(f"{where} is damaged: its SHA-256 is another.")
        index = json.loads(bytes(buffer[begin:end]))
        self.where = where
        self.told: Mapping[str, Any] = index["told"]
        self._entries: Mapping[str, Any] = index["entries"]
        self.size = sum(entry["size"] for entry in self._entries.values())
        self._encoded: Sequence[str] = index["schemas"]
        self._schemas: dict[int, pa.Schema] = {}
        self._begin = _aligned(end)

    @property
    def names(self) -> Collection[str]:
        """Of its entries."""
        return self._entries.keys()

    def files(self) -> dict[str, str]:
        """Digests of the files whose footers are kept, each with the name of the entry."""
        return {
            footer["file"]: name
            for name, entry in self._entries.items()
            if (footer := entry.get("footer")) is not None
        }

    def footer(self, name: str) -> Footer | None:
        """That of the file that an entry is of."""
        kept = self._entries[name].get("footer")
        if kept is None:
            return None
        return Footer(kept["file"], self._schema(kept["schema"]), tuple(kept["rows"]))

    def entry(self, name: str, data: Buffer) -> Entry:
        """An entry, not verified yet.

        Args:
            name: of it.
            data: of the whole file.
        """
        entry = self._entries[name]
        parts = {
            table: (None if number is None else self._schema(number), begin, size)
            for table, (number, begin, size) in entry["parts"].items()
        }
        stored = pa.py_buffer(data)[self._begin + entry["begin"] :][: entry["size"]]
        return Entry(entry["told"], stored, entry["sha256"], parts, self.footer(name))

    def _schema(self, number: int) -> pa.Schema:
        if number not in self._schemas:
            encoded = base64.b64decode(self._encoded[number])
            self._schemas[number] = pa.ipc.read_schema(pa.py_buffer(encoded))
        return self._schemas[number]


def packed(told: Mapping[str, Any], entries: Mapping[str, Entry]) -> tuple[str, bytes]:
    """A pack: the digest of its index, and its bytes; equal entries give equal bytes.

    Args:
        told: of all entries, plain JSON values.
        entries: by name.
    """
    numbers: dict[bytes, int] = {}

    def number_of(schema: pa.Schema) -> int:
        return numbers.setdefault(schema.serialize().to_pybytes(), len(numbers))

    index, data = {}, bytearray()
    for name, entry in sorted(entries.items()):
        data += bytes(_aligned(len(data)) - len(data))
        index[name] = _described(entry, len(data), number_of)
        data += entry.data
    schemas = [base64.b64encode(schema).decode() for schema in numbers]
    whole = {"told": told, "schemas": schemas, "entries": index}
    head = json.dumps(whole, separators=(",", ":")).encode()
    vouched = len(head).to_bytes(_LENGTH_BYTES, "little") + head
    digest = _digest(vouched)
    before = digest + vouched
    padding = bytes(_aligned(len(before)) - len(before))
    return digest.decode(), b"".join((before, padding, data))


def _described(entry: Entry, begin: int, number_of: Callable[[pa.Schema], int]) -> dict[str, Any]:
    """An entry as the index has it."""
    parts = {
        table: [None if schema is None else number_of(schema), start, size]
        for table, (schema, start, size) in entry.parts.items()
    }
    described = {
        "told": dict(entry.told),
        "begin": begin,
        "size": len(entry.data),
        "sha256": entry.sha256,
        "parts": parts,
    }
    if entry.footer is not None:
        footer = entry.footer
        described["footer"] = {
            "file": footer.file,
            "schema": number_of(footer.schema),
            "rows": list(footer.rows),
        }
    return described


def _stored(table: pa.Table) -> tuple[pa.Schema | None, Buffer]:
    """A table as one record batch, and its schema; or else as an Arrow IPC file."""
    whole = from_ipc(to_ipc(table))  # without stray bytes, as everywhere in a store
    batches = whole.to_batches()
    if len(batches) != 1 or any(map(_has_dictionary, whole.schema.types)):
        return None, to_ipc(table)  # dictionaries are messages of their own
    return whole.schema, batches[0].serialize()


def _has_dictionary(kind: pa.DataType) -> bool:
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    fields = (kind.field(number).type for number in range(kind.num_fields))
    return bool(pa.types.is_dictionary(kind)) or any(map(_has_dictionary, fields))


def _digest(data: Any) -> bytes:
    return hashlib.sha256(data).hexdigest().encode()


def _aligned(position: int) -> int:
    """The next multiple of the alignment."""
    return -(-position // _ALIGNMENT) * _ALIGNMENT
