"""Score a wide table with the health of its rows, and without."""

from __future__ import annotations

import functools
from pathlib import Path

import probclass_core
from benchmarks.case import OURS, Case, Outcome, Target
from benchmarks.datasets import LABEL, Dataset, numbers

PLAIN = "probclass, watch=False"

FEATURES = 100


def table(cache: Path, rows: int) -> Dataset:
    """A table of 100 columns of numbers."""
    return numbers(cache, rows, FEATURES)


def means(data: Dataset, file: Path) -> Outcome:
    """Number of rows of the scored file, which is then removed."""
    (commit,) = probclass_core.commits(file)
    file.unlink()
    return {"rows": commit["rows"]}


watched = Case(
    name="watch",
    title="score 100 columns with their health",
    rows=1_000_000,
    prepare=table,
    targets=(Target(1.15, PLAIN),),
    outcome=means,
)
CASES = (watched,)


@watched.implementation(PLAIN, is_baseline=True)
def plain(data: Dataset) -> Path:
    """score with watch=False."""
    return _score(data, watch=False)


@watched.implementation(OURS)
def with_health(data: Dataset) -> Path:
    """score, which measures the health of the rows by default."""
    return _score(data, watch=True)


def _score(data: Dataset, *, watch: bool) -> Path:
    file = Path(data.path).with_name(f"watched-{watch}.parquet")
    probclass_core.score(_model(data), data.path, file, watch=watch)
    return file


@functools.cache
def _model(data: Dataset) -> probclass_core.Model:
    block = probclass_core.Block("gaussian_diagonal", list(data.features))
    return probclass_core.fit(data.path, probclass_core.ModelSpec(LABEL, [block]))
