"""A test class whose subclasses make pytest try every law of the contract, on generated tables.

Example::

    class TestExponential(EstimatorLaws):
        estimator = Exponential
        columns = {"wait": numbers(at_least=0.0), "delay": numbers(at_least=0.0)}

A `Column` describes the values of a column; `numbers`, `categories`, `counts` and `words` make the
usual ones. In every table, each column draws one of its moods, such as "all equal" or "far from
zero", so that special cases occur often.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import hypothesis
import pyarrow as pa
from hypothesis import Phase, Verbosity, assume, settings
from hypothesis import strategies as st

from probclass_core.estimation.contract import Estimator
from probclass_core.plugins.manager import find_conditional
from probclass_core.testing.laws import LAWS_OF_EVIDENCE, evidence_adds_up_over_classes, laws_of
from probclass_core.testing.trial import (
    COUNTS,
    LABEL,
    LINE,
    WEIGHT,
    Interval,
    Law,
    Outcomes,
    Space,
    Trial,
    needs,
)

Cells = st.SearchStrategy[Any]

_MOST_STEPS = 800
"""Numbers are multiples of 1/8, so that their sums are exact, even in float32."""


@dataclass(frozen=True)
class Column:
    """The values that a column may have.

    Attributes:
        type: Arrow type of the column.
        moods: strategies for training values; each table uses one of them.
        far: strategy for values to score, including extreme values and values that training never
            contains.
        space: what the probabilities of a value add up to 1 over; see `trial.Space`.
    """

    type: pa.DataType
    moods: Sequence[Cells]
    far: Cells
    space: Space = None


def numbers(
    at_least: float | None = None, at_most: float | None = None, *, space: Interval = LINE
) -> Column:
    """Numbers within bounds: constant, repeated or spread out, on several scales and offsets.

    Args:
        at_least: smallest number, or None for no bound.
        at_most: largest number, or None for no bound.
        space: numbers over which a density integrates to 1; one period if the column is periodic.
    """
    low = -_MOST_STEPS if at_least is None else int(8 * at_least)
    high = _MOST_STEPS + low if at_most is None else int(8 * at_most)
    middle = (low + high) // 2
    eighths = st.integers(low, high).map(lambda steps: steps / 8)
    few = st.integers(middle, min(middle + 16, high)).map(lambda steps: steps / 8)
    moods = [eighths, eighths, few, st.just(middle / 8)]
    if at_most is None:
        moods += [_scaled(eighths, 2.0**-20), _scaled(eighths, 2.0**300)]
    if at_least is None and at_most is None:
        moods.append(eighths.map(lambda value: value + 1e6))
    edges = [0.0, -0.0, 5e-324, -1e-160, 1.0, -7e3, 1e6, 1e100, -1e154, 1e200, 1.7e308, -1.7e308]
    inside = [edge for edge in edges if _within(edge, at_least, at_most)]
    return Column(pa.float64(), moods, st.sampled_from([*inside, middle / 8]) | eighths, space)


def categories(values: Sequence[str] = ("", "b", "3", "ß"), unseen: str = "never seen") -> Column:
    """Text: always the same value, or any of a few.

    Args:
        values: values in training.
        unseen: a value that only rows to score have.
    """
    constant, any_of = st.just(values[-1]), st.sampled_from(list(values))
    return Column(pa.string(), [constant, any_of, any_of], st.sampled_from([*values, unseen]))


def counts(largest: int = 2**20) -> Column:
    """Counts as float64: all 0, all small, or some of them up to ``largest``."""
    few, many, far = [0, 0, 1, 2, 7], [0, 3, largest], [0, 1, 170, largest]
    usual, wide, outside = (
        st.sampled_from([float(value) for value in values if value <= largest])
        for values in (few, many, far)
    )
    return Column(pa.float64(), [st.just(0.0), usual, usual, wide], outside, COUNTS)


def words(values: Sequence[str] = ("", "b", "3", "ß"), unseen: str = "never seen") -> Column:
    """Lists of words: some are empty, some contain null or repeated words."""
    listed = [
        st.lists(st.sampled_from([*values, *more, None]), max_size=5) for more in ((), [unseen])
    ]
    return Column(pa.list_(pa.string()), listed[:1], listed[1])


def tables(columns: Mapping[str, Column]) -> st.SearchStrategy[pa.Table]:
    """Training rows of two or three classes, with weights of 0 to 3.

    They begin with two complete rows of every class; rows of any class, or without a label, follow,
    and have nulls.

    Args:
        columns: columns by name.
    """
    starts = st.sampled_from([["a", "b"] * 2, ["b", "a", "c"] * 2, ["a", "a", "b", "b"]])
    return starts.flatmap(lambda start: _tables(columns, start))


@st.composite
def parts(draw: st.DrawFn, columns: Mapping[str, Column]) -> list[pa.Table]:
    """Training rows in two to four parts, some of them empty or with a single row."""
    table = draw(tables(columns))
    cuts = st.lists(st.integers(0, table.num_rows), min_size=1, max_size=3)
    edges = [0, *sorted(draw(cuts)), table.num_rows]
    return [table.slice(start, end - start) for start, end in itertools.pairwise(edges)]


@st.composite
def far_rows(draw: st.DrawFn, columns: Mapping[str, Column]) -> pa.Table:
    """Rows to score, with extreme values, values that training never contains, and nulls."""
    size = draw(st.integers(0, 6))
    return pa.table(
        {
            name: _array(draw, column.far | st.none(), size, column.type)
            for name, column in columns.items()
        }
    )


INPUTS: Mapping[str, Callable[[Mapping[str, Column]], st.SearchStrategy[Any]]] = {
    "table": tables,
    "parts": parts,
    "rows": far_rows,
}
"""Strategies for the tables that laws take, by argument name."""


@st.composite
def _tables(draw: st.DrawFn, columns: Mapping[str, Column], start: Sequence[str]) -> pa.Table:
    more = draw(st.lists(st.sampled_from([*start, None]), max_size=8))
    size = len(start) + len(more)
    data = {
        LABEL: pa.array([*start, *more], pa.string()),
        WEIGHT: _array(draw, st.integers(0, 3), size, pa.int64()),
    }
    for name, column in columns.items():
        mood = column.moods[draw(st.integers(0, len(column.moods) - 1))]
        complete = _array(draw, mood, len(start), column.type)
        with_nulls = _array(draw, mood | st.none(), len(more), column.type)
        data[name] = pa.concat_arrays([complete, with_nulls])
    return pa.table(data)


def _array(draw: st.DrawFn, cell: Cells, size: int, kind: pa.DataType) -> pa.Array:
    return pa.array(draw(st.lists(cell, min_size=size, max_size=size)), kind)


def _scaled(cells: Cells, scale: float) -> Cells:
    return cells.map(lambda value: value * scale)


def _within(value: float, at_least: float | None, at_most: float | None) -> bool:
    return (at_least is None or value >= at_least) and (at_most is None or value <= at_most)


if TYPE_CHECKING:
    import pytest


class EstimatorLaws:
    """Tests of one estimator against every law of the contract.

    A subclass whose name begins with ``Test`` sets ``estimator`` and ``columns``. What the class
    declares determines which laws apply. If a law is broken, the message names it and shows the
    smallest rows found that break it.

    Attributes:
        estimator: class of the estimator, which need not be installed.
        columns: columns of the block by name.
        given: columns that the block is given, by name; then the laws are those of the estimator's
            conditional.
        options: alternative options of the block; each example uses one of them.
        declared_prior: options that make the prior proper and independent of the rows, for the laws
            of evidence.
        outcomes: function of a fitted model to rows whose probabilities add up to 1, or to None if
            they need not; for masses whose values are neither counts nor those of training.
        evidence_adds_up: False if classes share a parameter, such as a covariance, so that log
            evidence is not a sum over classes.
        examples: number of tables that each law is tried on, or that of Hypothesis' profile if
            it is smaller.
        tolerance: see `Trial`.
    """

    estimator: ClassVar[type[Estimator]]
    columns: ClassVar[Mapping[str, Column]]
    given: ClassVar[Mapping[str, Column]] = {}
    options: ClassVar[Sequence[Mapping[str, Any]]] = ({},)
    declared_prior: ClassVar[Mapping[str, Any]] = {}
    outcomes: ClassVar[Outcomes | None] = None
    evidence_adds_up: ClassVar[bool] = True
    examples: ClassVar[int] = 15
    tolerance: ClassVar[float] = 1e-6

    @classmethod
    def pytest_generate_tests(cls, metafunc: pytest.Metafunc) -> None:
        """Make one test for each law that applies to the estimator."""
        if "law" in metafunc.fixturenames:
            kind = find_conditional(cls.estimator.name) if cls.given else cls.estimator
            laws = laws_of(kind)
            if not cls.evidence_adds_up:
                laws = [law for law in laws if law is not evidence_adds_up_over_classes]
            metafunc.parametrize("law", laws, ids=[law.__name__ for law in laws])

    def test_law(self, law: Law) -> None:
        """The law is true for every generated table."""
        __tracebackhide__ = True
        try_law(
            law,
            self.estimator,
            self.columns,
            [self.declared_prior] if law in LAWS_OF_EVIDENCE else self.options,
            given=self.given,
            outcomes=type(self).outcomes,
            examples=self.examples,
            tolerance=self.tolerance,
        )


def try_law(
    law: Law,
    estimator: type[Estimator],
    columns: Mapping[str, Column],
    options: Sequence[Mapping[str, Any]] = ({},),
    *,
    given: Mapping[str, Column] = {},
    outcomes: Outcomes | None = None,
    examples: int = 15,
    tolerance: float = 1e-6,
) -> None:
    """Try one law on generated tables; see `EstimatorLaws`.

    Raises:
        AssertionError: if the law is broken; shows the smallest example found.
        hypothesis.errors.Unsatisfiable: if the estimator refuses almost all tables.
    """
    __tracebackhide__ = True
    strategies = {name: INPUTS[name]({**columns, **given}) for name in needs(law)}

    @settings(
        max_examples=min(examples, settings().max_examples),
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        verbosity=Verbosity.quiet,
    )
    @hypothesis.given(
        chosen=st.sampled_from(list(options)), inputs=st.fixed_dictionaries(strategies)
    )
    def try_example(chosen: Mapping[str, Any], inputs: dict[str, Any]) -> None:
        spaces = {name: column.space for name, column in columns.items()}
        trial = Trial(estimator, tuple(columns), chosen, tolerance, tuple(given), spaces, outcomes)
        table = inputs["table"] if "table" in inputs else pa.concat_tables(inputs["parts"])
        assume(trial.can_fit(table))
        law(trial, **inputs)

    try_example()
