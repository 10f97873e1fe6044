"""The rows of one batch as NumPy arrays: the door through which estimators see a table.

Bins of numbers are looked up in a guide table (Chen and Asau, "On generating random variates from
an empirical distribution", 1974): equal cells on the line, each with the number of cuts before it.
A number's place on the line never falls while numbers rise, rounding included, so its bin begins
with the cuts before its cell, and the few cuts in the cell are compared with the number itself.

Hashes of rows are the same whatever the types that encode the values.
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from probclass_core.arrow import arrays
from probclass_core.arrow.arrays import (
    MISSING,
    Extremes,
    FloatArray,
    IntArray,
    is_numeric_type,
    rounded_integers,
)
from probclass_core.arrow.types import is_category_type

Made = TypeVar("Made")

_CELLS = 4096
"""Cells of a guide table, so that it stays in the processor's cache."""

_OUTLYING = (0, 1, 2, 4, 8)
"""Numbers of cuts at both ends that the cells may leave out, because they may be far away."""

_MOST_IN_A_CELL = 16
"""Up to this many cuts in one cell, the table is faster than a binary search."""

_FEW_IN_A_CELL = 2
"""With so few cuts in a cell, a table is good enough."""

_LEAST_VALUES = 1024
"""Below this number of values, a binary search takes no longer than making a table."""

_BLOCK = 16_384
"""Values that are looked up at once, so that they stay in the processor's cache."""

HashArray = NDArray[np.uint64]

_NULL = np.uint64(0x9E3779B97F4A7C15)

_MULTIPLIERS = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)

_SHIFTS = np.uint64(30), np.uint64(27), np.uint64(31)


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
            arrays.check_columns(self.batch.schema, [name])
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
        if len(self) >= arrays.SHORT:
            return None
        batch = self.batch
        return arrays.short_doubles(
            batch if batch.schema.names == names else batch.select(names), names
        )

    def unchecked(self, name: str) -> FloatArray:
        """`numbers` that may be infinite; `check` refuses these later.

        Raises:
            DataError: if the column is missing or not numeric.
        """
        return self.once(
            name, "unchecked", lambda: arrays.unchecked_values(self.column(name), name)
        )

    def check(self, names: Sequence[str], found: Sequence[Extremes]) -> None:
        """Refuse infinite values of columns whose extremes were found in passing.

        Raises:
            DataError: if there are any.
        """
        for name, ends in zip(names, found, strict=True):
            self._made.setdefault((name, "extremes"), ends)
            arrays.check_finite(name, self.unchecked(name), ends)

    def extremes(self, name: str) -> Extremes:
        """Least and greatest number of a column, NaN if there is none, and the number of NaN."""
        return self.once(name, "extremes", lambda: arrays.extremes(self.unchecked(name)))

    def _checked(self, name: str) -> FloatArray:
        values = self.unchecked(name)
        arrays.check_finite(name, values, self.extremes(name))
        return values

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
        return self.once(name, "categories", lambda: arrays.encoded(self.column(name), name))

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
            bins = bins_of(self.numbers(name), cuts)
            if self.extremes(name)[2]:
                bins[np.isnan(self.numbers(name))] = null
            return bins

        return self.once(name, ("bins", tuple(cuts), null), find)

    def without(self, names: Sequence[str]) -> Rows:
        """The same rows, with null in some columns."""
        nothing = {name: pa.nulls(len(self), self.column(name).type) for name in names}
        schema = self.batch.schema
        columns = [nothing.get(name, self.batch.column(at)) for at, name in enumerate(schema.names)]
        rows = Rows(pa.RecordBatch.from_arrays(columns, schema=schema))
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


def bins_of(values: FloatArray, cuts: Sequence[float]) -> IntArray:
    """Number of cuts that are not above a value: its bin, from 0; any number for NaN: ``(n,)``.

    Args:
        values: ``n`` numbers.
        cuts: ascending.
    """
    guide = _guide(tuple(cuts)) if len(cuts) and len(values) >= _LEAST_VALUES else None
    if guide is None or guide.most > _MOST_IN_A_CELL:
        return np.searchsorted(np.asarray(cuts, np.float64), values, side="right")
    bins = np.empty(len(values), np.intp)
    with np.errstate(over="ignore"):  # numbers may be far from the cells
        for start in range(0, len(values), _BLOCK):
            block = slice(start, start + _BLOCK)
            bins[block] = guide.bins(values[block])
    return bins


@dataclass(frozen=True)
class _Guide:
    """A guide table.

    Attributes:
        low: the number at which the cells begin.
        scale: cells per unit.
        cuts: the cuts, then infinity.
        before: number of cuts before each cell.
        most: largest number of cuts in a cell.
    """

    low: float
    scale: float
    cuts: FloatArray
    before: IntArray
    most: int

    def bins(self, values: FloatArray) -> IntArray:
        """See `bins_of`."""
        bins: IntArray = self.before.take(_cells(values, self.low, self.scale))
        for _ in range(self.most):
            bins += values >= self.cuts.take(bins)
        return bins


@functools.lru_cache(maxsize=1024)
def _guide(cuts: tuple[float, ...]) -> _Guide | None:
    """A table with few cuts in each cell; None if the cuts are too near or too far."""
    best: _Guide | None = None
    for left_out in _OUTLYING[: 1 + len(cuts) // 4]:
        low, high = cuts[left_out], cuts[-1 - left_out]
        scale = (_CELLS - 1) / ((high - low) or 1.0)
        if 0.0 < scale < math.inf:
            occupied = _cells(np.array(cuts), low, scale)
            most = int(np.bincount(occupied).max())
            if best is None or most < best.most:
                before = np.searchsorted(occupied, np.arange(_CELLS))
                best = _Guide(low, scale, np.array([*cuts, math.inf]), before, most)
            if most <= _FEW_IN_A_CELL:
                break
    return best


def _cells(values: FloatArray, low: float, scale: float) -> IntArray:
    """The cell of each number, the first or the last if it is beyond them; NaN in the first."""
    places = values - low
    places *= scale
    np.fmax(places, 0.0, out=places)
    np.fmin(places, _CELLS - 1, out=places)
    return places.astype(np.int32)


def row_hashes(rows: Rows, names: Sequence[str] | None = None, seed: int = 0) -> HashArray:
    """A hash of the values of each row, ``(n,)``: the same whatever the types that encode them.

    Args:
        rows: ``n`` rows.
        names: the columns whose values count; None for all.
        seed: number that the hashes depend on, at least 0 and below 2**64.
    """
    hashes = np.full(len(rows), seed, dtype=np.uint64)
    for name in rows.batch.schema.names if names is None else names:
        hashes = _mix(hashes * _NULL + _hash_values(rows, name))
    return hashes


def _mix(values: HashArray) -> HashArray:
    """The finalizer of SplitMix64 (Steele, Lea and Flood, 2014), a bijection of 64 bits."""
    for shift, multiplier in zip(_SHIFTS, _MULTIPLIERS, strict=False):
        values = (values ^ (values >> shift)) * multiplier
    mixed: HashArray = values ^ (values >> _SHIFTS[-1])
    return mixed


def _hash_values(rows: Rows, name: str) -> HashArray:
    """Hashes of one column: numbers by value, text by its bytes, lists and maps as sets."""
    column = rows.column(name)
    kind = column.type
    if is_numeric_type(kind):
        numbers = rows.numbers(name)
        bits: HashArray = _mix((numbers + 0.0).view(np.uint64))  # −0.0 becomes 0.0
        rounded, integers = rounded_integers(column, numbers)
        bits[rounded] = _mix(integers.view(np.uint64))
        return np.where(np.isnan(numbers), _NULL, bits)
    if is_category_type(kind):
        codes, values = rows.categories(name)
        digests = [hashlib.blake2b(value.encode(), digest_size=8).digest() for value in values]
        table = np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)
        known = codes != MISSING
        hashes = np.full(len(codes), _NULL)
        hashes[known] = table[codes[known]]
        return hashes
    if pa.types.is_map(kind):
        entries = _hash_array(column.keys, name) * _NULL + _hash_array(column.items, name)
        return _hash_sets(column, _mix(entries))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _hash_sets(column, _mix(_hash_array(column.values, name)))
    texts = pa.array([None if value is None else repr(value) for value in column.to_pylist()])
    return _hash_array(texts.cast(pa.string()), name)


def _hash_array(values: pa.Array, name: str) -> HashArray:
    return _hash_values(Rows(pa.record_batch([values], [name])), name)


def _hash_sets(column: pa.Array, entries: HashArray) -> HashArray:
    """Hashes of lists or maps, made of the hashes of their entries in any order."""
    cumulative = np.append(np.uint64(0), np.cumsum(entries, dtype=np.uint64))
    offsets = column.offsets.to_numpy()
    sums = _mix(cumulative[offsets[1:]] - cumulative[offsets[:-1]])
    return np.where(pc.is_null(column).to_numpy(zero_copy_only=False), _NULL, sums)
