"""What is measured: a case, the contestants that do its work, and the bars they must clear.

A contestant is a plain function of the case's inputs, registered by a decorator::

    @train_diagonal.contestant("DuckDB SQL")
    def duckdb_sql(lake: Lake) -> Outcome:
        '''avg and var_pop, grouped by class.'''
        ...

Its body is what is timed. It is called once before time is taken, so imports and whatever a
`functools.cache` keeps (a fitted model, a tree) are not part of the figure, unless the case is
``fresh``. This module imports nothing heavy: a case may measure imports.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

Inputs = TypeVar("Inputs")

Outcome = Mapping[str, Any]
"""What a contestant found: name to a number or an array of numbers. Names that two contestants of
a case share mean the same thing in the same order."""

OURS = "probclass"


@dataclass(frozen=True)
class Contestant(Generic[Inputs]):
    """One way to do the work.

    Attributes:
        name: stands in the table.
        does: one line on how.
        run: the work; what it returns goes to `Case.outcome`.
        is_floor: does only the part of the work that nobody can do without, such as reading.
    """

    name: str
    does: str
    run: Callable[[Inputs], Any]
    is_floor: bool = False


@dataclass(frozen=True)
class Bar:
    """``contestant`` should take at most ``limit`` times what ``against`` takes."""

    limit: float
    against: str
    contestant: str = OURS


@dataclass
class Case(Generic[Inputs]):
    """A piece of work that contestants do side by side.

    Attributes:
        name: to ask for it by.
        title: what is done.
        rows: how many, unless the command line says otherwise.
        prepare: makes the inputs, given a cache directory and the rows; picklable.
        reference: the contestant whose outcome the others must equal; none where there is nothing
            to compare.
        bars: what is to be reached.
        unit: what is measured: seconds of a call, or the peak memory of its process in MB.
        fresh: a new process for every call, and no call beforehand.
        calls: calls per measurement, for work of milliseconds.
        tolerance: largest relative difference between equal outcomes.
        outcome: makes an `Outcome` of what a contestant returned; not timed.
        contestants: in the order of registration; the first floor is what ratios are taken to.
    """

    name: str
    title: str
    rows: int
    prepare: Callable[[Path, int], Inputs]
    reference: str | None = None
    bars: tuple[Bar, ...] = ()
    unit: Literal["s", "MB"] = "s"
    fresh: bool = False
    calls: int = 1
    tolerance: float = 1e-9
    outcome: Callable[[Inputs, Any], Outcome] = lambda inputs, returned: returned or {}
    contestants: dict[str, Contestant[Inputs]] = field(default_factory=dict)

    @property
    def floor(self) -> Contestant[Inputs]:
        """What ratios are taken to."""
        return next(one for one in self.contestants.values() if one.is_floor)

    def contestant(
        self, name: str, *, is_floor: bool = False
    ) -> Callable[[Callable[[Inputs], Any]], Callable[[Inputs], Any]]:
        """Register a function; the first line of its docstring says how it does the work."""

        def register(run: Callable[[Inputs], Any]) -> Callable[[Inputs], Any]:
            does = (run.__doc__ or "").partition("\n")[0].removesuffix(".")
            self.contestants[name] = Contestant(name, does, run, is_floor)
            return run

        return register
