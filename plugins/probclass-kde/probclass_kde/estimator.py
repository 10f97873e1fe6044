"""Kernel densities of single features: a normal kernel at every training row.

    f(x | c) = ∏ⱼ 1 / (n_cj h_cj) · Σᵢ w_i φ((xⱼ − x_ij) / h_cj)

Zaki and Meira, *Data Mining and Machine Learning*, section 15.2, in one dimension for each feature:
a product over features, so that a null drops one factor and the density of the others is unchanged.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from scipy.special import logsumexp

import probclass_core as pc
from probclass_core.authoring import (
    FINITE,
    NUMBERS,
    EstimatorOptions,
    FloatArray,
    OptionPath,
    Range,
    Rows,
    check_parameters,
    check_row_counts,
    notes_of,
    option,
    parse_number,
    sum_counts,
)
from probclass_kde import bandwidth

_CELLS = 4_000_000
"""Largest number of rows times points in memory at once: 32 MB."""


def _parse_bandwidth(path: OptionPath, value: Any) -> str | float:
    if isinstance(value, str) and value in bandwidth.RULES:
        return value
    if isinstance(value, str) or value == 0:
        rules = ", ".join(repr(rule) for rule in bandwidth.RULES)
        raise path.error(f"{rules} or a number above 0", value)
    return float(parse_number(path, value, at_least=pc.POINT_MASS_WIDTH))


class KernelDensity(pc.Estimator):
    """Independent features, each with a normal kernel at every training row of the class.

    Statistics: class, feature, point (a distinct value), count (Σ w).
    Parameters: the same, and bandwidth.

    Raises:
        SpecError: if a column is not numeric, or an option is unknown or out of bounds.
    """

    name: ClassVar[str] = "kde"
    models = NUMBERS
    factorizes = True
    state_grows = True

    class Options(EstimatorOptions):
        """Options of `KernelDensity`."""

        bandwidth: str | float = option(
            "isj",
            _parse_bandwidth,
            expected="'isj', 'scott', 'silverman' or a number above 0",
            doc="The standard deviation of the kernel in the column's unit, or a rule to find it: "
            "'isj' (improved Sheather–Jones), 'scott' or 'silverman'.",
        )

    options: Options

    def summarize(
        self, rows: Rows, classes: pa.DictionaryArray, weights: FloatArray | None
    ) -> pa.Table:
        weight = np.ones(len(rows)) if weights is None else weights
        labels = classes.dictionary_decode()
        parts = []
        for name in self.features.names:
            values = rows.numbers(name) + 0.0  # −0.0 becomes 0.0
            observed = pa.array(~np.isnan(values))
            names = pa.array([name] * len(rows), pa.string())
            columns = {"class": labels, "feature": names, "point": values, "count": weight}
            parts.append(pa.table(columns).filter(observed))
        return self.merge(parts)

    def merge(self, tables: Sequence[pa.Table]) -> pa.Table:
        merged = sum_counts(tables, ["feature", "class", "point"], ["count"])
        return merged.select(["class", "feature", "point", "count"]).combine_chunks()

    def finalize(self, statistics: pa.Table, classes: pa.Array) -> pa.Table:
        widths = np.zeros(statistics.num_rows)
        observed = set()
        for name, label, start, stop in _groups(statistics):
            observed.add((name, label))
            points, counts = (
                statistics[column].slice(start, stop - start).to_numpy()
                for column in ("point", "count")
            )
            widths[start:stop] = self._width(points, counts)
        for name in self.features.names:
            for label in classes.to_pylist():
                if (name, label) not in observed:
                    raise pc.DataError(
                        f"class {label!r} has no value in column {name!r}; drop the class, or "
                        "leave the column out."
                    )
        return self.annotate(statistics.append_column("bandwidth", pa.array(widths)))

    def check_statistics(self, statistics: pa.Table, classes: pa.Table) -> None:
        super().check_statistics(statistics, classes)
        check_row_counts(statistics, classes, ["feature"], features=self.features.names)

    def check_parameters(self, parameters: pa.Table, classes: pa.Array) -> None:
        positive = Range(low=pc.POINT_MASS_WIDTH)
        numbers = {"point": FINITE, "count": positive, "bandwidth": positive}
        cells = {"feature": pa.string(), "point": pa.float64()}
        check_parameters(parameters, classes, cells, numbers, complete=False)
        found = sorted((name, str(label)) for name, label, _, _ in _groups(parameters))
        labels = map(str, classes.to_pylist())
        if found != sorted(itertools.product(self.features.names, labels)):
            raise pc.StoreError("the points of a class are missing, or not next to each other.")

    def likelihood(self, parameters: pa.Table, classes: pa.Array) -> KernelDensityLikelihood:
        return KernelDensityLikelihood(parameters, classes)

    def _width(self, points: FloatArray, counts: FloatArray) -> float:
        rule = self.options.bandwidth
        if not isinstance(rule, str):
            return rule
        return max(bandwidth.choose(rule, points, counts), pc.POINT_MASS_WIDTH)


class KernelDensityLikelihood:
    """log p(x | c): the sum over the observed features of the log of the mean of the kernels.

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

    def log_likelihood(self, rows: Rows) -> FloatArray:
        result = np.zeros((len(rows), len(self.classes)))
        for name in self.features:
            values = rows.numbers(name)
            known = np.flatnonzero(~np.isnan(values))
            for column, label in enumerate(self.classes):
                result[known, column] += _log_density(values[known], *self.kernels[name, label])
        return result


def _log_density(
    values: FloatArray, points: FloatArray, counts: FloatArray, width: float
) -> FloatArray:
    """Log of the mean of normal kernels, ``(n,)``; −∞ far from all points."""
    constant = np.log(counts.sum()) + np.log(width) + 0.5 * np.log(2.0 * np.pi)
    log_counts = np.log(counts)
    result = np.empty(len(values))
    step = max(1, _CELLS // len(points))
    for start in range(0, len(values), step):
        block = slice(start, start + step)
        with np.errstate(over="ignore"):
            z = (values[block, None] - points) / width
            kernels = log_counts - 0.5 * z**2
        result[block] = logsumexp(kernels, axis=1) - constant
    return result


def _groups(table: pa.Table) -> Iterator[tuple[str, Any, int, int]]:
    """Feature, class, and first and last row (exclusive) of each run of equal ones."""
    if table.num_rows:
        names, labels = (table[key].combine_chunks() for key in ("feature", "class"))
        codes = [keys.dictionary_encode().indices.to_numpy() for keys in (names, labels)]
        changes = np.any([np.diff(code) != 0 for code in codes], axis=0)
        starts = [0, *(np.flatnonzero(changes) + 1).tolist(), table.num_rows]
        for start, stop in itertools.pairwise(starts):
            yield names[start].as_py(), labels[start].as_py(), start, stop
