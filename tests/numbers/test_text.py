"""Text with thousands of documents and terms takes little memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from python_processes import output_of_python

RUN = """
import sys
import pyarrow.parquet as pq
import probclass_core as pc
from benchmarks.worker import peak_megabytes

path, estimator = sys.argv[1:]
table = pq.read_table(path, memory_map=True)
spec = pc.ModelSpec("package", [pc.Block(estimator, ["words"])])
sample = table.take(list(range(0, table.num_rows, 100)))
pc.fit(sample, spec).predict(sample)  # imports of a first run do not count
before = peak_megabytes()
pc.fit(table, spec).predict(table)
print(peak_megabytes() - before)
"""


@pytest.mark.nightly
@pytest.mark.parametrize("estimator", ["bernoulli", "multinomial"])
def test_memory_grows_with_the_words_not_with_rows_times_terms(
    estimator: str, tmp_path: Path
) -> None:
    rows, terms, path = 10_000, 5_000, tmp_path / "words.parquet"
    words = np.random.default_rng(0).integers(0, terms, (rows, 20)).astype(str).tolist()
    pq.write_table(pa.table({"words": words, "package": ["a", "b"] * (rows // 2)}), path)
    dense = rows * terms * 8 / 2**20
    taken = float(output_of_python("-c", RUN, path, estimator))
    assert taken < 150 * 20 * rows / 2**20 < dense / 10
