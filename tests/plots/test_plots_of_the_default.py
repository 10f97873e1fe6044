"""Plots of a default model, and of a notebook without a magic command."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pytest
from artists import fits, legend
from IPython.core.formatters import DisplayFormatter
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import probclass_core as pc

CLASSES = ["0", "1"]


@pytest.fixture(scope="module")
def model(titanic: pa.Table) -> pc.Model:
    return pc.fit(titanic, pc.ModelSpec.auto(titanic, "label"))


def levels(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.get_yticklabels()]


def test_every_column_of_the_default_model_has_an_effect(model: pc.Model) -> None:
    for column in model.features.names:
        assert fits(model.plot.effect(column)), column


def test_an_effect_has_real_levels_and_null_is_one(model: pc.Model) -> None:
    left, _ = model.plot.effect("deck").axes
    assert levels(left) == [*"ABCDEFG", "missing"]


def test_a_number_is_a_curve_and_the_legend_has_its_nulls(
    model: pc.Model, titanic: pa.Table
) -> None:
    figure = model.plot.effect("age")
    assert len(figure.axes[0].lines[0].get_xdata()) > 10
    labels = np.array(titanic["label"].to_pylist())
    nulls = titanic["age"].is_null().to_numpy()
    for name, label in zip(CLASSES, legend(figure), strict=False):
        found = re.fullmatch(rf"{name}: (\d+\.\d)% missing", label)
        assert found is not None
        observed = 100.0 * nulls[labels == name].mean()
        assert float(found[1]) == pytest.approx(observed, abs=1.0)  # up to the pseudo-count


def test_the_lower_panel_is_bayes_rule(model: pc.Model) -> None:
    left, right = model.plot.effect("deck").axes
    inside = np.array([[bar.get_width() for bar in group] for group in left.containers])
    joint = inside * np.array(model.priors["prior"].to_pylist())[:, None]
    shown = np.array([[bar.get_width() for bar in group] for group in right.containers])
    assert shown == pytest.approx(joint / joint.sum(axis=0))


def test_a_column_that_is_only_a_condition_has_its_frequencies(titanic: pa.Table) -> None:
    spec = pc.ModelSpec("label", [pc.Block("categorical", ["pclass"], given=["who"])])
    left, _ = pc.fit(titanic, spec).plot.effect("who").axes
    assert levels(left) == ["child", "man", "woman"]
    frame = titanic.to_pandas()
    for name, group in zip(CLASSES, left.containers, strict=True):
        shares = frame[frame["label"] == name]["who"].value_counts(normalize=True).sort_index()
        assert [bar.get_width() for bar in group] == pytest.approx(shares.tolist())


def test_bins_that_are_too_narrow_to_see_are_bars() -> None:
    rows = {"x": [0.0, 1.0, 2.0, 3.0, 900.0, 2000.0], "c": [*"aaabbb"]}
    block = pc.Block("discretized", ["x"], cuts={"x": [1.5, 2.5]}, pseudo_count=0)
    left, _ = pc.fit(rows, pc.ModelSpec("c", [block])).plot.effect("x").axes
    assert levels(left) == ["below 1.5", "1.5 to 2.5", "from 2.5"]


def test_contours_are_drawn_for_columns_in_bins(model: pc.Model, penguins: pa.Table) -> None:
    (axes,) = model.plot.class_contours("age", "fare").axes  # densities as well
    assert len(axes.collections) == 2
    columns = ["bill_length_mm", "body_mass_g"]
    binned = pc.fit(penguins, pc.ModelSpec("species", {"discretized": columns}))
    (axes,) = binned.plot.class_contours(*columns).axes
    assert len(axes.collections) == 3


def test_a_plot_shows_itself_once_and_pyplot_holds_no_figure(model: pc.Model) -> None:
    figure = model.plot.effect("age")
    shown, _ = DisplayFormatter().format(figure)  # as a notebook does
    assert shown["image/png"].startswith(b"\x89PNG")
    assert isinstance(figure, Figure)
    assert pyplot.get_fignums() == []


def test_a_waterfall_goes_from_the_prior_to_the_posterior(
    model: pc.Model, titanic: pa.Table
) -> None:
    explanation = pc.explain(model, titanic, rows=3, limit=None)
    (axes,) = explanation.plot().axes
    bars = [container[0] for container in axes.containers]
    totals = [bar.get_x() + bar.get_width() for bar in bars]
    expected = [*explanation.table["total"].to_pylist(), explanation.rows["log_odds"][0].as_py()]
    assert totals == pytest.approx(expected)
    assert [bar.get_x() for bar in bars[1:-1]] == pytest.approx(expected[:-2])
    assert levels(axes)[0] == "prior"
    assert levels(axes)[-1] == "posterior"
    assert "pclass = 1" in levels(axes)


def test_bars_of_importance_are_named_and_the_others_summed(
    model: pc.Model, titanic: pa.Table
) -> None:
    measured = pc.importance(model, titanic)
    sizes = measured.table["size"].to_pylist()
    (axes,) = measured.plot(most=3).axes
    drawn = [bar.get_width() for bar in axes.patches]
    assert drawn == pytest.approx([*sizes[:3], sum(sizes[3:])])
    assert levels(axes)[3] == f"{len(sizes) - 3} others, summed"
