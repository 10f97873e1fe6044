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
    options = {"columns": ["id", "wind"], "decision": pc.DecisionRule(costs=COSTS)}
    viewed = model.to_sql(dialect="duckdb", source="rows", options=options, view="scored")
    assert probclass.ok(f"{sql} --view scored").out == f"{viewed};\n"
    assert probclass(f"{sql} --view scored --json").json["query"] == viewed


@pytest.mark.parametrize(
    "options", ["--dialect oracle --source rows", "--dialect duckdb --source ''"]
)
def test_what_has_no_query_is_one_line(probclass: Any, model: pc.Model, options: str) -> None:
    assert ("source" if "''" in options else "oracle") in probclass.error(f"sql air {options}")
