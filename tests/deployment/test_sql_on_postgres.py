"""A model as SQL on a PostgreSQL server, whose arithmetic raises errors beyond float64."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pyarrow.compute as pac
import pytest
from postgres_and_redis import postgres
from sql_cases import BLOCKS, IN_TABLES, compare, fetched, fitted, hard_rows, postgres_table

ROWS = hard_rows()


@pytest.fixture(scope="module")
def connection() -> Iterator[psycopg.Connection[Any]]:
    with postgres() as url, psycopg.connect(url, autocommit=True) as opened:
        postgres_table(opened, ROWS)
        yield opened


@pytest.mark.parametrize(
    ("case", "tables"),
    [(case, None) for case in BLOCKS] + [(case, "public.numbers") for case in IN_TABLES],
)
def test_postgres_scores_as_in_python(
    connection: psycopg.Connection[Any], case: str, tables: str | None
) -> None:
    model = fitted(case)
    connection.execute("DROP VIEW IF EXISTS scores")
    if tables is not None:
        for statement in model.to_sql_tables(dialect="postgres", tables=tables):
            connection.execute(statement)
    connection.execute(
        model.to_sql(dialect="postgres", source="rows", columns="key", view="scores", tables=tables)
    )
    result = fetched(connection.execute("SELECT * FROM scores"))
    expected = model.predict_table(ROWS, columns=["key"])
    compare(expected, result.take(pac.sort_indices(result["key"])))
