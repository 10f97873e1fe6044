"""A small lake partitioned by month, models of it, and the columns of its scored tables."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import pyarrow as pa
from lakes import write_rows

import probclass_core as pc

SPEC = pc.ModelSpec("air", {"gaussian_full": ["x", "y"], "categorical": ["wind"]})
SCORED = ("prediction", "probability", "p_bad", "p_good", "log_density", "model_id")


def rows_of(seed: int, rows: int = 40) -> pa.Table:
    """Return rows of one month: an id, features with nulls, and the label."""
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


def write_lake(root: Path, *months: str) -> Path:
    """Write a partition of two files for each month."""
    for seed, month in enumerate(months):
        write_rows(root / f"month={month}", rows_of(seed), rows_of(100 + seed, rows=7))
    return root


@functools.cache
def model(seed: int = 50) -> pc.Model:
    """Return the model of a seed; models of different seeds differ."""
    return pc.fit(rows_of(seed, rows=200), SPEC)
