"""Plots of models and evaluations, as matplotlib figures.

matplotlib is needed here only: ``pip install 'probclass[plots]'``. It is imported when a plot is
drawn, so importing this package is cheap.

planes      two columns: contours of the classes
columns     one column: its distribution in each class, and each class given its value
results     reliability, and what columns contribute: on average over rows, and in one row
style       colors, markers and lines of classes; axes with units
figure      a figure that shows itself in a notebook
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Concatenate, ParamSpec, TypeVar

from probclass_core.model.model import Model
from probclass_core.plots.columns import effect
from probclass_core.plots.planes import class_contours
from probclass_core.plots.results import importance, reliability, waterfall

__all__ = ["ModelPlots", "class_contours", "effect", "importance", "reliability", "waterfall"]

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def _plot_of(
    subject: object, function: Callable[Concatenate[Any, Parameters], Result]
) -> Callable[Parameters, Result]:
    """A function whose first argument is the subject, with its docstring."""
    method = partial(function, subject)
    method.__doc__ = function.__doc__
    return method


class ModelPlots:
    """Plots of the columns of a model.

    They need matplotlib: ``pip install 'probclass[plots]'``.
    """

    def __init__(self, model: Model) -> None:
        self.class_contours = _plot_of(model, class_contours)
        self.effect = _plot_of(model, effect)
