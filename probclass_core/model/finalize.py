"""The last step of training: from statistics to the prior, parameters and weights of a model.

With a half-life of h partitions, a row that is a partitions older than the newest counts
0.5^(a / h) rows. This is a merge of the statistics of groups of partitions with factors: no row is
read again.

If the half-life is to be chosen, several are compared: each of the latest groups is predicted by
blocks of those before it, under the weights of the model without a half-life, and without biases,
which follow the latest groups. It starts with none and tries shorter and shorter ones as long as
the log loss of the latest groups falls. The best is taken if it wins by more than two standard
errors: the rows of a group are alike, so differences of the log loss are averaged by group, and the
error is that of the mean of the groups. It is known from few of them, and several half-lives are
tried, so that one standard error would often be exceeded by chance.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.arguments import checks_arguments
from probclass_core.arrow.arrays import MISSING, FloatArray, label_codes
from probclass_core.arrow.rows import Rows
from probclass_core.errors import DataError, NotSupportedError, SpecError, expect, one_of
from probclass_core.estimation.kinds.sample import COUNT, HASH, SAMPLE_ROWS
from probclass_core.estimation.kinds.summary import check_classes
from probclass_core.estimation.statistics import (
    LARGEST_ROW_WEIGHT,
    STATISTICS_HINT,
    Statistics,
    bind,
    merge,
    refine,
    scale,
)
from probclass_core.estimation.tidy import notes_of
from probclass_core.model.bin_densities import bin_densities, estimate_bin_densities
from probclass_core.model.block_weights import given_weights
from probclass_core.model.density_quantiles import LogDensities
from probclass_core.model.left_out import MOST_GROUPS, LeftOutRows, group_numbers, ignoring_unseen
from probclass_core.model.model import Model, prior_table
from probclass_core.model.posterior import log_density
from probclass_core.model.weight_fit import fit_block_weights, most_rows
from probclass_core.spec.model_spec import ModelSpec

_TRIED = (20.0, 8.0, 3.0)
"""Half-lives that are tried, in partitions."""

_LATEST_GROUPS = 4
"""Groups that are predicted from those before."""

_FEWEST_BEFORE = 3
"""Groups from which another is predicted, at least."""

_ERRORS = 2.0
"""Standard errors by which a half-life must win."""

_LEAST_FACTOR = 1e-30
"""A class that only old rows have is still known."""


@checks_arguments
def finalize(
    statistics: Statistics,
    *,
    early: bool = False,
    groups: Sequence[Statistics] = (),
    ages: Sequence[float] = (),
) -> Model:
    """Compute the prior and the parameters of a model from statistics: the last step of training.

    Args:
        statistics: statistics of all rows.
        early: accept these statistics even if an estimator asks for another pass over the rows.
        groups: statistics of groups of the rows, such as days, whose merge is `statistics`: fitted
            weights trust a block by what it says of a group that it was not trained on. None if
            the rows have no groups, or the spec names the columns that tell them; see
            `ModelSpec.groups`. The spec's half-life takes them to be partitions, the oldest first.
        ages: by how many partitions each group is older than the newest one; by default each
            group is one partition.

    Raises:
        DataError: if there are no labeled rows. With ``on_scarce="error"`` also if there is only
            one class, or the rows do not suffice for the parameters of a block.
        SpecError: if a given prior does not fit the classes, or another pass is due.
    """
    expect(statistics, Statistics, STATISTICS_HINT)
    if not early and (refined := refine(statistics)) is not None:
        pairs = zip(statistics.spec.blocks, refined.blocks, strict=True)
        due = [str(new.name) for old, new in pairs if new != old]
        raise SpecError(
            f"block {one_of(due)} asks for another pass over the rows: train by fit, which makes "
            "it, summarize them again by the spec that refine(statistics) gives, or take the "
            "estimate so far by early=True."
        )
    classes = statistics.classes["class"].combine_chunks()
    label = statistics.spec.label
    if statistics.rows == 0:
        raise DataError("there is nothing to train on: the source has no rows.")
    if len(classes) == 0:
        raise DataError(
            f"there is nothing to train on: label {label!r} is null (or its weight 0) in all "
            f"{statistics.rows} rows."
        )
    check_classes(statistics.classes, statistics.spec, statistics.labeled_rows)
    half_life = statistics.spec.half_life
    if half_life is None or len(groups) < 2:
        return _estimated(statistics, groups)
    ages = ages or range(len(groups))[::-1]
    found: dict[str, Any] = {}
    if half_life == "auto":
        model = _estimated(statistics, groups)
        half_life, found = _best_half_life(model, statistics, groups, ages)
    if half_life is not None:
        groups = _aged(groups, ages, half_life)
        model = _estimated(merge(groups), groups)
    return _with_training(model, half_life={"partitions": half_life, **found})


def _with_training(model: Model, **values: Any) -> Model:
    return dataclasses.replace(model, training={**model.training, **values})


def _estimated(statistics: Statistics, groups: Sequence[Statistics]) -> Model:
    """The model of statistics as they are, with weights fitted across groups."""
    model = product(statistics)
    left_out = cache(partial(LeftOutRows.of, model, statistics, groups))
    densities = _bin_densities(model, statistics)
    quantiles = _density_quantiles(model, densities, left_out)
    model = dataclasses.replace(model, bin_densities=densities, density_quantiles=quantiles)
    return _weigh_blocks(model, left_out)


def _bin_densities(model: Model, statistics: Statistics) -> pa.Table | None:
    """Densities of numbers within their bins, if there is a sample of the rows."""
    if statistics.sample is None or not model.cuts:
        return None
    return estimate_bin_densities(statistics.sample, model.cuts, statistics.row_weight)


def _density_quantiles(
    model: Model, densities: pa.Table | None, left_out: Callable[[int], LeftOutRows]
) -> pa.Table | None:
    """The quantiles of log p(x) of rows that the model was not estimated from.

    They are rows of the sample, each left out as for the weights. None if there is no sample, no
    density, or the rows of the other groups do not suffice for it.

    Args:
        model: the product of blocks.
        densities: those of numbers within their bins.
        left_out: rows that the blocks did not see, at most so many.
    """
    if not model.spec.takes_sample or not model.normalized:
        return None
    rows = left_out(SAMPLE_ROWS)
    joint = np.tile(model.log_prior, (len(rows.truth), 1))
    try:
        for name in model.spec.density_blocks:
            joint += rows.log_likelihood(name)
    except DataError:
        return None
    log = log_density(joint)
    for density in [] if densities is None else bin_densities(densities):
        log += rows.log_within_bins(density)
    found = LogDensities()
    found.add(log, rows.counts)
    return found.table()


def _weigh_blocks(model: Model, left_out: Callable[[int], LeftOutRows]) -> Model:
    """The model with the block weights that its spec asks for; see `_density_quantiles`."""
    option = model.spec.block_weights
    if option is None:
        return model
    if isinstance(option, Mapping):
        names = [str(block.name) for block in model.spec.pool]
        return dataclasses.replace(model, block_weights=given_weights(option, names, model.classes))
    table, fitted = fit_block_weights(left_out(min(most_rows(model), SAMPLE_ROWS)))
    return _with_training(dataclasses.replace(model, block_weights=table), block_weights=fitted)


def product(statistics: Statistics) -> Model:
    """The prior and the parameters of statistics of labeled rows, all that a product of blocks is.

    Raises:
        DataError, SpecError: as `finalize`.
    """
    classes = statistics.classes["class"].combine_chunks()
    notes = _notes_on_rows(statistics, classes)
    estimators = bind(statistics.spec, statistics.features, statistics.row_weight)
    parameters = {
        name: estimator.finalize(statistics.blocks[name], classes)
        for name, estimator in estimators.items()
    }
    for table in parameters.values():
        notes += notes_of(table).get("scarce", [])
    notes = list(dict.fromkeys(notes))  # blocks of the same columns say the same
    return Model(
        spec=statistics.spec,
        features=statistics.features,
        priors=prior_table(classes, statistics.classes["count"].to_numpy(), statistics.spec.prior),
        parameters=parameters,
        training={
            "rows": statistics.rows,
            "null_labels": statistics.null_labels,
            "columns": statistics.column_values,
            **({"notes": notes} if notes else {}),
        },
    )


def _notes_on_rows(statistics: Statistics, classes: pa.Array) -> list[str]:
    """Sentences about the labels and weights of the rows.

    Raises:
        DataError: if there is only one class, and the spec's ``on_scarce`` is ``"error"``.
    """
    notes, spec = [], statistics.spec
    if len(classes) == 1 and spec.label is not None:
        found = f"label {spec.label!r} has one class only, {classes[0].as_py()!r}"
        without_weight = statistics.rows - statistics.null_labels - statistics.labeled_rows
        if without_weight:
            found += (
                f", in rows with a weight {spec.weight!r} above 0 (it is 0 in {without_weight})"
            )
        if spec.on_scarce == "error":
            raise DataError(f"{found}; a classifier needs rows of at least two.")
        notes.append(f"{found}: the model predicts it for every row.")
    if statistics.row_weight > 1.0:
        notes.append(
            f"weight {spec.weight!r} averages {statistics.row_weight:.6g} per row, too much for a "
            "number of rows: rules that count rows, such as the cuts of discretized, count every "
            "row once; pseudo-counts have little effect until the weights average 1."
        )
    count = float(statistics.classes["count"].to_numpy().sum())
    if spec.weight is not None and count < statistics.labeled_rows / LARGEST_ROW_WEIGHT:
        notes.append(
            f"weight {spec.weight!r} sums to {count:.6g}: the {statistics.labeled_rows:,} rows say "
            "as little as so many rows; multiply the weights, so that they average 1."
        )
    return notes


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
    factors = 1.0 if half_life is None else _factors_by_age(ages, half_life)
    numbers = group_numbers(keys, (np.array(rows) * factors).tolist(), MOST_GROUPS)
    members: dict[int, set[int]] = {}
    for number, age in zip(numbers, ages.tolist(), strict=True):
        members.setdefault(number, set()).add(age)
    return numbers, [float(np.mean([*members[number]])) for number in sorted(members)]


def _aged(
    groups: Sequence[Statistics], ages: Sequence[float], half_life: float | None
) -> list[Statistics]:
    """The groups, whose rows count half as much for each half-life that they are older.

    Raises:
        NotSupportedError: if the statistics of an estimator cannot count less.
    """
    if half_life is None:
        return list(groups)
    factors = _factors_by_age(np.array(ages) - min(ages), half_life)
    return [scale(group, float(factor)) for group, factor in zip(groups, factors, strict=True)]


def _factors_by_age(ages: FloatArray, half_life: float) -> FloatArray:
    factors: FloatArray = np.maximum(0.5 ** (ages / half_life), _LEAST_FACTOR)
    return factors


def _best_half_life(
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
    latest = range(max(_FEWEST_BEFORE, len(groups) - _LATEST_GROUPS), len(groups))
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
            _log_loss(merge(_aged(parts[:place], ages[:place], half_life)), of_group)
            for place, of_group in rows.items()
        ]
        return np.array(losses)

    found: float | None = None
    try:
        without = best = log_losses(None)
        means = {"none": float(best.mean())}
        for half_life in _TRIED:
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
    return dataclasses.replace(spec, blocks=blocks, block_weights=weights, density=())


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
    predictor = dataclasses.replace(product(seen), block_weights=weights)
    counts = batches[0][COUNT].to_numpy()
    probability = predictor.posterior(Rows(batches[0])).log_probability
    return float(-(counts @ probability[np.arange(len(counts)), truth[known]]) / counts.sum())
