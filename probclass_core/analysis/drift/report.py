"""`drift`: two models compared class by class and feature by feature.

Every column is ranked by the Jensen–Shannon divergence of its laws, which means the same for
numbers, counts and categories; what people ask next is told beside it: the shift of a mean in
standard deviations, the ratio of variances, the category that grew or shrank most.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from probclass_core.analysis.drift import divergence
from probclass_core.analysis.drift.distributions import Bins, Law, Masses, Moments, laws
from probclass_core.arrow.arrays import FloatArray
from probclass_core.errors import DataError, SpecError, one_of
from probclass_core.estimation.families.discretized.cuts import bin_name
from probclass_core.estimation.statistics import Statistics
from probclass_core.model.model import Model, finalize

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
_SHARES = ("share_before", "share_after")


@dataclass(frozen=True)
class Drift:
    """How one model differs from another.

    Attributes:
        before: content id of the first.
        after: content id of the second.
        class_divergence: Jensen–Shannon divergence of the shares of the classes, in bits.
        classes: class, share_before, share_after: of the rows (their weights) in training; 0 where
            one of the two never saw the class.
        features: one row per feature and class that both know: block (of the second), feature, term
            (of a column of terms, else null), class, divergence (bits, 0 to 1); for numbers and
            counts mean_before, mean_after, sd_before, sd_after, mean_shift =
            (m₂ − m₁) / √((v₁ + v₂) / 2) and variance_ratio = v₂ / v₁; with covariances
            correlation_change, the largest change of a correlation with another feature of the
            block; for categories, terms and bins the value whose probability changed most, with
            probability_before and probability_after. What does not apply is null; so is the
            divergence of points, whose law is not known.
        by_feature: for each feature the row of `features` of the class that changed most, but
            `divergence` is the mean over the classes, weighted by the mean of their shares; what
            changed most stands first.
        uncompared: what was not compared and why, one line each.
    """

    before: str
    after: str
    class_divergence: float
    classes: pa.Table
    features: pa.Table
    by_feature: pa.Table
    uncompared: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; an infinite number is null."""
        plain = {
            key: _finite(value.to_pylist()) if isinstance(value, pa.Table) else value
            for key, value in vars(self).items()
        }
        return dict(json.loads(json.dumps(plain, allow_nan=False)))


def drift(before: Model | Statistics, after: Model | Statistics) -> Drift:
    """What changed from one model to another, from their parameters alone.

    Args:
        before: the earlier model; statistics are finalized first.
        after: the later one.

    Raises:
        SpecError: the two have different labels.
        DataError: they have no class in common, or statistics make no model.
    """
    old, new = (each if isinstance(each, Model) else finalize(each) for each in (before, after))
    if old.spec.label != new.spec.label:
        raise SpecError(
            f"models of different labels do not compare: {old.spec.label!r} and {new.spec.label!r}."
        )
    common = [name for name in new.class_names if name in set(old.class_names)]
    if not common:
        raise DataError(
            f"the models have no class in common: {one_of(old.class_names)} in the first, "
            f"{one_of(new.class_names)} in the second."
        )
    classes = _shares(old, new)
    (was, untold), (now, untold_now) = laws(old), laws(new)
    uncompared = [
        f"block {name!r}: its parameters tell no law of a column"
        for name in sorted({*untold, *untold_now})
    ]
    places = [(name, old.class_names.index(name), new.class_names.index(name)) for name in common]
    rows: list[dict[str, Any]] = []
    for key in dict.fromkeys([*now, *was]):
        told = key[0] if key[1] is None else f"{key[0]} {key[1]!r}"
        if key not in now or key not in was:
            uncompared.append(f"{told}: only in the {'first' if key in was else 'second'} model")
            continue
        block, law = now[key]
        former = was[key][1]
        if (reason := _unlike(former, law)) is not None:
            uncompared.append(f"{told}: {reason}")
            continue
        cells = {"block": block, "feature": key[0], "term": key[1]}
        rows += [{**cells, "class": c, **_change(former, law, i, j)} for c, i, j in places]
    shares = {row["class"]: row for row in classes.to_pylist()}
    return Drift(
        before=old.id,
        after=new.id,
        class_divergence=divergence.of_masses(
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
        held = np.array([counts.get(name, 0.0) for name in names], np.float64)
        columns[title] = held / held.sum()
    return pa.table({"class": names, **columns})


def _unlike(former: Law, law: Law) -> str | None:
    """Why two laws of a column cannot be compared, or none."""
    if type(former) is not type(law):
        return "modeled in another way by each"
    if isinstance(former, Bins) and isinstance(law, Bins) and former.cuts != law.cuts:
        shared = set(former.cuts) & set(law.cuts)
        return None if shared else "cut into other bins by each, without a cut in common"
    return None


def _change(former: Law, law: Law, i: int, j: int) -> dict[str, Any]:
    """One column in one class, which is the i-th of the first model and the j-th of the second."""
    if isinstance(former, Moments) and isinstance(law, Moments):
        return _change_of_moments(former, law, i, j)
    if isinstance(former, Bins) and isinstance(law, Bins):
        former, law = _on_common_cuts(former, law)
    assert isinstance(former, Masses)
    assert isinstance(law, Masses)
    values = list(dict.fromkeys([*former.values, *law.values]))
    p, q = _on(values, former, i), _on(values, law, j)
    most = int(np.argmax(np.abs(q - p)[:-1].round(12)))  # of equals the first
    return {
        "divergence": divergence.of_masses(p, q),
        "value": values[most],
        "probability_before": float(p[most]),
        "probability_after": float(q[most]),
    }


def _change_of_moments(former: Moments, law: Moments, i: int, j: int) -> dict[str, Any]:
    m, v = float(former.mean[i]), float(former.variance[i])
    n, w = float(law.mean[j]), float(law.variance[j])
    if not all(map(math.isfinite, (m, v, n, w))):
        return {}  # a class without a value of the column
    spread = math.sqrt((v + w) / 2.0)
    bits = None
    if former.kind == law.kind == "normal":
        bits = divergence.of_normals(m, v, n, w)
    elif former.kind == law.kind == "poisson":
        bits = divergence.of_poissons(m, n)
    turned = [
        abs(float(law.correlations[other][j] - former.correlations[other][i]))
        for other in law.correlations
        if other in former.correlations
    ]
    return {
        "divergence": bits,
        "mean_before": m,
        "mean_after": n,
        "sd_before": math.sqrt(v),
        "sd_after": math.sqrt(w),
        "mean_shift": (n - m) / spread if spread > 0.0 else 0.0 if n == m else None,
        "variance_ratio": w / v if v > 0.0 else None,
        "correlation_change": max(turned, default=None),
    }


def _on(values: list[str], law: Masses, place: int) -> FloatArray:
    """Probabilities of these values and, last, of all others, such as cells that none showed."""
    known = dict(zip(law.values, law.masses[:, place].tolist(), strict=True))
    masses = np.array([known.get(value, 0.0) for value in values])
    return np.append(masses, max(0.0, 1.0 - masses.sum()))


def _on_common_cuts(former: Bins, law: Bins) -> tuple[Masses, Masses]:
    """Bins joined until both are cut alike, which can only lessen a divergence."""
    cuts = [cut for cut in law.cuts if cut in set(former.cuts)]
    edges = [-math.inf, *cuts, math.inf]
    names = [bin_name(*bounds) for bounds in pairwise(edges)]

    def joined(bins: Bins) -> Masses:
        starts = [0, *(bins.cuts.index(cut) + 1 for cut in cuts)]
        return Masses(tuple(names), np.add.reduceat(bins.masses, starts, axis=0))

    return joined(former), joined(law)


def _by_feature(
    rows: list[dict[str, Any]], shares: Mapping[str, Mapping[str, float]]
) -> list[dict[str, Any]]:
    found: dict[tuple[str, str | None], list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault((row["feature"], row["term"]), []).append(row)
    merged = []
    for of_one in found.values():
        told = [row for row in of_one if row.get("divergence") is not None]
        weights = [sum(shares[row["class"]][key] for key in _SHARES) for row in told]
        most = max(of_one, key=_largeness)
        mean = (
            sum(w * row["divergence"] for w, row in zip(weights, told, strict=True)) / sum(weights)
            if told
            else None
        )
        merged.append({**most, "divergence": mean})
    return sorted(merged, key=_largeness, reverse=True)


def _largeness(row: Mapping[str, Any]) -> tuple[float, float]:
    bits, shift = row.get("divergence"), row.get("mean_shift")
    return (-1.0 if bits is None else bits, abs(shift or 0.0))


def _finite(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            key: None if isinstance(value, float) and not math.isfinite(value) else value
            for key, value in row.items()
        }
        for row in rows
    ]
