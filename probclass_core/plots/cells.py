"""A column as cells with a probability each: categories, bins, terms, presence and absence."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.arrow.arrays import FloatArray, category_values
from probclass_core.estimation.families.discretized.cuts import bin_name
from probclass_core.estimation.tidy import masses_by_class
from probclass_core.model.model import Model
from probclass_core.plots.blocks import block_of, log_likelihood


def cell_masses(model: Model, column: str) -> tuple[list[str], FloatArray] | None:
    """The cells of a column and the probability of each in each class.

    Returns:
        ``m`` names in the order of the parameters, integers ascending, and P(cell | c), ``(m, k)``;
        none where the column's block holds no cells but a density.

    Raises:
        SpecError: the model has no such column.
    """
    block = block_of(model, column)
    parameters = model.parameters[str(block.name)]
    held = set(parameters.column_names)
    if column in held and "log_probability" in held:
        names = _texts(pc.unique(parameters[column]))
        values = pa.array(names, pa.string())
        return names, np.exp(log_likelihood(model, {column: values}))
    if not {"feature", "log_probability"} <= held:
        return None
    if block.estimator == "multinomial" or pa.types.is_nested(model.features.field(column).type):
        # Terms of a text; or the columns of counts that share one total, each a term.
        return masses_by_class(parameters, _texts(parameters["feature"]), model.classes)
    own = parameters.filter(pc.equal(parameters["feature"], column))
    if "value" in held:
        if pa.types.is_integer(model.features.field(column).type):
            own = own.take(pc.sort_indices(own["value"].cast(pa.int64())))
        return masses_by_class(own, _texts(own["value"]), model.classes)
    if {"lower", "upper"} <= held:
        bounds = zip(own["lower"].to_pylist(), own["upper"].to_pylist(), strict=True)
        names = [bin_name(lower, upper) for lower, upper in bounds]
        return masses_by_class(own, names, model.classes)
    if block.estimator == "bernoulli":
        _, present = masses_by_class(own, ["present"] * own.num_rows, model.classes)
        return ["present", "absent"], np.concatenate([present, 1.0 - present])
    return None


def _texts(values: pa.Array | pa.ChunkedArray) -> list[str]:
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    return [text for text in category_values(values) if text is not None]
