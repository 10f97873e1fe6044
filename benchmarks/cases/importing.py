"""The import alone, in a new process."""

from __future__ import annotations

from benchmarks.case import OURS, Case, Target

PYARROW = "import pyarrow"
EVERYTHING = "probclass, all its names"

importing: Case[None] = Case(
    name="import",
    title="import in a new process",
    rows=0,
    prepare=lambda cache, rows: None,
    targets=(Target(1.3, PYARROW),),
    fresh=True,
)
CASES = (importing,)


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
