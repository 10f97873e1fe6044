"""The statistics of fragments, cached in a model store: a fragment is summarized once.

    <store>/_statistics/<digest of the summary>/<32 digits>.pack

The digest of the summary covers what ``summarize`` depends on, and no more: label, weight, blocks,
the versions of their estimators, and the release of probclass. A prior is no part of it. With the
statistics of a fragment goes the footer of its file, so that a plan need not open the file.

What was computed is written together, now and then and at the end. A new pack takes up those that
are no larger than itself, so that their number grows with the logarithm of the fragments', and a
fragment's statistics are written anew as often. It is put in place before they are removed: a
process that is killed in between leaves some twice, and one that looks meanwhile finds all.
"""

from __future__ import annotations

import functools
import hashlib
import json
import logging
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

import probclass_core
from probclass_core.arrow.bundle import Buffer
from probclass_core.errors import SpecError, StoreError
from probclass_core.estimation.statistics import Statistics
from probclass_core.io.footers import Footer
from probclass_core.plugins.manager import find_estimator, registry
from probclass_core.spec import ModelSpec
from probclass_core.store.files import StoreFiles
from probclass_core.store.model_store import ModelStore
from probclass_core.store.packs import Entry, Pack, packed

log = logging.getLogger(__name__)

_FOLDER = "_statistics"  # a model's name begins with a letter or digit
_SUFFIX = ".pack"

_FORMAT = 2
"""Of the entries; to be raised when they change their shape."""

_NAME_DIGITS = 32
"""Of a pack's digest, in the name of its file."""

_MOST_BYTES = 8_000_000
"""Of a pack, unless a single entry is larger."""

_MOST_SECONDS = 10.0
"""After which what was computed is written: a process that is killed loses no more."""

_LOOKS = 5
"""At packs that another process takes up meanwhile."""

_AT_HAND = 16
"""Packs that are held in memory, where they cannot be mapped."""


class CachedStatistics:
    """The statistics that a store keeps of one model's fragments; for one thread.

    A store that refuses is told of once, and no reason to stop.

    Args:
        files: of the store.
        spec: the model.

    Attributes:
        reused: how many were loaded.
        error: why the store could not be looked into, if so.
    """

    def __init__(self, files: StoreFiles, spec: ModelSpec) -> None:
        self.reused = 0
        self.error: StoreError | None = None
        self._files = files
        self._spec = spec
        self._summary = _summary_of(spec)
        self._folder = f"{_FOLDER}/{self._summary['digest']}"
        self._read = functools.lru_cache(_AT_HAND)(files.read)
        self._packs: dict[str, Pack | None] = {}
        self._damaged: set[str] = set()
        self._place_of: dict[str | None, str] = {}
        self._footers: dict[str, tuple[str, str]] = {}
        self._new: dict[str, Entry] = {}
        self._waiting = 0
        self._written = time.monotonic()
        try:
            self._look()
        except StoreError as error:
            self._refused("Statistics are neither kept nor reused", error)

    def footer(self, file: str) -> Footer | None:
        """Return the cached footer of a file, or None; see `FooterCache`.

        Args:
            file: digest of the file.
        """
        if file not in self._footers:
            return None
        path, fragment = self._footers[file]
        pack = self._packs.get(path)
        return None if pack is None else pack.footer(fragment)

    def contains(self, fragment: str | None) -> bool:
        """Whether there is an entry of a fragment, be it one that `load` would not trust."""
        return fragment in self._place_of

    def load(self, fragment: str | None, features: pa.Schema) -> Statistics | None:
        """What is kept of a fragment; none where that is nothing, or nothing that can be trusted.

        Args:
            fragment: its digest.
            features: the model's columns as the table has them, with their canonical types.
        """
        if not self.contains(fragment):
            return None
        try:
            entry = self._entry(str(fragment))
        except StoreError as error:
            self._refused("Statistics are neither kept nor reused", error)
            return None
        if entry is None:
            return None
        path = self._place_of[fragment]
        try:
            tables = entry.tables(self._files.uri(path))
        except StoreError as error:
            self._is_damaged(path, error)
            return None
        self.reused += 1
        return Statistics(
            spec=self._spec,
            features=features,
            classes=tables.pop("classes"),
            blocks=tables,
            rows=entry.told["rows"],
            null_labels=entry.told["null_labels"],
        )

    def _entry(self, fragment: str) -> Entry | None:
        """The entry of a fragment; none where nobody has it any more."""
        for _ in range(2):
            path = self._place_of[fragment]
            pack = self._packs.get(path)
            try:
                return None if pack is None else pack.entry(fragment, self._read(path))
            except FileNotFoundError:
                self._look()  # another process has taken up the pack
        return None

    def save(self, fragment: str | None, found: Statistics, footer: Footer | None = None) -> None:
        """Keep the statistics of a fragment, at the latest by `flush`.

        Args:
            fragment: its digest.
            found: its statistics.
            footer: of its file, to be kept as well.
        """
        if fragment is None or self.error is not None:
            return
        told = {
            "rows": found.rows,
            "null_labels": found.null_labels,
            "stored": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        tables = {"classes": found.classes, **found.blocks}
        self._new[fragment] = entry = Entry.of(told, tables, footer)
        self._waiting += len(entry.data)
        late = time.monotonic() - self._written >= _MOST_SECONDS
        if late or self._waiting >= _MOST_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what was saved.

        Of several processes that do so at once, each takes up the packs that it finds; what two of
        them have taken up is there twice, for a while.
        """
        self._written = time.monotonic()
        if not self._new or self.error is not None:
            return
        try:
            with self._files.lock(_lock_of(self._summary["digest"])):
                entries, taken = self._with_small_packs()
                path = _write_pack(self._files, self._summary, entries)
                for old in taken - {path}:
                    self._files.remove(old)
                    del self._packs[old]
            self._open(path)
        except (StoreError, FileNotFoundError) as error:
            self._refused("Statistics are not kept", error)
        self._new.clear()
        self._waiting = 0

    def _with_small_packs(self) -> tuple[dict[str, Entry], set[str]]:
        """What is to be written with what was saved, and the packs that it is taken from.

        Damaged packs are taken as far as they can be trusted.
        """
        present = {f"{self._folder}/{name}" for name in self._files.names(self._folder)}
        entries, taken = dict(self._new), set[str]()
        size = self._waiting
        sizes = {path: 0 if pack is None else pack.size for path, pack in self._packs.items()}
        for path in sorted(present & sizes.keys(), key=sizes.__getitem__):
            small = sizes[path] <= size and size + sizes[path] <= _MOST_BYTES
            if small or path in self._damaged:
                entries = {**self._trusted(path), **entries}
                taken.add(path)
                size += sizes[path]
        return entries, taken

    def _trusted(self, path: str) -> dict[str, Entry]:
        """The entries of a pack that can be."""
        pack, found = self._packs[path], dict[str, Entry]()
        if pack is None:
            return found
        data = self._read(path)
        for name in pack.names:
            entry = pack.entry(name, data)
            with suppress(StoreError):
                entry.verify(pack.where)
                found[name] = entry
        return found

    def _look(self) -> None:
        """Learn what the packs have that were not met yet."""
        for _ in range(_LOOKS):
            names = self._files.names(self._folder)
            paths = {f"{self._folder}/{name}" for name in names if name.endswith(_SUFFIX)}
            try:
                for path in sorted(paths - self._packs.keys()):
                    self._open(path)
                return
            except FileNotFoundError:
                continue  # another process has taken it up: there is a new one

    def _open(self, path: str) -> None:
        """Learn what a pack has."""
        data, where = self._read(path), self._files.uri(path)
        try:
            pack = Pack(data, where)
            if pack.told != {"summary": self._summary}:
                raise StoreError(f"{where} is of another summary.")
        except StoreError as error:
            self._packs[path] = None
            self._is_damaged(path, error)
            return
        self._packs[path] = pack
        self._place_of.update(dict.fromkeys(pack.names, path))
        self._footers.update({file: (path, name) for file, name in pack.files().items()})

    def _is_damaged(self, path: str, error: StoreError) -> None:
        """Say so once, and write anew what is left of it when something is written."""
        if path not in self._damaged:
            log.warning("Statistics are computed anew: %s", error)
        self._damaged.add(path)

    def _refused(self, consequence: str, error: Exception) -> None:
        """Go on without the store, and say so once."""
        if self.error is None:
            log.warning("%s: %s", consequence, error)
        self.error = StoreError(str(error))


def _lock_of(summary: str) -> str:
    """What is locked by who writes and removes packs of a summary, given its digest."""
    return f"{_FOLDER}/{summary}/packs"


def _write_pack(files: StoreFiles, summary: Mapping[str, Any], entries: Mapping[str, Entry]) -> str:
    """Put a pack in place, and tell its path.

    Raises:
        StoreError: the store refuses.
    """
    digest, data = packed({"summary": summary}, entries)
    path = f"{_FOLDER}/{summary['digest']}/{digest[:_NAME_DIGITS]}{_SUFFIX}"
    # What a power cut leaves of it is found to be damaged: no need to wait for the disk.
    files.write(path, data, durable=False)
    return path


def _summary_of(spec: ModelSpec) -> dict[str, Any]:
    """What is summarized for a spec, told in short, and the digest of all that it depends on."""
    told = {
        "release": probclass_core.__version__,
        "versions": {block.estimator: _versions(block.estimator) for block in spec.blocks},
        "label": spec.label,
        "estimators": [block.estimator for block in spec.blocks],
    }
    blocks = spec.to_dict()["blocks"]
    whole = {**told, "format": _FORMAT, "weight": spec.weight, "blocks": blocks}
    digest = hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()
    return {**told, "digest": digest}


def _stale(summary: Mapping[str, Any]) -> str | None:
    """Why statistics of this summary are of no use, if they are not."""
    if summary["release"] != probclass_core.__version__:
        return f"of release {summary['release']}"
    installed = registry().estimators
    for estimator, versions in summary["versions"].items():
        if estimator in installed and versions != _versions(estimator):
            return f"of another version of {estimator}"
    return None


def _versions(estimator: str) -> list[int]:
    plugin = find_estimator(estimator)
    return [plugin.parameters_version, plugin.statistics_version]


CacheOption = ModelStore | str | os.PathLike[str] | bool | None
"""Where statistics are kept: a model store or its URI; `True` is that of ``PROBCLASS_STORE``."""

_DAMAGED = "damaged"
_EARLIER = "of an earlier layout"


@dataclass(frozen=True)
class CacheEntry:
    """The statistics of one fragment.

    Attributes:
        summary: digest of what ``summarize`` depends on; entries of one model share it.
        fragment: digest of the fragment; the name of the file where that cannot be read.
        bytes: of its statistics; of the file where that cannot be read.
        label: the model's label; none where the entry cannot be read, as for what follows.
        estimators: of its blocks, in order.
        rows: that were summarized.
        stored: when, ISO 8601 in UTC.
        stale: why no fit would use it; none where one would.
    """

    summary: str
    fragment: str
    bytes: int
    label: str | None = None
    estimators: tuple[str, ...] = ()
    rows: int | None = None
    stored: str | None = None
    stale: str | None = None


class StatisticsCache:
    """Statistics by model and fragment.

    Args:
        store: the model store that they are kept in, or its URI.

    Raises:
        StoreError: the URI cannot be opened.
    """

    def __init__(self, store: ModelStore | str | os.PathLike[str]) -> None:
        if not isinstance(store, ModelStore):
            store = ModelStore(store)
        self.uri = store.uri
        self._files = store.files

    @classmethod
    def open(cls, cache: CacheOption) -> StatisticsCache | None:
        """The cache that the argument ``cache`` of a fit names, if any.

        Raises:
            SpecError: it is `True`, and ``PROBCLASS_STORE`` is not set.
            StoreError: the URI cannot be opened.
        """
        if cache is None or cache is False:
            return None
        if cache is True:
            store = os.environ.get("PROBCLASS_STORE")
            if not store:
                raise SpecError(
                    "cache=True keeps statistics in the store that PROBCLASS_STORE names, and it "
                    "is not set; set it, or give a ModelStore or its URI."
                )
            return cls(store)
        return cls(cache)

    def for_spec(self, spec: ModelSpec) -> CachedStatistics | None:
        """The statistics of one model; none where they grow with the rows and are not worth it.

        Raises:
            PluginError: an estimator is unknown.
        """
        if any(find_estimator(block.estimator).traits.state_grows for block in spec.blocks):
            return None
        return CachedStatistics(self._files, spec)

    def entries(self) -> list[CacheEntry]:
        """All entries, in order of their digests."""
        files = (file for summary in self._files.names(_FOLDER) for file in self._in(summary))
        return _each_once(entry for file in files for entry in file.entries)

    def collect(
        self, older_than: timedelta | None = None, *, dry_run: bool = False
    ) -> list[CacheEntry]:
        """Remove entries that no fit would use: damaged ones, and those of other versions.

        Args:
            older_than: remove those that were stored so long ago as well.
            dry_run: remove nothing.

        Returns:
            What was removed, or would be.
        """
        now = datetime.now(UTC)

        def unwanted(entry: CacheEntry) -> bool:
            old = older_than is not None and (
                entry.stored is None or now - datetime.fromisoformat(entry.stored) >= older_than
            )
            return old or entry.stale is not None

        removed: list[CacheEntry] = []
        for summary in self._files.names(_FOLDER):
            with nullcontext() if dry_run else self._files.lock(_lock_of(summary)):
                for file in self._in(summary):
                    gone = [entry for entry in file.entries if unwanted(entry)]
                    removed.extend(gone)
                    if gone and not dry_run:
                        self._without(file, {entry.fragment for entry in gone})
        return _each_once(removed)

    def _without(self, file: _File, fragments: set[str]) -> None:
        """Write a pack anew without some entries, the good ones first; or remove it."""
        left = {
            entry.fragment: file.pack.entry(entry.fragment, file.data)
            for entry in file.entries
            if file.pack is not None and entry.fragment not in fragments
        }
        if file.pack is not None and left:
            _write_pack(self._files, file.pack.told["summary"], left)
        self._files.remove(file.path)

    def _in(self, summary: str) -> Iterator[_File]:
        """The files of one summary."""
        folder = f"{_FOLDER}/{summary}"
        for name in self._files.names(folder):
            inside = [name] if name.endswith(_SUFFIX) else self._earlier(folder, name)
            for path in (f"{folder}/{each}" for each in inside):
                try:
                    data = self._files.read(path)
                except FileNotFoundError:
                    continue  # another process has removed it, or taken it up
                yield _File.of(path, data, summary)

    def _earlier(self, folder: str, name: str) -> list[str]:
        """StoreFiles of the layout before, in folders of the first two digits of their names."""
        return [f"{name}/{each}" for each in self._files.names(f"{folder}/{name}")]


@dataclass(frozen=True)
class _File:
    """A file of the cache.

    Attributes:
        path: in the store.
        data: of the file.
        pack: its index, if it is a pack and whole.
        entries: in it; one that stands for all, where it is not.
    """

    path: str
    data: Buffer
    pack: Pack | None
    entries: Sequence[CacheEntry]

    @classmethod
    def of(cls, path: str, data: Buffer, summary: str) -> _File:
        name = path.rsplit("/", 1)[-1]
        if not name.endswith(_SUFFIX):
            earlier = CacheEntry(summary, name.partition(".")[0], len(data), stale=_EARLIER)
            return cls(path, data, None, [earlier])
        try:
            pack = Pack(data, path)
            entries = [_described(pack, each, data, summary) for each in pack.names]
        except (StoreError, LookupError, TypeError, ValueError):
            damaged = CacheEntry(summary, name.removesuffix(_SUFFIX), len(data), stale=_DAMAGED)
            return cls(path, data, None, [damaged])
        return cls(path, data, pack, entries)


def _described(pack: Pack, fragment: str, data: Buffer, summary: str) -> CacheEntry:
    of, entry = pack.told["summary"], pack.entry(fragment, data)
    reason = _stale(of) if of["digest"] == summary else "not what its name says"
    try:
        entry.verify(pack.where)
    except StoreError:
        reason = _DAMAGED
    return CacheEntry(
        summary=summary,
        fragment=fragment,
        bytes=len(entry.data),
        label=of["label"],
        estimators=tuple(of["estimators"]),
        rows=entry.told["rows"],
        stored=entry.told["stored"],
        stale=reason,
    )


def _each_once(entries: Iterable[CacheEntry]) -> list[CacheEntry]:
    """In order; of what two processes have kept at once, one that is of use, if there is one."""
    found: dict[tuple[str, str], CacheEntry] = {}
    for entry in entries:
        known = found.setdefault((entry.summary, entry.fragment), entry)
        if known.stale is not None:
            found[entry.summary, entry.fragment] = entry
    return [found[key] for key in sorted(found)]
