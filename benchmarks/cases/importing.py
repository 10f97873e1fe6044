"""The import alone, in a process that has imported neither."""

from __future__ import annotations

from benchmarks.case import OURS, Bar, Case

PYARROW = "import pyarrow"
EVERYTHING = "probclass, all its names"

importing: Case[None] = Case(
    name="import",
    title="import in a new process",
    rows=0,
    prepare=lambda cache, rows: None,
    bars=(Bar(1.3, PYARROW),),
    fresh=True,
)
CASES = (importing,)


@importing.contestant(PYARROW, is_floor=True)
def pyarrow(inputs: None) -> None:
    """import pyarrow."""
    import pyarrow  # noqa: F401


@importing.contestant(OURS)
def probclass(inputs: None) -> None:
    """import probclass_core."""
    import probclass_core  # noqa: F401


@importing.contestant(EVERYTHING)
def probclass_at_work(inputs: None) -> None:
    """All that a fit or a score loads."""
    from probclass_core import fit, score  # noqa: F401
