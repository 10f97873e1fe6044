"""The statistics of units, cached in a model store, so that a unit is read only once.

    <store>/_statistics/<summary digest>/<32 digits>.arrow      packs, see `packs`

The summary digest covers everything that ``summarize`` depends on: label, weight, blocks, the
versions of their estimators, and the release of probclass. The prior is not part of it. The footers
of a unit's files are cached with its statistics, so that a plan need not open the files.

New statistics are written together, every few seconds and at the end. A new pack absorbs the packs
that are no larger than itself, so the number of packs grows with the logarithm of the number of
units, and so does the number of times that an entry is rewritten. The new pack is published
before the old ones are removed: a process that is killed in between leaves some entries twice, and
a concurrent reader finds every entry.

An entry that is damaged, or is in the folder of another summary, is reported and computed again; it
is never trusted. An entry has a checksum; whether rows can have its statistics is checked only if
what it is merged to is not valid, see `training.rows`.
"""

from __future__ import annotations

import functools
import hashlib
import json
import logging
import os
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from probclass_core.arguments import check_argument
from probclass_core.arrow.bundle import Buffer
from probclass_core.errors import SpecError, StoreError
from probclass_core.estimation.statistics import Statistics
from probclass_core.io.filesystem import Location
from probclass_core.io.footers import Footer
from probclass_core.plugins.manager import find_estimator, registry
from probclass_core.release import VERSION
from probclass_core.spec.model_spec import ModelSpec
from probclass_core.store.model_store import ModelStore
from probclass_core.store.packs import Entry, Pack, encode_pack
from probclass_core.store.records import timestamp

log = logging.getLogger(__name__)

CacheOption: TypeAlias = ModelStore | str | os.PathLike[str] | bool | None
"""Where statistics are cached: a model store or its URI; `True` is that of ``PROBCLASS_STORE``."""

_FOLDER = "_statistics"  # not a model: the name of a model begins with a letter or digit
_SUFFIX = ".arrow"

_FORMAT = 2
"""Format of the entries; raise it when they change."""

_NAME_DIGITS = 32
"""Number of digits of a pack's SHA-256 in the name of its file."""

_MAX_PACK_BYTES = 8_000_000
"""Largest size of a pack, unless a single entry is larger."""

_MAX_SECONDS = 10.0
"""Longest time between writes: a process that is killed loses no more than that."""

_MAX_LISTINGS = 5
"""Attempts to read all packs while other processes absorb them."""

_MAX_PACKS_IN_MEMORY = 16
"""Number of packs in memory, if they cannot be mapped."""

_DAMAGED = "damaged"


class CachedStatistics:
    """The cached statistics of one model's units; a footer cache; for use by one thread.

    If the store fails, this is logged once, and the work continues without the cache.

    Args:
        files: file system of the store.
        spec: spec of the model.

    Attributes:
        reused: number of entries loaded.
        error: why the store cannot be used, or None.
        checks_each: whether entries are found damaged that no rows can have, checksums aside.
    """

    def __init__(self, files: Location, spec: ModelSpec) -> None:
        self.reused = 0
        self.error: StoreError | None = None
        self.checks_each = False
        self._files = files
        self._spec = spec
        self._summary = _summary_of(spec)
        self._folder = f"{_FOLDER}/{self._summary['digest']}"
        self._read = functools.lru_cache(_MAX_PACKS_IN_MEMORY)(files.read)
        self._packs: dict[str, Pack | None] = {}  # by path; None for a damaged one
        self._damaged: set[str] = set()
        self._path_of: dict[str | None, str] = {}  # of the pack, by unit
        self._footers: dict[str, Footer] = {}
        self._new: dict[str, Entry] = {}
        self._new_bytes = 0
        self._written = time.monotonic()
        try:
            self._open_packs()
        except StoreError as error:
            self._give_up("Statistics are neither cached nor reused", error)

    def footer(self, file: str) -> Footer | None:
        """Return the cached footer of a file, or None; see `FooterCache`.

        Args:
            file: digest of the file.
        """
        return self._footers.get(file)

    def forget_footers(self, files: Collection[str] | None = None) -> bool:
        """Return these footers no more; see `FooterCache`."""
        known = self._footers.keys() & (self._footers if files is None else files)
        for file in known:
            del self._footers[file]
        return bool(known)

    def contains(self, unit: str | None) -> bool:
        """Whether there is an entry of the unit; `load` may still find that it is damaged."""
        return unit in self._path_of

    def load(self, unit: str | None, features: pa.Schema) -> Statistics | None:
        """Return the statistics of a unit, or None if they are missing or damaged.

        Args:
            unit: digest of the unit.
            features: the model's columns as the table has them, with their canonical types.
        """
        if not self.contains(unit):
            return None
        try:
            entry = self._entry(str(unit))
        except StoreError as error:
            self._give_up("Statistics are neither cached nor reused", error)
            return None
        if entry is None:
            return None
        path = self._path_of[unit]
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

    def _entry(self, unit: str) -> Entry | None:
        """The entry of a unit, or None if another process has removed it."""
        for _ in range(2):
            path = self._path_of[unit]
            pack = self._packs.get(path)
            try:
                return None if pack is None else pack.entry(unit, self._read(path))
            except FileNotFoundError:
                self._open_packs()  # another process has absorbed the pack
        return None

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
        entry = Entry.from_tables(
            statistics.tables,
            rows=statistics.rows,
            null_labels=statistics.null_labels,
            stored=timestamp(),
            footers=footers,
        )
        self._new[unit] = entry
        self._new_bytes += entry.size
        due = time.monotonic() - self._written >= _MAX_SECONDS
        if due or self._new_bytes >= _MAX_PACK_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the statistics saved since the last write.

        Of several processes that do so at once, each absorbs the packs that it finds; entries that
        two of them have absorbed are stored twice, for a while.
        """
        self._written = time.monotonic()
        if not self._new or self.error is not None:
            return
        try:
            with self._files.lock(_lock_path(self._summary["digest"])):
                entries, absorbed = self._absorb_small_packs()
                path = _write_pack(self._files, self._summary, entries)
                for old in absorbed - {path}:
                    self._files.remove(old)
                    del self._packs[old]
            self._open_pack(path)
        except (StoreError, FileNotFoundError) as error:
            self._give_up("Statistics are not cached", error)
        self._new.clear()
        self._new_bytes = 0

    def _absorb_small_packs(self) -> tuple[dict[str, Entry], set[str]]:
        """The entries of the next pack, and the paths of the packs that it replaces.

        Of damaged packs it takes the entries that are intact.
        """
        present = {f"{self._folder}/{name}" for name in self._files.names(self._folder)}
        entries, absorbed = dict(self._new), set[str]()
        size = self._new_bytes
        sizes = {path: 0 if pack is None else pack.size for path, pack in self._packs.items()}
        for path in sorted(present & sizes.keys(), key=sizes.__getitem__):
            small = sizes[path] <= size and size + sizes[path] <= _MAX_PACK_BYTES
            if small or path in self._damaged:
                entries = {**self._intact_entries(path), **entries}
                absorbed.add(path)
                size += sizes[path]
        return entries, absorbed

    def _intact_entries(self, path: str) -> dict[str, Entry]:
        pack, entries = self._packs[path], dict[str, Entry]()
        if pack is None:
            return entries
        data = self._read(path)
        for unit in pack.units:
            entry = pack.entry(unit, data)
            with suppress(StoreError):
                entry.verify(path)
                entries[unit] = entry
        return entries

    def _open_packs(self) -> None:
        """Open the packs that are new in the folder."""
        for _ in range(_MAX_LISTINGS):
            names = self._files.names(self._folder)
            paths = {f"{self._folder}/{name}" for name in names if name.endswith(_SUFFIX)}
            try:
                for path in sorted(paths - self._packs.keys()):
                    self._open_pack(path)
                return
            except FileNotFoundError:
                continue  # another process has absorbed it into a new pack

    def _open_pack(self, path: str) -> None:
        location = self._files.uri_of(path)
        try:
            pack = Pack(self._read(path), location)
            if pack.summary != self._summary:
                raise StoreError(f"{location} is of another summary.")
        except StoreError as error:
            self._packs[path] = None
            self._report_damage(path, error)
            return
        self._packs[path] = pack
        self._path_of.update(dict.fromkeys(pack.units, path))
        self._footers.update(pack.footers())

    def _report_damage(self, path: str, error: StoreError) -> None:
        """Log damage to a pack once; the next write replaces the pack."""
        if path not in self._damaged:
            log.warning("Statistics are computed again: %s", error)
        self._damaged.add(path)

    def _give_up(self, consequence: str, error: Exception) -> None:
        """Continue without the store, and log the reason once."""
        if self.error is None:
            log.warning("%s: %s", consequence, error)
        self.error = StoreError(str(error))


@dataclass(frozen=True)
class CacheEntry:
    """The cached statistics of one unit.

    Attributes:
        summary: digest of everything that ``summarize`` depends on; the same for all entries of a
            model.
        unit: digest of the unit; the name of the file if that cannot be read.
        bytes: size of its statistics; size of the file if that cannot be read.
        label: the model's label, or None if the entry cannot be read, as below.
        estimators: names of the estimators of its blocks, in order.
        rows: number of rows summarized.
        stored: time of storage, ISO 8601 in UTC.
        stale: why no fit would use the entry, or None if one would.
    """

    summary: str
    unit: str
    bytes: int
    label: str | None = None
    estimators: tuple[str, ...] = ()
    rows: int | None = None
    stored: str | None = None
    stale: str | None = None


class StatisticsCache:
    """The cached statistics of all models in a store.

    Args:
        store: the model store, or its URI.

    Raises:
        StoreError: if the URI cannot be opened.
    """

    def __init__(self, store: ModelStore | str | os.PathLike[str]) -> None:
        if isinstance(store, ModelStore):
            opened = store
        else:
            check_argument("cache", store, str | os.PathLike[str])
            opened = ModelStore(store)
        self.uri = opened.uri
        self._files = opened.files

    @classmethod
    def open(cls, cache: ModelStore | str | os.PathLike[str] | Literal[True]) -> StatisticsCache:
        """Return the cache that the argument ``cache`` of a fit names.

        Raises:
            SpecError: if it is `True` and ``PROBCLASS_STORE`` is not set.
            StoreError: if the URI cannot be opened.
        """
        if cache is True:
            store = os.environ.get("PROBCLASS_STORE")
            if not store:
                raise SpecError(
                    "cache=True uses the store that PROBCLASS_STORE names, which is not set; set "
                    "it, or pass a ModelStore or its URI."
                )
            return cls(store)
        return cls(cache)

    def for_spec(self, spec: ModelSpec) -> CachedStatistics | None:
        """Return the statistics of one model, or None if they grow with the number of rows.

        Raises:
            PluginError: if an estimator is unknown.
        """
        if any(block.estimator_class.state_grows for block in spec.blocks):
            return None
        return CachedStatistics(self._files, spec)

    def entries(self) -> list[CacheEntry]:
        """Return all entries, sorted by their digests."""
        summaries = self._files.names(_FOLDER)
        files = (file for summary in summaries for file in self._files_of(summary))
        return _deduplicate(entry for file in files for entry in file.entries)

    def collect(
        self, older_than: timedelta | None = None, *, dry_run: bool = False
    ) -> list[CacheEntry]:
        """Remove the entries that no fit would use: damaged ones, and those of other versions.

        Args:
            older_than: also remove entries at least as old as this, or None.
            dry_run: remove nothing.

        Returns:
            The entries that were removed, or would be.
        """
        now = datetime.now(UTC)

        def is_garbage(entry: CacheEntry) -> bool:
            old = older_than is not None and (
                entry.stored is None or now - datetime.fromisoformat(entry.stored) >= older_than
            )
            return old or entry.stale is not None

        removed: list[CacheEntry] = []
        for summary in self._files.names(_FOLDER):
            with nullcontext() if dry_run else self._files.lock(_lock_path(summary)):
                for file in self._files_of(summary):
                    garbage = [entry for entry in file.entries if is_garbage(entry)]
                    removed.extend(garbage)
                    if garbage and not dry_run:
                        self._remove(file, {entry.unit for entry in garbage})
        return _deduplicate(removed)

    def _remove(self, file: _File, units: set[str]) -> None:
        """Remove some entries of a file; the others are published again before it is removed."""
        remaining = {
            entry.unit: file.pack.entry(entry.unit, file.data)
            for entry in file.entries
            if file.pack is not None and entry.unit not in units
        }
        if file.pack is not None and remaining:
            _write_pack(self._files, file.pack.summary, remaining)
        self._files.remove(file.path)

    def _files_of(self, summary: str) -> Iterator[_File]:
        """The packs of one summary."""
        folder = f"{_FOLDER}/{summary}"
        for name in self._files.names(folder):
            if name.endswith(_SUFFIX):
                with suppress(FileNotFoundError):  # another process has removed it
                    yield _File.read(self._files, f"{folder}/{name}", summary)


@dataclass(frozen=True)
class _File:
    """A pack of the cache.

    Attributes:
        path: its path in the store.
        data: its bytes.
        pack: the pack, or None if it is damaged.
        entries: the entries of the pack; one entry if it is damaged.
    """

    path: str
    data: Buffer
    pack: Pack | None
    entries: Sequence[CacheEntry]

    @classmethod
    def read(cls, files: Location, path: str, summary: str) -> _File:
        data, name = files.read(path), path.rsplit("/", 1)[-1]
        try:
            pack = Pack(data, path)
            units = pack.units
            entries = [_describe(pack, data, unit, summary) for unit in units]
            return cls(path, data, pack, entries)
        except Exception:  # damaged values can cause any error
            entry = CacheEntry(summary, name.removesuffix(_SUFFIX), len(data), stale=_DAMAGED)
            return cls(path, data, None, [entry])


def _describe(pack: Pack, data: Buffer, unit: str, folder: str) -> CacheEntry:
    entry, summary = pack.entry(unit, data), pack.summary
    stale = _why_stale(summary)
    if summary["digest"] != folder:
        stale = "in the folder of another summary"
    try:
        entry.verify(unit)
    except StoreError:
        stale = _DAMAGED
    return CacheEntry(
        summary=folder,
        unit=unit,
        bytes=entry.size,
        label=summary["label"],
        estimators=tuple(summary["estimators"]),
        rows=entry.rows,
        stored=entry.stored,
        stale=stale,
    )


def _deduplicate(entries: Iterable[CacheEntry]) -> list[CacheEntry]:
    """The entries in order; of two of the same unit, one that a fit would use, if any."""
    unique: dict[tuple[str, str], CacheEntry] = {}
    for entry in entries:
        known = unique.setdefault((entry.summary, entry.unit), entry)
        if known.stale is not None:
            unique[entry.summary, entry.unit] = entry
    return [unique[key] for key in sorted(unique)]


def _lock_path(summary: str) -> str:
    """Path to lock while packs of a summary are written and removed, given its digest."""
    return f"{_FOLDER}/{summary}/packs"


def _write_pack(files: Location, summary: Mapping[str, Any], entries: Mapping[str, Entry]) -> str:
    """Publish a pack, and return its path.

    Raises:
        StoreError: if the store refuses.
    """
    digest, data = encode_pack(summary, entries)
    path = f"{_FOLDER}/{summary['digest']}/{digest[:_NAME_DIGITS]}{_SUFFIX}"
    # Do not wait for the disk: a pack that a power cut truncates is found to be damaged.
    files.write(path, data, durable=False)
    return path


def _summary_of(spec: ModelSpec) -> dict[str, Any]:
    """The parts of a spec that `entries` reports, and the digest of all that matters."""
    reported = {
        "release": VERSION,
        "format": _FORMAT,
        "versions": {block.estimator: _versions(block.estimator) for block in spec.blocks},
        "label": spec.label,
        "estimators": [block.estimator for block in spec.blocks],
    }
    blocks = spec.to_dict()["blocks"]
    everything = {**reported, "weight": spec.weight, "blocks": blocks}
    if spec.fits_weights:
        everything["sample"] = True
    digest = hashlib.sha256(json.dumps(everything, sort_keys=True).encode()).hexdigest()
    return {**reported, "digest": digest}


def _why_stale(summary: Mapping[str, Any]) -> str | None:
    """Why no fit would use statistics of this summary, or None if one would."""
    if summary["release"] != VERSION:
        return f"of release {summary['release']}"
    if summary["format"] != _FORMAT:
        return f"of format {summary['format']}"
    installed = registry().estimators
    for estimator, versions in summary["versions"].items():
        if estimator in installed and versions != _versions(estimator):
            return f"of another version of {estimator}"
    return None


def _versions(estimator: str) -> list[int]:
    kind = find_estimator(estimator).estimator
    return [kind.parameters_version, kind.statistics_version]
