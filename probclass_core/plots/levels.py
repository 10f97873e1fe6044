"""The values of a column that have probabilities: categories, bins of numbers, terms of a text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.arrow.arrays import FloatArray, category_values, label_codes
from probclass_core.estimation.families.categorical.independent import complete_cells
from probclass_core.estimation.families.conditional.counts import ConditionalCountsLikelihood
from probclass_core.estimation.families.discretized.cuts import bin_name
from probclass_core.estimation.tidy import masses_by_class
from probclass_core.model.model import Model
from probclass_core.plots.blocks import blocks_of, marginal_log_likelihood
from probclass_core.spec.model_spec import Block


@dataclass(frozen=True)
class Levels:
    """Values of a column and their probabilities in each of ``k`` classes.

    Attributes:
        names: ``m`` values as text; None is null, if it is a value of the model.
        probability: P(value | class), ``(m, k)``.
        cuts: the cuts between bins of numbers, ascending; None for other values.
    """

    names: Sequence[str | None]
    probability: FloatArray
    cuts: FloatArray | None = None

    @property
    def missing(self) -> FloatArray | None:
        """P(null | class), ``(k,)``; None if null is not a value of the model."""
        return self.probability[self.names.index(None)] if None in self.names else None

    def without_missing(self) -> Levels:
        """The other levels, of the rows in which the column is not null."""
        known = [number for number, name in enumerate(self.names) if name is not None]
        probability = self.probability[known]
        total = 1.0 if self.missing is None else probability.sum(axis=0)
        probability = np.divide(
            probability, total, out=np.zeros_like(probability), where=total > 0.0
        )
        return Levels([self.names[number] for number in known], probability, self.cuts)


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
        seen = (model.training.get("columns") or {}).get(column, {})
        low, high = seen.get("min"), seen.get("max")
        # Of an unknown range, the outer bins are as wide as the others on average.
        first, last = (cuts[0], cuts[-1]) if cuts else (0.0, 0.0)
        width = (last - first) / max(len(cuts) - 1, 1) or max(0.5, 0.5 * abs(first))
        low = float(low) if low is not None and (low < first or not cuts) else first - width
        high = float(high) if high is not None and (high > last or not cuts) else last + width
        edges = np.array([low, *cuts, max(high, np.nextafter(low, np.inf))])
        return cls(edges, levels.probability)

    @property
    def density(self) -> FloatArray:
        """p(x | class) in each bin, ``(m, k)``."""
        return self.probability / np.diff(self.edges)[:, None]

    def log_density(self, values: FloatArray) -> FloatArray:
        """log p(x | class) of numbers, ``(n, k)``; 0 for NaN, −inf beyond the edges."""
        place = np.clip(np.searchsorted(self.edges, values, "right") - 1, 0, len(self.density) - 1)
        with np.errstate(divide="ignore"):
            logs = np.log(self.density)[place]
        logs[(values < self.edges[0]) | (values > self.edges[-1])] = -np.inf
        logs[np.isnan(values)] = 0.0
        return logs


def column_levels(model: Model, column: str) -> tuple[Levels | None, FloatArray | None]:
    """The levels of a column, from the block that says most about it alone.

    It is the first of its blocks in which it has a density or more than one level besides null.

    Returns:
        The levels besides null, or None if the column has a density; and P(null | class), ``(k,)``,
        of the first block in which null is a value, or None.

    Raises:
        SpecError: if the model does not read the column.
    """
    found = [levels_of(model, block, column) for block in blocks_of(model, column)]
    missing = [each.missing for each in found if each is not None and each.missing is not None]
    known = [None if each is None else each.without_missing() for each in found]
    chosen = next((each for each in known if each is None or len(each.names) > 1), known[0])
    return chosen, missing[0] if missing else None


def levels_of(model: Model, block: Block, column: str) -> Levels | None:
    """The levels of a column in a block, other columns summed out; None if it has a density.

    A column that the block is only given has the frequencies of its values in the training rows of
    each class.
    """
    name = str(block.name)
    parameters, likelihood = complete_cells(model.parameters[name]), model.likelihoods[name]
    fields = set(parameters.column_names)
    if isinstance(likelihood, ConditionalCountsLikelihood):
        return _conditional_levels(model, parameters, likelihood, column)
    if "log_probability" not in fields:
        return None
    if "feature" not in fields:  # a joint table of its columns
        if column not in fields:
            return None
        texts = category_values(pc.unique(parameters[column]))
        names = [text for text in texts if text is not None]
        values = {column: pa.array(names, pa.string())}
        return Levels(names, np.exp(marginal_log_likelihood(model, values, {column: block})))
    if block.estimator == "multinomial" or pa.types.is_nested(model.features.field(column).type):
        # The terms of a text, or columns of counts that share one total: each is a category.
        return _of_cells(model, parameters, parameters["feature"])
    parameters = parameters.filter(pc.equal(parameters["feature"], column))
    if "value" in fields:
        return _of_cells(model, parameters, parameters["value"])
    if {"lower", "upper"} <= fields:
        bounds = zip(parameters["lower"].to_pylist(), parameters["upper"].to_pylist(), strict=True)
        bins = [None if lower is None else bin_name(lower, upper) for lower, upper in bounds]
        cuts = np.unique(parameters["lower"].drop_null().to_numpy())[1:]
        return _of_cells(model, parameters, bins, cuts)
    if block.estimator == "bernoulli":
        present = _of_cells(model, parameters, ["present"] * parameters.num_rows).probability
        return Levels(["present", "absent"], np.concatenate([present, 1.0 - present]))
    return None


def _of_cells(
    model: Model,
    rows: pa.Table,
    names: Sequence[str | None] | pa.ChunkedArray,
    cuts: FloatArray | None = None,
) -> Levels:
    """The levels of parameters with a log probability and the name of the level of each row."""
    cells = names.to_pylist() if isinstance(names, pa.ChunkedArray) else names
    return Levels(*masses_by_class(rows, cells, model.classes), cuts)


def _conditional_levels(
    model: Model, parameters: pa.Table, likelihood: ConditionalCountsLikelihood, column: str
) -> Levels:
    """The probabilities of a column without those it is given, or frequencies of a given one."""
    if column in likelihood.chains:
        chain = likelihood.chains[column]
        levels, *given = chain.levels
        size = len(levels.values)
        # The code of a null that is no value leaves the given columns out.
        codes = [np.arange(size), *(np.full(size, level.null) for level in given)]
        probability = np.exp(chain.log_probability(codes)).T
    else:
        (depth,) = (i for i, level in enumerate(likelihood.given, 1) if level.name == column)
        levels = likelihood.given[depth - 1]
        cells = parameters.filter(pc.equal(parameters["depth"], depth))
        counts = np.zeros((len(levels.values), len(model.classes)))
        value = levels.of_labels(cells[f"given {column}"])
        np.add.at(counts, (value, label_codes(cells["class"], model.classes)), cells["count"])
        totals = counts.sum(axis=0)
        probability = np.divide(counts, totals, out=np.zeros_like(counts), where=totals > 0.0)
    names: list[str | None] = list(levels.values)
    if levels.cuts is not None:
        edges = [-np.inf, *levels.cuts.tolist(), np.inf]
        names[: len(edges) - 1] = [bin_name(*pair) for pair in pairwise(edges)]
    return Levels(names, probability, levels.cuts)
