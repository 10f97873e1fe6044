"""Training from a table of a PostgreSQL server gives the model of the same rows in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import psycopg2
import pyarrow as pa
import pytest
from postgres_and_redis import postgres
from sql_cases import (
    BLOCKS,
    BUILT_IN,
    check_nist,
    compare_parameters,
    nist_rows,
    postgres_table,
    training,
)

import probclass_core as pc

pytestmark = pytest.mark.services

ROWS = training()


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with postgres() as url, psycopg.connect(url, autocommit=True) as connection:
        postgres_table(connection, ROWS)
        connection.execute("CREATE TABLE trips AS SELECT * FROM rows")
        yield url


@pytest.fixture(scope="module")
def connection(url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(url, autocommit=True) as opened:
        yield opened


@pytest.mark.parametrize("weight", [None, "amount"])
@pytest.mark.parametrize("case", BUILT_IN)
def test_postgres_trains_as_memory(
    connection: psycopg.Connection[Any], case: str, weight: str | None
) -> None:
    spec = pc.ModelSpec("label", BLOCKS[case], weight=weight)
    where = None if weight is None else [("amount", "!=", None), ("word", ">=", "A")]
    expected = pc.fit(ROWS, spec, where=where)
    actual = pc.fit(pc.SqlSource(connection, "trips"), spec, where=where)
    compare_parameters(expected, actual)
    assert actual.training["columns"] == expected.training["columns"]


def test_a_database_by_its_uri_and_by_other_drivers(url: str) -> None:
    spec = pc.ModelSpec("label", BLOCKS["mixed"])
    expected = pc.fit(ROWS, spec)
    host = url.partition("host=")[2]
    address = pc.TableRef("postgresql://airflow@/airflow::public.trips", options={"host": host})
    compare_parameters(expected, pc.fit(address, spec))
    connection = psycopg2.connect(url)
    compare_parameters(expected, pc.fit(pc.SqlSource(connection, "trips"), spec))
    connection.close()


def test_numbers_beyond_the_arithmetic_of_postgres(connection: psycopg.Connection[Any]) -> None:
    tiny = [1e-200, 3e-200, 1e-120, 2e-120]
    rows = pa.table({"y": ["a", "b"] * 2, "x": tiny, "z": [1e120, 2e120, 3e120, 4e120]})
    postgres_table(connection, rows)
    spec = pc.ModelSpec("y", [pc.Block("gaussian_diagonal", ["x", "z"])])
    compare_parameters(pc.fit(rows, spec), pc.fit(pc.SqlSource(connection, "rows"), spec))


def test_nist_digits_on_postgres(connection: psycopg.Connection[Any]) -> None:
    postgres_table(connection, nist_rows())
    check_nist(pc.SqlSource(connection, "rows"))


def test_errors_of_the_server_are_one_line(connection: psycopg.Connection[Any]) -> None:
    with pytest.raises(pc.TableError, match='relation "absent" does not exist') as raised:
        pc.SqlSource(connection, "absent")
    assert "\n" not in str(raised.value)
