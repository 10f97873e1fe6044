"""Operators as decorators: a function chooses at run time what a task works on.

``@task.probclass_score`` and the others take the arguments of the operator. The function returns a
dict of further arguments, such as ``{"partition": {"month": "2014-01"}}``, which override them.
Airflow finds the decorators by the metadata of the installed provider, not in a plugins folder.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk.bases.decorator import DecoratedOperator, determine_kwargs, task_decorator_factory
from airflow.sdk.exceptions import AirflowFailException

from probclass_airflow.base import ProbClassOperator
from probclass_airflow.operators import ProbClassEvaluateOperator, ProbClassTrainOperator
from probclass_airflow.score import ProbClassScoreOperator

if TYPE_CHECKING:
    from airflow.sdk import Context
    from airflow.sdk.bases.decorator import TaskDecorator

_FROM_FUNCTION = "(from the function)"
"""Placeholder of a required argument until the function has returned it."""


class _FromFunction(DecoratedOperator, ProbClassOperator):
    """Calls the function, sets the arguments that it returns, and executes the operator.

    Returned text is not a template: the function can ask for the whole context.
    """

    operator: ClassVar[type[ProbClassOperator]]
    """The operator that is executed."""

    custom_operator_name: ClassVar[str]

    overwrite_rtif_after_execution = True  # show the returned arguments in the UI

    def __init__(self, *, python_callable: Callable[..., Any], **kwargs: Any) -> None:
        given = {**(kwargs.get("default_args") or {}), **kwargs}
        missing: dict[str, Any] = {
            name: _FROM_FUNCTION for name in self._required() if name not in given
        }
        # Airflow infers this from the annotation of the function, which returns arguments.
        kwargs["multiple_outputs"] = False
        super().__init__(python_callable=python_callable, **missing, **kwargs)

    def execute(self, context: Context) -> Any:
        """Call the function, then execute the operator.

        Raises:
            AirflowFailException: if the function returns anything but a dict of arguments, or a
                required argument is missing.
        """
        known = {**context, **self.op_kwargs}
        arguments = determine_kwargs(self.python_callable, self.op_args, known)
        returned = self.python_callable(*self.op_args, **arguments)
        if not isinstance(returned, Mapping):
            self._fail(f"the function returned {returned!r}; it must return a dict of arguments")
        if unknown := sorted(returned.keys() - self._parameters()):
            names = ", ".join(sorted(self._parameters()))
            self._fail(f"the function returned {unknown[0]!r}, which is not one of {names}")
        for name, value in returned.items():
            setattr(self, name, value)
        for name in self._required():
            if getattr(self, name) == _FROM_FUNCTION:
                self._fail(f"{name!r} is neither given to the decorator nor returned")
        return super().execute(context)

    def _fail(self, reason: str) -> None:
        raise AirflowFailException(f"{self.custom_operator_name} {self.task_id!r}: {reason}.")

    @classmethod
    def _parameters(cls) -> dict[str, inspect.Parameter]:
        """The arguments of the operator, without those of Airflow's `BaseOperator`."""
        return {
            name: parameter
            for base in cls.operator.__mro__
            if issubclass(base, ProbClassOperator)
            for name, parameter in inspect.signature(base.__init__).parameters.items()
            if parameter.kind is parameter.KEYWORD_ONLY and name != "multiple_outputs"
        }

    @classmethod
    def _required(cls) -> list[str]:
        parameters = cls._parameters().items()
        return [name for name, parameter in parameters if parameter.default is parameter.empty]


class _TrainDecorated(_FromFunction, ProbClassTrainOperator):
    operator = ProbClassTrainOperator
    custom_operator_name = "@task.probclass_train"
    template_fields: Sequence[str] = (
        *DecoratedOperator.template_fields,
        *ProbClassTrainOperator.template_fields,
    )


class _ScoreDecorated(_FromFunction, ProbClassScoreOperator):
    operator = ProbClassScoreOperator
    custom_operator_name = "@task.probclass_score"
    template_fields: Sequence[str] = (
        *DecoratedOperator.template_fields,
        *ProbClassScoreOperator.template_fields,
    )


class _EvaluateDecorated(_FromFunction, ProbClassEvaluateOperator):
    operator = ProbClassEvaluateOperator
    custom_operator_name = "@task.probclass_evaluate"
    template_fields: Sequence[str] = (
        *DecoratedOperator.template_fields,
        *ProbClassEvaluateOperator.template_fields,
    )


def train_task(python_callable: Callable[..., Any] | None = None, **kwargs: Any) -> TaskDecorator:
    """``@task.probclass_train``: arguments as for `ProbClassTrainOperator`."""
    return task_decorator_factory(
        python_callable=python_callable, decorated_operator_class=_TrainDecorated, **kwargs
    )


def score_task(python_callable: Callable[..., Any] | None = None, **kwargs: Any) -> TaskDecorator:
    """``@task.probclass_score``: arguments as for `ProbClassScoreOperator`."""
    return task_decorator_factory(
        python_callable=python_callable, decorated_operator_class=_ScoreDecorated, **kwargs
    )


def evaluate_task(
    python_callable: Callable[..., Any] | None = None, **kwargs: Any
) -> TaskDecorator:
    """``@task.probclass_evaluate``: arguments as for `ProbClassEvaluateOperator`."""
    return task_decorator_factory(
        python_callable=python_callable, decorated_operator_class=_EvaluateDecorated, **kwargs
    )
