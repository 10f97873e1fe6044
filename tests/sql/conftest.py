"""A PostgreSQL server for the tests of SQL."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from postgres_and_redis import postgres
from sql_cases import Run, fetched, postgres_table


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A PostgreSQL server with an empty database."""
    with postgres() as url:
        yield url


@pytest.fixture(scope="session")
def postgres_connection(postgres_url: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection on which every statement is committed."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        yield connection


@pytest.fixture(scope="session")
def on_postgres(postgres_connection: psycopg.Connection[Any]) -> Run:
    """The engine, whose arithmetic raises errors beyond float64."""

    def run(rows: pa.Table, query: str) -> pa.Table:
        postgres_connection.execute("DROP VIEW IF EXISTS scores")
        postgres_table(postgres_connection, rows)
        postgres_connection.execute(f"CREATE VIEW scores AS {query}")
        return fetched(postgres_connection.execute("SELECT * FROM scores"))

    return run
