"""The plot of block weights: one bar per block, the most important first."""

from __future__ import annotations

import pyarrow as pa
import pytest
from artists import fits

import probclass_core as pc
from probclass_core.plots import block_weights


def test_a_bar_is_the_importance_of_its_block(penguins: pa.Table) -> None:
    columns = ["bill_length_mm", "body_mass_g", "flipper_length_mm"]
    blocks = [pc.Block("gaussian_diagonal", [column], column) for column in columns]
    model = pc.fit(penguins, pc.ModelSpec("species", blocks, block_weights="fit"))
    assert model.block_weights is not None
    terms = {term["name"]: term for term in model.block_weights.to_pylist()}
    figure = block_weights(model, most=2)
    (axes,) = figure.axes
    names = [label.get_text() for label in axes.get_yticklabels()]
    lengths = [bar.get_width() for bar in axes.patches]
    named = names[:2]
    assert lengths[:2] == pytest.approx([terms[name]["importance"] for name in named])
    assert lengths[0] >= lengths[1]
    (other,) = set(columns) - set(named)
    assert (names[2], lengths[2]) == ("1 other block", pytest.approx(terms[other]["importance"]))
    for name, text in zip(named, axes.texts, strict=False):
        assert text.get_text().endswith(f", weight {terms[name]['value']:.2f}")
    assert fits(figure)
