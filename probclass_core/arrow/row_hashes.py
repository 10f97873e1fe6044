"""Hashes of the values of rows, the same whatever the types that encode them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from probclass_core.arrow.arrays import MISSING, is_numeric_type, rounded_integers
from probclass_core.arrow.rows import Rows
from probclass_core.arrow.types import is_category_type

HashArray = NDArray[np.uint64]

_NULL = np.uint64(0x9E3779B97F4A7C15)
_MULTIPLIERS = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_SHIFTS = np.uint64(30), np.uint64(27), np.uint64(31)


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
