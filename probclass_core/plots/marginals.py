"""A model seen in a few of its columns, every other column marginalized; and the rows to plot.

Plots ask a model for log-likelihoods only, so every estimator can be plotted, also those of
plugins: the other columns are null, and therefore marginalized.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    category_values,
    check_columns,
    is_numeric_type,
    label_codes,
    numeric_column,
)
from probclass_core.arrow.parts import select, source_columns
from probclass_core.errors import DataError, SpecError, nearest, one_of
from probclass_core.estimation.contract import FactorizedLikelihood
from probclass_core.estimation.families.categorical.independent import complete_cells
from probclass_core.estimation.families.discretized.cuts import bin_name
from probclass_core.estimation.families.knn.density import KnnDensityLikelihood
from probclass_core.estimation.tidy import masses_by_class
from probclass_core.model.model import Model
from probclass_core.spec.model_spec import Block

_LARGEST_COUNT = 2.0**53
_LARGEST_NUMBER = 1e30


def block_of(model: Model, column: str) -> Block:
    """The block that models a column, if possible one that is given no others.

    Raises:
        SpecError: if the model has no such column.
    """
    for block in sorted(model.spec.blocks, key=lambda block: bool(block.given)):
        if column in block.columns:
            return block
    known = model.features.names
    raise SpecError(
        f"the model has no column {column!r}; it has {one_of(known)}." + nearest(column, known)
    )


def marginal_log_likelihood(
    model: Model, values: Mapping[str, FloatArray | pa.Array]
) -> FloatArray:
    """Log-likelihoods of some columns, every other column marginalized.

    Args:
        model: model of ``k`` classes.
        values: values by column, ``(n,)``: numbers, where NaN means null, or an Arrow array.

    Returns:
        log p(values | c), ``(n, k)``, in nats.

    Raises:
        SpecError: if the model has no such column.
        DataError: if the estimator refuses the values.
    """
    rows = len(next(iter(values.values())))
    total = np.zeros((rows, len(model.classes)))
    for block in dict.fromkeys(block_of(model, column) for column in values):
        arrays = []
        for column in block.inputs:
            kind = model.features.field(column).type
            array = values.get(column)
            if array is None:
                arrays.append(pa.nulls(rows, kind))
            elif isinstance(array, np.ndarray):
                arrays.append(pa.array(array, from_pandas=True))  # NaN is null
            else:
                arrays.append(array.cast(kind))
        batch = pa.record_batch(arrays, names=list(block.inputs))
        likelihood = model.likelihoods[str(block.name)]
        if isinstance(likelihood, FactorizedLikelihood):
            for column, factor in zip(block.columns, likelihood.log_factors(batch), strict=True):
                if column in values:
                    total += factor
        else:
            total += likelihood.log_likelihood(batch)
    return total


def category_probabilities(model: Model, column: str) -> tuple[list[str], FloatArray] | None:
    """The categories of a column and their probabilities in each class.

    Categories are also the bins of a number, the terms of a text, and presence or absence.

    Returns:
        ``m`` names in the order of the parameters, integers ascending, and P(category | c),
        ``(m, k)``; or None if the column has a density.

    Raises:
        SpecError: if the model has no such column.
    """
    block = block_of(model, column)
    parameters = complete_cells(model.parameters[str(block.name)])
    fields = set(parameters.column_names)
    if {column, "log_probability"} <= fields:
        names = _texts(pc.unique(parameters[column]))
        values = pa.array(names, pa.string())
        return names, np.exp(marginal_log_likelihood(model, {column: values}))
    if not {"feature", "log_probability"} <= fields:
        return None
    if block.estimator == "multinomial" or pa.types.is_nested(model.features.field(column).type):
        # The terms of a text, or columns of counts that share one total: each is a category.
        return masses_by_class(parameters, _texts(parameters["feature"]), model.classes)
    rows = parameters.filter(pc.equal(parameters["feature"], column))
    if "value" in fields:
        if "depth" in fields:  # given other columns: the probabilities without them
            rows = rows.filter(pc.equal(rows["depth"], 0))
        elif pa.types.is_integer(model.features.field(column).type):
            rows = rows.take(pc.sort_indices(rows["value"].cast(pa.int64())))
        names = ["missing" if name is None else name for name in rows["value"].to_pylist()]
        return masses_by_class(rows, names, model.classes)
    if {"lower", "upper"} <= fields:
        bounds = zip(rows["lower"].to_pylist(), rows["upper"].to_pylist(), strict=True)
        names = [bin_name(lower, upper) for lower, upper in bounds]
        return masses_by_class(rows, names, model.classes)
    if block.estimator == "bernoulli":
        _, present = masses_by_class(rows, ["present"] * rows.num_rows, model.classes)
        return ["present", "absent"], np.concatenate([present, 1.0 - present])
    return None


def _texts(values: pa.Array | pa.ChunkedArray) -> list[str]:
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    return [text for text in category_values(values) if text is not None]


class Marginal:
    """log p(x_columns | c) of numeric columns, every other column marginalized.

    Args:
        model: model to plot.
        columns: ``d`` of its numeric columns.

    Attributes:
        whole: for each column, whether it takes whole numbers only.
        lowest: smallest value that each column takes.
        highest: largest value at which each column is plotted.

    Raises:
        SpecError: if the model has no such column, or it has categories.
    """

    def __init__(self, model: Model, columns: Sequence[str]) -> None:
        self.model = model
        self.columns = list(columns)
        for column in columns:
            block = block_of(model, column)
            numeric = is_numeric_type(model.features.field(column).type)
            if not numeric or category_probabilities(model, column) is not None:
                raise SpecError(
                    f"column {column!r} has categories or bins in block {block.name!r}, "
                    "not a density; use category_masses (probclass plot masses)."
                )
        # Estimators of counts refuse fractions and negative numbers.
        self.whole = [not self._accepts(column, 0.5) for column in columns]
        self.lowest = [-np.inf if self._accepts(column, -1.0) else 0.0 for column in columns]
        self.highest = [_LARGEST_COUNT if whole else _LARGEST_NUMBER for whole in self.whole]

    def __call__(self, points: FloatArray) -> FloatArray:
        """Log-likelihoods of points, ``(n, d)`` to ``(n, k)``; a NaN is marginalized as well."""
        values = dict(zip(self.columns, points.T, strict=True))
        return marginal_log_likelihood(self.model, values)

    def means(self) -> FloatArray | None:
        """The class means ``(k, d)``, or None if the parameters do not contain them."""
        means = [_class_means(self.model, column) for column in self.columns]
        known = [mean for mean in means if mean is not None]
        return np.stack(known, axis=1) if len(known) == len(means) else None

    def points_of(self, position: int) -> list[FloatArray] | None:
        """Training values of one class by column; None unless all blocks consist of points."""
        values = []
        for column in self.columns:
            block = block_of(self.model, column)
            likelihood = self.model.likelihoods[str(block.name)]
            if not isinstance(likelihood, KnnDensityLikelihood):
                return None
            rows = likelihood.classes == position
            if column not in likelihood.features:
                return None  # training saw no value
            points = likelihood.points[rows, likelihood.features.index(column)]
            values.append(points[~np.isnan(points)])
        return values

    def _accepts(self, column: str, value: float) -> bool:
        try:
            marginal_log_likelihood(self.model, {column: np.array([value])})
        except DataError:
            return False
        return True


def _class_means(model: Model, column: str) -> FloatArray | None:
    """The class means of one column, ``(k,)``, from the parameters or the training points."""
    block = block_of(model, column)
    likelihood = model.likelihoods[str(block.name)]
    position = list(block.columns).index(column)
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
