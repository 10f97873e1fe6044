"""Parse DAG files in a new process, as Airflow's DAG processor does."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from benchmarks.case import OURS, Case, Target

DAGS = Path(__file__).parents[2] / "dags"
SDK = "import airflow.sdk"

parsing: Case[None] = Case(
    name="parse",
    title="parse all example DAGs in a new process",
    rows=0,
    prepare=lambda cache, rows: None,
    targets=(Target(1.5, SDK),),
    fresh=True,
)
CASES = (parsing,)


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
