"""What a newcomer types wrong in the first hour, and the one clear line that each call answers."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import probclass_core as pc
from probclass_core.cli.app import app
from probclass_core.io.selection import count_labels

ROWS = 60
FRAME = pd.DataFrame(
    {
        "size": np.sin(np.arange(ROWS)),
        "color": ["red", "blue", "red"] * (ROWS // 3),
        "kind": ["a", "b"] * (ROWS // 2),
    }
)
SPEC = pc.ModelSpec("kind", {"gaussian_diagonal": "size", "categorical": "color"})
MODEL = pc.fit(FRAME, SPEC)
FEATURES, KIND = FRAME[["size", "color"]], FRAME["kind"]


def of_two_levels() -> pd.DataFrame:
    return FRAME.set_axis(pd.MultiIndex.from_product([["all"], FRAME.columns]), axis=1)


def fit(frame: Any, label: Any = "kind") -> pc.Model:
    return pc.fit(frame, label=label)


Call = Callable[[], object]
BIG = np.array([2**63, 2**63 + 9] * (ROWS // 2), np.uint64)
TWICE = pd.concat([FRAME, FRAME[["size"]]], axis=1)
ODD = pa.table(
    {"y": ["a", "b"], "codes": pa.array([{"a": 1}, {"a": 2}]), "blob": [b"", b"x"], "x": [1.0, 2.0]}
)
TEXTS = {"y": ["a", "b"], "u": ["p", "q"], "v": ["p", "q"]}
MESSAGES: list[tuple[Call, list[str]]] = [
    (
        lambda: pc.ModelSpec.auto(FRAME, ["kind"]),
        ["label must be a column name, got ['kind']", "Pass 'kind'."],
    ),
    (lambda: fit(FRAME, KIND), ["label must", "a Series", "Pass 'kind'."]),
    (
        lambda: fit(of_two_levels()),
        ["names of 2 levels, such as ('all', 'size')", "frame.columns = ["],
    ),
    (
        lambda: pc.ModelSpec.auto(FRAME, "kind", effort="defalt"),
        ["effort must be one of 'best', 'default', 'fast'", "Did you mean 'default'?"],
    ),
    (
        lambda: pc.drift(MODEL, FRAME),
        ["drift compares two models, got a DataFrame", "health(model, rows)"],
    ),
    (
        lambda: pc.score(MODEL, FRAME),
        ["score writes its rows to a table", "model.predict_table(rows)"],
    ),
    (lambda: pc.evaluate("air@champion", FRAME), ["expected a Model, got str", "load"]),
    (lambda: pc.fit(FRAME, "air.toml"), ["expected a ModelSpec, got str", "ModelSpec.from_file"]),
    (
        lambda: fit(FRAME.assign(extra=[2**70] * ROWS)),
        ["column 'extra' has whole numbers beyond 64 bits, such as 1180591620717411303424", "text"],
    ),
    (
        lambda: fit(FRAME.assign(extra=BIG), "extra"),
        ["label 'extra' is uint64", "beyond int64", "cast it to text"],
    ),
    (
        lambda: fit(FRAME.assign(extra=[[1], "x"] * (ROWS // 2))),
        ["column 'extra' mixes list values such as [1] and str values such as 'x'", "one type"],
    ),
    (
        lambda: fit(FRAME.assign(extra=pd.Categorical(pd.to_datetime(["2024"] * ROWS))), "extra"),
        ["label 'extra' is timestamp[us] and has 1 distinct values in 60 rows", "cast the column"],
    ),
    (
        lambda: fit(FRAME.assign(extra=[1, "x", pd.NA, np.array([1, 2])] * (ROWS // 4))),
        ["column 'extra' mixes int values such as 1 and str values such as 'x' and ndarray"],
    ),
    (
        lambda: fit({**FRAME, "extra": np.ones((ROWS, 2))}),
        ["column 'extra' has ndarray values, which Arrow cannot convert: only handle 1-dim"],
    ),
    (
        lambda: fit(FRAME.assign(extra=[complex(1, 2)] * ROWS)),
        ["column 'extra' has complex values", "drop it"],
    ),
    (
        lambda: fit(pl.DataFrame({"kind": ["a"], "extra": pl.Series([1], dtype=pl.Int128)})),
        ["column 'extra' has int values, which Arrow cannot convert", "drop it, or convert it"],
    ),
    (lambda: fit(TWICE), ["2 columns named 'size'; rename all but one."]),
    (
        lambda: MODEL.predict({"size": 0.5, "color": "red"}),
        ["column 'size' is a single value, 0.5; give a list of values, such as [0.5]."],
    ),
    (
        lambda: MODEL.predict({"size": [0.5, 1.0], "color": ["red"]}),
        ["the columns have different lengths: {'size': 2, 'color': 1}"],
    ),
    (lambda: MODEL.predict_table({"size": [0.5]}), ["no column 'color'"]),
    (
        lambda: pc.evaluate(MODEL, FRAME, where="size > 2"),
        ["no row matches where [('size', '>', '2')]."],
    ),
    (
        lambda: pc.fit({**FRAME, "color": [Decimal(1)] * ROWS}, SPEC),
        ["column 'color': decimal128(1, 0) values are not categories"],
    ),
    (
        lambda: MODEL.predict_table(FRAME, options={"columns": "kidn"}),
        ["no column 'kidn'", "mean 'kind'"],
    ),
    (lambda: pc.fit(FRAME), ["expected a spec, or label=", "got neither"]),
    (lambda: pc.fit(FRAME, SPEC, label="kind"), ["got both a spec and a label"]),
    (lambda: pc.fit(FRAME, SPEC, exclude="size"), ["exclude= is for a spec that is derived"]),
    (lambda: pc.fit(FRAME, "kind"), ["or write label='kind' if it is the class"]),
    (
        lambda: pc.ModelSpec.auto(ODD.schema, "y"),
        ["column 'codes' is struct<", "column 'blob' is binary, ", "exclude=['codes', 'blob']"],
    ),
    (
        lambda: pc.fit(TEXTS, pc.ModelSpec("y", {"gaussian_full": ["u", "v"]})),
        ["column 'u' is string, column 'v' is string, but it models numbers", "cast them"],
    ),
]


@pytest.mark.parametrize(("call", "fragments"), MESSAGES)
def test_a_wrong_argument_is_answered_by_one_clear_line(call: Call, fragments: list[str]) -> None:
    with pytest.raises(pc.ProbClassError) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 300
    assert [fragment for fragment in fragments if fragment not in message] == []


UNUSABLE = {
    "Series": KIND,
    "DataFrame": FRAME,
    "Path": Path("no/such/table"),
    "list": ["kind"],
    "number": 2.5,
    "array": np.zeros((2, 2)),
    "Model": MODEL,
}
CALLS: dict[str, tuple[Callable[..., object], dict[str, Any]]] = {
    "fit": (pc.fit, {"source": FRAME, "spec": SPEC}),
    "summarize": (pc.summarize, {"source": FRAME, "spec": SPEC}),
    "auto": (pc.ModelSpec.auto, {"source": FRAME, "label": "kind", "effort": "fast"}),
    "evaluate": (pc.evaluate, {"model": MODEL, "source": FRAME}),
    "health": (pc.health, {"model": MODEL, "source": FRAME}),
    "explain": (pc.explain, {"model": MODEL, "source": FRAME, "rows": 0}),
    "importance": (pc.importance, {"model": MODEL, "source": FRAME}),
    "calibrate": (pc.calibrate, {"model": MODEL, "source": FRAME}),
    "cross_validate": (pc.cross_validate, {"source": FRAME, "spec": SPEC, "folds": 2}),
    "compare": (pc.compare, {"source": FRAME, "specs": [SPEC, SPEC]}),
    "count_labels": (count_labels, {"source": FRAME, "label": "kind"}),
    "predict_table": (MODEL.predict_table, {"data": FRAME}),
    "drift": (pc.drift, {"before": MODEL, "after": MODEL}),
}


@pytest.mark.parametrize("name", CALLS)
def test_no_argument_of_another_type_is_a_raw_error(name: str) -> None:
    function, arguments = CALLS[name]
    messages = []
    for parameter in inspect.signature(function).parameters:
        for kind, value in UNUSABLE.items():
            try:
                function(**{**arguments, parameter: value})
            except pc.ProbClassError as error:
                messages.append(f"{parameter} as {kind}: {error}")
    assert len(messages) >= len(UNUSABLE)
    assert not [message for message in messages if "\n" in message]


def test_the_index_of_a_frame_is_no_column_of_scored_rows(tmp_path: Path) -> None:
    named = FRAME.set_axis([f"row {number}" for number in range(ROWS)])
    scored = tmp_path / "scored.parquet"
    pc.score(MODEL, named, scored, options=pc.ScoringOptions(watch=False))
    assert pq.read_schema(scored).names[:4] == ["size", "color", "kind", "prediction"]
    assert MODEL.predict_table(named).column_names[:4] == ["size", "color", "kind", "prediction"]


def test_the_index_in_a_file_of_pandas_is_copied_only_if_it_is_named(tmp_path: Path) -> None:
    rows, scored, asked = (tmp_path / f"{name}.parquet" for name in ("rows", "scored", "asked"))
    FRAME.set_axis([f"row {number}" for number in range(ROWS)]).to_parquet(rows)
    assert pq.read_schema(rows).names[-1] == "__index_level_0__"
    pc.score(MODEL, rows, scored, options=pc.ScoringOptions(watch=False))
    assert "__index_level_0__" not in pq.read_schema(scored).names
    pc.score(
        MODEL, rows, asked, options=pc.ScoringOptions(columns="__index_level_0__", watch=False)
    )
    assert pq.read_table(asked)["__index_level_0__"][1].as_py() == "row 1"


def test_the_index_is_no_feature_of_the_default_model(tmp_path: Path) -> None:
    rows = tmp_path / "rows.parquet"
    sorted_rows = FRAME.sort_values("kind", ignore_index=True)
    sorted_rows.set_axis(range(0, 2 * ROWS, 2)).set_axis(list(range(ROWS))).to_parquet(rows)
    table = pq.read_table(rows).append_column("__index_level_0__", pa.array(range(ROWS)))
    assert set(pc.ModelSpec.auto(table, "kind").features) <= {"size", "color"}


@pytest.mark.parametrize(
    ("word", "found"), [("watch", "docs/monitoring.md"), ("train", "probclass fit")]
)
def test_words_of_other_tools_lead_to_the_command(word: str, found: str) -> None:
    result = CliRunner().invoke(app, [word])
    assert result.exit_code == 2
    line = " ".join(result.output.split())
    assert found in line
    pages = [page for page in line.split() if page.startswith("docs/")]
    assert all((Path(__file__).parents[2] / page).is_file() for page in pages)
