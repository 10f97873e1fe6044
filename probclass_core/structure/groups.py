"""Groups of three or more columns that say about the class what no fewer of them say.

A group S acts together if the classes of the rows are more probable by its own cells than by those
of fewer columns, whichever column z of the group is left out or taken by itself:

    q ∝ P(c | S without z) P(c | z) / P(c)        z acts apart
    q = P(c | S without z)                        z adds nothing

The gain of a group is the least difference, over these, between the log-likelihood of the classes
by q and that by

    P(c | S) = (n_c(S) − 1 + s q_c) / (n(S) − 1 + s),

for which each row is left out of its own cell. The cells of columns that act apart only add noise,
so that their gain is negative. Groups of four grow from the best groups of three, and so on.

A group has one column of bins at most. How several numbers act together, normal densities and those
of neighbors say more smoothly; cells of their bins also fit what the rows of one season or batch
have in common, and lose on those of another.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from probclass_core.arrow.arrays import FloatArray
from probclass_core.structure.levels import Levels

_MOST_COLUMNS = 16
"""Columns of groups: those that say most about the class; 560 groups of three."""

_MOST_SIZE = 5
"""Columns of a group."""

_MOST_GROWING = 10
"""Groups of one size that a column is added to."""

_MOST_CELLS = 65_536
"""Combinations of values and classes of a group; larger groups are not tried."""

_STRENGTH = 2.0
"""s: the number of rows that q is worth."""

_LEAST_GAIN = 4.0
"""Nats that a group gains at least."""

Group = tuple[int, ...]
"""Places of columns, ascending."""


@dataclass(frozen=True)
class GroupSearch:
    """A search for groups of columns that act together.

    Attributes:
        levels: the columns.
        binned: whether the levels of each column are bins of numbers.
    """

    levels: Levels
    binned: Sequence[bool]
    _posteriors: dict[Group, FloatArray] = field(default_factory=dict, init=False)
    """Posteriors of the classes by the cells of groups, each computed once."""

    def groups(self, most: int) -> list[Group]:
        """The groups that gain most, at most ``most``; ties go to the first columns.

        Returns:
            Places of the columns of each group, the one that says least about the class first.
        """
        columns = [place for place in range(len(self.binned)) if self._fits((place,))]
        columns.sort(key=lambda place: (-round(self._gain((place,)), 6), place))
        rank = {place: number for number, place in enumerate(columns)}
        columns = sorted(columns[:_MOST_COLUMNS])
        gains: dict[Group, float] = {}
        candidates: Iterable[Group] = combinations(columns, 3)
        for _ in range(3, _MOST_SIZE + 1):
            found = {group: self._gain(group) for group in candidates if self._fits(group)}
            found = {group: gain for group, gain in found.items() if gain >= _LEAST_GAIN}
            gains |= found
            growing = _ranked(found)[:_MOST_GROWING]
            candidates = sorted(
                {
                    tuple(sorted({*group, place}))
                    for group in growing
                    for place in columns
                    if place not in group
                }
            )
        best = _ranked(gains)[:most]
        return [tuple(sorted(group, key=lambda place: -rank[place])) for group in best]

    def _fits(self, group: Group) -> bool:
        bins = sum(self.binned[place] for place in group)
        return bins <= 1 and math.prod(self.levels.shape(group)) <= _MOST_CELLS

    def _gain(self, group: Group) -> float:
        """Nats that the cells of a group gain; any number below the least gain if it is small."""
        counts = self.levels.table(group)
        present = counts > 0.0
        own = counts[present]
        rows = np.broadcast_to(counts.sum(axis=-1, keepdims=True), counts.shape)[present]
        one = np.minimum(own, 1.0)
        gain = np.inf
        for combined in self._combined(group):
            q = combined[present]
            by_cell = (own - one + _STRENGTH * q) / (rows - one + _STRENGTH)
            gain = min(gain, float(own @ np.log(by_cell / q)))
            if gain < _LEAST_GAIN and len(group) > 1:
                break
        return gain

    def _combined(self, group: Group) -> Iterator[FloatArray]:
        """P(c | values) as fewer columns give it, of the shape of the group's table."""
        if len(group) == 1:
            yield np.broadcast_to(self._posterior(()), self.levels.shape(group))
            return
        for axis, place in enumerate(group):
            others = tuple(other for other in group if other != place)
            rest = np.expand_dims(self._posterior(others), axis)
            alone = np.expand_dims(
                self._posterior((place,)), [each for each in range(len(group)) if each != axis]
            )
            both: FloatArray = rest * alone / self._posterior(())
            yield both / both.sum(axis=-1, keepdims=True)
            yield np.broadcast_to(rest, self.levels.shape(group))

    def _posterior(self, group: Group) -> FloatArray:
        """P(c | values) by all rows, smoothed towards the most probable combination of fewer."""
        if group in self._posteriors:
            return self._posteriors[group]
        counts = self.levels.table(group)
        if not group:
            counts += 0.5
            self._posteriors[group] = counts / counts.sum()
        else:
            present = counts > 0.0
            own = counts[present]
            q = max(self._combined(group), key=lambda q: float(own @ np.log(q[present])))
            rows = counts.sum(axis=-1, keepdims=True)
            self._posteriors[group] = (counts + _STRENGTH * q) / (rows + _STRENGTH)
        return self._posteriors[group]


def _ranked(gains: dict[Group, float]) -> list[Group]:
    """The groups that gain most first. Rounded, so that ties are ties on every machine."""
    return sorted(gains, key=lambda group: (-round(gains[group], 6), group))
