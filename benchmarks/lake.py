"""The tables that the cases read: Parquet with row groups, generated from a seed, kept in a cache.

Rows are made row group by row group, each from its own seed, so memory stays bounded and a longer
table begins with the rows of a shorter one.
"""

from __future__ import annotations

import os
import string
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROW_GROUP = 262_144
LABEL = "label"
ID = "id"
CLASSES = tuple(string.ascii_lowercase[:5])
FEATURES = 20
VALUES = 50

_SEED = 20_260_101
_VERSION = 1
"""Part of the file names: to be raised when the same name would hold other rows."""


@dataclass(frozen=True)
class Lake:
    """A generated table.

    Attributes:
        path: the Parquet file.
        rows: how many.
        features: the feature columns; beside them stand `LABEL` (text) and `ID` (int64).
    """

    path: str
    rows: int
    features: tuple[str, ...]

    @property
    def columns(self) -> list[str]:
        """What training reads: the features and the label."""
        return [*self.features, LABEL]

    def scratch(self, name: str) -> Path:
        """A path beside the table for what a contestant writes, one for each process."""
        return Path(f"{self.path}.{name}.{os.getpid()}.parquet")


def numbers(cache: Path, rows: int, features: int = FEATURES) -> Lake:
    """Correlated normal float64 features, every class with its own means and covariance."""
    names = tuple(f"x{j}" for j in range(features))
    shape = np.random.default_rng(_SEED)
    mean = shape.normal(0.0, 0.4, (len(CLASSES), features))
    mixing = np.eye(features) + shape.normal(0.0, 0.1, (len(CLASSES), features, features))

    def columns(source: np.random.Generator, labels: np.ndarray) -> dict[str, pa.Array]:
        matrix = source.standard_normal((len(labels), features))
        for code in range(len(CLASSES)):
            of_class = labels == code
            matrix[of_class] = matrix[of_class] @ mixing[code] + mean[code]
        return {name: pa.array(matrix[:, j].copy()) for j, name in enumerate(names)}

    return _kept(cache / f"numbers-{features}", rows, names, columns)


def categories(cache: Path, rows: int, features: int = FEATURES) -> Lake:
    """Text features of `VALUES` values each, every class with its own frequencies."""
    names = tuple(f"c{j}" for j in range(features))
    values = pa.array([f"value-{code:02d}" for code in range(VALUES)])
    shape = np.random.default_rng(_SEED)
    frequency = shape.dirichlet(np.ones(VALUES), (features, len(CLASSES)))

    def columns(source: np.random.Generator, labels: np.ndarray) -> dict[str, pa.Array]:
        made = {}
        for j, name in enumerate(names):
            codes = np.empty(len(labels), dtype=np.int64)
            for code in range(len(CLASSES)):
                of_class = np.flatnonzero(labels == code)
                codes[of_class] = source.choice(VALUES, len(of_class), p=frequency[j, code])
            made[name] = values.take(pa.array(codes))
        return made

    return _kept(cache / f"categories-{features}", rows, names, columns)


def _kept(
    stem: Path,
    rows: int,
    features: tuple[str, ...],
    columns: Callable[[np.random.Generator, np.ndarray], dict[str, pa.Array]],
) -> Lake:
    """The table of that name and size, generated where the cache has none."""
    path = stem.with_name(f"{stem.name}-{rows}-v{_VERSION}.parquet")
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f"_{path.name}.{os.getpid()}")
        _write(unfinished, rows, columns)
        unfinished.replace(path)
    return Lake(str(path), rows, features)


def _write(
    path: Path,
    rows: int,
    columns: Callable[[np.random.Generator, np.ndarray], dict[str, pa.Array]],
) -> None:
    writer: pq.ParquetWriter | None = None
    for start in range(0, rows, ROW_GROUP):
        source = np.random.default_rng([_SEED, start])
        # Whole row groups first, then cut: rows do not depend on how many follow.
        labels = source.integers(0, len(CLASSES), ROW_GROUP)
        group = pa.table(
            {
                ID: pa.array(np.arange(start, start + ROW_GROUP)),
                **columns(source, labels),
                LABEL: pa.array(CLASSES).take(pa.array(labels)),
            }
        ).slice(0, rows - start)
        if writer is None:
            # Dictionary pages for text only: floats that never repeat would be written twice.
            text = [field.name for field in group.schema if pa.types.is_string(field.type)]
            writer = pq.ParquetWriter(path, group.schema, use_dictionary=text)
        writer.write_table(group, row_group_size=ROW_GROUP)
    assert writer is not None
    writer.close()
