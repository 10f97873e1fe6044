"""Columns as sparse counts: the door from Arrow to NumPy for words and other things counted.

A block of counts is either some columns of numbers, whose features are the columns, or one column
of lists of text (each item counts 1) or of maps from text to numbers, whose features are the terms.
Its counts are a sparse matrix: memory follows what occurs, never rows times terms.

A null cell of a column of numbers is unknown, and so is a null list or map, as a whole. In a list a
null item is passed over, and in a map a term whose number is null. An empty list is an empty
document.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.arrow.arrays import (
    MISSING,
    BoolArray,
    FloatArray,
    IntArray,
    label_codes,
    numeric_matrix,
    numeric_values,
)
from probclass_core.arrow.types import is_terms_type
from probclass_core.errors import DataError

if TYPE_CHECKING:
    from scipy.sparse import csr_array

LARGEST_COUNT = 2.0**53
"""Beyond it float64 does not tell a count from the next."""

_PART = 2**20
"""Items of columns or documents that are counted at once, at some hundred bytes each."""


@dataclass(frozen=True)
class Counts:
    """How often each of ``m`` features occurs in each of ``n`` rows.

    Attributes:
        features: columns or distinct terms, ``(m,)`` text.
        matrix: sparse, ``(n, m)`` float64, the counts above 0.
        known: where there is a count at all: ``(n, m)`` of columns, ``(n, 1)`` of terms; none where
            it is everywhere.
    """

    features: pa.Array
    matrix: csr_array
    known: BoolArray | None

    @property
    def known_cells(self) -> FloatArray:
        """1 where a column has a count, 0 where it is null: ``(n, m)``, for columns only."""
        if self.known is None:
            ones: FloatArray = np.ones(self.matrix.shape)
            return ones
        return self.known.astype(np.float64)

    @property
    def known_rows(self) -> FloatArray:
        """1 where a row has any count, be it 0, and 0 where all is null: ``(n,)``."""
        if self.known is None:
            ones: FloatArray = np.ones(self.matrix.shape[0])
            return ones
        known: BoolArray = np.asarray(self.known.any(axis=1))
        return known.astype(np.float64)

    @property
    def rows(self) -> IntArray:
        """The row of each stored count, ascending: ``(stored,)``."""
        return np.repeat(np.arange(self.matrix.shape[0]), np.diff(self.matrix.indptr))

    def with_values(self, values: FloatArray) -> csr_array:
        """The matrix with other values ``(stored,)`` in place of the counts."""
        from scipy.sparse import csr_array

        matrix = self.matrix
        return csr_array((values, matrix.indices, matrix.indptr), shape=matrix.shape)

    @property
    def presence(self) -> csr_array:
        """1 where a count is above 0, ``(n, m)``."""
        return self.with_values(np.ones(self.matrix.nnz))

    def row_sums(self, values: FloatArray) -> FloatArray:
        """Sums over the features of values ``(stored,)`` of the stored counts: ``(n,)``."""
        sums = np.bincount(self.rows, values, minlength=self.matrix.shape[0])
        return sums.astype(np.float64, copy=False)  # without rows bincount makes integers

    @property
    def lengths(self) -> FloatArray:
        """The total of each row, such as the length of a document: ``(n,)``."""
        return self.row_sums(self.matrix.data)

    def over_known(self, weights: FloatArray) -> FloatArray:
        """Sums of finite weights ``(m, k)`` over the features known in each row: ``(n, k)``."""
        whole = weights.sum(axis=0)
        shape = (self.matrix.shape[0], len(whole))
        if self.known is None:
            return np.broadcast_to(whole, shape)
        if self.known.shape[1] == len(weights):
            sums: FloatArray = self.known.astype(np.float64) @ weights
            return sums
        return np.where(self.known, whole, 0.0)


@dataclass(frozen=True)
class CountReader:
    """How the columns of a block are read as counts.

    Attributes:
        columns: of the block.
        of_terms: whether its one column holds lists or maps.
        vocabulary: terms to count, in order; none: all that occur.
        refuse_others: whether a term outside the vocabulary is an error, or passed over.
    """

    columns: Sequence[str]
    of_terms: bool
    vocabulary: pa.Array | None = None
    refuse_others: bool = False

    def read(self, batch: pa.RecordBatch) -> Counts:
        """The counts of a batch.

        Raises:
            DataError: a count is negative, infinite or beyond `LARGEST_COUNT`, a term is outside
                the vocabulary, or a column is of another type.
        """
        return self._terms(batch) if self.of_terms else self._numbers(batch)

    def parts(self, batch: pa.RecordBatch) -> Iterator[tuple[slice, Counts]]:
        """A batch in parts of bounded size, for a document may be a word or a book.

        Yields:
            ``(rows, counts)``: which rows, and their counts.

        Raises:
            DataError: as `read`.
        """
        start, ends = 0, self._ends(batch)
        while start < batch.num_rows:
            before = ends[start - 1] if start else 0
            stop = max(int(np.searchsorted(ends, before + _PART, side="right")), start + 1)
            yield slice(start, stop), self.read(batch.slice(start, stop - start))
            start = stop
        if not batch.num_rows:
            yield slice(0, 0), self.read(batch)

    def _ends(self, batch: pa.RecordBatch) -> IntArray:
        """How many items the rows hold up to and with each: ``(n,)``."""
        column = batch.column(self.columns[0])
        if self.of_terms and is_terms_type(column.type):
            offsets: IntArray = column.offsets.to_numpy()
            ends: IntArray = offsets[1:] - offsets[0]
            return ends
        return np.arange(1, batch.num_rows + 1) * len(self.columns)

    def _numbers(self, batch: pa.RecordBatch) -> Counts:
        from scipy.sparse import csr_array

        values = numeric_matrix(batch, self.columns)
        for name, column in zip(self.columns, values, strict=True):
            _refuse_other_than_counts(name, column)
        missing = np.isnan(values)
        known = None
        if missing.any():
            known = ~missing.T
            values[missing] = 0.0
        width, size = values.shape
        # As if nothing were 0, and then without the zeros: quicker than looking for them.
        places = np.tile(np.arange(width, dtype=np.int32), size)
        starts = np.arange(0, values.size + 1, width, dtype=np.int32)
        matrix = csr_array((values.T.ravel(), places, starts), shape=(size, width))
        matrix.eliminate_zeros()
        return Counts(pa.array(self.columns, pa.string()), matrix, known)

    def _terms(self, batch: pa.RecordBatch) -> Counts:
        from scipy.sparse import csr_array

        (name,) = self.columns
        column = batch.column(name)
        rows, tokens, counts = _occurrences(column, name)
        encoded = tokens.dictionary_encode()
        terms = encoded.dictionary.cast(pa.string())
        codes: IntArray = pc.fill_null(encoded.indices, 0).to_numpy(zero_copy_only=False)
        if self.vocabulary is not None:
            places = label_codes(terms, self.vocabulary)
            # One place more, for the codes of null tokens where there is no term at all.
            codes = np.append(places, MISSING)[codes]
            outside = (codes == MISSING) & (counts > 0.0)
            if self.refuse_others:
                self._refuse_unknown(tokens.filter(pa.array(outside)))
            counts = np.where(outside, 0.0, counts)
            terms = self.vocabulary
        kept = counts > 0.0
        if not kept.all():
            counts, rows, codes = counts[kept], rows[kept], codes[kept]
        # Made of triples, so that occurrences of one term in one row add up.
        matrix = csr_array((counts, (rows, codes)), shape=(len(column), len(terms)))
        known = None
        if column.null_count:
            known = column.is_valid().to_numpy(zero_copy_only=False)[:, None]
        return Counts(terms, matrix, known)

    def _refuse_unknown(self, tokens: pa.Array) -> None:
        number = len(tokens)
        if number:
            raise DataError(
                f"column {self.columns[0]!r} holds {number} term{'s' * (number > 1)} outside the "
                f"vocabulary, such as {tokens[0].as_py()!r}; set unseen='ignore' to pass over them."
            )


def _occurrences(column: pa.Array, name: str) -> tuple[IntArray, pa.Array, FloatArray]:
    """Row, token and count of every item of a column of lists or maps; 0 where one is null."""
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
        counts = numeric_values(numbers, name)
        _refuse_other_than_counts(name, counts)
    else:
        tokens = column.flatten()
        counts = np.ones(len(tokens))
    if pa.types.is_dictionary(tokens.type):
        tokens = tokens.dictionary_decode()
    elif pa.types.is_null(tokens.type):
        tokens = tokens.cast(pa.string())
    known = tokens.is_valid().to_numpy(zero_copy_only=False) & ~np.isnan(counts)
    counts = np.where(known, counts, 0.0)
    # A null list may hide items, which it has no length of and `flatten` leaves out.
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    return np.repeat(np.arange(len(column)), lengths), tokens, counts


def _refuse_other_than_counts(name: str, values: FloatArray) -> None:
    for bad, what in ((values < 0.0, "below 0"), (values > LARGEST_COUNT, "above 2⁵³")):
        number = int(bad.sum())
        if number:
            raise DataError(
                f"column {name!r} holds {number} count{'s' * (number > 1)} {what}, such as "
                f"{values[bad][0]:g}; make them null, or choose another estimator."
            )
