"""The density of a few numeric columns, every other column marginalized; and the rows to plot."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
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
    check_columns,
    encoded,
    label_codes,
    one_batch,
)
from probclass_core.arrow.parts import select, source_columns
from probclass_core.arrow.rows import Rows
from probclass_core.errors import DataError, NotSupportedError, SpecError
from probclass_core.estimation.marginals import Curve, Levels
from probclass_core.model.model import Model
from probclass_core.model.posterior import log_of
from probclass_core.spec.model_spec import Block

_SLACK = 1.3
"""How much farther than a normal density another one may reach down to a fraction of its peak."""

_MARGIN = 0.25
"""What is drawn beyond the training rows if the mean is unknown, as a part of their range."""


@dataclass(frozen=True, kw_only=True)
class BinCurve(Curve):
    """The density of bins of numbers, constant in each.

    Attributes:
        corners: both ends of each bin, ascending, ``(2 m,)``; the outer ones are the range of the
            training rows.
    """

    corners: FloatArray

    @classmethod
    def of(cls, model: Model, column: str, levels: Levels) -> BinCurve:
        """The bins of a column whose levels have cuts and do not include null."""
        cuts: list[float] = [] if levels.cuts is None else levels.cuts.tolist()
        low, high = training_ends(model, column=column) or (None, None)
        # Of an unknown range, the outer bins are as wide as the others on average.
        first, last = (cuts[0], cuts[-1]) if cuts else (0.0, 0.0)
        width = (last - first) / max(len(cuts) - 1, 1) or max(0.5, 0.5 * abs(first))
        low = low if low is not None and (low < first or not cuts) else first - width
        high = high if high is not None and (high > last or not cuts) else last + width
        edges = np.array([low, *cuts, max(high, np.nextafter(low, np.inf))])
        logs = log_of(levels.probability / np.diff(edges)[:, None])

        def log_density(values: FloatArray) -> FloatArray:
            place = np.clip(np.searchsorted(edges, values, "right") - 1, 0, len(logs) - 1)
            outside = (values < edges[0]) | (values > edges[-1])
            found = np.where(outside[:, None], -np.inf, logs[place])
            return np.where(np.isnan(values)[:, None], 0.0, found)

        ends = np.nextafter(edges[1:-1], -np.inf)  # a bin includes its lower end only
        corners = np.stack([edges[:-1], np.append(ends, edges[-1])], axis=1).ravel()
        return cls(log_density, low=float(edges[0]), high=float(edges[-1]), corners=corners)


def curve_of(model: Model, column: str) -> Curve:
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
        return BinCurve.of(model, column, found[1].without_missing())
    raise SpecError(f"column {column!r} has categories, not numbers; use effect.")


def class_points(
    model: Model, column: str, curve: Curve, position: int, level: float, size: int
) -> FloatArray | None:
    """Ascending points where a class has most of its density.

    They reach from the mean as far as a normal density falls to a fraction of its peak, and
    somewhat farther. If the mean is unknown, they cover the training rows.

    Args:
        model: the model.
        column: one of its columns of numbers.
        curve: the curve of the column.
        position: position of the class.
        level: the fraction of the peak.
        size: number of points; fewer for whole numbers and bins.

    Returns:
        The points; None if the class has no density: no value, or a single one.

    Raises:
        NotSupportedError: if neither the mean nor the range of the training rows is known.
    """
    if isinstance(curve, BinCurve):
        return curve.corners
    mean, variance, ends = curve.mean, curve.variance, training_ends(model, column=column)
    if variance is not None and not variance[position] > 0.0:
        return None
    if mean is not None and variance is not None and np.isfinite(variance[position]):
        reach = _SLACK * math.sqrt(-2.0 * math.log(level) * variance[position])
        low, high = mean[position] - reach, mean[position] + reach
    elif ends is not None:
        margin = _MARGIN * (ends[1] - ends[0]) or 0.5
        low, high = ends[0] - margin, ends[1] + margin
    else:
        raise NotSupportedError(
            f"the model knows neither the mean nor the range of column {column!r}, so that its "
            "density cannot be plotted."
        )
    points = np.linspace(max(low, curve.low), min(high, curve.high), size)
    return np.unique(np.round(points)) if curve.whole else points


def joint_density(
    model: Model, columns: Sequence[str], curves: Sequence[Curve]
) -> Callable[[FloatArray], FloatArray]:
    """log p(x_columns | c) of ``d`` columns of numbers, every other column marginalized.

    A block that models all of the columns gives their joint density, otherwise their densities are
    multiplied.

    Returns:
        A function of points, ``(n, d)`` to ``(n, k)``.
    """
    for block in blocks_of(model, columns[0]):
        inputs = set(block.inputs)
        marginals = [block_marginal(model, block, name) for name in columns if name in inputs]
        if len(marginals) == len(columns) and all(isinstance(one, Curve) for one in marginals):
            return partial(_log_likelihood, model, block, columns)

    def product(points: FloatArray) -> FloatArray:
        pairs = zip(curves, points.T, strict=True)
        logs: FloatArray = np.sum([curve.log_density(of) for curve, of in pairs], axis=0)
        return logs

    return product


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
    batch = one_batch(sources.to_batches() or [pa.RecordBatch.from_pylist([], sources.schema)])
    features = Rows(select(batch, columns, model.time_zones))
    values = [features.numbers(name) for name in columns]
    label = model.spec.label
    codes = np.full(table.num_rows, MISSING, dtype=np.intp)
    if label is not None and label in table.schema.names:
        check_columns(table.schema, [label])
        label_index, labels = encoded(table[label])
        positions = label_codes(pa.array(labels, pa.string()), pa.array(model.class_names))
        codes = np.append(positions, MISSING)[label_index]
    complete = ~np.any([np.isnan(column) for column in values], axis=0)
    if not complete.any():
        raise DataError(f"no row of the data has a value in {' and '.join(map(repr, columns))}.")
    return [column[complete] for column in values], codes[complete]
