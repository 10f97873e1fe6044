"""Delta Lake tables, read at one version."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.table import MAX_SUPPORTED_READER_VERSION, SUPPORTED_READER_FEATURES

from probclass_core.errors import TableError, one_line, one_of
from probclass_core.io.filesystem import Location
from probclass_core.io.parquet.dataset import DatasetTable
from probclass_core.io.parquet.pieces import partition_of
from probclass_core.io.references import TableRef


def delta_table(ref: TableRef) -> DatasetTable:
    """The table at the version asked for, or at its newest.

    Files of a Delta table never change, so their paths tell one state of the input from another.

    Raises:
        TableError: no such table or version, or one that uses what cannot be read, such as deletion
            vectors.
    """
    with said_by_delta(ref):
        table = opened(ref)
        dataset = _dataset(table)
        return DatasetTable(
            dataset,
            uri=ref.uri,
            storage=Location(dataset.filesystem, "", ref.uri, remote="://" in ref.uri),
            partition_columns=list(table.metadata().partition_columns),
            version=table.version(),
        )


def _dataset(table: DeltaTable) -> ds.Dataset:
    """The library's, whose files are pruned by their bounds in the log, where it has them.

    A file without bounds of a column, for the column came later or its writer left them out, would
    be taken for one without rows as soon as a condition names the column.
    """
    dataset = table.to_pyarrow_dataset()
    vague = _without_bounds(pa.table(table.get_add_actions(flatten=True)))
    if not vague:
        return dataset
    names = table.metadata().partition_columns
    pieces = []
    for piece in dataset.get_fragments():
        if unquote(piece.path) in vague:
            known = _spelt_out(piece, names, dataset.schema)
            piece = dataset.format.make_fragment(piece.path, piece.filesystem, known)
        pieces.append(piece)
    return ds.FileSystemDataset(pieces, dataset.schema, dataset.format, dataset.filesystem)


def _without_bounds(actions: pa.Table) -> set[str]:
    """Paths of the files that lack the least value of a column, and do not say it is all nulls."""
    vague = pa.chunked_array([pa.repeat(pa.scalar(value=False), actions.num_rows)])
    for name in actions.column_names:
        if name.startswith("min."):
            nulls = actions.column(f"null_count.{name.removeprefix('min.')}")
            empty = pc.fill_null(pc.equal(nulls, actions["num_records"]), fill_value=False)
            vague = pc.or_(vague, pc.and_not(pc.is_null(actions[name]), empty))
    return {unquote(path) for path in actions["path"].filter(vague).to_pylist()}


def _spelt_out(piece: ds.Fragment, names: Sequence[str], schema: pa.Schema) -> pc.Expression:
    """What the partition says of a file's rows."""
    keys = partition_of(piece)
    whole = pc.scalar(value=True)
    for name in names:
        value = pa.scalar(keys[name], schema.field(name).type)
        whole &= pc.field(name) == value if value.is_valid else pc.field(name).is_null()
    return whole


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
        if ref.version is not None and (newest := _newest(ref)) < ref.version:
            raise TableError(
                f"{ref.uri} has no version {ref.version}; the newest is {newest}."
            ) from error
        asked = (
            "" if ref.newest else f" at {ref.version if ref.timestamp is None else ref.timestamp}"
        )
        raise TableError(
            f"cannot read the Delta table {ref.uri}{asked}: {one_line(error)}."
        ) from error


def _newest(ref: TableRef) -> float:
    """The newest version of a table that lacks the one asked for; infinite where none can tell."""
    try:
        return DeltaTable(ref.uri, storage_options=dict(ref.options) or None).version()
    except (DeltaError, OSError, ValueError):
        return math.inf
