"""Hypothesis strategies for tables that are likely to break an estimator.

A `Column` describes the values of a column; `numbers`, `categories`, `counts` and `words` make the
usual ones. In every table, each column draws one of its moods, such as "all equal" or "far from
zero", so that special cases occur often.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from probclass_core.testing.trial import COUNTS, LABEL, LINE, WEIGHT, Interval, Space

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
