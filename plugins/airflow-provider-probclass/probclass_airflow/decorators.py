"""Operators as decorators: a function decides at run time what a task is to work on.

``@task.probclass_score`` and its like take the fields of the operator; the function returns a dict
of further fields, such as ``{"partition": {"month": "2014-01"}}``, which win over those given.
Airflow finds the decorators by the provider's metadata, so they need the installed package.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk.bases.decorator import DecoratedOperator, determine_kwargs, task_decorator_factory
from airflow.sdk.exceptions import AirflowFailException

from probclass_airflow.base import ProbClassOperator
from probclass_airflow.operators import (
    ProbClassEvaluateOperator,
    ProbClassScoreOperator,
    ProbClassTrainOperator,
)

if TYPE_CHECKING:
    from airflow.sdk import Context
    from airflow.sdk.bases.decorator import TaskDecorator

_NOT_YET = "(from the function)"
"""Stands for a field that the operator needs, until the function has returned it."""


class _FieldsFromFunction(DecoratedOperator, ProbClassOperator):
    """Calls the function, takes the fields that it returns, and goes on as the operator does.

    A text that is returned is no template: the function had the whole context to make it of.
    """

    operator: ClassVar[type[ProbClassOperator]]
    """Whose fields they are."""

    custom_operator_name: ClassVar[str]

    overwrite_rtif_after_execution = True  # so that the UI shows the fields as they became

    def __init__(self, *, python_callable: Callable[..., Any], **kwargs: Any) -> None:
        given = {**(kwargs.get("default_args") or {}), **kwargs}
        absent: dict[str, Any] = {name: _NOT_YET for name in self._needed() if name not in given}
        # Airflow inferred it from the annotation of the function, which is of the fields.
        kwargs["multiple_outputs"] = True
        super().__init__(python_callable=python_callable, **absent, **kwargs)

    def execute(self, context: Context) -> Any:
        """Ask the function, then run.

        Raises:
            AirflowFailException: it returned no fields, or left out one that is needed.
        """
        known = {**context, **self.op_kwargs}
        arguments = determine_kwargs(self.python_callable, self.op_args, known)
        returned = self.python_callable(*self.op_args, **arguments)
        if not isinstance(returned, Mapping):
            self._refuse(f"the function returned {returned!r}; let it return a dict of fields")
        if unknown := sorted(returned.keys() - self._parameters()):
            known_ones = ", ".join(sorted(self._parameters()))
            self._refuse(f"the function returned {unknown[0]!r}, which is none of {known_ones}")
        for name, value in returned.items():
            setattr(self, name, value)
        for name in self._needed():
            if getattr(self, name) == _NOT_YET:
                self._refuse(f"{name!r} is given neither to the decorator nor by the function")
        return super().execute(context)

    def _refuse(self, why: str) -> None:
        raise AirflowFailException(f"{self.custom_operator_name} {self.task_id!r}: {why}.")

    @classmethod
    def _parameters(cls) -> dict[str, inspect.Parameter]:
        """The operator's own, by name."""
        parameters = inspect.signature(cls.operator.__init__).parameters
        return {n: p for n, p in parameters.items() if p.kind is p.KEYWORD_ONLY}

    @classmethod
    def _needed(cls) -> list[str]:
        return [name for name, each in cls._parameters().items() if each.default is each.empty]


class _TrainDecorated(_FieldsFromFunction, ProbClassTrainOperator):
    operator = ProbClassTrainOperator
    custom_operator_name = "@task.probclass_train"
    template_fields: Sequence[str] = (
        *DecoratedOperator.template_fields,
        *ProbClassTrainOperator.template_fields,
    )


class _ScoreDecorated(_FieldsFromFunction, ProbClassScoreOperator):
    operator = ProbClassScoreOperator
    custom_operator_name = "@task.probclass_score"
    template_fields: Sequence[str] = (
        *DecoratedOperator.template_fields,
        *ProbClassScoreOperator.template_fields,
    )


class _EvaluateDecorated(_FieldsFromFunction, ProbClassEvaluateOperator):
    operator = ProbClassEvaluateOperator
    custom_operator_name = "@task.probclass_evaluate"
    template_fields: Sequence[str] = (
        *DecoratedOperator.template_fields,
        *ProbClassEvaluateOperator.template_fields,
    )


def train_task(python_callable: Callable[..., Any] | None = None, **kwargs: Any) -> TaskDecorator:
    """``@task.probclass_train``: fields as for `ProbClassTrainOperator`."""
    return task_decorator_factory(
        python_callable=python_callable, decorated_operator_class=_TrainDecorated, **kwargs
    )


def score_task(python_callable: Callable[..., Any] | None = None, **kwargs: Any) -> TaskDecorator:
    """``@task.probclass_score``: fields as for `ProbClassScoreOperator`."""
    return task_decorator_factory(
        python_callable=python_callable, decorated_operator_class=_ScoreDecorated, **kwargs
    )


def evaluate_task(
    python_callable: Callable[..., Any] | None = None, **kwargs: Any
) -> TaskDecorator:
    """``@task.probclass_evaluate``: fields as for `ProbClassEvaluateOperator`."""
    return task_decorator_factory(
        python_callable=python_callable, decorated_operator_class=_EvaluateDecorated, **kwargs
    )
