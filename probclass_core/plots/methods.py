"""Plots as methods of what they show, such as ``model.plot.effect("x")``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Concatenate, ParamSpec, TypeVar

from probclass_core.analysis.evaluation import Evaluation
from probclass_core.model.model import Model
from probclass_core.plots import columns, planes, results

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
    """Plots of a model: of its columns, and of what it says about rows.

    They need matplotlib: ``pip install 'probclass[plots]'``.
    """

    def __init__(self, model: Model) -> None:
        self.class_contours = _plot_of(model, planes.class_contours)
        self.effect = _plot_of(model, columns.effect)
        self.importance = _plot_of(model, results.importance_of_model)
        self.waterfall = _plot_of(model, results.waterfall_of_row)


class EvaluationPlots:
    """Plots of an evaluation.

    They need matplotlib: ``pip install 'probclass[plots]'``.
    """

    def __init__(self, evaluation: Evaluation) -> None:
        self.reliability = _plot_of(evaluation, results.reliability)
