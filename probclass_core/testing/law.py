"""What makes a function a law: its name and statement head every message of its breaking."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import pyarrow as pa

from probclass_core.plugins.manager import trying
from probclass_core.testing.comparison import as_text, raised
from probclass_core.testing.trial import Trial

Law: TypeAlias = Callable[..., None]
"""``law(trial, table=…)``: what else it needs are ``table``, ``parts`` or ``rows``, by keyword."""


def law(check: Law) -> Law:
    """A check as a law, tried as if the estimator were installed.

    Args:
        check: its docstring's first line states the law. It raises an AssertionError that says
            what was expected and what came.

    Returns:
        the law; what it raises is an AssertionError that names the estimator, the law, its options
        and the rows on which it broke. An error of the estimator itself is the cause of one.
    """
    statement = (inspect.getdoc(check) or "").splitlines()[0]

    @functools.wraps(check)
    def tried(trial: Trial, **inputs: Any) -> None:
        __tracebackhide__ = True
        with trying(trial.plugin):
            try:
                check(trial, **inputs)
                return
            except AssertionError as error:
                told, cause = str(error), error.__cause__
            except Exception as error:  # an estimator under trial may raise anything
                told, cause = raised(error), error
        options = json.dumps(dict(trial.options), ensure_ascii=False)
        lines = [
            f"{trial.plugin.name} breaks the law {check.__name__}: {statement}",
            told,
            f"options: {options}",
            *_shown(inputs),
        ]
        raise AssertionError("\n".join(lines)) from cause

    return tried


def needs(one: Law) -> list[str]:
    """Names of what a law needs beside the trial: of ``table``, ``parts`` and ``rows``."""
    return list(inspect.signature(one).parameters)[1:]


def _shown(inputs: dict[str, Any]) -> Iterator[str]:
    for name, value in inputs.items():
        if isinstance(value, pa.Table):
            yield f"{name}:\n{as_text(value)}"
        else:
            for number, part in enumerate(value, start=1):
                yield f"{name}, {number} of {len(value)}:\n{as_text(part)}"
