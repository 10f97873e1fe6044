"""Registers tables of databases; the modules are imported when such a table is opened."""

from __future__ import annotations

from collections.abc import Iterable

from probclass_core.io.references import TableRef
from probclass_core.io.table import Source
from probclass_core.plugins.hookspecs import PROBCLASS_API, TableFormat, hookimpl

__all__ = ["PROBCLASS_API", "probclass_table_formats"]

_SCHEMES = ("duckdb", "postgres", "postgresql", "sqlite")


class Sql(TableFormat):
    """Tables of DuckDB, SQLite and PostgreSQL, such as duckdb://file.db::table."""

    name = "sql"

    def recognizes(self, ref: TableRef) -> bool:
        scheme, separator, _ = ref.uri.partition("://")
        return bool(separator) and scheme in _SCHEMES

    def open(self, ref: TableRef) -> Source:
        from probclass_core.sql.source import SqlSource

        return SqlSource.open(ref)


@hookimpl
def probclass_table_formats() -> Iterable[type[TableFormat]]:
    """Register tables of databases."""
    yield Sql
