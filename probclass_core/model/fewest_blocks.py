"""The fewest blocks that predict as well as all candidates do.

The weights of all candidates are fitted first. Blocks are then removed one by one, always the one
that costs least by the curvature of the loss around the solution: without block j the loss rises by
w_j² / (2 (H⁻¹)_jj) if the other weights adapt, H being the Hessian (Hassibi and Stork, "Second
order derivatives for network pruning: optimal brain surgeon", NIPS 1992). With the weights that the
others then have, the log loss of rows that no block saw may rise by `_TOLERANCE` of it: as many
blocks go. The weights of those that remain are fitted, and more of them may go. If fewer than a
quarter of the blocks can go, all that help stay. A block of columns given others keeps the block of
these columns alone, see `base_blocks`. Blocks may be costly, such as those that score slowly: they
all go first if the log loss without them is not `_WORTH_COSTS` higher.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterator, Mapping

import numpy as np

from probclass_core.arrow.arrays import IntArray
from probclass_core.estimation.statistics import Statistics
from probclass_core.model.block_weights import base_blocks
from probclass_core.model.finalize import product
from probclass_core.model.left_out import FEW_GROUPS, LeftOutRows
from probclass_core.model.weight_fit import most_rows, weight_problem
from probclass_core.model.weight_problem import Fit, WeightProblem

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


def weight_problem_of_sample(statistics: Statistics) -> WeightProblem:
    """The problem of the weights of blocks that are compared with others.

    Args:
        statistics: statistics of all rows, with a sample.
    """
    model = product(statistics)
    rows = LeftOutRows.of(model, statistics, most=most_rows(model), most_groups=FEW_GROUPS)
    return weight_problem(rows)[0]


def fewest_blocks(statistics: Statistics, costly: Collection[str] = ()) -> tuple[list[str], float]:
    """Choose blocks of a spec that fits block weights.

    Args:
        statistics: statistics of all rows, with a sample.
        costly: names of the costly blocks, none of which is the base of another.

    Returns:
        Names of the blocks in the order of the spec, none if no block helps, and the mean log loss
        of the sample's rows under their weights.
    """
    problem = weight_problem_of_sample(statistics)
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
    every = problem.solve()
    if len(cheap) < len(problem.factors):
        without = _solve(problem, cheap, every)
        if problem.log_loss(*every) > (1.0 - _WORTH_COSTS) * problem.log_loss(*without):
            every = without
    log_loss = problem.log_loss(*every)
    gain = max(problem.log_loss(*map(np.zeros_like, every)) - log_loss, 0.0)
    limit = log_loss + min(_TOLERANCE * log_loss, _OF_GAIN * gain)
    fit = every
    while True:
        fewer = [*_fewer_and_fewer(problem, bases, fit)]
        number = bisect_right(fewer, limit, key=lambda fit: problem.log_loss(*fit))
        if not number:
            break
        start = fewer[number - 1]
        fit = _solve(problem, np.array(_with_bases(start, bases)), start)
    chosen, helpful = _with_bases(fit, bases), _with_bases(every, bases)
    if len(chosen) > _WORTHWHILE * len(helpful):
        return helpful, log_loss
    return chosen, problem.log_loss(*fit)


def _solve(problem: WeightProblem, places: IntArray, start: Fit) -> Fit:
    """Fit the weights of the blocks at some places; those of the others are 0."""
    fitted, bias = problem.of(places).solve(Fit(start.weights[places], start.bias))
    weights = np.zeros(len(problem.factors))
    weights[places] = fitted
    return Fit(weights, bias)


def _helpful(fit: Fit) -> list[int]:
    """Places of the blocks that have a weight."""
    places: list[int] = np.flatnonzero(fit.weights > _LEAST_WEIGHT).tolist()
    return places


def _with_bases(fit: Fit, bases: Mapping[int, int]) -> list[int]:
    """Places of the blocks that have a weight, and of their bases, ascending."""
    places = set(_helpful(fit))
    return sorted(places | {bases[place] for place in places if place in bases})


def _fewer_and_fewer(problem: WeightProblem, bases: Mapping[int, int], fit: Fit) -> Iterator[Fit]:
    """The fit without one block, without another, and so on, as the curvature predicts it.

    The block goes whose removal costs least for each block that it spares. A base without a weight
    is spared by all of its conditional blocks in equal shares.
    """
    places = _helpful(fit)
    if len(places) <= _FEW_ENOUGH:
        return
    hessian = problem.of(np.array(places, np.intp)).curvature(fit.weights[places], fit.bias)
    size = len(hessian)
    inverse = np.linalg.inv(hessian + _RIDGE * np.trace(hessian) / size * np.eye(size))
    terms = np.append(fit.weights[places], fit.bias)
    left = {place: row for row, place in enumerate(places)}
    while len(left) > _FEW_ENOUGH:
        dependents = Counter(bases[place] for place in left if place in bases)
        costs = {}
        for place, row in left.items():
            if place not in dependents:
                base = bases.get(place, place)
                spared = 1.0 if base in left else 1.0 + 1.0 / dependents[base]
                costs[place] = terms[row] ** 2 / (2.0 * inverse[row, row]) / spared
        # Rounded, so that ties are ties on every machine; of two equal blocks the first one stays.
        row = left.pop(min(costs, key=lambda place: (round(costs[place], 6), -place)))
        column = inverse[:, row] / inverse[row, row]
        terms = terms - column * terms[row]
        terms[row] = 0.0
        # A weight that falls below 0 is the next to go.
        terms[: len(places)] = np.maximum(terms[: len(places)], 0.0)
        inverse = inverse - np.outer(column, inverse[row])
        weights = np.zeros_like(fit.weights)
        weights[places] = terms[: len(places)]
        yield Fit(weights, terms[len(places) :])
