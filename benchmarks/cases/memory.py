"""Peak memory of a process that trains or scores, on a tenth of the rows and on all of them.

With streaming the two are equal. The figure is that of a new process, including imports.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

import probclass_core
from benchmarks.case import Case, Outcome, Target
from benchmarks.cases.train_gaussian import fit
from benchmarks.datasets import ID, LABEL, ROW_GROUP, Dataset, numbers

TENTH, ALL = "probclass, a tenth of the rows", "probclass, all rows"


@dataclass(frozen=True)
class Lengths:
    """The same table in two lengths."""

    short: Dataset
    long: Dataset


def lengths(cache: Path, rows: int) -> Lengths:
    """Two tables, the first a tenth as long as the second."""
    return Lengths(numbers(cache, max(rows // 10, 1)), numbers(cache, rows))


def memory_case(name: str, title: str) -> Case[Lengths]:
    """A case that measures memory."""
    return Case(
        name=f"memory_{name}",
        title=f"peak memory, {title}",
        rows=10_000_000,
        prepare=lengths,
        unit="MB",
        fresh=True,
        targets=(Target(1.05, TENTH, ALL),),
    )


def train(data: Dataset) -> Outcome:
    """Fit only."""
    model = fit(data.path, data.features, "gaussian_diagonal")
    assert model.training["rows"] == data.rows
    return {}


def score(data: Dataset) -> Outcome:
    """Fit on the first rows, score all rows."""
    # A dataset's head() reads far ahead, so that it would set the peak.
    sample = (
        pq.ParquetFile(data.path).read_row_group(0, columns=data.columns).slice(0, ROW_GROUP // 4)
    )
    model = fit(sample, data.features, "gaussian_diagonal")
    path = data.scratch("scored")
    report = probclass_core.score(model, data.path, path, options={"columns": [ID, LABEL]})
    path.unlink()
    assert report.rows == data.rows
    return {}


def register(case: Case[Lengths], work: Callable[[Dataset], Outcome]) -> None:
    """Register the work on each of the tables."""

    @case.implementation(TENTH, is_baseline=True)
    def on_a_tenth(tables: Lengths) -> Outcome:
        """all threads."""
        return work(tables.short)

    @case.implementation(ALL)
    def on_all(tables: Lengths) -> Outcome:
        """all threads."""
        return work(tables.long)


memory_train = memory_case("train", "train gaussian_diagonal from Parquet")
memory_score = memory_case("score", "score gaussian_diagonal to Parquet")
register(memory_train, train)
register(memory_score, score)
CASES = (memory_train, memory_score)
