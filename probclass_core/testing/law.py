"""The decorator that turns a check into a law, with a message that shows how it was broken."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from probclass_core.plugins.manager import trying
from probclass_core.testing.comparison import as_text, check_equal
from probclass_core.testing.trial import WEIGHT, Trial

Law = Callable[..., None]
"""``law(trial, table=…)``: takes some of ``table``, ``parts`` and ``rows`` by keyword."""

Equations = Iterator[tuple[Any, ...]]
"""Expected and actual results that are equal; and the rows that they are of, unless these are all
rows that the law was given to train on."""


def law(check: Callable[..., Equations | None], *, weighted: bool = False) -> Law:
    """Turn a check into a law, which can be tried on an estimator that is not installed.

    Args:
        check: function whose docstring's first line states the law. It yields equations, and raises
            an AssertionError that shows the expected and the actual result.
        weighted: whether it uses the weights, so that a message shows them.

    Returns:
        The law. It raises an AssertionError that names the estimator, the law, the options and the
        rows that broke it, also if the estimator itself raised an error, which is then the cause.
    """
    statement = (inspect.getdoc(check) or "").splitlines()[0]

    @functools.wraps(check)
    def try_check(trial: Trial, **inputs: Any) -> None:
        __tracebackhide__ = True
        rows = inputs["table"] if "table" in inputs else pa.concat_tables(inputs["parts"])
        with trying(trial.estimator):
            try:
                for expected, actual, *of in check(trial, **inputs) or ():
                    check_equal(trial, expected, actual, *of or [rows])
                return
            except AssertionError as error:
                reason, cause = [*_notes(error), str(error)], error.__cause__
            except Exception as error:  # an estimator may raise anything
                got = f"expected: a result\n     got: {error!r}"
                reason, cause = [*_notes(error), got], error
        options = json.dumps(dict(trial.options), ensure_ascii=False)
        lines = [
            f"{trial.estimator.name} breaks the law {check.__name__}: {statement}",
            *reason,
            f"options: {options}",
            *_show(inputs, [] if weighted else [WEIGHT]),
        ]
        raise AssertionError("\n".join(lines)) from cause

    return try_check


def _notes(error: Exception) -> list[str]:
    return getattr(error, "__notes__", [])


def needs(law: Law) -> list[str]:
    """The tables that a law takes: names among ``table``, ``parts`` and ``rows``."""
    return list(inspect.signature(law).parameters)[1:]


def _show(inputs: dict[str, Any], hidden: Sequence[str]) -> Iterator[str]:
    for name, value in inputs.items():
        tables = [value] if isinstance(value, pa.Table) else value
        for number, table in enumerate(tables, start=1):
            shown = table.select([key for key in table.column_names if key not in hidden])
            place = "" if table is value else f", {number} of {len(tables)}"
            yield f"{name}{place}:\n{as_text(shown)}"
