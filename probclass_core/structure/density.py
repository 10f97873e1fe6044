"""The blocks of log p(x): with a label a network of the columns, without one also neighbors.

In a network every column is given the one other that it depends on most. Of all trees, the one
whose pairs have the largest sum of I(x; y | class) is nearest to the distribution of the rows (Chow
and Liu, "Approximating discrete probability distributions with dependence trees", 1968; within
classes Friedman et al., "Bayesian network classifiers", 1997).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from probclass_core.spec.model_spec import Block
from probclass_core.structure.candidates import MOST_POINTS
from probclass_core.structure.columns import Column, Names
from probclass_core.structure.levels import Pair, dependent_pairs
from probclass_core.structure.profile import Profile

_BINS = 8
"""Bins of a number, where they say how columns depend on each other."""

_ERRORS = 4.0
"""Standard errors by which a pair of columns must depend on each other. The tree is of the best of
all pairs, and of many pairs that are independent some look dependent."""

_NEIGHBORS = 6
"""Neighbors of the density. Of fewer, rows like one another are less unusual than they are where
some training rows are faults; of more, faults stand out less from clean rows."""

_LEAST_BALL, _LEAST_BALL_OF_MIXED = 0.5, 0.75
"""Smallest balls of the density: what is not dense is unusual, and next to other columns how dense
the densest rows are says too much."""

_MOST_COORDINATES = 1 << 22
"""Points times columns of the density: 32 MB."""


def network(profile: Profile, used: Sequence[Column], names: Names, how: str = "") -> list[Block]:
    """The blocks of each column given one other; with `effort="fast"` of each column alone.

    Args:
        profile: what is known of the table.
        used: its columns that the network is of.
        names: names of blocks so far.
        how: the end of the names of these blocks.
    """
    columns = [profile.in_equal_bins(column, _BINS) for column in used if column.kind != "terms"]
    most = 0 if profile.effort == "fast" else len(columns) ** 2
    pairs = dependent_pairs(profile.levels(columns), most, _ERRORS)
    blocks = []
    for column, parent in zip(columns, _tree(pairs, len(columns)), strict=True):
        blocks.append(column.given([] if parent is None else [columns[parent]], names, how))
    terms = [column for column in used if column.kind == "terms"]
    return [*blocks, *(column.block(names.of(f"{column.name}{how}")) for column in terms)]


def _tree(pairs: Sequence[Pair], columns: int) -> list[int | None]:
    """The parent of each column, None for a root; every tree has one.

    Args:
        pairs: pairs of columns that depend on each other, those that are most dependent first.
        columns: number of columns.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree

    ends = [[pair.child for pair in pairs], [pair.parent for pair in pairs]]
    # Ranks, so that ties are ties on every machine.
    ranks = np.arange(1, len(pairs) + 1)
    joined = minimum_spanning_tree(coo_array((ranks, ends), shape=(columns, columns)))
    parents: list[int | None] = [None] * columns
    reached = np.zeros(columns, dtype=bool)
    for root in range(columns):
        if not reached[root]:
            order, before = breadth_first_order(joined, root, directed=False)
            reached[order] = True
            for place in order[1:].tolist():
                parents[place] = int(before[place])
    return parents


def unlabeled_blocks(profile: Profile) -> tuple[list[Block], list[str]]:
    """The blocks, and notes on them. Without neighbors they are a network of all columns."""
    used, names = profile.columns.used, Names()
    numbers = [column.name for column in used if column.has_squares]
    if profile.closed_forms_only or not numbers:
        return network(profile, used, names), []
    points = max(1, min(MOST_POINTS, _MOST_COORDINATES // len(numbers)))
    neighbors = Block(
        "knn_density",
        numbers,
        names.of("knn_density"),
        k=_NEIGHBORS,
        scale="robust",
        least_ball=_LEAST_BALL if len(numbers) == len(used) else _LEAST_BALL_OF_MIXED,
        missing="mean",
        points=points,
    )
    notes = []
    if profile.statistics.rows > points:
        notes.append(
            f"The density of the {len(numbers)} numbers is that of {points:,} of the "
            f"{profile.statistics.rows:,} rows, a sample."
        )
    rest = [column for column in used if column.name not in numbers]
    return [neighbors, *network(replace(profile, effort="fast"), rest, names)], notes
