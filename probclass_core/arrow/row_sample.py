"""A random sample of rows that merges, and does not depend on how the rows are split.

Every row gets a hash of its values, and the sample is the rows with the smallest hashes (a bottom-k
sample: Cohen and Kaplan, "Summarizing data using bottom-k sketches", 2007). A hash depends on the
values alone, so any split of the rows, in any order, gives the same sample. Rows with the same
values are one row of the sample, with the sum of their weights.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from probclass_core.arrow.arrays import MISSING, FloatArray, is_numeric_type, rounded_integers
from probclass_core.arrow.rows import Rows
from probclass_core.arrow.types import common_type, is_category_type
from probclass_core.errors import StoreError

SAMPLE_ROWS = 32_768
"""Largest number of different rows in a sample."""

HASH, COUNT = "__hash__", "__count__"
"""Columns of a sample besides those of the rows: hash, and Σ w of the rows with these values."""

HashArray = NDArray[np.uint64]

_NULL = np.uint64(0x9E3779B97F4A7C15)
_MULTIPLIERS = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_SHIFTS = np.uint64(30), np.uint64(27), np.uint64(31)


def sample_rows(rows: Rows, schema: pa.Schema, weights: FloatArray | None = None) -> pa.Table:
    """The sample of a batch.

    Args:
        rows: ``n`` rows.
        schema: columns of the sample, all of them in ``rows``, and the types to record them as.
        weights: weight of each row, ``(n,)``; None means 1 for every row.

    Returns:
        The columns of ``schema``, `HASH` (uint64, ascending, unique) and `COUNT` (float64).

    Raises:
        DataError: if a column of numbers contains an infinite value.
    """
    hashes = row_hashes(rows, schema.names)
    counts = np.ones(len(hashes)) if weights is None else weights
    batch = rows.batch
    if (limit := _limit(hashes)) is not None:
        candidates = np.flatnonzero(hashes <= limit)
        batch = batch.take(pa.array(candidates))
        hashes, counts = hashes[candidates], counts[candidates]
    columns = {field.name: _recorded(batch.column(field.name), field.type) for field in schema}
    return _smallest(pa.table({**columns, HASH: hashes, COUNT: counts}))


def merge_samples(samples: Sequence[pa.Table]) -> pa.Table:
    """The sample of all parts together.

    Args:
        samples: samples of at least one part; the types of a column may differ if they have a
            common one.
    """
    first = samples[0].schema
    if any(sample.schema != first for sample in samples):
        kinds = [
            (name, common_type(sample.schema.field(name).type for sample in samples))
            for name in first.names
        ]
        samples = [sample.cast(pa.schema(kinds)) for sample in samples]
    # Samples are sorted, so rows above the k-th smallest hash of all cannot remain.
    hashes = [sample[HASH].to_numpy() for sample in samples]
    if (limit := _limit(np.concatenate(hashes))) is not None:
        samples = [
            sample.slice(0, int(np.searchsorted(of_sample, limit, side="right")))
            for sample, of_sample in zip(samples, hashes, strict=True)
        ]
    return _smallest(pa.concat_tables(samples))


def check_sample(sample: pa.Table, schema: pa.Schema, total: float) -> None:
    """Check a sample that was read from a store.

    Args:
        sample: the sample.
        schema: columns of the rows, and their types.
        total: Σ w of all rows.

    Raises:
        StoreError: if it is not a sample of such rows.
    """
    kinds = [*zip(schema.names, schema.types, strict=True), (HASH, pa.uint64())]
    if sample.schema.remove_metadata() != pa.schema([*kinds, (COUNT, pa.float64())]):
        raise StoreError(f"the columns of the sample are {sample.column_names}, or of other types.")
    hashes, counts = sample[HASH].to_numpy(), sample[COUNT].to_numpy()
    if not np.array_equal(hashes, _hashes_of(sample, schema.names)):
        raise StoreError("the hashes of the sample are not those of its rows.")
    ascending = (hashes[1:] > hashes[:-1]).all() and len(hashes) <= SAMPLE_ROWS
    # Sums of the same weights in different orders differ in their last digits.
    low, high = total * (1.0 - 1e-9), total * (1.0 + 1e-9)
    within = (len(hashes) == SAMPLE_ROWS or counts.sum() >= low) and counts.sum() <= high
    if not ascending or not (counts > 0.0).all() or not within:
        raise StoreError("the sample has a row twice, too few or many rows, or a wrong count.")


def _hashes_of(sample: pa.Table, names: Sequence[str]) -> HashArray:
    if not sample.num_rows:
        return np.empty(0, np.uint64)
    (batch,) = sample.select(names).combine_chunks().to_batches()
    return row_hashes(Rows(batch))


def _limit(hashes: HashArray) -> np.uint64 | None:
    """A hash that at least as many different ones as a sample has do not exceed, or None.

    It is small, so that few rows remain candidates.
    """
    smallest = SAMPLE_ROWS
    # Equal rows have equal hashes, so it may take more of them until enough are different.
    while smallest < len(hashes):
        limit = np.partition(hashes, smallest)[smallest]
        if len(np.unique(hashes[hashes <= limit])) >= SAMPLE_ROWS:
            return np.uint64(limit)
        smallest *= 4
    return None


def _smallest(rows: pa.Table) -> pa.Table:
    """Rows by ascending hash, equal ones added up, as many as a sample has."""
    hashes, first, group = np.unique(rows[HASH].to_numpy(), return_index=True, return_inverse=True)
    counts = np.bincount(group, rows[COUNT].to_numpy(), minlength=len(hashes))[:SAMPLE_ROWS]
    sample = rows.take(pa.array(first[:SAMPLE_ROWS])).combine_chunks()
    return sample.set_column(sample.schema.get_field_index(COUNT), COUNT, pa.array(counts))


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
    """Hashes of lists or maps from those of all their entries, whose order does not matter."""
    cumulative = np.append(np.uint64(0), np.cumsum(entries, dtype=np.uint64))
    offsets = column.offsets.to_numpy()
    sums = _mix(cumulative[offsets[1:]] - cumulative[offsets[:-1]])
    return np.where(pc.is_null(column).to_numpy(zero_copy_only=False), _NULL, sums)


def _recorded(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """A column as it is recorded: NaN as null and −0.0 as 0.0, so that equal rows are identical."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    column = column.cast(kind, safe=False)
    if not pa.types.is_float64(kind):
        return column
    values = column.to_numpy(zero_copy_only=False) + 0.0
    return pa.array(values, mask=np.isnan(values))
