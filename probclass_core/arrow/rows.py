"""The rows of one batch as NumPy arrays: the door through which estimators see a table."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from probclass_core.arrow.arrays import (
    SHORT,
    Extremes,
    FloatArray,
    IntArray,
    check_columns,
    check_finite,
    encoded,
    extremes,
    rounded_down,
    short_doubles,
    unchecked_values,
)
from probclass_core.arrow.bins import bins_of

Made = TypeVar("Made")


class Rows:
    """Rows of one batch, each column converted at most once.

    The blocks of a model share the arrays, so they must not be changed. Null and NaN are both NaN.

    Args:
        batch: ``n`` rows with the columns that will be asked for, and maybe others.
        keeps: whether `kept` keeps results, which take memory until the rows are gone.
    """

    def __init__(self, batch: pa.RecordBatch, *, keeps: bool = False) -> None:
        self.batch = batch
        self._keeps = keeps
        self._made: dict[tuple[str, Hashable], Any] = {}

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    def once(self, name: str, what: Hashable, make: Callable[[], Made]) -> Made:
        """The result of ``make()``, or of an earlier call for this column.

        Args:
            name: the column that it depends on.
            what: what it is, and what else it depends on.
            make: makes it.
        """
        key = name, what
        if key not in self._made:
            self._made[key] = make()
        made: Made = self._made[key]
        return made

    def kept(self, what: Hashable, make: Callable[[], Made]) -> Made:
        """The result of ``make()``, or of an earlier call if these rows keep results."""
        return self.once("", what, make) if self._keeps else make()

    def column(self, name: str) -> pa.Array:
        """A column as it is.

        Raises:
            DataError: if it is missing, or not unique.
        """
        place = self.batch.schema.get_field_index(name)
        if place < 0:
            check_columns(self.batch.schema, [name])
        return self.batch.column(place)

    def numbers(self, name: str) -> FloatArray:
        """A column as float64, NaN for null, ``(n,)``; read-only if it shares Arrow's memory.

        Raises:
            DataError: if the column is missing, not numeric, or has an infinite value.
        """
        return self.once(name, "numbers", lambda: self._checked(name))

    def matrix(self, names: Sequence[str]) -> FloatArray:
        """`numbers` of several columns, one contiguous row for each: ``(d, n)``, of the caller.

        Raises:
            DataError: as `numbers`.
        """
        if (together := self.short(names)) is not None:
            return together
        matrix = np.empty((len(names), len(self)))
        for row, name in enumerate(names):
            matrix[row] = self.numbers(name)
        return matrix

    def arrays(self, names: Sequence[str]) -> Sequence[FloatArray]:
        """`numbers` of several columns, ``(n,)`` each; those of few rows are converted together.

        Raises:
            DataError: as `numbers`.
        """
        together = self.short(names)
        return list(map(self.numbers, names)) if together is None else list(together)

    def short(self, names: Sequence[str]) -> FloatArray | None:
        """`matrix` of few rows; None unless all columns are finite float64."""
        if len(self) >= SHORT:
            return None
        batch = self.batch
        return short_doubles(batch if batch.schema.names == names else batch.select(names), names)

    def unchecked(self, name: str) -> FloatArray:
        """`numbers` that may be infinite; `check` refuses these later.

        Raises:
            DataError: if the column is missing or not numeric.
        """
        return self.once(name, "unchecked", lambda: unchecked_values(self.column(name), name))

    def check(self, names: Sequence[str], found: Sequence[Extremes]) -> None:
        """Refuse infinite values of columns whose extremes were found in passing.

        Raises:
            DataError: if there are any.
        """
        for name, ends in zip(names, found, strict=True):
            self._made.setdefault((name, "extremes"), ends)
            check_finite(name, self.unchecked(name), ends)

    def extremes(self, name: str) -> Extremes:
        """Least and greatest number of a column, NaN if there is none, and the number of NaN."""
        return self.once(name, "extremes", lambda: extremes(self.unchecked(name)))

    def _checked(self, name: str) -> FloatArray:
        values = self.unchecked(name)
        check_finite(name, values, self.extremes(name))
        return values

    def rounded_down(self, name: str) -> tuple[FloatArray, float]:
        """`numbers`, with integers that float64 cannot represent rounded down.

        Returns:
            Values ``(n,)``, and the largest distance between neighboring doubles around a value
            that was rounded, a power of two; 0 if all values are exact.

        Raises:
            DataError: as `numbers`.
        """
        make = functools.partial(rounded_down, self.column(name), self.numbers(name))
        return self.once(name, "rounded down", make)

    def categories(self, name: str) -> tuple[NDArray[np.signedinteger[Any]], list[str]]:
        """A column as codes into its distinct values.

        Text, bool, integers, and floats that are whole numbers are categories: 1.0 is the category
        1, because pandas stores integers with nulls as floats.

        Returns:
            Codes ``(n,)``, as narrow integers whose products may overflow, −1 for null; and the
            values as text, in order of appearance. A dictionary column may list values that no row
            has.

        Raises:
            DataError: if the column is missing, or its values are not categories.
        """
        return self.once(name, "categories", lambda: encoded(self.column(name), name))

    def bins(self, name: str, cuts: Sequence[float], null: int) -> IntArray:
        """The number of cuts that are not above each number of a column: its bin, ``(n,)``.

        Args:
            name: the column.
            cuts: ascending.
            null: what stands for a null.

        Raises:
            DataError: as `numbers`.
        """

        def find() -> IntArray:
            bins = bins_of(self.rounded_down(name)[0], cuts)
            if self.extremes(name)[2]:
                bins[np.isnan(self.numbers(name))] = null
            return bins

        return self.once(name, ("bins", tuple(cuts), null), find)

    def without(self, names: Sequence[str]) -> Rows:
        """The same rows, with null in some columns."""
        nothing = {name: pa.nulls(len(self), self.column(name).type) for name in names}
        schema = self.batch.schema
        arrays = [nothing.get(name, self.batch.column(at)) for at, name in enumerate(schema.names)]
        rows = Rows(pa.RecordBatch.from_arrays(arrays, schema=schema))
        rows._made = {key: made for key, made in self._made.items() if key[0] not in nothing}
        return rows

    def take(self, places: IntArray) -> Rows:
        """The rows at some places."""
        return Rows(self.batch.take(pa.array(places)))

    def slice(self, start: int, stop: int) -> Rows:
        """The rows from one place up to another."""
        if (start, stop) == (0, len(self)):
            return self
        return Rows(self.batch.slice(start, stop - start))
