"""explain, compare and drift: reports, JSON and errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pac
import pytest

import probclass_core as pc

SEPALS = ["sepal_length", "sepal_width"]


@pytest.fixture
def birds(probclass: Any, penguins: pa.Table) -> Path:
    """The penguins, and a model ``birds`` trained on them."""
    source = probclass.table("penguins.parquet", penguins)
    spec = probclass.spec(
        {"estimator": "gaussian_full", "columns": ["bill_length_mm", "bill_depth_mm"]},
        {"estimator": "categorical", "columns": ["island", "sex"]},
        label="species",
    )
    probclass.ok("fit", source, "--spec", spec, "--name", "birds")
    return Path(source)


def spec_file(folder: Path, name: str, estimator: str, columns: list[str] = SEPALS) -> Path:
    path = folder / f"{name}.json"
    blocks = [{"estimator": estimator, "columns": columns}]
    path.write_text(json.dumps({"label": "species", "blocks": blocks}))
    return path


def test_explain_prints_a_ledger_with_bars(probclass: Any, birds: Path) -> None:
    result = probclass.ok("explain", "birds", birds, "--row", 152)
    lines = result.out.splitlines()
    assert lines[0] == "row 152: Chinstrap rather than Adelie"
    assert lines[1].split() == ["nats", "total", "against", "for"]
    assert [line.split()[0] for line in lines[2:]] == [
        "prior",
        "columns",
        "bill_depth_mm=17.9",  # second line of the columns
        "island",
        "sex",
        "posterior:",
    ]
    assert "█" in lines[3]
    assert max(map(len, lines)) <= 80
    model = pc.ModelStore("models").load("birds")
    explanation = pc.explain(model, birds, rows=[152])
    assert result.out == f"{explanation}\n"
    assert f"log odds {explanation.rows['log_odds'][0].as_py():+.2f}" in lines[-1]


def test_explain_takes_rows_a_rival_units_and_a_limit(probclass: Any, birds: Path) -> None:
    chosen = ("--row", 1, "--row", 0, "--where", "island in Dream", "--against", "Gentoo")
    result = probclass.ok("explain", "birds", birds, *chosen, "--units", "bits", "--limit", 1)
    ledgers = result.out.split("\n\n")
    assert [ledger.splitlines()[0] for ledger in ledgers] == [
        "row 0: Adelie rather than Gentoo",
        "row 1: Adelie rather than Gentoo",
    ]
    for ledger in ledgers:
        assert ledger.splitlines()[1].split()[0] == "bits"
        assert "2 other columns" in ledger


def test_explain_json_equals_the_library(probclass: Any, birds: Path) -> None:
    document = probclass("explain", "birds", birds, "--row", 3, "--row", 7, "--json").json
    model = pc.ModelStore("models").load("birds")
    assert list(document) == ["model", "model_id", "units", "rows"]
    assert document["model"] == f"birds@{model.id}"
    expected = pc.explain(model, birds, rows=[3, 7])
    assert {key: document[key] for key in list(document)[1:]} == expected.to_dict()
    first = document["rows"][0]
    weights = [entry["weight"] for entry in first["ledger"]]
    assert sum(weights) == pytest.approx(first["log_odds"])


def test_compare_orders_models_by_evidence(probclass: Any, iris: pa.Table) -> None:
    source = probclass.table("iris.parquet", iris)
    specs = [spec_file(probclass.folder, name, f"gaussian_{name}") for name in ("diagonal", "full")]
    result = probclass.ok("compare", source, *specs)
    rows = [line.split() for line in result.out.splitlines()]
    assert rows[1][0] == "model"
    assert [row[0] for row in rows[3:5]] == ["full", "diagonal"]
    assert rows[3][-1] == "best"
    assert rows[4][-2:] == ["decisive", "against"]
    statistics = {path.stem: pc.summarize(source, pc.ModelSpec.from_file(path)) for path in specs}
    odds = pc.compare(statistics).odds("full", "diagonal")
    exponent = int(result.out.splitlines()[-1].split("10^")[1].split()[0])
    assert 10**exponent == pytest.approx(odds.odds, rel=3)
    assert result.out.splitlines()[-1] == (
        f"full against diagonal: odds of 10^{exponent} to 1, decisive."
    )


def test_compare_names_models_worse_than_their_prior(probclass: Any) -> None:
    rng = np.random.default_rng(1)
    noise = {"x": rng.normal(size=200), "y": rng.normal(size=200)}
    source = probclass.table("noise.parquet", pa.table({**noise, "c": ["a", "b"] * 100}))
    block = {"estimator": "gaussian_diagonal", "columns": ["x", "y"]}
    specs = []
    for name in ("one", "two"):
        specs.append(probclass.folder / f"{name}.json")
        specs[-1].write_text(json.dumps({"label": "c", "blocks": [block]}))
    lines = probclass.ok("compare", source, *specs).lines
    for name in ("one", "two"):
        assert any(line.startswith(f"{name} is worse than its class prior") for line in lines)


def test_compare_json_with_prior_odds(probclass: Any, iris: pa.Table) -> None:
    source = probclass.table("iris.parquet", iris)
    one, two = (spec_file(probclass.folder, name, "gaussian_full") for name in ("one", "two"))
    document = probclass("compare", source, one, two, "--odds", "two=4", "--json").json
    assert list(document) == ["rows", "best", "models"]
    assert (document["rows"], document["best"]) == (150, "two")
    assert [model["model"] for model in document["models"]] == ["two", "one"]
    assert [model["prior"] for model in document["models"]] == pytest.approx([0.8, 0.2])
    assert [model["odds"] for model in document["models"]] == pytest.approx([1.0, 0.25])
    shown = probclass.ok("compare", source, one, two, "--odds", "two=4").out.splitlines()
    assert shown[-1] == "two against one: odds of 4 to 1, not strong."
    fewer = ("--where", "species in iris-setosa,iris-virginica")
    assert probclass("compare", source, one, two, *fewer, "--json").json["rows"] == 100


INVALID_COMPARISONS: dict[str, tuple[tuple[object, ...], list[str]]] = {
    "two files of one name": (("one.json", "sub/one.json"), ["two files have one name"]),
    "missing spec file": (("one.json", "three.json"), ["cannot read the model spec three.json"]),
    "odds of an unknown model": (
        ("one.json", "two.json", "--odds", "tow=2"),
        ["--odds 'tow=2'", "'two'"],
    ),
    "odds without a number": (
        ("one.json", "two.json", "--odds", "two=twice"),
        ["--odds 'two=twice'", "'twice' is not a number"],
    ),
    "odds of zero": (("one.json", "two.json", "--odds", "two=0"), ["'two'", "above 0"]),
    "odds without a name": (("one.json", "two.json", "--odds", "2"), ["MODEL=NUMBER"]),
}


@pytest.mark.parametrize("case", sorted(INVALID_COMPARISONS))
def test_an_invalid_comparison_is_an_error(probclass: Any, iris: pa.Table, case: str) -> None:
    probclass.table("iris.parquet", iris)
    (probclass.folder / "sub").mkdir()
    for name in ("one", "two", "sub/one"):
        spec_file(probclass.folder, name, "gaussian_full")
    arguments, parts = INVALID_COMPARISONS[case]
    message = probclass.error("compare", "iris.parquet", *arguments)
    for part in parts:
        assert part in message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--row", 344), "there is no row 344: there are 344, counted from 0"),
        (("--row", "x"), "--row"),
        (("--against", "Gento"), "Did you mean 'Gentoo'?"),
        (("--limit", 0), "--limit"),
    ],
)
def test_an_invalid_explanation_is_an_error(
    probclass: Any, birds: Path, arguments: tuple[object, ...], message: str
) -> None:
    assert message in probclass.error("explain", "birds", birds, *arguments)


def test_drift_names_what_changed_most(probclass: Any, birds: Path, penguins: pa.Table) -> None:
    heavier = penguins.set_column(
        penguins.column_names.index("bill_depth_mm"),
        "bill_depth_mm",
        pac.add(penguins["bill_depth_mm"], 2.0),
    )
    source = probclass.table("heavier.parquet", heavier)
    probclass.ok("fit", source, "--spec", "spec.json", "--name", "birds", "--alias", "later")
    first = pc.ModelStore("models").versions("birds")[0]
    document = probclass.ok("drift", first.ref, "birds@later", "--json").json
    assert document["models"] == [first.ref, pc.ModelStore("models").resolve("birds@later").ref]
    most, *others = document["by_feature"]
    assert most["feature"] == "bill_depth_mm"
    assert most["mean_after"] - most["mean_before"] == pytest.approx(2.0)
    assert [row["divergence"] for row in others] == pytest.approx([0.0] * 3, abs=1e-12)
    shown = probclass.ok("drift", first.ref, "birds@later", "--limit", 1).out
    assert "bill_depth_mm" in shown
    assert "island" not in shown
    assert "… and 3 more rows" in shown


def test_drift_of_an_unknown_version_is_an_error(probclass: Any, birds: Path) -> None:
    assert "no version or alias 'later'" in probclass.error("drift", "birds", "birds@later")


def test_importance_prints_a_bar_for_each_column(probclass: Any, birds: Path) -> None:
    text = probclass.ok("importance", "birds", birds, "--rows", 100).out
    assert "weight of evidence of 100 rows, in nats" in text
    document = probclass("importance", "birds", birds, "--rows", 100, "--json").json
    expected = pc.importance(pc.ModelStore("models").load("birds"), birds, rows=100)
    assert document["importance"] == expected.to_dict()["importance"]
    assert expected.table["item"][0].as_py() in text


def test_health_prints_the_scores_to_expect_and_the_columns(probclass: Any, birds: Path) -> None:
    result = probclass.ok("health", "birds", birds, "--where", "island = Dream")
    lines = result.out.splitlines()
    assert lines[0].split()[0] == "model"
    assert lines[1].split() == ["rows", "124"]
    assert any(
        line.startswith("accuracy") and "of the most frequent class" in line for line in lines
    )
    assert max(map(len, lines)) <= 80
    model = pc.ModelStore("models").load("birds")
    values = probclass.ok("health", "birds", birds, "--where", "island = Dream", "--json").json
    del values["model"]
    assert pc.Health.from_dict(values) == pc.health(model, birds, where="island = Dream")


def test_compare_with_folds_is_cross_validation(probclass: Any, iris: pa.Table) -> None:
    source = probclass.table("iris.parquet", iris)
    columns = {"one": SEPALS[:1], "two": SEPALS}
    paths = [
        spec_file(probclass.folder, name, "gaussian_full", listed)
        for name, listed in columns.items()
    ]
    arguments = ("compare", source, *paths)
    specs = {path.stem: pc.ModelSpec.from_file(path) for path in paths}
    expected = pc.cross_validate(source, specs, folds=4)
    assert probclass(*arguments, "--folds", "4", "--json").json == expected.to_dict()
    shown = probclass.ok(*arguments, "--folds", "4").out
    assert "2 models, the smallest log loss first, on the same 4 folds" in shown
    assert f"Differences are from '{expected.best}'" in shown
    assert "compare --folds 5" in probclass.error("compare", "no_such.parquet", *paths)
    assert "remove --odds" in probclass.error(*arguments, "--folds", "4", "--odds", "one=2")
    assert "write --folds N" in probclass.error(*arguments, "--groups", "species")
