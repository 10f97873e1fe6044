"""Fit or score generated rows, and print the peak memory of the process in MB.

Run as ``python memory_of_a_run.py fit|bins|score <rows> <folder>``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

import probclass_core as pc
from benchmarks.worker import peak_megabytes

BATCH = 50_000
SPEC = pc.ModelSpec(
    "label",
    {"gaussian_diagonal": ["a", "b", "c"], "gaussian_full": ["d", "e", "f"], "categorical": ["u"]},
)


def batch() -> pa.RecordBatch:
    noise = np.random.default_rng(0)
    numbers = {name: noise.normal(size=BATCH) for name in "abcdef"}
    labels = {"label": noise.choice(["p", "q", "r"], BATCH), "u": noise.choice(["N", "S"], BATCH)}
    return pa.record_batch({**numbers, **labels})


def stream(rows: int) -> pa.RecordBatchReader:
    """Return a reader of copies of one batch, so that batches that are kept take memory."""
    original = batch()

    def copies() -> Iterator[pa.RecordBatch]:
        for _ in range(rows // BATCH):
            columns = [pa.concat_arrays([column[:1], column[1:]]) for column in original.columns]
            yield pa.RecordBatch.from_arrays(columns, schema=original.schema)

    return pa.RecordBatchReader.from_batches(original.schema, copies())


def fit(rows: int, folder: Path) -> None:
    assert pc.fit(stream(rows), SPEC, workers=1).training["rows"] == rows


def bins(rows: int, folder: Path) -> None:
    """Fit an estimator whose statistics of a batch have about as many rows as the batch."""
    spec = pc.ModelSpec("label", [pc.Block("discretized", list("abcdef"))])
    assert pc.fit(stream(rows), spec, workers=1).training["rows"] == rows


def score(rows: int, folder: Path) -> None:
    """Score, and read the scored table back."""
    model = pc.fit(stream(BATCH), SPEC)
    assert pc.score(model, stream(rows), folder / "scored", workers=1).rows == rows
    assert pc.evaluate(model, folder / "scored", workers=1).rows == rows
    assert pc.fit(folder / "scored", SPEC, workers=1).training["rows"] == rows


if __name__ == "__main__":
    {"fit": fit, "bins": bins, "score": score}[sys.argv[1]](int(sys.argv[2]), Path(sys.argv[3]))
    sys.stdout.write(f"{peak_megabytes()}\n")
