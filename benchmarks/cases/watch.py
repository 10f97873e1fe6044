"""What the health of scored rows costs, in processor time."""

from __future__ import annotations

import functools
from pathlib import Path

import probclass_core
from benchmarks.case import OURS, Case, Outcome, Target
from benchmarks.cases.train_gaussian import fit
from benchmarks.datasets import Dataset, numbers

UNWATCHED = "probclass, watch=False"


def wide(cache: Path, rows: int) -> Dataset:
    """A file of 100 columns of numbers."""
    return numbers(cache, rows, 100)


watched: Case[Dataset] = Case(
    name="watch",
    title="score 100 columns of one file, without copying any",
    rows=1_000_000,
    prepare=wide,
    targets=(Target(1.15, UNWATCHED),),
    unit="CPU s",
)
CASES = (watched,)


@watched.implementation(UNWATCHED, is_baseline=True)
def plain(data: Dataset) -> Outcome:
    """score with watch=False."""
    return _score(data, watch=False)


@watched.implementation(OURS)
def with_health(data: Dataset) -> Outcome:
    """score, which measures and checks the health of the rows by default."""
    return _score(data, watch=True)


def _score(data: Dataset, *, watch: bool) -> Outcome:
    sink = data.scratch("watched")
    report = probclass_core.score(
        _model(data), data.path, sink, options={"columns": [], "watch": watch}
    )
    sink.unlink()
    return {"rows": report.rows}


@functools.cache
def _model(data: Dataset) -> probclass_core.Model:
    return fit(data.path, data.features, "gaussian_diagonal")
