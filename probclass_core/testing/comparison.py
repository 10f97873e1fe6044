"""When two results say the same, and how a message shows that they do not."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from probclass_core.errors import DataError, NotSupportedError
from probclass_core.estimation.statistics import Statistics
from probclass_core.model.model import Model, finalize
from probclass_core.testing.trial import Trial

_MOST_ROWS = 30
_PICKLE = re.compile(rb"\x80[\x02-\x05].*\.\Z", re.DOTALL)


def check(good: bool, expected: object, came: object) -> None:
    """Raise an AssertionError that says what was expected and what came, unless all is good."""
    if not good:
        raise AssertionError(f"expected: {expected}\n    came: {came}")


def same_statistics(trial: Trial, expected: Statistics, came: Statistics, rows: pa.Table) -> None:
    """Two statistics say the same: equal classes, parameters, log-likelihoods and evidence.

    The tables of statistics themselves may differ: in the order of their rows, in their last
    digits, or where the merge is a documented approximation.

    Args:
        trial: whose they are.
        expected: one of them.
        came: the other.
        rows: on which log-likelihoods are compared.

    Raises:
        AssertionError: they do not; it shows the first difference.
    """
    counts = [one.classes.select(["class", "count"]).to_pylist() for one in (expected, came)]
    check(counts[0] == counts[1], f"classes {counts[0]}", f"classes {counts[1]}")
    models = [_model_or_refusal(one) for one in (expected, came)]
    if isinstance(models[0], Model) and isinstance(models[1], Model):
        same_models(trial, models[0], models[1], rows)
    else:
        check(
            isinstance(models[0], Model) == isinstance(models[1], Model),
            _told(models[0]),
            _told(models[1]),
        )
    if trial.plugin.traits.has_evidence and expected.blocks and came.blocks:
        evidence = [_evidence(trial, one) for one in (expected, came)]
        good = _close(evidence[0], evidence[1], trial.tolerance, trial.tolerance)
        check(good, f"log evidence {evidence[0]}", f"log evidence {evidence[1]}")


def same_models(trial: Trial, expected: Model, came: Model, rows: pa.Table) -> None:
    """Two models say the same: equal parameters, and equal log-likelihoods of the rows.

    Raises:
        AssertionError: they do not; it shows the first difference.
    """
    name = trial.plugin.name
    same_parameters(trial, expected.parameters[name], came.parameters[name])
    if rows.num_rows:
        same_likelihoods(
            trial, trial.log_likelihood(expected, rows), trial.log_likelihood(came, rows), rows
        )


def same_parameters(trial: Trial, expected: pa.Table, came: pa.Table) -> None:
    """Two tables of parameters hold the same rows, in any order, but for rounding.

    Raises:
        AssertionError: they do not; it shows the first cell that differs.
    """
    columns = expected.column_names
    check(columns == came.column_names, f"columns {columns}", f"columns {came.column_names}")
    keys = [name for name in columns if _is_key(expected[name].type)]
    one, other = (_in_order(table, keys) for table in (expected, came))
    check(
        len(one) == len(other),
        f"parameters\n{as_text(expected)}",
        f"parameters\n{as_text(came)}",
    )
    for name in columns:
        largest = max((_largest(row[name]) for row in one), default=0.0)
        for wanted, got in zip(one, other, strict=True):
            where = ", ".join(f"{key} {wanted[key]!r}" for key in keys if key != name)
            what = f"parameter {name!r}" + (f" of {where}" if where else "")
            good = _close(wanted[name], got[name], trial.tolerance, trial.tolerance * largest)
            check(good, f"{what} is {wanted[name]!r}", f"it is {got[name]!r}")


def same_likelihoods(trial: Trial, expected: np.ndarray, came: np.ndarray, rows: pa.Table) -> None:
    """Two arrays of log-likelihoods ``(n, k)`` agree.

    Raises:
        AssertionError: they do not; it shows the first row that differs.
    """
    check(
        expected.shape == came.shape,
        f"log-likelihoods of shape {expected.shape}",
        f"of shape {came.shape}",
    )
    differs = ~np.isclose(
        came, expected, rtol=trial.tolerance, atol=trial.tolerance, equal_nan=True
    )
    for row in np.flatnonzero(differs.any(axis=1))[:1]:
        features = rows.select(list(trial.columns)).slice(int(row), 1).to_pylist()[0]
        raise AssertionError(
            f"expected: log-likelihoods {expected[row].tolist()} of the row {features}\n"
            f"    came: {came[row].tolist()}"
        )


def raised(error: Exception) -> str:
    """What a message says where an estimator raised an error in place of a result."""
    return f"expected: a result\n    came: {error!r}"


def check_plain(table: pa.Table) -> None:
    """A table holds no pickled objects: reading it must execute nothing.

    Raises:
        AssertionError: a cell, or an entry of the schema metadata, is one.
    """
    metadata = list((table.schema.metadata or {}).values())
    cells = [
        cell
        for column in table.columns
        if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type)
        for cell in column.to_pylist()
    ]
    pickled = [value for value in (*metadata, *cells) if value and _PICKLE.match(value)]
    check(not pickled, "plain values", f"a pickled object, {pickled[:1]}")


def as_text(rows: pa.Table) -> str:
    """A small table as text, a row a line, a null as a dash."""
    shown = rows.slice(0, _MOST_ROWS)
    columns = [[name, *map(_cell, shown[name].to_pylist())] for name in shown.column_names]
    widths = [max(map(len, column)) for column in columns]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in zip(*columns, strict=True)
    ]
    if rows.num_rows > _MOST_ROWS:
        lines.append(f"… and {rows.num_rows - _MOST_ROWS} more rows")
    return "\n".join(f"    {line}" for line in lines)


def _model_or_refusal(statistics: Statistics) -> Model | DataError:
    try:
        return finalize(statistics, early=True)
    except DataError as error:
        return error


def _told(outcome: Model | DataError) -> str:
    return "a model" if isinstance(outcome, Model) else f"the refusal {str(outcome)!r}"


def _evidence(trial: Trial, statistics: Statistics) -> float | str:
    try:
        return trial.estimator(statistics).log_evidence(trial.block(statistics))
    except (DataError, NotSupportedError) as error:
        return type(error).__name__


def _is_key(kind: pa.DataType) -> bool:
    return not (pa.types.is_floating(kind) or pa.types.is_nested(kind)) and not isinstance(
        kind, pa.BaseExtensionType
    )


def _in_order(table: pa.Table, keys: Sequence[str]) -> list[dict[str, Any]]:
    """Rows as values, those of equal keys by their other cells."""
    rest = [name for name in table.column_names if name not in keys]

    def key(row: Mapping[str, Any]) -> tuple[Any, ...]:
        return *(str(row[name]) for name in keys), *(_numbers(row[name]) for name in rest)

    return sorted(table.to_pylist(), key=key)


def _numbers(value: Any) -> tuple[float, ...]:
    if isinstance(value, (list, tuple, np.ndarray)):
        return tuple(number for part in value for number in _numbers(part))
    if isinstance(value, Mapping):
        return _numbers(list(value.values()))
    if isinstance(value, (int, float)):
        return (math.inf if math.isnan(value) else float(value),)
    return ()


def _largest(value: Any) -> float:
    return max((abs(number) for number in _numbers(value) if math.isfinite(number)), default=0.0)


def _close(one: Any, other: Any, relative: float, absolute: float) -> bool:
    if isinstance(one, float) and isinstance(other, (int, float)):
        both_nan = math.isnan(one) and math.isnan(other)
        return both_nan or math.isclose(one, other, rel_tol=relative, abs_tol=absolute)
    if isinstance(one, (list, tuple, np.ndarray)) and isinstance(other, (list, tuple, np.ndarray)):
        return len(one) == len(other) and all(
            _close(a, b, relative, absolute) for a, b in zip(one, other, strict=True)
        )
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(
            _close(one[key], other[key], relative, absolute) for key in one
        )
    return bool(one == other)


def _cell(value: Any) -> str:
    return "–" if value is None else repr(value)
