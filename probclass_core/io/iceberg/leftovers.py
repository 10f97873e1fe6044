"""Data files that killed writers left in an Iceberg table: no snapshot names them."""

from __future__ import annotations

from collections.abc import Iterator

from pyiceberg.table import Table
from pyiceberg.table.locations import load_location_provider

from probclass_core.io.commit.leftovers import DATA_FILE, file_leftovers, list_files
from probclass_core.io.iceberg.files import locate
from probclass_core.io.iceberg.table import open_iceberg, translate_iceberg_errors
from probclass_core.io.references import Leftover, TableRef


def iceberg_leftovers(ref: TableRef) -> list[Leftover]:
    """List data files that writers of ours created and did not commit, running writers included.

    Raises:
        TableError: if the table does not exist or cannot be read.
    """
    with translate_iceberg_errors(ref):
        table = open_iceberg(ref)
        provider = load_location_provider(table.location(), table.properties)
        filesystem, folder = locate(table.io, provider.data_path)
        # Files first and the log after them, or a commit in between would look like a leftover.
        files = list_files(filesystem, folder, DATA_FILE)
        named = {locate(table.io, location)[1] for location in _data_files(table.refresh())}
    return file_leftovers(
        filesystem, [info for info in files if info.path not in named], uri=ref.uri, path=str
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
