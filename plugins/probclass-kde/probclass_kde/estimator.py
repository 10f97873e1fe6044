"""Kernel densities of single features: a normal kernel at every training row.

    f(x | c) = ∏ⱼ 1 / (n_cj h_cj) · Σᵢ w_i φ((xⱼ − x_ij) / h_cj)

Zaki and Meira, *Data Mining and Machine Learning*, section 15.2, in one dimension for each feature:
a product over features, so that a null leaves its factor out and the density of the others stays.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from scipy.special import logsumexp

import probclass_core as pc
from probclass_core.authoring import (
    FloatArray,
    is_numeric_type,
    notes_of,
    number_option,
    numeric_column,
    read_options,
    require_types,
    with_notes,
)
from probclass_kde import bandwidth

_DEFAULTS = {"bandwidth": "isj"}
_CELLS = 4_000_000
"""Rows times points that are held at once: 32 MB."""


class KernelDensity(pc.LikelihoodEstimator):
    """Independent features, each with a normal kernel at every training row of the class.

    Options:
        bandwidth: ``"isj"`` (improved Sheather–Jones), ``"scott"``, ``"silverman"``, or a number
            above 0, the kernel's standard deviation in the column's unit.

    Statistics: class, feature, point (a distinct value), count (Σ w).
    Parameters: the same, and bandwidth.

    Raises:
        SpecError: a column is not numeric, or the bandwidth is no rule and no such number.
    """

    name: ClassVar[str] = "kde"

    def __init__(self, features: pa.Schema, options: Mapping[str, Any]) -> None:
        chosen = read_options(self.name, options, _DEFAULTS)
        super().__init__(features, chosen)
        require_types(self.name, features, is_numeric_type, "numbers")
        self.bandwidth = _read_bandwidth(self.name, chosen["bandwidth"])

    def summarize(
        self, batch: pa.RecordBatch, classes: pa.DictionaryArray, weights: FloatArray | None
    ) -> pa.Table:
        weight = np.ones(batch.num_rows) if weights is None else weights
        labels = classes.dictionary_decode()
        parts = []
        for name in self.features.names:
            values = numeric_column(batch, name) + 0.0  # −0.0 becomes 0.0
            seen = pa.array(~np.isnan(values))
            names = pa.array([name] * batch.num_rows, pa.string())
            columns = {"class": labels, "feature": names, "point": values, "count": weight}
            parts.append(pa.table(columns).filter(seen))
        return self.merge(parts)

    def merge(self, tables: Sequence[pa.Table]) -> pa.Table:
        keys = ["feature", "class", "point"]
        grouped = pa.concat_tables(tables).group_by(keys, use_threads=False)
        merged = grouped.aggregate([("count", "sum")]).rename_columns([*keys, "count"])
        merged = merged.sort_by([(key, "ascending") for key in keys])
        return merged.select(["class", "feature", "point", "count"]).combine_chunks()

    def finalize(self, statistics: pa.Table, classes: pa.Array) -> pa.Table:
        widths = np.zeros(statistics.num_rows)
        found = set()
        for name, label, start, stop in _groups(statistics):
            found.add((name, label))
            points, counts = (
                statistics[column].slice(start, stop - start).to_numpy()
                for column in ("point", "count")
            )
            widths[start:stop] = self._width(points, counts)
        for name in self.features.names:
            for label in classes.to_pylist():
                if (name, label) not in found:
                    raise pc.DataError(
                        f"class {label!r} has no value in column {name!r}; drop the class, or "
                        "leave the column out."
                    )
        parameters = statistics.append_column("bandwidth", pa.array(widths))
        return with_notes(
            parameters, estimator=self.name, features=self.features.names, options=self.options
        )

    def likelihood(self, parameters: pa.Table, classes: pa.Array) -> KernelDensityLikelihood:
        return KernelDensityLikelihood(parameters, classes)

    def _width(self, points: FloatArray, counts: FloatArray) -> float:
        if not isinstance(self.bandwidth, str):
            return self.bandwidth
        return max(bandwidth.choose(self.bandwidth, points, counts), pc.POINT_MASS_WIDTH)


class KernelDensityLikelihood:
    """log p(x | c): over the features that are there, the log of the mean of the kernels.

    Args:
        parameters: of `KernelDensity`, in the order of `KernelDensity.merge`.
        classes: ``k`` labels.
    """

    normalized = True

    def __init__(self, parameters: pa.Table, classes: pa.Array) -> None:
        self.features: list[str] = notes_of(parameters)["features"]
        self.classes = classes.to_pylist()
        points, counts, widths = (
            parameters[name].to_numpy() for name in ("point", "count", "bandwidth")
        )
        self.kernels = {
            (name, label): (points[start:stop], counts[start:stop], float(widths[start]))
            for name, label, start, stop in _groups(parameters)
        }

    def log_likelihood(self, batch: pa.RecordBatch) -> FloatArray:
        result = np.zeros((batch.num_rows, len(self.classes)))
        for name in self.features:
            values = numeric_column(batch, name)
            seen = np.flatnonzero(~np.isnan(values))
            for column, label in enumerate(self.classes):
                result[seen, column] += _log_density(values[seen], *self.kernels[name, label])
        return result


def _log_density(
    values: FloatArray, points: FloatArray, counts: FloatArray, width: float
) -> FloatArray:
    """log of the mean of normal kernels, ``(n,)``; far out it is −∞."""
    constant = np.log(counts.sum()) + np.log(width) + 0.5 * np.log(2.0 * np.pi)
    log_counts = np.log(counts)
    result = np.empty(len(values))
    step = max(1, _CELLS // len(points))
    for start in range(0, len(values), step):
        some = slice(start, start + step)
        with np.errstate(over="ignore"):
            z = (values[some, None] - points) / width
            kernels = log_counts - 0.5 * z**2
        result[some] = logsumexp(kernels, axis=1) - constant
    return result


def _groups(table: pa.Table) -> Iterator[tuple[str, Any, int, int]]:
    """Where the rows of each feature and class begin and end."""
    if table.num_rows:
        names, labels = (table[key].combine_chunks() for key in ("feature", "class"))
        codes = [one.dictionary_encode().indices.to_numpy() for one in (names, labels)]
        changes = np.any([np.diff(code) != 0 for code in codes], axis=0)
        starts = [0, *(np.flatnonzero(changes) + 1).tolist(), table.num_rows]
        for start, stop in itertools.pairwise(starts):
            yield names[start].as_py(), labels[start].as_py(), start, stop


def _read_bandwidth(estimator: str, chosen: Any) -> str | float:
    if isinstance(chosen, str) and chosen in bandwidth.RULES:
        return chosen
    if isinstance(chosen, str) or chosen == 0:
        rules = ", ".join(repr(rule) for rule in bandwidth.RULES)
        raise pc.SpecError(
            f"{estimator}: bandwidth must be {rules} or a number above 0, got {chosen!r}."
        )
    return float(number_option(estimator, "bandwidth", chosen, at_least=pc.POINT_MASS_WIDTH))
