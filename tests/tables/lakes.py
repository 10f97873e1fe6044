"""A small lake of months, two models of it, and what a scored table of theirs must hold."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import probclass_core as pc

SPEC = pc.ModelSpec(
    "air",
    [pc.Block("gaussian_full", ["x", "y"]), pc.Block("categorical", ["wind"])],
)
SCORED = ("prediction", "probability", "p_bad", "p_good", "log_density", "model_id")


def rows_of(seed: int, rows: int = 40) -> pa.Table:
    """Rows of one month: an id, features with gaps, and the label."""
    noise = np.random.default_rng(seed)
    good = noise.random(rows) < 0.5
    return pa.table(
        {
            "id": pa.array(1000 * seed + np.arange(rows)),
            "x": pa.array(noise.normal(np.where(good, 1.0, -1.0)), mask=noise.random(rows) < 0.1),
            "y": noise.normal(size=rows) + good,
            "wind": pa.array(noise.choice(["N", "S"], rows), mask=noise.random(rows) < 0.1),
            "air": np.where(good, "good", "bad"),
        }
    )


def write_rows(folder: Path, *parts: pa.Table) -> Path:
    """The parts as the Parquet files of a folder, instead of those that it held."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    for number, part in enumerate(parts):
        pq.write_table(part, folder / f"{number}.parquet")
    return folder


def write_lake(root: Path, *months: str) -> Path:
    """A partition of two files for each month, named by it."""
    for seed, month in enumerate(months):
        write_rows(root / f"month={month}", rows_of(seed), rows_of(100 + seed, rows=7))
    return root


@functools.cache
def model(seed: int = 50) -> pc.Model:
    """A model; another seed, another model."""
    return pc.fit(rows_of(seed, rows=200), SPEC)


def contents(root: Path) -> dict[str, tuple[str, int]]:
    """Digest and time of change of every file below, by its path."""
    return {
        path.relative_to(root).as_posix(): (
            hashlib.sha256(path.read_bytes()).hexdigest(),
            path.stat().st_mtime_ns,
        )
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }
