"""Read an Iceberg table at one snapshot."""

from __future__ import annotations

import copy
import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self

import pyarrow as pa
import pyarrow.dataset as ds
from pyiceberg import expressions as ice
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.transforms import IdentityTransform

from probclass_core.errors import ProbClassError, TableError, TableMismatchError, one_line, one_of
from probclass_core.io.filters import Where, expression, typed_conditions
from probclass_core.io.footers import Footer
from probclass_core.io.iceberg.files import IcebergFiles, arrow_schema
from probclass_core.io.references import TableRef
from probclass_core.io.storage_options import pyiceberg_options
from probclass_core.io.table import Plan, Source

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


class IcebergTable(Source):
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
        self.uri = ref.uri
        self._ref = ref
        with translate_iceberg_errors(ref):
            self._table = open_iceberg(ref)
            self._snapshot = _snapshot(ref, self._table)
            # Without a pinned snapshot, the newest rows are read with the newest schema, which may
            # be newer than the snapshot.
            pinned = None if ref.newest or self._snapshot is None else self._snapshot.snapshot_id
            self._scan = self._table.scan(snapshot_id=pinned)
            self._columns = self._scan.projection()
            self._schema = arrow_schema(self._columns)
            self.partition_columns = self._partition_columns()
        self._footer_cache: Mapping[str, Footer] | None = None

    def with_footer_cache(self, cache: Mapping[str, Footer]) -> Self:
        table = copy.copy(self)
        table._footer_cache = cache
        return table

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def _partition_columns(self) -> list[str]:
        """The columns whose values partition every file, in the order of the newest partitioning.

        A file of an earlier partitioning may contain rows with different values of a column, and
        so may a file partitioned by the month or a hash of it; such columns are left out.
        """
        manifests = [] if self._snapshot is None else self._snapshot.manifests(self._table.io)
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
        return [name for name in names if name in self._schema.names]

    def partitions(self, where: Where = None) -> Sequence[Mapping[str, Any]]:
        return self._files(None, where).partitions(where)

    def plan(
        self,
        columns: Sequence[str] | None = None,
        *,
        partition: Mapping[str, Any] | None = None,
        where: Where = None,
        allow_dictionaries: bool = False,
    ) -> Plan:
        files = self._files(partition, where)
        return files.plan(
            columns, partition=partition, where=where, allow_dictionaries=allow_dictionaries
        )

    def parquet_files(
        self, *, partition: Mapping[str, Any] | None = None, where: Where = None
    ) -> Sequence[tuple[str, ds.Fragment]] | None:
        return self._files(partition, where).parquet_files(partition=partition, where=where)

    def _files(self, partition: Mapping[str, Any] | None, where: Where) -> IcebergFiles:
        """Return the files that may contain such rows.

        If no file may, return all of them, so that an error can list the partitions that exist.
        """
        expression(self._schema, partition, where)  # raises if the filter is invalid
        conditions = typed_conditions(self._schema, partition, where)
        with translate_iceberg_errors(self._ref):
            pruned = self._scan.filter(all_of(map(self._term, conditions)))
            files = IcebergFiles(
                self._table,
                self._columns,
                list(pruned.plan_files()) or list(self._scan.plan_files()),
                uri=self._ref.uri,
                partition_columns=self.partition_columns,
                version=None if self._snapshot is None else self._snapshot.snapshot_id,
            )
        return files if self._footer_cache is None else files.with_footer_cache(self._footer_cache)

    def _term(self, condition: tuple[str, str, Any]) -> ice.BooleanExpression:
        name, operator, value = condition
        # A scan resolves names by the newest schema, whatever its snapshot.
        column_id = self._columns.find_field(name).field_id
        newest_name = self._table.schema().find_column_name(column_id)
        return ice.AlwaysTrue() if newest_name is None else predicate(newest_name, operator, value)


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
    conjunction: ice.BooleanExpression = ice.AlwaysTrue()
    for term in terms:
        conjunction = ice.And(conjunction, term)
    return conjunction


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
    if ref.timestamp is not None:
        moment = ref.timestamp
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=dt.UTC)
        snapshot = table.snapshot_as_of_timestamp(int(moment.timestamp() * 1000))
        if snapshot is None:
            raise TableError(f"{ref.uri} did not exist at {ref.timestamp}.")
        return snapshot
    return table.current_snapshot()
