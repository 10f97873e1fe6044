"""A table in a database as a source of rows, and of statistics that the database computes."""

from __future__ import annotations

import datetime
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any, Unpack

import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.arrow.arrays import in_slices, read_rows
from probclass_core.arrow.types import value_type
from probclass_core.errors import NotSupportedError, TableMismatchError
from probclass_core.estimation.statistics import Statistics
from probclass_core.io.filters import Where, typed_conditions
from probclass_core.io.references import TableRef
from probclass_core.io.table import Plan, Query, Source, Unit, columns_and_filter
from probclass_core.spec.model_spec import ModelSpec
from probclass_core.sql.aggregation import Aggregation, NeedsRows
from probclass_core.sql.connections import Database, SqlColumn, database_of, open_database
from probclass_core.sql.dialects import Dialect

log = logging.getLogger(__name__)

_OPERATORS = {"==": "=", "=": "=", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


@dataclass(frozen=True)
class _Address:
    """How to reach a table: an open connection, or the URI of a database to open each time.

    Attributes:
        table: the table as in `Dialect.source`.
        connection: an open connection, or None.
        uri: URI of the database, or None.
        options: arguments of the driver for the URI.
    """

    table: str | Sequence[str]
    connection: Any = None
    uri: str | None = None
    options: Mapping[str, Any] | None = None

    def open(self) -> AbstractContextManager[Database]:
        if self.uri is None:
            return nullcontext(database_of(self.connection))
        return open_database(self.uri, self.options or {})

    def __reduce__(self) -> tuple[Any, ...]:
        if self.uri is None:
            raise NotSupportedError(
                "a connection cannot be sent to another process; use engine='threads', or name "
                "the table by a URI such as 'duckdb://file.db::table'."
            )
        return _Address, (self.table, None, self.uri, self.options)


class SqlSource(Source):
    """A table in a database: a source wherever one is taken, such as by `fit` and `score`.

    `fit` and `summarize` let the database compute statistics by GROUP BY if every estimator of the
    spec has ``aggregates`` (see `AggregatedEstimator`); otherwise, and for all else, rows are read.

    Args:
        connection: an open connection of DuckDB, sqlite3, psycopg or psycopg2. It is only read
            from, and stays open.
        table: name such as ``"schema.table"``, whose parts are quoted; a list of such parts; or a
            query in parentheses.

    Attributes:
        uri: URI of the table, or None for one of a connection.
        columns: columns of the table, with how they are read.

    Raises:
        NotSupportedError: if the connection is something else.
        SpecError: if the name is empty.
        TableError: if there is no such table.
    """

    def __init__(self, connection: Any, table: str | Sequence[str]) -> None:
        self._address = _Address(table, connection)
        self.uri: str | None = None
        self._inspect()

    @classmethod
    def open(cls, ref: TableRef) -> SqlSource:
        """Open the table of a URI such as ``duckdb://file.db::table``.

        Raises:
            TableError: if the URI names no table, or there is none.
        """
        database, separator, table = ref.uri.rpartition("::")
        if not separator or not table:
            raise TableMismatchError(
                f"{ref.uri}: name the table after two colons, as in {ref.uri}::table."
            )
        source = cls.__new__(cls)
        source._address = _Address(table, uri=database, options=dict(ref.options))
        source.uri = ref.uri
        source._inspect()
        return source

    def _inspect(self) -> None:
        with self._address.open() as database:
            self.columns = database.columns(database.dialect.source(self._address.table))

    @cached_property
    def schema(self) -> pa.Schema:
        """All columns, with their types as Arrow."""
        return pa.schema([(name, column.type) for name, column in self.columns.items()])

    def plan(self, columns: Sequence[str] | None = None, **query: Unpack[Query]) -> Plan:
        """See `Source.plan`; the plan has one unit."""
        names, _ = columns_and_filter(self.schema, columns, query)
        partition, where = query.get("partition"), query.get("where")
        with self._address.open() as database:
            text = where_sql(database.dialect, self, partition, where)
        kept = {name: self.columns[name] for name in names}
        return Plan(
            pa.schema([self.schema.field(name) for name in names]),
            [_Rows(self._address, kept, text)],
            None,
            None,
        )


@dataclass(frozen=True)
class _Rows(Unit):
    """The rows of a table in a database that a condition selects, as a unit.

    Attributes:
        address: the table.
        columns: columns to read.
        where: condition as SQL, or "" for none.
    """

    address: _Address
    columns: Mapping[str, SqlColumn]
    where: str
    digest: None = None

    def __str__(self) -> str:
        return f"table {self.address.table}"

    def read(self) -> Iterator[pa.RecordBatch]:
        schema = pa.schema([(name, column.type) for name, column in self.columns.items()])
        with self.address.open() as database:
            dialect = database.dialect
            # A table can be read without its columns, for the number of its rows.
            listed = [column.read_as(dialect, name) for name, column in self.columns.items()]
            query = f"SELECT {', '.join(listed) or '1'} FROM {self._source(dialect)}"
            rows = read_rows(schema)
            for batch in database.batches(query, schema if listed else _ONE, rows):
                yield from in_slices([batch.select(schema.names)], rows)

    def aggregate(self, spec: ModelSpec) -> Statistics | None:
        """See `AggregatingUnit`."""
        with self.address.open() as database:
            source = self._source(database.dialect)
            try:
                return Aggregation(database, source, self.columns, spec).statistics()
            except NeedsRows as reason:
                log.info("%s: rows are read: %s.", self, reason)
                return None

    def _source(self, dialect: Dialect) -> str:
        return f"{dialect.source(self.address.table)} AS t{self.where}"


_ONE = pa.schema([("one", pa.int64())])


def where_sql(
    dialect: Dialect, table: SqlSource, partition: Mapping[str, Any] | None, where: Where
) -> str:
    """Conditions as SQL that selects the rows that Arrow selects.

    Raises:
        NotSupportedError: if it is an expression of Arrow, or a value is written differently in
            each database.
    """
    if isinstance(where, pc.Expression):
        raise _not_sql(where)
    parts = []
    for name, op, value in typed_conditions(table.schema, partition, where):
        kind = value_type(table.columns[name].type)
        column = table.columns[name].read_as(dialect, name)
        if op in ("in", "not in"):
            listed = ", ".join(_literal(dialect, item) for item in value)
            if not value:
                text = "1 = 0" if op == "in" else f"{column} IS NOT NULL"
            else:
                text = f"{column} {op.upper()} ({listed})"
        elif value is None:
            text = f"{column} IS {'NOT ' * (op == '!=')}NULL"
        else:
            literal = _literal(dialect, value)
            text = f"{column} {_OPERATORS[op]} {literal}"
            if pa.types.is_floating(kind) and dialect.is_nan is not None and op in (">", ">="):
                text += f" AND NOT {dialect.is_nan.format(column)}"  # to engines, NaN is above ∞
        parts.append(f"({text})")
    return f" WHERE {' AND '.join(parts)}" if parts else ""


def _literal(dialect: Dialect, value: Any) -> str:
    """A value as SQL.

    Raises:
        NotSupportedError: if it is written differently in each database.
    """
    if isinstance(value, bool | int | str):
        return dialect.value(value)
    if isinstance(value, float) and value == value:
        return dialect.literal(value)
    if isinstance(value, Decimal):
        return str(value)
    if type(value) is datetime.date:
        return f"DATE {dialect.string_literal(value.isoformat())}"
    if isinstance(value, datetime.datetime):
        kind = "TIMESTAMP" if value.tzinfo is None else "TIMESTAMP WITH TIME ZONE"
        return f"{kind} {dialect.string_literal(value.isoformat(sep=' '))}"
    raise _not_sql(value)


def _not_sql(condition: object) -> NotSupportedError:
    return NotSupportedError(
        f"{condition!r} in where cannot be written as SQL; give conditions such as 'x > 1', or "
        "select the rows by a view, or a query in parentheses in place of the table."
    )
