"""What holds of every explanation, whatever the estimator, the rows and the options."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import (
    BLOCKS,
    COUNTS,
    LABEL,
    OPTIONS,
    fitted_or_rejected,
    queries,
    spec_of,
    training_tables,
)

import probclass_core as pc


@pytest.mark.parametrize("estimator", sorted(BLOCKS))
@settings(max_examples=30)
@given(data=st.data())
def test_entries_sum_to_the_log_odds_of_the_prediction_and_its_rival(
    estimator: str, data: st.DataObject
) -> None:
    options = data.draw(st.sampled_from(OPTIONS[estimator]))
    table = data.draw(training_tables())
    model = fitted_or_rejected(table, spec_of(estimator, **options))
    limit = data.draw(st.sampled_from([None, 1, 2]))
    against = data.draw(st.sampled_from([None, *model.class_names]))
    for rows in (table.drop_columns([LABEL]), data.draw(queries())):
        found = pc.explain(model, rows, limit=limit, against=against)
        assert found.rows.num_rows == rows.num_rows
        joint = model.joint_log_likelihood(rows)
        for line in found.rows.to_pylist():
            ledger = [entry for entry in found.table.to_pylist() if entry["row"] == line["row"]]
            row, names = line["row"], (line["prediction"], line["against"])
            one, other = (joint[row, model.classes.to_pylist().index(name)] for name in names)
            check(ledger, one, other, rounding(rows, row))
            told = line["log_odds"]
            assert told is None or not math.isnan(told)
            assert told is None or told >= 0.0 or against is not None


def rounding(rows: pa.Table, row: int) -> float:
    """Of log N!, of which the probability of N counts is a difference: all its digits at 1e15."""
    total = sum(abs(rows[name][row].as_py() or 0.0) for name in COUNTS)
    return 1e-14 * total * math.log1p(total)


def check(ledger: list[dict[str, float | None]], one: float, other: float, rounded: float) -> None:
    """The entries against log p(x, c) of both classes, as closely as their size allows."""
    logs = np.array([[entry["log_for"], entry["log_against"]] for entry in ledger], dtype=float)
    finite = logs[np.isfinite(logs)]
    close = max(1e-9, 1e-8 * np.abs(finite).max(initial=0.0), rounded)
    total = ledger[-1]["total"]
    if math.isinf(one) and math.isinf(other):
        assert total is None
    elif math.isinf(one) or math.isinf(other):
        assert total == (math.inf if math.isinf(other) else -math.inf)
    else:
        assert total == pytest.approx(one - other, abs=close)
        assert sum(entry["weight"] for entry in ledger) == pytest.approx(one - other, abs=close)
        assert logs.sum(axis=0) == pytest.approx([one, other], abs=close)
