"""The distribution of every column in every class, read from a model's parameters.

The columns of a parameters table say what kind of distribution it describes: a mean and a variance,
a rate, the probabilities of categories, bins or terms, or the training points. A mean and variance
of another estimator than `gaussian_diagonal` need not be those of a normal distribution.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.arrow.arrays import FloatArray, category_values, label_codes
from probclass_core.estimation.families.categorical.independent import complete_cells
from probclass_core.estimation.tidy import by_feature, dense_arrays, masses_by_class
from probclass_core.model.model import Model
from probclass_core.spec.model_spec import Block

Key: TypeAlias = tuple[str, str | None]
"""A column and one of its terms, or a column and None."""


@dataclass(frozen=True)
class MeanVariance:
    """Mean and variance in each class, ``(k,)``, of one family of distributions.

    Attributes:
        kind: ``"normal"``, ``"poisson"``, or ``"points"`` and ``"other"``, of which only the
            moments are compared.
        correlations: correlation with each other column of the block, ``(k,)``, by its name.
    """

    kind: str
    mean: FloatArray
    variance: FloatArray
    correlations: dict[str, FloatArray] = field(default_factory=dict)


@dataclass(frozen=True)
class Pmf:
    """Probabilities of ``m`` values in each class, ``(m, k)``."""

    values: tuple[str, ...]
    probability: FloatArray


@dataclass(frozen=True)
class Bins:
    """Probabilities of ``m`` bins in each class, ``(m, k)``, and the ``m − 1`` cuts between."""

    cuts: tuple[float, ...]
    probability: FloatArray


Distribution: TypeAlias = MeanVariance | Pmf | Bins


def distributions(
    model: Model,
) -> tuple[dict[Key, tuple[str, Distribution]], dict[str, str]]:
    """The distributions of a model's columns.

    Returns:
        The block's name and the distribution of each column or term; and the names of the blocks
        that have none, with the reason.
    """
    known: dict[Key, tuple[str, Distribution]] = {}
    unknown: dict[str, str] = {}
    modeled = {column for block in model.spec.blocks if not block.given for column in block.columns}
    for block in model.spec.blocks:
        name = str(block.name)
        if block.given:
            if not modeled.issuperset(block.columns):
                unknown[name] = "its columns are given others, and no other block models them"
            continue
        of_block = _block_distributions(model, block, complete_cells(model.parameters[name]))
        known |= {key: (name, distribution) for key, distribution in of_block.items()}
        if not of_block:
            unknown[name] = "its parameters describe no known distribution"
    return known, unknown


def _block_distributions(model: Model, block: Block, table: pa.Table) -> dict[Key, Distribution]:
    columns = set(table.column_names)
    if {"feature", "mean", "variance"} <= columns:
        names, mean, variance = _by_feature_and_class(model, table, "mean", "variance")
        kind = "normal" if block.estimator == "gaussian_diagonal" else "other"
        return {
            (name, None): MeanVariance(kind, mean[i], variance[i]) for i, name in enumerate(names)
        }
    if {"mean", "covariance"} <= columns:
        return _multivariate_normal(model, block, table)
    if {"feature", "rate"} <= columns and block.estimator == "poisson":
        names, rate = _by_feature_and_class(model, table, "rate")
        return {
            (name, None): MeanVariance("poisson", rate[i], rate[i]) for i, name in enumerate(names)
        }
    if {"feature", "point", "count"} <= columns:
        return {
            (name, None): _points_distribution(model, rows, rows["point"].to_numpy())
            for name, rows in _features(table)
        }
    if {"point", "count"} <= columns:
        points = np.array(table["point"].to_pylist(), np.float64).reshape(-1, len(block.columns))
        return {
            (name, None): _points_distribution(model, table, values)
            for name, values in zip(block.columns, points.T, strict=True)
        }
    if "log_probability" not in columns:
        return {}
    if {"lower", "upper"} <= columns:
        return {(name, None): _bins(model, rows) for name, rows in _features(table)}
    if {"feature", "value"} <= columns:
        return {(name, None): _pmf(model, rows, "value") for name, rows in _features(table)}
    if columns.issuperset(block.columns):
        return {(name, None): _pmf(model, table, name) for name in block.columns}
    if "feature" not in columns:
        return {}
    if block.estimator == "multinomial":
        name = block.columns[0] if len(block.columns) == 1 else str(block.name)
        return {(name, None): _pmf(model, table, "feature")}
    return _presence(model, block, table)


def _multivariate_normal(model: Model, block: Block, table: pa.Table) -> dict[Key, Distribution]:
    order = label_codes(model.classes, table["class"].combine_chunks())
    means = np.array(table["mean"].to_pylist(), np.float64)[order]
    covariance = table["covariance"].combine_chunks().to_numpy_ndarray()[order]
    variance = np.diagonal(covariance, axis1=1, axis2=2)
    deviation = np.sqrt(variance)
    scale = deviation[:, :, None] * deviation[:, None, :]
    correlation = np.divide(covariance, scale, out=np.zeros_like(covariance), where=scale > 0.0)
    columns = list(enumerate(block.columns))
    return {
        (name, None): MeanVariance(
            "normal",
            means[:, i],
            variance[:, i],
            {other: correlation[:, i, j] for j, other in columns if j != i},
        )
        for i, name in columns
    }


def _points_distribution(model: Model, table: pa.Table, values: FloatArray) -> MeanVariance:
    """Mean and variance of weighted training points; NaN values are ignored."""
    size = len(model.classes)
    known = ~np.isnan(values)
    codes, weights = (
        label_codes(table["class"], model.classes)[known],
        table["count"].to_numpy()[known],
    )
    values = values[known]
    total = np.bincount(codes, weights, size)
    with np.errstate(invalid="ignore"):
        mean = np.bincount(codes, weights * values, size) / total
        variance = np.bincount(codes, weights * (values - mean[codes]) ** 2, size) / total
    return MeanVariance("points", mean, variance)


def _presence(model: Model, block: Block, table: pa.Table) -> dict[Key, Distribution]:
    """The probability that a feature, or a term of the block's column, is present."""
    terms = pa.types.is_nested(model.features.field(block.columns[0]).type)
    names, log_probability = _by_feature_and_class(model, table, "log_probability")
    pmfs: dict[Key, Distribution] = {}
    for name, present in zip(names, np.exp(log_probability), strict=True):
        key = (block.columns[0], name) if terms else (name, None)
        pmfs[key] = Pmf(("present", "absent"), np.stack([present, 1.0 - present]))
    return pmfs


def _pmf(model: Model, table: pa.Table, column: str) -> Pmf:
    """Probabilities of the values of a column, summed over the other columns of a joint table."""
    values, probability = masses_by_class(table, _texts(table[column]), model.classes)
    return Pmf(tuple(values), probability)


def _bins(model: Model, table: pa.Table) -> Bins:
    lower = dict(zip(table["bin"].to_pylist(), table["lower"].to_pylist(), strict=True))
    bins = pa.array(sorted(lower), table["bin"].type)
    (log_probability,) = dense_arrays(
        table, model.classes, "bin", bins, ["log_probability"], missing=-np.inf
    )
    cuts = (lower[number] for number in sorted(lower)[1:])
    # The bin of nulls, whose bounds are null, comes last, above all numbers.
    above = tuple(np.inf if cut is None else cut for cut in cuts)
    return Bins(above, np.exp(log_probability.T))


def _features(table: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """The rows of each feature, in order of first appearance."""
    return by_feature(table, pc.unique(table["feature"]).to_pylist())


def _by_feature_and_class(model: Model, table: pa.Table, *fields: str) -> list[Any]:
    """The names of the features, and each field as an array ``(features, k)``; NaN if missing."""
    features = pc.unique(table["feature"])
    arrays = dense_arrays(table, model.classes, "feature", features, fields, missing=np.nan)
    return [features.to_pylist(), *(array.T for array in arrays)]


def _texts(values: pa.ChunkedArray) -> list[str]:
    texts = category_values(values.combine_chunks())
    return ["missing" if text is None else text for text in texts]
