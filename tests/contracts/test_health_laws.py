"""Health of any rows, with any estimator: plain JSON, and counts that are exact."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.compute
import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import BLOCKS, OPTIONS, queries, spec_of, training_tables

import probclass_core as pc
from probclass_core.analysis.distributions.health import Health
from probclass_core.errors import DataError, NotSupportedError


@pytest.mark.parametrize("estimator", sorted(BLOCKS))
@given(data=st.data())
def test_health_of_any_rows_is_plain_and_exact(estimator: str, data: st.DataObject) -> None:
    training, rows = data.draw(training_tables()), data.draw(queries())
    options = data.draw(st.sampled_from(OPTIONS[estimator]))
    try:
        model = pc.fit(training, spec_of(estimator, **options))
        model.predict(rows)
        health = pc.health(model, rows)
    except (DataError, NotSupportedError):
        return  # such rows cannot be scored either, or there are none
    values = json.loads(json.dumps(health.to_dict(), allow_nan=False))
    assert Health.from_dict(values) == health
    assert str(health)
    assert health.rows == rows.num_rows
    for name, column in health.columns.items():
        nulls = rows[name].null_count
        if pa.types.is_floating(rows[name].type):
            nulls += pa.compute.sum(pa.compute.is_nan(rows[name])).as_py() or 0
        assert column.nulls == pytest.approx(nulls / rows.num_rows, rel=1e-5)
        if column.expected is not None:
            assert sum(column.expected) == pytest.approx(1.0, abs=1e-3)
            assert len(column.expected) == len(column.counts)
        for bits in (column.drift, column.unseen, column.outside):
            assert bits is None or 0.0 <= bits <= 1.0
        if column.counts:
            assert sum(column.counts) <= health.sampled
            assert len(column.counts) in (len(column.cuts) + 1, len(column.values) + 1)
