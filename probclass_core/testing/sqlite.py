"""Rows and queries on SQLite, which comes with Python: for the laws that SQL says the same."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager

import numpy as np
import pyarrow as pa

from probclass_core.arrow.arrays import FloatArray


@contextmanager
def on_sqlite(rows: pa.Table) -> Iterator[sqlite3.Connection]:
    """A database in memory whose table ``rows`` has these rows."""
    names = ", ".join("`" + name.replace("`", "``") + "`" for name in rows.column_names)
    marks = ", ".join("?" * rows.num_columns)
    values = zip(*(column.to_pylist() for column in rows.columns), strict=True)
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(f"CREATE TABLE rows ({names})")
        connection.executemany(f"INSERT INTO rows VALUES ({marks})", values)
        yield connection


def run_on_sqlite(rows: pa.Table, query: str) -> FloatArray:
    """The numbers of a query over the table ``rows``, in the order of its rows: ``(n, m)``.

    Args:
        rows: ``n`` rows of the table.
        query: a SELECT of ``m`` numbers for each row.
    """
    with on_sqlite(rows) as connection:
        cursor = connection.execute(query)
        width, found = len(cursor.description), cursor.fetchall()
    return np.array(found, dtype=np.float64).reshape(len(found), width)
