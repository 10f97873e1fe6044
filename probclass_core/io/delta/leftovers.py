"""What killed writers left of a Delta table: files of our naming that its log never named."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import (
    FileSelector,
    FileSystem,
    FileType,
    LocalFileSystem,
    PyFileSystem,
    SubTreeFileSystem,
)

from probclass_core.io.delta.table import opened, said_by_delta
from probclass_core.io.filesystem import remove_file
from probclass_core.io.references import Leftover, TableRef

_LOG = "_delta_log"

# On a local disk delta-rs writes to a name that ends in '#' and a number until the file is whole.
_OURS = re.compile(rf"(?:.*/)?part-[0-9a-f]{{32}}\.parquet(?:#\d+)?|{_LOG}/[^/]+#\d+")


def delta_leftovers(ref: TableRef) -> list[Leftover]:
    """Files that writers of ours made and never committed, those still at work included.

    Among them what delta-rs itself was writing into the log, under a name that no reader looks at.
    What any version that can still be read names is kept, and so is what the log says was removed:
    that is for ``VACUUM``.

    Raises:
        TableError: there is no such table, or it cannot be read.
    """
    with said_by_delta(ref):
        table = opened(ref)
        filesystem = _filesystem(ref)
        # Files first and the log after them, or a commit in between would look like a leftover.
        files = [
            info
            for info in filesystem.get_file_info(FileSelector("", recursive=True))
            if info.type is FileType.File and _OURS.fullmatch(info.path)
        ]
        table.update_incremental()
        named = {*_standing(table), *_named_by_entries(filesystem)}
    return [
        Leftover(
            path=f"{ref.uri.rstrip('/')}/{info.path}",
            bytes=info.size,
            touched=info.mtime,
            remove=partial(remove_file, filesystem, info.path, f"{info.path} of {ref.uri}"),
        )
        for info in sorted(files, key=lambda info: info.path)
        if info.path not in named
    ]


def _standing(table: DeltaTable) -> Iterator[str]:
    """Files of the newest version, which may be older than any entry that is kept."""
    for path in pa.table(table.get_add_actions())["path"].to_pylist():
        yield unquote(path)


def _named_by_entries(filesystem: FileSystem) -> Iterator[str]:
    """Files that the kept entries of the log add or remove: all that earlier versions had."""
    for info in filesystem.get_file_info(FileSelector(_LOG)):
        if info.type is FileType.File and info.path.endswith(".json"):
            with filesystem.open_input_stream(info.path) as stream:
                lines = stream.read().splitlines()
            for line in filter(None, lines):
                action = json.loads(line)
                for kind in ("add", "remove"):
                    if kind in action:
                        yield unquote(action[kind]["path"])


def _filesystem(ref: TableRef) -> FileSystem:
    """The table's storage; a local disk is listed as it is, for delta-rs hides unfinished files."""
    if "://" in ref.uri:
        return PyFileSystem(DeltaStorageHandler(ref.uri, dict(ref.options) or None))
    return SubTreeFileSystem(str(Path(ref.uri).resolve()), LocalFileSystem())
