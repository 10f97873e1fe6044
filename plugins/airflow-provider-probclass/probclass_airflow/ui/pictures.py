"""Plots as SVG, drawn by the library, for a light page and for a dark one.

An SVG is shown as an image, in which a browser runs nothing, and its letters are drawn as shapes.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING

import probclass_core as pc
from probclass_airflow.ui.shelves import Shelf, loaded
from probclass_core import plots

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DRAWING = Lock()
"""matplotlib draws for one thread at a time."""

_NO_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
"""What a name may hold and an XML document may not."""

_ON_DARK = {
    "#000000": "#d7dae0",
    "#222222": "#e6e8ec",
    "#ffffff": "#16181d",
    "#0072b2": "#4ca6e0",
    "#666666": "#9aa0aa",
    "#999999": "#8b919b",
}
"""Ink for paper, and what it becomes on slate; the other colors of classes are read on both."""


def densities(shelf: Shelf, ref: str, column: str, dark: bool) -> str:
    """The density of a number, or the probabilities of categories, in each class.

    Raises:
        SpecError: the model has no such column.
        NotSupportedError: matplotlib is not installed, or there is nothing to draw.
    """
    return _of_model(shelf.uri, ref, dark, (column,))


def contours(shelf: Shelf, ref: str, x: str, y: str, dark: bool) -> str:
    """Where each class lives in the plane of two columns; raises as `densities`."""
    return _of_model(shelf.uri, ref, dark, (x, y))


def reliability(evaluation: pc.Evaluation, dark: bool) -> str:
    """How often came true what was given a probability.

    Raises:
        NotSupportedError: matplotlib is not installed.
    """
    return _drawn(lambda: plots.reliability(evaluation), dark)


@lru_cache(maxsize=128)
def _of_model(uri: str, ref: str, dark: bool, columns: tuple[str, ...]) -> str:
    model = loaded(uri, ref)

    def draw() -> Figure:
        if len(columns) > 1:
            return plots.class_contours(model, *columns)
        try:
            return plots.class_densities(model, columns[0])
        except pc.SpecError:
            return plots.category_masses(model, columns[0])

    return _drawn(draw, dark)


def _drawn(draw: Callable[[], Figure], dark: bool) -> str:
    with _DRAWING:
        figure = draw()
        figure.patch.set_alpha(0.0)
        for axes in figure.axes:
            axes.patch.set_alpha(0.0)
        page = io.StringIO()
        figure.savefig(page, format="svg", metadata={"Date": None, "Creator": None})
    svg = _NO_XML.sub("�", page.getvalue())
    if not dark:
        return svg
    # Ink that no element names is black: what the letters are drawn in.
    svg = svg.replace("<svg ", f'<svg fill="{_ON_DARK["#000000"]}" ', 1)
    return re.sub("#[0-9a-f]{6}", lambda found: _ON_DARK.get(found[0], found[0]), svg)
