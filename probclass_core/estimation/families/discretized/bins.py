"""Numbers cut into bins, and the bins counted as categories.

Zaki and Meira, *Data Mining and Machine Learning*, Table 18.1, cut numeric attributes by hand. Here
the cuts are computed from the data, by default by the method of Fayyad and Irani (1993); a bin's
probability is that of a category with a pseudo-count, eq. 18.6 of the book:
(n_c(b) + α) / (n_c + α · bins).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa

from probclass_core.arrow.arrays import (
    FloatArray,
    label_codes,
    numbers_rounded_down,
    sorted_classes,
)
from probclass_core.errors import DataError
from probclass_core.estimation.contract import LikelihoodEstimator
from probclass_core.estimation.families.discretized.cuts import frequency_cuts, mdl_cuts, width_cuts
from probclass_core.estimation.families.empty import require_counts, require_values
from probclass_core.estimation.histogram import FEWEST_CELLS, Histogram, histogram
from probclass_core.estimation.options import (
    NUMBERS,
    EstimatorOptions,
    choice,
    number,
    whole,
)
from probclass_core.estimation.tidy import by_feature, dense_arrays, notes_of, tidy_table


class Discretized(LikelihoodEstimator):
    """Independent binned numbers given the class.

    Statistics: class, feature, value (or a cell's lower edge), width (of the cell, 0 for a value),
    count (Σ w).
    Parameters: class, feature, bin (from 0), lower, upper (lower ≤ x < upper; the outermost are
    infinite), count, log_probability (of the bin: a mass, not a density).

    Raises:
        SpecError: if a column is not numeric, or an option is unknown or out of bounds.
    """

    name: ClassVar[str] = "discretized"
    models = NUMBERS

    class Options(EstimatorOptions):
        """Options of `Discretized`."""

        method: str = choice(
            "mdl",
            ("mdl", "width", "frequency"),
            doc="'mdl' cuts where the classes differ, as long as a cut gains more information than "
            "it costs to describe; 'width' cuts the range, 'frequency' the rows into equal parts.",
        )
        bins: int = whole(
            10,
            at_least=2,
            doc="Largest number of bins for 'width' and 'frequency'; 'mdl' finds its own number, "
            "which may be one.",
        )
        pseudo_count: float = number(1.0, doc="α of every bin.")
        cells: int = whole(
            4096,
            at_least=FEWEST_CELLS,
            doc="Largest number of distinct values of a feature that are counted as they are; more "
            "are counted on the finest grid of a power of two with at most as many occupied cells, "
            "and so are integers beyond 2⁵³ that float64 cannot represent.",
        )

    options: Options

    def summarize(
        self, batch: pa.RecordBatch, classes: pa.DictionaryArray, weights: FloatArray | None
    ) -> pa.Table:
        labels = classes.dictionary
        group = classes.indices.to_numpy(zero_copy_only=False).astype(np.intp)
        parts = []
        for name in self.features.names:
            values, width = numbers_rounded_down(batch, name)
            observed = ~np.isnan(values)
            weight = None if weights is None else weights[observed]
            cells = histogram(
                values[observed], width, group[observed], weight, len(labels), self.options.cells
            )
            parts.append(_table(name, labels, cells))
        return pa.concat_tables(parts).combine_chunks()

    def merge(self, tables: Sequence[pa.Table]) -> pa.Table:
        parts = pa.concat_tables(tables)
        classes = sorted_classes(parts["class"])
        merged = [_table(name, classes, cells) for name, cells in self._cells(parts, classes)]
        return pa.concat_tables(merged).combine_chunks()

    def finalize(self, statistics: pa.Table, classes: pa.Array) -> pa.Table:
        parts, notes = [], []
        for feature, cells in self._cells(statistics, classes):
            notes += self._rounded(feature, cells)
            require_values([feature], [len(cells.values)])
            cuts = self._cuts(cells)
            bins = len(cuts) + 1
            bin_of = np.searchsorted(cuts, cells.values, side="right")
            counts = np.zeros((len(classes), bins))
            np.add.at(counts.T, bin_of, cells.counts.T)
            edges = {"lower": np.append(-np.inf, cuts), "upper": np.append(cuts, np.inf)}
            fields = {
                "count": counts,
                "log_probability": self._log_probability(feature, classes, counts),
            }
            bin_columns = {"feature": feature, "bin": np.arange(bins), **edges}
            parts.append(tidy_table(classes, bin_columns, fields))
        return self.annotate(pa.concat_tables(parts).combine_chunks(), scarce=notes)

    def _rounded(self, feature: str, cells: Histogram) -> list[str]:
        """A sentence about integers that were counted no finer than float64 represents them.

        Raises:
            DataError: instead, if ``on_scarce`` is ``"error"``.
        """
        integers = pa.types.is_integer(self.features.field(feature).type)
        largest = float(np.abs(cells.values).max(initial=0.0))
        if not integers or not cells.width or largest < 2.0**52 * cells.width:
            return []
        found = (
            f"column {feature!r} has integers beyond 2⁵³, which float64 rounds to multiples of "
            f"{cells.width:.0f}"
        )
        fix = "subtract a constant, or cast it to text and use categorical, if they matter"
        if self.on_scarce == "error":
            raise DataError(f"{found}; {fix}.")
        return [f"{found}: discretized does not see smaller differences; {fix}."]

    def likelihood(self, parameters: pa.Table, classes: pa.Array) -> DiscretizedLikelihood:
        return DiscretizedLikelihood(parameters, classes)

    def _cells(self, table: pa.Table, classes: pa.Array) -> Iterator[tuple[str, Histogram]]:
        """Each feature and the cells of all classes, on one grid."""
        for feature, cells in by_feature(table, self.features.names):
            yield (
                feature,
                histogram(
                    cells["value"].to_numpy(),
                    max(cells["width"].to_numpy(), default=0.0),
                    label_codes(cells["class"], classes),
                    cells["count"].to_numpy(),
                    len(classes),
                    self.options.cells,
                ),
            )

    def _cuts(self, cells: Histogram) -> FloatArray:
        if self.options.method == "width":
            return width_cuts(cells, self.options.bins)
        if self.options.method == "frequency":
            return frequency_cuts(cells, self.options.bins)
        return mdl_cuts(cells, self.row_weight)

    def _log_probability(self, feature: str, classes: pa.Array, counts: FloatArray) -> FloatArray:
        """``(k, bins)``; −inf if a count and the pseudo-count are both 0, 0 for a single bin."""
        pseudo_count = self.options.pseudo_count
        total = counts.sum(axis=1, keepdims=True) + pseudo_count * counts.shape[1]
        require_counts([feature], classes, total)
        with np.errstate(divide="ignore"):
            result: FloatArray = np.log(counts + pseudo_count) - np.log(total)
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
            edges = np.empty(int(number.max()) + 1)
            edges[number] = cells["lower"].to_numpy()
            (masses,) = dense_arrays(
                cells, classes, "bin", pa.array(np.arange(len(edges))), ["log_probability"]
            )
            table = np.pad(masses, [(0, 0), (0, 1)])  # a missing value adds 0
            self.lookup[feature] = edges[1:], table

    def log_likelihood(self, batch: pa.RecordBatch) -> FloatArray:
        result = np.zeros((self.classes, batch.num_rows))
        for feature, (cuts, table) in self.lookup.items():
            values, _ = numbers_rounded_down(batch, feature)
            number = np.searchsorted(cuts, values, side="right")
            number[np.isnan(values)] = len(cuts) + 1
            result += table[:, number]
        return result.T


def _table(feature: str, classes: pa.Array, cells: Histogram) -> pa.Table:
    """One row per class and cell with a count above 0."""
    columns = {
        "feature": feature,
        "value": cells.values,
        "width": np.full(len(cells.values), cells.width),
    }
    return tidy_table(classes, columns, {"count": cells.counts}, cells.counts > 0.0)
