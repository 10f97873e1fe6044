"""Numbers cut into bins, and the bins counted as categories.

Zaki and Meira, *Data Mining and Machine Learning*, Table 18.1, cut numeric attributes by hand. Here
the cuts follow from the data, by default by the method of Fayyad and Irani (1993); a bin's mass is
that of a category with a pseudo-count, eq. 18.6 of the book: (n_c(b) + α) / (n_c + α · bins).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from probclass_core.arrow.arrays import (
    FloatArray,
    is_numeric_type,
    label_codes,
    numeric_column,
    sorted_classes,
)
from probclass_core.errors import DataError
from probclass_core.estimation.contract import (
    LikelihoodEstimator,
    choice_option,
    notes_of,
    number_option,
    read_options,
    require_types,
    with_notes,
)
from probclass_core.estimation.families.discretized.cuts import frequency_cuts, mdl_cuts, width_cuts
from probclass_core.estimation.histogram import FEWEST_CELLS, Histogram, histogram
from probclass_core.estimation.tidy import by_feature
from probclass_core.plugins.descriptors import PROBCLASS_API, EstimatorPlugin, Traits
from probclass_core.plugins.hookspecs import hookimpl

__all__ = ["PROBCLASS_API", "Discretized", "probclass_estimators"]

_METHODS = ("mdl", "width", "frequency")
_DEFAULTS = {"method": "mdl", "bins": 10, "pseudo_count": 1.0, "cells": 4096}


class Discretized(LikelihoodEstimator):
    """Independent binned numbers given the class.

    Options:
        method: ``"mdl"`` cuts where the classes part, as often as their entropy repays; ``"width"``
            cuts the range, ``"frequency"`` the rows into equal parts.
        bins: how many, at most, for ``"width"`` and ``"frequency"``; ``"mdl"`` finds its own
            number, which may be one.
        pseudo_count: α of every bin.
        cells: up to so many distinct values of a feature are counted as they are, more on the
            finest grid of a power of two that has no more occupied cells.

    Statistics: class, feature, value (or a cell's lower edge), width (of the cell, 0 for a value),
    count (Σ w).
    Parameters: class, feature, bin (from 0), lower, upper (lower ≤ x < upper; the outermost are
    infinite), count, log_probability (of the bin: a mass, no density).

    Raises:
        SpecError: a column is not numeric, or an option is out of range.
    """

    name: ClassVar[str] = "discretized"

    def __init__(self, features: pa.Schema, options: Mapping[str, Any]) -> None:
        chosen = read_options(self.name, options, _DEFAULTS)
        super().__init__(features, chosen)
        require_types(self.name, features, is_numeric_type, "numbers")
        self.method = choice_option(self.name, "method", chosen["method"], _METHODS)
        self.bins = int(number_option(self.name, "bins", chosen["bins"], at_least=2, whole=True))
        self.pseudo_count = number_option(self.name, "pseudo_count", chosen["pseudo_count"])
        self.cells = int(
            number_option(self.name, "cells", chosen["cells"], at_least=FEWEST_CELLS, whole=True)
        )

    def summarize(
        self, batch: pa.RecordBatch, classes: pa.DictionaryArray, weights: FloatArray | None
    ) -> pa.Table:
        labels = classes.dictionary
        group = classes.indices.to_numpy(zero_copy_only=False).astype(np.intp)
        parts = []
        for name in self.features.names:
            values = numeric_column(batch, name)
            seen = ~np.isnan(values)
            weight = None if weights is None else weights[seen]
            cells = histogram(values[seen], 0.0, group[seen], weight, len(labels), self.cells)
            parts.append(_table(name, labels, cells))
        return pa.concat_tables(parts).combine_chunks()

    def merge(self, tables: Sequence[pa.Table]) -> pa.Table:
        parts = pa.concat_tables(tables)
        classes = sorted_classes(parts["class"])
        merged = [_table(name, classes, cells) for name, cells in self._cells(parts, classes)]
        return pa.concat_tables(merged).combine_chunks()

    def finalize(self, statistics: pa.Table, classes: pa.Array) -> pa.Table:
        parts = []
        for feature, cells in self._cells(statistics, classes):
            if not len(cells.values):
                raise DataError(
                    f"column {feature!r} has no value in any training row; leave it out of the "
                    "block."
                )
            cuts = self._cuts(cells)
            bins = len(cuts) + 1
            bin_of = np.searchsorted(cuts, cells.values, side="right")
            counts = np.zeros((len(classes), bins))
            np.add.at(counts.T, bin_of, cells.counts.T)
            repeat = pa.array(np.repeat(np.arange(len(classes)), bins))
            parts.append(
                pa.table(
                    {
                        "class": classes.take(repeat),
                        "feature": pa.array([feature] * counts.size, pa.string()),
                        "bin": np.tile(np.arange(bins), len(classes)),
                        "lower": np.tile(np.append(-np.inf, cuts), len(classes)),
                        "upper": np.tile(np.append(cuts, np.inf), len(classes)),
                        "count": counts.ravel(),
                        "log_probability": self._log_probability(feature, classes, counts).ravel(),
                    }
                )
            )
        return with_notes(
            pa.concat_tables(parts).combine_chunks(),
            estimator=self.name,
            features=self.features.names,
            options=self.options,
        )

    def likelihood(self, parameters: pa.Table, classes: pa.Array) -> DiscretizedLikelihood:
        return DiscretizedLikelihood(parameters, classes)

    def _cells(self, table: pa.Table, classes: pa.Array) -> Iterator[tuple[str, Histogram]]:
        """Of each feature, the cells of all classes, on one grid."""
        for feature, cells in by_feature(table, self.features.names):
            yield (
                feature,
                histogram(
                    cells["value"].to_numpy(),
                    max(cells["width"].to_numpy(), default=0.0),
                    label_codes(cells["class"], classes),
                    cells["count"].to_numpy(),
                    len(classes),
                    self.cells,
                ),
            )

    def _cuts(self, cells: Histogram) -> FloatArray:
        if self.method == "width":
            return width_cuts(cells, self.bins)
        if self.method == "frequency":
            return frequency_cuts(cells, self.bins)
        return mdl_cuts(cells)

    def _log_probability(self, feature: str, classes: pa.Array, counts: FloatArray) -> FloatArray:
        """``(k, bins)``; −inf where a count and the pseudo-count are both 0, 0 for a single bin."""
        total = counts.sum(axis=1, keepdims=True) + self.pseudo_count * counts.shape[1]
        for row in np.flatnonzero(total == 0.0):
            raise DataError(
                f"class {classes[int(row)].as_py()!r} has no value of column {feature!r} and the "
                "pseudo_count is 0; give it a pseudo_count, or leave the column out."
            )
        with np.errstate(divide="ignore"):
            result: FloatArray = np.log(counts + self.pseudo_count) - np.log(total)
        return result


class DiscretizedLikelihood:
    """log p(x | c): the sum over features of the log mass of their bins.

    Args:
        parameters: of `Discretized`.
        classes: ``k`` labels.
    """

    normalized = True

    def __init__(self, parameters: pa.Table, classes: pa.Array) -> None:
        self.classes = len(classes)
        self.lookup: dict[str, tuple[FloatArray, FloatArray]] = {}
        for feature, cells in by_feature(parameters, notes_of(parameters)["features"]):
            number = cells["bin"].to_numpy()
            bins = int(number.max()) + 1
            edges, table = np.empty(bins), np.zeros((len(classes), bins + 1))
            edges[number] = cells["lower"].to_numpy()
            # One more than the bins: a missing value adds nothing.
            table[label_codes(cells["class"], classes), number] = cells[
                "log_probability"
            ].to_numpy()
            self.lookup[feature] = edges[1:], table

    def log_likelihood(self, batch: pa.RecordBatch) -> FloatArray:
        result = np.zeros((self.classes, batch.num_rows))
        for feature, (cuts, table) in self.lookup.items():
            values = numeric_column(batch, feature)
            number = np.searchsorted(cuts, values, side="right")
            number[np.isnan(values)] = len(cuts) + 1
            result += table[:, number]
        return result.T


def _table(feature: str, classes: pa.Array, cells: Histogram) -> pa.Table:
    """One row per class and cell that has a count."""
    group, place = np.nonzero(cells.counts)
    return pa.table(
        {
            "class": classes.take(pa.array(group)),
            "feature": pa.array([feature] * len(group), pa.string()),
            "value": cells.values[place],
            "width": np.full(len(group), cells.width),
            "count": cells.counts[group, place],
        }
    )


@hookimpl
def probclass_estimators() -> Iterable[EstimatorPlugin]:
    """Registers `Discretized`."""
    yield EstimatorPlugin(
        name=Discretized.name,
        factory=Discretized,
        summary="numbers cut into bins, by the classes or evenly, with pseudo-counts",
        traits=Traits(factorizes=True),
    )
