"""Text with thousands of documents and terms takes little memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

RUN = Path(__file__).parent / "measure_text_memory.py"


@pytest.mark.nightly
@pytest.mark.parametrize("estimator", ["bernoulli", "multinomial"])
def test_memory_grows_with_the_words_not_with_rows_times_terms(
    estimator: str, tmp_path: Path
) -> None:
    rows, terms, path = 10_000, 5_000, tmp_path / "words.parquet"
    words = np.random.default_rng(0).integers(0, terms, (rows, 20)).astype(str).tolist()
    pq.write_table(pa.table({"words": words, "package": ["a", "b"] * (rows // 2)}), path)
    run = subprocess.run(
        [sys.executable, RUN, path, estimator],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    dense = rows * terms * 8 / 2**20
    assert float(run.stdout) < 150 * 20 * rows / 2**20 < dense / 10
