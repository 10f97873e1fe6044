"""Fits and scores the words of a Parquet file, and tells how much memory that took at most, in MB.

Run as ``python memory_of_words.py <file> <estimator>``; the table itself is not counted.
"""

from __future__ import annotations

import sys

import pyarrow.parquet as pq

import probclass_core as pc
from benchmarks.worker import peak_megabytes

if __name__ == "__main__":
    path, estimator = sys.argv[1:]
    table = pq.read_table(path, memory_map=True)
    spec = pc.ModelSpec("package", [pc.Block(estimator, ["words"])])
    few = table.take(list(range(0, table.num_rows, 100)))
    pc.fit(few, spec).predict(few)  # what a first run imports is not counted
    before = peak_megabytes()
    pc.fit(table, spec).predict(table)
    sys.stdout.write(f"{peak_megabytes() - before}\n")
