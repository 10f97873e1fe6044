"""The fewest blocks that predict as well as all candidates do.

The weights of all candidates are fitted first. Blocks are then removed one by one, always the one
that costs least by the curvature of the loss around the solution: without block j the loss rises by
w_j² / (2 (H⁻¹)_jj) if the other weights adapt, H being the Hessian (Hassibi and Stork, "Second
order derivatives for network pruning: optimal brain surgeon", NIPS 1992). Bisection finds how many
of them can go: the weights of the blocks that remain are fitted again, and the log loss of rows
that no block saw may rise by `_TOLERANCE` of it. If fewer than a quarter of the blocks can go, all
that help stay. A block of columns given others keeps the block of these columns alone, see
`base_blocks`. Blocks may be costly, such as those that score slowly: they all go first if the log
loss without them is not `_WORTH_COSTS` higher.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from probclass_core.arrow.arrays import FloatArray, IntArray
from probclass_core.estimation.statistics import Statistics
from probclass_core.model.block_weights import base_blocks
from probclass_core.model.left_out import FEW_GROUPS, LeftOutRows
from probclass_core.model.model import Model
from probclass_core.model.weight_fit import WeightProblem, most_rows, weight_problem

_TOLERANCE = 0.005
"""Share of the log loss that it may rise by."""

_OF_GAIN = 0.05
"""Share of what all blocks gain over the class prior that may be lost, if it is less than that."""

_FEW_ENOUGH = 8
"""Blocks that are not made fewer: little is gained, and what they say on few rows may be lost."""

_WORTHWHILE = 0.75
"""Largest share of the blocks that may remain; to remove a few saves little."""

_WORTH_COSTS = 0.05
"""Share of the log loss that costly blocks must gain together."""

_LEAST_WEIGHT = 1e-6
"""Smaller weights are 0 but for the precision of their optimization."""

_RIDGE = 1e-6
"""Ridge of the Hessian, as a fraction of its mean diagonal: two equal blocks make it singular."""


def fewest_blocks(
    model: Model, statistics: Statistics, costly: Collection[str] = ()
) -> tuple[list[str], float]:
    """Choose blocks of a spec that fits block weights.

    Args:
        model: the product of the blocks of the statistics.
        statistics: statistics of all rows, with a sample.
        costly: names of the costly blocks, none of which is the base of another.

    Returns:
        Names of the blocks in the order of the spec, none if no block helps, and the mean log loss
        of the sample's rows under their weights.
    """
    rows = LeftOutRows.of(model, statistics, most=most_rows(model), most_groups=FEW_GROUPS)
    problem, _ = weight_problem(rows)
    names = [str(block.name) for block in statistics.spec.blocks]
    bases = {
        names.index(name): names.index(base)
        for name, base in base_blocks(statistics.spec.blocks).items()
    }
    cheap = np.array([place for place, name in enumerate(names) if name not in costly])
    chosen, log_loss = _fewest(problem, bases, cheap)
    return [names[place] for place in chosen], log_loss


def _fewest(
    problem: WeightProblem, bases: Mapping[int, int], cheap: IntArray
) -> tuple[list[int], float]:
    """The places of the blocks, ascending, and their log loss."""
    every = _Fit.of(problem, np.arange(len(problem.factors)), None)
    if len(cheap) < len(problem.factors):
        without = _Fit.of(problem, cheap, every)
        if every.log_loss > (1.0 - _WORTH_COSTS) * without.log_loss:
            every = without
    fit = every
    nothing = np.zeros(len(problem.factors)), np.zeros(len(problem.log_prior))
    gain = max(problem.log_loss(*nothing) - fit.log_loss, 0.0)
    limit = fit.log_loss + min(_TOLERANCE * fit.log_loss, _OF_GAIN * gain)
    fewer: _Fit | None = fit
    while fewer is not None:  # around the new weights the curvature is another
        fit, fewer = fewer, _fewer(problem, bases, fewer, limit)
    chosen, helpful = (_with_bases(one.helpful, bases) for one in (fit, every))
    if len(chosen) > _WORTHWHILE * len(helpful):
        return helpful, every.log_loss
    return chosen, fit.log_loss


@dataclass(frozen=True)
class _Fit:
    """Fitted weights of some of the candidates.

    Attributes:
        weights: weights of all candidates, 0 for the others, ``(blocks,)``.
        bias: biases of the classes, ``(k,)``.
        log_loss: mean log loss of the rows.
    """

    weights: FloatArray
    bias: FloatArray
    log_loss: float

    @classmethod
    def of(cls, problem: WeightProblem, places: IntArray, start: _Fit | None) -> _Fit:
        """Fit the weights of the blocks at some places, from those of another fit if given."""
        some = problem.of(places)
        first = None if start is None else np.concatenate([start.weights[places], start.bias])
        fitted, bias = some.solve(first)
        weights = np.zeros(len(problem.factors))
        weights[places] = fitted
        return cls(weights, bias, some.log_loss(fitted, bias))

    @property
    def helpful(self) -> list[int]:
        """Places of the blocks that have a weight."""
        places: list[int] = np.flatnonzero(self.weights > _LEAST_WEIGHT).tolist()
        return places


def _fewer(
    problem: WeightProblem, bases: Mapping[int, int], fit: _Fit, limit: float
) -> _Fit | None:
    """The fit of the fewest blocks whose log loss is within the limit, None if none can go.

    Of the two orders of removal, neither is better for every table.
    """
    found = []
    for shared in (False, True):
        order = _order_of_removal(problem, fit, bases, shared)
        fewer = None
        most, too_many = 0, len(order) - _FEW_ENOUGH + 1
        while too_many - most > 1:
            middle = (most + too_many) // 2
            places = np.array(_with_bases(order[middle:], bases))
            some = _Fit.of(problem, places, fewer or fit)
            if some.log_loss > limit:
                too_many = middle
            else:
                most, fewer = middle, some
        if fewer is not None:
            found.append(fewer)
    return min(found, key=lambda fewer: len(_with_bases(fewer.helpful, bases)), default=None)


def _with_bases(places: Iterable[int], bases: Mapping[int, int]) -> list[int]:
    every = set(places)
    return sorted(every | {bases[place] for place in every if place in bases})


def _order_of_removal(
    problem: WeightProblem, fit: _Fit, bases: Mapping[int, int], shared: bool
) -> list[int]:
    """Helpful blocks, the one whose removal costs least for each block that it spares first.

    A base without a weight is spared with its last conditional block or, if shared, by all of them
    in equal shares.
    """
    places = fit.helpful
    weights = fit.weights[places]
    if not places:
        return []
    hessian = problem.of(np.array(places)).curvature(weights, fit.bias)
    ridge = _RIDGE * np.trace(hessian) / len(places)
    inverse = np.linalg.inv(hessian + ridge * np.eye(len(places)))
    left = {place: row for row, place in enumerate(places)}
    order: list[int] = []
    while left:
        dependents = Counter(bases[place] for place in left if place in bases)
        spared = {place: 1.0 for place in left if place not in dependents}
        for place in spared:
            base = bases.get(place, place)
            if base not in left and (shared or dependents[base] == 1):
                spared[place] += 1.0 / dependents[base]
        costs = {
            place: weights[row] ** 2 / (2.0 * inverse[row, row]) / spared[place]
            for place, row in left.items()
            if place in spared
        }
        # Rounded, so that ties are ties on every machine; of two equal blocks the first one stays.
        place = min(costs, key=lambda place: (round(costs[place], 6), -place))
        row = left.pop(place)
        order.append(place)
        column = inverse[:, row] / inverse[row, row]
        # The others take over; a weight that falls below 0 is the next to go.
        weights = np.maximum(weights - column * weights[row], 0.0)
        inverse = inverse - np.outer(column, inverse[row])
    return order
