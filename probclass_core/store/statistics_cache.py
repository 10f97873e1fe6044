"""Statistics of fragments, kept in a model store: what was summarized once is not read again.

How they lie there is told in `kept_statistics`. An entry that is damaged, or is not what its name
says, is told of and computed anew; it is never trusted.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from probclass_core.arrow.bundle import Buffer
from probclass_core.errors import SpecError, StoreError
from probclass_core.plugins.manager import find_estimator
from probclass_core.spec import ModelSpec
from probclass_core.store.kept_statistics import (
    FOLDER,
    SUFFIX,
    KeptStatistics,
    lock_of,
    stale,
    write_pack,
)
from probclass_core.store.model_store import ModelStore
from probclass_core.store.packs import Pack

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
    def chosen(cls, cache: CacheOption) -> StatisticsCache | None:
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

    def of(self, spec: ModelSpec) -> KeptStatistics | None:
        """The statistics of one model; none where they grow with the rows and are not worth it.

        Raises:
            PluginError: an estimator is unknown.
        """
        if any(find_estimator(block.estimator).traits.state_grows for block in spec.blocks):
            return None
        return KeptStatistics(self._files, spec)

    def entries(self) -> list[CacheEntry]:
        """All entries, in order of their digests."""
        files = (file for summary in self._files.names(FOLDER) for file in self._in(summary))
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
        for summary in self._files.names(FOLDER):
            with nullcontext() if dry_run else self._files.alone(lock_of(summary)):
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
            write_pack(self._files, file.pack.told["summary"], left)
        self._files.remove(file.path)

    def _in(self, summary: str) -> Iterator[_File]:
        """The files of one summary."""
        folder = f"{FOLDER}/{summary}"
        for name in self._files.names(folder):
            inside = [name] if name.endswith(SUFFIX) else self._earlier(folder, name)
            for path in (f"{folder}/{each}" for each in inside):
                try:
                    data = self._files.read(path)
                except FileNotFoundError:
                    continue  # another process has removed it, or taken it up
                yield _File.of(path, data, summary)

    def _earlier(self, folder: str, name: str) -> list[str]:
        """Files of the layout before, in folders of the first two digits of their names."""
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
        if not name.endswith(SUFFIX):
            earlier = CacheEntry(summary, name.partition(".")[0], len(data), stale=_EARLIER)
            return cls(path, data, None, [earlier])
        try:
            pack = Pack(data, path)
            entries = [_described(pack, each, data, summary) for each in pack.names]
        except (StoreError, LookupError, TypeError, ValueError):
            damaged = CacheEntry(summary, name.removesuffix(SUFFIX), len(data), stale=_DAMAGED)
            return cls(path, data, None, [damaged])
        return cls(path, data, pack, entries)


def _described(pack: Pack, fragment: str, data: Buffer, summary: str) -> CacheEntry:
    of, entry = pack.told["summary"], pack.entry(fragment, data)
    reason = stale(of) if of["digest"] == summary else "not what its name says"
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
