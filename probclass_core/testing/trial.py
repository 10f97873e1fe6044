"""How a law is tried: an estimator on trial, the decorator of laws, and comparisons of results.

Messages show how a law was broken: the first difference, and the rows.
"""

from __future__ import annotations

import functools
import inspect
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from probclass_core.arrow.arrays import label_codes
from probclass_core.arrow.bundle import from_ipc
from probclass_core.arrow.rows import Rows
from probclass_core.errors import DataError, NotSupportedError, SpecError
from probclass_core.estimation import tidy
from probclass_core.estimation.contract import Estimator, Likelihood
from probclass_core.estimation.statistics import Statistics, bind
from probclass_core.model.finalize import finalize
from probclass_core.model.model import Model
from probclass_core.pipeline.training import fit, summarize
from probclass_core.plugins.manager import trying
from probclass_core.spec.model_spec import Block, ModelSpec

LABEL, WEIGHT = "(label)", "(weight)"
"""Names of the columns that tables have in addition to the features."""

COUNTS = "counts"
"""The space of a column of whole numbers from 0."""

Outcomes = Callable[[Model], pa.Table | None]
"""From a fitted model to rows whose probabilities add up to 1; None if they need not."""

Law = Callable[..., None]
"""``law(trial, table=…)``: takes some of ``table``, ``parts`` and ``rows`` by keyword."""

Equations = Iterator[tuple[Any, ...]]
"""Expected and actual results that are equal; and the rows that they are of, unless these are all
rows that the law was given to train on."""

_MOST_ROWS = 30

_PICKLE = re.compile(rb"\x80[\x02-\x05].*\.\Z", re.DOTALL)


class Interval(NamedTuple):
    """The space of a column of real numbers: its density is integrated from ``low`` to ``high``.

    The likelihood of one of ``atoms`` is a probability, which is added to the integral.
    """

    low: float = -math.inf
    high: float = math.inf
    atoms: tuple[float, ...] = ()


LINE = Interval()

Space = Interval | str | None
"""What the probabilities of a column add up to 1 over; None for the values that training saw."""


@dataclass(frozen=True)
class Trial:
    """An estimator with the columns and options of one block, in a model with no other block.

    Attributes:
        estimator: class of the estimator, which need not be installed.
        columns: columns of the block.
        options: options of the block.
        given: columns that the block is given.
        spaces: what the probabilities of each column add up to 1 over, see `Space`; the laws of
            totals ignore numeric columns without a space.
        outcomes: rows whose probabilities add up to 1, in place of ``spaces``; see `Outcomes`.
        tolerance: largest difference of equal results: for log-likelihoods relative, or absolute in
            nats; for parameters relative to the largest value in the column.
    """

    estimator: type[Estimator]
    columns: Sequence[str]
    options: Mapping[str, Any] = field(default_factory=dict)
    tolerance: float = 1e-6
    given: Sequence[str] = ()
    spaces: Mapping[str, Space] = field(default_factory=dict)
    outcomes: Outcomes | None = None

    @property
    def inputs(self) -> tuple[str, ...]:
        """The columns that the block reads: those that it models, then those given."""
        return (*self.columns, *self.given)

    @property
    def kind(self) -> Any:
        """The class of the estimator, or of its conditional if the block has given columns."""
        with trying(self.estimator):
            return self.spec().blocks[0].estimator_class

    def spec(self, *, weighted: bool = False) -> ModelSpec:
        """The spec of a model with this block."""
        name = self.estimator.name
        block = Block(name, self.columns, name, given=self.given, **self.options)
        return ModelSpec(LABEL, [block], weight=WEIGHT if weighted else None)

    def summarize(self, source: Any, *, weighted: bool = False) -> Statistics:
        """Statistics of the rows; weights are ignored unless ``weighted``."""
        return summarize(source, self.spec(weighted=weighted))

    def summarize_each(self, parts: Sequence[pa.Table]) -> list[Statistics]:
        """Statistics of each part."""
        return [self.summarize(part) for part in parts]

    def fit(self, source: Any, *, workers: int = 1) -> Model:
        """A model fitted to the rows."""
        return fit(source, self.spec(), workers=workers)

    def can_fit(self, table: pa.Table) -> bool:
        """Whether a model can be fitted: an estimator may refuse a feature without values."""
        with trying(self.estimator):
            try:
                self.fit(table)
            except DataError:
                return False
            return True

    def without(self, column: str) -> Trial | None:
        """The trial without a column, or None if it is the only one or an option needs it."""
        others = [name for name in self.columns if name != column]
        smaller = replace(self, columns=others)
        try:
            bind(smaller.spec(), pa.schema([(name, pa.null()) for name in smaller.inputs]))
        except SpecError:
            return None
        return smaller

    def bound(self, statistics: Statistics | Model) -> Estimator:
        """A new estimator, constructed as in training."""
        return bind(self.spec(), statistics.features)[self.estimator.name]

    def block(self, statistics: Statistics) -> pa.Table:
        """The estimator's table of statistics."""
        return statistics.blocks[self.estimator.name]

    def with_block(self, statistics: Statistics, table: pa.Table) -> Statistics:
        """The statistics with another table of the estimator."""
        return replace(statistics, tables={**statistics.tables, self.estimator.name: table})

    def models_nulls(self, source: Statistics | Model) -> bool:
        """Whether null is a value of the block, so that law 5 does not apply."""
        return self.bound(source).models_nulls

    def likelihood(self, model: Model) -> Likelihood:
        """The compiled likelihood of a model."""
        return model.likelihoods[self.estimator.name]

    def log_likelihood(self, model: Model, rows: pa.Table) -> np.ndarray:
        """log p(x | class) of every row, ``(n, k)``."""
        return model.log_likelihood_by_block(rows)[:, :, 0]

    def rows(self, table: pa.Table) -> Rows:
        """The block's columns of a table."""
        table = table.select(list(self.inputs)).combine_chunks()
        batches = table.to_batches()
        return Rows(batches[0] if batches else pa.RecordBatch.from_pylist([], table.schema))


def labeled_rows(trial: Trial, table: pa.Table) -> tuple[Rows, pa.DictionaryArray]:
    """Features and labels of the labeled rows, as training passes them to the estimator."""
    table = table.filter(table[LABEL].is_valid()).combine_chunks()
    return trial.rows(table), table[LABEL].combine_chunks().dictionary_encode()


def rows_of_class(table: pa.Table, label: Any) -> pa.Table:
    """The rows of one class."""
    return table.filter(pa.array(label_codes(table[LABEL], pa.array([label])) == 0))


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


def check(good: bool, expected: object, actual: object) -> None:
    """Raise an AssertionError that shows both results, unless ``good``."""
    if not good:
        raise AssertionError(f"expected: {expected}\n     got: {actual}")


def check_equal(trial: Trial, expected: Any, actual: Any, rows: pa.Table) -> None:
    """Check that two results are equal, except for rounding.

    Two statistics are equal if they give equal classes, parameters, log-likelihoods and evidence.
    Their tables may differ in the order of their rows, in their last digits, or because the merge
    is a documented approximation.

    Args:
        trial: the estimator.
        expected: statistics, a model, a table of parameters, log-likelihoods ``(n, k)``, or an
            Arrow file or plain value, which must be the same.
        actual: a result of the same kind.
        rows: rows that log-likelihoods are of, or are compared on.

    Raises:
        AssertionError: if they differ; shows the first difference.
    """
    if isinstance(expected, Statistics):
        _same_statistics(trial, expected, actual, rows)
    elif isinstance(expected, Model):
        _same_models(trial, expected, actual, rows)
    elif isinstance(expected, pa.Table):
        _same_parameters(trial, expected, actual)
    elif isinstance(expected, np.ndarray):
        _same_likelihoods(trial, expected, actual, rows)
    elif isinstance(expected, bytes):
        shown = (f"the table\n{as_text(from_ipc(data))}" for data in (expected, actual))
        check(expected == actual, *shown)
    else:
        check(expected == actual, expected, actual)


def _same_statistics(
    trial: Trial, expected: Statistics, actual: Statistics, rows: pa.Table
) -> None:
    counts = [part.classes.select(["class", "count"]).to_pylist() for part in (expected, actual)]
    check(counts[0] == counts[1], f"classes {counts[0]}", f"classes {counts[1]}")
    first, second = (_model_or_error(part) for part in (expected, actual))
    if isinstance(first, Model) and isinstance(second, Model):
        _same_models(trial, first, second, rows)
    else:
        check(type(first) is type(second), f"the result {first}", f"the result {second}")
    if trial.kind.has_evidence() and expected.blocks and actual.blocks:
        evidence = _evidence(trial, expected), _evidence(trial, actual)
        good = np.allclose(*evidence, rtol=trial.tolerance, atol=trial.tolerance, equal_nan=True)
        check(good, *(f"log evidence {of_part}" for of_part in evidence))


def _same_models(trial: Trial, expected: Model, actual: Model, rows: pa.Table) -> None:
    name = trial.estimator.name
    _same_parameters(trial, expected.parameters[name], actual.parameters[name])
    if rows.num_rows:
        left, right = (trial.log_likelihood(model, rows) for model in (expected, actual))
        _same_likelihoods(trial, left, right, rows)


def _same_parameters(trial: Trial, expected: pa.Table, actual: pa.Table) -> None:
    """Check that two tables have equal rows in any order."""
    columns = expected.column_names
    check(columns == actual.column_names, f"columns {columns}", f"columns {actual.column_names}")
    tables = f"parameters\n{as_text(expected)}", f"parameters\n{as_text(actual)}"
    check(len(expected) == len(actual), *tables)
    expected, actual = tidy.sorted_by_keys(expected), tidy.sorted_by_keys(actual)
    keys = tidy.keys_of(expected)
    for name in columns:
        row = tidy.differing_row(expected[name], actual[name], trial.tolerance)
        if row is not None:
            place = ", ".join(f"{key} {expected[key][row].as_py()!r}" for key in keys)
            own, other = (table[name][row].as_py() for table in (expected, actual))
            check(False, f"parameter {name!r} of {place} is {own!r}", f"it is {other!r}")


def _same_likelihoods(
    trial: Trial, expected: np.ndarray, actual: np.ndarray, rows: pa.Table
) -> None:
    shapes = [f"log-likelihoods of shape {values.shape}" for values in (expected, actual)]
    check(expected.shape == actual.shape, *shapes)
    differs = ~np.isclose(
        actual, expected, rtol=trial.tolerance, atol=trial.tolerance, equal_nan=True
    )
    for row in np.flatnonzero(differs.any(axis=1))[:1]:
        features = rows.select(list(trial.inputs)).slice(int(row), 1).to_pylist()[0]
        check(
            False,
            f"log-likelihoods {expected[row].tolist()} for the row {features}",
            actual[row].tolist(),
        )


def check_plain(table: pa.Table) -> None:
    """Check that a table contains no pickled objects: reading it must not execute code.

    Raises:
        AssertionError: if a cell, or a value of the schema metadata, is a pickled object.
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
    """A table as text, with one line per row; long tables are cut."""
    lines = [f"    {row}" for row in rows.slice(0, _MOST_ROWS).to_pylist()]
    if rows.num_rows > _MOST_ROWS:
        lines.append(f"… and {rows.num_rows - _MOST_ROWS} more rows")
    return "\n".join(lines)


def _model_or_error(statistics: Statistics) -> Model | str:
    try:
        return finalize(statistics, early=True)
    except DataError as error:
        return f"error: {error}"


def _evidence(trial: Trial, statistics: Statistics) -> float:
    """The log evidence; NaN if these statistics have none."""
    try:
        return trial.bound(statistics).log_evidence(trial.block(statistics))
    except (DataError, NotSupportedError):
        return math.nan
