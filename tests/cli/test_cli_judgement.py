"""explain and compare from a shell: the story, the table, the JSON, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pac
import pytest

import probclass_core as pc

SEPALS = ["sepal_length", "sepal_width"]


@pytest.fixture
def birds(probclass: Any, penguins: pa.Table) -> Path:
    """Penguins in a file, after a model ``birds`` was trained on them."""
    source = probclass.table("penguins.parquet", penguins)
    spec = probclass.spec(
        {"estimator": "gaussian_full", "columns": ["bill_length_mm", "bill_depth_mm"]},
        {"estimator": "categorical", "columns": ["island", "sex"]},
        label="species",
    )
    probclass.done("fit", source, "--spec", spec, "--name", "birds")
    return Path(source)


def spec_file(folder: Path, name: str, estimator: str, columns: list[str] = SEPALS) -> Path:
    path = folder / f"{name}.json"
    blocks = [{"estimator": estimator, "columns": columns}]
    path.write_text(json.dumps({"label": "species", "blocks": blocks}))
    return path


def test_a_ledger_reads_as_a_story(probclass: Any, birds: Path) -> None:
    ran = probclass.done("explain", "birds", birds, "--row", 152)
    lines = ran.out.splitlines()
    assert lines[0] == "row 152: Chinstrap rather than Adelie"
    assert lines[1].split() == ["decibans", "total", "against", "for"]
    assert [line.split()[0] for line in lines[2:]] == [
        "prior",
        "gaussian_full",
        "bill_depth_mm=17.9",  # of the block, in a line of its own
        "island",
        "sex",
        "posterior:",
    ]
    assert "█" in lines[3]
    assert max(map(len, lines)) <= 80
    model = pc.ModelStore("models").load("birds")
    found = pc.explain(model, birds, rows=[152], units="decibans")
    assert ran.out == f"{found}\n"
    assert f"log odds {found.rows['log_odds'][0].as_py():+.2f}" in lines[-1]


def test_rows_rival_units_and_limit(probclass: Any, birds: Path) -> None:
    chosen = ("--row", 1, "--row", 0, "--where", "island in Dream", "--against", "Gentoo")
    ran = probclass.done("explain", "birds", birds, *chosen, "--units", "nats", "--limit", 1)
    stories = ran.out.split("\n\n")
    assert [story.splitlines()[0] for story in stories] == [
        "row 0: Adelie rather than Gentoo",
        "row 1: Adelie rather than Gentoo",
    ]
    for story in stories:
        assert story.splitlines()[1].split()[0] == "nats"
        assert "2 smaller" in story


def test_an_explanation_for_machines(probclass: Any, birds: Path) -> None:
    found = probclass("explain", "birds", birds, "--row", 3, "--row", 7, "--json").json
    model = pc.ModelStore("models").load("birds")
    assert list(found) == ["model", "model_id", "units", "rows"]
    assert found["model"] == f"birds@{model.id}"
    expected = pc.explain(model, birds, rows=[3, 7], units="decibans")
    assert {key: found[key] for key in list(found)[1:]} == expected.to_dict()
    first = found["rows"][0]
    weights = [entry["weight"] for entry in first["ledger"]]
    assert sum(weights) == pytest.approx(first["log_odds"])


def test_models_side_by_side(probclass: Any, iris: pa.Table) -> None:
    source = probclass.table("iris.parquet", iris)
    specs = [spec_file(probclass.folder, name, f"gaussian_{name}") for name in ("diagonal", "full")]
    ran = probclass.done("compare", source, *specs)
    rows = [line.split() for line in ran.out.splitlines()]
    assert rows[1][0] == "model"
    assert [row[0] for row in rows[3:5]] == ["full", "diagonal"]
    assert rows[3][-1] == "best"
    assert rows[4][-2:] == ["decisive", "against"]
    statistics = {path.stem: pc.summarize(source, pc.ModelSpec.from_file(path)) for path in specs}
    odds = pc.compare(statistics).odds("full", "diagonal")
    exponent = int(ran.out.splitlines()[-1].split("10^")[1].split()[0])
    assert 10**exponent == pytest.approx(odds.odds, rel=3)
    assert ran.out.splitlines()[-1] == (
        f"full against diagonal: odds of 10^{exponent} to 1, decisive."
    )


def test_a_comparison_for_machines_and_with_prior_odds(probclass: Any, iris: pa.Table) -> None:
    source = probclass.table("iris.parquet", iris)
    one, two = (spec_file(probclass.folder, name, "gaussian_full") for name in ("one", "two"))
    ran = probclass("compare", source, one, two, "--odds", "two=4", "--json").json
    assert list(ran) == ["rows", "best", "models"]
    assert (ran["rows"], ran["best"]) == (150, "two")
    assert [model["model"] for model in ran["models"]] == ["two", "one"]
    assert [model["prior"] for model in ran["models"]] == pytest.approx([0.8, 0.2])
    assert [model["odds"] for model in ran["models"]] == pytest.approx([1.0, 0.25])
    shown = probclass.done("compare", source, one, two, "--odds", "two=4").out.splitlines()
    assert shown[-1] == "two against one: odds of 4 to 1, not strong."
    fewer = ("--where", "species in iris-setosa,iris-virginica")
    assert probclass("compare", source, one, two, *fewer, "--json").json["rows"] == 100


REFUSALS: dict[str, tuple[tuple[object, ...], list[str]]] = {
    "one spec": (("one.json",), ["two models or more, got 1"]),
    "one name twice": (("one.json", "sub/one.json"), ["named as its spec file"]),
    "no such spec": (("one.json", "three.json"), ["cannot read the model spec three.json"]),
    "other columns": (("one.json", "half.json"), ["same columns", "'sepal_width'"]),
    "no evidence": (("one.json", "near.json"), ["'near'", "knn_density offers no log evidence"]),
    "odds of no model": (("one.json", "two.json", "--odds", "tow=2"), ["--odds 'tow=2'", "'two'"]),
    "odds without a number": (
        ("one.json", "two.json", "--odds", "two=twice"),
        ["--odds 'two=twice'", "'twice' is not a number"],
    ),
    "odds of nothing": (("one.json", "two.json", "--odds", "two=0"), ["'two'", "above 0"]),
    "odds without a name": (("one.json", "two.json", "--odds", "2"), ["MODEL=NUMBER"]),
}


@pytest.mark.parametrize("case", sorted(REFUSALS))
def test_a_comparison_that_makes_no_sense(probclass: Any, iris: pa.Table, case: str) -> None:
    probclass.table("iris.parquet", iris)
    (probclass.folder / "sub").mkdir()
    for name in ("one", "two", "sub/one"):
        spec_file(probclass.folder, name, "gaussian_full")
    spec_file(probclass.folder, "half", "gaussian_full", SEPALS[:1])
    spec_file(probclass.folder, "near", "knn_density")
    arguments, says = REFUSALS[case]
    message = probclass.refused("compare", "iris.parquet", *arguments)
    for part in says:
        assert part in message


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--row", 344), "there is no row 344: there are 344, counted from 0"),
        (("--row", -1), "rows must be different numbers"),
        (("--row", "x"), "--row"),
        (("--against", "Gento"), "Did you mean 'Gentoo'?"),
        (("--units", "decibels"), "Did you mean 'decibans'?"),
        (("--limit", 0), "--limit"),
    ],
)
def test_an_explanation_that_makes_no_sense(
    probclass: Any, birds: Path, arguments: tuple[object, ...], says: str
) -> None:
    assert says in probclass.refused("explain", "birds", birds, *arguments)


def test_drift_names_what_changed_most(probclass: Any, birds: Path, penguins: pa.Table) -> None:
    heavier = penguins.set_column(
        penguins.column_names.index("bill_depth_mm"),
        "bill_depth_mm",
        pac.add(penguins["bill_depth_mm"], 2.0),
    )
    source = probclass.table("heavier.parquet", heavier)
    probclass.done("fit", source, "--spec", "spec.json", "--name", "birds", "--alias", "later")
    first = pc.ModelStore("models").versions("birds")[0]
    found = probclass.done("drift", first.ref, "birds@later", "--json").json
    assert found["models"] == [first.ref, pc.ModelStore("models").resolve("birds@later").ref]
    most, *others = found["by_feature"]
    assert most["feature"] == "bill_depth_mm"
    assert most["mean_after"] - most["mean_before"] == pytest.approx(2.0)
    assert [row["divergence"] for row in others] == pytest.approx([0.0] * 3, abs=1e-12)
    shown = probclass.done("drift", first.ref, "birds@later", "--limit", 1).out
    assert "bill_depth_mm" in shown
    assert "island" not in shown
    assert "… and 3 more rows" in shown


def test_drift_of_an_unknown_version_is_refused(probclass: Any, birds: Path) -> None:
    assert "no version or alias 'later'" in probclass.refused("drift", "birds", "birds@later")
