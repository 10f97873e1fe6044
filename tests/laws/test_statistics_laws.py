"""Statistics of a whole model: counts of rows and classes, and storage.

The laws of merging are in the conformance kit; test_estimators.py tries them.
"""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from samples import BLOCKS, LABEL, WEIGHT, spec_of, tables

import probclass_core as pc
from probclass_core.arrow.bundle import Bundle

every_estimator = pytest.mark.parametrize("estimator", sorted(BLOCKS))
law = settings(max_examples=20)


@every_estimator
@law
@given(table=tables())
def test_rows_are_counted_by_class(estimator: str, table: pa.Table) -> None:
    """All rows, rows without a label, and by class the weighted rows and the sum of weights."""
    weighted = pc.summarize(table, spec_of(estimator, weight=WEIGHT))
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


@every_estimator
@law
@given(table=tables())
def test_statistics_survive_storage(estimator: str, table: pa.Table) -> None:
    statistics = pc.summarize(table, spec_of(estimator, weight=WEIGHT))
    bundle = statistics.to_bundle()
    files = bundle.files()
    stored = Bundle.from_files(bundle.manifest(), files.__getitem__)
    restored = pc.Statistics.from_bundle(stored)
    assert restored.to_bundle().content_id == bundle.content_id
    assert restored.spec == statistics.spec
    assert restored.features.equals(statistics.features)
    merged, expected = (pc.merge([part, statistics]) for part in (restored, statistics))
    assert merged.to_bundle().content_id == expected.to_bundle().content_id
    assert merged.rows == 2 * table.num_rows


def test_statistics_of_different_specs_do_not_merge() -> None:
    table = {LABEL: ["a", "b"], "x": [1.0, 2.0], "y": [1.0, 3.0]}
    parts = [pc.summarize(table, spec_of(name)) for name in ("gaussian_diagonal", "knn_density")]
    with pytest.raises(pc.DataError, match="different model specs do not merge"):
        pc.merge(parts)
    with pytest.raises(pc.DataError, match="no statistics to merge"):
        pc.merge([])


def test_a_model_is_not_statistics() -> None:
    table = {LABEL: ["a", "b"], "u": ["p", "q"], "v": ["p", "q"]}
    model = pc.fit(table, spec_of("categorical"))
    with pytest.raises(pc.StoreError, match="the bundle contains a model, not statistics"):
        pc.Statistics.from_bundle(model.to_bundle())
