"""What each column contributes to predictions, on average over rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import probclass_core as pc

SPECS: dict[str, pc.ModelSpec] = {
    "product": pc.ModelSpec(
        "species",
        [
            pc.Block("gaussian_full", ["bill_length_mm", "bill_depth_mm"], "bill"),
            pc.Block("gaussian_diagonal", ["flipper_length_mm", "body_mass_g"]),
            pc.Block("categorical", ["island", "sex"]),
        ],
    ),
    "pool": pc.ModelSpec(
        "species",
        [
            pc.Block("gaussian_diagonal", ["bill_depth_mm", "body_mass_g"]),
            pc.Block("categorical", ["island", "sex"]),
            pc.Block("categorical", ["sex"], given=["island"], name="sex given island"),
        ],
        block_weights="fit",
    ),
}


@pytest.mark.parametrize("name", SPECS)
def test_mean_weights_add_up_to_the_mean_log_odds(name: str, penguins: pa.Table) -> None:
    model = pc.fit(penguins, SPECS[name])
    result = pc.importance(model, penguins).table.to_pandas()
    explanation = pc.explain(model, penguins)
    first = explanation.table.to_pandas().query("entry in ['prior', 'bias']")
    rows = explanation.rows.to_pandas().set_index("row")
    rows["evidence"] = rows["log_odds"] - first.groupby("row")["weight"].sum()
    assert result["weight"].sum() == pytest.approx(rows["evidence"].mean())
    assert (result["size"] >= result["weight"].abs() - 1e-12).all()
    assert result["size"].is_monotonic_decreasing


def test_a_column_of_noise_contributes_least() -> None:
    random = np.random.default_rng(0)
    label = random.choice(["a", "b"], 2_000)
    table = {
        "clear": random.normal(3.0 * (label == "a"), 1.0),
        "weak": random.normal(0.5 * (label == "a"), 1.0),
        "noise": random.normal(size=2_000),
        "label": label,
    }
    model = pc.fit(
        table, pc.ModelSpec("label", [pc.Block("gaussian_diagonal", ["noise", "weak", "clear"])])
    )
    result = pc.importance(model, table)
    assert result.table["item"].to_pylist() == ["clear", "weak", "noise"]
    assert result.rows == 1_000
    # The expected |log odds| of two normals whose means differ by 3: E|3x − 4.5| with x the value.
    x = np.concatenate([random.normal(3.0, 1.0, 10**5), random.normal(0.0, 1.0, 10**5)])
    expected = np.abs(3.0 * x - 4.5).mean()
    assert result.table["size"][0].as_py() == pytest.approx(expected, rel=0.1)
    assert str(result).splitlines()[2].split()[0] == "clear"


def test_the_rows_drawn_are_the_same_each_time(penguins: pa.Table) -> None:
    model = pc.fit(penguins, SPECS["product"])
    few, again = (pc.importance(model, penguins, rows=50).table for _ in range(2))
    assert few.equals(again)
    in_batches = pa.Table.from_batches(penguins.to_batches(max_chunksize=7))
    assert pc.importance(model, in_batches, rows=50).table.equals(few)
    assert pc.importance(model, penguins, rows=10_000).rows == len(penguins)
