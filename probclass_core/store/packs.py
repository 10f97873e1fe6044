"""Packs: the statistics of many units in one Arrow IPC file, one row per unit.

    unit        digest of the unit; rows are sorted by it
    rows            number of rows summarized
    null_labels     number of rows dropped because their label is null
    stored          time of storage, ISO 8601 in UTC
    footer_file     digests of the states of the unit's files
    footer_schema   schemas of these files, as Arrow IPC
    footer_rows     numbers of rows in each of their row groups
    sha256          SHA-256 of the tables
    tables          one field per table: an Arrow IPC stream, or null if the entry lacks the table

The metadata of the schema has the summary as JSON, and the SHA-256 of the summary and of every
column but the tables. Opening a pack verifies that; an entry's tables are verified when they are
loaded, so damage to one entry leaves the others. A memory-mapped pack is used in place.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from probclass_core.arrow.bundle import (
    Buffer,
    from_ipc,
    from_ipc_stream,
    refuse_compressed,
    refuse_too_many_rows,
    to_ipc,
)
from probclass_core.errors import StoreError, one_line
from probclass_core.estimation.statistics import PROFILE, Statistics
from probclass_core.io.footers import Footer
from probclass_core.spec.model_spec import ModelSpec

_HEAD = {
    "unit": pa.string(),
    "rows": pa.int64(),
    "null_labels": pa.int64(),
    "stored": pa.string(),
    "sha256": pa.string(),
    "footer_file": pa.list_(pa.string()),
    "footer_rows": pa.list_(pa.list_(pa.int64())),
}
"""Types of the columns but for the tables and the footers' schemas."""

_SCALARS = ("unit", "rows", "null_labels", "stored", "sha256")
_TABLES = "tables"

_MAX_BATCH_BYTES = 1 << 31
"""Size of the smallest table that Arrow may have to cut into several batches."""


@dataclass(frozen=True)
class Entry:
    """The statistics of one unit.

    Attributes:
        rows: number of rows summarized.
        null_labels: number of rows dropped because their label is null.
        stored: time of storage, ISO 8601 in UTC.
        streams: each table as an Arrow IPC stream, by name.
        sha256: SHA-256 of the streams, when they were stored.
        footers: footers of the unit's files.
    """

    rows: int
    null_labels: int
    stored: str
    streams: Mapping[str, Buffer]
    sha256: str
    footers: Sequence[Footer]

    @classmethod
    def from_tables(
        cls,
        tables: Mapping[str, pa.Table],
        *,
        rows: int,
        null_labels: int,
        stored: str,
        footers: Sequence[Footer] = (),
    ) -> Entry:
        """An entry of these tables; see the attributes."""
        streams = {name: _to_stream(table) for name, table in tables.items()}
        return cls(rows, null_labels, stored, streams, _streams_sha256(streams), footers)

    @property
    def size(self) -> int:
        """Size of the tables in bytes."""
        return sum(map(len, self.streams.values()))

    def verify(self, where: str) -> None:
        """Check that the tables are the ones that were stored.

        Args:
            where: name of the pack in messages.

        Raises:
            StoreError: if a byte of them was changed.
        """
        if _streams_sha256(self.streams) != self.sha256:
            raise StoreError(f"{where} is damaged: the SHA-256 of an entry does not match.")

    def tables(self, where: str) -> dict[str, pa.Table]:
        """The tables by name; they point into the pack's memory.

        Args:
            where: name of the pack in messages.

        Raises:
            StoreError: if a byte of them was changed, or one is not a valid table.
        """
        self.verify(where)
        try:
            return {name: _from_stream(stream) for name, stream in self.streams.items()}
        except (StoreError, pa.ArrowException, OSError, ValueError) as error:
            raise StoreError(f"{where} is damaged: {one_line(error)}.") from error

    def statistics(self, spec: ModelSpec, features: pa.Schema, where: str) -> Statistics:
        """The statistics that are in the tables, not checked yet.

        Args:
            spec: spec of the model.
            features: the model's columns as the table has them, with their canonical types.
            where: name of the pack in messages.

        Raises:
            StoreError: as `tables`, or if one is missing.
        """
        tables = self.tables(where)
        for name in ("classes", PROFILE):
            if name not in tables:
                raise StoreError(f"{where} is damaged: an entry has no table {name!r}.")
        return Statistics.from_tables(spec, features, tables, self.rows, self.null_labels)


class Pack:
    """The small columns of a pack, and where its tables begin and end.

    It does not keep the bytes of the file, so an index of many packs fits in memory.

    Args:
        data: bytes of the file.
        where: name of the pack in messages.

    Attributes:
        summary: what the entries are statistics of, as plain JSON values.
        size: size of all tables in bytes.

    Raises:
        StoreError: if the bytes are not a pack, or were truncated or altered; tables are verified
            when they are loaded.
    """

    def __init__(self, data: Buffer, where: str) -> None:
        file = pa.py_buffer(data)
        try:
            (batch,) = from_ipc(file).to_batches()
            # Offsets that point outside their buffer would crash the process.
            batch.validate(full=True)
            metadata = batch.schema.metadata
            if _head_sha256(metadata[b"summary"], batch) != metadata[b"sha256"].decode():
                raise ValueError("its SHA-256 does not match")
            self.summary: Mapping[str, Any] = json.loads(metadata[b"summary"])
            self._columns = {name: batch.column(name).to_pylist() for name in _SCALARS}
            self._footers = _footers(batch)
            for footers, rows in zip(self._footers, self._columns["rows"], strict=True):
                if footers and not _can_hold(footers, rows):
                    raise ValueError(f"footers of fewer rows than the {rows} that count")
            tables = batch.column(_TABLES)
            self._places = {
                field.name: _places(array, file)
                for field, array in zip(tables.type, tables.flatten(), strict=True)
            }
        except Exception as error:  # damaged values can cause any error
            raise StoreError(f"{where} is damaged: {one_line(error)}.") from error
        self.size = sum(places[-1] - places[0] for places in self._places.values())
        self._position = {name: row for row, name in enumerate(self._columns["unit"])}

    @property
    def units(self) -> Collection[str]:
        """Digests of the units."""
        return self._position.keys()

    def footers(self) -> dict[str, Footer]:
        """The footers by the digest of their file."""
        return {footer.file: footer for footers in self._footers for footer in footers}

    def entry(self, unit: str, data: Buffer) -> Entry:
        """The entry of a unit, whose tables are not verified yet.

        Args:
            unit: digest of the unit.
            data: bytes of the file.
        """
        row, file = self._position[unit], pa.py_buffer(data)
        streams = {
            name: file.slice(places[row], places[row + 1] - places[row])
            for name, places in self._places.items()
            if places[row + 1] > places[row]
        }
        values = {name: column[row] for name, column in self._columns.items() if name != "unit"}
        return Entry(**values, streams=streams, footers=self._footers[row])


def encode_pack(summary: Mapping[str, Any], entries: Mapping[str, Entry]) -> tuple[str, bytes]:
    """A pack as the SHA-256 of its small columns and the bytes of its file.

    Equal summaries and entries give equal bytes.

    Args:
        summary: what the entries are statistics of, as plain JSON values.
        entries: the entries by the digest of their unit, at least one.
    """
    units = sorted(entries)
    rows = [entries[unit] for unit in units]
    footers = [entry.footers for entry in rows]
    values: dict[str, list[Any]] = {
        "unit": units,
        "rows": [entry.rows for entry in rows],
        "null_labels": [entry.null_labels for entry in rows],
        "stored": [entry.stored for entry in rows],
        "sha256": [entry.sha256 for entry in rows],
        "footer_file": [[footer.file for footer in of] for of in footers],
        "footer_rows": [[footer.rows for footer in of] for of in footers],
    }
    columns = {name: pa.array(values[name], kind) for name, kind in _HEAD.items()}
    schemas = [footer.schema.serialize().to_pybytes() for of in footers for footer in of]
    columns["footer_schema"] = pa.ListArray.from_arrays(
        columns["footer_file"].offsets, pa.array(schemas, pa.binary()).dictionary_encode()
    )
    # Rows without a label have no blocks. The fullest entry comes first, for the checksum of an
    # entry depends on the order of its tables.
    fullest_first = sorted(rows, key=lambda entry: len(entry.streams), reverse=True)
    names = list(dict.fromkeys(name for entry in fullest_first for name in entry.streams))
    streams = [
        [memoryview(entry.streams[name]) if name in entry.streams else None for entry in rows]
        for name in names
    ]
    columns[_TABLES] = pa.StructArray.from_arrays(
        [pa.array(column, pa.large_binary()) for column in streams], names
    )
    batch = pa.record_batch(columns)
    described = json.dumps(summary, separators=(",", ":")).encode()
    digest = _head_sha256(described, batch)
    batch = batch.replace_schema_metadata({"summary": described, "sha256": digest})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return digest, sink.getvalue().to_pybytes()


def _head_sha256(summary: bytes, batch: pa.RecordBatch) -> str:
    """SHA-256 of the summary and of every column but the tables."""
    schemas = batch.column("footer_schema").values.dictionary
    sha256 = hashlib.sha256(summary)
    sha256.update(batch.schema.remove_metadata().serialize())
    sha256.update(batch.select([*_HEAD, "footer_schema"]).serialize())
    sha256.update(pa.record_batch([schemas], ["footer_schema"]).serialize())
    return sha256.hexdigest()


def _footers(batch: pa.RecordBatch) -> list[tuple[Footer, ...]]:
    """The footers of each row; those that share a schema share the object."""
    encoded = batch.column("footer_schema")
    schemas = [pa.ipc.read_schema(schema.as_buffer()) for schema in encoded.values.dictionary]
    indices = pa.ListArray.from_arrays(encoded.offsets, encoded.values.indices)
    columns = batch.column("footer_file"), indices, batch.column("footer_rows")
    return [
        tuple(
            Footer(file, schemas[index], tuple(rows))
            for file, index, rows in zip(*of_unit, strict=True)
        )
        for of_unit in zip(*(column.to_pylist() for column in columns), strict=True)
    ]


def _can_hold(footers: Sequence[Footer], rows: int) -> bool:
    """Whether some of the row groups of files can have this number of rows."""
    counts = [count for footer in footers for count in footer.rows]
    return min(counts, default=0) >= 0 and sum(counts) >= rows


def _places(array: pa.Array, file: pa.Buffer) -> list[int]:
    """Position in the file where each value of the column begins, and where the last one ends."""
    _, offsets, values = array.buffers()
    begin = values.address - file.address
    return [begin + int(offset) for offset in np.frombuffer(offsets, np.int64)[: len(array) + 1]]


def _streams_sha256(streams: Mapping[str, Buffer]) -> str:
    sha256 = hashlib.sha256(repr([(name, len(streams[name])) for name in streams]).encode())
    for stream in streams.values():
        sha256.update(stream)
    return sha256.hexdigest()


def _to_stream(table: pa.Table) -> Buffer:
    """A table as an Arrow IPC stream of one batch; equal rows give equal bytes."""
    table = from_ipc(to_ipc(table))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def _from_stream(stream: pa.Buffer) -> pa.Table:
    """The table of a stream; it points into the stream's memory."""
    # Streams share schemas: to parse each only once halves the time. The message of the schema
    # comes first, with its length in bytes 4 to 8.
    end = 8 + int.from_bytes(stream[4:8], "little")
    schema = _schema(stream.slice(0, end).to_pybytes())
    table = None
    if stream.size < _MAX_BATCH_BYTES:
        with suppress(EOFError):  # there are no rows
            message = pa.ipc.read_message(stream.slice(end))
            if message.type == "record batch":
                refuse_compressed(message)
                batch = pa.ipc.read_record_batch(message, schema)
                refuse_too_many_rows(batch, stream)
                table = pa.Table.from_batches([batch], schema)
    if table is None:
        table = from_ipc_stream(stream)
    # The SHA-256 shows that the bytes are the ones that were stored, not that they are a table:
    # offsets that point outside their buffer would crash the process.
    table.validate(full=True)
    return table


@functools.lru_cache(maxsize=64)
def _schema(message: bytes) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(message))
