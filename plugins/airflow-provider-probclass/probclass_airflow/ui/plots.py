"""Plots of the library as SVG, in light and in dark colors."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from probclass_airflow.ui.stores import load_model
from probclass_core import plots
from probclass_core.report import Theme, as_svg

if TYPE_CHECKING:
    from probclass_core.analysis.evaluation import Evaluation


@lru_cache(maxsize=128)
def effect(uri: str, ref: str, column: str, theme: Theme) -> str:
    """The distribution of a column in each class, and each class given its value.

    Raises:
        SpecError: if the model has no such column.
        NotSupportedError: if matplotlib is not installed, or the column has no plot.
    """
    model = load_model(uri, ref)
    return as_svg(lambda: plots.effect(model, column), theme)


def reliability(evaluation: Evaluation, theme: Theme) -> str:
    """Observed frequency against predicted probability.

    Raises:
        NotSupportedError: if matplotlib is not installed.
    """
    return as_svg(lambda: plots.reliability(evaluation), theme)
