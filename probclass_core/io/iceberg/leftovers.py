"""What killed writers left of an Iceberg table: files of our naming that no snapshot names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

from pyarrow.fs import FileSelector, FileType
from pyiceberg.table import Table
from pyiceberg.table.locations import load_location_provider

from probclass_core.io.filesystem import remove_file
from probclass_core.io.iceberg.files import located
from probclass_core.io.iceberg.table import opened, said_by_iceberg
from probclass_core.io.references import Leftover, TableRef

_OURS = re.compile(r"(?:.*/)?part-[0-9a-f]{32}\.parquet")


def iceberg_leftovers(ref: TableRef) -> list[Leftover]:
    """Data files that writers of ours made and never committed, those still at work included.

    Raises:
        TableError: there is no such table, or it cannot be read.
    """
    with said_by_iceberg(ref):
        table = opened(ref)
        provider = load_location_provider(table.location(), table.properties)
        filesystem, folder = located(table.io, provider.data_path)
        # Files first and the log after them, or a commit in between would look like a leftover.
        files = [
            info
            for info in filesystem.get_file_info(
                FileSelector(folder, recursive=True, allow_not_found=True)
            )
            if info.type is FileType.File and _OURS.fullmatch(info.path)
        ]
        named = {located(table.io, location)[1] for location in _named(table.refresh())}
    return [
        Leftover(
            path=info.path,
            bytes=info.size,
            touched=info.mtime,
            remove=partial(remove_file, filesystem, info.path, f"{info.path} of {ref.uri}"),
        )
        for info in sorted(files, key=lambda info: str(info.path))
        if info.path not in named
    ]


def _named(table: Table) -> Iterator[str]:
    """Data files of all snapshots, on whatever branch, and those that they took out."""
    manifests = {
        manifest.manifest_path: manifest
        for snapshot in table.snapshots()
        for manifest in snapshot.manifests(table.io)
    }
    for manifest in manifests.values():
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False):
            yield entry.data_file.file_path
