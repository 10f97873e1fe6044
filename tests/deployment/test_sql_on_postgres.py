"""A model as SQL on a PostgreSQL server, whose arithmetic raises errors beyond float64."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from postgres_and_redis import postgres
from sql_cases import BLOCKS, IN_TABLES, check_case, fetched, hard_rows, postgres_table

pytestmark = pytest.mark.services


@pytest.fixture(scope="module")
def connection() -> Iterator[psycopg.Connection[Any]]:
    with postgres() as url, psycopg.connect(url, autocommit=True) as opened:
        postgres_table(opened, hard_rows())
        yield opened


@pytest.mark.parametrize(
    ("case", "tables"),
    [(case, None) for case in BLOCKS] + [(case, "public.numbers") for case in IN_TABLES],
)
def test_postgres_scores_as_in_python(
    connection: psycopg.Connection[Any], case: str, tables: str | None
) -> None:
    def run(_: pa.Table, query: str, statements: Sequence[str]) -> pa.Table:
        connection.execute("DROP VIEW IF EXISTS scores")
        for statement in [*statements, f"CREATE VIEW scores AS {query}"]:
            connection.execute(statement)
        return fetched(connection.execute("SELECT * FROM scores"))

    check_case(case, "postgres", run, tables)
