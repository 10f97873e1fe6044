"""Data of a figure, read back from its artists."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.contour import QuadContourSet
from matplotlib.figure import Figure


def outlines(figure: Figure) -> list[np.ndarray]:
    """The contour of each class that has one: ``(n, 2)`` points."""
    (axes,) = figure.axes
    contours = [each for each in axes.collections if isinstance(each, QuadContourSet)]
    return [np.concatenate([path.vertices for path in each.get_paths()]) for each in contours]


def lines(axes: Axes, **look: Any) -> list[np.ndarray]:
    """Points ``(n, 2)`` of the non-empty lines with these matplotlib properties."""
    contours = [
        line.get_xydata()
        for line in axes.lines
        if all(getattr(line, f"get_{key}")() == value for key, value in look.items())
    ]
    return [np.asarray(points) for points in contours if len(points)]


def labeled(axes: Axes) -> dict[str, np.ndarray]:
    """Points of the lines in the legend, by their label."""
    return {
        str(line.get_label()): np.asarray(line.get_xydata())
        for line in axes.lines
        if not str(line.get_label()).startswith("_")
    }


def legend(figure: Figure) -> list[str]:
    """The labels of the legend."""
    return [text.get_text() for text in figure.legends[0].get_texts()]


def fits(figure: Figure) -> bool:
    """Whether everything is within the edges of the figure, up to a hundredth of an inch."""
    figure.draw_without_rendering()
    contours, (width, height) = figure.get_tightbbox(), figure.get_size_inches()
    return bool(
        min(contours.x0, contours.y0) >= -0.01
        and contours.x1 <= width + 0.01
        and contours.y1 <= height + 0.01
    )
