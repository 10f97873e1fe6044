"""The blocks that a spec is chosen from: columns alone, pairs and groups of them, all numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from probclass_core.estimation.families.counted.options import LEAVE_ONE_OUT
from probclass_core.estimation.families.gaussian.full import MOST_PATTERNS
from probclass_core.estimation.kinds.sample import equal_rows_are_copies
from probclass_core.spec.model_spec import Block
from probclass_core.structure.columns import Column, Names
from probclass_core.structure.fine_pairs import WINDOW, fine_pairs
from probclass_core.structure.groups import GroupSearch
from probclass_core.structure.levels import dependent_pairs
from probclass_core.structure.profile import Profile

_MOST_PAIRS, _MOST_PAIR_CLASSES = 60, 3000
"""Pairs, and pairs times classes: with many classes each pair has few rows of each."""

_MOST_FINE_PAIRS, _MOST_FINE_PAIR_CLASSES = 20, 500
"""The same for pairs of numbers in finer bins; each is up to six blocks."""

_MOST_GROUPS, _MOST_GROUP_CLASSES = 30, 1000
"""The same for groups of more columns."""

_MANY_COLUMNS = 256
"""Of more columns, chance makes some tell of the class, and pairing all of them takes minutes."""

_MOST_NUMBERS = 256
"""Largest number of columns of a joint density; the size of a normal one is quadratic in it."""

_RIDGE = 1e-3
"""Ridge of normal densities, as a fraction of the variances."""

_OUTLIERS: dict[str, Any] = {"outliers": 1e-10}
"""Rows to score may be far from all that training saw. There the log odds of normals with different
covariances grow with the square of the distance; 1e-10 changes little near the rows."""

_NEIGHBORS = (5, 20, 60)
"""Numbers of neighbors of the KNN densities."""

_FEW_NUMBERS, _MANY_ROWS = 8, 10_000
"""For more numbers and rows, the search for the most neighbors takes minutes; "best" alone has it.
"""

_FEW_ROWS = 4096
"""Rows among which a search for neighbors takes no time to speak of."""

MOST_POINTS = 16_384
"""Points of a KNN density: a search takes time for each of them."""


@dataclass(frozen=True)
class Candidates:
    """Candidate blocks of a table.

    Attributes:
        profile: what is known of the table.
        names: names of blocks so far.
    """

    profile: Profile
    names: Names

    def blocks(self) -> dict[str, list[Block]]:
        """The blocks to choose from, by what they are of."""
        columns = [block for column in self._telling for block in column.alone(self.names)]
        several = self.profile.effort != "fast"
        pairs, groups = self._conditionals() if several else ([], [])
        in_finer_bins = several and not self.profile.has_times_without_groups
        return {
            "columns": columns,
            "pairs": pairs,
            "fine pairs": [*self._fine_pairs()] if in_finer_bins else [],
            "groups": groups,
            "normals": [*self._normals()] if several else [],
            "neighbors": [*self._neighbors()],
        }

    def _conditionals(self) -> tuple[list[Block], list[Block]]:
        """Blocks of columns given one other, and of columns given more.

        The columns of a group, the one that tells least of the class first, are a chain: each is
        given those before it, so that their blocks together are the joint density of the group.
        No column is given a part of a date, and no group has one: the sample has rows of each
        weekday of a month, which are a few days, and later rows are of other days.
        """
        columns = [column for column in self._telling if column.kind != "terms"]
        levels = self.profile.levels(columns)
        most = min(_MOST_PAIRS, _MOST_PAIR_CLASSES // levels.classes)
        factors: dict[frozenset[int], tuple[int, ...]] = {
            frozenset((pair.child, pair.parent)): (pair.child, pair.parent)
            for pair in dependent_pairs(levels, most)
            if not columns[pair.parent].is_part
        }
        lasting = [place for place, column in enumerate(columns) if not column.is_part]
        binned = [columns[place].has_bins for place in lasting]
        most = min(_MOST_GROUPS, _MOST_GROUP_CLASSES // levels.classes)
        for found in GroupSearch(levels.of(lasting), binned).groups(most):
            group = [lasting[place] for place in found]
            for part in (group[:end] for end in range(2, len(group) + 1)):
                factors.setdefault(frozenset(part), tuple(reversed(part)))
        blocks = [
            columns[child].given([columns[parent] for parent in parents], self.names)
            for child, *parents in factors.values()
        ]
        return [b for b in blocks if len(b.given) == 1], [b for b in blocks if len(b.given) > 1]

    def _fine_pairs(self) -> Iterator[Block]:
        """Blocks of numbers given another, both in finer bins, in both directions."""
        numbers = [column for column in self._telling if column.has_bins and not column.is_part]
        levels = self.profile.levels(numbers)
        most = min(_MOST_FINE_PAIRS, _MOST_FINE_PAIR_CLASSES // levels.classes)
        own = levels.counts if equal_rows_are_copies(self.profile.sample) else None
        for pair in fine_pairs(list(map(self.profile.numbers, numbers)), levels, most, own):
            for first_cuts, second_cuts in pair.cuts:
                first = replace(numbers[pair.first], cuts=first_cuts)
                second = replace(numbers[pair.second], cuts=second_cuts)
                for child, parent in ((first, second), (second, first)):
                    bins = f", {len(second_cuts) + 1} bins"
                    options = {"strength": LEAVE_ONE_OUT, "window": WINDOW}
                    yield child.given([parent], self.names, bins, **options)

    def _normals(self) -> Iterator[Block]:
        """Normal densities of all numbers: a covariance for each class, and one for all.

        SQL cannot score a row that has some of many numbers of a normal.
        """
        numbers = self._numbers
        if self.profile.sql and len(numbers) > MOST_PATTERNS:
            gaps = {column.name for column in self.profile.columns.used if column.null_level}
            numbers = [name for name in numbers if name not in gaps]
        if len(numbers) >= 2:
            for estimator, options in (("gaussian_full", _OUTLIERS), ("gaussian_shared", {})):
                name = self.names.of(estimator)
                yield Block(estimator, numbers, name, ridge=_RIDGE, **options)

    def _neighbors(self) -> Iterator[Block]:
        """KNN densities of all numbers, with few neighbors and more: if asked for, or if free."""
        profile, asked_for = self.profile, self.profile.effort == "best"
        alike = profile.statistics.spec.group_columns or profile.has_times_without_groups
        free = profile.statistics.rows <= _FEW_ROWS and not alike
        if profile.closed_forms_only or not (asked_for or free):
            return
        numbers, rows = self._numbers, profile.sample.num_rows
        slow = not asked_for or (len(numbers) > _FEW_NUMBERS and rows > _MANY_ROWS)
        for k in _NEIGHBORS[: -1 if slow else None]:
            if numbers and 2 * k <= rows:
                yield Block(
                    "knn_density",
                    numbers,
                    self.names.of(f"knn_density of {k}"),
                    k=k,
                    pseudo_count=1.0,
                    scale="standard",
                    missing="mean",
                    points=MOST_POINTS,
                )

    @cached_property
    def _numbers(self) -> list[str]:
        """Columns of joint densities: all of them, or those that tell most of the class alone."""
        numbers = [column for column in self._telling if column.has_squares]
        if len(numbers) < 2:
            numbers = [column for column in self.profile.columns.used if column.has_squares]
        if len(numbers) > _MOST_NUMBERS:
            losses = self.profile.losses(numbers)
            # Rounded, so that ties are ties on every machine.
            order = sorted(range(len(numbers)), key=lambda place: (round(losses[place], 6), place))
            numbers = [numbers[place] for place in sorted(order[:_MOST_NUMBERS])]
        return [column.name for column in numbers]

    @cached_property
    def _telling(self) -> Sequence[Column]:
        """Columns that have blocks of their own, in pairs and in groups.

        Where columns are very many, each must tell more of the class alone than the best of so many
        does by chance: of d columns that say nothing, about log d nats over all rows.
        """
        columns = self.profile.columns.used
        if len(columns) <= _MANY_COLUMNS:
            return columns
        counted = self.profile.columns.counted
        losses = self.profile.losses(counted)
        most = self.profile.levels([]).log_loss() - np.log(len(columns))
        telling = {
            column.name
            for column, loss in zip(counted, losses, strict=True)
            if loss < most or loss == min(losses)
        }
        return [column for column in columns if column.kind == "terms" or column.name in telling]
