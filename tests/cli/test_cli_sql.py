"""probclass sql prints the query that the library makes, which tests/sql run."""

from __future__ import annotations

from typing import Any

import pytest

import probclass_core as pc

AIR = {
    "air": ["good", "good", "good", "poor", "poor", "poor"],
    "wind": [4.0, 5.5, None, 1.0, 1.5, 2.5],
}
COSTS = {"good": {"poor": 1}, "poor": {"good": 5}}


@pytest.fixture
def model(probclass: Any) -> pc.Model:
    fitted = pc.fit(AIR, pc.ModelSpec("air", {"gaussian_diagonal": "wind"}))
    pc.ModelStore("models").save(fitted, "air")
    return fitted


def test_the_printed_query_is_that_of_the_model(probclass: Any, model: pc.Model) -> None:
    (probclass.folder / "costs.json").write_text(f"{COSTS}".replace("'", '"'))
    sql = "sql air --dialect duckdb --source rows --columns id,wind --costs costs.json"
    options: dict[str, Any] = {"dialect": "duckdb", "source": "rows", "columns": ["id", "wind"]}
    options["decision"] = pc.DecisionRule(costs=COSTS)
    viewed = model.to_sql(**options, view="scored")
    assert probclass.ok(f"{sql} --view scored").out == f"{viewed};\n"
    tables = model.to_sql_tables(dialect="duckdb", tables="air_model")
    statements = [*tables, model.to_sql(**options, tables="air_model")]
    printed = probclass.ok(f"{sql} --tables air_model").out
    assert printed == "".join(f"{statement};\n" for statement in statements)
    document = probclass(f"{sql} --tables air_model --json").json
    assert [*document["tables"], document["query"]] == statements


@pytest.mark.parametrize(
    "options", ["--dialect oracle --source rows", "--dialect duckdb --source ''"]
)
def test_what_has_no_query_is_one_line(probclass: Any, model: pc.Model, options: str) -> None:
    assert ("source" if "''" in options else "oracle") in probclass.error(f"sql air {options}")
