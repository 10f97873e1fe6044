"""Statistics of rows at every height and scale merge to within their rounding; and are stored.

The laws of the contract are tried in test_estimators.py; here the tables of statistics themselves
are compared, which the kit leaves to each estimator.
"""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import BLOCKS, LABEL, WEIGHT, Same, spec_of, split, tables

import probclass_core as pc
from probclass_core.bundle import Bundle

every_estimator = pytest.mark.parametrize("estimator", sorted(BLOCKS))
law = settings(max_examples=40)


@every_estimator
@law
@given(data=st.data())
def test_merging_is_associative_and_equals_reading_the_whole(
    estimator: str, data: st.DataObject
) -> None:
    table = data.draw(tables())
    spec, same = spec_of(estimator), Same(table)
    whole = pc.summarize(table, spec)
    a, b, c = (pc.summarize(part, spec) for part in data.draw(split(table, 3)))
    for grouping in (
        [a, b, c],
        [pc.merge([a, b]), c],
        [a, pc.merge([b, c])],
    ):
        same.statistics(pc.merge(grouping), whole)


@every_estimator
@law
@given(table=tables())
def test_a_weight_counts_like_so_many_rows(estimator: str, table: pa.Table) -> None:
    """Of 2 as the row twice, of 0 as no row."""
    weights = table[WEIGHT].to_pylist()
    repeated = [row for row, weight in enumerate(weights) for _ in range(weight)]
    weighted = pc.summarize(table, spec_of(estimator, weight=WEIGHT))
    written_out = pc.summarize(table.take(pa.array(repeated, pa.int64())), spec_of(estimator))
    Same(table).contents(weighted, written_out)
    labelled = len(weights) - table[LABEL].null_count
    present = sum(
        1
        for label, weight in zip(table[LABEL].to_pylist(), weights, strict=True)
        if label and weight
    )
    assert sum(weighted.classes["rows"].to_pylist()) == present <= labelled


@every_estimator
@law
@given(table=tables())
def test_statistics_survive_being_stored(estimator: str, table: pa.Table) -> None:
    statistics = pc.summarize(table, spec_of(estimator, weight=WEIGHT))
    bundle = statistics.to_bundle()
    files = bundle.files()
    stored = Bundle.from_files(bundle.manifest(), files.__getitem__)
    restored = pc.Statistics.from_bundle(stored)
    assert restored.to_bundle().content_id == bundle.content_id
    assert restored.spec == statistics.spec
    assert restored.features.equals(statistics.features)
    Same(table).statistics(pc.merge([restored]), pc.merge([statistics]))
    assert pc.merge([restored, statistics]).rows == 2 * table.num_rows


def test_statistics_of_other_models_do_not_merge() -> None:
    table = {LABEL: ["a", "b"], "x": [1.0, 2.0], "y": [1.0, 3.0]}
    parts = [pc.summarize(table, spec_of(name)) for name in ("gaussian_diagonal", "knn_density")]
    with pytest.raises(pc.DataError, match="different model specs do not merge"):
        pc.merge(parts)
    with pytest.raises(pc.DataError, match="no statistics to merge"):
        pc.merge([])


def test_a_model_is_not_statistics() -> None:
    table = {LABEL: ["a", "b"], "u": ["p", "q"], "v": ["p", "q"]}
    model = pc.fit(table, spec_of("categorical"))
    with pytest.raises(pc.StoreError, match="the bundle holds a model, not statistics"):
        pc.Statistics.from_bundle(model.to_bundle())
