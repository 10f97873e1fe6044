"""Write a partition of an Iceberg table: replace it or append to it by one snapshot.

The new files have the column ids of the table, so they can be read without a name mapping, and
contain the partition columns, as the files of other writers do. One snapshot adds them and, for a
replacement, removes the previous files: no snapshot shows the partition empty.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow.fs import FileSystem, LocalFileSystem
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NoSuchTableError,
    TableAlreadyExistsError,
    ValidationException,
)
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionFieldValue, PartitionKey
from pyiceberg.table import FileScanTask, Table, Transaction
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record

from probclass_core.errors import ProbClassError, TableError, TableMismatchError, one_line
from probclass_core.io.commit.log_sink import LogSink, NewFile, PartitionFile, partition_key
from probclass_core.io.commit.parquet import COMMIT_KEY
from probclass_core.io.iceberg.table import (
    all_of,
    arrow_schema,
    catalog_and_name,
    locate,
    predicate,
    translate_iceberg_errors,
)
from probclass_core.io.parquet.files import FIELD_ID, typed_scalar
from probclass_core.io.sink import conflict

_NO_RETRIES = {"commit.retry.num-retries": "0"}


class IcebergSink(LogSink[Table]):
    """A sink for one partition, or a whole unpartitioned Iceberg table."""

    narrowest_int = 32

    def load(self) -> Table | None:
        with translate_iceberg_errors(self.ref):
            catalog, name = catalog_and_name(self.ref)
            try:
                return catalog.load_table(name)
            except NoSuchTableError:
                return None

    def partition_columns(self, table: Table) -> list[str]:
        spec, schema = table.spec(), table.schema()
        names = {field.source_id: schema.find_column_name(field.source_id) for field in spec.fields}
        for field in spec.fields:
            if not isinstance(field.transform, IdentityTransform):
                raise TableMismatchError(
                    f"{self.uri} is partitioned by {field.transform} of "
                    f"{names[field.source_id]!r}; probclass only replaces partitions by column "
                    "values: write another table."
                )
        return [str(name) for name in names.values()]

    def files_of_partition(self, table: Table) -> list[str]:
        return _file_names(self._tasks(table))

    def files_by_partition(self, table: Table) -> dict[frozenset[Any], list[str]]:
        # Files of an earlier partitioning get other keys; `_tasks` refuses them.
        schema, specs = table.schema(), table.specs()
        columns = arrow_schema(schema)
        tasks: dict[frozenset[Any], list[FileScanTask]] = {}
        with translate_iceberg_errors(self.ref):
            for task in table.scan().plan_files():
                values = {}
                for number, field in enumerate(specs[task.file.spec_id].fields):
                    name = str(schema.find_column_name(field.source_id))
                    stored = task.file.partition[number]
                    values[name] = typed_scalar(stored, columns.field(name).type).as_py()
                tasks.setdefault(partition_key(values), []).append(task)
        return {key: _file_names(some) for key, some in tasks.items()}

    def locate(self, table: Table | None, name: str) -> tuple[str, FileSystem]:
        if table is None:
            raise FileNotFoundError(name)
        filesystem, path = locate(table.io, name)
        return path, filesystem

    def columns(self, table: Table) -> pa.Schema:
        return self.portable(arrow_schema(table.schema()))

    def new_file(self, table: Table | None, schema: pa.Schema, name: str) -> NewFile:
        with translate_iceberg_errors(self.ref):
            if table is None:
                created = self._create(schema)
                metadata = created.table_metadata
                io = created._table.io  # with the credentials that a catalog may give for the table
            else:
                metadata, io = table.metadata, table.io
                if self._lacking(table, schema):  # else the library need not copy all of it
                    metadata = self._evolved(table, schema).table_metadata
            provider = load_location_provider(metadata.location, metadata.properties)
            key = self._partition_key(metadata) if self.partition else None
            uri = provider.new_data_location(name, key)
            with_ids = arrow_schema(metadata.schema(), include_field_ids=True)
            fields = [with_ids.field(column) for column in (*schema.names, *self.partition)]
            filesystem, path = locate(io, uri)
        return NewFile(uri, path, filesystem, pa.schema(fields))

    def log_records(self, table: Table) -> list[dict[str, Any] | None]:
        records: list[dict[str, Any] | None] = []
        snapshot = table.current_snapshot()
        while snapshot is not None:
            summary = snapshot.summary
            if summary is not None and COMMIT_KEY in summary.additional_properties:
                records.append(json.loads(summary.additional_properties[COMMIT_KEY]))
            elif summary is None or summary.operation not in (Operation.APPEND, Operation.REPLACE):
                records.append(None)
            parent = snapshot.parent_snapshot_id
            snapshot = None if parent is None else table.snapshot_by_id(parent)
        return records[::-1]

    def try_commit(
        self,
        table: Table | None,
        files: Sequence[PartitionFile],
        properties: Mapping[str, str],
        *,
        append: bool,
    ) -> list[Path] | None:
        replaced = [] if append else self._tasks(table)
        try:
            if table is None:
                schema = files[0].file.schema
                row_columns = list(schema)[: len(schema) - len(self.partition)]
                transaction = self._create(pa.schema(row_columns))
            else:
                table.metadata = table.metadata.model_copy(update=_for_commit(table.metadata))
                transaction = self._evolved(table, files[0].file.schema if files else pa.schema([]))
            metadata = transaction.table_metadata
            data_files = [self._data_file(metadata, file) for file in files]
            update = transaction.update_snapshot(snapshot_properties=dict(properties))
            # An overwrite reads the manifests of all partitions, in search of the replaced files.
            with update.overwrite() if replaced else update.fast_append() as snapshot:
                for task in replaced:
                    snapshot.delete_data_file(task.file)
                for data_file in data_files:
                    snapshot.append_data_file(data_file)
            committed = transaction.commit_transaction()
        except (CommitFailedException, TableAlreadyExistsError, ValidationException):
            return None
        except ProbClassError:
            raise
        except Exception as error:
            # The errors of catalogs have no common base; see `translate_iceberg_errors`.
            raise TableError(f"cannot write {self.location}: {one_line(error)}.") from error
        return _local_metadata(committed)

    def _tasks(self, table: Table | None) -> list[FileScanTask]:
        """Return the partition's data files, each with its delete files.

        Raises:
            TableError: if a file may contain rows of other partitions.
        """
        if table is None:
            return []
        with translate_iceberg_errors(self.ref):
            values = self.partition_values(arrow_schema(table.schema()))
            terms = [predicate(name, "==", value) for name, value in values.items()]
            tasks = list(table.scan(row_filter=all_of(terms)).plan_files())
        for task in tasks:
            if task.residual != AlwaysTrue():
                raise TableMismatchError(
                    f"{self.uri}: {task.file.file_path} was written under an earlier partitioning "
                    "and may contain rows of other partitions; rewrite the data files under the "
                    "current one."
                )
        return tasks

    def _create(self, schema: pa.Schema) -> Transaction:
        """Start to create the table.

        Args:
            schema: schema of the rows, without the partition columns.
        """
        catalog, name = catalog_and_name(self.ref)
        _create_namespace(catalog, name.rpartition(".")[0])
        columns = self.portable(pa.schema([*schema.remove_metadata(), *self.partition_fields]))
        transaction = catalog.create_table_transaction(name, schema=columns)
        if self.partition:
            with transaction.update_spec() as spec:
                for column in self.partition:
                    spec.add_identity(column)
        return transaction

    def _evolved(self, table: Table, rows: pa.Schema) -> Transaction:
        """Start to change the table, which gains the columns of rows that it lacks."""
        transaction = table.transaction()
        if columns := self._lacking(table, rows):
            with transaction.update_schema() as update:
                update.union_by_name(pa.schema(columns))
        return transaction

    def _lacking(self, table: Table, rows: pa.Schema) -> list[pa.Field]:
        """The columns of rows that the table lacks."""
        names = self.columns(table).names
        return [field.with_nullable(True) for field in rows if field.name not in names]

    def _partition_key(self, metadata: TableMetadata) -> PartitionKey:
        """Return the partition as manifests and paths represent it."""
        schema, spec = metadata.schema(), metadata.spec()
        values = self.partition_values(arrow_schema(schema))
        fields = [
            PartitionFieldValue(field, values[str(schema.find_column_name(field.source_id))])
            for field in spec.fields
        ]
        return PartitionKey(fields, spec, schema)

    def _data_file(self, metadata: TableMetadata, file: PartitionFile) -> DataFile:
        """Return the manifest entry of a file, with sizes, counts and bounds of its columns."""
        schema, columns = metadata.schema(), file.file.schema
        ids = {name: schema.find_field(name).field_id for name in columns.names}
        if ids != {column.name: int(column.metadata[FIELD_ID]) for column in columns}:
            raise conflict(self.uri, "was created or got columns")
        statistics = data_file_statistics_from_parquet_metadata(
            file.finish(),
            compute_statistics_plan(schema, metadata.properties),
            parquet_path_to_id_mapping(schema),
        )
        return DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=file.file.name,
            file_format=FileFormat.PARQUET,
            partition=self._partition_key(metadata).partition if self.partition else Record(),
            file_size_in_bytes=file.bytes,
            sort_order_id=None,
            spec_id=metadata.default_spec_id,
            equality_ids=None,
            key_metadata=None,
            **statistics.to_serialized_dict(),
        )


def _for_commit(metadata: TableMetadata) -> dict[str, Any]:
    """What differs in the metadata that a commit is prepared from; the catalog has its own."""
    current = metadata.current_snapshot()
    return {
        # Never retried by the library: the caller first looks at the partition again.
        "properties": {**metadata.properties, **_NO_RETRIES},
        # The library copies all of it a dozen times in each commit, so that hundreds of earlier
        # snapshots would take most of the time.
        "snapshots": [] if current is None else [current],
        "snapshot_log": [],
    }


def _file_names(tasks: Sequence[FileScanTask]) -> list[str]:
    deletes = {file.file_path for task in tasks for file in task.delete_files}
    return sorted({*deletes, *(task.file.file_path for task in tasks)})


def _create_namespace(catalog: Catalog, name: str) -> None:
    """Create a namespace, unless it exists or another writer creates it at the same time."""
    if catalog.namespace_exists(name):
        return
    try:
        catalog.create_namespace(name)
    except Exception:
        if not catalog.namespace_exists(name):
            raise


def _local_metadata(table: Table) -> list[Path]:
    """The files that the last commit of a table added to its metadata, if they are on a disk."""
    filesystem, path = locate(table.io, table.metadata_location)
    if not isinstance(filesystem, LocalFileSystem):
        return []
    uris = []
    if snapshot := table.current_snapshot():
        manifests = snapshot.manifests(table.io)
        added = [one for one in manifests if one.added_snapshot_id == snapshot.snapshot_id]
        uris = [snapshot.manifest_list, *(manifest.manifest_path for manifest in added)]
    return [Path(path), *(Path(locate(table.io, uri)[1]) for uri in uris)]
