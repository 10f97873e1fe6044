"""Tidy tables, one row per class, feature and cell: how they are merged and taken apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from probclass_core.arrow.arrays import FloatArray, label_codes


def summed(tables: Sequence[pa.Table], keys: Sequence[str], sums: Sequence[str]) -> pa.Table:
    """The merge of counts: one row for each combination of keys, ascending, its sums over all.

    Args:
        tables: at least one.
        keys: columns that tell a cell from another.
        sums: columns of numbers.
    """
    grouped = pa.concat_tables(tables).group_by(list(keys), use_threads=False)
    merged = grouped.aggregate([(name, "sum") for name in sums])
    return merged.rename_columns([*keys, *sums]).sort_by([(key, "ascending") for key in keys])


def by_feature(table: pa.Table, features: Sequence[str]) -> Iterator[tuple[str, pa.Table]]:
    """The rows of each feature, in one pass over the table."""
    codes = label_codes(table["feature"], pa.array(features, pa.string()))
    gathered = table.take(pa.array(np.argsort(codes, kind="stable"))).combine_chunks()
    counts = np.bincount(codes, minlength=len(features))
    starts = np.cumsum(counts) - counts
    for feature, start, count in zip(features, starts, counts, strict=True):
        yield feature, gathered.slice(start, count)


def masses_by_class(
    table: pa.Table, cells: Sequence[str], classes: pa.Array
) -> tuple[list[str], FloatArray]:
    """Probabilities by cell and class, of rows with a log_probability.

    Args:
        table: of parameters.
        cells: what the cell of each row is called; the rows of one cell and class add up.
        classes: ``k`` labels.

    Returns:
        ``m`` names in order of appearance, and ``(m, k)`` probabilities.
    """
    names = list(dict.fromkeys(cells))
    found = np.zeros((len(names), len(classes)))
    row = label_codes(pa.array(cells, pa.string()), pa.array(names, pa.string()))
    place = label_codes(table["class"], classes)
    np.add.at(found, (row, place), np.exp(table["log_probability"].to_numpy()))
    return names, found
