"""Properties of every explanation, for any estimator, rows and options."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import BLOCKS, COUNTS, OPTIONS, fitted_or_rejected, queries, spec_of, training_tables

import probclass_core as pc
from probclass_core.testing.trial import LABEL


@pytest.mark.parametrize("estimator", sorted(BLOCKS))
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
        explanation = pc.explain(model, rows, limit=limit, against=against)
        assert explanation.rows.num_rows == rows.num_rows
        joint = model.joint_log_likelihood(rows)
        for explained in explanation.rows.to_pylist():
            row, names = explained["row"], (explained["prediction"], explained["against"])
            entries = [entry for entry in explanation.table.to_pylist() if entry["row"] == row]
            best, rival = (joint[row, model.classes.to_pylist().index(name)] for name in names)
            check_entries(entries, best, rival, rounding_error(rows, row))
            log_odds = explained["log_odds"]
            assert log_odds is None or not math.isnan(log_odds)
            assert log_odds is None or log_odds >= 0.0 or against is not None


def rounding_error(rows: pa.Table, row: int) -> float:
    """Rounding error of log N!, which the probability of N counts is a difference of."""
    total = sum(abs(rows[name][row].as_py() or 0.0) for name in COUNTS)
    return 1e-14 * total * math.log1p(total)


def check_entries(
    entries: list[dict[str, float | None]], best: float, rival: float, error: float
) -> None:
    """Compare entries with log p(x, c) of both classes, as precisely as their size allows."""
    logs = np.array([best, rival, *(entry["weight"] for entry in entries)], dtype=float)
    finite = logs[np.isfinite(logs)]
    tolerance = max(1e-9, 1e-8 * np.abs(finite).max(initial=0.0), error)
    total = entries[-1]["total"]
    if math.isinf(best) and math.isinf(rival):
        assert total is None
    elif math.isinf(best) or math.isinf(rival):
        assert total == (math.inf if math.isinf(rival) else -math.inf)
    else:
        assert total == pytest.approx(best - rival, abs=tolerance)
        weights = sum(entry["weight"] for entry in entries)
        assert weights == pytest.approx(best - rival, abs=tolerance)
