"""Fit for the first time, and parse the example DAGs, each in a new process.

Modules are compiled before, as by an installation.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from benchmarks.case import OURS, Case, Outcome, Target

DAGS = Path(__file__).parents[2] / "dags"
READ = "import pyarrow.parquet, one read"
SDK = "import airflow.sdk"


def small_file(cache: Path, rows: int) -> Path:
    """A Parquet file of four numbers and a label."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    from benchmarks.datasets import cached

    path = cache / f"small-{rows}.parquet"
    x = np.random.default_rng(0).standard_normal((4, rows))
    table = pa.table({**{f"x{j}": column for j, column in enumerate(x)}, "label": x[0] > 0})
    cached(path, lambda unfinished: pq.write_table(table, unfinished))
    return path


first_fit: Case[Path] = Case(
    name="first_fit",
    title="first fit of a process, with imports",
    rows=10_000,
    prepare=small_file,
    targets=(Target(1.5, READ),),
    fresh=True,
)
parsing: Case[None] = Case(
    name="parse",
    title="parse all example DAGs in a new process",
    rows=0,
    prepare=lambda cache, rows: None,
    targets=(Target(1.5, SDK),),
    fresh=True,
)
CASES = (first_fit, parsing)


@first_fit.implementation(READ, is_baseline=True)
def first_read(path: Path) -> Outcome:
    """pyarrow.parquet.read_table."""
    import pyarrow.parquet as pq

    return {"rows": pq.read_table(path).num_rows}


@first_fit.implementation(OURS)
def fit_at_once(path: Path) -> Outcome:
    """fit of gaussian_diagonal."""
    import probclass_core as pc

    features = ["x0", "x1", "x2", "x3"]
    model = pc.fit(path, pc.ModelSpec("label", [pc.Block("gaussian_diagonal", features)]))
    return {"rows": model.training["rows"]}


@parsing.implementation(SDK, is_baseline=True)
def sdk(inputs: None) -> None:
    """import airflow.sdk, as any DAG file does."""
    import airflow.sdk  # noqa: F401


@parsing.implementation(OURS)
def example_dags(inputs: None) -> None:
    """Import every file of dags/."""
    sys.path.append(str(DAGS))
    for path in sorted(DAGS.glob("*.py")):
        importlib.import_module(path.stem)
