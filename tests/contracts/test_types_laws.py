"""The same values in another type, data frame or chunks give the same model and predictions."""

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
}
OTHER_FEATURES = {
    "numbers": {"uint16", "dictionary of integers"},
    "booleans as numbers": {"bool", "int8", "dictionary"},
    "integers": {"text", "float64", "float32", "dictionary of floats", "chunked floats"},
}
"""Types that are in the model's list of features, and so in its id."""


def table_of(columns: Mapping[str, list[Any]], cast: Cast) -> pa.Table:
    return pa.table({"label": LABELS, **{name: cast(cells) for name, cells in columns.items()}})


def assert_same(
    blocks: Sequence[pc.Block], reference: pa.Table, other: Any, *, same_id: bool = True
) -> None:
    """Check that both tables give the same model, which scores both tables alike."""
    weights = {block.estimator: 1.0 for block in blocks}  # so that blocks may share columns
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
    reference = table_of({**NUMBERS, **TEXTS}, lambda cells: pa.array(cells))
    # pandas' nullable types convert whole floats to integers.
    same_id = "nullable" not in frame
    blocks = [*NUMERIC_BLOCKS, CATEGORICAL_BLOCKS[0]]
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
