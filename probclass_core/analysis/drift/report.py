"""Drift: two models compared class by class and feature by feature.

Columns are ranked by the Jensen–Shannon divergence of their distributions, which is comparable for
numbers, counts and categories. Further figures say what changed: the shift of the mean in standard
deviations, the ratio of variances, the category whose probability changed most.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from probclass_core.analysis.drift import divergence
from probclass_core.analysis.drift.distributions import (
    Bins,
    Distribution,
    MeanVariance,
    Pmf,
    distributions,
)
from probclass_core.analysis.json_values import json_values
from probclass_core.arrow.annotations import ArrowTable
from probclass_core.arrow.arrays import FloatArray
from probclass_core.arrow.display import Part, Report, TablePart
from probclass_core.errors import DataError, SpecError, one_of, shown
from probclass_core.estimation.families.discretized.cuts import bin_name
from probclass_core.estimation.statistics import Statistics
from probclass_core.model.finalize import finalize
from probclass_core.model.model import Model, ModelOption, as_model, is_model

_NUMBERS = (
    "divergence",
    "mean_before",
    "mean_after",
    "sd_before",
    "sd_after",
    "mean_shift",
    "variance_ratio",
    "correlation_change",
)
_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("block", "feature", "term", "class")),
        *((name, pa.float64()) for name in _NUMBERS),
        ("value", pa.string()),
        ("probability_before", pa.float64()),
        ("probability_after", pa.float64()),
    ]
)
_PROBABILITIES = ("probability_before", "probability_after")
_SHARES = ("share_before", "share_after")


@dataclass(frozen=True, repr=False)
class Drift(Report):
    """The differences between two models.

    Attributes:
        before: content id of the first model.
        after: content id of the second model.
        class_divergence: Jensen–Shannon divergence of the class shares, in bits.
        classes: class, share_before, share_after: shares of the (weighted) training rows; 0 if a
            model never saw the class.
        features: one row per common feature and class: block (of the second model), feature, term
            (of a column of terms, else null), class, divergence (bits, 0 to 1); for numbers and
            counts mean_before, mean_after, sd_before, sd_after, mean_shift =
            (m₂ − m₁) / √((v₁ + v₂) / 2) and variance_ratio = v₂ / v₁; with covariances
            correlation_change, the largest change of a correlation with another feature of the
            block; for categories, terms and bins the value whose probability changed most, with
            probability_before and probability_after. Fields that do not apply are null, as is the
            divergence of training points, whose distribution is unknown.
        by_feature: for each feature the row of `features` of the class that changed most, except
            that `divergence` is the mean over the classes, weighted by their mean shares; sorted by
            decreasing divergence.
        uncompared: features and blocks that were not compared, each with the reason.
    """

    before: str
    after: str
    class_divergence: float
    classes: ArrowTable
    features: ArrowTable
    by_feature: ArrowTable
    uncompared: tuple[str, ...]

    def _report(self) -> list[Part]:
        """The columns that changed most, and the classes."""
        rows = self.by_feature.to_pylist()
        columns: dict[str, list[Any]] = {
            "column": [
                row["feature"] if row["term"] is None else f"{row['feature']} {row['term']!r}"
                for row in rows
            ],
            "divergence": [row["divergence"] for row in rows],
        }
        for name in ("class", "mean_shift", "variance_ratio", "value", *_PROBABILITIES):
            columns[name.replace("_", " ")] = [row[name] for row in rows]
        return [
            f"Drift from model {self.before[:12]} to {self.after[:12]}",
            TablePart(
                self.classes.to_pydict(),
                f"classes; divergence of their shares: {self.class_divergence:.4f} bits",
            ),
            TablePart(
                columns, "columns, most changed first; in bits, and of the class that changed most"
            ),
            [f"Not compared: {reason}" for reason in self.uncompared],
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; an infinite number is null."""
        return dict(json_values(vars(self)))


def drift(before: ModelOption | Statistics, after: ModelOption | Statistics) -> Drift:
    """Compare two models by their parameters alone; no rows are read.

    Args:
        before: earlier model or fitted `ProbClassifier`, or its statistics.
        after: later one, likewise.

    Raises:
        SpecError: if the models have different labels.
        DataError: if they have no class in common, or statistics cannot be finalized.
    """
    for each in (before, after):
        if not isinstance(each, Statistics) and not is_model(each):
            raise SpecError(
                f"drift compares two models, got {shown(each)}; to compare rows with a model, use "
                "health(model, rows)."
            )
    old, new = (
        finalize(each) if isinstance(each, Statistics) else as_model(each)
        for each in (before, after)
    )
    if old.spec.label != new.spec.label:
        raise SpecError(
            f"models of different labels cannot be compared: {old.spec.label!r} and "
            f"{new.spec.label!r}."
        )
    common = [name for name in new.class_names if name in set(old.class_names)]
    if not common:
        raise DataError(
            f"the models have no class in common: {one_of(old.class_names)} in the first, "
            f"{one_of(new.class_names)} in the second."
        )
    classes = _shares(old, new)
    (old_distributions, old_unknown), (new_distributions, new_unknown) = map(
        distributions, (old, new)
    )
    uncompared = [
        f"block {name!r}: {reason}"
        for name, reason in sorted({**old_unknown, **new_unknown}.items())
    ]
    positions = [
        (name, old.class_names.index(name), new.class_names.index(name)) for name in common
    ]
    rows: list[dict[str, Any]] = []
    for key in dict.fromkeys([*new_distributions, *old_distributions]):
        feature, term = key
        column = feature if term is None else f"{feature} {term!r}"
        if key not in new_distributions or key not in old_distributions:
            only = "first" if key in old_distributions else "second"
            uncompared.append(f"{column}: only in the {only} model")
            continue
        p, (block, q) = old_distributions[key][1], new_distributions[key]
        if (reason := _incomparable(p, q)) is not None:
            uncompared.append(f"{column}: {reason}")
            continue
        names = {"block": block, "feature": feature, "term": term}
        rows += [{**names, "class": c, **_change(p, q, i, j)} for c, i, j in positions]
    shares = {row["class"]: row for row in classes.to_pylist()}
    return Drift(
        before=old.id,
        after=new.id,
        class_divergence=divergence.of_pmfs(
            classes["share_before"].to_numpy(), classes["share_after"].to_numpy()
        ),
        classes=classes,
        features=pa.Table.from_pylist(rows, schema=_SCHEMA),
        by_feature=pa.Table.from_pylist(_by_feature(rows, shares), schema=_SCHEMA),
        uncompared=tuple(uncompared),
    )


def _shares(old: Model, new: Model) -> pa.Table:
    names = list(dict.fromkeys([*old.class_names, *new.class_names]))
    columns = {}
    for title, model in zip(_SHARES, (old, new), strict=True):
        counts = dict(zip(model.class_names, model.priors["count"].to_pylist(), strict=True))
        ordered = np.array([counts.get(name, 0.0) for name in names], np.float64)
        columns[title] = ordered / ordered.sum()
    return pa.table({"class": names, **columns})


def _incomparable(p: Distribution, q: Distribution) -> str | None:
    """Why two distributions of a column cannot be compared, or None if they can."""
    if type(p) is not type(q):
        return "the models use different kinds of distribution"
    if isinstance(p, Bins) and isinstance(q, Bins) and p.cuts != q.cuts:
        return None if set(p.cuts) & set(q.cuts) else "the models' bins have no cut in common"
    return None


def _change(p: Distribution, q: Distribution, i: int, j: int) -> dict[str, Any]:
    """The change of a column from class i of the first model to class j of the second."""
    if isinstance(p, MeanVariance) and isinstance(q, MeanVariance):
        return _change_of_means(p, q, i, j)
    if isinstance(p, Bins) and isinstance(q, Bins):
        p, q = _with_common_cuts(p, q)
    assert isinstance(p, Pmf)
    assert isinstance(q, Pmf)
    values = list(dict.fromkeys([*p.values, *q.values]))
    before, after = _probabilities(values, p, i), _probabilities(values, q, j)
    most = int(np.argmax(np.abs(after - before)[:-1].round(12)))  # ties go to the first
    return {
        "divergence": divergence.of_pmfs(before, after),
        "value": values[most],
        "probability_before": float(before[most]),
        "probability_after": float(after[most]),
    }


def _change_of_means(p: MeanVariance, q: MeanVariance, i: int, j: int) -> dict[str, Any]:
    mean_p, variance_p = float(p.mean[i]), float(p.variance[i])
    mean_q, variance_q = float(q.mean[j]), float(q.variance[j])
    if not all(map(math.isfinite, (mean_p, variance_p, mean_q, variance_q))):
        return {}  # a class without a value of the column
    sd = math.sqrt((variance_p + variance_q) / 2.0)
    bits = None
    if p.kind == q.kind == "normal":
        bits = divergence.of_normals(mean_p, variance_p, mean_q, variance_q)
    elif p.kind == q.kind == "poisson":
        bits = divergence.of_poissons(mean_p, mean_q)
    changes = [
        abs(float(q.correlations[other][j] - p.correlations[other][i]))
        for other in q.correlations
        if other in p.correlations
    ]
    shift = None
    if sd > 0.0:
        shift = (mean_q - mean_p) / sd
    elif mean_q == mean_p:
        shift = 0.0
    return {
        "divergence": bits,
        "mean_before": mean_p,
        "mean_after": mean_q,
        "sd_before": math.sqrt(variance_p),
        "sd_after": math.sqrt(variance_q),
        "mean_shift": shift,
        "variance_ratio": variance_q / variance_p if variance_p > 0.0 else None,
        "correlation_change": max(changes, default=None),
    }


def _probabilities(values: list[str], pmf: Pmf, position: int) -> FloatArray:
    """Probabilities of these values in one class and, last, of all other values."""
    known = dict(zip(pmf.values, pmf.probability[:, position].tolist(), strict=True))
    probability = np.array([known.get(value, 0.0) for value in values])
    return np.append(probability, max(0.0, 1.0 - probability.sum()))


def _with_common_cuts(p: Bins, q: Bins) -> tuple[Pmf, Pmf]:
    """Join bins until both have the same cuts, which can only reduce a divergence."""
    cuts = [cut for cut in q.cuts if cut in set(p.cuts)]
    edges = [-math.inf, *cuts, math.inf]
    names = [bin_name(*bounds) for bounds in pairwise(edges)]

    def join(bins: Bins) -> Pmf:
        starts = [0, *(bins.cuts.index(cut) + 1 for cut in cuts)]
        return Pmf(tuple(names), np.add.reduceat(bins.probability, starts, axis=0))

    return join(p), join(q)


def _by_feature(
    rows: list[dict[str, Any]], shares: Mapping[str, Mapping[str, float]]
) -> list[dict[str, Any]]:
    """One row per feature: the class that changed most, with the mean divergence."""
    grouped: dict[tuple[str, str | None], list[dict[str, Any]]] = {}
    for row in rows:
        grouped.setdefault((row["feature"], row["term"]), []).append(row)
    merged = []
    for group in grouped.values():
        known = [row for row in group if row.get("divergence") is not None]
        weights = [sum(shares[row["class"]][key] for key in _SHARES) for row in known]
        mean = None
        if known:
            pairs = zip(weights, known, strict=True)
            mean = sum(weight * row["divergence"] for weight, row in pairs) / sum(weights)
        largest = max(group, key=_size)
        merged.append({**largest, "divergence": mean})
    return sorted(merged, key=_size, reverse=True)


def _size(row: dict[str, Any]) -> tuple[float, float]:
    """The size of a change, to sort by."""
    bits, shift = row.get("divergence"), row.get("mean_shift")
    return (-1.0 if bits is None else bits, abs(shift or 0.0))
