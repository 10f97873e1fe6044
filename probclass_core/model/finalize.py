"""The last step of training: from statistics to the prior, parameters and weights of a model."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
import pyarrow as pa

from probclass_core.arguments import checks_arguments
from probclass_core.errors import DataError, SpecError, expect, one_of
from probclass_core.estimation.kinds.sample import SAMPLE_ROWS
from probclass_core.estimation.kinds.summary import check_classes
from probclass_core.estimation.statistics import STATISTICS_HINT, Statistics, merge, refine
from probclass_core.model.bin_densities import bin_densities, estimate_bin_densities
from probclass_core.model.block_weights import given_weights
from probclass_core.model.density_quantiles import LogDensities
from probclass_core.model.half_life import aged, best_half_life
from probclass_core.model.left_out import LeftOutRows
from probclass_core.model.model import Model
from probclass_core.model.posterior import log_density
from probclass_core.model.product import product
from probclass_core.model.weight_fit import fit_block_weights, most_rows


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
        half_life, found = best_half_life(model, statistics, groups, ages)
    if half_life is not None:
        groups = aged(groups, ages, half_life)
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
