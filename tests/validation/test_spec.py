"""Specs as code, plain values and files are the same; invalid specs are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

import probclass_core as pc
from probclass_core.cli.commands.train_and_score import to_toml
from probclass_core.errors import SpecError

SPEC = pc.ModelSpec(
    label="air",
    blocks=[
        pc.Block("gaussian_full", ["dew_point", "temperature"], ridge=1e-6),
        pc.Block(
            "categorical",
            ["wind", "rain"],
            pseudo_count={"wind": 0.5, "rain": {"true": 1, "false": 2.5}},
            domain={"wind": ["NW", "cv", "3"], "rain": [True, False]},
            unseen="ignore",
        ),
        pc.Block("knn_density", ["pressure"], name="neighbors", k=25),
        pc.Block("gaussian_full", ["speed"]),
    ],
    prior={"good": 0.75, "bad": 0.25},
    weight="hours",
    on_scarce="error",
)


def test_blocks_are_named_after_their_estimator_and_numbered() -> None:
    assert [block.name for block in SPEC.blocks] == [
        *("gaussian_full", "categorical", "neighbors", "gaussian_full_2")
    ]
    with_names = pc.ModelSpec(
        "c", [pc.Block("a", "x"), pc.Block("b", "y", name="a"), pc.Block("a", "z", name="a_2")]
    )
    assert [block.name for block in with_names.blocks] == ["a_3", "a", "a_2"]
    assert SPEC.features == ("dew_point", "temperature", "wind", "rain", "pressure", "speed")


def test_a_block_can_be_given_columns_of_other_blocks() -> None:
    chain = [
        pc.Block("e", "x", given="y"),
        pc.Block("e", "y", given=["z", "u"]),
        pc.Block("e", "u"),
    ]
    network = pc.ModelSpec("c", chain)
    assert network.blocks[0].inputs == ("x", "y")
    assert network.features == ("x", "y", "z", "u")
    first, _, last = network.to_dict()["blocks"]
    assert first["given"] == ["y"]
    assert "given" not in last
    restored = pc.ModelSpec.from_dict(json.loads(json.dumps(network.to_dict())))
    assert (restored, restored.digest) == (network, network.digest)


def test_an_estimator_without_conditionals_refuses_given_columns() -> None:
    spec = pc.ModelSpec("c", [pc.Block("gaussian_diagonal", ["x"], given=["y"])])
    table = {"x": [1.0, 2.0], "y": [1.0, 2.0], "c": ["a", "b"]}
    message = "gaussian_diagonal does not model columns given others; .* use 'categorical'"
    with refused(SpecError, message):
        pc.fit(table, spec)


def test_a_spec_survives_plain_values_and_every_format(tmp_path: Path) -> None:
    plain = SPEC.to_dict()
    (tmp_path / "spec.json").write_text(json.dumps(plain))
    (tmp_path / "spec.yaml").write_text(yaml.safe_dump(plain))
    (tmp_path / "spec.yml").write_text(yaml.safe_dump(plain, sort_keys=False))
    (tmp_path / "spec.toml").write_text(to_toml(SPEC))
    specs = [pc.ModelSpec.from_dict(plain), pc.ModelSpec.from_dict(json.loads(json.dumps(plain)))]
    specs += [pc.ModelSpec.from_file(path) for path in sorted(tmp_path.iterdir())]
    specs.append(pc.ModelSpec.from_file(str(tmp_path / "spec.toml")))
    for spec in specs:
        assert spec == SPEC
        assert spec.digest == SPEC.digest
        assert spec.to_dict() == plain
        assert [hash(block) for block in spec.blocks] == [hash(block) for block in SPEC.blocks]


scalars = st.none() | st.booleans() | st.integers() | st.text()
plain_values = st.recursive(
    scalars | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
names = st.text(min_size=1).filter(lambda text: "/" not in text)


@given(
    options=st.dictionaries(st.from_regex(r"[a-z]+", fullmatch=True), plain_values, max_size=3),
    data=st.data(),
)
def test_any_plain_options_survive_json(options: dict[str, Any], data: st.DataObject) -> None:
    for key in ("estimator", "columns", "given", "name"):
        options.pop(key, None)
    columns = data.draw(st.lists(names, min_size=2, max_size=4, unique=True))
    spec = pc.ModelSpec(columns[0], [pc.Block("any", columns[1:], **options)])
    restored = pc.ModelSpec.from_dict(json.loads(json.dumps(spec.to_dict())))
    assert restored == spec
    assert restored.digest == spec.digest
    assert dict(restored.blocks[0].options) == options


def test_specs_have_equal_digests_if_and_only_if_they_are_equal() -> None:
    def spec(**changes: Any) -> pc.ModelSpec:
        fields = {"label": "c", "blocks": [pc.Block("categorical", ["x"], pseudo_count=1)]}
        return pc.ModelSpec(**{**fields, **changes})

    same = [
        spec(),
        spec(blocks=(pc.Block("categorical", "x", pseudo_count=1.0),)),
        spec(blocks=[pc.Block("categorical", ("x",), name="categorical", pseudo_count=np.int8(1))]),
        spec(prior="empirical", weight=None),
    ]
    other = [
        spec(prior="uniform"),
        spec(weight="w"),
        spec(on_scarce="error"),
        spec(label="d"),
        spec(blocks=[pc.Block("categorical", ["x"], pseudo_count=1.5)]),
        spec(blocks=[pc.Block("categorical", ["x", "y"], pseudo_count=1)]),
        spec(blocks=[pc.Block("categorical", ["y", "x"], pseudo_count=1)]),
        spec(blocks=[pc.Block("categorical", ["x"], name="mine", pseudo_count=1)]),
        spec(blocks=[pc.Block("categorical", ["x"], given=["y"], pseudo_count=1)]),
        spec(prior={"a": 0.5, "b": 0.5}),
    ]
    assert len({equal.digest for equal in same}) == 1
    assert all(equal == same[0] for equal in same)
    assert len({any_spec.digest for any_spec in (*same, *other)}) == 1 + len(other)
    assert spec(prior={"b": 0.5, "a": 0.5}).digest == other[-1].digest
    assert len(same[0].digest) == 64


def test_blocks_can_be_given_in_shorter_forms() -> None:
    blocks = [pc.Block("gaussian_diagonal", ["x", "y"]), pc.Block("categorical", ["z"])]
    spec = pc.ModelSpec("c", blocks)
    assert pc.ModelSpec("c", {"gaussian_diagonal": ["x", "y"], "categorical": "z"}) == spec
    assert pc.ModelSpec("c", [block.to_dict() for block in blocks]) == spec
    assert pc.ModelSpec("c", blocks[0]) == pc.ModelSpec("c", blocks[:1])


def test_a_spec_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        SPEC.label = "water"  # type: ignore[misc]
    with pytest.raises(AttributeError):
        SPEC.blocks[0].columns = ("x",)  # type: ignore[misc]


def test_auto_models_columns_by_their_types() -> None:
    schema = pa.schema(
        [
            *(("f", pa.float32()), ("air", pa.string()), ("i", pa.int8()), ("d", pa.decimal128(5))),
            *(("s", pa.large_string()), ("b", pa.bool_()), ("w", pa.float64())),
            *(("c", pa.dictionary(pa.int8(), pa.string())), ("at", pa.timestamp("us"))),
            ("n", pa.dictionary(pa.int8(), pa.int64())),
            *(("v", pa.string_view()), ("l", pa.list_(pa.string()))),
            ("m", pa.map_(pa.string(), pa.float64())),
        ]
    )
    spec = pc.ModelSpec.auto(schema, "air", weight="w", exclude=["at"], prior="uniform")
    kinds = {**dict.fromkeys("fid", "discretized"), **dict.fromkeys("lm", "multinomial")}
    assert spec.to_dict() == {
        "label": "air",
        "weight": "w",
        "prior": "uniform",
        "block_weights": "fit",
        "blocks": [
            {"estimator": kinds.get(name, "categorical"), "name": name, "columns": [name]}
            for name in "fidsbcnvlm"
        ],
    }
    assert spec.notes == ("The values of the columns were not looked at.",)
    rows = pa.table({"air": ["good", "bad"], "f": [1.0, 2.0]})
    frames = (rows.to_pandas(), pl.from_arrow(rows))
    for source in (rows, rows.schema, ds.dataset(rows), rows.to_batches()[0], *frames):
        assert pc.ModelSpec.auto(source, "air").features == ("f",)
    # pandas stores its index as an additional column.
    indexed = pa.Table.from_pandas(rows.to_pandas(), preserve_index=True)
    assert pc.ModelSpec.auto(indexed, "air").features == ("f",)


SCHEMA = pa.schema([("air", pa.string()), ("x", pa.float64()), ("at", pa.duration("us"))])


@pytest.mark.parametrize(
    ("label", "options", "message"),
    [
        ("ear", {}, r"no column 'ear'; the table has 'air', 'at', 'x'\. Did you mean 'air'\?"),
        ("air", {"exclude": ["y"]}, "no column 'y'"),
        ("air", {}, r"column 'at' is duration\[us\], which no default .* exclude=\['at'\]"),
        ("air", {"exclude": ["at", "x"]}, "no column is left to model"),
        ("air", {"effort": "most"}, "effort must be one of .* got 'most'"),
    ],
)
def test_a_schema_that_auto_cannot_model_is_refused(
    label: str, options: dict[str, Any], message: str
) -> None:
    with refused(SpecError, message):
        pc.ModelSpec.auto(SCHEMA, label, **options)


X = {"estimator": "gaussian_diagonal", "columns": ["x"]}
Y = {"estimator": "gaussian_diagonal", "columns": ["y"]}
UNNAMED = (
    "",
    "a/b",
    ".hidden",
    "_private",
    "priors",
    "classes",
    "calibration",
    "density_quantiles",
)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"label": "c"}, "needs the key 'blocks', and 'label' unless"),
        ([X], "a model spec must be a table of keys, got list"),
    ],
)
def test_a_spec_without_its_keys_is_refused(values: Any, message: str) -> None:
    with refused(SpecError, message):
        pc.ModelSpec.from_dict(values)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"blokcs": []}, r"unknown key 'blokcs'.* Did you mean 'blocks'\?"),
        ({"blocks": "x"}, "blocks must be a list of Blocks, or .* got 'x'"),
        ({"blocks": {}}, "a model needs at least one Block"),
        ({"blocks": [{"columns": ["x"]}]}, "a block needs 'estimator'; it has 'columns'"),
        ({"blocks": [{"estimator": "e"}]}, "a block needs 'columns'; it has 'estimator'"),
        ({"blocks": [X, X]}, "column 'x' is in block 'gaussian_diagonal' and also in"),
        ({"blocks": [X | {"name": "m"}, Y | {"name": "m"}]}, "two blocks are named 'm'"),
        (
            {"blocks": [X | {"given": ["y"]}, Y | {"given": ["x"]}]},
            "in a cycle, 'x' given 'y' given 'x'; remove one of them",
        ),
        ({"label": "x"}, "column 'x' is the label and also in block"),
        ({"label": ""}, "label must be a column name, got ''"),
        ({"weight": "x"}, "column 'x' is the weight and also in block"),
        ({"weight": "c"}, "'c' cannot be both the label and the weight"),
        ({"half_life": 0}, "half_life"),
        ({"groups": "c"}, "groups is the label, 'c'; name another column, such as a day"),
        ({"on_scarce": "drop"}, "on_scarce must be one of 'error', 'pool', got 'drop'"),
        ({"prior": "flat"}, "prior must be 'empirical', 'uniform' or a prob"),
        (
            {"prior": {"a": 0.5, "b": 0.6}},
            r"the prior sums to 1\.1, not 1: \{'a': 0\.5, 'b': 0\.6\}",
        ),
        *(
            ({"prior": {"a": bad}}, "the prior: class 'a' must be a number from 0 to 1")
            for bad in (-0.5, "half", True, float("nan"))
        ),
    ],
)
def test_an_invalid_spec_is_refused(keys: Any, message: str) -> None:
    with refused(SpecError, message):
        pc.ModelSpec.from_dict({"label": "c", "blocks": [X]} | keys)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"estimator": ""}, "estimator must be a name, got ''"),
        ({"columns": []}, r"columns must be one or more .*, got \[\]"),
        ({"columns": [1]}, r"columns must be .*, got \[1\]"),
        ({"columns": ["x", "x"]}, "column 'x' is listed twice"),
        ({"given": [""]}, r"given must be column names, got \[''\]"),
        ({"given": ["x"]}, "'x' is listed twice and also given"),
        ({"given": ["c"]}, "'c' is the label and also in block"),
        ({"given": ["w"]}, "'w' is the weight and also in block .*; a model can use"),
        *(({"name": name}, f"block name '{name}' cannot name a stored") for name in UNNAMED),
        ({"k": float("nan")}, "option 'k': nan is not a finite number"),
        ({"k": {1, 2}}, r"option 'k': \{1, 2\} is not a plain value"),
    ],
)
def test_an_invalid_block_is_refused(keys: Any, message: str) -> None:
    with refused(SpecError, message):
        pc.ModelSpec.from_dict({"label": "c", "blocks": [X | keys], "weight": "w"})
