"""The data files of a directory of Parquet files, by a listing.

On an object store one object, `MAIN`, is a partition that was written here. Other objects of its
folder are rows that were added to it, and count, or what it replaced and is about to be deleted:
its footer names those, so that no reader of ours sees them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.fs import FileInfo, FileType

from probclass_core.errors import TableError, TableMismatchError
from probclass_core.io.errors import translate_read_errors
from probclass_core.io.file_versions import file_state
from probclass_core.io.filesystem import Location, is_file, is_scratch
from probclass_core.io.parquet.partitions import is_value
from probclass_core.io.retry import is_transient, retry

MAIN = "part-0.parquet"
REPLACED_KEY = "probclass.replaced"
"""Key in the footer of `MAIN`: the states of the files that it replaced; see `file_state`."""

DELTA_LOG = "_delta_log"
MANIFESTS = "_commits"
_CONCURRENT_READS = 16


def data_files(location: Location, partition: Mapping[str, Any] | None = None) -> list[FileInfo]:
    """List the data files of a table, by path: those of the folder, or the file itself.

    Args:
        location: location of the table.
        partition: values of partition columns; folders of other partitions are not listed.

    Raises:
        TableError: if it is a table of another format, or cannot be read.
    """
    table = location.info("")
    return [table] if is_file(table) else list_files(location, partition)[0]


def list_files(
    location: Location, partition: Mapping[str, Any] | None = None
) -> tuple[list[FileInfo], list[FileInfo]]:
    """List the data files of a folder, and the files that writers of ours left; see `data_files`.

    Raises:
        TableError: as `data_files`.
    """
    entries = _entries(location, "", partition or {})
    if not location.remote:
        _refuse_loops(entries)
    files = [info for info in entries if is_file(info)]
    paths = [location.relative(info.path) for info in files]
    refuse_logs(location, {path.partition("/")[0] for path in paths})
    visible = [info for info, path in zip(files, paths, strict=True) if _is_visible(path)]
    data = without_replaced(location, visible)
    kept = {info.path for info in data}
    left = [info for info in visible if info.path not in kept]
    return data, [*left, *filter(is_scratch, files)]


def _entries(location: Location, folder: str, partition: Mapping[str, Any]) -> list[FileInfo]:
    """List what is in a folder and below it, but not in folders of other partitions."""
    entries = location.entries(folder, recursive=not partition)
    folders = [info for info in entries if info.type == FileType.Directory] if partition else []
    segments = [str(info.base_name).partition("=") for info in folders]
    if not {unquote(name) for name, _, _ in segments} <= partition.keys():
        return location.entries(folder, recursive=True)
    for info, (name, _, text) in zip(folders, segments, strict=True):
        rest = dict(partition)
        if is_value(text, rest.pop(unquote(name))):
            entries += _entries(location, location.relative(info.path), rest)
    return sorted(entries, key=lambda info: str(info.path))


def without_replaced(location: Location, files: Sequence[FileInfo]) -> list[FileInfo]:
    """Leave out the files that the main object of their folder replaced.

    Args:
        location: location of the table.
        files: files of it, by path.
    """
    if not location.remote:
        return list(files)
    sizes = Counter(map(_folder, files))
    mains = [info for info in files if info.base_name == MAIN and sizes[_folder(info)] > 1]
    if not mains:
        return list(files)
    with ThreadPoolExecutor(_CONCURRENT_READS, thread_name_prefix="probclass-footer") as pool:
        lists = list(pool.map(lambda info: _replaced_by(location, info), mains))
    replaced = {state for states in lists for state in states}
    return [info for info in files if file_state(location, info) not in replaced]


def _folder(info: FileInfo) -> str:
    return str(info.path).rpartition("/")[0]


def _replaced_by(location: Location, info: FileInfo) -> Iterable[str]:
    with translate_read_errors(location.uri):
        try:
            footer = retry(lambda: pq.read_metadata(info.path, filesystem=location.filesystem))
            return list(json.loads((footer.metadata or {}).get(REPLACED_KEY.encode(), b"[]")))
        except (OSError, pa.ArrowException, ValueError) as error:
            if isinstance(error, OSError) and is_transient(error):
                raise  # once it can be read again, replaced rows would count
            return ()  # whoever reads the file will report it


def refuse_logs(location: Location, folders: Collection[str]) -> None:
    """Refuse a table whose rows do not follow from a listing.

    Args:
        location: location of the table.
        folders: names of folders in it.

    Raises:
        TableMismatchError: if one of them is a log of Delta, or has manifests as those that early
            versions of probclass wrote on object stores.
    """
    if DELTA_LOG in folders:
        raise TableMismatchError(
            f"{location.uri} is a Delta table; name its format: "
            f"TableRef({location.uri!r}, format='delta')."
        )
    if MANIFESTS in folders:
        raise TableMismatchError(
            f"{location.uri} has manifests in {MANIFESTS!r}, as an earlier probclass wrote them, "
            "and cannot be read any more; remove the directory and score it again, or score to "
            "another one."
        )


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


def _is_visible(path: str) -> bool:
    return not any(part.startswith(("_", ".")) for part in path.split("/"))
