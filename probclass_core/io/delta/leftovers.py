"""Files that killed writers left in a Delta table: they have our names, and no version had them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable
from pyarrow.fs import FileSystem, LocalFileSystem, SubTreeFileSystem

from probclass_core.io.commit.leftovers import DATA_FILE, file_leftovers
from probclass_core.io.delta.table import (
    check_writable,
    delta_filesystem,
    open_delta,
    translate_delta_errors,
)
from probclass_core.io.filesystem import Location, is_file
from probclass_core.io.references import Leftover, TableRef

_LOG = "_delta_log"

# On a local disk delta-rs appends '#' and a number to the name until the file is complete.
_OURS = re.compile(rf"{DATA_FILE}(?:#\d+)?|{_LOG}/[^/]+#\d+")


def delta_leftovers(ref: TableRef) -> list[Leftover]:
    """List files that writers of ours created and did not commit, running writers included.

    This includes unfinished entries of the log, which delta-rs writes under names that no reader
    looks at. Files of any version that can still be read stay, and so do files that the log lists
    as removed: ``VACUUM`` deletes those.

    Raises:
        TableError: if the table does not exist or cannot be read.
    """
    with translate_delta_errors(ref):
        table = open_delta(ref)
        check_writable(ref, table)
        location = Location(_filesystem(ref), "", ref.uri.rstrip("/"), remote="://" in ref.uri)
        # Files first and the log after them, or a commit in between would look like a leftover.
        files = location.entries("", recursive=True)
        table.update_incremental()
        named = {*_current_files(table), *_files_in_log(location)}
    return file_leftovers(
        location,
        [i for i in files if is_file(i) and _OURS.fullmatch(i.path) and i.path not in named],
    )


def _current_files(table: DeltaTable) -> Iterator[str]:
    """Yield the files of the newest version, which may be older than any entry still in the log."""
    for path in pa.table(table.get_add_actions())["path"].to_pylist():
        yield unquote(path)


def _files_in_log(location: Location) -> Iterator[str]:
    """Yield the files that the entries of the log add or remove: those of all earlier versions."""
    for info in location.entries(_LOG):
        if is_file(info) and info.path.endswith(".json"):
            for line in filter(None, bytes(location.read(info.path)).splitlines()):
                action = json.loads(line)
                for kind in ("add", "remove"):
                    if kind in action:
                        yield unquote(action[kind]["path"])


def _filesystem(ref: TableRef) -> FileSystem:
    """Return the table's storage; a local disk as it is, for delta-rs hides unfinished files."""
    if "://" in ref.uri:
        return delta_filesystem(ref)
    return SubTreeFileSystem(str(Path(ref.uri).resolve()), LocalFileSystem())
