"""The density of a few numeric columns, every other column marginalized; and the rows to plot."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from probclass_core.analysis.distributions.reading import (
    block_marginal,
    blocks_of,
    read_column,
    training_ends,
)
from probclass_core.arrow.arrays import (
    MISSING,
    FloatArray,
    IntArray,
    as_table,
    category_codes,
    check_columns,
    label_codes,
    numeric_column,
)
from probclass_core.arrow.parts import select, source_columns
from probclass_core.arrow.rows import Rows
from probclass_core.errors import DataError, NotSupportedError, SpecError
from probclass_core.estimation.marginals import Curve, Levels
from probclass_core.model.model import Model
from probclass_core.spec.model_spec import Block

_SLACK = 1.3
"""How much farther than a normal density another one may reach down to a fraction of its peak."""

_MARGIN = 0.25
"""What is drawn beyond the training rows if the mean is unknown, as a part of their range."""


@dataclass(frozen=True)
class Bins:
    """Bins of numbers between finite edges, with a constant density in each.

    Attributes:
        edges: ascending, ``(m + 1,)``; the outer ones are the range of the training rows.
        probability: P(bin | class), ``(m, k)``.
    """

    edges: FloatArray
    probability: FloatArray

    @classmethod
    def of(cls, model: Model, column: str, levels: Levels) -> Bins:
        """The bins of a column whose levels have cuts and do not include null."""
        cuts: list[float] = [] if levels.cuts is None else levels.cuts.tolist()
        low, high = training_ends(model, column=column) or (None, None)
        # Of an unknown range, the outer bins are as wide as the others on average.
        first, last = (cuts[0], cuts[-1]) if cuts else (0.0, 0.0)
        width = (last - first) / max(len(cuts) - 1, 1) or max(0.5, 0.5 * abs(first))
        low = low if low is not None and (low < first or not cuts) else first - width
        high = high if high is not None and (high > last or not cuts) else last + width
        edges = np.array([low, *cuts, max(high, np.nextafter(low, np.inf))])
        return cls(edges, levels.probability)

    @property
    def density(self) -> FloatArray:
        """p(x | class) in each bin, ``(m, k)``."""
        return self.probability / np.diff(self.edges)[:, None]

    @property
    def curve(self) -> Curve:
        """The same as a curve."""
        return Curve(self._log_density, low=float(self.edges[0]), high=float(self.edges[-1]))

    def _log_density(self, values: FloatArray) -> FloatArray:
        place = np.clip(np.searchsorted(self.edges, values, "right") - 1, 0, len(self.density) - 1)
        with np.errstate(divide="ignore"):
            logs = np.log(self.density)[place]
        logs[(values < self.edges[0]) | (values > self.edges[-1])] = -np.inf
        logs[np.isnan(values)] = 0.0
        return logs


class Marginal:
    """log p(x_columns | c) of numeric columns, every other column marginalized.

    A block that models all of the columns gives their joint density, otherwise their densities are
    multiplied. A column that has bins only has a constant density in each.

    Args:
        model: model to plot.
        columns: ``d`` of its numeric columns.

    Attributes:
        curves: the curve of each column alone.
        ends: the range of each column in the training rows; None if unknown.

    Raises:
        SpecError: if the model does not read a column, or it has categories.
    """

    def __init__(self, model: Model, columns: Sequence[str]) -> None:
        self.model = model
        self.columns = list(columns)
        self.curves = [_curve(model, column) for column in columns]
        self.ends = [training_ends(model, column=column) for column in columns]
        together = [
            block
            for block in blocks_of(model, columns[0])
            if all(
                column in block.inputs and isinstance(block_marginal(model, block, column), Curve)
                for column in columns
            )
        ]
        self._joint = together[0] if together and len(columns) > 1 else None

    def __call__(self, points: FloatArray) -> FloatArray:
        """Log-likelihoods of points, ``(n, d)`` to ``(n, k)``."""
        if self._joint is not None:
            return _log_likelihood(self.model, self._joint, self.columns, points)
        total = np.zeros((len(points), len(self.model.classes)))
        for curve, values in zip(self.curves, points.T, strict=True):
            total += curve.log_density(values)
        return total

    def grid(self, position: int, level: float, size: int) -> tuple[FloatArray, ...] | None:
        """Coordinates along each column where a class has most of its density.

        They reach from the mean as far as a normal density falls to a fraction of its peak, and
        somewhat farther. If the mean is unknown, they cover the training rows.

        Args:
            position: position of the class.
            level: the fraction of the peak.
            size: number of coordinates along each column; fewer for whole numbers.

        Returns:
            ``d`` ascending arrays; None if the class has no density: no value, or a single one.

        Raises:
            NotSupportedError: if neither the mean nor the range of the training rows is known.
        """
        reach = _SLACK * math.sqrt(-2.0 * math.log(level))
        axes: list[FloatArray] = []
        for column, curve, ends in zip(self.columns, self.curves, self.ends, strict=True):
            mean, variance = curve.mean, curve.variance
            if variance is not None and not variance[position] > 0.0:
                return None
            if mean is not None and variance is not None and np.isfinite(variance[position]):
                middle, width = float(mean[position]), reach * math.sqrt(variance[position])
            elif ends is not None:
                middle = (ends[0] + ends[1]) / 2.0
                width = (0.5 + _MARGIN) * (ends[1] - ends[0]) or 0.5
            else:
                raise NotSupportedError(
                    f"the model knows neither the mean nor the range of column {column!r}, so "
                    "that its density cannot be plotted."
                )
            low, high = max(middle - width, curve.low), min(middle + width, curve.high)
            axis = np.linspace(low, high, size)
            axes.append(np.unique(np.round(axis)) if curve.whole else axis)
        return tuple(axes)

    def means(self) -> FloatArray | None:
        """The class means ``(k, d)``, or None if the estimators do not know them."""
        means = [curve.mean for curve in self.curves if curve.mean is not None]
        return np.stack(means, axis=1) if len(means) == len(self.columns) else None


def _curve(model: Model, column: str) -> Curve:
    """The curve of a column; of one that has levels, that of another block, or that of its bins.

    Raises:
        SpecError: if it has categories.
    """
    for block in blocks_of(model, column):
        own = block_marginal(model, block, column)
        if isinstance(own, Curve):
            return own
    found = read_column(model, column)
    if found is not None and isinstance(found[1], Levels) and found[1].cuts is not None:
        return Bins.of(model, column, found[1].without_missing()).curve
    raise SpecError(f"column {column!r} has categories, not numbers; use effect.")


def _log_likelihood(
    model: Model, block: Block, columns: Sequence[str], points: FloatArray
) -> FloatArray:
    """Log-likelihoods of some columns of a block, ``(n, k)``; the others are null."""
    values = dict(zip(columns, points.T, strict=True))
    arrays = [
        pa.array(values[name], from_pandas=True)  # NaN is null
        if name in values
        else pa.nulls(len(points), model.features.field(name).type)
        for name in block.inputs
    ]
    likelihood = model.likelihoods[str(block.name)]
    if set(columns) & set(block.given):
        likelihood = getattr(likelihood, "joint", likelihood)
    return likelihood.log_likelihood(Rows(pa.record_batch(arrays, names=list(block.inputs))))


def rows_by_class(
    model: Model, data: Any, columns: Sequence[str]
) -> tuple[list[FloatArray], IntArray]:
    """Numeric features of a table and the class of each row; rows with a null are left out.

    Args:
        model: model whose classes and label column apply.
        data: table or frame; see `arrays.as_table`. The label column may be missing.
        columns: ``d`` numeric features.

    Returns:
        ``d`` arrays ``(n,)``, and class positions ``(n,)``, `MISSING` if the class is unknown.

    Raises:
        DataError: if a column is missing, not numeric or infinite, or every row has a null.
    """
    table = as_table(data)
    sources = table.select(source_columns(table.schema, columns))
    batches = sources.to_batches() or [pa.RecordBatch.from_pylist([], sources.schema)]
    features = pa.Table.from_batches(
        [select(batch, columns, model.time_zones) for batch in batches]
    )
    values = [_numbers(features.combine_chunks(), name) for name in columns]
    label = model.spec.label
    codes = np.full(table.num_rows, MISSING, dtype=np.intp)
    if label is not None and label in table.schema.names:
        check_columns(table.schema, [label])
        label_index, labels = category_codes(table[label])
        positions = label_codes(pa.array(labels, pa.string()), pa.array(model.class_names))
        codes = np.append(positions, MISSING)[label_index]
    complete = ~np.any([np.isnan(column) for column in values], axis=0)
    if not complete.any():
        raise DataError(f"no row of the data has a value in {' and '.join(map(repr, columns))}.")
    return [column[complete] for column in values], codes[complete]


def _numbers(table: pa.Table, name: str) -> FloatArray:
    """One column of a table that has at most one chunk."""
    column = table[name]
    array = column.chunk(0) if column.num_chunks else pa.array([], column.type)
    return numeric_column(pa.record_batch([array], names=[name]), name)
