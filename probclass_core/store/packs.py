"""Packs: the statistics of many units in one Arrow IPC file, one row per unit.

    unit         digest of the unit; rows are sorted by it
    rows         number of rows summarized
    null_labels  number of rows dropped because their label is null
    stored       time of storage, ISO 8601 in UTC
    footers      the unit's files: digest of the state, schema as Arrow IPC, rows of the row groups
    tables       each table as an Arrow IPC stream, by name

The metadata of the schema has the summary as JSON: what the entries are statistics of. The file is
named by the SHA-256 of its bytes, which is verified whenever it is read.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from probclass_core.arrow.bundle import Buffer, from_ipc, from_ipc_stream, to_ipc
from probclass_core.errors import StoreError, one_line
from probclass_core.estimation.statistics import PROFILE, Statistics
from probclass_core.io.table import Footer
from probclass_core.spec.model_spec import ModelSpec

_TYPES = {
    "unit": pa.string(),
    "rows": pa.int64(),
    "null_labels": pa.int64(),
    "stored": pa.string(),
    "footers": pa.list_(
        pa.struct(
            {
                "file": pa.string(),
                "schema": pa.dictionary(pa.int32(), pa.binary()),
                "rows": pa.list_(pa.int64()),
            }
        )
    ),
    "tables": pa.map_(pa.string(), pa.large_binary()),
}

_NAME_DIGITS = 32
"""Number of digits of the SHA-256 in the name of a file."""


@dataclass(frozen=True)
class Entry:
    """The statistics of one unit.

    Attributes:
        rows: number of rows summarized.
        null_labels: number of rows dropped because their label is null.
        stored: time of storage, ISO 8601 in UTC.
        streams: each table as an Arrow IPC stream, by name.
        footers: footers of the unit's files.
    """

    rows: int
    null_labels: int
    stored: str
    streams: Mapping[str, Buffer]
    footers: Sequence[Footer] = ()

    @property
    def size(self) -> int:
        """Size of the tables in bytes."""
        return sum(map(len, self.streams.values()))

    def tables(self, where: str) -> dict[str, pa.Table]:
        """The tables by name; they point into the pack's memory.

        Args:
            where: name of the pack in messages.

        Raises:
            StoreError: if one is not a valid table.
        """
        try:
            tables = {name: from_ipc_stream(stream) for name, stream in self.streams.items()}
            for table in tables.values():
                # Offsets that point outside their buffer would crash the process.
                table.validate(full=True)
        except (StoreError, pa.ArrowException, OSError, ValueError) as error:
            raise StoreError(f"{where} is damaged: {one_line(error)}.") from error
        return tables

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
    """The entries of a pack.

    Args:
        data: bytes of the file.
        name: name of the file, without suffix.
        where: name of the pack in messages.

    Attributes:
        summary: what the entries are statistics of, as plain JSON values.

    Raises:
        ValueError: if the bytes are not a pack, or not the ones that were stored.
    """

    def __init__(self, data: Buffer, name: str, where: str) -> None:
        try:
            if pack_name(data) != name:
                raise ValueError("its SHA-256 does not match")
            (batch,) = from_ipc(data).to_batches()
            batch.validate(full=True)
            self.summary: Mapping[str, Any] = json.loads(batch.schema.metadata[b"summary"])
            self._row_of = {unit: row for row, unit in enumerate(batch["unit"].to_pylist())}
            self._heads = batch.select(["rows", "null_labels", "stored"]).to_pylist()
            self._footers = [
                tuple(Footer(one["file"], _schema(one["schema"]), tuple(one["rows"])) for one in of)
                for of in batch["footers"].to_pylist()
            ]
            tables = batch["tables"]
            self._offsets = tables.offsets.to_pylist()
            self._names, self._streams = tables.keys.to_pylist(), tables.items
            for footers, head in zip(self._footers, self._heads, strict=True):
                if footers and not _can_hold(footers, head["rows"]):
                    raise ValueError(f"footers of fewer rows than the {head['rows']} that count")
        except Exception as error:  # damaged values can cause any error
            raise ValueError(f"{where} is damaged: {one_line(error)}.") from error

    @property
    def units(self) -> Set[str]:
        """Digests of the units."""
        return self._row_of.keys()

    def footers(self) -> dict[str, Footer]:
        """The footers by the digest of their file."""
        return {footer.file: footer for footers in self._footers for footer in footers}

    def entry(self, unit: str) -> Entry:
        """The entry of a unit."""
        row = self._row_of[unit]
        places = range(self._offsets[row], self._offsets[row + 1])
        streams = {self._names[place]: self._streams[place].as_buffer() for place in places}
        return Entry(**self._heads[row], streams=streams, footers=self._footers[row])


def pack_name(data: Buffer) -> str:
    """The name of the file of a pack, without suffix."""
    return hashlib.sha256(data).hexdigest()[:_NAME_DIGITS]


def encode_pack(summary: Mapping[str, Any], entries: Mapping[str, Entry]) -> bytes:
    """The bytes of a pack; equal summaries and entries give equal bytes.

    Args:
        summary: what the entries are statistics of, as plain JSON values.
        entries: the entries by the digest of their unit, at least one.
    """
    rows = [
        {
            "unit": unit,
            "rows": entry.rows,
            "null_labels": entry.null_labels,
            "stored": entry.stored,
            "footers": [
                {
                    "file": footer.file,
                    "schema": footer.schema.serialize().to_pybytes(),
                    "rows": footer.rows,
                }
                for footer in entry.footers
            ],
            "tables": [(name, memoryview(stream)) for name, stream in entry.streams.items()],
        }
        for unit, entry in sorted(entries.items())
    ]
    schema = pa.schema(_TYPES.items(), {"summary": json.dumps(summary, separators=(",", ":"))})
    batch = pa.RecordBatch.from_pylist(rows, schema)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def encode_tables(tables: Mapping[str, pa.Table]) -> dict[str, Buffer]:
    """Tables as Arrow IPC streams; equal rows give equal bytes."""
    streams = {}
    for name, table in tables.items():
        table, sink = from_ipc(to_ipc(table)), pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        streams[name] = sink.getvalue()
    return streams


def _can_hold(footers: Sequence[Footer], rows: int) -> bool:
    """Whether some of the row groups of files can have this number of rows."""
    counts = [count for footer in footers for count in footer.rows]
    return min(counts, default=0) >= 0 and sum(counts) >= rows


@functools.lru_cache(maxsize=64)
def _schema(data: bytes) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(data))
