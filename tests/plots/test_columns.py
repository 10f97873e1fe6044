"""Plots of one column: curves are densities, bars are probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from artists import fits, labeled, legend, lines
from matplotlib.axes import Axes
from matplotlib.patches import StepPatch
from naive import naive_spec
from scipy.special import rel_entr
from scipy.stats import norm, poisson
from sklearn.metrics import mutual_info_score

import probclass_core as pc
from probclass_core.plots import effect

SPECIES = ["Adelie", "Chinstrap", "Gentoo"]


@pytest.fixture(scope="module")
def penguin_model(penguins: pa.Table) -> pc.Model:
    return pc.fit(penguins, naive_spec(penguins.schema, "species"))


def fit(rows: dict[str, Any], estimator: str, column: str, **options: Any) -> pc.Model:
    return pc.fit(rows, pc.ModelSpec("c", [pc.Block(estimator, [column], **options)]))


def bars(axes: Axes) -> dict[str, dict[str, float]]:
    """The lengths of the bars by class and axis label."""
    names = [text.get_text() for text in axes.get_yticklabels()]
    lengths_by_class = {}
    for group in axes.containers:
        positions = [round(bar.get_y() + bar.get_height() / 2.0) for bar in group]
        lengths = [bar.get_width() for bar in group]
        lengths_by_class[str(group.get_label())] = {
            names[position]: length for position, length in zip(positions, lengths, strict=True)
        }
    return lengths_by_class


def test_a_curve_is_the_density_of_its_class(penguin_model: pc.Model, penguins: pa.Table) -> None:
    figure = effect(penguin_model, "flipper_length_mm")
    axes, *_ = figure.axes
    assert legend(figure) == [*SPECIES, "prior"]
    for name, curve in labeled(axes).items():
        rows = penguins.filter(pa.compute.equal(penguins["species"], name))
        values = rows["flipper_length_mm"].drop_null().to_numpy()
        expected = norm(values.mean(), values.std()).pdf(curve[:, 0])
        assert curve[:, 1] == pytest.approx(expected, rel=1e-6)
        assert np.trapezoid(curve[:, 1], curve[:, 0]) == pytest.approx(1.0, abs=1e-3)
    assert figure.axes[1].get_xlabel() == "flipper length mm"
    assert fits(figure)


def test_histograms_have_the_scale_of_the_curves(
    penguin_model: pc.Model, penguins: pa.Table
) -> None:
    figure = effect(penguin_model, "flipper_length_mm", data=penguins)
    steps = [each for each in figure.axes[0].patches if isinstance(each, StepPatch)]
    areas = [float(np.diff(step.get_data().edges) @ step.get_data().values) for step in steps]
    assert areas == pytest.approx(np.ones(3))


def test_counts_have_probabilities_at_whole_numbers() -> None:
    rows = {"n": [0, 1, 1, 2, 7, 9, 8, 12], "c": [*"aaaabbbb"]}
    model = fit(rows, "poisson", "n")
    rates = model.parameters["poisson"]["rate"].to_pylist()
    axes, *_ = effect(model, "n").axes
    for rate, curve in zip(rates, labeled(axes).values(), strict=True):
        assert curve[:, 0].tolist() == list(np.arange(curve[0, 0], curve[-1, 0] + 1))
        assert curve[:, 1] == pytest.approx(poisson(rate).pmf(curve[:, 0]))
        assert curve[:, 1].sum() == pytest.approx(1.0, abs=0.01)


def test_a_point_mass_is_a_vertical_line() -> None:
    rows = {"age": [25, 25, 20, 45], "c": [*"LLHH"]}
    axes, *_ = effect(fit(rows, "gaussian_diagonal", "age", variance_floor=0), "age").axes
    assert labeled(axes)["L"][:, 0].tolist() == [25.0, 25.0]


def test_an_infinite_density_is_a_gap() -> None:
    rows = {"x": [0.0, 1.0, 1.0, 1.0, 2.0, 3.0], "c": [*"aaaabb"]}
    axes, *_ = effect(fit(rows, "knn_density", "x", k=2), "x").axes
    heights = np.concatenate(lines(axes))[:, 1]
    assert np.nanmax(heights) < 1e6
    assert axes.get_ylim()[1] < 1e6


def test_a_bar_is_the_probability_of_its_category(penguin_model: pc.Model) -> None:
    figure = effect(penguin_model, "island")
    drawn = bars(figure.axes[0])
    cells = penguin_model.parameters["categorical"].to_pylist()
    for cell in (cell for cell in cells if cell["feature"] == "island"):
        expected = np.exp(cell["log_probability"])
        assert drawn[cell["class"]][cell["value"]] == pytest.approx(expected)
    assert list(drawn["Adelie"]) == ["Biscoe", "Dream", "Torgersen"]
    assert [*drawn, "prior"] == legend(figure)
    assert fits(figure)


def test_the_most_informative_categories_are_drawn(adult: tuple[pa.Table, pa.Table]) -> None:
    """They are ranked by their terms in the mutual information with the class."""
    rows, _ = adult
    spec = pc.ModelSpec("income", [pc.Block("categorical", ["education"], pseudo_count=0)])
    figure = effect(pc.fit(rows, spec), "education", most=5)
    axes, *_ = figure.axes
    table = rows.select(["education", "income"]).to_pandas()
    joint = pd.crosstab(table["education"], table["income"], normalize=True)
    independent = np.outer(joint.sum(axis=1), joint.sum(axis=0))
    terms = rel_entr(joint, independent).sum(axis=1)
    information = mutual_info_score(table["education"], table["income"])
    assert terms.sum() == pytest.approx(information)
    ranked = terms.sort_values(ascending=False).index.tolist()
    drawn = bars(axes)
    for by_level in drawn.values():
        assert list(by_level) == [*sorted(ranked[:5]), "11 others"]
        assert sum(by_level.values()) == pytest.approx(1.0)


def test_bins_are_steps_of_their_density() -> None:
    rows = {"x": [1.0, 2.0, 3.0, 7.0, 8.0, 9.0], "c": [*"aaabbb"]}
    binned = fit(rows, "discretized", "x", method="width", bins=2, pseudo_count=0)
    upper = effect(binned, "x").axes[0]
    steps = {name: line.tolist() for name, line in labeled(upper).items()}
    expected = [[1.0, 0.25], [5.0, 0.25], [5.0, 0.0], [9.0, 0.0]]  # 1 / (5 - 1)
    np.testing.assert_allclose(steps["a"], expected)


def test_long_names_and_many_classes_fit_in_the_figure() -> None:
    names = [f"a category of a rather long name, {number}" for number in range(14)]
    rows = {
        "u": names * 10,
        "c": [f"class of a long name {position % 10}" for position in range(140)],
    }
    figure = effect(fit(rows, "categorical", "u"), "u")
    assert len(legend(figure)) == 11
    assert fits(figure)


@pytest.mark.parametrize("name", ["{}", "class of a long name {}"])
def test_a_legend_of_200_classes_leaves_room_for_the_axes(name: str) -> None:
    classes = [name.format(number) for number in range(200)]
    figure = effect(fit({"x": range(1000), "c": classes * 5}, "gaussian_diagonal", "x"), "x")
    assert legend(figure) == [*sorted(classes), "prior"]
    assert fits(figure)
    left = figure.legends[0].get_window_extent().x0
    assert figure.axes[0].get_window_extent().width > 200
    assert figure.axes[0].get_window_extent().x1 < left


@pytest.mark.parametrize(("scale", "offset"), [(1e-15, 0.0), (1e12, 0.0), (1e14, 1.7e18)])
def test_classes_of_any_position_and_scale_are_found(scale: float, offset: float) -> None:
    values = np.array([-1.0, 1.0, 0.5, 1.5]) * scale + offset
    model = fit({"x": values, "c": [*"aabb"]}, "gaussian_diagonal", "x")
    for curve in labeled(effect(model, "x").axes[0]).values():
        assert np.trapezoid(curve[:, 1], curve[:, 0]) == pytest.approx(1.0, abs=1e-3)


def test_dollar_signs_are_escaped() -> None:
    values = [1.0, 2.0, 3.0, 4.0]
    table = {"in_$x$": values, "c": ["$\\frac{$", "$\\frac{$", "a$b", "a$b"]}
    model = pc.fit(table, pc.ModelSpec("c", [pc.Block("gaussian_diagonal", ["in_$x$"])]))
    figure = effect(model, "in_$x$")
    assert fits(figure)  # drawing succeeds: no text is parsed as a formula
    assert [text.replace("\\$", "$") for text in legend(figure)] == ["$\\frac{$", "a$b", "prior"]
