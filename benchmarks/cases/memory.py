"""Peak memory of a process that trains or scores, on a tenth of the rows and on all of them.

Streaming means that the two are equal. The figure is of a whole new process, imports included.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

import probclass_core
from benchmarks.case import Bar, Case, Outcome
from benchmarks.cases.train_gaussian import fitted
from benchmarks.lake import ID, LABEL, ROW_GROUP, Lake, numbers

TENTH, ALL = "probclass, a tenth of the rows", "probclass, all rows"


@dataclass(frozen=True)
class Ladder:
    """The same table, short and long."""

    short: Lake
    long: Lake


def ladder(cache: Path, rows: int) -> Ladder:
    """Two tables, the first a tenth of the second."""
    return Ladder(numbers(cache, max(rows // 10, 1)), numbers(cache, rows))


def case(name: str, title: str) -> Case[Ladder]:
    """A memory case."""
    return Case(
        name=f"memory_{name}",
        title=f"peak memory, {title}",
        rows=10_000_000,
        prepare=ladder,
        unit="MB",
        fresh=True,
        bars=(Bar(1.1, TENTH, ALL),),
    )


def train(lake: Lake) -> Outcome:
    """Fit, and nothing else."""
    model = fitted(lake.path, lake.features, "gaussian_diagonal")
    assert model.training["rows"] == lake.rows
    return {}


def score(lake: Lake) -> Outcome:
    """Fit the first rows, score all."""
    # Not by a dataset's head(), which reads far ahead and would be the peak.
    sample = (
        pq.ParquetFile(lake.path).read_row_group(0, columns=lake.columns).slice(0, ROW_GROUP // 4)
    )
    model = fitted(sample, lake.features, "gaussian_diagonal")
    path = lake.scratch("scored")
    report = probclass_core.score(model, lake.path, path, columns=[ID, LABEL])
    path.unlink()
    assert report.rows == lake.rows
    return {}


def both(measured: Case[Ladder], work: Callable[[Lake], Outcome]) -> None:
    """Register the work on both tables."""

    @measured.contestant(TENTH, is_floor=True)
    def on_a_tenth(tables: Ladder) -> Outcome:
        """all threads."""
        return work(tables.short)

    @measured.contestant(ALL)
    def on_all(tables: Ladder) -> Outcome:
        """all threads."""
        return work(tables.long)


memory_train = case("train", "train gaussian_diagonal from Parquet")
memory_score = case("score", "score gaussian_diagonal to Parquet")
both(memory_train, train)
both(memory_score, score)
CASES = (memory_train, memory_score)
