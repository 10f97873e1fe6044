"""Print the peak memory, in MB, of fitting and scoring the words of a Parquet file.

Run as ``python measure_text_memory.py <file> <estimator>``; the table itself does not count.
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
    sample = table.take(list(range(0, table.num_rows, 100)))
    pc.fit(sample, spec).predict(sample)  # imports of a first run do not count
    before = peak_megabytes()
    pc.fit(table, spec).predict(table)
    sys.stdout.write(f"{peak_megabytes() - before}\n")
