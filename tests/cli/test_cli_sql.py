"""probclass sql: what it prints is run by DuckDB, and gives the table of probclass score."""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

AIR = {
    "row": [1, 2, 3, 4, 5, 6],
    "air": ["good", "good", "good", "poor", "poor", "poor"],
    "wind": [4.0, 5.5, None, 1.0, 1.5, 2.5],
    "hour": ["day", "night", "day", "night", None, "night"],
}


@pytest.fixture
def source(probclass: Any) -> Any:
    path = probclass.table("air.parquet", AIR)
    spec = probclass.spec(
        {"estimator": "gaussian_diagonal", "columns": ["wind"]},
        {"estimator": "categorical", "columns": ["hour"]},
    )
    assert probclass(f"fit {path} --spec {spec} --name air").code == 0
    return path


@pytest.mark.parametrize("tables", [(), ("--tables", "air_model")])
def test_the_printed_query_gives_the_table_of_score(
    probclass: Any, source: Any, tables: tuple[str, ...]
) -> None:
    columns = ("--columns", "row,wind", "--costs", "costs.json")
    costs = '{"good": {"poor": 1}, "poor": {"good": 5}}'
    (probclass.folder / "costs.json").write_text(costs)
    named = ("--dialect", "duckdb", "--source", "rows")
    printed = probclass.ok("sql", "air", *named, *columns, *tables).out
    assert probclass("score", "air", source, "scored.parquet", *columns).code == 0
    expected = pq.read_table("scored.parquet")
    database = duckdb.connect()
    database.register("rows", pa.table(AIR))
    *statements, query = [text for text in printed.split(";\n") if text]
    assert len(statements) > 0 if tables else not statements
    for statement in statements:
        database.execute(statement)
    actual = database.sql(query).to_arrow_table().sort_by("row")
    assert actual.column_names == expected.column_names
    for row, other in zip(actual.to_pylist(), expected.to_pylist(), strict=True):
        assert row == {
            name: pytest.approx(value, rel=1e-9) if isinstance(value, float) else value
            for name, value in other.items()
        }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--dialect", "oracle", "--source", "rows"), "oracle"),
        (("--dialect", "duckdb", "--source", ""), "source"),
    ],
)
def test_what_has_no_query_is_one_line(
    probclass: Any, source: Any, arguments: tuple[str, ...], message: str
) -> None:
    assert message in probclass.error("sql", "air", *arguments)
