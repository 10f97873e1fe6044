"""How fast rows lose their weight with age: a half-life, counted in partitions.

With a half-life of h, a row that is a partitions older than the newest counts 0.5^(a / h) rows.
This is a merge of the statistics of groups of partitions with factors: no row is read again.

`best_half_life` compares some. Each of the latest groups is predicted by blocks of those before it,
under the weights of the model without a half-life, and without biases, which follow the latest
groups. It starts with none and tries shorter and shorter ones as long as the log loss of the latest
groups falls. The best is taken if it wins by more than two standard errors: the rows of a group are
alike, so differences of the log loss are averaged by group, and the error is that of the mean of
the groups. It is known from few of them, and several half-lives are tried, so that one standard
error would often be exceeded by chance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.arrow.arrays import MISSING, FloatArray, label_codes
from probclass_core.arrow.rows import Rows
from probclass_core.errors import DataError, NotSupportedError
from probclass_core.estimation.kinds.sample import COUNT, HASH
from probclass_core.estimation.statistics import Statistics, merge, scale
from probclass_core.model.block_weights import given_weights
from probclass_core.model.left_out import MOST_GROUPS, group_numbers, ignoring_unseen
from probclass_core.model.model import Model
from probclass_core.model.product import product
from probclass_core.spec.model_spec import ModelSpec

TRIED = (20.0, 8.0, 3.0)
"""Half-lives that are tried, in partitions."""

_LATEST = 4
"""Groups that are predicted from those before."""

_FEWEST = 3
"""Groups from which another is predicted, at least."""

_ERRORS = 2.0
"""Standard errors by which a half-life must win."""

_LEAST_FACTOR = 1e-30
"""A class that only old rows have is still known."""


def ordered_groups(
    keys: Sequence[tuple[Any, ...]], rows: Sequence[int], half_life: float | None
) -> tuple[list[int], list[float]]:
    """The number of its group for each unit, see `group_numbers`, and the ages of the groups.

    With a half-life, groups have about the same number of rows as these count, so that the newest
    partitions are groups of their own.

    Args:
        keys: values of the partition of each unit.
        rows: number of rows of each unit.
        half_life: in partitions, or None.

    Returns:
        The numbers; by how many partitions each group is older than the newest one, on average.
    """
    order = group_numbers(keys, [1] * len(keys), len(set(keys)))
    ages = max(order) - np.array(order)
    factors = 1.0 if half_life is None else _factors(ages, half_life)
    numbers = group_numbers(keys, (np.array(rows) * factors).tolist(), MOST_GROUPS)
    members: dict[int, set[int]] = {}
    for number, age in zip(numbers, ages.tolist(), strict=True):
        members.setdefault(number, set()).add(age)
    return numbers, [float(np.mean([*members[number]])) for number in sorted(members)]


def aged(
    groups: Sequence[Statistics], ages: Sequence[float], half_life: float | None
) -> list[Statistics]:
    """The groups, whose rows count half as much for each half-life that they are older.

    Raises:
        NotSupportedError: if the statistics of an estimator cannot count less.
    """
    if half_life is None:
        return list(groups)
    factors = _factors(np.array(ages) - min(ages), half_life)
    return [scale(group, float(factor)) for group, factor in zip(groups, factors, strict=True)]


def _factors(ages: FloatArray, half_life: float) -> FloatArray:
    factors: FloatArray = np.maximum(0.5 ** (ages / half_life), _LEAST_FACTOR)
    return factors


def best_half_life(
    model: Model, statistics: Statistics, groups: Sequence[Statistics], ages: Sequence[float]
) -> tuple[float | None, dict[str, Any]]:
    """The half-life that predicts the latest groups best, None if none does better than none.

    Args:
        model: the model without a half-life, whose weights are fitted across the groups.
        statistics: statistics of all rows.
        groups: those of the groups, the oldest first.
        ages: by how many partitions each group is older than the newest.

    Returns:
        The half-life, and plain values about the choice: the number of groups that were predicted,
        and their mean log loss by half-life; nothing if it could not be made.
    """
    latest = range(max(_FEWEST, len(groups) - _LATEST), len(groups))
    spec = _spec_that_counts(model)
    if spec is None or statistics.sample is None or len(latest) < 2:
        return None, {}
    # The smallest hashes of all rows are among the smallest of each group.
    last = pc.max(statistics.sample[HASH])
    rows = {
        place: sample.filter(pc.less_equal(sample[HASH], last))
        for place in latest
        if (sample := groups[place].sample) is not None
    }
    parts = [group.of_spec(spec) for group in groups]

    def log_losses(half_life: float | None) -> FloatArray:
        """Mean log loss of each of the latest groups."""
        losses = [
            _log_loss(merge(aged(parts[:place], ages[:place], half_life)), of_group)
            for place, of_group in rows.items()
        ]
        return np.array(losses)

    found: float | None = None
    try:
        without = best = log_losses(None)
        means = {"none": float(best.mean())}
        for half_life in TRIED:
            losses = log_losses(half_life)
            means[f"{half_life:g}"] = float(losses.mean())
            if losses.mean() >= best.mean():
                break
            found, best = half_life, losses
    except (DataError, NotSupportedError):
        return None, {}
    gain = without - best
    if gain.mean() <= _ERRORS * gain.std(ddof=1) / np.sqrt(len(gain)):
        found = None
    return found, {"predicted": len(gain), "log_loss": means}


def _spec_that_counts(model: Model) -> ModelSpec | None:
    """The spec of the blocks that count in the posterior, with their weights as numbers."""
    if model.weights is None:
        return None
    factors, by_block = model.weights.factors, model.weights.by_block
    spec = ignoring_unseen(model.spec)
    blocks = tuple(block for block in spec.pool if factors[str(block.name)])
    weights = {str(block.name): by_block[str(block.name)] for block in blocks}
    if not blocks:
        return None
    return replace(spec, blocks=blocks, block_weights=weights, density=())


def _log_loss(seen: Statistics, rows: pa.Table) -> float:
    """Mean log loss of rows by blocks of other rows, under the weights of their spec.

    Rows of classes that the others do not have are left out.
    """
    spec, classes = seen.spec, seen.classes["class"].combine_chunks()
    truth = label_codes(rows[spec.label], classes)
    known = truth != MISSING
    batches = rows.filter(pa.array(known)).combine_chunks().to_batches()
    if not batches:
        return 0.0
    assert isinstance(spec.block_weights, Mapping)  # `_spec_that_counts`
    names = [str(block.name) for block in spec.blocks]
    weights = given_weights(spec.block_weights, names, classes)
    predictor = replace(product(seen), block_weights=weights)
    counts = batches[0][COUNT].to_numpy()
    probability = predictor.posterior(Rows(batches[0])).log_probability
    return float(-(counts @ probability[np.arange(len(counts)), truth[known]]) / counts.sum())
