"""Read an Iceberg table at one snapshot."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow.fs import FileSystem
from pyiceberg import expressions as ice
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import PyArrowFileIO, _read_deletes, schema_to_pyarrow
from pyiceberg.manifest import DataFile, FileFormat
from pyiceberg.schema import Schema, index_by_name
from pyiceberg.table import FileScanTask, Table
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.transforms import IdentityTransform

from probclass_core.arrow.types import map_type
from probclass_core.errors import ProbClassError, TableError, TableMismatchError, one_line, one_of
from probclass_core.io.commit.parquet import DATA_FILE
from probclass_core.io.failures import translate_read_errors
from probclass_core.io.filesystem import Location
from probclass_core.io.filters import Where, typed_conditions
from probclass_core.io.parquet.dataset import DatasetTable
from probclass_core.io.parquet.files import ColumnMatch, StoredColumn, field_id, partition_condition
from probclass_core.io.references import Leftover, TableRef
from probclass_core.io.storage_options import pyiceberg_options

SCHEME = "iceberg://"

_PREDICATES: Mapping[str, Callable[..., ice.BooleanExpression]] = {
    "==": ice.EqualTo,
    "=": ice.EqualTo,
    "<": ice.LessThan,
    "<=": ice.LessThanOrEqual,
    ">": ice.GreaterThan,
    ">=": ice.GreaterThanOrEqual,
    "in": ice.In,
    "is null": ice.IsNull,
}

_OURS = re.compile(DATA_FILE)


class IcebergTable(DatasetTable):
    """An Iceberg table at the snapshot that a reference names, or at its newest.

    A plan reads only the files that the manifests do not rule out: by partition values, and by the
    bounds of columns for conditions given as a list. Columns are matched by id, so a renamed column
    is found in older files, and an added one has its initial default there, or null. Rows
    removed by position deletes or deletion vectors are left out.

    Args:
        ref: the table.

    Raises:
        TableError: if there is no such table or snapshot.
    """

    def __init__(self, ref: TableRef) -> None:
        self._ref = ref
        with translate_iceberg_errors(ref):
            self._table = table = open_iceberg(ref)
            snapshot = _snapshot(ref, table)
            # Without a pinned snapshot, the newest rows are read with the newest schema, which may
            # be newer than the snapshot.
            self._scan = table.scan(snapshot_id=ref.version)
            self._columns = self._scan.projection()
            self._name_mapping = table.name_mapping()
            self._filesystem, root = locate(table.io, table.location())
            partition_columns = self._partition_columns(snapshot)
        self._ids_by_name = index_by_name(self._columns)
        self._fields = schema_to_pyarrow(self._columns, include_field_ids=True)
        self._deletes: dict[str, Mapping[str, pa.ChunkedArray]] = {}
        self._tasks: dict[str, FileScanTask] = {}
        place = table.location().removeprefix("file://")
        super().__init__(
            self._dataset_of([]),
            uri=ref.uri,
            location=Location(
                self._filesystem, root, place, remote=not place.startswith(("file:", "/"))
            ),
            partition_columns=partition_columns,
            state=lambda fragment: self._tasks[fragment.path].file.file_path,
            version=None if snapshot is None else snapshot.snapshot_id,
        )

    def _partition_columns(self, snapshot: Snapshot | None) -> list[str]:
        """The columns whose values partition every file, in the order of the newest partitioning.

        A file of an earlier partitioning may contain rows with different values of a column, and
        so may a file partitioned by the month or a hash of it; such columns are left out.
        """
        manifests = [] if snapshot is None else snapshot.manifests(self._table.io)
        specs = self._table.specs()
        used = [specs[number] for number in {file.partition_spec_id for file in manifests}]
        by_value = [
            {f.source_id for f in spec.fields if isinstance(f.transform, IdentityTransform)}
            for spec in (self._table.spec(), *used)
        ]
        shared = set.intersection(*by_value)
        names = [
            self._columns.find_column_name(field.source_id) or ""
            for field in self._table.spec().fields
            if field.source_id in shared
        ]
        return [name for name in names if name in arrow_schema(self._columns).names]

    def _files(self, partition: Mapping[str, Any] | None, where: Where) -> ds.Dataset:
        """Return the files that the manifests do not rule out; see `DatasetTable`."""
        conditions = typed_conditions(self.schema, partition, where)
        with translate_iceberg_errors(self._ref):
            tasks = list(self._scan.filter(all_of(map(self._term, conditions))).plan_files())
        for task in tasks:
            _check_readable(self._ref.uri, task)
        return self._dataset_of(tasks)

    def _dataset_of(self, tasks: Sequence[FileScanTask]) -> ds.Dataset:
        """Return data files, each with its delete files, as a dataset."""
        schema, parquet = arrow_schema(self._columns), ds.ParquetFileFormat()
        located = {locate(self._table.io, task.file.file_path)[1]: task for task in tasks}
        self._tasks |= located
        fragments = [
            parquet.make_fragment(
                path,
                self._filesystem,
                partition_condition(self._partition_of(task.file, schema.names), schema),
            )
            for path, task in located.items()
        ]
        return ds.FileSystemDataset(fragments, schema, parquet, self._filesystem)

    def _term(self, condition: tuple[str, str, Any]) -> ice.BooleanExpression:
        name, operator, value = condition
        # A scan resolves names by the newest schema, whatever its snapshot.
        column_id = self._columns.find_field(name).field_id
        newest_name = self._table.schema().find_column_name(column_id)
        return ice.AlwaysTrue() if newest_name is None else predicate(newest_name, operator, value)

    def location_of(self, fragment: ds.Fragment) -> str:
        return str(self._tasks[fragment.path].file.file_path).removeprefix("file://")

    def _match(self, file_schema: pa.Schema) -> tuple[StoredColumn, ...]:
        has_ids = any(field_id(field) is not None for field in file_schema)
        match = ColumnMatch(
            table_key=field_id,
            file_key=field_id if has_ids else self._mapped_id,
            default=lambda field: self._columns.find_field(field_id(field) or 0).initial_default,
        )
        return match.columns(self._fields, file_schema)

    def _mapped_id(self, field: pa.Field) -> int | None:
        """Id of a column of a file without ids: by the name mapping, or else by its own name."""
        if self._name_mapping is None:
            return self._ids_by_name.get(field.name)
        entries = self._name_mapping.root
        return next((entry.field_id for entry in entries if field.name in entry.names), None)

    def _deletions(self, path: str) -> Sequence[str]:
        return sorted(file.file_path for file in self._tasks[path].delete_files)

    def _deleted_positions(self, path: str) -> pa.Int64Array | None:
        task = self._tasks[path]
        chunks = [
            chunk.cast(pa.int64())
            for file in task.delete_files
            if (positions := self._positions(file).get(task.file.file_path)) is not None
            for chunk in positions.chunks
        ]
        return pc.unique(pa.chunked_array(chunks, pa.int64())) if chunks else None

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

    def _partition_of(self, file: DataFile, names: Collection[str]) -> dict[str, Any]:
        """Return the columns of these names that have one value in a file by its partition."""
        fields = enumerate(self._table.specs()[file.spec_id].fields)
        values = {
            self._columns.find_column_name(field.source_id) or "": file.partition[number]
            for number, field in fields
            if isinstance(field.transform, IdentityTransform)
        }
        return {name: values[name] for name in values if name in names}


def predicate(name: str, operator: str, value: Any) -> ice.BooleanExpression:
    """Translate a condition for the search of manifests; always true if it has no translation.

    Args:
        name: name of the column.
        operator: operator of the condition; see `filters`.
        value: value in the type of the column.
    """
    try:
        if operator == "in":
            not_null = _PREDICATES["in"](name, [member for member in value if member is not None])
            return ice.Or(not_null, _PREDICATES["is null"](name)) if None in value else not_null
        if operator not in _PREDICATES:
            return ice.AlwaysTrue()
        if value is None:
            return _PREDICATES["is null"](name)
        return _PREDICATES[operator](name, value)
    except (TypeError, ValueError):  # a NaN, or a type that has no bounds
        return ice.AlwaysTrue()


def all_of(terms: Iterable[ice.BooleanExpression]) -> ice.BooleanExpression:
    """Return the conjunction of the terms; always true if there are none."""
    return ice.And(ice.AlwaysTrue(), ice.AlwaysTrue(), *terms)


def catalog_and_name(ref: TableRef) -> tuple[Catalog, str]:
    """Return the catalog that a reference names, and the name of the table in it.

    Call it within `translate_iceberg_errors`.

    Raises:
        TableError: if the URI does not name a table.
    """
    catalog, _, name = ref.uri.removeprefix(SCHEME).partition("/")
    if not (ref.uri.startswith(SCHEME) and catalog and "." in name.strip(".")) or "/" in name:
        raise TableMismatchError(
            f"{ref.uri} does not name a table; expected iceberg://catalog/namespace.table."
        )
    return load_catalog(catalog, **pyiceberg_options(ref.options)), name


def open_iceberg(ref: TableRef) -> Table:
    """Open the table with its own library; call it within `translate_iceberg_errors`."""
    catalog, name = catalog_and_name(ref)
    return catalog.load_table(name)


@contextmanager
def translate_iceberg_errors(ref: TableRef) -> Iterator[None]:
    """Raise TableError for an error of the Iceberg library or its catalogs."""
    try:
        yield
    except ProbClassError:
        raise
    except NoSuchTableError as error:
        raise TableError(f"{ref.uri}: the catalog has no such table.") from error
    except Exception as error:
        if "equality deletes" in str(error):
            raise TableMismatchError(
                f"{ref.uri} has equality deletes, which probclass cannot read; rewrite the data "
                "files so that no deletes are left."
            ) from error
        if str(error).startswith("URI missing"):
            catalog = ref.uri.removeprefix(SCHEME).partition("/")[0]
            raise TableMismatchError(
                f"{ref.uri}: the catalog {catalog!r} is not configured; set its URI in "
                f".pyiceberg.yaml, in PYICEBERG_CATALOG__{catalog.upper()}__URI, or in the options "
                "of a TableRef."
            ) from error
        # Catalogs use SQLAlchemy, HTTP, Thrift or boto; their errors have no common base.
        raise TableError(f"cannot read the Iceberg table {ref.uri}: {one_line(error)}.") from error


def _snapshot(ref: TableRef, table: Table) -> Snapshot | None:
    """Return the snapshot that the reference names; None for a table without snapshots."""
    if ref.version is not None:
        snapshot = table.snapshot_by_id(ref.version)
        if snapshot is None:
            ids = one_of(snapshot.snapshot_id for snapshot in table.snapshots())
            raise TableError(f"{ref.uri} has no snapshot {ref.version}; it has {ids}.")
        return snapshot
    return table.current_snapshot()


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
        return location.unnamed_files(
            _OURS, lambda: {locate(table.io, name)[1] for name in _data_files(table.refresh())}
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


def locate(io: FileIO, location: str) -> tuple[FileSystem, str]:
    """Return the file system of a location, with the catalog's properties, and the path in it."""
    files = io if isinstance(io, PyArrowFileIO) else PyArrowFileIO(io.properties)
    scheme, host, path = PyArrowFileIO.parse_location(location)
    return files.fs_by_scheme(scheme, host), path


def arrow_schema(columns: Schema, *, include_field_ids: bool = False) -> pa.Schema:
    """Return the Arrow schema of a table, without large types; ids are metadata of its fields."""
    schema = schema_to_pyarrow(columns, include_field_ids=include_field_ids)
    small = [one.with_type(map_type(one.type, _without_large_type)) for one in schema]
    return pa.schema(small if include_field_ids else [(one.name, one.type) for one in small])


def _without_large_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    return pa.list_(kind.value_field) if pa.types.is_large_list(kind) else kind


def _check_readable(uri: str, task: FileScanTask) -> None:
    if task.file.file_format != FileFormat.PARQUET:
        raise TableMismatchError(
            f"{uri}: {task.file.file_path} is {task.file.file_format}; probclass only reads "
            "Parquet: rewrite the data files."
        )
