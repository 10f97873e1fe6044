"""Two lakes and a scored table for tests of damage, and the rows that readers may see.

A table is scored from the lake ``old``; ``new`` replaces a partition of it by the rows of another
model.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from backends import BACKENDS
from lakes import write_rows
from monthly_lake import model, rows_of

import probclass_core as pc
from probclass_core.scoring.reports import ScoreReport

FORMATS = ("parquet", "delta", "iceberg")
MONTH = {"month": "2014-02"}
SIZES = {"old": 400, "new": 600}
"""Rows of that month by lake."""
SEEDS = {"old": 50, "new": 51}
"""Seeds of the models that score the lakes."""


def set_up(folder: Path, sink: pc.TableRef) -> None:
    """Write the lakes, and score ``old``."""
    for which, rows in SIZES.items():
        for month, table in (("2014-01", rows_of(1)), ("2014-02", rows_of(2, rows))):
            write_rows(folder / which / f"month={month}", table)
    pc.score(model(SEEDS["old"]), folder / "old", sink)


def replace_new(folder: Path, rows: int = SIZES["new"]) -> Path:
    """Replace the rows of February of ``new``, and return the path of their file."""
    return write_rows(folder / "new" / "month=2014-02", rows_of(2, rows)) / "0.parquet"


def score(folder: Path, sink: pc.TableRef, which: str) -> ScoreReport:
    """Score a lake, which replaces the partition."""
    return pc.score(model(SEEDS[which]), folder / which, sink, partition=MONTH, workers=1)


def state(table: pa.Table) -> str:
    """Return which rows the partition has; check that it has all, and the other one its own."""
    found: dict[tuple[str, str], list[int]] = {}
    for row in table.select(["month", "model_id", "id"]).sort_by("id").to_pylist():
        found.setdefault((row["month"], row["model_id"]), []).append(row["id"])
    old, new = (model(SEEDS[which]).id for which in SEEDS)
    assert found.pop(("2014-01", old)) == list(range(1_000, 1_040))
    [((_, model_id), ids)] = found.items()
    name = {old: "old", new: "new"}[model_id]
    assert ids == list(range(2_000, 2_000 + SIZES[name]))
    return name


def states(folder: Path, name: str) -> set[str]:
    """Return what probclass and other tools see."""
    backend = BACKENDS[name](folder)
    readers = (backend.read, *backend.others.values())
    return {state(read("scored")) for read in readers}
