"""Plots as methods of a model, such as ``model.plot.effect("x")``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Concatenate, ParamSpec, TypeVar

from probclass_core.model.model import Model
from probclass_core.plots import columns, planes

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
        self.class_contours = _plot_of(model, planes.class_contours)
        self.effect = _plot_of(model, columns.effect)
