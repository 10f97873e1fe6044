"""Words and counts in any type, data frame, chunks or file give the same model and scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakes import write_rows

import probclass_core as pc
from probclass_core.errors import DataError

WORDS = [["p", "q", "p"], ["q"], [], None, ["r", None, "ß", ""], ["p"], ["r", "q"], ["q", "q"]]
TALLIES = [{"p": 2, "q": 1}, {"q": 1}, {}, None, {"r": 1, "ß": 3}, {"p": 1}, {"r": 7}, {"q": 2}]
LABELS = ["a", "b", "a", "b", None, "b", "a", "b"]
PLAIN, TALLY = pa.list_(pa.string()), pa.map_(pa.string(), pa.int64())

Cast = Callable[[list[Any]], Any]


def of_dictionary(listed: Callable[..., pa.DataType], values: pa.DataType) -> Cast:
    """Dictionary-encoded lists; the dictionary has a duplicate and an unused word."""

    def cast(cells: list[Any]) -> pa.Array:
        plain = pa.array(cells, PLAIN)
        words = ["unused", "p", "ß", "q", "r", "", "p"]
        flat = plain.flatten().to_pylist()
        codes = [None if word is None else words.index(word) for word in flat]
        codes[0] = 6
        items = pa.DictionaryArray.from_arrays(pa.array(codes, pa.int8()), pa.array(words, values))
        kind = listed(items.type)
        maker = pa.ListArray if pa.types.is_list(kind) else pa.LargeListArray
        offsets = plain.offsets.cast(pa.int32() if maker is pa.ListArray else pa.int64())
        return maker.from_arrays(offsets, items, type=kind, mask=plain.is_null())

    return cast


def sliced(cells: list[Any]) -> pa.Array:
    """A slice of a longer column, whose other words must not be counted."""
    return pa.array([["leak"], *cells, None, ["leak"]], PLAIN).slice(1, len(cells))


def null_with_words(cells: list[Any]) -> pa.Array:
    """The null list has words in memory."""
    lists = [["hidden", "q"] if words is None else words for words in cells]
    plain = pa.array(lists, PLAIN)
    null = pa.array([words is None for words in cells])
    return pa.ListArray.from_arrays(plain.offsets, plain.values, mask=null)


def of_fixed_size(cells: list[Any]) -> pa.Array:
    """Four words, of which a null is no word."""
    filled = [None if words is None else [*words, None, None, None, None][:4] for words in cells]
    return pa.array(filled, pa.list_(pa.string(), 4))


def chunked(kind: pa.DataType) -> Cast:
    return lambda cells: pa.chunked_array([cells[:1], [], cells[1:5], cells[5:]], kind)


LISTS: Mapping[str, Cast] = {
    "large text": lambda cells: pa.array(cells, pa.list_(pa.large_string())),
    "views": lambda cells: pa.array(cells, pa.list_(pa.string_view())),
    "list views": lambda cells: pa.array(cells, pa.list_view(pa.string())),
    "large list views": lambda cells: pa.array(cells, pa.large_list_view(pa.large_string())),
    "list views of views": lambda cells: pa.array(cells, pa.list_view(pa.string_view())),
    "lists of a fixed size": of_fixed_size,
    "dictionary": of_dictionary(pa.list_, pa.string()),
    "large list of dictionary": of_dictionary(pa.large_list, pa.large_string()),
    "sliced": sliced,
    "a null with words": null_with_words,
    "polars": lambda cells: pl.Series(cells, dtype=pl.List(pl.String)).to_arrow(),
    "polars categories": lambda cells: pl.Series(cells, dtype=pl.List(pl.Categorical())).to_arrow(),
}
MAPS: Mapping[str, Cast] = {
    "doubles": lambda cells: pa.array(cells, pa.map_(pa.string(), pa.float64())),
    "small numbers of large text": lambda cells: pa.array(
        cells, pa.map_(pa.large_string(), pa.int8())
    ),
    "views": lambda cells: pa.array(cells, pa.map_(pa.string_view(), pa.float32())),
    "sliced": lambda cells: pa.array([{"leak": 1}, *cells, {"leak": 2}], TALLY).slice(1, 8),
    "chunked": chunked(TALLY),
    "pairs": lambda cells: pa.array(
        [None if cell is None else list(cell.items()) for cell in cells], TALLY
    ),
}
BLOCKS = [
    pc.Block("bernoulli", ["words"]),
    pc.Block("multinomial", ["words"]),
    pc.Block("multinomial", ["words"], "of two", vocabulary=["q", "p"], pseudo_count=0.5),
]
# Weights of 1, so that the blocks may share their column.
SPEC = pc.ModelSpec("label", BLOCKS, block_weights={"bernoulli": 1, "multinomial": 1, "of two": 1})


def table_of(column: Any) -> pa.Table:
    return pa.table({"label": LABELS, "words": column})


def assert_same(reference: pa.Table, other: Any, *, same_id: bool = True) -> None:
    """Check that both tables give the same model, which scores both tables alike."""
    models = [pc.fit(data, SPEC) for data in (reference, other)]
    expected = models[0].log_likelihood_by_block(reference)
    for model in models:
        for data in (reference, other):
            np.testing.assert_array_equal(model.log_likelihood_by_block(data), expected)
    for name, parameters in models[0].parameters.items():
        assert parameters.to_pydict() == models[1].parameters[name].to_pydict()
    assert (models[0].id == models[1].id) is same_id


@pytest.mark.parametrize("kind", LISTS)
def test_lists_of_any_type(kind: str) -> None:
    assert_same(table_of(pa.array(WORDS, PLAIN)), table_of(LISTS[kind](WORDS)))


@pytest.mark.parametrize("kind", MAPS)
def test_maps_of_any_type(kind: str) -> None:
    """Floats give another id than integers: their type is in the model's list of features."""
    floats = kind in ("doubles", "views")
    reference, other = table_of(pa.array(TALLIES, TALLY)), table_of(MAPS[kind](TALLIES))
    assert_same(reference, other, same_id=not floats)


def test_frames_of_lists() -> None:
    reference = table_of(pa.array(WORDS, PLAIN))
    pandas = pd.DataFrame({"label": LABELS, "words": pd.Series(WORDS, dtype=object)})
    polars = pl.DataFrame({"label": LABELS, "words": WORDS})
    for other in (pandas, polars, {"label": LABELS, "words": WORDS}):
        assert_same(reference, other)


def test_parts_without_words_merge_with_parts_that_have_words() -> None:
    """Lists without any word, and columns of nulls, do not determine the type of the words."""
    spec = pc.ModelSpec("label", [BLOCKS[1]])
    whole = pc.fit(table_of(pa.array(WORDS, PLAIN)), spec)
    parts = [
        pc.summarize({"label": labels, "words": words}, spec)
        for labels, words in (
            (["a"], [[]]),
            (["b"], [None]),
            (LABELS[:2], WORDS[:2]),
            (LABELS[4:], WORDS[4:]),
        )
    ]
    for order in (parts, parts[::-1]):
        merged = pc.finalize(pc.merge(order))
        assert merged.id == whole.id
    tallies = [pa.array([{"p": 1}], kind) for kind in (TALLY, pa.map_(pa.string(), pa.float64()))]
    mixed = [pc.summarize({"label": ["a"], "words": column}, spec) for column in tallies]
    merged_types = [pc.merge(order).features.types for order in (mixed, mixed[::-1])]
    assert merged_types == [[pa.map_(pa.string(), pa.float64())]] * 2
    with pytest.raises(DataError, match="column 'words' is list<item: string> in one part and m"):
        pc.merge([parts[2], mixed[0]])


@pytest.mark.parametrize("kind", ["lists", "maps"])
def test_words_stream_through_partitions_of_parquet(tmp_path: Path, kind: str) -> None:
    """Fit, score, read and evaluate a partitioned lake with words."""
    column = pa.array(TALLIES, TALLY) if kind == "maps" else pa.array(WORDS, PLAIN)
    table = pa.concat_tables([table_of(column)] * 3)
    lake = tmp_path / "lake"
    for month in range(3):
        write_rows(lake / f"month={month}", table.slice(8 * month, 8), row_group_size=3)
    spec = pc.ModelSpec.auto(table.schema, "label", groups=None)
    model = pc.fit(lake, spec)
    assert [block.estimator for block in spec.blocks] == ["multinomial"]
    assert model.id == pc.fit(table, spec).id
    report = pc.score(model, lake, tmp_path / "scored")
    assert (report.rows, len(report.partitions)) == (24, 3)
    scored = pq.read_table(tmp_path / "scored")
    assert scored["words"].to_pylist() == table["words"].to_pylist()
    assert scored["prediction"].combine_chunks().equals(model.predict(table))
    np.testing.assert_array_equal(scored["log_density"], model.score_samples(table))
    quality = [pc.evaluate(model, rows) for rows in (lake, tmp_path / "scored", table)]
    losses = [measured.log_loss for measured in quality]
    assert losses == pytest.approx([losses[0]] * 3, rel=1e-12)
    assert pc.score(model, lake, tmp_path / "scored").counts["unchanged"] == 3


def test_documents_longer_than_a_part_are_counted() -> None:
    """Rows are counted in parts of bounded size: a part may be a single row, or end in a batch."""
    long = [{"p": 1_200_000, "q": 1}, {"q": 3}, {}, None, {"p": 700_000}, {"p": 5, "r": 500_000}]
    labels = ["a", "b", "a", "a", "b", "b"]
    written_out = [
        None if tally is None else [word for word, times in tally.items() for _ in range(times)]
        for tally in long
    ]
    tables = [
        pa.table({"label": labels, "words": pa.array(cells, kind)})
        for cells, kind in ((long, TALLY), (written_out, PLAIN))
    ]
    assert_same(*tables, same_id=False)
