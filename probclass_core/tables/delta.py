"""Delta Lake tables, read at one version."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.table import MAX_SUPPORTED_READER_VERSION, SUPPORTED_READER_FEATURES

from probclass_core.errors import TableError, one_of
from probclass_core.storage import Storage, one_line
from probclass_core.table_format import TableRef
from probclass_core.tables.dataset import DatasetTable


def delta_table(ref: TableRef) -> DatasetTable:
    """The table at the version asked for, or at its newest.

    Files of a Delta table never change, so their paths tell one state of the input from another.

    Raises:
        TableError: no such table or version, or one that uses what cannot be read, such as deletion
            vectors.
    """
    with said_by_delta(ref):
        table = opened(ref)
        dataset = table.to_pyarrow_dataset()
        return DatasetTable(
            dataset,
            uri=ref.uri,
            storage=Storage(dataset.filesystem, "", ref.uri, remote="://" in ref.uri),
            partition_columns=list(table.metadata().partition_columns),
            version=table.version(),
        )


def opened(ref: TableRef) -> DeltaTable:
    """The Delta table itself; to be called within `said_by_delta`.

    Raises:
        TableError: it uses what cannot be read, and so not be written either.
    """
    table = DeltaTable(ref.uri, version=ref.version, storage_options=dict(ref.options) or None)
    if ref.timestamp is not None:
        table.load_as_version(ref.timestamp)
    protocol = table.protocol()
    needed = {*(protocol.reader_features or ())} - SUPPORTED_READER_FEATURES
    if protocol.min_reader_version > MAX_SUPPORTED_READER_VERSION:
        needed.add(f"reader version {protocol.min_reader_version}")
    if table.metadata().configuration.get("delta.columnMapping.mode", "none") != "none":
        needed.add("columnMapping")
    if needed:
        raise TableError(
            f"{ref.uri} uses {one_of(needed)}, which cannot be read or written here; write the "
            "table out without it (for deletion vectors: purge it, and drop the feature)."
        )
    return table


@contextmanager
def said_by_delta(ref: TableRef) -> Iterator[None]:
    """Turns what the Delta library says into an error of ours."""
    try:
        yield
    except TableNotFoundError as error:
        raise TableError(f"{ref.uri} holds no Delta table.") from error
    except (DeltaError, OSError, ValueError) as error:
        if isinstance(error, TableError):
            raise
        asked = (
            "" if ref.newest else f" at {ref.version if ref.timestamp is None else ref.timestamp}"
        )
        raise TableError(
            f"cannot read the Delta table {ref.uri}{asked}: {one_line(error)}."
        ) from error
