"""Plots as methods of what they show, such as ``model.plot.effect("x")``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from probclass_core.analysis.evaluation import Evaluation
from probclass_core.model.model import Model
from probclass_core.plots import columns, planes, results

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class _Plot(Generic[Parameters, Result]):
    """A function whose first argument is the model or evaluation that it is read from."""

    def __init__(self, function: Callable[Concatenate[Any, Parameters], Result]) -> None:
        self._function = function
        self.__doc__ = function.__doc__

    def __get__(self, plots: Any, owner: type) -> Callable[Parameters, Result]:
        method = partial(self._function, None if plots is None else plots._subject)
        method.__doc__ = self.__doc__
        return method


@dataclass(frozen=True)
class ModelPlots:
    """Plots of a model: of its columns, and of what it says about rows.

    They need matplotlib: ``pip install 'probclass[plots]'``.
    """

    _subject: Model

    class_contours = _Plot(planes.class_contours)
    effect = _Plot(columns.effect)
    importance = _Plot(results.importance_of_model)
    waterfall = _Plot(results.waterfall_of_row)


@dataclass(frozen=True)
class EvaluationPlots:
    """Plots of an evaluation.

    They need matplotlib: ``pip install 'probclass[plots]'``.
    """

    _subject: Evaluation

    reliability = _Plot(results.reliability)
