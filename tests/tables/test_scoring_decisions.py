"""Scored tables of a decision rule: their columns, and when they are written again."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from monthly_lake import model, rows_of, write_lake

import probclass_core as pc

RULE = pc.DecisionRule(
    costs={"bad": {"good": 4.0}, "good": {"good": 0.5}},
    min_probability=0.75,
    min_rarity=0.05,
)


@functools.cache
def measured() -> pc.Model:
    """The model of the lake, with the quantiles of its density."""
    return pc.with_density_quantiles(model(), rows_of(50, rows=200))


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return write_lake(tmp_path / "lake", "2014-01", "2014-02")


def test_rejected_rows_and_expected_costs_are_in_the_table(lake: Path, tmp_path: Path) -> None:
    sink = tmp_path / "scored"
    pc.score(measured(), lake, sink, options=pc.ScoringOptions(columns=["id"], decision=RULE))
    table = ds.dataset(sink, partitioning="hive").to_table()
    assert table.column_names == [
        *("id", "prediction", "probability", "rejected", "expected_cost"),
        *("p_bad", "p_good", "log_density", "model_id", "month"),
    ]
    source = ds.dataset(lake, partitioning="hive").to_table()
    assert table["prediction"].combine_chunks() == measured().predict(source, RULE)
    bad, good = table["p_bad"].to_numpy(), table["p_good"].to_numpy()
    expected = np.column_stack([good, 4.0 * bad + 0.5 * good])
    choice = expected.argmin(axis=1)
    np.testing.assert_allclose(table["expected_cost"], expected.min(axis=1), rtol=1e-12)
    np.testing.assert_array_equal(table["probability"], np.where(choice == 0, bad, good))
    quantiles = measured().density_quantiles
    assert quantiles is not None
    least = quantiles["log_density"][49].as_py()
    rare = table["log_density"].to_numpy() < least
    unsure = table["probability"].to_numpy() < 0.75
    reasons = np.where(rare, "density", np.where(unsure, "probability", None))
    assert table["rejected"].to_pylist() == reasons.tolist()
    assert set(reasons) == {"density", "probability", None}
    schema = pq.read_schema(sink / "month=2014-01" / "part-0.parquet")
    assert json.loads(schema.metadata[b"probclass.decision"]) == RULE.to_dict()


def test_a_rule_that_cannot_reject_adds_no_column(lake: Path, tmp_path: Path) -> None:
    kinds: dict[str, dict[str, Any]] = {
        "plain": {},
        "ml": {"decision": "ml"},
        "costs": {"decision": {"costs": {}}},
    }
    names = {}
    for kind, rule in kinds.items():
        pc.score(model(), lake, tmp_path / kind, options={"columns": [], **rule})
        schema = pq.read_schema(tmp_path / kind / "month=2014-01" / "part-0.parquet")
        names[kind] = schema.names
        assert json.loads(schema.metadata[b"probclass.decision"])["by"] in ("map", "ml")
    assert names["plain"] == names["ml"]
    assert set(names["costs"]) - set(names["plain"]) == {"expected_cost"}


def test_an_equal_rule_changes_nothing(lake: Path, tmp_path: Path) -> None:
    sink = tmp_path / "scored"
    for rule in ("map", {"min_probability": 0.8}, RULE):
        report = pc.score(measured(), lake, sink, options=pc.ScoringOptions(decision=rule))
        assert report.counts["unchanged"] == 0
        equal = pc.DecisionRule.from_dict(pc.DecisionRule.parse(rule).to_dict())
        again = pc.score(measured(), lake, sink, options=pc.ScoringOptions(decision=equal))
        assert (again.counts["unchanged"], again.commit_id) == (2, report.commit_id)
    pc.score(measured(), lake, sink, options=pc.ScoringOptions(decision="map"))
    assert pc.score(measured(), lake, sink).counts["unchanged"] == 2, "the default is 'map'"
