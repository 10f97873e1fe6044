"""Plots of the library as SVG, in light and in dark colors."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from probclass_airflow.ui.stores import ShownStore, load_model
from probclass_core import plots
from probclass_core.report import Theme, as_svg

if TYPE_CHECKING:
    from probclass_core.analysis.evaluation import Evaluation


def effect(shown: ShownStore, ref: str, column: str, theme: Theme) -> str:
    """The distribution of a column in each class, and each class given its value.

    Raises:
        SpecError: if the model has no such column.
        NotSupportedError: if matplotlib is not installed, or the column has no plot.
    """
    return _plot_of_model(shown.uri, ref, theme, (column,))


def contours(shown: ShownStore, ref: str, x: str, y: str, theme: Theme) -> str:
    """Contours of each class's density in the plane of two columns; raises as `effect`."""
    return _plot_of_model(shown.uri, ref, theme, (x, y))


def reliability(evaluation: Evaluation, theme: Theme) -> str:
    """Observed frequency against predicted probability.

    Raises:
        NotSupportedError: if matplotlib is not installed.
    """
    return as_svg(lambda: plots.reliability(evaluation), theme)


@lru_cache(maxsize=128)
def _plot_of_model(uri: str, ref: str, theme: Theme, columns: tuple[str, ...]) -> str:
    model = load_model(uri, ref)
    draw = plots.effect if len(columns) == 1 else plots.class_contours
    return as_svg(lambda: draw(model, *columns), theme)
