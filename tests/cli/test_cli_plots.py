"""plot: each kind of plot, and errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import probclass_core as pc

L, W = "sepal_length", "sepal_width"
AXES = f"--x {L} --y {W}"
PLOTS = {
    "contours": f"contours full {AXES}",
    "contours of data": f"contours full {AXES} --data iris.parquet --point 6,4 --level 0.05",
    "effect": f"effect full --column {L}",
    "effect of data": f"effect full --column {L} --data iris.parquet",
    "effect of categories": "effect full --column size --limit 2",
    "weights": "weights weighted",
    "importance": "importance full iris.parquet --limit 1",
    "waterfall": "waterfall full iris.parquet --row 3 --units bits",
    "reliability": "reliability full iris.parquet --class iris-setosa",
    "confusion": "confusion full iris.parquet",
}
ROWS = {
    "contours of data": 150,
    "effect of data": 150,
    "waterfall": 1,
    "reliability": 150,
    "confusion": 150,
}


@pytest.fixture
def models(probclass: Any, iris: pa.Table) -> dict[str, str]:
    """References to two models of the UCI Iris with an additional column of categories."""
    sizes = pa.array(["small", "large", "huge"] * 50)
    table = iris.append_column("size", sizes)
    probclass.table("iris.parquet", table)
    store = pc.ModelStore("models")
    gaussian, sized = pc.Block("gaussian_full", [L, W]), pc.Block("categorical", ["size"])
    full = pc.fit(table, pc.ModelSpec("species", [gaussian, sized]))
    weighted = pc.fit(table, pc.ModelSpec("species", [gaussian, sized], block_weights="fit"))
    named = {"full": full, "weighted": weighted}
    return {name: store.save(model, name).ref for name, model in named.items()}


@pytest.mark.parametrize("kind", PLOTS)
def test_a_plot_is_written_and_reported(probclass: Any, models: dict[str, str], kind: str) -> None:
    plot = f"plot {PLOTS[kind]}"
    rows = ROWS.get(kind)
    subject = "the model" if rows is None else f"{rows} row{'s' if rows > 1 else ''}"
    assert probclass.ok(f"{plot} --out a.png").out == f"Plotted {subject} in a.png.\n"
    assert Path("a.png").read_bytes().startswith(b"\x89PNG")
    expected = {"model": models[PLOTS[kind].split()[1]], "out": "a.svg"}
    document = probclass(f"{plot} --out a.svg --json").json
    assert document == expected | ({} if rows is None else {"rows": rows})
    assert "<svg" in Path("a.svg").read_text(encoding="utf-8")


def test_conditions_select_the_plotted_rows(probclass: Any, models: dict[str, str]) -> None:
    for plot, where, rows in (
        ("contours of data", "sepal_length < 5", 22),
        ("confusion", "species = iris-setosa", 50),
    ):
        shown = probclass.ok(f"plot {PLOTS[plot]} --where '{where}' --out a.png").out
        assert shown == f"Plotted {rows} rows in a.png.\n"


@pytest.mark.parametrize(
    ("plot", "message"),
    [
        (f"contours full --x {L} --y sepal_widht", "Did you mean 'sepal_width'?"),
        (f"contours full {AXES} --point '6.75;4.25'", "--point '6.75;4.25': write X,Y"),
        (f"contours full {AXES} --point nan,1", "must be two finite numbers"),
        (f"contours full {AXES} --where 'x < 1'", "select rows of --data; add --data SOURCE"),
        (f"contours full {AXES} --data nothing.parquet", "nothing.parquet"),
        ("effect full --column size --limit 0", "'--limit'"),
        ("reliability full iris.parquet --class setosa", "no class 'setosa'"),
        ("confusion ful iris.parquet", "'full'"),
        ("weights full", "the model has no fitted block weights; fit one with"),
    ],
)
def test_an_invalid_plot_is_an_error(
    probclass: Any, models: dict[str, str], plot: str, message: str
) -> None:
    assert message in probclass.error(f"plot {plot} --out a.png")


def test_the_image_format_is_checked_first(probclass: Any) -> None:
    line = probclass.error("plot confusion none nowhere --out a.doc")
    assert "--out 'a.doc': cannot write the format 'doc'; use 'eps', 'jpg', 'pdf', 'png'" in line


def test_inspect_lists_blocks_by_importance(probclass: Any, models: dict[str, str]) -> None:
    lines = probclass.ok("inspect weighted").lines
    first = lines.index("block weight importance") + 2
    assert lines[first].startswith("gaussian_full ")
    assert lines[first].endswith("█" * 24)
    assert lines[first + 1].startswith("categorical 0")
    document = probclass("inspect weighted --json").json
    names = [term["name"] for term in document["block_weights"]]
    assert names[:3] == ["gaussian_full", "categorical", "iris-setosa"]
