"""A row explained column by column, although a default model has many blocks of each column."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pac
import pytest

import probclass_core as pc
from probclass_core.analysis.explanation import Explanation


@pytest.fixture(scope="module")
def model(titanic: pa.Table) -> pc.Model:
    return pc.fit(titanic, pc.ModelSpec.auto(titanic, "label"))


def weights(explanation: Explanation, row: int) -> dict[str, float]:
    """The weight of each column, or columns together, of a row."""
    entries = explanation.table.filter(pac.field("row") == row).to_pylist()
    return {one["item"]: one["weight"] for one in entries if one["item"] is not None}


def test_two_joint_blocks_of_the_same_columns_are_one_line(penguins: pa.Table) -> None:
    numbers = ["bill_length_mm", "body_mass_g"]
    blocks = [pc.Block("gaussian_full", numbers), pc.Block("gaussian_shared", numbers)]
    model = pc.fit(penguins, pc.ModelSpec("species", blocks, block_weights="fit"))
    explanation = pc.explain(model, penguins, rows=[0])
    assert list(weights(explanation, 0)) == ["bill_length_mm, body_mass_g"]
    assert "columns together" in str(explanation)


def test_the_others_are_one_line_and_all_are_shown_on_request(
    model: pc.Model, titanic: pa.Table
) -> None:
    short, whole = (pc.explain(model, titanic, rows=[1], limit=limit) for limit in (3, None))
    others = len(weights(whole, 1)) - 3
    assert f"\n{others} other columns" in str(short)
    assert list(weights(short, 1)) == list(weights(whole, 1))[:3]
    assert "other columns" not in str(whole)


def test_values_of_a_column_of_several_blocks_are_shown_once(
    model: pc.Model, titanic: pa.Table
) -> None:
    entries = pc.explain(model, titanic, rows=[1], limit=None).table.to_pylist()
    values = {one["item"]: one["value"] for one in entries if one["entry"] == "feature"}
    row = titanic.slice(1, 1).to_pylist()[0]
    for column in ("pclass", "deck"):  # of two blocks each
        assert values[column] == row[column]
