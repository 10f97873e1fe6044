"""Retrain on a window of ninety days after one new day: kept statistics beside reading it all.

The floor is the fit that reads every day. The store of the others holds the statistics of the days
that they are to find there; what a call adds is taken away before the next.
"""

from __future__ import annotations

import functools
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import probclass_core as pc
from benchmarks.case import Bar, Case, Outcome
from benchmarks.cases.train_gaussian import told
from benchmarks.lake import LABEL, numbers

DAYS = 90
COLD, NEW_DAY, NOTHING_NEW = "every day read", "probclass, one new day", "probclass, no new day"


@dataclass(frozen=True)
class Days:
    """A lake of one file a day.

    Attributes:
        path: of the lake.
        features: the feature columns.
    """

    path: str
    features: tuple[str, ...]

    @property
    def spec(self) -> pc.ModelSpec:
        """A normal for each class and feature."""
        return pc.ModelSpec(LABEL, [pc.Block("gaussian_diagonal", list(self.features))])


def days(cache: Path, rows: int) -> Days:
    """The generated table of that many rows, cut into days."""
    whole = numbers(cache, rows)
    root = Path(whole.path.removesuffix(".parquet") + "-by-day")
    if not root.exists():
        unfinished = root.with_name(f"_{root.name}")
        daily = -(-rows // DAYS)
        batches = pq.ParquetFile(whole.path).iter_batches(daily, columns=whole.columns)
        for day, batch in enumerate(batches):
            folder = unfinished / f"day={day:03d}"
            folder.mkdir(parents=True, exist_ok=True)
            table = pa.Table.from_batches([batch])
            pq.write_table(table, folder / "rows.parquet", use_dictionary=[LABEL])
        unfinished.rename(root)
    return Days(str(root), whole.features)


retrain: Case[Days] = Case(
    name="retrain",
    title="train gaussian_diagonal on 90 daily files after one new day",
    rows=9_000_000,
    prepare=days,
    reference=COLD,
    bars=(Bar(0.05, COLD, NEW_DAY),),
    tolerance=0.0,
)
CASES = (retrain,)


@functools.cache
def kept(given: Days) -> tuple[Path, frozenset[Path]]:
    """A store of the statistics of all days but the last one, and its files."""
    folder = tempfile.TemporaryDirectory(dir=Path(given.path).parent)
    _stores.append(folder)
    store = Path(folder.name)
    last = sorted(path.name for path in Path(given.path).iterdir())[-1].removeprefix("day=")
    pc.summarize(given.path, given.spec, where=[("day", "!=", last)], cache=store)
    return store, frozenset(store.rglob("*.pack"))


_stores: list[tempfile.TemporaryDirectory[str]] = []
"""Removed when the process ends."""


@retrain.contestant(COLD, is_floor=True)
def read_everything(given: Days) -> Outcome:
    """fit without a cache, all threads."""
    return told(pc.fit(given.path, given.spec))


@retrain.contestant(NEW_DAY)
def after_one_new_day(given: Days) -> Outcome:
    """fit with a cache that knows all days but one."""
    store, before = kept(given)
    for added in {*store.rglob("*.pack")} - before:
        added.unlink()
    model = pc.fit(given.path, given.spec, cache=store)
    assert model.training["cache"] == {"fragments": DAYS, "reused": DAYS - 1}
    return told(model)


@retrain.contestant(NOTHING_NEW)
def nothing_new(given: Days) -> Outcome:
    """fit with a cache that knows them all: what planning, loading and merging cost."""
    return told(pc.fit(given.path, given.spec, cache=kept(given)[0]))


@retrain.contestant("the new day alone", is_floor=True)
def one_day(given: Days) -> None:
    """fit of one day without a cache, for comparison."""
    pc.fit(given.path, given.spec, partition={"day": 0})
