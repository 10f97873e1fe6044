"""Plots of two columns: contours, as in the textbook, and errors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pac
import pytest
from artists import fits, labeled, legend, lines, outlines
from matplotlib.colors import to_rgba
from scipy.spatial.distance import cdist

import probclass_core as pc
from probclass_core.plots import class_contours

L, W = "sepal_length", "sepal_width"
X = (6.75, 4.25)


@pytest.fixture(scope="module")
def sepals(iris: pa.Table) -> pa.Table:
    """Iris with two classes: c1 is iris-setosa, c2 the others."""
    c = pac.if_else(pac.equal(iris["species"], "iris-setosa"), "c1", "c2")
    return iris.select([L, W, "petal_length"]).append_column("c", c)


def fit(table: pa.Table, estimator: str, columns: Sequence[str] = (L, W), **options: Any) -> Any:
    return pc.fit(table, pc.ModelSpec("c", [pc.Block(estimator, columns, **options)]))


def values_of(table: pa.Table, label: str, columns: Sequence[str] = (L, W)) -> np.ndarray:
    """Rows of a class, ``(n, d)``."""
    rows = table.filter(pac.equal(table["c"], label))
    return np.stack([rows[name].to_numpy() for name in columns], axis=1)


def mahalanobis(points: np.ndarray, rows: np.ndarray, *, diagonal: bool = False) -> np.ndarray:
    covariance = np.cov(rows.T, bias=True)
    if diagonal:
        covariance = np.diag(np.diag(covariance))
    inverse = np.linalg.inv(covariance)
    return cdist(points, rows.mean(axis=0)[None], "mahalanobis", VI=inverse)[:, 0]


@pytest.mark.parametrize("estimator", ["gaussian_full", "gaussian_diagonal"])
@pytest.mark.parametrize("level", [0.01, 0.5])
def test_a_contour_of_a_normal_has_one_mahalanobis_distance(
    sepals: pa.Table, estimator: str, level: float
) -> None:
    model = fit(sepals, estimator)
    drawn = outlines(class_contours(model, L, W, level=level))
    assert len(drawn) == 2
    for label, points in zip(("c1", "c2"), drawn, strict=True):
        diagonal = estimator == "gaussian_diagonal"
        distance = mahalanobis(points, values_of(sepals, label), diagonal=diagonal)
        assert distance == pytest.approx(math.sqrt(-2.0 * math.log(level)), rel=1e-3)
        # The contour is complete and closed.
        assert np.ptp(points, axis=0) == pytest.approx(
            2.0 * distance.mean() * values_of(sepals, label).std(axis=0), rel=1e-3
        )
        assert points[0] == pytest.approx(points[-1])


def test_class_means_are_black_and_the_test_point_is_a_square(sepals: pa.Table) -> None:
    figure = class_contours(fit(sepals, "gaussian_full"), L, W, data=sepals, point=X)
    (axes,) = figure.axes
    means = np.concatenate(lines(axes, color="black"))
    expected = [values_of(sepals, label).mean(axis=0) for label in ("c1", "c2")]
    assert means == pytest.approx(np.stack(expected))
    assert legend(figure) == ["c1", "c2", "x = (6.75, 4.25)"]
    assert labeled(axes)["x = (6.75, 4.25)"].tolist() == [list(X)]
    assert axes.get_xlim()[1] > X[0]
    assert axes.get_ylim()[1] > X[1]
    assert fits(figure)


def test_rows_are_drawn_in_the_color_of_their_class(sepals: pa.Table) -> None:
    (axes,) = class_contours(fit(sepals, "gaussian_full"), L, W, data=sepals).axes
    clouds = [line for line in axes.lines if line.get_alpha()]
    assert [len(cloud.get_xydata()) for cloud in clouds] == [50, 100]
    assert np.sort(clouds[0].get_xydata(), axis=0) == pytest.approx(
        np.sort(values_of(sepals, "c1"), axis=0)
    )
    outline = [each.get_edgecolor().tolist() for each in axes.collections]
    assert [[list(to_rgba(cloud.get_color()))] for cloud in clouds] == outline


@pytest.mark.parametrize(
    ("blocks", "diagonal"),
    [
        ([pc.Block("gaussian_full", [W, "petal_length", L])], False),
        (
            [pc.Block("gaussian_diagonal", [W]), pc.Block("gaussian_full", ["petal_length", L])],
            True,
        ),
    ],
    ids=["one block", "two blocks"],
)
def test_other_columns_are_marginalized(
    sepals: pa.Table, blocks: list[pc.Block], diagonal: bool
) -> None:
    model = pc.fit(sepals, pc.ModelSpec("c", blocks))
    for label, points in zip(("c1", "c2"), outlines(class_contours(model, L, W)), strict=True):
        distance = mahalanobis(points, values_of(sepals, label), diagonal=diagonal)
        assert distance == pytest.approx(math.sqrt(2.0 * math.log(100.0)), rel=1e-3)


@pytest.mark.parametrize(("scale", "offset"), [(1e-9, 0.0), (1e6, 0.0), (1.0, 1e6), (1e-3, -7.0)])
def test_classes_of_any_position_and_scale_are_found(
    sepals: pa.Table, scale: float, offset: float
) -> None:
    moved = sepals.set_column(0, L, pac.add(pac.multiply(sepals[L], scale), offset))
    for label, points in zip(
        ("c1", "c2"), outlines(class_contours(fit(moved, "gaussian_full"), L, W)), strict=True
    ):
        original = (points - [offset, 0.0]) / [scale, 1.0]
        distance = mahalanobis(original, values_of(sepals, label))
        assert distance == pytest.approx(math.sqrt(2.0 * math.log(100.0)), rel=2e-3)


@pytest.mark.parametrize("estimator", ["gaussian_full", "gaussian_shared"])
def test_densities_on_a_contour_are_a_fraction_of_the_peak(
    sepals: pa.Table, estimator: str
) -> None:
    model = fit(sepals, estimator)
    figure = class_contours(model, L, W, level=0.05)
    means = np.concatenate(lines(figure.axes[0], color="black"))
    for position, points in enumerate(outlines(figure)):
        rows = np.concatenate([points, means[position : position + 1]])
        log_density = model.log_likelihood_by_block({L: rows[:, 0], W: rows[:, 1]})[:, position, 0]
        assert np.exp(log_density[:-1] - log_density[-1]) == pytest.approx(0.05, rel=0.02)


def test_knn_density_has_contours(sepals: pa.Table) -> None:
    model = fit(sepals, "knn_density", k=5)
    figure = class_contours(model, L, W, data=sepals)
    for label, points in zip(("c1", "c2"), outlines(figure), strict=True):
        rows = values_of(sepals, label)
        within = (rows >= points.min(axis=0)) & (rows <= points.max(axis=0))
        assert within.all(axis=1).mean() > 0.9
    means = np.concatenate(lines(figure.axes[0], color="black"))
    assert means[0] == pytest.approx(values_of(sepals, "c1").mean(axis=0))


def test_many_rows_are_sampled_and_the_legend_says_so(sepals: pa.Table) -> None:
    many = pa.concat_tables([sepals] * 40)
    figure = class_contours(fit(sepals, "gaussian_full"), L, W, data=many)
    clouds = [line for line in figure.axes[0].lines if line.get_alpha()]
    assert sum(len(cloud.get_xydata()) for cloud in clouds) == 5_000
    assert legend(figure)[-1] == "5,000 of 6,000 rows drawn"
