"""Delta Lake tables, read at one version."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, DeltaProtocolError, TableNotFoundError

from probclass_core.errors import TableError
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
        try:
            dataset = table.to_pyarrow_dataset()
        except DeltaProtocolError as error:
            raise TableError(
                f"{ref.uri} uses features that cannot be read here: {one_line(error)}; write it "
                "out without them (for deletion vectors: optimize or purge the table)."
            ) from error
        return DatasetTable(
            dataset,
            uri=ref.uri,
            storage=Storage(dataset.filesystem, "", ref.uri, remote="://" in ref.uri),
            partition_columns=list(table.metadata().partition_columns),
            version=table.version(),
        )


def opened(ref: TableRef) -> DeltaTable:
    """The Delta table itself; to be called within `said_by_delta`."""
    table = DeltaTable(ref.uri, version=ref.version, storage_options=dict(ref.options) or None)
    if ref.timestamp is not None:
        table.load_as_version(ref.timestamp)
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
