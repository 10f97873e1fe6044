"""Iceberg tables, read at one snapshot."""

from __future__ import annotations

import copy
import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Self

import pyarrow as pa
import pyarrow.dataset as ds
from pyiceberg import expressions as ice
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.transforms import IdentityTransform

from probclass_core.errors import ProbClassError, TableError, one_line, one_of
from probclass_core.io.filters import Where, expression, typed_conditions
from probclass_core.io.footers import FooterCache
from probclass_core.io.iceberg.files import IcebergFiles, plain_schema
from probclass_core.io.references import TableRef
from probclass_core.io.table import Plan

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


class IcebergTable:
    """An Iceberg table at the snapshot asked for, or at its newest.

    Manifests tell which files may hold the rows asked for: by the values of the partition, and by
    the bounds of columns for conditions given as a list. Columns are found by their ids, so a
    column that was renamed is found in older files, and one that was added is null there. Rows
    that position deletes take away are left out.

    Args:
        ref: the table.

    Raises:
        TableError: no such table or snapshot.
    """

    def __init__(self, ref: TableRef) -> None:
        self.uri = ref.uri
        self._ref = ref
        with said_by_iceberg(ref):
            self._table = opened(ref)
            self._snapshot = _snapshot(ref, self._table)
            # The newest rows are read by the newest schema, which may be newer than they are.
            pinned = None if ref.newest or self._snapshot is None else self._snapshot.snapshot_id
            self._scan = self._table.scan(snapshot_id=pinned)
            self._columns = self._scan.projection()
            self._schema = plain_schema(self._columns)
        self._footer_cache: FooterCache | None = None

    def with_footer_cache(self, cache: FooterCache) -> Self:
        """Return the same table with plans that open no file whose footer is in the cache."""
        table = copy.copy(self)
        table._footer_cache = cache
        return table

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    @cached_property
    def partition_columns(self) -> Sequence[str]:
        """Of the newest partitioning, whole values only, where all files are partitioned by them.

        A file of an earlier partitioning may hold rows of many values, and one by the month or a
        hash of a column holds rows of many values of that column.
        """
        with said_by_iceberg(self._ref):
            manifests = [] if self._snapshot is None else self._snapshot.manifests(self._table.io)
            specs = self._table.specs()
            used = [specs[number] for number in {file.partition_spec_id for file in manifests}]
            common = [
                {f.source_id for f in spec.fields if isinstance(f.transform, IdentityTransform)}
                for spec in (self._table.spec(), *used)
            ]
            shared = set.intersection(*common)
            names = [
                self._columns.find_column_name(field.source_id) or ""
                for field in self._table.spec().fields
                if field.source_id in shared
            ]
        return [name for name in names if name in self._schema.names]

    def partitions(self, where: Where = None) -> Sequence[Mapping[str, Any]]:
        expression(self._schema, None, where)  # refuses what is malformed
        return self._files(None, where).partitions(where)

    def plan(
        self,
        columns: Sequence[str] | None = None,
        *,
        partition: Mapping[str, Any] | None = None,
        where: Where = None,
        allow_dictionaries: bool = False,
    ) -> Plan:
        expression(self._schema, partition, where)  # refuses what is malformed
        files = self._files(partition, where)
        return files.plan(
            columns, partition=partition, where=where, allow_dictionaries=allow_dictionaries
        )

    def pieces(
        self, *, partition: Mapping[str, Any] | None = None, where: Where = None
    ) -> list[ds.Fragment]:
        """Files that may hold such rows; see `DatasetTable.pieces`."""
        expression(self._schema, partition, where)  # refuses what is malformed
        return self._files(partition, where).pieces(partition=partition, where=where)

    def name_of(self, piece: ds.Fragment) -> str:
        """The path or URI of a file; see `DatasetTable.name_of`."""
        scheme, remote, _ = self._table.location().partition("://")
        return f"{scheme}://{piece.path}" if remote and scheme != "file" else str(piece.path)

    def _files(self, partition: Mapping[str, Any] | None, where: Where) -> IcebergFiles:
        """Those that may hold such rows; all, where none may, to tell what there is instead."""
        conditions = typed_conditions(self._schema, partition, where)
        with said_by_iceberg(self._ref):
            pruned = self._scan.filter(all_of(map(self._term, conditions)))
            files = IcebergFiles(
                self._table,
                self._columns,
                list(pruned.plan_files()) or list(self._scan.plan_files()),
                uri=self.uri,
                partition_columns=self.partition_columns,
                version=None if self._snapshot is None else self._snapshot.snapshot_id,
            )
        return files if self._footer_cache is None else files.with_footer_cache(self._footer_cache)

    def _term(self, condition: tuple[str, str, Any]) -> ice.BooleanExpression:
        name, operator, value = condition
        # Plans are made by the newest names, whatever the snapshot.
        number = self._columns.find_field(name).field_id
        current = self._table.schema().find_column_name(number)
        return ice.AlwaysTrue() if current is None else predicate(current, operator, value)


def predicate(name: str, operator: str, value: Any) -> ice.BooleanExpression:
    """A condition as manifests are searched by it; no condition, where it cannot be said to them.

    Args:
        name: of the column.
        operator: as in `filters`.
        value: as the column has it.
    """
    try:
        if operator == "in":
            given = _PREDICATES["in"](name, [one for one in value if one is not None])
            return ice.Or(given, _PREDICATES["is null"](name)) if None in value else given
        if operator not in _PREDICATES:
            return ice.AlwaysTrue()
        if value is None:
            return _PREDICATES["is null"](name)
        return _PREDICATES[operator](name, value)
    except (TypeError, ValueError):  # not a number, or a type that no bounds are kept of
        return ice.AlwaysTrue()


def all_of(terms: Iterable[ice.BooleanExpression]) -> ice.BooleanExpression:
    """The terms together; no condition, where there are none."""
    whole: ice.BooleanExpression = ice.AlwaysTrue()
    for term in terms:
        whole = ice.And(whole, term)
    return whole


def catalog_of(ref: TableRef) -> tuple[Catalog, str]:
    """The catalog that a reference names, and the table's name in it.

    To be called within `said_by_iceberg`.

    Raises:
        TableError: the URI names no table.
    """
    catalog, _, name = ref.uri.removeprefix(SCHEME).partition("/")
    if not (ref.uri.startswith(SCHEME) and catalog and "." in name.strip(".")) or "/" in name:
        raise TableError(f"{ref.uri} names no table; write iceberg://catalog/namespace.table.")
    return load_catalog(catalog, **{key: str(value) for key, value in ref.options.items()}), name


def opened(ref: TableRef) -> Table:
    """The Iceberg table itself; to be called within `said_by_iceberg`."""
    catalog, name = catalog_of(ref)
    return catalog.load_table(name)


@contextmanager
def said_by_iceberg(ref: TableRef) -> Iterator[None]:
    """Turns what the Iceberg library says into an error of ours."""
    try:
        yield
    except ProbClassError:
        raise
    except NoSuchTableError as error:
        raise TableError(f"{ref.uri}: the catalog has no such table.") from error
    except Exception as error:
        if "equality deletes" in str(error):
            raise TableError(
                f"{ref.uri} deletes rows by equality, which cannot be read here; rewrite the data "
                "files so that nothing is left to delete."
            ) from error
        if str(error).startswith("URI missing"):
            catalog = ref.uri.removeprefix(SCHEME).partition("/")[0]
            raise TableError(
                f"{ref.uri}: nothing is known of a catalog {catalog!r}; configure it in "
                f".pyiceberg.yaml or by PYICEBERG_CATALOG__{catalog.upper()}__URI, or give the "
                "options of a TableRef."
            ) from error
        # Catalogs speak by SQLAlchemy, HTTP, Thrift or boto; what they raise has no common base.
        raise TableError(f"cannot read the Iceberg table {ref.uri}: {one_line(error)}.") from error


def _snapshot(ref: TableRef, table: Table) -> Snapshot | None:
    """The one asked for; none of a table that nothing was written to yet."""
    if ref.version is not None:
        found = table.snapshot_by_id(ref.version)
        if found is None:
            present = one_of(snapshot.snapshot_id for snapshot in table.snapshots())
            raise TableError(f"{ref.uri} has no snapshot {ref.version}; it has {present}.")
        return found
    if ref.timestamp is not None:
        moment = ref.timestamp
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=dt.UTC)
        found = table.snapshot_as_of_timestamp(int(moment.timestamp() * 1000))
        if found is None:
            raise TableError(f"{ref.uri} was not there at {ref.timestamp}.")
        return found
    return table.current_snapshot()
