"""Drift: two models compared class by class and feature by feature.

Columns are ranked by the Jensen–Shannon divergence of their distributions, which is comparable for
numbers, counts and categories. Further figures say what changed: the shift of the mean in standard
deviations, the ratio of variances, the category whose probability changed most.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from probclass_core.analysis.distributions.divergence import divergence, in_shared_bins
from probclass_core.analysis.distributions.grid import Grid, side_by_side
from probclass_core.analysis.distributions.reading import read_column, training_ends
from probclass_core.arrow.arrays import FloatArray
from probclass_core.display import Part, Report, TablePart, json_values
from probclass_core.errors import DataError, NotSupportedError, SpecError, one_of, shown
from probclass_core.estimation.marginals import Curve, Levels, bins
from probclass_core.model.model import Model, ModelOption, as_model, is_model

_NUMBERS = (
    "divergence",
    "mean_before",
    "mean_after",
    "sd_before",
    "sd_after",
    "mean_shift",
    "variance_ratio",
)
_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("block", "feature", "class")),
        *((name, pa.float64()) for name in _NUMBERS),
        ("value", pa.string()),
        ("probability_before", pa.float64()),
        ("probability_after", pa.float64()),
    ]
)
_PROBABILITIES = ("probability_before", "probability_after")
_SHARES = ("share_before", "share_after")

Change = Callable[[int, int], dict[str, Any]]
"""Figures of the change from class i of the first model to class j of the second."""


@dataclass(frozen=True, repr=False)
class Drift(Report):
    """The differences between two models.

    Attributes:
        before: content id of the first model.
        after: content id of the second model.
        class_divergence: Jensen–Shannon divergence of the class shares, in bits.
        classes: class, share_before, share_after: shares of the (weighted) training rows; 0 if a
            model never saw the class.
        features: one row per common feature and class: block (of the second model), feature,
            class, divergence (bits, 0 to 1); for numbers and counts mean_before, mean_after,
            sd_before, sd_after, mean_shift = (m₂ − m₁) / √((v₁ + v₂) / 2) and variance_ratio =
            v₂ / v₁; for categories, terms and bins the value whose probability changed most, with
            probability_before and probability_after. Of terms that a row has or not, the divergence
            is that of this term. Fields that do not apply are null, as is the divergence of a
            point mass, and of a density that does not integrate to 1, such as that of neighbors.
        by_feature: for each feature the row of `features` of the class that changed most, except
            that `divergence` is the mean over the classes, weighted by their mean shares; sorted by
            decreasing divergence.
        uncompared: features and blocks that were not compared, each with the reason.
    """

    before: str
    after: str
    class_divergence: float
    classes: pa.Table
    features: pa.Table
    by_feature: pa.Table
    uncompared: tuple[str, ...]

    def _report(self) -> list[Part]:
        """The columns that changed most, and the classes."""
        rows = self.by_feature.to_pylist()
        columns: dict[str, list[Any]] = {
            "column": [row["feature"] for row in rows],
            "divergence": [row["divergence"] for row in rows],
        }
        for name in ("class", "mean_shift", "variance_ratio", "value", *_PROBABILITIES):
            if any(row[name] is not None for row in rows):
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


def drift(before: ModelOption, after: ModelOption) -> Drift:
    """Compare two models by their parameters alone; no rows are read.

    Args:
        before: earlier model or fitted `ProbClassifier`.
        after: later one, likewise.

    Raises:
        SpecError: if the models have different labels.
        DataError: if they have no class in common.
    """
    old, new = _as_model(before), _as_model(after)
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
    weights = {row["class"]: sum(row[share] for share in _SHARES) for row in classes.to_pylist()}
    uncompared: list[str] = []
    features: list[dict[str, Any]] = []
    by_feature: list[dict[str, Any]] = []
    for column in dict.fromkeys([*new.features.names, *old.features.names]):
        try:
            block, change = _compared(old, new, column)
        except NotSupportedError as reason:
            uncompared.append(f"{column}: {reason}")
            continue
        rows = [
            {"block": block, "feature": column, "class": name}
            | change(old.class_names.index(name), new.class_names.index(name))
            for name in common
        ]
        features += rows
        by_feature.append(_summary(rows, weights))
    by_feature.sort(key=_size, reverse=True)
    return Drift(
        before=old.id,
        after=new.id,
        class_divergence=float(divergence(*(classes[share].to_numpy() for share in _SHARES))),
        classes=classes,
        features=pa.Table.from_pylist(features, schema=_SCHEMA),
        by_feature=pa.Table.from_pylist(by_feature, schema=_SCHEMA),
        uncompared=tuple(uncompared),
    )


def _as_model(model: ModelOption) -> Model:
    if not is_model(model):
        raise SpecError(
            f"drift compares two models, got {shown(model)}; to compare rows with a model, use "
            "health(model, rows)."
        )
    return as_model(model)


def _shares(old: Model, new: Model) -> pa.Table:
    names = list(dict.fromkeys([*old.class_names, *new.class_names]))
    columns = {}
    for title, model in zip(_SHARES, (old, new), strict=True):
        counts = dict(zip(model.class_names, model.priors["count"].to_pylist(), strict=True))
        ordered = np.array([counts.get(name, 0.0) for name in names], np.float64)
        columns[title] = ordered / ordered.sum()
    return pa.table({"class": names, **columns})


def _compared(old: Model, new: Model, column: str) -> tuple[str, Change]:
    """The block of the new model, and how the distribution of a column changed.

    Raises:
        NotSupportedError: if they cannot be compared.
    """
    for model, other in ((old, "second"), (new, "first")):
        if column not in model.features.names:
            raise NotSupportedError(f"only in the {other} model")
    first, second = read_column(old, column), read_column(new, column)
    if first is None or second is None:
        raise NotSupportedError("its estimator describes no distribution of it")
    (_, p), (block, q) = first, second
    if isinstance(p, Curve) and isinstance(q, Curve) and p.whole == q.whole:
        return str(block.name), _change_of_curves(p, q, training_ends(old, new, column=column))
    if not isinstance(p, Levels) or not isinstance(q, Levels) or p.of != q.of:
        raise NotSupportedError("the models use different kinds of distribution")
    if p.cuts is not None and q.cuts is not None and not np.array_equal(p.cuts, q.cuts):
        sizes = len(p.cuts) + 1, len(q.cuts) + 1  # without null
        masses = p.probability[: sizes[0]], q.probability[: sizes[1]]
        shared = in_shared_bins(p.cuts, masses[0], q.cuts, masses[1])
        if shared is None:
            raise NotSupportedError("the models' bins have no range in common")
        cuts, *both = shared
        p, q = bins(cuts, both[0], p.missing), bins(cuts, both[1], q.missing)
    return str(block.name), _change_of_levels(p, q)


def _change_of_levels(p: Levels, q: Levels) -> Change:
    values = list(dict.fromkeys([*p.names, *q.names]))
    masses_before, masses_after = _masses(p, values), _masses(q, values)

    def change(i: int, j: int) -> dict[str, Any]:
        masses = np.stack([masses_before[:, i], masses_after[:, j]])
        # Not the other values, which come last; ties go to the first.
        most = int(np.argmax(np.abs(np.diff(masses, axis=0))[0, :-1].round(12)))
        before, after = masses[:, most].tolist()
        if p.of == "presence":
            masses = np.stack([masses[:, most], 1.0 - masses[:, most]], axis=1)
        return {
            "divergence": float(divergence(*masses)),
            "value": "missing" if values[most] is None else values[most],
            "probability_before": before,
            "probability_after": after,
        }

    return change


def _masses(levels: Levels, values: Sequence[str | None]) -> FloatArray:
    """Probabilities of these values and, last, of all others: ``(m + 1, k)``."""
    masses = np.zeros((len(values) + 1, levels.probability.shape[1]))
    places = {value: place for place, value in enumerate(values)}
    masses[[places[name] for name in levels.names]] = levels.probability
    masses[-1] = np.maximum(0.0, 1.0 - masses.sum(axis=0))
    return masses


def _change_of_curves(p: Curve, q: Curve, ends: tuple[float, float] | None) -> Change:
    grid = Grid.of(side_by_side(p, q), ends)
    means, variances = grid.moments
    first = len(means) - q.log_density(np.empty(0)).shape[1]  # class of the second model

    def change(i: int, j: int) -> dict[str, Any]:
        both = [i, first + j]
        bits = float(divergence(*grid.masses[:, both].T)) if grid.known[both].all() else None
        if not np.isfinite([means[both], variances[both]]).all():
            return {"divergence": bits}  # without a value of the column, or no variance
        (mean_p, mean_q), (variance_p, variance_q) = means[both].tolist(), variances[both].tolist()
        sd = math.sqrt((variance_p + variance_q) / 2.0)
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
        }

    return change


def _summary(rows: Sequence[dict[str, Any]], weights: Mapping[str, float]) -> dict[str, Any]:
    """The row of the class that changed most, with the mean divergence of the classes."""
    known = [row for row in rows if row.get("divergence") is not None]
    mean = None
    if known:
        of_classes = [weights[row["class"]] for row in known]
        mean = float(np.average([row["divergence"] for row in known], weights=of_classes))
    most_changed = max(rows, key=_size)
    return {**most_changed, "divergence": mean}


def _size(row: dict[str, Any]) -> tuple[float, float]:
    """The size of a change, to sort by."""
    bits, shift = row.get("divergence"), row.get("mean_shift")
    return (-1.0 if bits is None else bits, abs(shift or 0.0))
