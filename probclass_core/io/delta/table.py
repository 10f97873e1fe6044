"""Read a Delta Lake table at one version."""

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

from probclass_core.errors import TableError, TableMismatchError, one_line, one_of
from probclass_core.io.filesystem import Location
from probclass_core.io.parquet.dataset import DatasetTable
from probclass_core.io.parquet.partitions import partition_of
from probclass_core.io.references import TableRef


def delta_table(ref: TableRef) -> DatasetTable:
    """Open the table at the version that the reference names, or at its newest.

    Files of a Delta table never change, so their paths identify the state of the input.

    Raises:
        TableError: if there is no such table or version, or it uses a feature that cannot be read,
            such as deletion vectors.
    """
    with translate_delta_errors(ref):
        table = open_delta(ref)
        dataset = _dataset(table)
        return DatasetTable(
            dataset,
            uri=ref.uri,
            location=Location(dataset.filesystem, "", ref.uri, remote="://" in ref.uri),
            partition_columns=list(table.metadata().partition_columns),
            version=table.version(),
        )


def _dataset(table: DeltaTable) -> ds.Dataset:
    """Return deltalake's dataset, whose files are pruned by the statistics in the log.

    A file may have no minimum of a column: the column was added later, or its writer left the
    minimum out. The dataset would skip such a file for any condition on the column, so the file
    is pruned by its partition alone.
    """
    dataset = table.to_pyarrow_dataset()
    without_minima = _without_minima(pa.table(table.get_add_actions(flatten=True)), dataset.schema)
    if not without_minima:
        return dataset
    partition_columns = table.metadata().partition_columns
    fragments = []
    for fragment in dataset.get_fragments():
        if unquote(fragment.path) in without_minima:
            condition = _partition_condition(fragment, partition_columns, dataset.schema)
            fragment = dataset.format.make_fragment(fragment.path, fragment.filesystem, condition)
        fragments.append(fragment)
    return ds.FileSystemDataset(fragments, dataset.schema, dataset.format, dataset.filesystem)


def _without_minima(actions: pa.Table, schema: pa.Schema) -> set[str]:
    """Return the paths of files that lack the minimum of a column that is not all null.

    The dataset has no conditions on nested and binary columns, so their minima do not matter.
    """
    mask = pa.chunked_array([pa.repeat(pa.scalar(value=False), actions.num_rows)])
    for column in schema:
        if f"min.{column.name}" in actions.column_names and not pa.types.is_binary(column.type):
            minima, nulls = (actions[f"{kind}.{column.name}"] for kind in ("min", "null_count"))
            all_null = pc.fill_null(pc.equal(nulls, actions["num_records"]), fill_value=False)
            mask = pc.or_(mask, pc.and_not(pc.is_null(minima), all_null))
    return {unquote(path) for path in actions["path"].filter(mask).to_pylist()}


def _partition_condition(
    fragment: ds.Fragment, names: Sequence[str], schema: pa.Schema
) -> pc.Expression:
    """Return the condition that all rows of a file meet by its partition."""
    keys = partition_of(fragment)
    condition = pc.scalar(value=True)
    for name in names:
        value = pa.scalar(keys[name], schema.field(name).type)
        condition &= pc.field(name) == value if value.is_valid else pc.field(name).is_null()
    return condition


def open_delta(ref: TableRef) -> DeltaTable:
    """Open the table with its own library; call it within `translate_delta_errors`.

    Raises:
        TableError: if it uses a feature that cannot be read, and so not written either.
    """
    table = DeltaTable(ref.uri, version=ref.version, storage_options=dict(ref.options) or None)
    if ref.timestamp is not None:
        table.load_as_version(ref.timestamp)
    check_supported(ref, table)
    return table


def check_supported(ref: TableRef, table: DeltaTable) -> None:
    """Check that a table uses no feature that cannot be read; call it as `open_delta`.

    Raises:
        TableError: if it does.
    """
    protocol = table.protocol()
    unsupported = {*(protocol.reader_features or ())} - SUPPORTED_READER_FEATURES
    if protocol.min_reader_version > MAX_SUPPORTED_READER_VERSION:
        unsupported.add(f"reader version {protocol.min_reader_version}")
    if table.metadata().configuration.get("delta.columnMapping.mode", "none") != "none":
        unsupported.add("columnMapping")
    if unsupported:
        raise TableMismatchError(
            f"{ref.uri} uses {one_of(unsupported)}, which probclass cannot read or write; rewrite "
            "the table without it (for deletion vectors: purge them, then drop the feature)."
        )


@contextmanager
def translate_delta_errors(ref: TableRef) -> Iterator[None]:
    """Raise TableError for an error of the Delta library."""
    try:
        yield
    except TableNotFoundError as error:
        raise TableError(f"{ref.uri} is not a Delta table.") from error
    except (DeltaError, OSError, ValueError) as error:
        if isinstance(error, TableError):
            raise
        if ref.version is not None and (newest := _newest_version(ref)) < ref.version:
            raise TableError(
                f"{ref.uri} has no version {ref.version}; the newest is {newest}."
            ) from error
        version = ref.version if ref.timestamp is None else ref.timestamp
        raise TableError(
            f"cannot read the Delta table {ref.uri}{'' if ref.newest else f' at {version}'}: "
            f"{one_line(error)}."
        ) from error


def _newest_version(ref: TableRef) -> float:
    """Return the newest version of the table; infinity if it cannot be read."""
    try:
        return DeltaTable(ref.uri, storage_options=dict(ref.options) or None).version()
    except (DeltaError, OSError, ValueError):
        return math.inf
