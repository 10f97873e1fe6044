"""The statistics of units, cached in a model store, so that a unit is read only once.

    <store>/_statistics/<summary>/<32 digits>.arrow      packs

A pack is an Arrow IPC file, named by the SHA-256 of its bytes, which is verified whenever it is
read. Its schema has the summary: the release of probclass, and a digest of what else the entries
are statistics of. A row is a unit:

    unit         digest of the unit; rows are sorted by it
    rows         number of rows summarized
    null_labels  number of rows dropped because their label is null
    footers      the unit's files: digest of the state, schema as Arrow IPC, rows of the row groups
    tables       its tables as an Arrow IPC stream, see `arrow.bundle.pack_tables`

The summary covers everything that ``summarize`` depends on: label, weight, blocks, the versions of
their estimators, and the release of probclass. The prior is not part of it. The footers of a unit's
files are cached with its statistics, so that a plan need not open the files.

A fit writes the statistics that are new in one pack, or in several if it takes long. When there are
many small packs, they are joined into one. The new pack is published before the old ones are
removed: a process that is killed in between leaves some entries twice, and a concurrent reader
finds every entry.

A pack that is damaged, or is in the folder of another summary, is reported and removed, and its
statistics are computed again; they are never trusted. Whether rows can have the statistics of an
entry is checked only if what it is merged to is not valid, see `training.rows`.
"""

from __future__ import annotations

import functools
import hashlib
import json
import logging
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from typing import Literal, TypeAlias

import numpy as np
import pyarrow as pa

from probclass_core.arguments import check_argument
from probclass_core.arrow.bundle import Buffer, from_ipc, pack_tables, unpack_tables
from probclass_core.errors import SpecError, StoreError, one_line
from probclass_core.estimation.statistics import PROFILE, Statistics
from probclass_core.io.filesystem import Location
from probclass_core.io.references import Leftover
from probclass_core.io.table import Footer
from probclass_core.plugins.manager import find_estimator
from probclass_core.release import VERSION
from probclass_core.spec.model_spec import ModelSpec
from probclass_core.store.model_store import ModelStore

log = logging.getLogger(__name__)

CacheOption: TypeAlias = ModelStore | str | os.PathLike[str] | bool | None
"""Where statistics are cached: a model store or its URI; `True` is that of ``PROBCLASS_STORE``."""

_FOLDER = "_statistics"  # not a model: the name of a model begins with a letter or digit
_SUFFIX = ".arrow"

_FORMAT = 2
"""Format of the entries; raise it when they change."""

_MAX_PACK_BYTES = 8_000_000
"""Size from which a pack is written at once, and no longer joined with others."""

_MAX_SMALL_PACKS = 16
"""Number of packs below that size from which a fit joins them."""

_MAX_SECONDS = 60.0
"""Longest time between writes: a process that is killed loses no more than that."""

_MAX_LISTINGS = 5
"""Attempts to read all packs while other processes join them."""

_TYPES = {
    "unit": pa.string(),
    "rows": pa.int64(),
    "null_labels": pa.int64(),
    "footers": pa.list_(
        pa.struct(
            {
                "file": pa.string(),
                "schema": pa.dictionary(pa.int32(), pa.binary()),
                "rows": pa.list_(pa.int64()),
            }
        )
    ),
    "tables": pa.large_binary(),
}

_NAME_DIGITS = 32
"""Number of digits of the SHA-256 in the name of a file."""


class CachedStatistics:
    """The cached statistics of one model's units; for use by one thread.

    If the store fails, this is logged once, and the work continues without the cache.

    Args:
        files: file system of the store.
        spec: spec of the model.

    Attributes:
        reused: number of entries loaded.
        footers: the cached footers by the digest of their file.
        error: why the store cannot be used, or None.
        checks_each: whether entries are found damaged that no rows can have, checksums aside.
    """

    def __init__(self, files: Location, spec: ModelSpec) -> None:
        self.reused = 0
        self.footers: dict[str, Footer] = {}
        self.error: StoreError | None = None
        self.checks_each = False
        self._files = files
        self._spec = spec
        self._summary = _summary_of(spec)
        self._folder = f"{_FOLDER}/{self._summary}"
        self._entries: dict[str | None, tuple[str, Entry]] = {}  # with the path of its pack
        self._damaged: set[str] = set()
        self._new: dict[str, Entry] = {}
        self._new_bytes = 0
        self._written = time.monotonic()
        try:
            self._read_packs()
        except StoreError as error:
            self._give_up("Statistics are neither cached nor reused", error)

    def contains(self, unit: str | None) -> bool:
        """Whether there was an entry of the unit; `load` may still find that it is damaged."""
        return unit in self._entries

    def load(self, unit: str | None, features: pa.Schema) -> Statistics | None:
        """Return the statistics of a unit, or None if they are missing or damaged.

        Args:
            unit: digest of the unit.
            features: the model's columns as the table has them, with their canonical types.
        """
        if unit not in self._entries:
            return None
        path, entry = self._entries[unit]
        where = self._files.uri_of(path)
        try:
            statistics = entry.statistics(self._spec, features, where)
            if self.checks_each:
                statistics.check(f"statistics in {where}")
        except StoreError as error:
            self._report_damage(path, error)
            return None
        self.reused += 1
        return statistics

    def save(
        self, unit: str | None, statistics: Statistics, footers: Sequence[Footer] = ()
    ) -> None:
        """Cache the statistics of a unit; they are written by `flush` at the latest.

        Args:
            unit: digest of the unit.
            statistics: statistics of its rows.
            footers: footers of its files, to cache as well.
        """
        if unit is None or self.error is not None:
            return
        tables = pack_tables(statistics.tables, stream=True)
        self._new[unit] = Entry(statistics.rows, statistics.null_labels, tables, footers)
        self._new_bytes += len(tables)
        due = time.monotonic() - self._written >= _MAX_SECONDS
        if due or self._new_bytes >= _MAX_PACK_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the statistics saved since the last write, in place of damaged packs."""
        self._written = time.monotonic()
        if not self._new or self.error is not None:
            return
        try:
            written = self._write_pack(self._new)
            for path in self._damaged - {written}:  # equal entries have the name that they had
                self._files.remove(path)
            self._join_small_packs()
        except (StoreError, FileNotFoundError) as error:
            self._give_up("Statistics are not cached", error)
        self._new.clear()
        self._new_bytes = 0

    def _read_packs(self) -> None:
        """Read the packs in the folder."""
        known: set[str] = set()
        for _ in range(_MAX_LISTINGS):
            try:
                for name in self._files.names(self._folder):
                    path = f"{self._folder}/{name}"
                    if name.endswith(_SUFFIX) and path not in known:
                        entries = self._read_pack(path).items()
                        self._entries |= {unit: (path, entry) for unit, entry in entries}
                        known.add(path)
                break
            except FileNotFoundError:
                continue  # another process has joined it with others
        for _, entry in self._entries.values():
            self.footers |= {footer.file: footer for footer in entry.footers}

    def _read_pack(self, path: str) -> dict[str, Entry]:
        """The entries of a pack by their units; none if it is damaged, or of another summary.

        Raises:
            FileNotFoundError: if it is gone.
            StoreError: if it cannot be read.
        """
        name, where = path.rpartition("/")[2].removesuffix(_SUFFIX), self._files.uri_of(path)
        try:
            summary, entries = decode_pack(self._files.read(path), name, where)
            if summary != self._summary:
                raise ValueError(f"{where} is of another summary.")
        except ValueError as error:
            self._report_damage(path, error)
            return {}
        return entries

    def _write_pack(self, entries: Mapping[str, Entry]) -> str:
        """Publish a pack, and return its path."""
        data = encode_pack(self._summary, entries)
        path = f"{self._folder}/{pack_name(data)}{_SUFFIX}"
        self._files.write(path, data)
        return path

    def _join_small_packs(self) -> None:
        """If there are many small packs, write their entries in packs of about the largest size."""
        small = [
            self._files.relative(one.path)
            for one in self._files.entries(self._folder)
            if one.path.endswith(_SUFFIX) and (one.size or 0) < _MAX_PACK_BYTES
        ]
        if len(small) <= _MAX_SMALL_PACKS:
            return
        written, entries = set[str](), dict[str, Entry]()
        for path in small:
            with suppress(FileNotFoundError):  # joined by another process
                entries |= self._read_pack(path)
            size = sum(len(entry.tables) for entry in entries.values())
            if entries and (size >= _MAX_PACK_BYTES or path == small[-1]):
                written.add(self._write_pack(entries))
                entries = {}
        for path in small:
            if path not in written:
                self._files.remove(path)

    def _report_damage(self, path: str, error: Exception) -> None:
        """Log damage to a pack once; the next write removes the pack."""
        if path not in self._damaged:
            log.warning("Statistics are computed again: %s", error)
        self._damaged.add(path)

    def _give_up(self, consequence: str, error: Exception) -> None:
        """Continue without the store, and log the reason once."""
        if self.error is None:
            log.warning("%s: %s", consequence, error)
        self.error = StoreError(str(error))


class StatisticsCache:
    """The cached statistics of all models in a store.

    Args:
        store: the model store, or its URI; `True` for that of ``PROBCLASS_STORE``.

    Raises:
        SpecError: if it is `True` and ``PROBCLASS_STORE`` is not set.
        StoreError: if the URI cannot be opened.
    """

    def __init__(self, store: ModelStore | str | os.PathLike[str] | Literal[True]) -> None:
        if store is True:
            store = os.environ.get("PROBCLASS_STORE", "")
            if not store:
                raise SpecError(
                    "cache=True uses the store that PROBCLASS_STORE names, which is not set; set "
                    "it, or pass a ModelStore or its URI."
                )
        if not isinstance(store, ModelStore):
            check_argument("cache", store, str | os.PathLike[str])
            store = ModelStore(store)
        self._files = store.files

    def for_spec(self, spec: ModelSpec) -> CachedStatistics | None:
        """Return the statistics of one model, or None if they grow with the number of rows.

        Raises:
            PluginError: if an estimator is unknown.
        """
        if any(block.state_grows for block in spec.blocks):
            return None
        return CachedStatistics(self._files, spec)

    def collect(
        self, older_than: timedelta | None = None, *, dry_run: bool = False
    ) -> list[Leftover]:
        """Remove the files that no fit would use: those of other releases, and old ones.

        Args:
            older_than: also remove files written at least as long ago as this, or None.
            dry_run: change nothing.

        Returns:
            The files that were removed, or would be.
        """
        removed: list[Leftover] = []
        for summary in self._files.names(_FOLDER):
            found = self._files.entries(f"{_FOLDER}/{summary}")
            packs = self._files.leftovers(one for one in found if one.path.endswith(_SUFFIX))
            stale = not summary.startswith(f"{VERSION}-")
            removed += [
                pack
                for pack in packs
                if stale or (older_than is not None and pack.abandoned(older_than))
            ]
        for pack in () if dry_run else removed:
            pack.remove()
        return removed


def _summary_of(spec: ModelSpec) -> str:
    """What the statistics of a spec depend on: the release, and a digest of the rest."""
    everything = {
        "format": _FORMAT,
        "versions": {block.estimator: _versions(block.estimator) for block in spec.blocks},
        "label": spec.label,
        "weight": spec.weight,
        "blocks": spec.to_dict()["blocks"],
    }
    if spec.takes_sample:
        everything["sample"] = [True, *spec.group_columns]
    digest = hashlib.sha256(json.dumps(everything, sort_keys=True).encode()).hexdigest()
    return f"{VERSION}-{digest}"


def _versions(estimator: str) -> list[int]:
    kind = find_estimator(estimator).estimator
    return [kind.parameters_version, kind.statistics_version]


@dataclass(frozen=True)
class Entry:
    """The statistics of one unit.

    Attributes:
        rows: number of rows summarized.
        null_labels: number of rows dropped because their label is null.
        tables: its tables as an Arrow IPC stream.
        footers: footers of the unit's files.
    """

    rows: int
    null_labels: int
    tables: Buffer
    footers: Sequence[Footer] = ()

    def statistics(self, spec: ModelSpec, features: pa.Schema, where: str) -> Statistics:
        """The statistics that are in the tables, which use the memory of the pack; not checked yet.

        Args:
            spec: spec of the model.
            features: the model's columns as the table has them, with their canonical types.
            where: name of the pack in messages.

        Raises:
            StoreError: if a table is not valid, or missing.
        """
        try:
            tables = unpack_tables(self.tables, stream=True)
        except StoreError as error:
            raise StoreError(f"{where} is damaged: an entry is {error}.") from error
        for name in ("classes", PROFILE):
            if name not in tables:
                raise StoreError(f"{where} is damaged: an entry has no table {name!r}.")
        return Statistics(spec, features, tables, self.rows, self.null_labels)


def decode_pack(data: Buffer, name: str, where: str) -> tuple[str, dict[str, Entry]]:
    """The summary of a pack, and its entries by their units, which use the memory of the file.

    Args:
        data: bytes of the file.
        name: name of the file, without suffix.
        where: name of the pack in messages.

    Raises:
        ValueError: if the bytes are not a pack, or not the ones that were stored.
    """
    try:
        if pack_name(data) != name:
            raise ValueError("its SHA-256 does not match")
        (batch,) = from_ipc(data).to_batches()
        batch.validate(full=True)
        (_, ends, tables), size = batch["tables"].buffers(), len(batch)
        places = pairwise(np.frombuffer(ends, np.int64, size + 1).tolist())
        entries = {}
        for row, (start, end) in zip(batch.drop_columns("tables").to_pylist(), places, strict=True):
            footers = tuple(
                Footer(one["file"], _schema(one["schema"]), tuple(one["rows"]))
                for one in row["footers"]
            )
            if footers and not _can_hold(footers, row["rows"]):
                raise ValueError(f"footers of fewer rows than the {row['rows']} that count")
            entries[row["unit"]] = Entry(
                row["rows"], row["null_labels"], tables[start:end], footers
            )
        return batch.schema.metadata[b"summary"].decode(), entries
    except Exception as error:  # damaged values can cause any error
        raise ValueError(f"{where} is damaged: {one_line(error)}.") from error


def pack_name(data: Buffer) -> str:
    """The name of the file of a pack, without suffix."""
    return hashlib.sha256(data).hexdigest()[:_NAME_DIGITS]


def encode_pack(summary: str, entries: Mapping[str, Entry]) -> bytes:
    """The bytes of a pack; equal summaries and entries give equal bytes.

    Args:
        summary: what the entries are statistics of.
        entries: the entries by the digest of their unit, at least one.
    """
    rows = [
        {
            "unit": unit,
            "rows": entry.rows,
            "null_labels": entry.null_labels,
            "footers": [
                {
                    "file": footer.file,
                    "schema": footer.schema.serialize().to_pybytes(),
                    "rows": footer.rows,
                }
                for footer in entry.footers
            ],
            "tables": memoryview(entry.tables),
        }
        for unit, entry in sorted(entries.items())
    ]
    schema = pa.schema(_TYPES.items(), {"summary": summary})
    batch = pa.RecordBatch.from_pylist(rows, schema)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def _can_hold(footers: Sequence[Footer], rows: int) -> bool:
    """Whether some of the row groups of files can have this number of rows."""
    counts = [count for footer in footers for count in footer.rows]
    return min(counts, default=0) >= 0 and sum(counts) >= rows


@functools.lru_cache(maxsize=64)
def _schema(data: bytes) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(data))
