"""Import probclass, and parse the example DAGs as Airflow does, each in a new process."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from benchmarks.case import OURS, Case, Target

DAGS = Path(__file__).parents[2] / "dags"
PYARROW = "import pyarrow"
EVERYTHING = "probclass, all its names"
SDK = "import airflow.sdk"


def startup_case(name: str, title: str, target: Target) -> Case[None]:
    """A case without inputs that runs in a new process."""
    return Case(name, title, 0, lambda cache, rows: None, targets=(target,), fresh=True)


importing = startup_case("import", "import in a new process", Target(1.3, PYARROW))
parsing = startup_case("parse", "parse all example DAGs in a new process", Target(1.5, SDK))
CASES = (importing, parsing)


@importing.implementation(PYARROW, is_baseline=True)
def pyarrow(inputs: None) -> None:
    """import pyarrow."""
    import pyarrow  # noqa: F401


@importing.implementation(OURS)
def probclass(inputs: None) -> None:
    """import probclass_core."""
    import probclass_core  # noqa: F401


@importing.implementation(EVERYTHING)
def fit_and_score(inputs: None) -> None:
    """import what fit and score need."""
    from probclass_core import fit, score  # noqa: F401


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
