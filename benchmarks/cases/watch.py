"""What the health of scored rows and the profile of the training rows cost, in processor time."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq

import probclass_core
from benchmarks.case import OURS, Case, Outcome, Target
from benchmarks.datasets import LABEL, Dataset, numbers
from probclass_core.estimation.column_profile import empty_profile

UNWATCHED = "probclass, watch=False"
UNPROFILED = "probclass without a profile"

PARTITIONS, PARTITION_ROWS = 50, 100


@dataclass(frozen=True)
class Lake:
    """A table, and the partitions that are scored.

    Attributes:
        data: the table.
        source: what is scored: a file, or a folder of partitions.
    """

    data: Dataset
    source: str


def wide(cache: Path, rows: int) -> Lake:
    """A file of 100 columns of numbers."""
    data = numbers(cache, rows, 100)
    return Lake(data, data.path)


def small_partitions(cache: Path, rows: int) -> Lake:
    """Partitions of 100 rows and 10 columns of numbers."""
    data = numbers(cache, rows, 10)
    source = Path(f"{data.path}.lake")
    table = pq.read_table(data.path)
    for number in range(0, rows, PARTITION_ROWS):
        folder = source / f"part={number:07d}"
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(table.slice(number, PARTITION_ROWS), folder / "0.parquet")
    return Lake(data, str(source))


def scored_rows(lake: Lake, sink: Path) -> Outcome:
    """Number of scored rows, which are then removed."""
    rows = sum(commit["rows"] for commit in probclass_core.commits(sink))
    shutil.rmtree(sink) if sink.is_dir() else sink.unlink()
    return {"rows": rows}


watched = Case(
    name="watch",
    title="score 100 columns of one file, without copying any",
    rows=1_000_000,
    prepare=wide,
    targets=(Target(1.15, UNWATCHED),),
    unit="CPU s",
    outcome=scored_rows,
)
partitions = Case(
    name="watch_partitions",
    title=f"score {PARTITIONS} partitions of {PARTITION_ROWS} rows of 10 columns",
    rows=PARTITIONS * PARTITION_ROWS,
    prepare=small_partitions,
    unit="CPU s",
    outcome=scored_rows,
)


def _score(lake: Lake, *, watch: bool) -> Path:
    suffix = "" if Path(lake.source).is_dir() else ".parquet"
    sink = Path(f"{lake.data.path}.watched-{watch}{suffix}")
    probclass_core.score(_model(lake.data), lake.source, sink, columns=[], watch=watch)
    return sink


for scoring in (watched, partitions):

    @scoring.implementation(UNWATCHED, is_baseline=True)
    def plain(lake: Lake) -> Path:
        """score with watch=False."""
        return _score(lake, watch=False)

    @scoring.implementation(OURS)
    def with_health(lake: Lake) -> Path:
        """score, which measures and checks the health of the rows by default."""
        return _score(lake, watch=True)


def table_of_numbers(cache: Path, rows: int) -> Dataset:
    """A table of 20 columns of numbers."""
    return numbers(cache, rows)


profiled = Case(
    name="profile",
    title="train gaussian_diagonal on 20 columns of Parquet",
    rows=1_000_000,
    prepare=table_of_numbers,
    unit="CPU s",
)
profiled_in_memory = Case(
    name="profile_memory",
    title="train gaussian_diagonal on 20 columns in memory",
    rows=1_000_000,
    prepare=table_of_numbers,
    unit="CPU s",
)


@profiled.implementation(UNPROFILED, is_baseline=True)
def file_without_profile(data: Dataset) -> None:
    """fit, whose profile of the columns is left empty."""
    with _without_profile():
        _fit(data, data.path)


@profiled.implementation(OURS)
def file_with_profile(data: Dataset) -> None:
    """fit, which counts nulls and finds the range of each column."""
    _fit(data, data.path)


@profiled_in_memory.implementation(UNPROFILED, is_baseline=True)
def memory_without_profile(data: Dataset) -> None:
    """fit, whose profile of the columns is left empty."""
    with _without_profile():
        _fit(data, _in_memory(data))


@profiled_in_memory.implementation(OURS)
def memory_with_profile(data: Dataset) -> None:
    """fit, which counts nulls and finds the range of each column."""
    _fit(data, _in_memory(data))


CASES = (watched, partitions, profiled, profiled_in_memory)


@contextmanager
def _without_profile() -> Iterator[None]:
    with patch(
        "probclass_core.estimation.statistics.profile_columns",
        lambda batch: empty_profile(batch.schema.names),
    ):
        yield


def _fit(data: Dataset, source: str | pa.Table) -> probclass_core.Model:
    block = probclass_core.Block("gaussian_diagonal", list(data.features))
    return probclass_core.fit(source, probclass_core.ModelSpec(LABEL, [block]))


@functools.cache
def _model(data: Dataset) -> probclass_core.Model:
    return _fit(data, data.path)


@functools.cache
def _in_memory(data: Dataset) -> pa.Table:
    return pq.read_table(data.path)
