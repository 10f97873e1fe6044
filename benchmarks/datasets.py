"""The tables that the cases read: Parquet files, generated from a seed and stored in a cache.

Each row group is generated from its own seed, so memory is bounded, and a longer table begins with
the rows of a shorter one.
"""

from __future__ import annotations

import os
import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

if TYPE_CHECKING:
    import polars as pl

ROW_GROUP = 262_144
LABEL = "label"
ID = "id"
CLASSES = tuple(string.ascii_lowercase[:5])
FEATURES = 20
VALUES = 50

_SEED = 20_260_101
_VERSION = 1
"""Part of the file names; must be increased when the generated rows change."""


@dataclass(frozen=True)
class Dataset:
    """A generated table.

    Attributes:
        path: path of the Parquet file.
        rows: number of rows.
        features: names of the feature columns; the other columns are `LABEL` (text) and `ID`
            (int64).
    """

    path: str
    rows: int
    features: tuple[str, ...]

    @property
    def columns(self) -> list[str]:
        """The columns that training reads: the features and the label."""
        return [*self.features, LABEL]

    @property
    def sql(self) -> str:
        """The table as DuckDB takes it after FROM."""
        return f"'{self.path}'"

    def arrow(self, dictionaries: Sequence[str] = ()) -> ds.Dataset:
        """The table as pyarrow takes it, with columns to be read as dictionaries."""
        options = {"dictionary_columns": dictionaries}
        return ds.dataset(self.path, format=ds.ParquetFileFormat(read_options=options))

    def polars(self) -> pl.LazyFrame:
        """The table as Polars takes it."""
        import polars as pl

        return pl.scan_parquet(self.path)

    def scratch(self, name: str) -> Path:
        """A path next to the table for output; each process has its own."""
        return Path(f"{self.path}.{name}.{os.getpid()}.parquet")


def numbers(cache: Path, rows: int, features: int = FEATURES) -> Dataset:
    """Correlated normal float64 features; each class has its own means and covariance."""
    names = tuple(f"x{j}" for j in range(features))
    generator = np.random.default_rng(_SEED)
    mean = generator.normal(0.0, 0.4, (len(CLASSES), features))
    mixing = np.eye(features) + generator.normal(0.0, 0.1, (len(CLASSES), features, features))

    def columns(generator: np.random.Generator, labels: np.ndarray) -> dict[str, pa.Array]:
        matrix = generator.standard_normal((len(labels), features))
        for code in range(len(CLASSES)):
            of_class = labels == code
            matrix[of_class] = matrix[of_class] @ mixing[code] + mean[code]
        return {name: pa.array(matrix[:, j].copy()) for j, name in enumerate(names)}

    return _generated(cache / f"numbers-{features}", rows, names, columns)


def categories(cache: Path, rows: int, features: int = FEATURES) -> Dataset:
    """Text features of `VALUES` values each; each class has its own frequencies."""
    names = tuple(f"c{j}" for j in range(features))
    values = pa.array([f"value-{code:02d}" for code in range(VALUES)])
    generator = np.random.default_rng(_SEED)
    frequency = generator.dirichlet(np.ones(VALUES), (features, len(CLASSES)))

    def columns(generator: np.random.Generator, labels: np.ndarray) -> dict[str, pa.Array]:
        arrays = {}
        for j, name in enumerate(names):
            codes = np.empty(len(labels), dtype=np.int64)
            for code in range(len(CLASSES)):
                of_class = np.flatnonzero(labels == code)
                codes[of_class] = generator.choice(VALUES, len(of_class), p=frequency[j, code])
            arrays[name] = values.take(pa.array(codes))
        return arrays

    return _generated(cache / f"categories-{features}", rows, names, columns)


def _generated(
    stem: Path,
    rows: int,
    features: tuple[str, ...],
    columns: Callable[[np.random.Generator, np.ndarray], dict[str, pa.Array]],
) -> Dataset:
    """The table of that name and size, generated if the cache does not have it."""
    path = stem.with_name(f"{stem.name}-{rows}-v{_VERSION}.parquet")
    cached(path, lambda unfinished: _write(unfinished, rows, columns))
    return Dataset(str(path), rows, features)


def cached(path: Path, make: Callable[[Path], object]) -> None:
    """Make a file or folder of the cache under another name, unless it is there already."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f"_{path.name}.{os.getpid()}")
        make(unfinished)
        unfinished.rename(path)


def _write(
    path: Path,
    rows: int,
    columns: Callable[[np.random.Generator, np.ndarray], dict[str, pa.Array]],
) -> None:
    writer: pq.ParquetWriter | None = None
    for start in range(0, rows, ROW_GROUP):
        generator = np.random.default_rng([_SEED, start])
        # A full row group is generated and then cut, so its rows do not depend on their number.
        labels = generator.integers(0, len(CLASSES), ROW_GROUP)
        group = pa.table(
            {
                ID: pa.array(np.arange(start, start + ROW_GROUP)),
                **columns(generator, labels),
                LABEL: pa.array(CLASSES).take(pa.array(labels)),
            }
        ).slice(0, rows - start)
        if writer is None:
            # Dictionary pages only for text: distinct floats would be written twice.
            text = [field.name for field in group.schema if pa.types.is_string(field.type)]
            writer = pq.ParquetWriter(path, group.schema, use_dictionary=text)
        writer.write_table(group, row_group_size=ROW_GROUP)
    assert writer is not None
    writer.close()
