"""Plots of reliability: points and bars agree with the evaluation."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pac
import pytest
from artists import fits, labeled
from matplotlib.collections import LineCollection
from matplotlib.patches import StepPatch
from naive import naive_spec
from scipy.stats import binomtest

import probclass_core as pc
from probclass_core import plots
from probclass_core.analysis.evaluation import Evaluation
from probclass_core.errors import NotSupportedError
from probclass_core.plots import reliability


@pytest.fixture(scope="module")
def adult_quality(adult: tuple[pa.Table, pa.Table]) -> Evaluation:
    train, test = adult
    return pc.evaluate(pc.fit(train, naive_spec(train.schema, "income")), test)


def test_points_agree_with_the_reliability_table(adult_quality: Evaluation) -> None:
    figure = reliability(adult_quality)
    curve, strip = figure.axes
    drawn = labeled(curve)
    steps = [step for step in strip.patches if isinstance(step, StepPatch)]
    (intervals,) = (each for each in curve.collections if isinstance(each, LineCollection))
    bins = adult_quality.reliability
    table = bins.filter(pac.is_null(bins["class"]))
    points = drawn["predicted class"]
    assert points[:, 0].tolist() == table["probability"].to_pylist()
    assert points[:, 1].tolist() == table["frequency"].to_pylist()
    assert [step.get_data().values[0] for step in steps] == table["rows"].to_pylist()
    assert [step.get_data().edges[0] for step in steps] == table["lower"].to_pylist()
    for bin_, segment in zip(table.to_pylist(), intervals.get_segments(), strict=True):
        correct = round(bin_["frequency"] * bin_["rows"])
        expected = binomtest(correct, bin_["rows"]).proportion_ci(method="wilson")
        assert segment[:, 1] == pytest.approx([expected.low, expected.high], abs=1e-6)
    assert drawn["perfect calibration"].tolist() == [[0.0, 0.0], [1.0, 1.0]]
    assert f"{adult_quality.ece:.3f}" in curve.get_title(loc="left")
    assert fits(figure)


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
    ]
    for draw in calls:
        with pytest.raises(NotSupportedError, match=r"need matplotlib: pip install 'probclass\[pl"):
            draw()
