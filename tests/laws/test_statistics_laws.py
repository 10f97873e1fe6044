"""Statistics are a monoid, whatever the rows: the laws that training in parts relies on."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import BLOCKS, LABEL, WEIGHT, Same, spec_of, split, tables

import probclass_core as pc
from probclass_core.bundle import Bundle, to_ipc

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
@given(data=st.data())
def test_merging_is_commutative(estimator: str, data: st.DataObject) -> None:
    table = data.draw(tables())
    spec = spec_of(estimator)
    parts = [pc.summarize(part, spec) for part in data.draw(split(table, 4))]
    shuffled = data.draw(st.permutations(parts))
    Same(table).statistics(pc.merge(shuffled), pc.merge(parts))


@every_estimator
@law
@given(table=tables())
def test_an_empty_table_is_the_identity_of_merging(estimator: str, table: pa.Table) -> None:
    spec, same = spec_of(estimator), Same(table)
    nothing, some = pc.summarize(table.slice(0, 0), spec), pc.summarize(table, spec)
    for merged in ([some, nothing], [nothing, some], [nothing, nothing, some, nothing], [some]):
        same.statistics(pc.merge(merged), some)
    assert pc.merge([nothing, nothing]).rows == 0


@every_estimator
@law
@given(data=st.data())
def test_neither_row_order_nor_batch_size_matters(estimator: str, data: st.DataObject) -> None:
    table = data.draw(tables())
    spec, same = spec_of(estimator), Same(table)
    whole = pc.summarize(table, spec)
    order = data.draw(st.permutations(range(table.num_rows)))
    same.statistics(pc.summarize(table.take(pa.array(order, pa.int64())), spec), whole)
    size = data.draw(st.integers(1, 5))
    batches = table.to_batches(max_chunksize=size)
    reader = pa.RecordBatchReader.from_batches(table.schema, batches)
    same.statistics(pc.summarize(reader, spec), whole)


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
@given(data=st.data())
def test_neither_merging_nor_finalizing_changes_statistics(
    estimator: str, data: st.DataObject
) -> None:
    table = data.draw(tables())
    spec = spec_of(estimator)
    parts = [pc.summarize(part, spec) for part in data.draw(split(table, 2))]

    def contents() -> list[dict[str, bytes]]:
        return [
            {"classes": to_ipc(part.classes), **{n: to_ipc(t) for n, t in part.blocks.items()}}
            for part in parts
        ]

    before = contents()
    for _ in range(2):
        merged = pc.merge(parts)
        try:
            once, again = pc.finalize(merged), pc.finalize(merged)
        except pc.DataError:
            continue
        assert once.id == again.id
    assert contents() == before


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
