"""plot: each picture from a stored model or table, and one line where it cannot be drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import probclass_core as pc

L, W = "sepal_length", "sepal_width"
AXES = ("--x", L, "--y", W)
DRAWN = {
    "contours": ("contours", "full", *AXES),
    "contours of data": (
        *("contours", "full", *AXES, "--data", "iris.parquet"),
        *("--point", "6.75,4.25", "--level", "0.05"),
    ),
    "ball": ("ball", "near", *AXES, "--point", "6.75,4.25"),
    "densities": ("densities", "full", "--column", L),
    "densities of data": (
        *("densities", "full", "--column", L, "--data", "iris.parquet", "--prior-weighted"),
    ),
    "masses": ("masses", "full", "--column", "size", "--most", "2"),
    "reliability": ("reliability", "full", "iris.parquet", "--class", "iris-setosa"),
    "confusion": ("confusion", "full", "iris.parquet"),
}
ROWS = {"contours of data": 150, "densities of data": 150, "reliability": 150, "confusion": 150}


@pytest.fixture
def models(probclass: Any, iris: pa.Table) -> dict[str, str]:
    """Iris beside a column of categories, and two models of it; their references."""
    sizes = pa.array(["small", "large", "huge"] * 50)
    table = iris.append_column("size", sizes)
    probclass.table("iris.parquet", table)
    store = pc.ModelStore("models")
    gaussian, sized = pc.Block("gaussian_full", [L, W]), pc.Block("categorical", ["size"])
    full = pc.fit(table, pc.ModelSpec("species", [gaussian, sized]))
    near = pc.fit(table, pc.ModelSpec("species", [pc.Block("knn_density", [L, W])]))
    return {"full": store.save(full, "full").ref, "near": store.save(near, "near").ref}


@pytest.mark.parametrize("kind", DRAWN)
def test_each_picture_is_drawn(probclass: Any, models: dict[str, str], kind: str) -> None:
    plot = ("plot", *DRAWN[kind])
    rows = ROWS.get(kind)
    said = "drawn in a.png\n" if rows is None else f"{rows} rows drawn in a.png\n"
    assert probclass.done(*plot, "--out", "a.png").out == said
    assert Path("a.png").read_bytes().startswith(b"\x89PNG")
    expected = {"model": models[DRAWN[kind][1]], "out": "a.svg"}
    told = probclass(*plot, "--out", "a.svg", "--json").json
    assert told == expected | ({} if rows is None else {"rows": rows})
    assert "<svg" in Path("a.svg").read_text(encoding="utf-8")


def test_conditions_choose_the_rows_of_the_data(probclass: Any, models: dict[str, str]) -> None:
    plot = ("plot", *DRAWN["contours of data"], "--where", "sepal_length < 5", "--out", "a.png")
    assert probclass.done(*plot).out == "22 rows drawn in a.png\n"
    plot = ("plot", *DRAWN["confusion"], "--where", "species = iris-setosa", "--out", "a.png")
    assert probclass.done(*plot).out == "50 rows drawn in a.png\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("contours", "full", "--x", L, "--y", "sepal_widht"), "Did you mean 'sepal_width'?"),
        (("contours", "full", "--x", L, "--y", "size"), "'size' has categories or bins"),
        ((*DRAWN["contours"], "--point", "6.75"), "--point '6.75': write X,Y"),
        ((*DRAWN["contours"], "--point", "6.75;4.25"), "--point '6.75;4.25': write X,Y"),
        ((*DRAWN["contours"], "--point", "nan,1"), "must be two finite numbers"),
        ((*DRAWN["contours"], "--level", "2"), "level must lie between 0 and 1, got 2.0"),
        ((*DRAWN["contours"], "--where", "x < 1"), "rows of --data SOURCE; name it, too"),
        ((*DRAWN["contours"], "--data", "nothing.parquet"), "nothing.parquet"),
        (("ball", "full", *AXES, "--point", "1,2"), "no knn_density block holds both"),
        (("densities", "full", "--column", "size"), "use category_masses (probclass plot masses)"),
        (("masses", "full", "--column", L), "use class_densities (probclass plot densities)"),
        (("masses", "full", "--column", "size", "--most", "0"), "most must be at least 1"),
        (("reliability", "full", "iris.parquet", "--class", "setosa"), "no class 'setosa'"),
        (("confusion", "ful", "iris.parquet"), "'full'"),
    ],
)
def test_what_cannot_be_drawn_is_one_line(
    probclass: Any, models: dict[str, str], arguments: tuple[str, ...], words: str
) -> None:
    assert words in probclass.refused("plot", *arguments, "--out", "a.png")


def test_a_format_is_checked_before_any_work(probclass: Any, models: dict[str, str]) -> None:
    line = probclass.refused("plot", "confusion", "none", "no table", "--out", "a.doc")
    assert "--out 'a.doc': no picture is written as 'doc'; use 'eps', 'jpg', 'pdf', 'png'" in line
