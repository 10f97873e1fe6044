"""The data files of an Iceberg table that a scan has planned, read as the table has them.

Most files are read as any Parquet file. Those that name a column otherwise than the table does, or
have lost rows to position deletes, are restored batch by batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
from probclass_core.errors import TableError
from probclass_core.io.errors import translate_read_errors
from probclass_core.io.filesystem import Location
from probclass_core.io.filters import Where
from probclass_core.io.parquet.dataset import DatasetTable
from probclass_core.io.parquet.pieces import partition_of
from probclass_core.io.parquet.planned_file import PlannedFile
from probclass_core.io.parquet.row_groups import RowGroups
from probclass_core.io.table import Plan

FIELD_ID = b"PARQUET:field_id"


class IcebergFiles(DatasetTable):
    """The files of a scan.

    Args:
        table: whose files they are.
        columns: its schema at the snapshot that is read.
        tasks: the files, with the files that delete rows of theirs.
        uri: of the table.
        partition_columns: outermost first.
        version: the snapshot.

    Raises:
        TableError: a file is not Parquet, or rows were deleted in a way that cannot be read.
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
            _refuse_unreadable(uri, task)
        self._table = table
        self._columns = columns
        self._deleted: dict[str, pa.Int64Array] = {}
        filesystem, root = locate(table.io, table.location())
        self._tasks = {locate(table.io, task.file.file_path)[1]: task for task in tasks}
        schema = arrow_schema(columns)
        form = ds.ParquetFileFormat()
        fragments = [
            form.make_fragment(path, filesystem, self._spelt_out(task.file, schema))
            for path, task in self._tasks.items()
        ]
        local = table.location().startswith(("file:", "/"))
        super().__init__(
            ds.FileSystemDataset(fragments, schema, form, filesystem),
            uri=uri,
            storage=None if local else Location(filesystem, root, table.location(), remote=True),
            partition_columns=partition_columns,
            state=lambda piece: self._tasks[piece.path].file.file_path,
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
        lost = sum(len(part.lost) for part in plan.fragments if isinstance(part, RestoredRows))
        return replace(plan, rows=(plan.rows or 0) - lost)

    def _types(self, files: Sequence[PlannedFile]) -> pa.Schema:
        """Those of the table: what its files have is as wide or narrower."""
        return self.schema

    def _fragment(self, rows: RowGroups, file: PlannedFile) -> RowGroups:
        lost = self._lost(rows, file)
        if not len(lost) and not self._named_otherwise(file.schema):
            return rows
        return RestoredRows(**vars(rows), names=self._names_in(file.schema), lost=lost)

    def _named_otherwise(self, held: pa.Schema) -> list[str]:
        """Columns that a file does not call as the table does, or calls another one so."""
        names = self._names_in(held).items()
        return [name for name, theirs in names if theirs != (name if name in held.names else None)]

    def _names_in(self, held: pa.Schema) -> dict[str, str | None]:
        """The table's columns, and what a file calls them; none where it does not have them."""
        named = {int(field.metadata[FIELD_ID]): field.name for field in held if _has_id(field)}
        if not named:
            named = {
                self._ids_by_name[name]: name for name in held.names if name in self._ids_by_name
            }
        return {column.name: named.get(column.field_id) for column in self._columns.fields}

    @cached_property
    def _ids_by_name(self) -> dict[str, int]:
        """For files without ids: by the table's mapping, or else by its names as they are."""
        mapping = self._table.name_mapping()
        if mapping is None:
            return {column.name: column.field_id for column in self._columns.fields}
        return {
            name: entry.field_id
            for entry in mapping.root
            if entry.field_id is not None
            for name in entry.names
        }

    def _lost(self, part: RowGroups, file: PlannedFile) -> pa.Int64Array:
        """Positions in the file of the rows of these row groups that were deleted."""
        path = part.piece.path
        if path not in self._deleted:
            self._deleted[path] = self._positions(self._tasks[path])
        everywhere = self._deleted[path]
        first = sum(rows for number, rows in file.groups if number < min(part.numbers))
        after = pc.greater_equal(everywhere, first)
        here = pc.and_(after, pc.less(everywhere, first + part.rows))
        return everywhere.filter(here)

    def _positions(self, task: FileScanTask) -> pa.Int64Array:
        """Of the deleted rows of a file, each once."""
        found: list[pa.Array] = []
        for file in task.delete_files:
            filesystem, path = locate(self._table.io, file.file_path)
            with translate_read_errors(file.file_path):
                deletes = ds.dataset(path, filesystem=filesystem, format="parquet")
                ours = pc.field("file_path") == task.file.file_path
                found.extend(deletes.to_table(["pos"], filter=ours)["pos"].chunks)
        return pc.unique(pa.chunked_array(found, pa.int64()))

    def _spelt_out(self, file: DataFile, schema: pa.Schema) -> pc.Expression | None:
        """What the file's partition says of its rows."""
        whole = None
        for number, field in enumerate(self._table.specs()[file.spec_id].fields):
            name = self._columns.find_column_name(field.source_id)
            if name not in schema.names or not isinstance(field.transform, IdentityTransform):
                continue
            value = _partition_scalar(file.partition[number], schema.field(name).type)
            term = pc.field(name) == value if value.is_valid else pc.field(name).is_null()
            whole = term if whole is None else whole & term
        return whole

    def _identity(self, file: PlannedFile) -> str:
        """Files never change, but rows of theirs are deleted, and columns get other names."""
        deletes = sorted(one.file_path for one in self._tasks[file.piece.path].delete_files)
        names = self._names_in(file.schema)
        renamed = [f"{name}={names[name]}" for name in self._named_otherwise(file.schema)]
        return "\0".join([file.state, *deletes, *renamed])


@dataclass(frozen=True)
class RestoredRows(RowGroups):
    """Row groups of a file, as the table has them.

    Attributes:
        names: of the table's columns, those of the file; none for what it does not have.
        lost: positions in the file of rows that were deleted.
    """

    names: Mapping[str, str | None]
    lost: pa.Int64Array

    def _batches(self) -> Iterator[pa.RecordBatch]:
        needed = self._needed()
        held = {theirs for name in needed if (theirs := self.names[name]) is not None}
        for piece in self._promising():
            yield from self._restored(piece, needed, sorted(held))

    def _promising(self) -> Sequence[ds.Fragment]:
        """Row groups that may hold rows of the filter, by their own statistics."""
        if self.kept is None or any(theirs != name for name, theirs in self.names.items()):
            return [self.piece]
        return list(self.piece.split_by_row_group(self.kept, self.schema))

    def _restored(
        self, piece: ds.Fragment, needed: Sequence[str], held: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        at = _first_row(piece)
        wanted = pa.schema([self.schema.field(name) for name in needed])
        for batch in piece.to_batches(
            columns=list(held),
            batch_size=read_rows(wanted),
            batch_readahead=2,
            fragment_scan_options=self.scan,
            use_threads=False,
        ):
            rows = pa.table([self._column(batch, name) for name in needed], schema=wanted)
            if len(self.lost):
                positions = pa.array(range(at, at + batch.num_rows), pa.int64())
                rows = rows.filter(pc.invert(pc.is_in(positions, self.lost)))
            at += batch.num_rows
            if self.kept is not None:
                rows = rows.filter(self.kept)
            yield from rows.select(list(self.columns)).to_batches()

    def _needed(self) -> list[str]:
        """Columns asked for, and those of the filter."""
        asked = [*self.columns, *self._spelt_out]
        return [name for name in self.schema.names if name in asked or self._filters_by(name)]

    def _filters_by(self, name: str) -> bool:
        """Whether the filter has such a column; it does not tell, so it is tried without."""
        if self.kept is None:
            return False
        try:
            self.schema.empty_table().drop_columns(name).filter(self.kept)
        except pa.ArrowInvalid:
            return True
        return False

    @property
    def _spelt_out(self) -> dict[str, Any]:
        """The partition columns that have one value in the file, which may leave them out."""
        return partition_of(self.piece)

    def _column(self, batch: pa.RecordBatch, name: str) -> pa.Array:
        kind = self.schema.field(name).type
        if self.names[name] is None:
            # The spec lets a file leave out what its partition spells out.
            return pa.repeat(pa.scalar(self._spelt_out.get(name), kind), batch.num_rows)
        values = batch.column(self.names[name])
        if values.type == kind:
            return values
        if pa.types.is_dictionary(kind):
            return values.cast(kind.value_type).dictionary_encode()
        return values.cast(kind)


def locate(io: FileIO, location: str) -> tuple[FileSystem, str]:
    """The file system of a location, opened with the catalog's properties, and the path in it."""
    files = io if isinstance(io, PyArrowFileIO) else PyArrowFileIO(io.properties)
    scheme, host, path = PyArrowFileIO.parse_location(location)
    return files.fs_by_scheme(scheme, host), path


def arrow_schema(columns: Schema) -> pa.Schema:
    """The Arrow schema of a table, without the large types and the notes of the library."""
    schema = schema_to_pyarrow(columns, include_field_ids=False)
    return pa.schema([(column.name, _plain(column.type)) for column in schema])


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_large_list(kind):
        return pa.list_(pa.field("element", _plain(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(_plain(kind.key_type), _plain(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _plain(field.type)) for field in kind])
    return kind


def _has_id(field: pa.Field) -> bool:
    return FIELD_ID in (field.metadata or {})


def _first_row(piece: ds.Fragment) -> int:
    """The position in its file of the first row of consecutive row groups."""
    before = range(piece.row_groups[0].id)
    return sum(piece.metadata.row_group(number).num_rows for number in before)


def _partition_scalar(value: Any, kind: pa.DataType) -> pa.Scalar:
    """Manifests have dates and times as counts since 1970."""
    if isinstance(value, int) and pa.types.is_temporal(kind):
        return pa.scalar(value, pa.int32() if kind.bit_width == 32 else pa.int64()).cast(kind)
    return pa.scalar(value).cast(kind)


def _refuse_unreadable(uri: str, task: FileScanTask) -> None:
    if task.file.file_format != FileFormat.PARQUET:
        raise TableError(
            f"{uri}: {task.file.file_path} is {task.file.file_format}; only Parquet is read: "
            "rewrite the data files."
        )
    for file in task.delete_files:
        if file.file_format != FileFormat.PARQUET:
            raise TableError(
                f"{uri} deletes rows by {file.file_format} files (deletion vectors), which cannot "
                "be read here; rewrite the data files so that nothing is left to delete."
            )
