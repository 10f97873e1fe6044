"""Tidy tables, one row per class, feature and cell: how the families take them apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from probclass_core.arrays import label_codes


def by_feature(table: pa.Table, features: Sequence[str]) -> Iterator[tuple[str, pa.Table]]:
    """The rows of each feature, in one pass over the table."""
    codes = label_codes(table["feature"], pa.array(features, pa.string()))
    gathered = table.take(pa.array(np.argsort(codes, kind="stable"))).combine_chunks()
    counts = np.bincount(codes, minlength=len(features))
    starts = np.cumsum(counts) - counts
    for feature, start, count in zip(features, starts, counts, strict=True):
        yield feature, gathered.slice(start, count)
