"""Convert Arrow columns to NumPy arrays: chunks, nulls, NaN, infinities, dictionaries.

All arithmetic uses these functions, so float32, integer, nullable, dictionary and chunked columns
give the same results as float64: null and NaN both become NaN, an infinity is an error that names
its column, and a category becomes text.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from probclass_core.arrow.types import (
    has_fixed_size,
    in_safe_types,
    is_category_type,
    is_number_type,
    value_type,
)
from probclass_core.arrow.unreadable import CONVERSION_ERRORS, unreadable
from probclass_core.errors import DataError, nearest, one_of

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]
BoolArray = NDArray[np.bool_]

BATCH_ROWS = 262_144
"""Largest number of rows that are read and scored at once; see `batch_rows`."""

_INDEX = "__index_level_"
"""Beginning of the names of columns in which pandas writes an unnamed index."""

_BATCH_CELLS = 16 * BATCH_ROWS
"""Cells of a batch: 32 MiB of float64."""

_EXACT_INTEGERS = 2.0**53
"""float64 represents all integers up to this one."""

_EXACT_POWERS = 22
"""float64 represents the powers of ten up to this one, so that dividing by them rounds once."""

SHORT = 2048
"""Below this number of rows, the fixed cost of each column is most of the work on its numbers."""

Extremes = tuple[float, float, int]
"""Least and greatest number, NaN if there is none; and how many values are NaN."""

MISSING = -1
"""Code of a null among category codes."""

ONE_CLASS = "all"
"""The class of every row if there is no label."""


def batch_rows(columns: int) -> int:
    """Number of rows to process at once, a power of 2 that is smaller for many columns.

    A batch then takes at most 32 MiB of float64, and its fixed costs are small.

    Args:
        columns: number of columns, or of classes.
    """
    fit = max(_BATCH_CELLS // max(columns, 1), 1024)
    return min(1 << fit.bit_length() - 1, BATCH_ROWS)


def read_rows(schema: pa.Schema) -> int:
    """`batch_rows` for columns of these types; dictionary codes take half the memory."""
    dictionaries = sum(pa.types.is_dictionary(column.type) for column in schema)
    return batch_rows(len(schema) - dictionaries // 2)


def in_slices(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Split batches so that none has more than ``rows`` rows."""
    for batch in batches:
        for start in range(0, batch.num_rows, rows):
            yield batch.slice(start, rows)


def joined(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Join consecutive batches to few, of at most ``rows`` rows, and 32 MiB of values that have no
    fixed size, unless one has more.

    Each batch has fixed costs, which small row groups and filters would multiply.
    """
    pending: list[pa.RecordBatch] = []
    size = count = 0
    for batch in batches:
        more = sum(column.nbytes for column in batch.columns if not has_fixed_size(column.type))
        if pending and (count + batch.num_rows > rows or size + more > 8 * _BATCH_CELLS):
            yield one_batch(pending)
            pending, size, count = [], 0, 0
        pending.append(batch)
        size, count = size + more, count + batch.num_rows
    if pending:
        yield one_batch(pending)


def one_batch(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """The rows of batches of one schema."""
    if len(batches) == 1:
        return batches[0]
    whole = pa.Table.from_batches(batches)
    columns = [column.combine_chunks() for column in whole.columns]
    return pa.RecordBatch.from_arrays(columns, schema=whole.schema)


def as_table(data: Any) -> pa.Table:
    """Convert data in memory to an Arrow table of `safe_types`.

    Args:
        data: a pyarrow Table, RecordBatch or RecordBatchReader, a mapping of columns, any data
            frame with the Arrow PyCapsule interface (pandas, polars, duckdb, …), or a polars
            LazyFrame, which is collected.

    Raises:
        DataError: if it is none of these, Arrow cannot convert its columns, or pandas names them by
            several levels.
    """
    if is_lazy_frame(data):  # first, because looking at its columns would resolve the query
        data = data.collect()
    levels = getattr(getattr(data, "columns", None), "nlevels", 1)
    if levels > 1:
        raise DataError(
            f"the columns have names of {levels} levels, such as {data.columns[0]!r}; flatten "
            'them: frame.columns = ["_".join(map(str, name)) for name in frame.columns].'
        )
    if isinstance(data, pa.Table):
        return in_safe_types(data)
    if isinstance(data, pa.RecordBatch):
        return in_safe_types(pa.Table.from_batches([data]))
    if isinstance(data, pa.RecordBatchReader):
        return in_safe_types(data.read_all())
    if hasattr(data, "__arrow_c_stream__") or isinstance(data, Mapping):
        try:
            return in_safe_types(pa.table(dict(data) if isinstance(data, Mapping) else data))
        except CONVERSION_ERRORS as error:
            raise unreadable(data, error) from error
    raise DataError(
        f"cannot read {type(data).__name__} as a table; pass a pyarrow table, a pandas or polars "
        "DataFrame, or a mapping of columns."
    )


def is_lazy_frame(data: Any) -> bool:
    """Whether data are a LazyFrame of polars, which need not be installed."""
    return type(data).__name__ == "LazyFrame" and type(data).__module__.startswith("polars")


def names_of_columns(schema: pa.Schema) -> list[str]:
    """Names of the columns of a table, without those in which pandas writes an unnamed index."""
    return [name for name in schema.names if not name.startswith(_INDEX)]


def check_columns(schema: pa.Schema, columns: Sequence[str]) -> None:
    """Refuse a table that lacks a column, or has it twice.

    Raises:
        DataError: if a column is missing or not unique.
    """
    occurrences = Counter(schema.names)
    missing = [name for name in columns if name not in occurrences]
    if missing:
        plural = "columns" if len(missing) > 1 else "column"
        hint = nearest(missing[0], schema.names) if len(missing) == 1 else ""
        available = one_of(schema.names)
        raise DataError(f"no {plural} {one_of(missing)}; the table has {available}.{hint}")
    for name in columns:
        if occurrences[name] > 1:
            raise DataError(
                f"the table has {occurrences[name]} columns named {name!r}; rename all but one."
            )


def is_numeric_type(kind: pa.DataType) -> bool:
    """Whether a type converts to float64: bool, numbers, decimals, dictionaries of these, null."""
    kind = value_type(kind)
    return is_number_type(kind) or bool(pa.types.is_boolean(kind) or pa.types.is_null(kind))


def numeric_values(column: pa.Array, name: str) -> FloatArray:
    """A column as ``(n,)`` float64 with NaN for null; read-only if it shares Arrow's memory.

    Args:
        column: numbers of a type with `is_numeric_type`.
        name: name of the column in messages.

    Raises:
        DataError: if the column is not numeric, or contains an infinite value.
    """
    values = unchecked_values(column, name)
    check_finite(name, values, extremes(values))
    return values


def unchecked_values(column: pa.Array, name: str) -> FloatArray:
    """`numeric_values` of a column that `check_finite` checks later.

    Raises:
        DataError: if the column is not numeric.
    """
    if not is_numeric_type(column.type):
        kind = value_type(column.type)
        raise DataError(f"column {name!r} is {kind}, not a number; cast it or re-train.")
    if not pa.types.is_float64(column.type):
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if pa.types.is_decimal128(column.type) and 0 <= column.type.scale <= _EXACT_POWERS:
            return _decimals_as_floats(column)
        if pa.types.is_boolean(column.type):
            column = column.cast(pa.int8())
        column = column.cast(pa.float64(), safe=False)
    if column.null_count:
        column = pc.fill_null(column, np.nan)
    floats: FloatArray = column.to_numpy(zero_copy_only=False)
    return floats


def check_finite(name: str, values: FloatArray, ends: Extremes) -> None:
    """Refuse infinite values.

    Args:
        name: name of the column in messages.
        values: its values, ``(n,)``.
        ends: their `extremes`.

    Raises:
        DataError: if a value is infinite.
    """
    low, high, _ = ends
    if math.isinf(low) or math.isinf(high):
        infinite = int(np.isinf(values).sum())
        raise DataError(
            f"column {name!r} contains {infinite} infinite value{'s' * (infinite > 1)}; "
            "make them null, or drop the rows."
        )


def _decimals_as_floats(column: pa.Array) -> FloatArray:
    """The doubles nearest to decimals, and close ones to those with more digits than a double.

    Arrow multiplies by a rounded power of ten, which often gives a neighbor of the nearest double.
    """
    if not len(column):
        return np.empty(0)  # there may be no buffer
    words = np.frombuffer(column.buffers()[1], np.int64).reshape(-1, 2)
    words = words[column.offset :][: len(column)]
    low, high = words.T
    values: FloatArray = low / 10.0**column.type.scale
    inexact = np.flatnonzero(
        (high != low >> 63) | (low < -_EXACT_INTEGERS) | (low > _EXACT_INTEGERS)
    )
    if len(inexact):
        some = column.take(pa.array(inexact)).cast(pa.float64(), safe=False)
        values[inexact] = some.to_numpy(zero_copy_only=False)
    if column.null_count:
        values[column.is_null().to_numpy(zero_copy_only=False)] = np.nan
    return values


def extremes(values: np.ndarray) -> Extremes:
    """Least and greatest number, NaN if there is none; and how many values are NaN."""
    if not values.size:
        return math.nan, math.nan, 0
    low, high = np.minimum.reduce(values), np.maximum.reduce(values)
    if low == low:
        return float(low), float(high), 0
    missing = int(np.count_nonzero(np.isnan(values)))
    return float(np.fmin.reduce(values)), float(np.fmax.reduce(values)), missing


def rounded_integers(column: pa.Array, values: FloatArray) -> tuple[IntArray, np.ndarray]:
    """Integers of a column that float64 cannot represent.

    Args:
        column: a column of numbers.
        values: its values as float64, rounded to the nearest, ``(n,)``.

    Returns:
        The rows of these integers, and the integers themselves as int64 or uint64.
    """
    if not pa.types.is_integer(value_type(column.type)):
        return np.empty(0, dtype=np.intp), np.empty(0, dtype=np.int64)
    large = np.flatnonzero(np.abs(values) >= _EXACT_INTEGERS)
    if not len(large):
        return large, np.empty(0, dtype=np.int64)
    column = column.take(pa.array(large))
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    exact = column.to_numpy(zero_copy_only=False)
    near = values[large]
    over = near >= _limit(exact)
    inexact = over | (np.where(over, 0.0, near).astype(exact.dtype) != exact)
    return large[inexact], exact[inexact]


def _limit(integers: np.ndarray) -> float:
    """The least double above all integers of this type."""
    return 2.0 ** (63 if integers.dtype.kind == "i" else 64)


def short_doubles(batch: pa.RecordBatch, columns: Sequence[str]) -> FloatArray | None:
    """A short batch of these columns as ``(d, n)``; None unless all are finite float64."""
    if not 0 < batch.num_rows < SHORT or not columns:
        return None
    if not batch.schema.equals(_doubles(tuple(columns))):
        return None
    matrix: FloatArray = batch.to_tensor(null_to_nan=True, row_major=False).to_numpy().T
    return None if np.isinf(matrix).any() else matrix


@functools.lru_cache
def _doubles(columns: tuple[str, ...]) -> pa.Schema:
    return pa.schema([(name, pa.float64()) for name in columns])


def missing_patterns(matrix: FloatArray) -> Iterator[tuple[BoolArray, IntArray | slice]]:
    """Group the columns of a ``(d, n)`` matrix, one per row of data, by their observed features.

    Yields:
        ``(observed, rows)``: a ``(d,)`` mask, and the positions of the rows of data that share it.
        Without any NaN there is one group of all rows.
    """
    missing = np.isnan(matrix)
    if not missing.any():
        yield np.ones(len(matrix), dtype=bool), slice(None)
        return
    packed = np.ascontiguousarray(np.packbits(missing, axis=0).T)
    keys = packed.view(np.dtype((np.void, packed.shape[1]))).ravel()
    _, first, group, counts = np.unique(
        keys, return_index=True, return_inverse=True, return_counts=True
    )
    groups = np.split(np.argsort(group, kind="stable"), np.cumsum(counts)[:-1])
    for row, rows in zip(first, groups, strict=True):
        yield ~missing[:, row], rows


def add_looked_up(total: FloatArray, table: FloatArray, codes: IntArray) -> None:
    """Add ``table[:, codes]`` to ``total``, several times faster than by indexing.

    Args:
        total: ``(k, n)``, changed in place.
        table: ``(k, m)``.
        codes: ``(n,)``, from −1, the last column of the table, to ``m − 1``.
    """
    found = np.empty(len(codes))
    for row, entries in zip(total, table, strict=True):
        row += np.take(entries, codes, out=found, mode="wrap")


def encoded(
    column: pa.Array, name: str | None = None
) -> tuple[NDArray[np.signedinteger[Any]], list[str]]:
    """A column as codes into its distinct values.

    Args:
        column: text, bool, integers, or floats that are whole numbers, NaN or null: 1.0 is the
            category 1, because pandas stores integers with nulls as floats.
        name: name of the column, for messages.

    Returns:
        Codes ``(n,)``, as narrow integers whose products may overflow, `MISSING` for null; and the
        values as text, in order of appearance. A dictionary column may list values that no row
        has.

    Raises:
        DataError: if the column's values are not categories.
    """
    where = "" if name is None else f"column {name!r}: "
    if pa.types.is_floating(value_type(column.type)):
        column = whole_numbers(column, where)
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    column = _compact_dictionary(column)
    indices = column.indices
    if indices.null_count or not pa.types.is_signed_integer(indices.type):
        indices = pc.fill_null(indices.cast(pa.int64()), MISSING)
    codes = indices.to_numpy(zero_copy_only=False)
    values = category_values(column.dictionary, where)
    if None in values:
        null = values.index(None)
        codes = np.where(codes == null, MISSING, codes)
    return codes, ["" if value is None else value for value in values]


def _compact_dictionary(column: pa.DictionaryArray) -> pa.DictionaryArray:
    """The column with the values that it uses, if its dictionary is longer than the column.

    Batches may share the dictionary of a whole row group, which each of them would convert again.
    """
    if len(column.dictionary) <= len(column):
        return column
    return column.dictionary_decode().dictionary_encode()


def category_values(values: pa.Array, where: str = "") -> list[str | None]:
    """Values as the text of categories (see `spec.category_text`), with None for null.

    Args:
        values: the values.
        where: beginning of a message.

    Raises:
        DataError: if the values are not categories.
    """
    if pa.types.is_floating(values.type):
        values = whole_numbers(values, where)
    if not is_category_type(values.type):
        raise DataError(
            f"{where}{values.type} values are not categories (text, bool or integer); cast the "
            "column."
        )
    texts: list[str | None] = values.cast(pa.string()).to_pylist()
    return texts


def whole_numbers(column: pa.Array | pa.ChunkedArray, where: str) -> pa.Array | pa.ChunkedArray:
    """Floats as int64, NaN as null: pandas stores integers with nulls as floats.

    Args:
        column: floats, dictionary-encoded or not.
        where: beginning of a message.

    Raises:
        DataError: if a value is not a whole number, or is beyond int64.
    """
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    numbers = column.cast(pa.float64())
    numbers = pc.if_else(pc.is_nan(numbers), pa.scalar(None, pa.float64()), numbers)
    try:
        return numbers.cast(pa.int64())
    except pa.ArrowInvalid as error:
        other = pc.not_equal(numbers, pc.trunc(numbers))
        example = f", such as {numbers.filter(other)[0]}," if pc.any(other).as_py() else ""
        raise DataError(
            f"{where}{column.type} values{example} are not categories (text, bool or integer); "
            "cast the column, or cut it into bins."
        ) from error


def as_recorded(column: pa.Array, recorded: pa.Field) -> pa.Array:
    """A column with bools where training had bools, and with 0 and 1 where it had numbers.

    Categories are compared as text, and ``true`` is not ``1``.

    Args:
        column: values of any type.
        recorded: the column in training, of bools or numbers.

    Raises:
        DataError: if training had bools, and a number is neither 0 nor 1.
    """
    is_bool = pa.types.is_boolean(column.type)
    if is_bool == pa.types.is_boolean(recorded.type):
        return column
    if is_bool:
        return column.cast(recorded.type)
    if not is_number_type(value_type(column.type)):
        return column
    where = f"column {recorded.name!r}"
    whole = whole_numbers(column, f"{where}: ")
    other = pc.invert(pc.is_in(whole, pa.array([0, 1, None])))
    if pc.any(other).as_py():
        raise DataError(
            f"{where} was bool in training, and {whole.filter(other)[0]} is neither 0 nor 1."
        )
    return whole.cast(pa.bool_())


def class_labels(batch: pa.RecordBatch, label: str | None) -> pa.DictionaryArray:
    """The label column as a dictionary array of string, bool or int64 classes; nulls stay null.

    Without a label, all rows are of `ONE_CLASS`.

    Raises:
        DataError: if the column is missing, or its type does not fit classes.
    """
    if label is None:
        codes = pa.array(np.zeros(batch.num_rows, np.int32))
        return pa.DictionaryArray.from_arrays(codes, [ONE_CLASS])
    column = batch.column(label)
    kind = value_type(column.type)
    if pa.types.is_floating(kind):
        with suppress(DataError):
            column, kind = whole_numbers(column, ""), pa.int64()
    if not is_category_type(kind):
        distinct = 0
        with suppress(pa.ArrowNotImplementedError):  # for types whose values Arrow cannot count
            distinct = len(pc.unique(column.drop_null()))
        counted = f" and has {distinct} distinct values in {len(column)} rows" if distinct else ""
        raise DataError(
            f"label {label!r} is {kind}{counted}; a class is text, bool or integer: "
            "cast the column, or bin it into classes first."
        )
    if pa.types.is_dictionary(column.type) and column.dictionary.null_count:
        column = column.dictionary_decode()  # nulls may be among the values, not the codes
    target = class_type(kind)
    try:
        if not pa.types.is_dictionary(column.type):
            return column.cast(target).dictionary_encode()
        column = _compact_dictionary(column)
        if column.type.value_type == target:
            return column
        return pa.DictionaryArray.from_arrays(column.indices, column.dictionary.cast(target))
    except pa.ArrowInvalid as error:
        raise DataError(
            f"label {label!r} is {column.type} with a value beyond int64; cast it to text."
        ) from error


def type_of_classes(schema: pa.Schema, label: str | None) -> pa.DataType:
    """The type of `class_labels` of a table with this schema."""
    return pa.string() if label is None else class_type(value_type(schema.field(label).type))


def class_type(kind: pa.DataType) -> pa.DataType:
    """The type that classes of this label type are stored as: string, bool or int64."""
    if pa.types.is_boolean(kind):
        return pa.bool_()
    whole = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    return pa.int64() if whole else pa.string()


def weight_vector(batch: pa.RecordBatch, name: str) -> FloatArray:
    """Sample weights ``(n,)``, finite and not negative.

    Raises:
        DataError: if a weight is null, NaN, infinite or negative.
    """
    weights = numeric_values(batch.column(name), name)
    invalid = ~(weights >= 0.0)
    if invalid.any():
        raise DataError(
            f"weight {name!r} is negative or null in {int(invalid.sum())} rows; "
            "weights must be numbers of at least 0."
        )
    return weights


@dataclass(frozen=True)
class ByClass:
    """The rows of a batch, grouped by class.

    Attributes:
        labels: the ``g`` classes that have rows in the batch, ascending.
        order: positions of the rows sorted by class, in their original order within it, ``(n,)``.
        starts: start of each class in ``order``, ``(g,)``.
        counts: number of rows of each class, ``(g,)``.
    """

    labels: pa.Array
    order: IntArray
    starts: IntArray
    counts: IntArray

    @classmethod
    def group(cls, classes: pa.DictionaryArray) -> ByClass:
        """Group rows by their labels, none of which may be null."""
        codes = classes.indices.to_numpy(zero_copy_only=False)
        ascending = pc.sort_indices(classes.dictionary).to_numpy()
        # For small unsigned integers NumPy's stable sort is a radix sort, which takes linear time.
        rank = np.argsort(ascending).astype(np.min_scalar_type(max(len(ascending) - 1, 0)))
        order = np.argsort(rank[codes], kind="stable")
        counts = np.bincount(codes, minlength=len(ascending))[ascending]
        present = np.flatnonzero(counts)
        counts = counts[present]
        starts = np.cumsum(counts) - counts
        labels = classes.dictionary.take(pa.array(ascending[present]))
        return cls(labels, order, starts, counts)

    @property
    def slices(self) -> list[slice]:
        """One slice of ``order`` per class."""
        ends = self.starts + self.counts
        return [slice(start, end) for start, end in zip(self.starts, ends, strict=True)]


def distinct(numbers: np.ndarray) -> tuple[np.ndarray, IntArray]:
    """Distinct numbers, ascending, and the place of each number among them, ``(n,)``.

    It is by hashing, which takes less time than to sort all numbers, as `numpy.unique` does.
    """
    encoded = pa.array(numbers).dictionary_encode()
    found = encoded.dictionary.to_numpy()
    order = np.argsort(found)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return found[order], rank[encoded.indices.to_numpy()]


def label_codes(labels: pa.Array | pa.ChunkedArray, classes: pa.Array) -> IntArray:
    """Positions of labels in ``classes``, ``(n,)``; `MISSING` for labels not among them.

    Args:
        labels: ``n`` labels, of the type of the classes.
        classes: the classes, each once.
    """
    if isinstance(labels, pa.ChunkedArray):
        labels = labels.combine_chunks()
    if pa.types.is_dictionary(labels.type):
        labels = labels.dictionary_decode()
    if labels.type != classes.type:
        labels = labels.cast(classes.type)
    positions = pc.index_in(labels, value_set=classes)
    if positions.null_count:
        positions = pc.fill_null(positions, MISSING)
    codes: IntArray = positions.to_numpy(zero_copy_only=False)
    return codes.astype(np.intp, copy=False)


def sorted_classes(labels: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The distinct labels in ascending order, which is the class order of every result."""
    distinct = pc.unique(labels)
    return distinct.take(pc.sort_indices(distinct))
