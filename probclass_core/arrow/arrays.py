"""The only door from Arrow to NumPy: types, chunks, nulls, NaN, infinities, dictionaries.

Everything that enters arithmetic passes here, so that float32, integer, nullable, dictionary and
chunked columns give what float64 gives: a null and a NaN are one thing (NaN), an infinity is an
error that names its column, a category is text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from probclass_core.arrow.types import in_safe_types, is_category_type, value_type
from probclass_core.errors import DataError, nearest, one_of

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]
BoolArray = NDArray[np.bool_]

BATCH_ROWS = 262_144
"""Rows handled at once, at most: the unit of reading, of scoring, of memory; see `batch_rows`."""

_BATCH_CELLS = 16 * BATCH_ROWS

MISSING = -1
"""Code of a null in a column of category codes."""


def batch_rows(columns: int) -> int:
    """Rows handled at once of so many columns, or classes: fewer where they are many; a power of 2.

    A batch then holds no more than 32 MB of float64, and what it costs beside its rows is little.
    """
    fit = max(_BATCH_CELLS // max(columns, 1), 1024)
    return min(1 << fit.bit_length() - 1, BATCH_ROWS)


def read_rows(schema: pa.Schema) -> int:
    """`batch_rows` of columns with these types; codes of a dictionary take half the room."""
    coded = sum(pa.types.is_dictionary(column.type) for column in schema)
    return batch_rows(len(schema) - coded // 2)


def in_slices(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of at most so many."""
    for batch in batches:
        for start in range(0, batch.num_rows, rows):
            yield batch.slice(start, rows)


def as_table(data: Any) -> pa.Table:
    """Data in memory as an Arrow table.

    Args:
        data: a pyarrow Table, RecordBatch or RecordBatchReader, a mapping of columns, or any frame
            that speaks the Arrow PyCapsule interface (pandas, polars, duckdb, …).

    Raises:
        DataError: it is none of these, or its columns are no columns of Arrow.
    """
    if isinstance(data, pa.Table):
        return in_safe_types(data)
    if isinstance(data, pa.RecordBatch):
        return in_safe_types(pa.Table.from_batches([data]))
    if isinstance(data, pa.RecordBatchReader):
        return in_safe_types(data.read_all())
    if hasattr(data, "__arrow_c_stream__") or isinstance(data, Mapping):
        try:
            return in_safe_types(pa.table(dict(data) if isinstance(data, Mapping) else data))
        except (pa.ArrowException, TypeError, ValueError) as error:
            reason = " ".join(" ".join(str(part) for part in error.args).split())
            raise DataError(
                f"cannot read {type(data).__name__} as a table: {reason}; give every column one "
                "type and all of them one length."
            ) from error
    raise DataError(
        f"cannot read {type(data).__name__} as a table; give a pyarrow table, a pandas or polars "
        "DataFrame, or a mapping of columns."
    )


def select(batch: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
    """The named columns of a batch.

    Raises:
        DataError: one is missing, or its name stands in the batch twice.
    """
    check_columns(batch.schema, columns)
    return batch.select(list(columns))


def check_columns(schema: pa.Schema, columns: Sequence[str]) -> None:
    """Refuse a table that lacks a column, or has it twice.

    Raises:
        DataError: naming the columns and what there is instead.
    """
    held = Counter(schema.names)
    missing = [name for name in columns if name not in held]
    if missing:
        plural = "columns" if len(missing) > 1 else "column"
        hint = nearest(missing[0], schema.names) if len(missing) == 1 else ""
        there = one_of(schema.names)
        raise DataError(f"no {plural} {one_of(missing)}; the table has {there}.{hint}")
    for name in columns:
        if held[name] > 1:
            raise DataError(f"column {name!r} stands in the table twice; rename one of them.")


def is_numeric_type(kind: pa.DataType) -> bool:
    """Types that become float64: bool, integers, floats, decimals, dictionaries of these, null."""
    kind = value_type(kind)
    return bool(
        pa.types.is_boolean(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_null(kind)
    )


def numeric_column(batch: pa.RecordBatch, name: str) -> FloatArray:
    """One column as ``(n,)`` float64, null as NaN; read-only where it is Arrow's own memory.

    Raises:
        DataError: the column is missing, not numeric, or holds an infinite value.
    """
    return numeric_values(batch.column(name), name)


def numeric_values(column: pa.Array, name: str) -> FloatArray:
    """The same of an array, which messages call the column ``name``."""
    if not is_numeric_type(column.type):
        raise DataError(f"column {name!r} is {column.type}, not a number; cast it or re-train.")
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if not pa.types.is_float64(column.type):
        if pa.types.is_boolean(column.type):
            column = column.cast(pa.int8())
        column = column.cast(pa.float64(), safe=False)
    if column.null_count:
        column = pc.fill_null(column, np.nan)
    values: FloatArray = column.to_numpy(zero_copy_only=False)
    # One sum finds both NaN and infinity; only a column that has either is looked at again.
    with np.errstate(invalid="ignore", over="ignore"):
        total = values.sum()
    if not np.isfinite(total):
        infinite = int(np.isinf(values).sum())
        if infinite:
            raise DataError(
                f"column {name!r} holds {infinite} infinite value{'s' * (infinite > 1)}; "
                "make them null, or drop the rows."
            )
    return values


def numeric_matrix(batch: pa.RecordBatch, columns: Sequence[str]) -> FloatArray:
    """Columns as a ``(d, n)`` float64 array, one contiguous row per feature, null as NaN.

    Raises:
        DataError: as `numeric_column`.
    """
    matrix = np.empty((len(columns), batch.num_rows))
    for row, name in enumerate(columns):
        matrix[row] = numeric_column(batch, name)
    return matrix


def missing_patterns(matrix: FloatArray) -> Iterator[tuple[BoolArray, IntArray | slice]]:
    """Group the rows of a ``(d, n)`` matrix by which features are observed.

    Yields:
        ``(observed, rows)``: a ``(d,)`` mask and the positions of the rows that share it. A matrix
        without NaN is one group of all rows.
    """
    missing = np.isnan(matrix)
    if not missing.any():
        yield np.ones(len(matrix), dtype=bool), slice(None)
        return
    packed = np.ascontiguousarray(np.packbits(missing, axis=0).T)
    keys = packed.view(np.dtype((np.void, packed.shape[1]))).ravel()
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    for number, row in enumerate(first):
        yield ~missing[:, row], np.flatnonzero(group == number)


def category_codes(column: pa.Array) -> tuple[IntArray, list[str]]:
    """A column as codes into its own distinct values.

    Returns:
        codes ``(n,)``, `MISSING` for null, and the values as text, in order of appearance. A
        dictionary column may list values that no row has.

    Raises:
        DataError: the type does not hold categories.
    """
    codes, values = short_codes(column)
    return codes.astype(np.intp, copy=False), values


def short_codes(column: pa.Array) -> tuple[NDArray[np.signedinteger[Any]], list[str]]:
    """`category_codes` as short as they stand in the column, to be counted and not multiplied."""
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    column = _own_dictionary(column)
    indices = column.indices
    if indices.null_count or not pa.types.is_signed_integer(indices.type):
        indices = pc.fill_null(indices.cast(pa.int64()), MISSING)
    codes = indices.to_numpy(zero_copy_only=False)
    values = category_values(column.dictionary)
    if None in values:
        null = values.index(None)
        codes = np.where(codes == null, MISSING, codes)
    return codes, ["" if value is None else value for value in values]


def _own_dictionary(column: pa.DictionaryArray) -> pa.DictionaryArray:
    """The column, without the values of a dictionary that is longer than itself.

    A batch may share the dictionary of a whole row group, which would be gone through once a batch.
    """
    if len(column.dictionary) <= len(column):
        return column
    return column.dictionary_decode().dictionary_encode()


def category_values(values: pa.Array) -> list[str | None]:
    """Values as the one spelling of categories (see `spec.category_text`): text, null as None.

    Raises:
        DataError: the type does not hold categories.
    """
    if not is_category_type(values.type):
        raise DataError(
            f"{values.type} values are not categories (text, bool or integer); cast the column."
        )
    texts: list[str | None] = values.cast(pa.string()).to_pylist()
    return texts


def class_labels(batch: pa.RecordBatch, label: str) -> pa.DictionaryArray:
    """The label column as a dictionary array of string, bool or int64 classes, nulls kept.

    Raises:
        DataError: the column is missing or of a type that does not hold classes; for numbers the
            message counts the distinct values.
    """
    column = batch.column(label)
    kind = value_type(column.type)
    if not is_category_type(kind):
        distinct = 0
        with suppress(pa.ArrowNotImplementedError):  # of types that nobody can count the values of
            distinct = len(pc.unique(column.drop_null()))
        counted = f" and has {distinct} distinct values in {len(column)} rows" if distinct else ""
        raise DataError(
            f"label {label!r} is {column.type}{counted}; a class is text, bool or integer: "
            "cast the column, or cut it into classes first."
        )
    if pa.types.is_dictionary(column.type) and column.dictionary.null_count:
        column = column.dictionary_decode()  # a null may hide among the values, too
    target = class_type(kind)
    try:
        if not pa.types.is_dictionary(column.type):
            return column.cast(target).dictionary_encode()
        column = _own_dictionary(column)
        if column.type.value_type == target:
            return column
        return pa.DictionaryArray.from_arrays(column.indices, column.dictionary.cast(target))
    except pa.ArrowInvalid as error:
        raise DataError(
            f"label {label!r} is {column.type} and holds a value beyond int64; cast it to text."
        ) from error


def class_type(kind: pa.DataType) -> pa.DataType:
    """The type a class is stored in: string, bool or int64."""
    if pa.types.is_boolean(kind):
        return pa.bool_()
    return pa.int64() if pa.types.is_integer(kind) else pa.string()


def weight_vector(batch: pa.RecordBatch, name: str) -> FloatArray:
    """Sample weights ``(n,)``: finite and not negative.

    Raises:
        DataError: a weight is null, NaN, infinite or negative.
    """
    weights = numeric_column(batch, name)
    bad = ~(weights >= 0.0)
    if bad.any():
        raise DataError(
            f"weight {name!r} is negative or null in {int(bad.sum())} rows; "
            "a weight is a number of at least 0."
        )
    return weights


@dataclass(frozen=True)
class ByClass:
    """The rows of a batch, gathered by class.

    Attributes:
        labels: the ``g`` classes that have rows here, in order of their codes.
        order: positions of the rows, sorted by class and stable within it, ``(n,)``.
        starts: where each class begins in ``order``, ``(g,)``.
        counts: rows of each class, ``(g,)``.
    """

    labels: pa.Array
    order: IntArray
    starts: IntArray
    counts: IntArray

    @classmethod
    def of(cls, classes: pa.DictionaryArray) -> ByClass:
        """Group by a dictionary array of labels; none may be null."""
        codes = classes.indices.to_numpy(zero_copy_only=False)
        # Small unsigned codes make NumPy's stable sort a radix sort: linear time.
        width = np.min_scalar_type(max(len(classes.dictionary) - 1, 0))
        order = np.argsort(codes.astype(width, copy=False), kind="stable")
        counts = np.bincount(codes, minlength=len(classes.dictionary))
        present = np.flatnonzero(counts)
        counts = counts[present]
        starts = np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.intp)
        return cls(classes.dictionary.take(pa.array(present)), order, starts, counts)

    @property
    def slices(self) -> list[slice]:
        """One slice of ``order`` per class."""
        ends = self.starts + self.counts
        return [slice(start, end) for start, end in zip(self.starts, ends, strict=True)]


def label_codes(labels: pa.Array | pa.ChunkedArray, classes: pa.Array) -> IntArray:
    """Positions of labels among ``classes``: ``(n,)``, `MISSING` where a label is not there."""
    if isinstance(labels, pa.ChunkedArray):
        labels = labels.combine_chunks()
    if pa.types.is_dictionary(labels.type):
        labels = labels.dictionary_decode()
    found = pc.index_in(labels.cast(classes.type), value_set=classes)
    codes: IntArray = pc.fill_null(found, MISSING).to_numpy(zero_copy_only=False)
    return codes.astype(np.intp, copy=False)


def sorted_classes(labels: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The distinct labels in ascending order: the class order of every result."""
    distinct = pc.unique(labels)
    return distinct.take(pc.sort_indices(distinct))
