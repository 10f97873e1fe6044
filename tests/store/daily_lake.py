"""A table of one file a day, fits with cached statistics, and counts of the rows they read."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pytest

import probclass_core as pc
from probclass_core.io.open import open_table
from probclass_core.io.table import Footer, Plan, Source, Unit
from probclass_core.store.statistics_cache import decode_pack

SPEC = pc.ModelSpec("air", {"gaussian_full": ["x", "y"], "categorical": ["wind"]}, weight="w")
DAYS = [f"2014-01-{day:02d}" for day in range(1, 9)]


def rows_of(seed: int, rows: int = 60) -> pa.Table:
    noise = np.random.default_rng(seed)
    good = noise.random(rows) < 0.5
    return pa.table(
        {
            "x": noise.normal(np.where(good, 1.0, -1.0), 1e3),
            "y": noise.normal(size=rows),
            "wind": pa.array(noise.choice(["N", "S"], rows), mask=noise.random(rows) < 0.1),
            "w": noise.random(rows),
            "air": np.where(good, "good", "bad"),
        }
    )


def footers_of(plan: Plan) -> dict[str, Footer]:
    """The footers that a plan has read, as a cache."""
    return {footer.file: footer for footers in plan.footers for footer in footers}


class CountingTable(Source):
    """A table that counts the rows read from it."""

    def __init__(self, path: Path) -> None:
        self.path, self.rows = path, 0
        self.cache: Mapping[str, Footer] = {}
        table = open_table(path)
        self.uri, self.partition_columns = table.uri, table.partition_columns

    @property
    def schema(self) -> pa.Schema:
        return open_table(self.path).schema

    def partitions(self, where: Any = None) -> Any:
        return open_table(self.path).partitions(where)

    def with_footer_cache(self, cache: Mapping[str, Footer]) -> CountingTable:
        self.cache = cache
        return self

    def plan(self, *columns: Any, **options: Any) -> Plan:
        plan = open_table(self.path).with_footer_cache(self.cache).plan(*columns, **options)
        units = [CountingUnit(unit.digest, self, unit) for unit in plan.units]
        return dataclasses.replace(plan, units=units)


@dataclasses.dataclass
class CountingUnit(Unit):
    """A unit that adds the rows read to the count of its table."""

    digest: str | None
    table: CountingTable
    unit: Unit

    def read(self) -> Iterator[pa.RecordBatch]:
        for batch in self.unit.read():
            self.table.rows += batch.num_rows
            yield batch


def fit_and_count(
    lake: Path, store: object, spec: pc.ModelSpec = SPEC, **rows: Any
) -> tuple[int, int]:
    """Fit with the cache and check the model; the numbers of rows read and units reused."""
    source = CountingTable(lake)
    model = pc.fit(source, spec, cache=store, workers=2, **rows)
    without = pc.fit(lake, spec, **rows)
    assert model.id == without.id
    for count in ("rows", "null_labels"):
        assert model.training[count] == without.training[count]
    return source.rows, model.training["cache"]["reused"]


def days_between(first: str, last: str) -> list[tuple[str, str, str]]:
    return [("day", ">=", first), ("day", "<=", last)]


def units(store: pc.ModelStore) -> list[str]:
    """The units that have cached statistics of any model."""
    opened = (decode_pack(path.read_bytes(), path.stem, str(path)) for path in packs(store))
    return [unit for _, entries in opened for unit in sorted(entries)]


def packs(store: pc.ModelStore) -> list[Path]:
    """The files of cached statistics, the largest first."""
    paths = Path(store.uri, "_statistics").rglob("*.arrow")
    return sorted(paths, key=lambda path: -path.stat().st_size)


def warnings_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
