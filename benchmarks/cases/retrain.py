"""Retrain on a window of ninety days after one new day, with and without cached statistics.

The baseline is a fit that reads every day. The others use a store with the statistics of earlier
days; what a call adds to the store is removed before the next call.
"""

from __future__ import annotations

import functools
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import probclass_core as pc
from benchmarks.case import Case, Outcome, Target
from benchmarks.cases.train_gaussian import moments
from benchmarks.datasets import LABEL, cached, numbers

DAYS = 90
COLD, NEW_DAY, NOTHING_NEW = "every day read", "probclass, one new day", "probclass, no new day"


@dataclass(frozen=True)
class Days:
    """A table with one file per day.

    Attributes:
        path: root directory.
        features: names of the feature columns.
    """

    path: str
    features: tuple[str, ...]

    @property
    def spec(self) -> pc.ModelSpec:
        """A normal for each class and feature."""
        return pc.ModelSpec(LABEL, [pc.Block("gaussian_diagonal", list(self.features))])


def daily(cache: Path, rows: int) -> Days:
    """The generated table of that many rows, divided into days."""
    data = numbers(cache, rows)
    root = Path(data.path.removesuffix(".parquet") + "-by-day")

    def divide(root: Path) -> None:
        size = -(-rows // DAYS)
        batches = pq.ParquetFile(data.path).iter_batches(size, columns=data.columns)
        for day, batch in enumerate(batches):
            folder = root / f"day={day:03d}"
            folder.mkdir(parents=True)
            table = pa.Table.from_batches([batch])
            pq.write_table(table, folder / "rows.parquet", use_dictionary=[LABEL])

    cached(root, divide)
    return Days(str(root), data.features)


retrain: Case[Days] = Case(
    name="retrain",
    title="train gaussian_diagonal on 90 daily files after one new day",
    rows=9_000_000,
    prepare=daily,
    reference=COLD,
    targets=(Target(0.03, COLD, NEW_DAY),),
    tolerance=0.0,
)
CASES = (retrain,)


@functools.cache
def filled_store(days: Days) -> tuple[Path, frozenset[Path]]:
    """A store with the statistics of all days but the last, and the files in it."""
    folder = tempfile.TemporaryDirectory(dir=Path(days.path).parent)
    _stores.append(folder)
    store = Path(folder.name)
    last = sorted(path.name for path in Path(days.path).iterdir())[-1].removeprefix("day=")
    pc.summarize(days.path, days.spec, where=[("day", "!=", last)], cache=store)
    return store, frozenset((store / "_statistics").rglob("*.arrow"))


_stores: list[tempfile.TemporaryDirectory[str]] = []
"""Stores to remove when the process ends."""


@retrain.implementation(COLD, is_baseline=True)
def read_everything(days: Days) -> Outcome:
    """fit without a cache, all threads."""
    return moments(pc.fit(days.path, days.spec))


@retrain.implementation(NEW_DAY)
def after_one_new_day(days: Days) -> Outcome:
    """fit with a cache of all days but one."""
    store, before = filled_store(days)
    for added in {*(store / "_statistics").rglob("*.arrow")} - before:
        added.unlink()
    model = pc.fit(days.path, days.spec, cache=store)
    assert model.training["cache"] == {"units": DAYS, "reused": DAYS - 1}
    return moments(model)


@retrain.implementation(NOTHING_NEW)
def nothing_new(days: Days) -> Outcome:
    """fit with a cache of all days, which plans, loads and merges."""
    return moments(pc.fit(days.path, days.spec, cache=filled_store(days)[0]))


@retrain.implementation("the new day alone", is_baseline=True)
def one_day(days: Days) -> None:
    """fit of one day without a cache, for comparison."""
    pc.fit(days.path, days.spec, partition={"day": 0})
