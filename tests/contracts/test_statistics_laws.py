"""Statistics of a whole model: counts of rows and classes, and storage.

The laws of merging are in the conformance kit; test_estimators.py tries them.
"""

from __future__ import annotations

import math
import pickle
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import BLOCKS, spec_of, training_tables

import probclass_core as pc
from probclass_core.errors import DataError
from probclass_core.testing.trial import LABEL, WEIGHT

ESTIMATORS = st.sampled_from(sorted(BLOCKS))


@given(table=training_tables())
def test_rows_are_counted_by_class(table: pa.Table) -> None:
    """All rows, rows without a label, and by class the weighted rows and the sum of weights."""
    weighted = pc.summarize(table, spec_of("categorical", weight=WEIGHT))
    assert weighted.rows == table.num_rows
    assert weighted.null_labels == table[LABEL].null_count
    counts: dict[str, list[float]] = {}
    for label, weight in zip(table[LABEL].to_pylist(), table[WEIGHT].to_pylist(), strict=True):
        if label and weight:
            counts.setdefault(label, []).append(weight)
    assert weighted.classes.to_pylist() == [
        {"class": label, "rows": len(weights), "count": sum(weights)}
        for label, weights in sorted(counts.items())
    ]


@given(estimator=ESTIMATORS, table=training_tables(), cut=st.integers(0, 12))
def test_columns_are_profiled_whatever_the_split(estimator: str, table: pa.Table, cut: int) -> None:
    """Rows that count, nulls with NaN among them, and the range of numbers."""
    spec = spec_of(estimator, weight=WEIGHT)
    statistics = pc.summarize(table, spec)
    rows = [row for row in table.to_pylist() if row[LABEL] and row[WEIGHT]]
    expected = {}
    for name in spec.features:
        values = [row[name] for row in rows if row[name] is not None and row[name] == row[name]]
        number = bool(values) and isinstance(values[0], (int, float, Decimal))
        expected[name] = {
            "rows": len(rows),
            "nulls": len(rows) - len(values),
            "min": min(values) if number else None,
            "max": max(values) if number else None,
        }
    assert statistics.column_values == expected
    parts = [pc.summarize(part, spec) for part in (table.slice(cut), table.slice(0, cut))]
    assert pc.merge(parts).column_values == expected
    assert pickle.loads(pickle.dumps(parts[0])).column_values == parts[0].column_values


def test_a_model_records_what_training_saw_of_its_columns(tmp_path: Path) -> None:
    """The same from rows, from cached statistics and from a saved model."""
    (tmp_path / "lake").mkdir()
    for part, shift in enumerate((0, 10)):
        rows = {"y": ["a", "b", None], "x": [1.5 + shift, math.nan, -99.0], "w": ["p", None, "q"]}
        codes = pa.array([shift, 3, None]).dictionary_encode()
        table = pa.table({**rows, "i": codes, "w": pa.array(rows["w"]).dictionary_encode()})
        pq.write_table(table, tmp_path / "lake" / f"{part}.parquet")
    spec = pc.ModelSpec("y", {"gaussian_diagonal": ["x", "i"], "categorical": ["w"]})
    expected = {
        "x": {"rows": 4, "nulls": 2, "min": 1.5, "max": 11.5},
        "i": {"rows": 4, "nulls": 0, "min": 0, "max": 10},
        "w": {"rows": 4, "nulls": 2, "min": None, "max": None},
    }
    for reused in (0, 1):  # both small files are one unit
        model = pc.fit(tmp_path / "lake", spec, cache=tmp_path / "store")
        assert model.training["cache"]["reused"] == reused
        assert model.training["columns"] == expected
    model.save(tmp_path / "model")
    assert pc.load(tmp_path / "model").training["columns"] == expected


def test_statistics_of_different_specs_do_not_merge() -> None:
    table = {LABEL: ["a", "b"], "x": [1.0, 2.0], "y": [1.0, 3.0]}
    parts = [pc.summarize(table, spec_of(name)) for name in ("gaussian_diagonal", "knn_density")]
    with pytest.raises(DataError, match="different model specs do not merge"):
        pc.merge(parts)
    with pytest.raises(DataError, match="no statistics to merge"):
        pc.merge([])


def test_merged_profiles_keep_the_order_of_the_columns() -> None:
    names = [f"x{number}" for number in range(40)]
    spec = pc.ModelSpec(LABEL, {"gaussian_diagonal": names})
    rows = {LABEL: ["a", "b"], **{name: [float(place), 1.0] for place, name in enumerate(names)}}
    merged = pc.merge([pc.summarize(rows, spec), pc.summarize(rows, spec)])
    merged.check()
    assert merged.columns["column"].to_pylist() == names
    assert merged.columns["max"].to_pylist() == [1.0, *map(float, range(1, 40))]
