"""Statistics of fragments, kept in a model store: what was summarised once is not read again.

    <store>/_statistics/<digest of the summary>/<2 digits>/<digest of the fragment>.packed

The digest of the summary covers what ``summarize`` depends on, and no more: label, weight, blocks,
the versions of their estimators, and the release of probclass. A prior is no part of it. An entry
that is damaged, or is not what its name says, is told of and computed anew; it is never trusted.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

import probclass_core
from probclass_core.bundle import Buffer
from probclass_core.errors import SpecError, StoreError
from probclass_core.plugins import find_estimator, registry
from probclass_core.spec import ModelSpec
from probclass_core.statistics import Statistics, type_names
from probclass_core.store.files import Files
from probclass_core.store.model_store import ModelStore
from probclass_core.store.packed import pack, unpack

log = logging.getLogger(__name__)

CacheOption = ModelStore | str | os.PathLike[str] | bool | None
"""Where statistics are kept: a model store or its URI; `True` is that of ``PROBCLASS_STORE``."""

_FOLDER = "_statistics"  # a model's name begins with a letter or digit
_SUFFIX = ".packed"
_FORMAT = 1
"""Of the entries; to be raised when they change their shape."""


@dataclass(frozen=True)
class CacheEntry:
    """The statistics of one fragment.

    Attributes:
        summary: digest of what ``summarize`` depends on; entries of one model share it.
        fragment: digest of the fragment.
        bytes: size of the file.
        label: the model's label; none where the entry cannot be read, as for what follows.
        estimators: of its blocks, in order.
        rows: that were summarised.
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

    def of(self, spec: ModelSpec, features: pa.Schema) -> KeptStatistics | None:
        """The statistics of one model; none where they grow with the rows and are not worth it.

        Args:
            spec: the model.
            features: its columns as this table has them, with their canonical types.

        Raises:
            PluginError: an estimator is unknown.
        """
        if any(find_estimator(block.estimator).traits.state_grows for block in spec.blocks):
            return None
        return KeptStatistics(self._files, spec, features)

    def entries(self) -> list[CacheEntry]:
        """All entries, in order of their digests."""
        return [entry for _, entry in self._found()]

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
        removed = []
        for path, entry in self._found():
            old = older_than is not None and (
                entry.stored is None or now - datetime.fromisoformat(entry.stored) >= older_than
            )
            if entry.stale or old:
                removed.append(entry)
                if not dry_run:
                    self._files.remove(path)
        return removed

    def _found(self) -> Iterator[tuple[str, CacheEntry]]:
        for summary in self._files.names(_FOLDER):
            for digits in self._files.names(f"{_FOLDER}/{summary}"):
                folder = f"{_FOLDER}/{summary}/{digits}"
                for name in self._files.names(folder):
                    path = f"{folder}/{name}"
                    try:
                        yield path, self._entry(path, summary, name.removesuffix(_SUFFIX))
                    except FileNotFoundError:
                        continue  # another process has removed it

    def _entry(self, path: str, summary: str, fragment: str) -> CacheEntry:
        data = self._files.read(path)
        try:
            told, _ = unpack(data, where=self._files.place(path))
            of = told["summary"]
            named_so = (of["digest"], told["fragment"]) == (summary, fragment)
            return CacheEntry(
                summary=summary,
                fragment=fragment,
                bytes=len(data),
                label=of["label"],
                estimators=tuple(of["estimators"]),
                rows=told["rows"],
                stored=told["stored"],
                stale=_stale(of) if named_so else "not what its name says",
            )
        except (StoreError, LookupError, TypeError, ValueError):
            return CacheEntry(summary, fragment, len(data), stale="damaged")


class KeptStatistics:
    """The statistics of one model's fragments, loaded and saved from many threads.

    Attributes:
        reused: how many were loaded.
    """

    def __init__(self, files: Files, spec: ModelSpec, features: pa.Schema) -> None:
        self.reused = 0
        self._files = files
        self._spec = spec
        self._features = features
        self._summary = _summary(spec)
        self._types = _digest(type_names(features))
        self._folder = f"{_FOLDER}/{self._summary['digest']}"
        self._usable = True
        self._lock = threading.Lock()

    def load(self, fragment: str | None) -> Statistics | None:
        """What is kept of a fragment; none where that is nothing, or nothing that can be trusted.

        Args:
            fragment: its digest.
        """
        if fragment is None:
            return None
        if not self._usable:
            return None
        path = self._path(fragment)
        try:
            data = self._files.read(path)
        except FileNotFoundError:
            return None
        except StoreError as error:
            self._refused(error)
            return None
        try:
            statistics = self._checked(data, self._files.place(path), fragment)
        except StoreError as error:
            log.warning("Statistics are computed anew: %s", error)
            return None
        with self._lock:
            self.reused += 1
        return statistics

    def holds(self, fragment: str | None) -> bool:
        """Whether there is an entry of a fragment, be it one that `load` would not trust.

        Raises:
            StoreError: the store cannot be looked into.
        """
        return fragment is not None and self._files.exists(self._path(fragment))

    def save(self, fragment: str | None, statistics: Statistics) -> None:
        """Keep the statistics of a fragment; of several at once that do so, the last one stands.

        A store that refuses is told of, and no reason to stop.
        """
        if fragment is None or not self._usable:
            return
        told = {
            "summary": self._summary,
            "fragment": fragment,
            "features": self._types,
            "rows": statistics.rows,
            "null_labels": statistics.null_labels,
            "stored": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        packed = pack(told, {"classes": statistics.classes, **statistics.blocks})
        try:
            # What a power cut leaves of it is found to be damaged: no need to wait for the disk.
            self._files.write(self._path(fragment), packed, lasting=False)
        except (StoreError, FileNotFoundError) as error:
            self._refused(error)

    def _refused(self, error: Exception) -> None:
        """Go on without the store, and say so once."""
        with self._lock:
            told, self._usable = not self._usable, False
        if not told:
            log.warning("Statistics are neither kept nor reused: %s", error)

    def _path(self, fragment: str) -> str:
        return f"{self._folder}/{fragment[:2]}/{fragment}{_SUFFIX}"

    def _checked(self, data: Buffer, where: str, fragment: str) -> Statistics:
        told, tables = unpack(data, where=where)
        expected = {"summary": self._summary, "fragment": fragment, "features": self._types}
        for name, value in expected.items():
            if told.get(name) != value:
                raise StoreError(f"{where} is of another {name}.")
        return Statistics(
            spec=self._spec,
            features=self._features,
            classes=tables.pop("classes"),
            blocks=tables,
            rows=told["rows"],
            null_labels=told["null_labels"],
        )


def _summary(spec: ModelSpec) -> dict[str, Any]:
    """What is summarised for a spec, told in short, and the digest of all that it depends on."""
    told = {
        "release": probclass_core.__version__,
        "versions": {block.estimator: _versions(block.estimator) for block in spec.blocks},
        "label": spec.label,
        "estimators": [block.estimator for block in spec.blocks],
    }
    blocks = spec.to_dict()["blocks"]
    whole = {**told, "format": _FORMAT, "weight": spec.weight, "blocks": blocks}
    return {**told, "digest": _digest(whole)}


def _versions(estimator: str) -> list[int]:
    plugin = find_estimator(estimator)
    return [plugin.parameters_version, plugin.statistics_version]


def _stale(summary: Mapping[str, Any]) -> str | None:
    """Why statistics of this summary are of no use, if they are not."""
    if summary["release"] != probclass_core.__version__:
        return f"of release {summary['release']}"
    installed = registry().estimators
    for estimator, versions in summary["versions"].items():
        if estimator in installed and versions != _versions(estimator):
            return f"of another version of {estimator}"
    return None


def _digest(values: Any) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
