"""Convert columns of counts, of words or of documents to sparse matrices.

A block of counts is either some numeric columns, whose features are the columns, or one column of
lists of text (each item counts 1) or of maps from text to numbers, whose features are the terms.
Counts are a sparse matrix: memory grows with the terms that occur, not with rows times terms.

A null cell of a numeric column is unknown, and so is a null list or map as a whole. Null items of a
list are skipped, and so are terms of a map whose number is null. An empty list is an empty
document.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.arrow import arrays
from probclass_core.arrow.arrays import BoolArray, FloatArray, IntArray
from probclass_core.arrow.rows import Rows
from probclass_core.arrow.types import is_terms_type
from probclass_core.errors import DataError

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_TEXT_OF_A_CHUNK = 2**30
"""Bytes of terms in a chunk of `counts_column`; Arrow's text has room for twice as many."""

LARGEST_COUNT = 2.0**53
"""Above it, float64 cannot represent every integer."""

_ITEMS_AT_ONCE = 2**20
"""Cells, or items of documents, that are counted at once; each takes some hundred bytes."""


@dataclass(frozen=True)
class Counts:
    """How often each of ``m`` features occurs in each of ``n`` rows.

    Attributes:
        features: names of columns, or distinct terms, ``(m,)``.
        matrix: counts above 0, a sparse ``(n, m)`` float64 array.
        known: mask of the counts that are not null, ``(n, m)``, or ``(n, 1)`` if all features of a
            row are, or none is.
    """

    features: pa.Array
    matrix: csr_array
    known: BoolArray

    @property
    def known_cells(self) -> FloatArray:
        """1 for a count and 0 for a null, ``(n, m)``."""
        return np.broadcast_to(self.known, self.matrix.shape).astype(np.float64)

    @property
    def known_rows(self) -> FloatArray:
        """1 for rows with at least one count, which may be 0, else 0: ``(n,)``."""
        known: BoolArray = np.asarray(self.known.any(axis=1))
        return known.astype(np.float64)

    @property
    def rows(self) -> IntArray:
        """Row of each stored count, ascending, ``(stored,)``."""
        return np.repeat(np.arange(self.matrix.shape[0]), np.diff(self.matrix.indptr))

    def with_values(self, values: FloatArray) -> csr_array:
        """The matrix with values ``(stored,)`` instead of the counts."""
        from scipy.sparse import csr_array

        matrix = self.matrix
        return csr_array((values, matrix.indices, matrix.indptr), shape=matrix.shape)

    @property
    def presence(self) -> csr_array:
        """1 for every count above 0, a sparse ``(n, m)`` array."""
        return self.with_values(np.ones(self.matrix.nnz))

    def row_sums(self, values: FloatArray) -> FloatArray:
        """Sums over each row of values ``(stored,)``, one per stored count: ``(n,)``."""
        sums = np.bincount(self.rows, values, minlength=self.matrix.shape[0])
        return sums.astype(np.float64, copy=False)  # bincount returns integers for no rows

    @property
    def lengths(self) -> FloatArray:
        """Sum of the counts of each row, such as the length of a document: ``(n,)``."""
        return self.row_sums(self.matrix.data)

    def over_known(self, weights: FloatArray) -> FloatArray:
        """Sums of finite weights ``(m, k)`` over the known features of each row: ``(n, k)``."""
        if self.known.shape[1] == 1:
            return np.where(self.known, weights.sum(axis=0), 0.0)
        sums: FloatArray = self.known.astype(np.float64) @ weights
        return sums


def counts_column(matrix: Any, terms: Sequence[str]) -> pa.ChunkedArray:
    """A column of maps from text to numbers, for a block of counts, from a sparse matrix.

    Memory grows with the stored counts; the matrix is never made dense.

    Args:
        matrix: ``(n, m)``, any sparse matrix or array of SciPy, such as the words of texts.
        terms: ``m`` names, such as ``get_feature_names_out()`` of scikit-learn's vectorizers.

    Returns:
        Column of type ``map<string, double>`` with a map per row; counts of 0 are left out.

    Raises:
        DataError: if the matrix is not sparse, or has another number of columns than terms.
    """
    from scipy.sparse import csr_array, issparse

    if not issparse(matrix):
        raise DataError(
            f"counts_column takes a sparse matrix of SciPy, got {type(matrix).__name__}; use the "
            "columns of a dense one."
        )
    if matrix.shape[1] != len(terms):
        raise DataError(
            f"the matrix has {matrix.shape[1]} columns, but there are {len(terms)} terms; give a "
            "term for each column."
        )
    rows = csr_array(matrix, dtype=np.float64, copy=True)
    rows.sum_duplicates()
    rows.eliminate_zeros()
    names = pa.array(terms, pa.string())
    longest = pc.max(pc.binary_length(names)).as_py() or 1
    chunks: list[pa.Array] = []
    start, ends = 0, rows.indptr[1:]
    while start < rows.shape[0] or not chunks:
        first = rows.indptr[start]
        fits = np.searchsorted(ends, first + _TEXT_OF_A_CHUNK // longest, side="right")
        stop = min(max(int(fits), start + 1), rows.shape[0])
        part = slice(first, rows.indptr[stop])
        offsets = pa.array(rows.indptr[start : stop + 1] - first, pa.int32())
        keys = names.take(pa.array(rows.indices[part]))
        chunks.append(pa.MapArray.from_arrays(offsets, keys, pa.array(rows.data[part])))
        start = stop
    return pa.chunked_array(chunks)


@dataclass(frozen=True)
class CountReader:
    """Reads the columns of a block as counts.

    Attributes:
        columns: columns of the block.
        of_terms: whether the block is one column of lists or maps.
        vocabulary: terms to count, in order; others are skipped. None for all terms that occur.
        whole: whether counts that are not whole are an error.
    """

    columns: Sequence[str]
    of_terms: bool
    vocabulary: pa.Array | None = None
    whole: bool = False

    def read(self, rows: Rows) -> Counts:
        """The counts of rows.

        Raises:
            DataError: if a count is negative, infinite, above `LARGEST_COUNT`, or not whole but
                must be, or a column has another type.
        """
        counts = self._terms(rows) if self.of_terms else self._numbers(rows)
        if self.whole:
            _refuse_fractions(counts)
        return counts

    def parts(self, rows: Rows) -> Iterator[tuple[slice, Counts]]:
        """Read rows in parts of bounded size: a document may be one word or a whole book.

        Yields:
            ``(part, counts)``: positions of the rows, and their counts.

        Raises:
            DataError: as `read`.
        """
        start, ends = 0, self._ends(rows)
        while start < len(rows):
            before = ends[start - 1] if start else 0
            stop = max(int(np.searchsorted(ends, before + _ITEMS_AT_ONCE, side="right")), start + 1)
            yield slice(start, stop), self.read(rows.slice(start, stop))
            start = stop
        if not len(rows):
            yield slice(0, 0), self.read(rows)

    def _ends(self, rows: Rows) -> IntArray:
        """Number of items up to and including each row, ``(n,)``."""
        column = rows.column(self.columns[0])
        if self.of_terms and is_terms_type(column.type):
            ends: IntArray = np.cumsum(_lengths(column), dtype=np.intp)
            return ends
        return np.arange(1, len(rows) + 1) * len(self.columns)

    def _numbers(self, rows: Rows) -> Counts:
        from scipy.sparse import csr_array

        values = rows.matrix(self.columns)
        for name, column in zip(self.columns, values, strict=True):
            _check_counts(name, column)
        width, size = values.shape
        known, missing = np.ones((size, 1), np.bool_), np.isnan(values)
        if missing.any():
            known = ~missing.T
            values[missing] = 0.0
        # Storing all cells and then removing the zeros is faster than searching for zeros first.
        positions = np.tile(np.arange(width, dtype=np.int32), size)
        starts = np.arange(0, values.size + 1, width, dtype=np.int32)
        matrix = csr_array((values.T.ravel(), positions, starts), shape=(size, width))
        matrix.eliminate_zeros()
        return Counts(pa.array(self.columns, pa.string()), matrix, known)

    def _terms(self, rows: Rows) -> Counts:
        from scipy.sparse import csr_array

        (name,) = self.columns
        column = rows.column(name)
        row, tokens, counts = _occurrences(column, name)
        encoded = tokens.dictionary_encode()
        terms = encoded.dictionary.cast(pa.string())
        codes: IntArray = pc.fill_null(encoded.indices, 0).to_numpy(zero_copy_only=False)
        if self.vocabulary is not None:
            positions = arrays.label_codes(terms, self.vocabulary)
            # One more position, because null tokens have a code even if there are no terms.
            codes = np.append(positions, arrays.MISSING)[codes]
            outside = (codes == arrays.MISSING) & (counts > 0.0)
            counts = np.where(outside, 0.0, counts)
            terms = self.vocabulary
        positive = counts > 0.0
        if not positive.all():
            counts, row, codes = counts[positive], row[positive], codes[positive]
        # Built from triples, which adds up several occurrences of a term in a row.
        matrix = csr_array((counts, (row, codes)), shape=(len(column), len(terms)))
        known = column.is_valid().to_numpy(zero_copy_only=False)
        return Counts(terms, matrix, known[:, None])


def _occurrences(column: pa.Array, name: str) -> tuple[IntArray, pa.Array, FloatArray]:
    """Row, token and count of every item of a column of lists or maps; null items count 0."""
    if pa.types.is_null(column.type):
        column = column.cast(pa.list_(pa.string()))
    if not is_terms_type(column.type):
        raise DataError(
            f"column {name!r} is {column.type}, neither lists of text nor maps from text to "
            "numbers; cast it or re-train."
        )
    if pa.types.is_map(column.type):
        pairs = pa.struct([("term", column.type.key_type), ("count", column.type.item_type)])
        column = column.cast(pa.list_(pairs))
        tokens, numbers = column.flatten().flatten()
        counts = arrays.numeric_values(numbers, name)
        _check_counts(name, counts)
    else:
        tokens = column.flatten()
        counts = np.ones(len(tokens))
    if pa.types.is_dictionary(tokens.type):
        tokens = tokens.dictionary_decode()
    elif pa.types.is_null(tokens.type):
        tokens = tokens.cast(pa.string())
    known = tokens.is_valid().to_numpy(zero_copy_only=False) & ~np.isnan(counts)
    counts = np.where(known, counts, 0.0)
    return np.repeat(np.arange(len(column)), _lengths(column)), tokens, counts


def _lengths(column: pa.Array) -> IntArray:
    """Number of items of each row, ``(n,)``.

    A null list may still have items in memory; its length is null, and `flatten` skips them.
    """
    lengths: IntArray
    if pa.types.is_map(column.type):
        lengths = np.diff(column.offsets.to_numpy())
    else:
        lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    return lengths


def _refuse_fractions(counts: Counts) -> None:
    data = counts.matrix.data
    fractions = np.flatnonzero(data != np.floor(data))
    if len(fractions):
        feature = counts.features[int(counts.matrix.indices[fractions[0]])].as_py()
        raise DataError(
            f"column {feature!r} has a value {data[fractions[0]]:g}, but its counts must be whole "
            "numbers; round it, or choose another estimator."
        )


def _check_counts(name: str, values: FloatArray) -> None:
    """Refuse counts that are negative or above `LARGEST_COUNT`."""
    for invalid, reason in ((values < 0.0, "below 0"), (values > LARGEST_COUNT, "above 2⁵³")):
        number = int(invalid.sum())
        if number:
            raise DataError(
                f"column {name!r} contains {number} count{'s' * (number > 1)} {reason}, such as "
                f"{values[invalid][0]:g}; make them null, or choose another estimator."
            )
