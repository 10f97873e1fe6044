"""Why rows are unusual."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pac
import pytest

import probclass_core as pc

MIXED = [
    pc.Block("gaussian_full", ["bill_length_mm", "bill_depth_mm"]),
    pc.Block("gaussian_diagonal", ["flipper_length_mm", "body_mass_g"]),
    pc.Block("categorical", ["island", "sex"]),
]


@pytest.fixture(scope="module")
def model(penguins: pa.Table) -> pc.Model:
    return pc.fit(penguins, pc.ModelSpec("species", MIXED))


def test_usual_is_the_mean_surprise_of_rows_of_the_model() -> None:
    """The entropy of a density is the mean of its surprise over rows drawn from it."""
    random = np.random.default_rng(0)
    size = 20_000
    group = random.integers(0, 2, size)
    table = pa.table(
        {
            "label": group,
            "normal": random.normal(3.0 * group, 1.0 + group),
            "skewed": random.gamma(1.0 + group, 2.0),
            "events": random.poisson(2.0 + 3.0 * group),
            "color": np.array(["red", "green", "blue"])[random.binomial(2, 0.2 + 0.5 * group)],
        }
    )
    blocks = [
        pc.Block("gaussian_diagonal", "normal"),
        pc.Block("discretized", "skewed"),
        pc.Block("poisson", "events"),
        pc.Block("categorical", "color"),
    ]
    specs = [
        pc.ModelSpec("label", blocks),
        pc.ModelSpec(None, [pc.Block("discretized", ["normal", "skewed", "events"]), blocks[3]]),
    ]
    for spec in specs:
        model = pc.fit(table, spec)
        lines = pc.explain(model, table[:1000]).surprise
        means = lines.group_by("item").aggregate([("excess", "mean"), ("excess", "stddev")])
        named = means.filter(pac.field("item") != "class").to_pylist()
        assert {line["item"] for line in named} == {"normal", "skewed", "events", "color"}
        for line in named:
            assert abs(line["excess_mean"]) < 5.0 * line["excess_stddev"] / 1000**0.5, line


def test_reasons_are_the_columns_with_the_largest_excess(
    model: pc.Model, penguins: pa.Table
) -> None:
    row = penguins.slice(166, 1).to_pylist()[0]
    far = pa.Table.from_pylist([{**row, "body_mass_g": 9_000}, row], schema=penguins.schema)
    for units, scale in (("nats", 1.0), ("bits", 1.0 / np.log(2.0))):
        explanation = pc.explain(model, far, units=units)
        first = explanation.surprise.to_pylist()[0]
        assert (first["row"], first["item"], first["value"]) == (0, "body_mass_g", "9000")
        assert first["excess"] == pytest.approx(first["surprise"] - first["usual"])
        assert first["excess"] > 25.0 * scale
        reason = f"unusual because of body_mass_g=9000 ({first['excess']:+.1f} {units})"
        assert str(explanation).count("unusual because") == 1
        assert reason in str(explanation)
        surprise = explanation.surprise.filter(pac.field("row") == 0)["surprise"]
        log_density = model.score_samples(far)[0]
        assert pac.sum(surprise).as_py() == pytest.approx(-log_density * scale)
    ledger = explanation.to_dict()["rows"][0]
    assert ledger["surprise"][0]["item"] == "body_mass_g"


def test_a_model_without_a_label_explains_rarity_alone(penguins: pa.Table) -> None:
    model = pc.fit(penguins, pc.ModelSpec(None, MIXED))
    row = penguins.slice(0, 1).to_pylist()[0]
    rows = pa.Table.from_pylist([{**row, "flipper_length_mm": 400}, row], schema=penguins.schema)
    explanation = pc.explain(model, rows)
    assert explanation.table.num_rows == 0
    assert explanation.rows.column_names == ["row"]
    lines = str(explanation).split("\n\n")
    assert lines[0].startswith("row 0 is unusual because of flipper_length_mm=400 (+")
    assert lines[1].strip() == "row 1 is not unusual in any column."


def test_no_surprise_without_a_density(penguins: pa.Table) -> None:
    blocks = [pc.Block("knn_density", ["body_mass_g"], metric="canberra")]
    explanation = pc.explain(pc.fit(penguins, pc.ModelSpec("species", blocks)), penguins, rows=0)
    assert explanation.surprise.num_rows == 0
    assert "unusual" not in str(explanation)
