"""The same values in another type, data frame or chunks give the same model and predictions.

Values are numbers, categories, lists of words, and maps from words to counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pac
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lakes import write_rows

import probclass_core as pc
from probclass_core.authoring import Rows
from probclass_core.errors import DataError

# Values that every type below represents exactly.
NUMBERS: Mapping[str, list[float | None]] = {
    "x": [0.0, 1.0, 5.0, 2.0, None, 7.0, 3.0, 3.0, 9.0, 4.0],
    "y": [1.0, 0.0, 1.0, 1.0, 0.0, 0.0, None, 1.0, 0.0, 1.0],
}
TEXTS = {"u": ["p", "q", "p", None, "p", "q", "r", "r", "q", "p"]}
INTEGERS = {"u": [1, 2, 1, None, 1, 2, 30, 30, 2, 1]}
BOOLS = {"u": [True, False, True, None, True, False, True, True, False, False]}
WORDS = [
    *(["p", "q", "p"], ["q"], [], None, ["r", None, "ß", ""]),
    *(["p"], ["r", "q"], ["q", "q"], ["r", "p"], ["q"]),
]
TALLIES = [
    *({"p": 2, "q": 1}, {"q": 1}, {}, None, {"r": 1, "ß": 3}),
    *({"p": 1}, {"r": 7}, {"q": 2}, {"r": 1, "p": 1}, {"q": 1}),
]
LIST, MAP = pa.list_(pa.string()), pa.map_(pa.string(), pa.int64())
LABELS = ["a", "b"] * 5
SHORT = st.integers(-(10**15), 10**15)
EXACT = Context(prec=40)

Cast = Callable[[list[Any]], Any]


def arrow(kind: pa.DataType) -> Cast:
    return lambda cells: pa.array(cells, kind)


def encoded(kind: pa.DataType, index: pa.DataType | None = None) -> Cast:
    """Dictionary-encode, with an additional value that no row has."""

    def cast(cells: list[Any]) -> pa.Array:
        column = pa.array(cells, kind).dictionary_encode()
        values = pa.concat_arrays([pa.array([cells[0]], kind), column.dictionary])
        codes = [None if code is None else code + 1 for code in column.indices.to_pylist()]
        return pa.DictionaryArray.from_arrays(pa.array(codes, index or pa.int32()), values)

    return cast


def chunked(kind: pa.DataType) -> Cast:
    return lambda cells: pa.chunked_array([cells[:1], [], cells[1:4], cells[4:]], kind)


def decimals(kind: pa.DataType) -> Cast:
    return lambda cells: pa.array([c if c is None else Decimal(int(c)) for c in cells], kind)


def with_nan(cells: list[Any]) -> pa.Array:
    return pa.array([np.nan if cell is None else cell for cell in cells], pa.float64())


def of_dictionary(listed: Callable[..., pa.DataType], values: pa.DataType) -> Cast:
    """Dictionary-encoded lists; the dictionary has a duplicate and an unused word."""

    def cast(cells: list[Any]) -> pa.Array:
        plain = pa.array(cells, LIST)
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
    return pa.array([["leak"], *cells, None, ["leak"]], LIST).slice(1, len(cells))


def null_with_words(cells: list[Any]) -> pa.Array:
    """The null list has words in memory."""
    lists = [["hidden", "q"] if words is None else words for words in cells]
    plain = pa.array(lists, LIST)
    null = pa.array([words is None for words in cells])
    return pa.ListArray.from_arrays(plain.offsets, plain.values, mask=null)


def of_fixed_size(cells: list[Any]) -> pa.Array:
    """Four words, of which a null is no word."""
    filled = [None if words is None else [*words, None, None, None, None][:4] for words in cells]
    return pa.array(filled, pa.list_(pa.string(), 4))


FRAMES: Mapping[str, Callable[[pa.Table], Any]] = {
    "record batch": lambda table: table.combine_chunks().to_batches()[0],
    "pandas": lambda table: table.to_pandas(),
    "pandas with nullable types": lambda table: table.to_pandas().convert_dtypes(),
    "pandas on Arrow": lambda table: table.to_pandas(types_mapper=pd.ArrowDtype),
    "pandas with an index": lambda table: table.to_pandas().set_index(np.arange(10) + 7),
    "polars": lambda table: pl.from_arrow(table),
    "a lazy frame": lambda table: pl.DataFrame(table).lazy(),
    "mapping of lists": lambda table: table.to_pydict(),
    "mapping of numpy": lambda table: {
        name: table[name].to_numpy() if name in NUMBERS else table[name]
        for name in table.schema.names
    },
}

NUMERIC_BLOCKS = [
    pc.Block("gaussian_diagonal", ["x", "y"]),
    pc.Block("gaussian_full", ["x", "y"], ridge=0.01),
    pc.Block("gaussian_shared", ["x", "y"]),
    pc.Block("bernoulli", ["x", "y"]),
    pc.Block("multinomial", ["x", "y"]),
    pc.Block("poisson", ["x", "y"]),
    pc.Block("knn_density", ["x", "y"], k=2),
    pc.Block("discretized", ["x", "y"], method="width", bins=3),
]
CATEGORICAL_BLOCKS = [pc.Block("categorical", ["u"]), pc.Block("categorical_joint", ["u"])]
WORD_BLOCKS = [
    pc.Block("bernoulli", ["words"], "presence"),
    pc.Block("multinomial", ["words"], "counts"),
    pc.Block("multinomial", ["words"], "of two", vocabulary=["q", "p"], pseudo_count=0.5),
]


@dataclass(frozen=True)
class Values:
    """Values in a plain type, and casts to types that represent them exactly."""

    blocks: Sequence[pc.Block]
    columns: Mapping[str, list[Any]]
    plain: Cast
    types: Mapping[str, Cast]


VALUES = {
    "numbers": Values(
        NUMERIC_BLOCKS,
        NUMBERS,
        arrow(pa.float64()),
        # Others are tried on every estimator by the conformance kit.
        {
            "float16": lambda cells: pa.array(cells, pa.float32()).cast(pa.float16()),
            "uint16": arrow(pa.uint16()),
            "decimal128": decimals(pa.decimal128(9, 3)),
            "decimal256": decimals(pa.decimal256(40, 1)),
            "dictionary of integers": encoded(pa.int64(), pa.int8()),
        },
    ),
    "booleans as numbers": Values(
        NUMERIC_BLOCKS,
        {"x": BOOLS["u"], "y": [not flag for flag in BOOLS["u"]]},
        lambda cells: pa.array([c if c is None else float(c) for c in cells], pa.float64()),
        {
            "bool": arrow(pa.bool_()),
            "int8": lambda cells: pa.array(cells, pa.bool_()).cast(pa.int8()),
            "dictionary": encoded(pa.bool_()),
        },
    ),
    "booleans": Values(
        CATEGORICAL_BLOCKS, BOOLS, arrow(pa.bool_()), {"dictionary": encoded(pa.bool_())}
    ),
    "integers": Values(
        CATEGORICAL_BLOCKS,
        INTEGERS,
        arrow(pa.int64()),
        {
            "int8": arrow(pa.int8()),
            "uint64": arrow(pa.uint64()),
            "dictionary": encoded(pa.int16()),
            "text": lambda cells: pa.array([c if c is None else str(c) for c in cells]),
            "float64": with_nan,
            "float32": arrow(pa.float32()),
            "dictionary of floats": encoded(pa.float64()),
            "chunked floats": chunked(pa.float64()),
        },
    ),
    "text": Values(
        CATEGORICAL_BLOCKS,
        TEXTS,
        arrow(pa.string()),
        {
            "large_string": arrow(pa.large_string()),
            "string_view": arrow(pa.string_view()),
            "small dictionary of large text": encoded(pa.large_string(), pa.int8()),
            "chunked": chunked(pa.string()),
            "chunked dictionary": lambda cells: pa.chunked_array(
                [pa.array(part, pa.string()).dictionary_encode() for part in (cells[:5], cells[5:])]
            ),
        },
    ),
    "words": Values(
        WORD_BLOCKS,
        {"words": WORDS},
        arrow(LIST),
        {
            "large text": arrow(pa.list_(pa.large_string())),
            "views": arrow(pa.list_(pa.string_view())),
            "list views": arrow(pa.list_view(pa.string())),
            "large list views": arrow(pa.large_list_view(pa.large_string())),
            "list views of views": arrow(pa.list_view(pa.string_view())),
            "lists of a fixed size": of_fixed_size,
            "dictionary": of_dictionary(pa.list_, pa.string()),
            "large list of dictionary": of_dictionary(pa.large_list, pa.large_string()),
            "sliced": sliced,
            "a null with words": null_with_words,
            "polars categories": lambda cells: pl.Series(
                cells, dtype=pl.List(pl.Categorical())
            ).to_arrow(),
        },
    ),
    "counts of words": Values(
        WORD_BLOCKS,
        {"words": TALLIES},
        arrow(MAP),
        {
            "doubles": arrow(pa.map_(pa.string(), pa.float64())),
            "small numbers of large text": arrow(pa.map_(pa.large_string(), pa.int8())),
            "views": arrow(pa.map_(pa.string_view(), pa.float32())),
            "sliced": lambda cells: pa.array([{"leak": 1}, *cells, {"leak": 2}], MAP).slice(1, 10),
            "chunked": chunked(MAP),
            "pairs": lambda cells: pa.array(
                [None if cell is None else list(cell.items()) for cell in cells], MAP
            ),
        },
    ),
}
OTHER_FEATURES = {
    "numbers": {"uint16", "dictionary of integers"},
    "booleans as numbers": {"bool", "int8", "dictionary"},
    "integers": {"text", "float64", "float32", "dictionary of floats", "chunked floats"},
    "counts of words": {"doubles", "views"},
}
"""Types that are in the model's list of features, and so in its id."""


def table_of(columns: Mapping[str, list[Any]], cast: Cast) -> pa.Table:
    return pa.table({"label": LABELS, **{name: cast(cells) for name, cells in columns.items()}})


def assert_same(
    blocks: Sequence[pc.Block], reference: pa.Table, other: Any, *, same_id: bool = True
) -> None:
    """Check that both tables give the same model, which scores both tables alike."""
    # With weights, blocks may share columns.
    weights = {block.name or block.estimator: 1.0 for block in blocks}
    spec = pc.ModelSpec("label", blocks, block_weights=weights)
    models = [pc.fit(data, spec) for data in (reference, other)]
    expected = models[0].log_likelihood_by_block(reference)
    for model in models:
        for data in (reference, other):
            actual = model.log_likelihood_by_block(data)
            np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-12)
            assert model.predict(data).equals(models[0].predict(reference))
    for name, parameters in models[0].parameters.items():
        assert str(parameters.to_pydict()) == str(models[1].parameters[name].to_pydict())
    assert models[0].priors.equals(models[1].priors)
    assert models[0].id == models[1].id or not same_id


@pytest.mark.parametrize(
    ("name", "kind"), [(name, kind) for name, values in VALUES.items() for kind in values.types]
)
def test_values_of_any_type(name: str, kind: str) -> None:
    values = VALUES[name]
    reference, other = (
        table_of(values.columns, cast) for cast in (values.plain, values.types[kind])
    )
    same_id = kind not in OTHER_FEATURES.get(name, ())
    assert_same(values.blocks, reference, other, same_id=same_id)


@given(st.data(), st.integers(0, 30))
def test_decimals_are_read_as_the_nearest_doubles(data: st.DataObject, scale: int) -> None:
    digits = data.draw(st.lists(st.none() | st.integers(1 - 10**38, 10**38 - 1) | SHORT))
    decimals = [None if d is None else Decimal(d).scaleb(-scale, EXACT) for d in digits]
    column = pa.array([Decimal(0), *decimals], pa.decimal128(38, scale))[1:]
    read = Rows(pa.record_batch({"price": column})).numbers("price")
    for value, unscaled, decimal in zip(read, digits, decimals, strict=True):
        if unscaled is None or decimal is None:
            assert np.isnan(value)
        elif abs(unscaled) <= 2**53 and scale <= 22:
            assert value == float(decimal)
        else:
            assert value == pytest.approx(float(decimal), rel=1e-15)


PANDAS_INTEGERS: Mapping[str, Callable[[Any], Any]] = {
    "float64": lambda column: column.astype("float64"),
    "Int64": lambda column: column.astype("float64").astype("Int64"),
    "object": lambda column: column.astype(object).where(column.notna(), None),
}


@pytest.mark.parametrize("kind", PANDAS_INTEGERS)
def test_integers_with_nulls_of_pandas_are_the_same_categories_and_classes(kind: str) -> None:
    """pandas makes them floats: 1.0 is the category 1, and the class 1."""
    noise = np.random.default_rng(0)
    label = noise.integers(0, 2, 300)
    code = 2 * noise.integers(0, 5, 300) + (label ^ (noise.random(300) < 0.2))
    codes = [None if gone else int(c) for c, gone in zip(code, code == 7, strict=True)]
    labels = [None, *label.tolist()[1:]]
    arrow_table = pa.table({"c": pa.array(codes, pa.int64()), "y": pa.array(labels, pa.int64())})
    frame = pd.DataFrame({"c": pd.Series(codes), "y": pd.Series(labels)})
    frame = frame.apply(PANDAS_INTEGERS[kind])
    for block in (
        pc.Block("categorical", ["c"]),
        pc.Block("categorical", ["c"], missing="level"),
        pc.Block("categorical_joint", ["c"]),
    ):
        spec = pc.ModelSpec("y", [block])
        expected, model = pc.fit(arrow_table, spec), pc.fit(frame, spec)
        assert model.classes.equals(expected.classes)
        for data in (arrow_table, frame):
            assert np.array_equal(model.predict_proba(data), expected.predict_proba(arrow_table))
        assert pc.evaluate(expected, frame).log_loss == pc.evaluate(model, arrow_table).log_loss
    auto = [pc.ModelSpec.auto(data, "y").blocks for data in (arrow_table, frame)]
    assert auto[0] == auto[1]
    assert auto[0][0].estimator == "categorical"


@pytest.mark.parametrize("role", ["feature", "label"])
def test_floats_that_are_not_whole_are_neither_categories_nor_classes(role: str) -> None:
    rows = {"label": LABELS, "u": [1.0, 1.5, None, *range(7)]}
    label, feature = ("label", "u") if role == "feature" else ("u", "label")
    message = {
        "feature": "column 'u': double values, such as 1.5, are not categories .*cut it into bins",
        "label": "label 'u' is double and has 8 distinct values",
    }
    with pytest.raises(DataError, match=message[role]):
        pc.fit(rows, pc.ModelSpec(label, [pc.Block("categorical", [feature])]))


@pytest.mark.parametrize("frame", sorted(FRAMES))
def test_data_frames_of_any_library(frame: str) -> None:
    reference = table_of({**NUMBERS, **TEXTS, "words": WORDS}, lambda cells: pa.array(cells))
    # pandas' nullable types convert whole floats to integers.
    same_id = "nullable" not in frame
    blocks = [*NUMERIC_BLOCKS, CATEGORICAL_BLOCKS[0], *WORD_BLOCKS]
    assert_same(blocks, reference, FRAMES[frame](reference), same_id=same_id)


def test_categories_of_data_frames() -> None:
    reference = table_of(TEXTS, arrow(pa.string()))
    pandas, polars = reference.to_pandas(), pl.DataFrame(reference)
    for kind in ("category", "object", "string"):
        assert_same(CATEGORICAL_BLOCKS, reference, pandas.astype({"u": kind, "label": kind}))
    for dtype in (pl.Categorical(), pl.Enum(["r", "q", "p", "unused"]), pl.String()):
        frame = polars.with_columns(u=pl.col("u").cast(dtype))
        assert_same(CATEGORICAL_BLOCKS, reference, frame)


def test_rows_of_a_polars_frame_can_be_filtered(tmp_path: Path) -> None:
    """polars exports text as string views, also in lists and structs, which Arrow cannot filter."""
    frame = pl.DataFrame(
        {
            "label": ["a", "b", None, "a", "b", "b"],
            "u": ["p", "q", "q", None, "p", "q"],
            "words": [["p"], ["q", "r"], None, [], ["p", None], ["r"]],
            "place": [{"name": "p"}, {"name": None}, None, {"name": "q"}, {"name": "p"}, None],
            "w": [1, 2, 1, 1, 0, 1],
        }
    ).with_columns(v=pl.col("u").cast(pl.Categorical()))
    plain = pa.table({name: pa.array(frame[name].to_list()) for name in frame.columns})
    blocks = [pc.Block("categorical", ["u", "v"]), pc.Block("bernoulli", ["words"])]
    spec = pc.ModelSpec("label", blocks, weight="w")
    where = [("u", "!=", "z"), ("label", "in", ["a", "b"])]
    frame.write_parquet(tmp_path / "by_polars.parquet")
    views = pa.table(frame.drop("v")).append_column("v", plain["v"])
    pq.write_table(views, tmp_path / "views.parquet")
    stream = pa.RecordBatchReader.from_stream(frame)
    expected = pc.fit(plain, spec, where=where)
    for source in (frame, frame.lazy(), tmp_path / "by_polars.parquet", stream):
        assert pc.fit(source, spec, where=where).id == expected.id
    assert pc.fit(tmp_path / "views.parquet", spec, where=where).id == expected.id
    pc.score(expected, frame, tmp_path / "scored", where=[("w", ">", 0)])
    scored, kept = pq.read_table(tmp_path / "scored"), frame.filter(pl.col("w") > 0)
    for name in ("u", "words", "place"):
        assert scored[name].to_pylist() == kept[name].to_list()


def test_run_end_encoded_columns() -> None:
    plain = pa.table(
        {
            "c": ["a", "a", "b", "b", "b", "a"],
            "x": [1.0, 1.0, 2.0, 2.0, None, 3.0],
            "i": [1, 1, None, 3, 3, 3],
            "u": ["p", "p", "q", None, None, "p"],
            "w": [1.0, 1.0, 2.0, 2.0, 1.0, 1.0],
        }
    )
    columns = [pac.run_end_encode(column.combine_chunks()) for column in plain.columns]
    table = pa.table(columns, names=plain.column_names)
    blocks = [pc.Block("gaussian_diagonal", ["x", "i"]), pc.Block("categorical", "u")]
    spec = pc.ModelSpec("c", blocks, weight="w")
    expected = pc.fit(plain, spec)
    assert expected.id == pc.fit(table, spec).id == pc.fit(table.to_reader(2), spec).id
    assert pc.fit(table.slice(1), spec).id == pc.fit(plain.slice(1), spec).id
    np.testing.assert_array_equal(expected.predict_proba(table), expected.predict_proba(plain))


def test_auto_models_lists_and_run_ends_as_their_values() -> None:
    def schema(words: pa.DataType, text: pa.DataType, number: pa.DataType) -> pa.Schema:
        return pa.schema([("c", text), ("w", words), ("u", text), ("x", number)])

    expected = pc.ModelSpec.auto(schema(pa.list_(pa.string()), pa.string(), pa.float64()), "c")
    encoded = [pa.run_end_encoded(pa.int32(), kind) for kind in (pa.string(), pa.float64())]
    for words in (pa.list_view(pa.string()), pa.list_(pa.string(), 3)):
        assert pc.ModelSpec.auto(schema(words, *encoded), "c") == expected


@pytest.mark.parametrize("kind", VALUES["text"].types)
def test_labels_of_any_type(kind: str) -> None:
    labels = ["b", "a", None, "a", "b", "b", "a", None, "a", "b"]
    numbers = table_of(NUMBERS, arrow(pa.float64())).drop_columns("label")
    reference = numbers.append_column("label", pa.array(labels, pa.string()))
    other = numbers.append_column("label", VALUES["text"].types[kind](labels))
    assert_same(NUMERIC_BLOCKS, reference, other)
    assert pc.fit(other, pc.ModelSpec("label", NUMERIC_BLOCKS[:1])).training["null_labels"] == 2


def test_parts_without_words_merge_with_parts_that_have_words() -> None:
    """Lists without any word, and columns of nulls, do not determine the type of the words."""
    spec = pc.ModelSpec("label", [WORD_BLOCKS[1]])
    whole = pc.fit(table_of({"words": WORDS}, arrow(LIST)), spec)
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
    tallies = [pa.array([{"p": 1}], kind) for kind in (MAP, pa.map_(pa.string(), pa.float64()))]
    mixed = [pc.summarize({"label": ["a"], "words": column}, spec) for column in tallies]
    merged_types = [pc.merge(order).features.types for order in (mixed, mixed[::-1])]
    assert merged_types == [[pa.map_(pa.string(), pa.float64())]] * 2
    with pytest.raises(DataError, match="column 'words' is list<item: string> in one part and m"):
        pc.merge([parts[2], mixed[0]])


@pytest.mark.parametrize("kind", ["words", "counts of words"])
def test_words_stream_through_partitions_of_parquet(tmp_path: Path, kind: str) -> None:
    """Fit, score, read and evaluate a partitioned lake with words."""
    values = VALUES[kind]
    table = pa.concat_tables([table_of(values.columns, values.plain)] * 3)
    lake = tmp_path / "lake"
    for month in range(3):
        write_rows(lake / f"month={month}", table.slice(10 * month, 10), row_group_size=3)
    spec = pc.ModelSpec.auto(table.schema, "label", groups=None)
    model = pc.fit(lake, spec)
    assert [block.estimator for block in spec.blocks] == ["multinomial"]
    assert model.id == pc.fit(table, spec).id
    report = pc.score(model, lake, tmp_path / "scored")
    assert (report.rows, len(report.partitions)) == (30, 3)
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
        for cells, kind in ((long, MAP), (written_out, LIST))
    ]
    assert_same(WORD_BLOCKS, *tables, same_id=False)
