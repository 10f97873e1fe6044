"""Manifests: the files of a partition on an object store, where folders cannot be renamed.

A small file ``_commits/<partition>.json`` names the files of a partition. One request puts it in
place: the commit. Files that it does not name are not part of the table. A partition without a
manifest consists of the files of other writers; a file of ours waits for its manifest.

Added rows have manifests of their own, ``_commits/<partition>+/<commit>.json``, so that two writers
that add at the same time do not undo each other's work. Such a manifest is void if the manifest of
the partition says that its file was replaced.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyarrow.fs import FileInfo, FileType

from probclass_core.errors import TableError, TableMismatchError
from probclass_core.io.filesystem import Location, is_file, is_scratch

COMMITS = "_commits"
DATA_FILE = re.compile(r"part-[0-9a-f]{1,12}-[0-9a-f]{32}\.parquet")
"""Names of the data files that manifests name."""

_WHOLE_TABLE = "table"  # the names of partitions contain '='
_FORMAT_VERSION = 1
_CONCURRENT_READS = 16
_ATTEMPTS = 5
"""Attempts at reading what other writers may change at the same time."""


@dataclass(frozen=True)
class Manifest:
    """What one commit wrote to a partition.

    Attributes:
        folder: folder of the partition, relative to the table; empty for a whole table.
        files: names of its files in that folder.
        rows: number of rows of the files.
        commit: commit record.
        replaced: names of the files that the commit replaced, which may be removed.
        appended: id of the commit if it adds rows to those of other manifests, else None.
    """

    folder: str
    files: Sequence[str]
    rows: int
    commit: Mapping[str, Any]
    replaced: Sequence[str] = field(default=())
    appended: str | None = None

    def paths(self) -> set[str]:
        """Return the paths of its files, relative to the table."""
        return {f"{self.folder}/{name}".lstrip("/") for name in self.files}

    def paths_replaced(self) -> set[str]:
        """Return the paths of the replaced files, relative to the table."""
        return {f"{self.folder}/{name}".lstrip("/") for name in self.replaced}

    def to_bytes(self) -> bytes:
        """Serialize as JSON."""
        values = {
            "format_version": _FORMAT_VERSION,
            "files": list(self.files),
            "rows": self.rows,
            "commit": dict(self.commit),
            "replaced": list(self.replaced),
        }
        return json.dumps(values, sort_keys=True, indent=1).encode()


def valid_manifests(manifests: Sequence[Manifest]) -> list[Manifest]:
    """Leave out manifests of added rows that were replaced since."""
    replaced = {(manifest.folder, name) for manifest in manifests for name in manifest.replaced}
    return [
        manifest
        for manifest in manifests
        if manifest.appended is None
        or not any((manifest.folder, name) in replaced for name in manifest.files)
    ]


def manifest_path(folder: str, appended: str | None = None) -> str:
    """Return the path of the manifest of a partition, or of the rows that a commit added to it."""
    name = folder or _WHOLE_TABLE
    return f"{COMMITS}/{name if appended is None else f'{name}+/{appended}'}.json"


def read_manifests(location: Location, folder: str) -> list[Manifest]:
    """Read all manifests of a partition, void ones included: that of the partition itself first.

    Raises:
        TableError: if one cannot be read.
    """
    appended_folder = manifest_path(folder, "").removesuffix("/.json")
    for _ in range(_ATTEMPTS):
        listed = [
            read_manifest(location, folder, info.base_name.removesuffix(".json"))
            for info in location.entries(appended_folder)
            if info.base_name.endswith(".json")
        ]
        manifests = [manifest for manifest in listed if manifest is not None]
        if len(manifests) == len(listed):  # else a commit has replaced one since the listing
            break
    own = read_manifest(location, folder)
    return manifests if own is None else [own, *manifests]


def read_manifest(location: Location, folder: str, appended: str | None = None) -> Manifest | None:
    """Read the manifest of a partition, or of rows added to it; None if it does not exist.

    Raises:
        TableError: if it cannot be read.
    """
    path = manifest_path(folder, appended)
    problem: Exception | None = None
    for _ in range(_ATTEMPTS):
        try:
            values = json.loads(bytes(location.read(path)))
            if values["format_version"] != _FORMAT_VERSION:
                raise TableMismatchError(
                    f"{location.uri_of(path)} was written by a newer probclass; upgrade probclass."
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
            # pyarrow requests the size first; a longer manifest may have replaced it since.
            problem = error
    raise TableError(
        f"{location.uri_of(path)} is not a manifest of a partition: {problem!r}; score the "
        "partition to another table, or remove this file and the data files that do not count."
    ) from problem


def data_files(location: Location) -> list[FileInfo]:
    """List the data files of a table, by path, as its manifests name them.

    Raises:
        TableError: if a file that a manifest names is missing.
    """
    table = location.info("")
    if is_file(table):
        return [table]
    for _ in range(_ATTEMPTS):
        listing = _list_files(location)
        if not listing.missing:
            return listing.data
        # A commit between the listing and the manifests made the missing files.
    raise TableError(
        f"{location.uri} lacks {listing.missing[0]!r}, which its manifest names; score that "
        "partition again."
    )


def unnamed_files(location: Location) -> list[FileInfo]:
    """List files that writers of ours made and no manifest names now."""
    return _list_files(location).unnamed


@dataclass(frozen=True)
class _Listing:
    """Files of a table at one moment.

    Attributes:
        data: data files.
        missing: paths that manifests name and the listing lacks.
        unnamed: files of our writers that no manifest names.
    """

    data: list[FileInfo]
    missing: list[str]
    unnamed: list[FileInfo]


def _list_files(location: Location) -> _Listing:
    entries = location.entries("", recursive=True)
    if not location.remote:
        _refuse_loops(entries)
    listed = {location.relative(info.path): info for info in entries if is_file(info)}
    if any(path.startswith("_delta_log/") for path in listed):
        raise TableMismatchError(
            f"{location.uri} is a Delta table; name its format: "
            f"TableRef({location.uri!r}, format='delta')."
        )
    names = [name for path in listed if (name := _parse_manifest_path(path)) is not None]
    with ThreadPoolExecutor(_CONCURRENT_READS, thread_name_prefix="probclass-manifest") as pool:
        read = list(pool.map(lambda name: read_manifest(location, *name), names))
    manifests = [manifest for manifest in read if manifest is not None]
    removed = [
        manifest_path(*name) for name, manifest in zip(names, read, strict=True) if manifest is None
    ]
    folders = {manifest.folder for manifest in manifests if manifest.appended is None}
    named = {path for manifest in valid_manifests(manifests) for path in manifest.paths()}
    replaced = {path for manifest in manifests for path in manifest.paths_replaced()}
    data, unnamed = [], []
    for path, info in listed.items():
        # A copy on a local disk may lack its manifests.
        ours = location.remote and DATA_FILE.fullmatch(info.base_name) is not None
        if path in named or (_is_visible(path) and not ours and not _is_below(path, folders)):
            data.append(info)
        elif ours or path in replaced or is_scratch(info):
            unnamed.append(info)
    return _Listing(data, [*sorted(named - {*listed}), *removed], unnamed)


def _refuse_loops(entries: Sequence[FileInfo]) -> None:
    """Refuse a link to a folder that contains it: its files would be listed again and again.

    Raises:
        TableError: if there is one.
    """
    for info in entries:
        link = Path(info.path)
        if info.type == FileType.Directory and link.is_symlink():
            target = link.resolve()
            if any(folder.resolve() == target for folder in link.parents):
                raise TableError(f"{link} is a link to {target}, which contains it; remove it.")


def _parse_manifest_path(path: str) -> tuple[str, str | None] | None:
    """Return the folder that a manifest belongs to, and the commit that added to it, if one did.

    Args:
        path: path relative to the table; for other files the result is None.
    """
    if not path.startswith(f"{COMMITS}/") or not path.endswith(".json"):
        return None
    name = path.removeprefix(f"{COMMITS}/").removesuffix(".json")
    folder, added, commit = name.partition("+/")  # the folder of a partition never ends with '+'
    return "" if folder == _WHOLE_TABLE else folder, commit if added else None


def _is_visible(path: str) -> bool:
    return not any(part.startswith(("_", ".")) for part in path.split("/"))


def _is_below(path: str, folders: set[str]) -> bool:
    """Whether a file is in one of the folders, at any depth."""
    parts = path.split("/")[:-1]
    return any("/".join(parts[:depth]) in folders for depth in range(len(parts) + 1))
