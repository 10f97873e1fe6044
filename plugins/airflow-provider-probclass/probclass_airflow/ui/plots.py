"""Plots of the library as SVG, in light and in dark colors.

A page embeds an SVG as an image, in which a browser runs no script. Letters are drawn as shapes.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING

import probclass_core as pc
from probclass_airflow.ui.stores import ShownStore, load_model
from probclass_core import plots

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MATPLOTLIB = Lock()
"""matplotlib draws in one thread at a time."""

_NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
"""Characters that a name may contain and an XML document may not."""

_DARK_COLORS = {
    "#000000": "#d7dae0",
    "#222222": "#e6e8ec",
    "#ffffff": "#16181d",
    "#0072b2": "#4ca6e0",
    "#666666": "#9aa0aa",
    "#999999": "#8b919b",
}
"""Colors for a dark page; the colors of classes that are not listed are legible on both."""


def effect(shown: ShownStore, ref: str, column: str, dark: bool) -> str:
    """The distribution of a column in each class, and each class given its value.

    Raises:
        SpecError: if the model has no such column.
        NotSupportedError: if matplotlib is not installed, or the column has no plot.
    """
    return _plot_of_model(shown.uri, ref, dark, (column,))


def contours(shown: ShownStore, ref: str, x: str, y: str, dark: bool) -> str:
    """Contours of each class's density in the plane of two columns; raises as `effect`."""
    return _plot_of_model(shown.uri, ref, dark, (x, y))


def reliability(evaluation: pc.Evaluation, dark: bool) -> str:
    """Observed frequency against predicted probability.

    Raises:
        NotSupportedError: if matplotlib is not installed.
    """
    return _svg(lambda: plots.reliability(evaluation), dark)


@lru_cache(maxsize=128)
def _plot_of_model(uri: str, ref: str, dark: bool, columns: tuple[str, ...]) -> str:
    model = load_model(uri, ref)

    def draw() -> Figure:
        if len(columns) > 1:
            return plots.class_contours(model, *columns)
        return plots.effect(model, columns[0])

    return _svg(draw, dark)


def _svg(draw: Callable[[], Figure], dark: bool) -> str:
    with _MATPLOTLIB:
        figure = draw()
        figure.patch.set_alpha(0.0)
        for axes in figure.axes:
            axes.patch.set_alpha(0.0)
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    svg = _NOT_IN_XML.sub("�", file.getvalue())
    if not dark:
        return svg
    # Letters are drawn without a color of their own, which means black.
    svg = svg.replace("<svg ", f'<svg fill="{_DARK_COLORS["#000000"]}" ', 1)
    return re.sub("#[0-9a-f]{6}", lambda color: _DARK_COLORS.get(color[0], color[0]), svg)
