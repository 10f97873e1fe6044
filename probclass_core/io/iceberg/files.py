"""Read the data files of an Iceberg scan with the columns and rows of the table.

Columns are matched by their ids, and deleted rows are left out; see `AdaptedFiles`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow.fs import FileSystem
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import PyArrowFileIO, _read_deletes, schema_to_pyarrow
from pyiceberg.manifest import DataFile, FileFormat
from pyiceberg.schema import Schema, index_by_name
from pyiceberg.table import FileScanTask, Table
from pyiceberg.transforms import IdentityTransform

from probclass_core.arrow.types import map_type
from probclass_core.errors import TableError, TableMismatchError, one_line
from probclass_core.io.errors import translate_read_errors
from probclass_core.io.filesystem import Location
from probclass_core.io.parquet.adapted import (
    AdaptedFiles,
    ColumnMatch,
    StoredColumn,
    field_id,
    typed_scalar,
)


class IcebergFiles(AdaptedFiles):
    """The files of a scan, as a table.

    Args:
        table: the table that the files belong to.
        columns: schema of the table at the snapshot that is read.
        tasks: data files, each with its delete files.
        uri: URI of the table.
        partition_columns: names of the partition columns, outermost first.
        version: id of the snapshot, or None for a table without snapshots.

    Raises:
        TableError: if a data file is not Parquet.
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
        self._name_mapping = table.name_mapping()
        self._ids_by_name = index_by_name(columns)
        self._fields = schema_to_pyarrow(columns, include_field_ids=True)
        self._deletes: dict[str, Mapping[str, pa.ChunkedArray]] = {}
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

    def location_of(self, fragment: ds.Fragment) -> str:
        return str(self._tasks[fragment.path].file.file_path).removeprefix("file://")

    def _match(self, file_schema: pa.Schema) -> tuple[StoredColumn, ...]:
        has_ids = any(field_id(field) is not None for field in file_schema)
        match = ColumnMatch(
            table_key=field_id,
            file_key=_own_id if has_ids else self._mapped_id,
            default=lambda field: self._columns.find_field(field_id(field) or 0).initial_default,
        )
        return match.columns(self._fields, file_schema)

    def _mapped_id(self, field: pa.Field, path: tuple[str, ...]) -> int | None:
        """Id of a column of a file without ids: by the name mapping, or else by its own name."""
        if self._name_mapping is None:
            return self._ids_by_name.get(".".join(path))
        entries, found = self._name_mapping.root, None
        for name in path:
            found = next((entry for entry in entries if name in entry.names), None)
            entries = [] if found is None else found.fields
        return None if found is None else found.field_id

    def _deletions(self, path: str) -> Sequence[str]:
        return sorted(file.file_path for file in self._tasks[path].delete_files)

    def _deleted_positions(self, path: str) -> pa.Int64Array:
        task = self._tasks[path]
        chunks = [
            chunk.cast(pa.int64())
            for file in task.delete_files
            if (positions := self._positions(file).get(task.file.file_path)) is not None
            for chunk in positions.chunks
        ]
        return pc.unique(pa.chunked_array(chunks, pa.int64()))

    def _positions(self, file: DataFile) -> Mapping[str, pa.ChunkedArray]:
        """Positions of deleted rows by data file, from position deletes or deletion vectors."""
        name = file.file_path
        if name not in self._deletes:
            with translate_read_errors(name):
                try:
                    self._deletes[name] = _read_deletes(self._table.io, file)
                except (ValueError, LookupError) as error:
                    raise TableError(f"cannot read {name}: {one_line(error)}.") from error
        return self._deletes[name]

    def _partition_condition(self, file: DataFile, schema: pa.Schema) -> pc.Expression | None:
        """Return the condition that all rows of a file meet by its partition, if any."""
        condition = None
        for number, field in enumerate(self._table.specs()[file.spec_id].fields):
            name = self._columns.find_column_name(field.source_id)
            if name not in schema.names or not isinstance(field.transform, IdentityTransform):
                continue
            value = typed_scalar(file.partition[number], schema.field(name).type)
            term = pc.field(name) == value if value.is_valid else pc.field(name).is_null()
            condition = term if condition is None else condition & term
        return condition


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


def _own_id(field: pa.Field, path: tuple[str, ...]) -> int | None:
    """Return the id of a column of a file with ids."""
    return field_id(field)


def _check_readable(uri: str, task: FileScanTask) -> None:
    if task.file.file_format != FileFormat.PARQUET:
        raise TableMismatchError(
            f"{uri}: {task.file.file_path} is {task.file.file_format}; probclass only reads "
            "Parquet: rewrite the data files."
        )
