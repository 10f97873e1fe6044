"""Which files a partition consists of, where no rename can say so.

One small file ``_commits/<partition>.json`` names the files of a partition, and is put in place by
a single request: the commit. Files that it does not name are no part of the table. A partition
without a manifest consists of what others put there: a file of ours waits for its manifest.

Rows that are added have manifests of their own, ``_commits/<partition>+/<commit>.json``, so that
two who add at once do not undo each other's work. One whose file the partition's own manifest
says was replaced is void.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from pyarrow.fs import FileInfo

from probclass_core.errors import TableError
from probclass_core.io.filesystem import Location, is_file, is_scratch

COMMITS = "_commits"
OURS = re.compile(r"part-[0-9a-f]{1,12}-[0-9a-f]{32}\.parquet")
"""Names of the data files that are committed by a manifest."""

_WHOLE_TABLE = "table"  # partitions have a '=' in their names
_FORMAT_VERSION = 1
_AT_ONCE = 16
"""Manifests that are read at the same time."""

_LOOKS = 5
"""At what another writer changes meanwhile."""


@dataclass(frozen=True)
class Manifest:
    """What one commit made of a partition.

    Attributes:
        folder: of the partition, relative to the table; empty for a whole table.
        files: names of its files in that folder.
        rows: that they hold.
        commit: the record of plain values.
        replaced: names of the files that stood there before, which may be removed.
        appended: id of the commit, where its rows are added to those of other manifests.
    """

    folder: str
    files: Sequence[str]
    rows: int
    commit: Mapping[str, Any]
    replaced: Sequence[str] = field(default=())
    appended: str | None = None

    def paths(self) -> set[str]:
        """Of its files, relative to the table."""
        return {f"{self.folder}/{name}".lstrip("/") for name in self.files}

    def paths_replaced(self) -> set[str]:
        """Of the files that stood there before, relative to the table."""
        return {f"{self.folder}/{name}".lstrip("/") for name in self.replaced}

    def to_bytes(self) -> bytes:
        """As JSON."""
        values = {
            "format_version": _FORMAT_VERSION,
            "files": list(self.files),
            "rows": self.rows,
            "commit": dict(self.commit),
            "replaced": list(self.replaced),
        }
        return json.dumps(values, sort_keys=True, indent=1).encode()


def valid(manifests: Sequence[Manifest]) -> list[Manifest]:
    """Those that speak for rows which were not replaced since they were added."""
    replaced = {(one.folder, name) for one in manifests for name in one.replaced}
    return [
        one
        for one in manifests
        if one.appended is None or not any((one.folder, name) in replaced for name in one.files)
    ]


def manifest_path(storage: Location, folder: str, appended: str | None = None) -> str:
    """Where the manifest of a partition lies, or of rows that were added to it by a commit."""
    name = folder or _WHOLE_TABLE
    return f"{storage.path}/{COMMITS}/{name if appended is None else f'{name}+/{appended}'}.json"


def read_manifests(storage: Location, folder: str) -> list[Manifest]:
    """All manifests of a partition, void ones included: its own first, if there is one.

    Raises:
        TableError: one cannot be read.
    """
    place = manifest_path(storage, folder, "").removesuffix("/.json")
    for _ in range(_LOOKS):
        added = [
            read_manifest(storage, folder, info.base_name.removesuffix(".json"))
            for info in storage.entries(place)
            if info.base_name.endswith(".json")
        ]
        found = [one for one in added if one is not None]
        if len(found) == len(added):  # else one was replaced meanwhile
            break
    base = read_manifest(storage, folder)
    return found if base is None else [base, *found]


def read_manifest(storage: Location, folder: str, appended: str | None = None) -> Manifest | None:
    """The manifest of a partition, or of rows added to it; none where there is none.

    Raises:
        TableError: it cannot be read.
    """
    path = manifest_path(storage, folder, appended)
    problem: Exception | None = None
    for _ in range(_LOOKS):
        try:
            values = json.loads(bytes(storage.read(path)))
            if values["format_version"] != _FORMAT_VERSION:
                raise TableError(
                    f"{storage.uri_of(path)} was written by a newer probclass; upgrade it."
                )
            return Manifest(
                folder,
                values["files"],
                values["rows"],
                values["commit"],
                values["replaced"],
                appended,
            )
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as error:
            # pyarrow asks for the size first, and a longer one may have been put since.
            problem = error
    raise TableError(
        f"{storage.uri_of(path)} is no manifest of a partition: {problem!r}; score the partition "
        "into another place, or remove this file and what should not count."
    ) from problem


def data_files(storage: Location) -> list[FileInfo]:
    """The files of a table, in the order of their paths, as its manifests have them.

    Raises:
        TableError: there is nothing, or a file that a manifest names is missing.
    """
    place = storage.info(storage.path)
    if is_file(place):
        return [place]
    for _ in range(_LOOKS):
        seen = _look(storage)
        if not seen.missing:
            return seen.data
        # A commit came between the listing and the manifest: what is missing has just been made.
    raise TableError(
        f"{storage.uri} lacks {seen.missing[0]!r}, which its manifest names; score that partition "
        "again."
    )


def unnamed_files(storage: Location) -> list[FileInfo]:
    """Files that were to be committed by a manifest, or were by an earlier one, and none names."""
    return _look(storage).unnamed


@dataclass(frozen=True)
class _Look:
    """Data files by one listing, what goes beyond it by now, and what no manifest names."""

    data: list[FileInfo]
    missing: list[str]
    unnamed: list[FileInfo]


def _look(storage: Location) -> _Look:
    start = len(storage.path) + 1
    listed = {
        str(info.path)[start:]: info
        for info in storage.entries(storage.path, recursive=True)
        if is_file(info)
    }
    if any(path.startswith("_delta_log/") for path in listed):
        raise TableError(
            f"{storage.uri} holds a Delta table; name it so, as in "
            f"TableRef({storage.uri!r}, format='delta')."
        )
    names = [found for path in listed if (found := _named_by(path)) is not None]
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="probclass-manifest") as pool:
        read = list(pool.map(lambda name: read_manifest(storage, *name), names))
    manifests = [manifest for manifest in read if manifest is not None]
    gone = [
        manifest_path(storage, *name)
        for name, manifest in zip(names, read, strict=True)
        if manifest is None
    ]
    governed = {manifest.folder for manifest in manifests if manifest.appended is None}
    named = {path for manifest in valid(manifests) for path in manifest.paths()}
    replaced = {path for manifest in manifests for path in manifest.paths_replaced()}
    data, unnamed = [], []
    for path, info in listed.items():
        # A copy on a disk may have come without its manifests.
        ours = storage.remote and OURS.fullmatch(info.base_name) is not None
        if path in named or (_is_data(path) and not ours and not _governed(path, governed)):
            data.append(info)
        elif ours or path in replaced or is_scratch(info):
            unnamed.append(info)
    return _Look(data, [*sorted(named - {*listed}), *gone], unnamed)


def _named_by(path: str) -> tuple[str, str | None] | None:
    """The folder that a manifest speaks of, and the commit that added to it; none for other files.

    Args:
        path: relative to the table.
    """
    if not path.startswith(f"{COMMITS}/") or not path.endswith(".json"):
        return None
    name = path.removeprefix(f"{COMMITS}/").removesuffix(".json")
    folder, added, commit = name.partition("+/")  # no directory of a partition ends with '+'
    return "" if folder == _WHOLE_TABLE else folder, commit if added else None


def _is_data(path: str) -> bool:
    return not any(part.startswith(("_", ".")) for part in path.split("/"))


def _governed(path: str, folders: set[str]) -> bool:
    """Whether a manifest speaks for the folder of a file, or for one above it."""
    parts = path.split("/")[:-1]
    return any("/".join(parts[:depth]) in folders for depth in range(len(parts) + 1))
