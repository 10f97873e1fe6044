"""A partition of an Iceberg table, replaced or added to by one snapshot.

The new files carry the table's column ids, so that no mapping of names is needed to read them, and
the values of the partition beside the rows, as other writers have it. One snapshot names them and,
unless rows are only added, no longer names what stood there: none in the table's history shows the
partition empty.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.fs import FileSystem
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
from pyiceberg.types import IcebergType, ListType, NestedField, StructType

from probclass_core.errors import ProbClassError, TableError, one_line
from probclass_core.io.commit.log_sink import LogSink, NewFile
from probclass_core.io.commit.parquet_writer import COMMIT_KEY
from probclass_core.io.commit.portable_types import lasting_schema
from probclass_core.io.iceberg.files import FIELD_ID, located, plain_schema
from probclass_core.io.iceberg.table import all_of, catalog_of, predicate, said_by_iceberg

_ONE_TRY = {"commit.retry.num-retries": "0"}


class IcebergSink(LogSink[Table]):
    """Where one partition (or a whole unpartitioned Iceberg table) is to stand."""

    def table(self) -> Table | None:
        with said_by_iceberg(self.ref):
            catalog, name = catalog_of(self.ref)
            try:
                return catalog.load_table(name)
            except NoSuchTableError:
                return None

    def partition_columns(self, table: Table) -> list[str]:
        spec, schema = table.spec(), table.schema()
        names = {field.source_id: schema.find_column_name(field.source_id) for field in spec.fields}
        for field in spec.fields:
            if not isinstance(field.transform, IdentityTransform):
                raise TableError(
                    f"{self.uri} is partitioned by {field.transform} of "
                    f"{names[field.source_id]!r}; only partitions of whole values can be replaced: "
                    "write another table."
                )
        return [str(name) for name in names.values()]

    def standing_files(self, table: Table | None) -> list[str]:
        tasks = self._standing(table)
        deletes = {file.file_path for task in tasks for file in task.delete_files}
        return sorted({*deletes, *(task.file.file_path for task in tasks)})

    def located(self, table: Table | None, name: str) -> tuple[str, FileSystem]:
        if table is None:
            raise FileNotFoundError(name)
        filesystem, path = located(table.io, name)
        return path, filesystem

    def lasting(self, schema: pa.Schema) -> pa.Schema:
        return lasting_schema(schema, narrowest=32)

    def columns(self, table: Table) -> pa.Schema:
        return self.lasting(plain_schema(table.schema()))

    def new_file(self, table: Table | None, schema: pa.Schema, name: str) -> NewFile:
        with said_by_iceberg(self.ref):
            if table is None:
                created = self._creation(schema)
                metadata = created.table_metadata
                io = created._table.io  # with credentials that a catalog may give for this table
            else:
                metadata, io = table.metadata, table.io
            provider = load_location_provider(metadata.location, metadata.properties)
            key = self._key(metadata) if self.partition else None
            address = provider.new_data_location(name, key)
            columns = metadata.schema()
            fields = [columns.find_field(column) for column in (*schema.names, *self.partition)]
            types = [*schema.types, *(plain_schema(columns).field(n).type for n in self.partition)]
            held = pa.schema(
                [
                    _with_ids(pa.field("", kind), field)
                    for kind, field in zip(types, fields, strict=True)
                ]
            )
            filesystem, path = located(io, address)
        return NewFile(address, path, filesystem, held)

    def logged(self, table: Table) -> list[dict[str, Any] | None]:
        found: list[dict[str, Any] | None] = []
        snapshot = table.current_snapshot()
        while snapshot is not None:
            told = snapshot.summary
            if told is not None and COMMIT_KEY in told.additional_properties:
                found.append(json.loads(told.additional_properties[COMMIT_KEY]))
            elif told is None or told.operation not in (Operation.APPEND, Operation.REPLACE):
                found.append(None)
            parent = snapshot.parent_snapshot_id
            snapshot = None if parent is None else table.snapshot_by_id(parent)
        return found[::-1]

    def put(
        self,
        table: Table | None,
        files: Sequence[tuple[NewFile, pq.FileMetaData]],
        commit: Mapping[str, Any],
        *,
        more: bool,
    ) -> bool:
        standing = [] if more else self._standing(table)
        try:
            if table is None:
                held = files[0][0].schema
                rows = held.names[: len(held) - len(self.partition)]
                changed: Transaction = self._creation(pa.schema([held.field(n) for n in rows]))
            else:
                # Whether to try again is for the caller to say, who looks at the partition first.
                properties = {**table.metadata.properties, **_ONE_TRY}
                table.metadata = table.metadata.model_copy(update={"properties": properties})
                changed = table.transaction()
            record = {COMMIT_KEY: json.dumps(dict(commit), sort_keys=True)}
            added = [self._data_file(changed.table_metadata, *each) for each in files]
            update = changed.update_snapshot(snapshot_properties=record)
            with update.fast_append() if more else update.overwrite() as snapshot:
                for task in standing:
                    snapshot.delete_data_file(task.file)
                for data_file in added:
                    snapshot.append_data_file(data_file)
            changed.commit_transaction()
        except (CommitFailedException, TableAlreadyExistsError, ValidationException):
            return False
        except ProbClassError:
            raise
        except Exception as error:
            # What catalogs raise has no common base; see `said_by_iceberg`.
            raise TableError(f"cannot write {self.location}: {one_line(error)}.") from error
        return True

    def _standing(self, table: Table | None) -> list[FileScanTask]:
        """The partition's files, with those that delete rows of theirs.

        Raises:
            TableError: one of them may hold rows of other partitions.
        """
        if table is None:
            return []
        with said_by_iceberg(self.ref):
            held = plain_schema(table.schema())
            terms = [
                predicate(name, "==", self.typed(name, held.field(name).type))
                for name in self.partition
            ]
            tasks = list(table.scan(row_filter=all_of(terms)).plan_files())
        for task in tasks:
            if task.residual != AlwaysTrue():
                raise TableError(
                    f"{self.uri}: {task.file.file_path} is of an earlier partitioning and may hold "
                    "rows of other partitions; rewrite the data files by the present one."
                )
        return tasks

    def _creation(self, schema: pa.Schema) -> Transaction:
        """The making of the table, with rows of such a schema and the partition's columns."""
        catalog, name = catalog_of(self.ref)
        _make_namespace(catalog, name.rpartition(".")[0])
        columns = self.lasting(pa.schema([*schema.remove_metadata(), *self.partition_fields]))
        made = catalog.create_table_transaction(name, schema=columns)
        if self.partition:
            with made.update_spec() as spec:
                for column in self.partition:
                    spec.add_identity(column)
        return made

    def _key(self, metadata: TableMetadata) -> PartitionKey:
        """The partition, as manifests and paths have it."""
        schema, spec = metadata.schema(), metadata.spec()
        held = plain_schema(schema)
        values = []
        for field in spec.fields:
            name = str(schema.find_column_name(field.source_id))
            values.append(PartitionFieldValue(field, self.typed(name, held.field(name).type)))
        return PartitionKey(values, spec, schema)

    def _data_file(
        self, metadata: TableMetadata, file: NewFile, footer: pq.FileMetaData
    ) -> DataFile:
        """The entry of the manifest, with sizes, counts and bounds of the columns."""
        schema = metadata.schema()
        ids = {name: schema.find_field(name).field_id for name in file.schema.names}
        if ids != {f.name: int(f.metadata[FIELD_ID]) for f in file.schema}:
            raise TableError(
                f"{self.uri} was made by another writer meanwhile, with its columns in another "
                "order; nothing was changed by this one: run it again."
            )
        statistics = data_file_statistics_from_parquet_metadata(
            footer,
            compute_statistics_plan(schema, metadata.properties),
            parquet_path_to_id_mapping(schema),
        )
        (info,) = file.filesystem.get_file_info([file.path])
        return DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=file.name,
            file_format=FileFormat.PARQUET,
            partition=self._key(metadata).partition if self.partition else Record(),
            file_size_in_bytes=info.size,
            sort_order_id=None,
            spec_id=metadata.default_spec_id,
            equality_ids=None,
            key_metadata=None,
            **statistics.to_serialized_dict(),
        )


def _make_namespace(catalog: Catalog, name: str) -> None:
    """A namespace, where there is none and nobody makes it at the same time."""
    if catalog.namespace_exists(name):
        return
    try:
        catalog.create_namespace(name)
    except Exception:
        if not catalog.namespace_exists(name):
            raise


def _with_ids(field: pa.Field, column: NestedField) -> pa.Field:
    """A field of a data file, by the column's name and id."""
    return pa.field(
        column.name,
        _type_with_ids(field.type, column.field_type),
        nullable=column.optional,
        metadata={FIELD_ID: str(column.field_id)},
    )


def _type_with_ids(kind: pa.DataType, column: IcebergType) -> pa.DataType:
    if isinstance(column, ListType):
        return pa.list_(_with_ids(kind.value_field, column.element_field))
    if isinstance(column, StructType):
        return pa.struct([_with_ids(kind.field(part.name), part) for part in column.fields])
    return kind
