"""Decision rules and calibration on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import probclass_core as pc

SEPALS = ["sepal_length", "sepal_width"]
COSTS = {"iris-virginica": {"iris-versicolor": 9.0}}


@pytest.fixture
def flowers(probclass: Any, iris: pa.Table) -> Path:
    """The UCI Iris, and a model of it with density quantiles, saved as ``iris@raw``."""
    source: Path = probclass.table("iris.parquet", iris)
    spec = probclass.spec("species", gaussian_diagonal=SEPALS)
    probclass.ok(f"fit {source} --spec {spec} --name iris --alias raw --density-quantiles")
    return source


def test_fit_can_measure_density_quantiles(probclass: Any, flowers: Path) -> None:
    model = pc.ModelStore("models").load("iris@raw")
    fitted = pc.fit(flowers, pc.ModelSpec.from_file("spec.json"))
    assert model.id == pc.with_density_quantiles(fitted, flowers).id
    assert "It says how rare a row is." in probclass.ok("inspect iris@raw").lines


@pytest.mark.parametrize("kind", ["toml", "json"])
def test_options_give_the_same_decisions_as_a_decision_rule(
    probclass: Any, flowers: Path, kind: str
) -> None:
    texts = {
        "toml": "[iris-virginica]\niris-versicolor = 9\n",
        "json": json.dumps(COSTS),
    }
    costs = probclass.folder / f"costs.{kind}"
    costs.write_text(texts[kind])
    options = f"--costs {costs} --min-probability 0.6 --min-rarity 0.02"
    rule = pc.DecisionRule(costs=COSTS, min_probability=0.6, min_rarity=0.02)
    model = pc.ModelStore("models").load("iris@raw")
    document = probclass(f"evaluate iris@raw {flowers} {options} --json").json
    assert document == {
        "model": f"iris@{model.id}",
        **pc.evaluate(model, flowers, decision=rule).to_dict(),
        "verdicts": [],
    }
    probclass.ok(f"score iris@raw {flowers} scored.parquet {options}")
    scored = pq.read_table("scored.parquet")
    assert scored["prediction"].combine_chunks() == model.predict(pq.read_table(flowers), rule)
    again = probclass(f"score iris@raw {flowers} scored.parquet {options} --json").json
    assert again["unchanged"] == 1


def test_a_model_worse_than_its_prior_is_reported_first(
    probclass: Any, flowers: Path, iris: pa.Table
) -> None:
    shown = probclass.ok(f"fit {flowers} --spec spec.json --name m --alias new")
    assert any(line.startswith("next probclass evaluate m@new SOURCE") for line in shown.lines)
    reverse = with_species(iris, iris["species"].to_pylist()[::-1])
    source = probclass.table("reverse.parquet", reverse)
    evaluation = pc.evaluate(pc.ModelStore("models").load("m"), source)
    assert evaluation.warning is not None
    lines = probclass.ok(f"evaluate m {source}").lines
    warning = f"{evaluation.warning[:1].upper()}{evaluation.warning[1:]}."
    assert lines.index(warning) < lines.index("metric model prior alone")
    worse = probclass(f"evaluate m {source} --json").json["worse_than_prior"]
    assert worse == ["log_loss", "brier", "accuracy"]


@pytest.fixture
def noisy(probclass: Any, iris: pa.Table) -> Path:
    """The UCI Iris, a fifth of the rows with the species of another row."""
    species = iris["species"].to_pylist()
    species[::5] = species[::5][::-1]
    return Path(probclass.table("noisy.parquet", with_species(iris, species)))


def with_species(iris: pa.Table, species: list[str]) -> pa.Table:
    position = iris.column_names.index("species")
    return iris.set_column(position, "species", pa.array(species))


def test_calibrate_saves_a_new_version(probclass: Any, flowers: Path, noisy: Path) -> None:
    calibrate = f"calibrate iris@raw {noisy} --alias fair"
    result = probclass.ok(calibrate)
    store = pc.ModelStore("models")
    raw = store.load("iris@raw")
    expected = pc.calibrate(raw, noisy)
    record = expected.training["calibration"]
    assert store.resolve("iris@fair").id == expected.id
    shown = result.lines
    assert f"saved iris@{expected.id}" in shown
    assert f"of iris@{raw.id}" in shown
    assert "rows 150 labeled" in shown
    before, after = record["uncalibrated_log_loss"], record["calibrated_log_loss"]
    assert f"log loss {before:.4f} before, {after:.4f} when calibrated by other rows" in shown
    document = probclass(f"{calibrate} --name other --json").json
    assert expected.calibration is not None
    assert (document["model"], document["of"]) == (f"other@{expected.id}", f"iris@{raw.id}")
    assert (document["rows"], document["calibrated_log_loss"]) == (150, after)
    assert document["calibration"] == expected.calibration.to_pylist()
    card = probclass.ok("inspect iris@fair").lines
    assert "The posterior is calibrated." in card
    assert probclass(f"{calibrate} --where 'sepal_length < 6' --json").json["rows"] == 83


def test_calibrate_warns_if_it_does_not_help(probclass: Any, flowers: Path, iris: pa.Table) -> None:
    result = probclass(f"calibrate iris@raw {flowers} --alias fair")
    assert result.code == 0
    warning = "warning: the posteriors stay as they are: calibrated, the log loss of"
    assert result.err.startswith(warning)
    assert result.err.count("\n") == 1
    store = pc.ModelStore("models")
    assert store.resolve("iris@fair").id == store.resolve("iris@raw").id


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--costs bad.toml", "bad.toml is not valid TOML: "),
        ("--costs bad.csv", "expected a .toml or .json file"),
        ("--min-probability 2", "min_probability must be a number from 0 to 1, got 2.0"),
    ],
)
def test_an_invalid_decision_rule_is_an_error(
    probclass: Any, flowers: Path, options: str, message: str
) -> None:
    (probclass.folder / "bad.toml").write_text("= 1")
    assert message in probclass.error(f"evaluate iris@raw {flowers} {options}")
    assert message in probclass.error(f"score iris@raw {flowers} scored {options}")
