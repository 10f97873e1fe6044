"""Plots of reliability and confusion: points, bars and texts agree with the evaluation."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pac
import pytest
from artists import fits, labeled, lines
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.patches import StepPatch
from naive import naive_spec
from scipy.stats import binomtest

import probclass_core as pc
from probclass_core import plots
from probclass_core.analysis.evaluation import Evaluation
from probclass_core.errors import NotSupportedError
from probclass_core.plots import confusion, reliability
from probclass_core.plots.style import LINES


@pytest.fixture(scope="module")
def adult_quality(adult: tuple[pa.Table, pa.Table]) -> Evaluation:
    train, test = adult
    return pc.evaluate(pc.fit(train, naive_spec(train.schema, "income")), test)


LONG = "a class of a remarkably long name"


def many_classes(size: int, name: str) -> Evaluation:
    """The evaluation of a model that confuses neighboring classes."""
    rng = np.random.default_rng(size)
    labels = np.repeat(np.arange(size), 40)
    x = labels + rng.normal(0.0, 0.4, len(labels))
    rows = {"x": x, "c": [f"{name} {n:02}" for n in labels]}
    return pc.evaluate(pc.fit(rows, pc.ModelSpec("c", {"gaussian_diagonal": "x"})), rows)


def cells(axes: Axes, size: int) -> list[list[str]]:
    """The texts of the cells, row by row."""
    texts = {tuple(text.get_position()): text.get_text() for text in axes.texts}
    return [[texts[column, row] for column in range(size)] for row in range(size)]


def bins_of(evaluation: Evaluation, name: str | None) -> pa.Table:
    table = evaluation.reliability
    class_steps = pac.is_null(table["class"]) if name is None else pac.equal(table["class"], name)
    return table.filter(class_steps)


@pytest.mark.parametrize("classes", [(), (">50K",), ("<=50K", ">50K")])
def test_points_agree_with_the_reliability_table(
    adult_quality: Evaluation, classes: tuple[str, ...]
) -> None:
    figure = reliability(adult_quality, classes=classes)
    curve, strip = figure.axes
    drawn = labeled(curve)
    steps = [step for step in strip.patches if isinstance(step, StepPatch)]
    intervals = [each for each in curve.collections if isinstance(each, LineCollection)]
    for index, name in enumerate((None, *classes)):
        table = bins_of(adult_quality, name)
        points = drawn["predicted class" if name is None else f"class {name}"]
        assert points[:, 0].tolist() == table["probability"].to_pylist()
        assert points[:, 1].tolist() == table["frequency"].to_pylist()
        class_steps, steps = steps[: table.num_rows], steps[table.num_rows :]
        assert [step.get_data().values[0] for step in class_steps] == table["rows"].to_pylist()
        assert [step.get_data().edges[0] for step in class_steps] == table["lower"].to_pylist()
        for bin_, segment in zip(table.to_pylist(), intervals[index].get_segments(), strict=True):
            correct = round(bin_["frequency"] * bin_["rows"])
            expected = binomtest(correct, bin_["rows"]).proportion_ci(method="wilson")
            assert segment[:, 1] == pytest.approx([expected.low, expected.high], abs=1e-6)
    assert not steps
    assert drawn["perfect calibration"].tolist() == [[0.0, 0.0], [1.0, 1.0]]
    assert f"{adult_quality.ece:.3f}" in curve.get_title(loc="left")
    assert fits(figure)


def test_cells_show_counts_and_shares(adult_quality: Evaluation) -> None:
    figure = confusion(adult_quality)
    (axes,) = figure.axes
    counts = [list(row.values())[1:] for row in adult_quality.confusion.to_pylist()]
    expected = [[f"{n:,}\n{n / sum(row):.0%}" for n in row] for row in counts]
    assert cells(axes, 2) == expected
    (image,) = axes.images
    shares = np.array(counts) / np.sum(counts, axis=1, keepdims=True)
    assert np.asarray(image.get_array()) == pytest.approx(shares)
    names = adult_quality.confusion["class"].to_pylist()
    assert [text.get_text() for text in axes.get_xticklabels()] == names
    support = [f"{name} ({sum(row):,})" for name, row in zip(names, counts, strict=True)]
    assert [text.get_text() for text in axes.get_yticklabels()] == support
    assert fits(figure)


def test_a_class_without_rows_has_no_shares_and_a_small_share_is_not_zero(iris: pa.Table) -> None:
    model = pc.fit(iris, naive_spec(iris.schema, "species"))
    two = iris.slice(0, 100)
    (axes,) = confusion(pc.evaluate(model, two)).axes
    assert cells(axes, 3)[2] == ["0", "0", "0"]
    rare = {"x": [0.0] * 299 + [9.0, 9.0, 9.1, 9.2], "c": ["a"] * 300 + ["b"] * 3}
    rows = {"x": [0.0, 9.0, 0.1, 9.1], "c": [*"abab"]}
    model = pc.fit(rows, pc.ModelSpec("c", [pc.Block("gaussian_diagonal", ["x"])], prior="uniform"))
    (axes,) = confusion(pc.evaluate(model, rare)).axes
    assert cells(axes, 2)[0] == ["299\n100%", "1\n<1%"]


@pytest.mark.parametrize(("size", "name"), [(2, LONG), (7, "c"), (7, LONG), (20, "c"), (20, LONG)])
def test_two_to_twenty_classes_are_legible(size: int, name: str) -> None:
    evaluation = many_classes(size, name)
    figure = confusion(evaluation)
    assert fits(figure)
    (axes,) = figure.axes
    # Texts fit in their cells.
    width, height = np.ptp(axes.transData.transform([[0, 0], [1, 1]]), axis=0)
    for text in axes.texts:
        box = text.get_window_extent()
        assert box.width <= width
        assert box.height <= height
    # Labels do not overlap: horizontal ones, and rotated ones at a line's distance.
    labels = axes.get_xticklabels()
    boxes = [label.get_window_extent() for label in labels]
    if labels[0].get_rotation() == 0:
        assert all(a.x1 < b.x0 for a, b in itertools.pairwise(boxes))
    else:
        assert width * np.sin(np.pi / 4) > labels[0].get_fontsize() * figure.dpi / 72


def test_without_matplotlib_every_plot_names_the_extra(
    iris: pa.Table, adult_quality: Evaluation, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = pc.fit(iris, pc.ModelSpec("species", {"knn_density": iris.column_names[:2]}))
    x, y = iris.column_names[:2]
    for name in [*sys.modules]:
        if name == "probclass_core.plots.figure" or name.partition(".")[0] == "matplotlib":
            monkeypatch.setitem(sys.modules, name, None)
    calls: list[Callable[[], object]] = [
        lambda: plots.class_contours(model, x, y),
        lambda: plots.effect(model, x),
        lambda: plots.reliability(adult_quality),
        lambda: plots.confusion(adult_quality),
        lambda: plots.posterior_over_time(pa.table({"time": []}), "time"),
    ]
    for draw in calls:
        with pytest.raises(NotSupportedError, match=r"need matplotlib: pip install 'probclass\[pl"):
            draw()


def test_differences_are_those_of_the_folds(penguins: pa.Table) -> None:
    bill, body = ["bill_length_mm"], ["body_mass_g"]
    specs = {
        name: pc.ModelSpec("species", {"gaussian_diagonal": columns})
        for name, columns in {"bill": bill, "body": body, "both": bill + body}.items()
    }
    validations = pc.cross_validate(penguins, specs, folds=4)
    figure = validations.plot()
    (axes,) = figure.axes
    best, *others = validations.table.to_pylist()
    assert best["model"] == "both"
    assert [text.get_text() for text in axes.get_yticklabels()] == [row["model"] for row in others]
    means = [points[0, 0] for points in lines(axes, marker="D")]
    assert means == [row["log_loss_difference"] for row in others]
    for row, folds, ends in zip(
        others, lines(axes, marker="o"), lines(axes, color=LINES[0], marker="None"), strict=True
    ):
        assert folds[:, 0].mean() == pytest.approx(row["log_loss_difference"])
        assert np.ptp(ends[:, 0]) == pytest.approx(4.0 * row["log_loss_difference_error"])
    assert fits(figure)
    assert figure._repr_png_().startswith(b"\x89PNG")
