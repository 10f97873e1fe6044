"""Read the data files of an Iceberg scan with the columns and rows of the table.

Most files are read like any Parquet file. A file whose column names differ from the table's, or
that has position deletes, is adapted batch by batch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow.fs import FileSystem
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import PyArrowFileIO, schema_to_pyarrow
from pyiceberg.manifest import DataFile, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, Table
from pyiceberg.transforms import IdentityTransform

from probclass_core.arrow.arrays import read_rows
from probclass_core.arrow.types import map_type
from probclass_core.errors import TableMismatchError
from probclass_core.io.errors import translate_read_errors
from probclass_core.io.filesystem import Location
from probclass_core.io.filters import Where
from probclass_core.io.parquet.dataset import DatasetTable
from probclass_core.io.parquet.files import PlannedFile, RowGroups, can_stream, streamed
from probclass_core.io.parquet.partitions import partition_of
from probclass_core.io.table import Plan

FIELD_ID = b"PARQUET:field_id"
"""Key of a column id in the metadata of an Arrow field."""


class IcebergFiles(DatasetTable):
    """The files of a scan, as a table.

    Args:
        table: the table that the files belong to.
        columns: schema of the table at the snapshot that is read.
        tasks: data files, each with its delete files.
        uri: URI of the table.
        partition_columns: names of the partition columns, outermost first.
        version: id of the snapshot, or None for a table without snapshots.

    Raises:
        TableError: if a data file is not Parquet, or a delete file cannot be read.
    """

    def __init__(
        self,
        table: Table,
        columns: Schema,
        tasks: Sequence[FileScanTask],
        *,
        uri: str,
        partition_columns: Sequence[str],
        version: int | None,
    ) -> None:
        for task in tasks:
            _check_readable(uri, task)
        self._table = table
        self._columns = columns
        self._deleted: dict[str, pa.Int64Array] = {}
        filesystem, root = locate(table.io, table.location())
        self._tasks = {locate(table.io, task.file.file_path)[1]: task for task in tasks}
        schema = arrow_schema(columns)
        parquet = ds.ParquetFileFormat()
        fragments = [
            parquet.make_fragment(path, filesystem, self._partition_condition(task.file, schema))
            for path, task in self._tasks.items()
        ]
        local = table.location().startswith(("file:", "/"))
        super().__init__(
            ds.FileSystemDataset(fragments, schema, parquet, filesystem),
            uri=uri,
            location=None if local else Location(filesystem, root, table.location(), remote=True),
            partition_columns=partition_columns,
            state=lambda fragment: self._tasks[fragment.path].file.file_path,
            version=version,
        )

    def plan(
        self,
        columns: Sequence[str] | None = None,
        *,
        partition: Mapping[str, Any] | None = None,
        where: Where = None,
        allow_dictionaries: bool = False,
    ) -> Plan:
        plan = super().plan(
            columns, partition=partition, where=where, allow_dictionaries=allow_dictionaries
        )
        adapted = [rows for rows in plan.fragments if isinstance(rows, AdaptedRowGroups)]
        return replace(plan, rows=(plan.rows or 0) - sum(len(rows.deleted) for rows in adapted))

    def _read_schema(self, files: Sequence[PlannedFile]) -> pa.Schema:
        """Return the schema of the table; the types of its files are the same or narrower."""
        return self.schema

    def _stored_columns(self, file: PlannedFile) -> Collection[str]:
        names = self._file_names(file.schema)
        return [name for name, file_name in names.items() if file_name is not None]

    def _adapt(self, rows: RowGroups, file: PlannedFile) -> RowGroups:
        deleted = self._deleted_rows(rows, file)
        if not len(deleted) and not self._renamed_columns(file.schema):
            return rows
        names = self._file_names(file.schema)
        return AdaptedRowGroups(**vars(rows), file_names=names, deleted=deleted)

    def _renamed_columns(self, file_schema: pa.Schema) -> list[str]:
        """Return the columns that have another name in a file, or whose name is another column."""
        return [
            name
            for name, file_name in self._file_names(file_schema).items()
            if file_name != (name if name in file_schema.names else None)
        ]

    def _file_names(self, file_schema: pa.Schema) -> dict[str, str | None]:
        """Map the table's columns to their names in a file; None for a column that it lacks."""
        names_by_id = {
            int(field.metadata[FIELD_ID]): field.name
            for field in file_schema
            if FIELD_ID in (field.metadata or {})
        }
        if not names_by_id:
            names_by_id = {
                self._ids_by_name[name]: name
                for name in file_schema.names
                if name in self._ids_by_name
            }
        return {column.name: names_by_id.get(column.field_id) for column in self._columns.fields}

    @cached_property
    def _ids_by_name(self) -> dict[str, int]:
        """Ids for files without ids: by the table's name mapping, or else by its own names."""
        mapping = self._table.name_mapping()
        if mapping is None:
            return {column.name: column.field_id for column in self._columns.fields}
        return {
            name: entry.field_id
            for entry in mapping.root
            if entry.field_id is not None
            for name in entry.names
        }

    def _deleted_rows(self, rows: RowGroups, file: PlannedFile) -> pa.Int64Array:
        """Return the positions in the file of the deleted rows of these row groups."""
        path = rows.fragment.path
        if path not in self._deleted:
            self._deleted[path] = self._deleted_positions(self._tasks[path])
        positions = self._deleted[path]
        first = sum(count for number, count in file.row_groups if number < min(rows.numbers))
        in_groups = pc.and_(
            pc.greater_equal(positions, first), pc.less(positions, first + rows.rows)
        )
        return positions.filter(in_groups)

    def _deleted_positions(self, task: FileScanTask) -> pa.Int64Array:
        """Return the positions of all deleted rows of a file, without duplicates."""
        chunks: list[pa.Array] = []
        for file in task.delete_files:
            filesystem, path = locate(self._table.io, file.file_path)
            with translate_read_errors(file.file_path):
                deletes = ds.dataset(path, filesystem=filesystem, format="parquet")
                of_file = pc.field("file_path") == task.file.file_path
                chunks.extend(deletes.to_table(["pos"], filter=of_file)["pos"].chunks)
        return pc.unique(pa.chunked_array(chunks, pa.int64()))

    def _partition_condition(self, file: DataFile, schema: pa.Schema) -> pc.Expression | None:
        """Return the condition that all rows of a file meet by its partition, if any."""
        condition = None
        for number, field in enumerate(self._table.specs()[file.spec_id].fields):
            name = self._columns.find_column_name(field.source_id)
            if name not in schema.names or not isinstance(field.transform, IdentityTransform):
                continue
            value = partition_scalar(file.partition[number], schema.field(name).type)
            term = pc.field(name) == value if value.is_valid else pc.field(name).is_null()
            condition = term if condition is None else condition & term
        return condition

    def _row_state(self, file: PlannedFile) -> str:
        """Identify a file's rows: files never change, but rows are deleted and columns renamed."""
        deletes = sorted(
            delete.file_path for delete in self._tasks[file.fragment.path].delete_files
        )
        names = self._file_names(file.schema)
        renamed = [f"{name}={names[name]}" for name in self._renamed_columns(file.schema)]
        return "\0".join([file.state, *deletes, *renamed])


@dataclass(frozen=True)
class AdaptedRowGroups(RowGroups):
    """Row groups that are renamed, cast and filtered to the columns and rows of the table.

    Attributes:
        file_names: name in the file by name in the table; None for a column that the file lacks.
        deleted: positions in the file of the deleted rows.
    """

    file_names: Mapping[str, str | None]
    deleted: pa.Int64Array

    def _scan(self, fragment: ds.Fragment) -> Iterator[pa.RecordBatch]:
        needed = self._needed_columns()
        in_file = {file_name for name in needed if (file_name := self.file_names[name]) is not None}
        for groups in self._matching_groups(fragment):
            yield from self._adapted(groups, needed, sorted(in_file))

    def footer_counts(self, column: str) -> None:
        """The footer does not say: columns may be renamed, and rows deleted."""

    def _matching_groups(self, fragment: ds.Fragment) -> Sequence[ds.Fragment]:
        """Return the row groups that may contain rows of the filter, by their statistics."""
        renamed = any(file_name != name for name, file_name in self.file_names.items())
        if self.row_filter is None or renamed:
            return [fragment]
        return list(fragment.split_by_row_group(self.row_filter, self.schema))

    def _adapted(
        self, fragment: ds.Fragment, needed: Sequence[str], in_file: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        position = _first_row(fragment)
        schema = pa.schema([self.schema.field(name) for name in needed])
        for batch in self._stored(fragment, in_file, read_rows(schema)):
            rows = pa.table([self._column(batch, name) for name in needed], schema=schema)
            if len(self.deleted):
                positions = pa.array(range(position, position + batch.num_rows), pa.int64())
                rows = rows.filter(pc.invert(pc.is_in(positions, self.deleted)))
            position += batch.num_rows
            if self.row_filter is not None:
                rows = rows.filter(self.row_filter)
            yield from rows.select(list(self.columns)).to_batches()

    def _stored(
        self, fragment: ds.Fragment, columns: Sequence[str], rows: int
    ) -> Iterator[pa.RecordBatch]:
        """Read columns of the file as it has them."""
        stored = pa.schema([fragment.physical_schema.field(name) for name in columns])
        if can_stream(fragment, stored):
            return streamed(fragment, stored, rows, self.scan_options)
        batches: Iterator[pa.RecordBatch] = fragment.to_batches(
            columns=list(columns),
            batch_size=rows,
            batch_readahead=2,
            fragment_scan_options=self.scan_options,
            use_threads=False,
        )
        return batches

    def _needed_columns(self) -> list[str]:
        """Return the requested columns and those of the filter."""
        requested = [*self.columns, *self._partition]
        return [name for name in self.schema.names if name in requested or self._filter_uses(name)]

    def _filter_uses(self, name: str) -> bool:
        """Whether the filter has a column; an expression cannot be inspected, so try without."""
        if self.row_filter is None:
            return False
        try:
            self.schema.empty_table().drop_columns(name).filter(self.row_filter)
        except pa.ArrowInvalid:
            return True
        return False

    @property
    def _partition(self) -> dict[str, Any]:
        """The partition columns with one value in the file, which the file need not contain."""
        return partition_of(self.fragment)

    def _column(self, batch: pa.RecordBatch, name: str) -> pa.Array:
        kind = self.schema.field(name).type
        file_name = self.file_names[name]
        if file_name is None:
            return pa.repeat(pa.scalar(self._partition.get(name), kind), batch.num_rows)
        column = batch.column(file_name)
        if column.type == kind:
            return column
        if pa.types.is_dictionary(kind):
            return column.cast(kind.value_type).dictionary_encode()
        return column.cast(kind)


def locate(io: FileIO, location: str) -> tuple[FileSystem, str]:
    """Return the file system of a location, with the catalog's properties, and the path in it."""
    files = io if isinstance(io, PyArrowFileIO) else PyArrowFileIO(io.properties)
    scheme, host, path = PyArrowFileIO.parse_location(location)
    return files.fs_by_scheme(scheme, host), path


def arrow_schema(columns: Schema) -> pa.Schema:
    """Return the Arrow schema of a table, without large types and field metadata."""
    schema = schema_to_pyarrow(columns, include_field_ids=False)
    return pa.schema(
        [(column.name, map_type(column.type, _without_large_type)) for column in schema]
    )


def _without_large_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_large_list(kind):
        return pa.list_(pa.field("element", kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, kind.item_type)
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, field.type) for field in kind])
    return kind


def _first_row(fragment: ds.Fragment) -> int:
    """Return the position in its file of the first row of consecutive row groups."""
    groups_before = range(fragment.row_groups[0].id)
    return sum(fragment.metadata.row_group(number).num_rows for number in groups_before)


def partition_scalar(value: Any, kind: pa.DataType) -> pa.Scalar:
    """Return a partition value of a manifest, which stores dates and times as counts since 1970."""
    if isinstance(value, int) and pa.types.is_temporal(kind):
        return pa.scalar(value, pa.int32() if kind.bit_width == 32 else pa.int64()).cast(kind)
    return pa.scalar(value).cast(kind)


def _check_readable(uri: str, task: FileScanTask) -> None:
    if task.file.file_format != FileFormat.PARQUET:
        raise TableMismatchError(
            f"{uri}: {task.file.file_path} is {task.file.file_format}; probclass only reads "
            "Parquet: rewrite the data files."
        )
    for file in task.delete_files:
        if file.file_format != FileFormat.PARQUET:
            raise TableMismatchError(
                f"{uri} has deletes in {file.file_format} files (deletion vectors), which "
                "probclass cannot read; rewrite the data files so that no deletes are left."
            )
