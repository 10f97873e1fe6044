"""Databases: an open connection, or the URI of one, behind one interface.

A connection of DuckDB or of a DB-API driver gives the columns of a table and the result
of a query as Arrow batches, and runs statements in a transaction.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa

from probclass_core.arrow.types import in_safe_types, safe_types
from probclass_core.errors import (
    DataError,
    NotSupportedError,
    TableError,
    TableMismatchError,
    hide_credentials,
    one_line,
)
from probclass_core.sql.dialects import Dialect, find_dialect

_PER_QUERY = 1_000
"""Columns whose types are found by one query of SQLite, which allows 2,000 results."""


@dataclass(frozen=True)
class SqlColumn:
    """A column of a table in a database.

    Attributes:
        type: type of its values as Arrow.
        cast: type of the database to cast it to before it is read, or None.
    """

    type: pa.DataType
    cast: str | None = None

    def read_as(self, dialect: Dialect, name: str) -> str:
        """The column of this name as it is read from ``t``, as SQL."""
        text = f"t.{dialect.identifier(name)}"
        text = text if self.cast is None else f"CAST({text} AS {self.cast})"
        return dialect.binary.format(text) if _is_text(self.type) else text


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


class Database(ABC):
    """An open database.

    Args:
        connection: its connection, which stays open.

    Attributes:
        name: name of the database, for messages.
        dialect: its dialect.
        drivers: modules of its connections and their exceptions.
        begin: statement that begins a transaction.
    """

    name: str
    dialect: Dialect
    drivers: tuple[str, ...]
    begin = "BEGIN"

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    @staticmethod
    @abstractmethod
    def connect(uri: str, path: str, options: Mapping[str, Any]) -> Any:
        """Open a connection of the driver, to read.

        Args:
            uri: URI of the database.
            path: the same without the scheme.
            options: further arguments of the driver's ``connect``.

        Raises:
            TableError: if there is no such database.
            NotSupportedError: if its driver is not installed.
        """

    @abstractmethod
    def columns(self, source: str) -> dict[str, SqlColumn]:
        """The columns of a table.

        Args:
            source: the table or query as SQL, see `Dialect.source`.

        Raises:
            TableError: if there is no such table.
        """

    @abstractmethod
    def batches(self, query: str, schema: pa.Schema, rows: int) -> Iterator[pa.RecordBatch]:
        """The result of a query, in batches of about some rows.

        Args:
            query: a SELECT.
            schema: names and types of the result.
            rows: rows of a batch.

        Raises:
            TableError: if the query fails.
        """

    def described(self, source: str) -> list[tuple[Any, ...]]:
        """The columns of a table as the driver describes them: name, number of the type, ….

        Args:
            source: see `columns`.

        Raises:
            TableError: if there is no such table.
        """
        with self.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {source} AS t LIMIT 0")
            return list(cursor.description)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """The rows of a small result.

        Raises:
            TableError: if the query fails.
        """
        with self.cursor() as cursor:
            cursor.execute(query)
            found: list[tuple[Any, ...]] = cursor.fetchall()
            return found

    def execute(self, statement: str) -> None:
        """Run a statement without a result.

        Raises:
            TableError: if it fails.
        """
        with self.cursor() as cursor:
            cursor.execute(statement)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """A transaction, which is rolled back after an exception.

        Raises:
            TableError: if there is one already, or its commit fails.
            NotSupportedError: if the connection cannot tell.
        """
        if self.in_transaction:
            raise TableMismatchError(
                "the connection has an open transaction; commit it or roll it back first."
            )
        self.execute(self.begin)
        try:
            yield
            self.execute("COMMIT")
        except BaseException:
            with suppress(TableError):  # the first error counts; some end the transaction
                self.execute("ROLLBACK")
            raise

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open; also False if BEGIN within one is an error."""
        return False

    @contextmanager
    def cursor(self, *arguments: Any, **options: Any) -> Iterator[Any]:
        """A cursor of the driver, whose errors are translated."""
        with _errors_of(self.name), closing(self._connection.cursor(*arguments, **options)) as one:
            yield one


def database_of(connection: Any) -> Database:
    """An open connection as a database.

    Args:
        connection: of DuckDB, sqlite3, psycopg or psycopg2.

    Raises:
        NotSupportedError: if it is something else, or a database without a dialect.
    """
    for database in _DATABASES:
        if _modules(connection) & set(database.drivers):
            return database(connection)
    kind = f"{type(connection).__module__}.{type(connection).__qualname__}"
    raise NotSupportedError(
        f"{kind} is not a connection that SqlSource reads; give a connection of duckdb, sqlite3, "
        "psycopg or psycopg2; of an engine of SQLAlchemy, "
        "engine.raw_connection().driver_connection."
    )


@contextmanager
def open_database(uri: str, options: Mapping[str, Any]) -> Iterator[Database]:
    """Open the database at a URI, to read it.

    Args:
        uri: ``duckdb://file.db`` or ``sqlite://file.db``, with a third slash before an absolute
            path; or ``postgresql://user@host/database``, where what is missing comes from the
            environment of PostgreSQL, such as ``PGPASSWORD``.
        options: further arguments of the driver's ``connect``.

    Raises:
        TableError: if there is no such database, or it cannot be opened.
        NotSupportedError: if its driver is not installed.
    """
    scheme, _, path = uri.partition("://")
    dialect = find_dialect(scheme)
    database = next(kind for kind in _DATABASES if kind.dialect is dialect)
    with _errors_of(hide_credentials(uri)):
        connection = database.connect(uri, path, options)
    with closing(connection):
        yield database(connection)


def _check_file(uri: str, path: str) -> None:
    """Refuse the URI of a file that does not exist, which a driver would create."""
    if not Path(path).is_file():
        scheme, instead = uri.removesuffix(path), path.lstrip("/")
        fix = "."
        if path.startswith("/") and Path(instead).is_file():
            fix = f"; a relative path has two slashes: {scheme}{instead}."
        raise TableMismatchError(f"{hide_credentials(uri)}: there is no file {path}{fix}")


def _driver(uri: str, name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise NotSupportedError(f"{uri} needs {name}: pip install {name}.") from error


@contextmanager
def _errors_of(what: str) -> Iterator[None]:
    """Raise TableError for an error of a driver."""
    try:
        yield
    except Exception as error:
        if not _modules(error) & {name for kind in _DATABASES for name in kind.drivers}:
            raise
        text = hide_credentials(one_line(error))
        raise TableError(
            f"{what}: {text}{'' if text.endswith(('.', '?', '!')) else '.'}"
        ) from error


class _DuckDb(Database):
    """A connection of DuckDB, which gives Arrow."""

    name, dialect, drivers = "DuckDB", find_dialect("duckdb"), ("duckdb", "_duckdb")

    @staticmethod
    def connect(uri: str, path: str, options: Mapping[str, Any]) -> Any:
        _check_file(uri, path)
        return _driver(uri, "duckdb").connect(path, read_only=True, config=dict(options))

    @contextmanager
    def cursor(self, *arguments: Any, **options: Any) -> Iterator[Any]:
        with _errors_of(self.name):
            yield self._connection  # a cursor would have transactions of its own

    def columns(self, source: str) -> dict[str, SqlColumn]:
        with _errors_of(self.name):
            schema = self._reader(f"SELECT * FROM {source} AS t LIMIT 0", 1).schema
        columns = {}
        for column in safe_types(schema):
            extension = isinstance(column.type, pa.BaseExtensionType)
            kind = column.type.storage_type if extension else column.type
            # Some types without collations, such as JSON, are text to Arrow.
            columns[column.name] = SqlColumn(kind, "VARCHAR" if _is_text(kind) else None)
        return columns

    def batches(self, query: str, schema: pa.Schema, rows: int) -> Iterator[pa.RecordBatch]:
        with _errors_of(self.name):
            for batch in self._reader(query, rows):
                yield in_safe_types(batch).rename_columns(schema.names).cast(schema)

    def _reader(self, query: str, rows: int) -> pa.RecordBatchReader:
        relation = self._connection.sql(query)
        if hasattr(relation, "to_arrow_reader"):
            return relation.to_arrow_reader(rows)
        return relation.fetch_arrow_reader(rows)  # before DuckDB 1.4


class _Sqlite(Database):
    """A connection of sqlite3, whose columns have no types: their values do."""

    name, dialect, drivers = "SQLite", find_dialect("sqlite"), ("sqlite3",)
    begin = "BEGIN IMMEDIATE"

    @staticmethod
    def connect(uri: str, path: str, options: Mapping[str, Any]) -> Any:
        import sqlite3

        _check_file(uri, path)
        return sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro", uri=True, **options)

    @contextmanager
    def cursor(self, *arguments: Any, **options: Any) -> Iterator[Any]:
        with super().cursor() as cursor:
            cursor.row_factory = None
            yield cursor

    def columns(self, source: str) -> dict[str, SqlColumn]:
        declared: dict[str, str] = {}
        if not source.startswith("("):
            table = source.rpartition("`.`")[2].strip("`").replace("``", "`")
            info = f"SELECT name, type FROM pragma_table_info({self.dialect.text(table)})"
            declared = {name: str(kind).upper() for name, kind in self.rows(info)}
        names = [column[0] for column in self.described(source)]
        columns: dict[str, SqlColumn] = {}
        for start in range(0, len(names), _PER_QUERY):
            part = names[start : start + _PER_QUERY]
            texts = [f"t.{self.dialect.identifier(name)}" for name in part]
            counts = [f"GROUP_CONCAT(DISTINCT typeof({x})), MAX({x} NOT IN (0, 1))" for x in texts]
            (row,) = self.rows(f"SELECT {', '.join(counts)} FROM {source} AS t")
            for name, kinds, other in zip(part, row[::2], row[1::2], strict=True):
                found, words = (kinds or "").split(","), declared.get(name, "")
                is_bool = words.startswith("BOOL") and not other
                columns[name] = _sqlite_column(found, words, is_bool)
        return columns

    def batches(self, query: str, schema: pa.Schema, rows: int) -> Iterator[pa.RecordBatch]:
        with self.cursor() as cursor:
            cursor.execute(query)
            yield from _fetched(cursor, schema, rows)

    @property
    def in_transaction(self) -> bool:
        return bool(self._connection.in_transaction)


_SQLITE_TYPES: Mapping[str, SqlColumn] = {
    "text": SqlColumn(pa.string(), "TEXT"),
    "blob": SqlColumn(pa.binary()),
    "bool": SqlColumn(pa.bool_()),
    "real": SqlColumn(pa.float64(), "REAL"),
    "integer": SqlColumn(pa.int64()),
}
"""Columns by the type of some of their values; the first one that there is counts."""

_AFFINITIES: Mapping[str, str] = {
    "INT": "integer",
    **dict.fromkeys(("CHAR", "CLOB", "TEXT"), "text"),
    **dict.fromkeys(("REAL", "FLOA", "DOUB", "NUM", "DEC"), "real"),
}
"""Types by words of the declared type: SQLite's rules of affinity."""


def _sqlite_column(kinds: Sequence[str], declared: str, is_bool: bool) -> SqlColumn:
    """A column with values of some types; one of nulls only has the type that was declared."""
    if is_bool and not {*kinds} & {"text", "blob", "real"}:
        kinds = ["bool"]
    of_values = [kind for kind in _SQLITE_TYPES if kind in kinds]
    of_words = [kind for word, kind in _AFFINITIES.items() if word in declared]
    found = next(iter(of_values or of_words), None)
    return SqlColumn(pa.null()) if found is None else _SQLITE_TYPES[found]


_POSTGRES_TYPES: Mapping[int, SqlColumn] = {
    16: SqlColumn(pa.bool_()),
    20: SqlColumn(pa.int64()),
    21: SqlColumn(pa.int16()),
    23: SqlColumn(pa.int32()),
    700: SqlColumn(pa.float64(), "DOUBLE PRECISION"),
    701: SqlColumn(pa.float64()),
    1700: SqlColumn(pa.float64(), "DOUBLE PRECISION"),
    25: SqlColumn(pa.string()),
    1043: SqlColumn(pa.string()),
    1082: SqlColumn(pa.date32()),
    1114: SqlColumn(pa.timestamp("us")),
    1184: SqlColumn(pa.timestamp("us", "UTC")),
    1009: SqlColumn(pa.list_(pa.string())),
    1015: SqlColumn(pa.list_(pa.string())),
}
"""Columns by the number of their type; others are read as text."""


class _Postgres(Database):
    """A connection of psycopg or psycopg2."""

    name, dialect, drivers = "PostgreSQL", find_dialect("postgres"), ("psycopg", "psycopg2")

    @staticmethod
    def connect(uri: str, path: str, options: Mapping[str, Any]) -> Any:
        driver = _driver(uri, "psycopg")
        connection = driver.connect(uri, **options)
        connection.read_only = True
        # One state of the table for all queries.
        connection.isolation_level = driver.IsolationLevel.REPEATABLE_READ
        return connection

    def columns(self, source: str) -> dict[str, SqlColumn]:
        other = SqlColumn(pa.string(), "TEXT")
        return {one[0]: _POSTGRES_TYPES.get(one[1], other) for one in self.described(source)}

    def batches(self, query: str, schema: pa.Schema, rows: int) -> Iterator[pa.RecordBatch]:
        # A cursor of the server: another one would bring all rows at once.
        with self.cursor("probclass", withhold=bool(self._connection.autocommit)) as cursor:
            cursor.execute(query)
            yield from _fetched(cursor, schema, rows)

    def execute(self, statement: str) -> None:
        # The driver begins a transaction by itself, and ends it by its methods.
        ends = {"COMMIT": self._connection.commit, "ROLLBACK": self._connection.rollback}
        if self._connection.autocommit or statement not in ("BEGIN", *ends):
            super().execute(statement)
        elif statement in ends:
            with _errors_of(self.name):
                ends[statement]()

    @property
    def in_transaction(self) -> bool:
        return int(self._connection.info.transaction_status) != 0


_DATABASES: tuple[type[Database], ...] = (_DuckDb, _Sqlite, _Postgres)


def _modules(instance: object) -> set[str]:
    """The packages in which the classes of an instance are defined."""
    return {kind.__module__.partition(".")[0] for kind in type(instance).__mro__}


def _fetched(cursor: Any, schema: pa.Schema, rows: int) -> Iterator[pa.RecordBatch]:
    """The rows of a DB-API cursor."""
    while found := cursor.fetchmany(rows):
        columns = zip(*found, strict=True)
        yield pa.record_batch(
            [_column(values, field) for values, field in zip(columns, schema, strict=True)],
            schema=schema,
        )


def _column(values: Sequence[Any], field: pa.Field) -> pa.Array:
    if pa.types.is_boolean(field.type):
        values = [None if value is None else bool(value) for value in values]
    elif pa.types.is_string(field.type):
        values = [None if value is None else str(value) for value in values]
    try:
        return pa.array(values, field.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise DataError(
            f"column {field.name!r} has values that are not {field.type}: {one_line(error)}; cast "
            "it in a view."
        ) from error
