"""A column as cells with a probability each: categories, bins, terms, presence and absence."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.arrays import FloatArray, category_values, label_codes
from probclass_core.model import Model
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
        return _table(model, parameters, _texts(parameters["feature"]))
    own = parameters.filter(pc.equal(parameters["feature"], column))
    if "value" in held:
        if pa.types.is_integer(model.features.field(column).type):
            own = own.take(pc.sort_indices(own["value"].cast(pa.int64())))
        return _table(model, own, _texts(own["value"]))
    if {"lower", "upper"} <= held:
        bounds = zip(own["lower"].to_pylist(), own["upper"].to_pylist(), strict=True)
        return _table(model, own, [_bin_name(lower, upper) for lower, upper in bounds])
    if block.estimator == "bernoulli":
        _, present = _table(model, own, ["present"] * own.num_rows)
        return ["present", "absent"], np.concatenate([present, 1.0 - present])
    return None


def _table(
    model: Model, parameters: pa.Table, cells: Sequence[str]
) -> tuple[list[str], FloatArray]:
    """A tidy table, a cell for each of its rows, as ``m`` names and masses ``(m, k)``."""
    names = list(dict.fromkeys(cells))
    masses = np.zeros((len(names), len(model.classes)))
    row = label_codes(pa.array(cells, pa.string()), pa.array(names, pa.string()))
    place = label_codes(parameters["class"], model.classes)
    masses[row, place] = np.exp(parameters["log_probability"].to_numpy())
    return names, masses


def _texts(values: pa.Array | pa.ChunkedArray) -> list[str]:
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    return [text for text in category_values(values) if text is not None]


def _bin_name(lower: float | None, upper: float | None) -> str:
    """A bin has its lower bound and not its upper one."""
    low = -np.inf if lower is None else lower
    high = np.inf if upper is None else upper
    if np.isinf(low):
        return "any" if np.isinf(high) else f"below {high:g}"
    return f"from {low:g}" if np.isinf(high) else f"{low:g} to {high:g}"
