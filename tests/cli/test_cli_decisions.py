"""Decision rules and calibration from a shell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import probclass_core as pc

BLOCK = {"estimator": "gaussian_diagonal", "columns": ["sepal_length", "sepal_width"]}
COSTS = {"iris-virginica": {"iris-versicolor": 9.0}}


@pytest.fixture
def flowers(probclass: Any, iris: pa.Table) -> Path:
    """The UCI Iris, and a model of it that knows its density, saved as ``iris``, alias ``raw``."""
    source: Path = probclass.table("iris.parquet", iris)
    spec = probclass.spec(BLOCK, label="species")
    probclass.done(
        *("fit", source, "--spec", spec, "--name", "iris", "--alias", "raw"),
        "--density-quantiles",
    )
    return source


def lines(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


def test_fit_keeps_the_quantiles_of_the_density(probclass: Any, flowers: Path) -> None:
    model = pc.ModelStore("models").load("iris@raw")
    fitted = pc.fit(flowers, pc.ModelSpec.from_file("spec.json"))
    assert model.id == pc.with_density_quantiles(fitted, flowers).id
    assert "density quantiles" in probclass.done("inspect", "iris@raw").out


@pytest.mark.parametrize("kind", ["toml", "json", "csv"])
def test_a_rule_from_options_is_the_rule_of_the_library(
    probclass: Any, flowers: Path, kind: str
) -> None:
    texts = {
        "toml": "[iris-virginica]\niris-versicolor = 9\n",
        "json": json.dumps(COSTS),
        "csv": "class,prediction,cost\niris-virginica,iris-versicolor,9\n",
    }
    costs = probclass.folder / f"costs.{kind}"
    costs.write_text(texts[kind])
    options = ("--costs", costs, "--min-probability", "0.6", "--min-density-quantile", "0.02")
    rule = pc.DecisionRule(costs=COSTS, min_probability=0.6, min_density_quantile=0.02)
    model = pc.ModelStore("models").load("iris@raw")
    told = probclass("evaluate", "iris@raw", flowers, *options, "--json").json
    assert told == {
        "model": f"iris@{model.id}",
        **pc.evaluate(model, flowers, decision=rule).to_dict(),
    }
    probclass.done("score", "iris@raw", flowers, "scored.parquet", *options)
    scored = pq.read_table("scored.parquet")
    assert scored["prediction"].combine_chunks() == model.predict(pq.read_table(flowers), rule)
    again = probclass("score", "iris@raw", flowers, "scored.parquet", *options, "--json").json
    assert again["skipped"] == 1


def test_an_evaluation_shows_what_was_rejected_and_paid(probclass: Any, flowers: Path) -> None:
    (probclass.folder / "costs.json").write_text(json.dumps(COSTS))
    rule = pc.DecisionRule(costs=COSTS, min_probability=0.6)
    found = pc.evaluate(pc.ModelStore("models").load("iris@raw"), flowers, decision=rule)
    options = ("--costs", "costs.json", "--min-probability", "0.6")
    shown = lines(probclass.done("evaluate", "iris@raw", flowers, *options).out)
    lost = found.rows - found.decided
    assert (
        f"rejected {lost} ({found.rejected_share:.1%}): {lost} by probability, 0 by density"
        in shown
    )
    assert f"cost {found.cost:.4f} {found.baseline_cost:.4f}" in " / ".join(shown)
    assert f"accuracy {found.accuracy:.4f}" in " / ".join(shown)
    assert any(line.startswith(f"calibration error {found.ece:.4f} –") for line in shown)
    plain = probclass.done("evaluate", "iris@raw", flowers).out
    assert "rejected" not in plain
    assert "cost" not in plain


def test_maximum_likelihood_by_its_name(probclass: Any, flowers: Path) -> None:
    few = pq.read_table(flowers).slice(40)
    source = probclass.table("few.parquet", few)
    probclass.done("fit", source, "--spec", "spec.json", "--name", "few")
    probclass.done("score", "few", source, "scored.parquet", "--decision", "ml")
    model = pc.ModelStore("models").load("few")
    scored = pq.read_table("scored.parquet")["prediction"].combine_chunks()
    assert scored == model.predict(few, "ml")
    assert scored != model.predict(few)


@pytest.mark.parametrize("method", ["temperature", "isotonic"])
def test_calibrate_saves_a_version_of_its_own(probclass: Any, flowers: Path, method: str) -> None:
    arguments = ("iris@raw", flowers, "--method", method, "--alias", "fair")
    ran = probclass.done("calibrate", *arguments)
    store = pc.ModelStore("models")
    raw = store.load("iris@raw")
    expected = pc.calibrate(raw, flowers, method)
    assert store.resolve("iris@fair").id == expected.id
    shown = lines(ran.out)
    assert f"saved iris@{expected.id}" in shown
    assert f"of iris@{raw.id}" in shown
    assert "rows 150 labeled" in shown
    told = probclass("calibrate", *arguments, "--name", "other", "--json").json
    assert expected.calibration is not None
    assert told == {
        "model": f"other@{expected.id}",
        "model_id": expected.id,
        "aliases": ["fair"],
        "of": f"iris@{raw.id}",
        "store": told["store"],
        "method": method,
        "rows": 150,
        "calibration": expected.calibration.to_pylist(),
    }
    card = lines(probclass.done("inspect", "iris@fair").out)
    assert f"calibration {method}, 150 rows of {flowers}" in card
    assert f"density quantiles 150 rows of {flowers}" in card
    some = probclass("calibrate", "iris@raw", flowers, "--where", "sepal_length < 6", "--json").json
    assert some["rows"] == 83


def test_what_makes_no_sense_is_refused(probclass: Any, flowers: Path) -> None:
    (probclass.folder / "bad.toml").write_text("= 1")
    (probclass.folder / "bad.csv").write_text("class,cost\niris-setosa,1\n")
    for options, words in (
        (("--decision", "mpa"), "decision by 'mpa' is unknown; use 'map', 'ml'"),
        (("--costs", "none.toml"), "cannot read the costs none.toml: No such file"),
        (("--costs", "bad.toml"), "bad.toml is not valid TOML: "),
        (("--costs", "bad.csv"), "no column 'prediction'; the table has 'class', 'cost'"),
        (("--costs", "costs.xml"), "costs are a .toml, .json or .csv file"),
        (("--min-probability", "2"), "min_probability must be between 0 and 1, got 2.0"),
        (("--min-density-quantile", "0"), "between 0.001 and 0.999, got 0"),
    ):
        assert words in probclass.refused("evaluate", "iris@raw", flowers, *options)
        assert words in probclass.refused("score", "iris@raw", flowers, "scored", *options)
    words = "calibration method 'platt' is unknown; use 'isotonic', 'temperature'"
    assert words in probclass.refused("calibrate", "iris@raw", flowers, "--method", "platt")
    words = "'a/b' cannot be an alias"
    assert words in probclass.refused("calibrate", "iris@raw", flowers, "--alias", "a/b")
