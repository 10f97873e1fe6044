"""explain, compare and drift: reports, JSON and errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pac
import pytest

import probclass_core as pc
from probclass_core.analysis.distributions.health import Health

SEPALS = ["sepal_length", "sepal_width"]


@pytest.fixture
def birds(probclass: Any, penguins: pa.Table) -> Path:
    """The penguins, and a model ``birds`` trained on them."""
    source = probclass.table("penguins.parquet", penguins)
    bill = ["bill_length_mm", "bill_depth_mm"]
    spec = probclass.spec("species", gaussian_full=bill, categorical=["island", "sex"])
    probclass.ok(f"fit {source} --spec {spec} --name birds")
    return Path(source)


def spec_file(folder: Path, name: str, estimator: str, columns: list[str] = SEPALS) -> Path:
    path = folder / f"{name}.json"
    blocks = [{"estimator": estimator, "columns": columns}]
    path.write_text(json.dumps({"label": "species", "blocks": blocks}))
    return path


def test_explain_prints_a_ledger_with_bars(probclass: Any, birds: Path) -> None:
    result = probclass.ok(f"explain birds {birds} --row 152")
    assert "█" in result.out
    assert max(map(len, result.out.splitlines())) <= 100
    model = pc.ModelStore("models").load("birds")
    explanation = pc.explain(model, birds, rows=[152])
    assert result.out == f"{explanation}\n"


def test_explain_takes_rows_a_rival_and_a_limit(probclass: Any, birds: Path) -> None:
    chosen = "--row 1 --row 0 --where 'island in Dream' --against Gentoo"
    result = probclass.ok(f"explain birds {birds} {chosen} --limit 1")
    ledgers = result.out.split("\n\n")[::2]
    assert [ledger.splitlines()[0] for ledger in ledgers] == [
        "row 0: Adelie rather than Gentoo",
        "row 1: Adelie rather than Gentoo",
    ]
    for ledger in ledgers:
        assert ledger.splitlines()[1].split()[2] == "nats"
        assert "2 other columns" in ledger


def test_explain_json_equals_the_library(probclass: Any, birds: Path) -> None:
    document = probclass(f"explain birds {birds} --row 3 --row 7 --json").json
    model = pc.ModelStore("models").load("birds")
    assert list(document) == ["model", "model_id", "rows"]
    assert document["model"] == f"birds@{model.id}"
    expected = pc.explain(model, birds, rows=[3, 7])
    assert {key: document[key] for key in list(document)[1:]} == expected.to_dict()


@pytest.fixture
def flowers(probclass: Any, iris: pa.Table) -> None:
    """The UCI Iris, and specs of its sepals: ``diagonal``, ``full`` and ``other``."""
    probclass.table("iris.parquet", iris)
    (probclass.folder / "sub").mkdir()
    for name, estimator in (("diagonal", "gaussian_diagonal"), ("full", "gaussian_full")):
        spec_file(probclass.folder, name, estimator)
    for name in ("other", "sub/full"):
        spec_file(probclass.folder, name, "gaussian_full")


def test_compare_orders_models_by_evidence(probclass: Any, flowers: None) -> None:
    lines = probclass.ok("compare iris.parquet diagonal.json full.json").lines
    (header,) = (number for number, line in enumerate(lines) if line.startswith("model "))
    best, other = lines[header + 2 : header + 4]
    assert (best.split()[0], other.split()[0]) == ("full", "diagonal")
    assert best.endswith(" best")
    assert other.endswith(" decisive against")
    specs = {name: pc.ModelSpec.from_file(f"{name}.json") for name in ("diagonal", "full")}
    odds = pc.compare("iris.parquet", specs).odds("full", "diagonal")
    exponent = int(lines[-1].split("10^")[1].split()[0])
    assert 10**exponent == pytest.approx(odds.odds, rel=3)
    assert lines[-1] == f"full against diagonal: odds of 10^{exponent} to 1, decisive."


def test_compare_json_with_prior_odds(probclass: Any, flowers: None) -> None:
    compare = "compare iris.parquet full.json other.json"
    document = probclass(f"{compare} --odds other=4 --json").json
    assert list(document) == ["best", "models"]
    assert document["best"] == "other"
    assert [model["model"] for model in document["models"]] == ["other", "full"]
    assert [model["prior"] for model in document["models"]] == pytest.approx([0.8, 0.2])
    assert [model["odds"] for model in document["models"]] == pytest.approx([1.0, 0.25])
    shown = probclass.ok(f"{compare} --odds other=4").out.splitlines()
    assert shown[-1] == "other against full: odds of 4 to 1, not strong."
    fewer = "--where 'species in iris-setosa,iris-virginica'"
    (of_all, of_fewer) = (
        {
            one["model"]: one["log_evidence"]
            for one in probclass(f"{compare} {some} --json").json["models"]
        }
        for some in ("", fewer)
    )
    assert of_fewer["full"] > of_all["full"]


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ("full.json sub/full.json", ["two files have one name"]),
        ("full.json other.json --odds other=twice", ["'other=twice'", "write NAME=NUMBER"]),
        ("full.json other.json --folds 4 --odds full=2", ["remove --odds"]),
        ("full.json other.json --groups species", ["write --folds N"]),
    ],
)
def test_an_invalid_comparison_is_an_error(
    probclass: Any, flowers: None, arguments: str, parts: list[str]
) -> None:
    message = probclass.error(f"compare iris.parquet {arguments}")
    assert [part for part in parts if part not in message] == []


def test_drift_names_what_changed_most(probclass: Any, birds: Path, penguins: pa.Table) -> None:
    heavier = penguins.set_column(
        penguins.column_names.index("bill_depth_mm"),
        "bill_depth_mm",
        pac.add(penguins["bill_depth_mm"], 2.0),
    )
    source = probclass.table("heavier.parquet", heavier)
    probclass.ok(f"fit {source} --spec spec.json --name birds --alias later")
    first = pc.ModelStore("models").versions("birds")[0]
    document = probclass.ok(f"drift {first.ref} birds@later --json").json
    assert document["models"] == [first.ref, pc.ModelStore("models").resolve("birds@later").ref]
    most, *others = document["by_feature"]
    assert most["feature"] == "bill_depth_mm"
    assert most["mean_after"] - most["mean_before"] == pytest.approx(2.0)
    assert [row["divergence"] for row in others] == pytest.approx([0.0] * 3, abs=1e-12)
    shown = probclass.ok(f"drift {first.ref} birds@later --limit 1").out
    assert "bill_depth_mm" in shown
    assert "island" not in shown
    assert "… and 3 more rows" in shown
    assert "no version or alias 'new'" in probclass.error("drift birds@later birds@new")


def test_importance_prints_a_bar_for_each_column(probclass: Any, birds: Path) -> None:
    text = probclass.ok(f"importance birds {birds} --rows 100").out
    assert "weight of evidence of 100 rows, in nats" in text
    document = probclass(f"importance birds {birds} --rows 100 --json").json
    expected = pc.importance(pc.ModelStore("models").load("birds"), birds, rows=100)
    assert document["importance"] == expected.to_dict()["importance"]
    assert expected.table["item"][0].as_py() in text


def test_health_prints_the_classes_and_the_columns(probclass: Any, birds: Path) -> None:
    result = probclass.ok(f"health birds {birds} --where 'island = Dream'")
    lines = result.out.splitlines()
    assert lines[0].split()[0] == "model"
    assert "Health of 124 rows" in lines
    assert "Classes, as shares of the rows" in lines
    assert max(map(len, lines)) <= 80
    model = pc.ModelStore("models").load("birds")
    values = probclass.ok(f"health birds {birds} --where 'island = Dream' --json").json
    del values["model"]
    assert Health.from_dict(values) == pc.health(model, birds, where="island = Dream")


def test_compare_with_folds_is_cross_validation(probclass: Any, flowers: None) -> None:
    spec_file(probclass.folder, "one", "gaussian_full", SEPALS[:1])
    specs = {name: pc.ModelSpec.from_file(f"{name}.json") for name in ("one", "full")}
    expected = pc.cross_validate("iris.parquet", specs, folds=4)
    compare = "compare iris.parquet one.json full.json"
    assert probclass(f"{compare} --folds 4 --json").json == expected.to_dict()
    shown = probclass.ok(f"{compare} --folds 4").out
    assert "2 models, the smallest log loss first, on the same 4 folds" in shown
    assert f"Differences are from '{expected.best}'" in shown
    assert "compare --folds 5" in probclass.error("compare no_such.parquet one.json full.json")
