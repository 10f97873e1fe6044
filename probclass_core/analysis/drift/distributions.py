"""The law of every column within every class, read off a model's parameters.

What a parameters table says is told by its columns, as any reader of it would: a mean and a
variance, a rate, the probabilities of categories, bins or terms, or the training points.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.arrow.arrays import FloatArray, category_values, label_codes
from probclass_core.estimation.tidy import by_feature, masses_by_class
from probclass_core.model.model import Model
from probclass_core.spec import Block

Key: TypeAlias = tuple[str, str | None]
"""A column, or a column and one of its terms."""


@dataclass(frozen=True)
class Moments:
    """Mean and variance in each class, ``(k,)``, and what law they stand for.

    Attributes:
        kind: ``"normal"``, ``"poisson"``, or ``"points"``, whose law is not known.
        correlations: with each other column of the block, ``(k,)``.
    """

    kind: str
    mean: FloatArray
    variance: FloatArray
    correlations: dict[str, FloatArray] = field(default_factory=dict)


@dataclass(frozen=True)
class Masses:
    """Probabilities of ``m`` values in each class, ``(m, k)``."""

    values: tuple[str, ...]
    masses: FloatArray


@dataclass(frozen=True)
class Bins:
    """Probabilities of ``m`` bins in each class, ``(m, k)``, and the ``m − 1`` cuts between."""

    cuts: tuple[float, ...]
    masses: FloatArray


Law: TypeAlias = Moments | Masses | Bins


def laws(model: Model) -> tuple[dict[Key, tuple[str, Law]], list[str]]:
    """The block and the law of each column, and the blocks whose parameters tell of none."""
    found: dict[Key, tuple[str, Law]] = {}
    untold: list[str] = []
    for block in model.spec.blocks:
        own = _of_block(model, block, model.parameters[str(block.name)])
        found |= {key: (str(block.name), law) for key, law in own.items()}
        if not own:
            untold.append(str(block.name))
    return found, untold


def _of_block(model: Model, block: Block, table: pa.Table) -> dict[Key, Law]:
    held = set(table.column_names)
    if {"feature", "mean", "variance"} <= held:
        return {
            (name, None): Moments(
                "normal", _by_class(model, own, "mean"), _by_class(model, own, "variance")
            )
            for name, own in _features(table)
        }
    if {"mean", "covariance"} <= held:
        return _of_covariances(model, block, table)
    if {"feature", "rate"} <= held:
        rates = {name: _by_class(model, own, "rate") for name, own in _features(table)}
        return {(name, None): Moments("poisson", rate, rate) for name, rate in rates.items()}
    if {"point", "count"} <= held:
        return _of_points(model, block, table)
    if "log_probability" not in held:
        return {}
    if {"lower", "upper"} <= held:
        return {(name, None): _bins(model, own) for name, own in _features(table)}
    if {"feature", "value"} <= held:
        return {(name, None): _masses(model, own, "value") for name, own in _features(table)}
    if held.issuperset(block.columns):
        return {(name, None): _masses(model, table, name) for name in block.columns}
    if "feature" not in held:
        return {}
    if block.estimator == "multinomial":
        whole = block.columns[0] if len(block.columns) == 1 else str(block.name)
        return {(whole, None): _masses(model, table, "feature")}
    return _of_presences(model, block, table)


def _of_covariances(model: Model, block: Block, table: pa.Table) -> dict[Key, Law]:
    order = label_codes(model.classes, table["class"].combine_chunks())
    means = np.array(table["mean"].to_pylist(), np.float64)[order]
    covariance = table["covariance"].combine_chunks().to_numpy_ndarray()[order]
    variance = np.diagonal(covariance, axis1=1, axis2=2)
    scale = np.sqrt(variance[:, :, None] * variance[:, None, :])
    correlation = np.divide(covariance, scale, out=np.zeros_like(covariance), where=scale > 0.0)
    return {
        (name, None): Moments(
            "normal",
            means[:, place],
            variance[:, place],
            {
                other: correlation[:, place, at]
                for at, other in enumerate(block.columns)
                if at != place
            },
        )
        for place, name in enumerate(block.columns)
    }


def _of_points(model: Model, block: Block, table: pa.Table) -> dict[Key, Law]:
    """The moments of the points; a NaN is no value."""
    size = len(model.classes)
    place = label_codes(table["class"].combine_chunks(), model.classes)
    points = np.array(table["point"].to_pylist(), np.float64).reshape(-1, len(block.columns))
    found: dict[Key, Law] = {}
    for at, name in enumerate(block.columns):
        known = ~np.isnan(points[:, at])
        values, of, weights = points[known, at], place[known], table["count"].to_numpy()[known]
        total = np.bincount(of, weights, size)
        with np.errstate(invalid="ignore"):
            mean = np.bincount(of, weights * values, size) / total
            variance = np.bincount(of, weights * (values - mean[of]) ** 2, size) / total
        found[name, None] = Moments("points", mean, variance)
    return found


def _of_presences(model: Model, block: Block, table: pa.Table) -> dict[Key, Law]:
    terms = pa.types.is_nested(model.features.field(block.columns[0]).type)
    found: dict[Key, Law] = {}
    for name, own in _features(table):
        present = np.exp(_by_class(model, own, "log_probability"))
        key = (block.columns[0], name) if terms else (name, None)
        found[key] = Masses(("present", "absent"), np.stack([present, 1.0 - present]))
    return found


def _features(table: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """The rows of each feature, features in order of appearance."""
    return by_feature(table, pc.unique(table["feature"]).to_pylist())


def _by_class(model: Model, table: pa.Table, column: str) -> FloatArray:
    """One value per class, in class order."""
    values = np.full(len(model.classes), np.nan)
    values[label_codes(table["class"].combine_chunks(), model.classes)] = table[column].to_numpy()
    return values


def _masses(model: Model, table: pa.Table, column: str) -> Masses:
    """Of the cells that a column names; others, where cells are joint, are summed out."""
    names, found = masses_by_class(table, _texts(table[column]), model.classes)
    return Masses(tuple(names), found)


def _bins(model: Model, table: pa.Table) -> Bins:
    bins = pc.max(table["bin"]).as_py() + 1
    masses = np.zeros((bins, len(model.classes)))
    place = label_codes(table["class"].combine_chunks(), model.classes)
    masses[table["bin"].to_numpy(), place] = np.exp(table["log_probability"].to_numpy())
    lower = dict(zip(table["bin"].to_pylist(), table["lower"].to_pylist(), strict=True))
    return Bins(tuple(lower[number] for number in range(1, bins)), masses)


def _texts(values: pa.ChunkedArray) -> list[str]:
    return [str(text) for text in category_values(values.combine_chunks())]
