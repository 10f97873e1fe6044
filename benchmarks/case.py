"""What is measured: a case, the implementations that do its work, and its targets.

An implementation is a plain function of the case's inputs, registered by a decorator::

    @train_diagonal.implementation("DuckDB SQL")
    def duckdb_sql(data: Dataset) -> Outcome:
        '''avg and var_pop, grouped by class.'''
        ...

The body of the function is timed. The function is called once before the timing starts, so imports
and what `functools.cache` caches (a fitted model, a tree) do not count, unless the case is
``fresh``. This module imports nothing heavy, because a case may measure imports.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

Inputs = TypeVar("Inputs")

Outcome = Mapping[str, Any]
"""What an implementation computed: a number or an array of numbers by name. If two implementations
of a case give the same name, its values must be equal."""

OURS = "probclass"
NUMPY = "probclass, NumPy alone"


@dataclass(frozen=True)
class Implementation(Generic[Inputs]):
    """One way to do the work of a case.

    Attributes:
        name: name in the table of results.
        description: one line on how it does the work.
        run: function that does the work; `Case.outcome` takes what it returns.
        is_baseline: whether it does only the part of the work that cannot be avoided, such as
            reading.
    """

    name: str
    description: str
    run: Callable[[Inputs], Any]
    is_baseline: bool = False


@dataclass(frozen=True)
class Target:
    """An implementation should take at most ``limit`` times as long as another.

    Attributes:
        limit: largest ratio that meets the target.
        against: name of the other implementation, or names, of which the fastest counts.
        implementation: name of the implementation.
    """

    limit: float
    against: str | tuple[str, ...]
    implementation: str = OURS

    @property
    def rivals(self) -> tuple[str, ...]:
        """The names of the others."""
        return (self.against,) if isinstance(self.against, str) else self.against


@dataclass
class Case(Generic[Inputs]):
    """A piece of work, and the implementations of it to compare.

    Attributes:
        name: name on the command line.
        title: description of the work.
        rows: number of rows, unless the command line sets it.
        prepare: function that makes the inputs from a cache directory and the number of rows; the
            inputs must be picklable.
        reference: name of the implementation whose outcome the others must equal, or None if there
            is nothing to compare.
        targets: targets to meet.
        unit: what is measured: seconds per call, or seconds of processor time per call.
        fresh: whether each call runs in a new process, without a call to warm up.
        tolerance: largest relative difference between equal outcomes.
        outcome: function that makes an `Outcome` of what an implementation returned; not timed.
        implementations: implementations by name, in the order of registration; ratios are taken to
            the first baseline.
    """

    name: str
    title: str
    rows: int
    prepare: Callable[[Path, int], Inputs]
    reference: str | None = None
    targets: tuple[Target, ...] = ()
    unit: Literal["s", "CPU s"] = "s"
    fresh: bool = False
    tolerance: float = 1e-9
    outcome: Callable[[Inputs, Any], Outcome] = lambda inputs, returned: returned or {}
    implementations: dict[str, Implementation[Inputs]] = field(default_factory=dict)

    @property
    def baseline(self) -> Implementation[Inputs]:
        """The implementation that ratios are taken to."""
        return next(each for each in self.implementations.values() if each.is_baseline)

    def implementation(
        self, name: str, *, is_baseline: bool = False
    ) -> Callable[[Callable[[Inputs], Any]], Callable[[Inputs], Any]]:
        """Register a function, described by the first line of its docstring."""

        def register(run: Callable[[Inputs], Any]) -> Callable[[Inputs], Any]:
            description = (run.__doc__ or "").partition("\n")[0].removesuffix(".")
            self.implementations[name] = Implementation(name, description, run, is_baseline)
            return run

        return register
