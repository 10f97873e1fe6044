"""The blocks of a density of all rows: neighbors of the numbers, counts of the other columns."""

from __future__ import annotations

from probclass_core.spec.model_spec import Block
from probclass_core.structure.candidates import MOST_POINTS
from probclass_core.structure.names import Names
from probclass_core.structure.network import network
from probclass_core.structure.profile import Profile

_NEIGHBORS = 6
"""Neighbors of the density. Of fewer, rows like one another are less unusual than they are where
some training rows are faults; of more, faults stand out less from clean rows."""

_LEAST_BALL, _LEAST_BALL_OF_MIXED = 0.5, 0.75
"""Smallest balls of the density: what is not dense is unusual, and next to other columns how dense
the densest rows are says too much."""

_MOST_COORDINATES = 1 << 22
"""Points times columns of the density: 32 MB."""


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
    return [neighbors, *(column.block(names.of(column.name)) for column in rest)], notes
