"""Data files that killed writers left in an Iceberg table: no snapshot names them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pyiceberg.table import Table
from pyiceberg.table.locations import load_location_provider

from probclass_core.io.commit.leftovers import DATA_FILE, file_leftovers
from probclass_core.io.filesystem import Location, is_file
from probclass_core.io.iceberg.files import locate
from probclass_core.io.iceberg.table import open_iceberg, translate_iceberg_errors
from probclass_core.io.references import Leftover, TableRef

_OURS = re.compile(DATA_FILE)


def iceberg_leftovers(ref: TableRef) -> list[Leftover]:
    """List data files that writers of ours created and did not commit, running writers included.

    Raises:
        TableError: if the table does not exist or cannot be read.
    """
    with translate_iceberg_errors(ref):
        table = open_iceberg(ref)
        uri = load_location_provider(table.location(), table.properties).data_path
        filesystem, folder = locate(table.io, uri)
        location = Location(filesystem, folder, uri.removeprefix("file://"), remote=True)
        # Files first and the log after them, or a commit in between would look like a leftover.
        files = location.entries("", recursive=True)
        named = {locate(table.io, name)[1] for name in _data_files(table.refresh())}
    return file_leftovers(
        location,
        [i for i in files if is_file(i) and _OURS.fullmatch(i.path) and i.path not in named],
    )


def _data_files(table: Table) -> Iterator[str]:
    """Yield the data files that snapshots of any branch contain or removed."""
    manifests = {
        manifest.manifest_path: manifest
        for snapshot in table.snapshots()
        for manifest in snapshot.manifests(table.io)
    }
    for manifest in manifests.values():
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False):
            yield entry.data_file.file_path
