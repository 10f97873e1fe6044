"""The density of a few numeric columns, every other column marginalized; and the rows to plot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.arrow.arrays import (
    MISSING,
    FloatArray,
    IntArray,
    as_table,
    category_codes,
    check_columns,
    is_numeric_type,
    label_codes,
    numeric_column,
)
from probclass_core.arrow.parts import select, source_columns
from probclass_core.errors import DataError, SpecError
from probclass_core.estimation.families.knn.density import KnnDensityLikelihood
from probclass_core.model.model import Model
from probclass_core.plots.blocks import blocks_of, marginal_log_likelihood
from probclass_core.plots.levels import Bins, column_levels, levels_of
from probclass_core.spec.model_spec import Block

_LARGEST_COUNT = 2.0**53
_LARGEST_NUMBER = 1e30


def _density_blocks(model: Model, column: str) -> list[Block]:
    """The blocks in which a column of numbers has a density."""
    blocks = blocks_of(model, column)
    if not is_numeric_type(model.features.field(column).type):
        return []
    return [block for block in blocks if levels_of(model, block, column) is None]


def _bins(model: Model, column: str) -> Bins:
    """The bins of a column that has no density.

    Raises:
        SpecError: if it has categories.
    """
    levels, _ = column_levels(model, column)
    if levels is None or levels.cuts is None:
        raise SpecError(
            f"column {column!r} has categories, not numbers; use effect (probclass plot effect)."
        )
    return Bins.of(model, column, levels)


class Marginal:
    """log p(x_columns | c) of numeric columns, every other column marginalized.

    A block that models all of the columns gives their joint density, otherwise their densities are
    multiplied. A column that has bins only has a constant density in each.

    Args:
        model: model to plot.
        columns: ``d`` of its numeric columns.

    Attributes:
        whole: for each column, whether it takes whole numbers only.
        lowest: smallest value that each column takes.
        highest: largest value at which each column is plotted.

    Raises:
        SpecError: if the model does not read a column, or it has categories.
    """

    def __init__(self, model: Model, columns: Sequence[str]) -> None:
        self.model = model
        self.columns = list(columns)
        self._bins: dict[str, Bins] = {}
        self._blocks: dict[str, Block] = {}
        densities = {column: _density_blocks(model, column) for column in columns}
        joint = [
            block
            for block in densities[columns[0]]
            if all(block in densities[column] for column in columns)
        ]
        for column in columns:
            if joint or densities[column]:
                self._blocks[column] = (joint or densities[column])[0]
            else:
                self._bins[column] = _bins(model, column)
        # Estimators of counts refuse fractions and negative numbers.
        self.whole = [not self._accepts(column, 0.5) for column in columns]
        self.lowest = [-np.inf if self._accepts(column, -1.0) else 0.0 for column in columns]
        self.highest = [_LARGEST_COUNT if whole else _LARGEST_NUMBER for whole in self.whole]

    def __call__(self, points: FloatArray) -> FloatArray:
        """Log-likelihoods of points, ``(n, d)`` to ``(n, k)``; a NaN is marginalized as well."""
        values = dict(zip(self.columns, points.T, strict=True))
        modeled = {column: values[column] for column in self._blocks}
        total = np.zeros((len(points), len(self.model.classes)))
        if modeled:
            total += marginal_log_likelihood(self.model, modeled, self._blocks)
        for column, bins in self._bins.items():
            total += bins.log_density(values[column])
        return total

    def means(self) -> FloatArray | None:
        """The class means ``(k, d)``, or None if the parameters do not contain them."""
        means = [_class_means(self.model, block, column) for column, block in self._blocks.items()]
        known = [mean for mean in means if mean is not None]
        return np.stack(known, axis=1) if len(known) == len(self.columns) else None

    def points_of(self, position: int) -> list[FloatArray] | None:
        """Training values of one class by column; None unless all blocks consist of points."""
        values = []
        for column in self.columns:
            block = self._blocks.get(column)
            likelihood = None if block is None else self.model.likelihoods[str(block.name)]
            if not isinstance(likelihood, KnnDensityLikelihood):
                return None
            rows = likelihood.classes == position
            if column not in likelihood.features:
                return None  # training saw no value
            points = likelihood.points[rows, likelihood.features.index(column)]
            values.append(points[~np.isnan(points)])
        return values

    def range(self, axis: int) -> tuple[float, float] | None:
        """The range outside of which the density of a column is 0, if it is known."""
        bins = self._bins.get(self.columns[axis])
        return None if bins is None else (float(bins.edges[0]), float(bins.edges[-1]))

    def _accepts(self, column: str, value: float) -> bool:
        if column in self._bins:
            return True
        block = {column: self._blocks[column]}
        try:
            marginal_log_likelihood(self.model, {column: np.array([value])}, block)
        except DataError:
            return False
        return True


def _class_means(model: Model, block: Block, column: str) -> FloatArray | None:
    """The class means of one column, ``(k,)``, from the parameters or the training points."""
    likelihood = model.likelihoods[str(block.name)]
    position = list(block.inputs).index(column)
    if isinstance(likelihood, KnnDensityLikelihood):
        if column not in likelihood.features:
            return None  # training saw no value
        values = likelihood.points[:, likelihood.features.index(column)]
        weights = np.where(np.isnan(values), 0.0, likelihood.counts)
        size = likelihood.k_classes
        sums = np.bincount(likelihood.classes, np.nan_to_num(values) * weights, minlength=size)
        totals = np.bincount(likelihood.classes, weights, minlength=size)
        return np.asarray(sums / np.where(totals > 0.0, totals, np.nan))
    parameters = model.parameters[str(block.name)]
    name = "rate" if block.estimator == "poisson" else "mean"
    by_feature = "feature" in parameters.column_names
    if by_feature:
        parameters = parameters.filter(pc.equal(parameters["feature"], column))
    if name not in parameters.column_names or parameters.num_rows != len(model.classes):
        return None
    means = np.array(parameters[name].to_pylist(), dtype=np.float64).reshape(len(parameters), -1)
    order = label_codes(model.classes, parameters["class"].combine_chunks())
    ordered: FloatArray = means[order, 0 if by_feature else position]
    return ordered


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
    if label in table.schema.names:
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
