"""Numbers cut into bins, and the bins counted as categories.

Zaki and Meira, *Data Mining and Machine Learning*, Table 18.1, cut numeric attributes by hand. Here
the cuts are computed from the data, by default by the method of Fayyad and Irani (1993); a bin's
probability is that of a category with a pseudo-count, eq. 18.6 of the book:
(n_c(b) + α) / (n_c + α · bins).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.arrow.arrays import (
    BoolArray,
    FloatArray,
    IntArray,
    add_looked_up,
    column_extremes,
    extremes,
    label_codes,
    numbers_rounded_down,
    sorted_classes,
)
from probclass_core.errors import DataError, StoreError
from probclass_core.estimation import marginals
from probclass_core.estimation.contract import Estimator
from probclass_core.estimation.families.discretized.cuts import (
    bin_codes,
    bins_of,
    frequency_cuts,
    mdl_cuts,
    parse_cuts,
    width_cuts,
)
from probclass_core.estimation.families.left_out import log_share, without_row
from probclass_core.estimation.families.scarce import (
    of_other_rows,
    pooled_counts,
    require_values,
    without_values,
)
from probclass_core.estimation.families.strength import (
    shared_mean,
    shared_prior,
    shared_strength_option,
)
from probclass_core.estimation.formulas import Bins, Formula, Lookup
from probclass_core.estimation.histogram import (
    FEWEST_CELLS,
    Histogram,
    histogram,
    lower_edges,
)
from probclass_core.estimation.options import (
    NUMBERS,
    EstimatorOptions,
    choice,
    number,
    option,
    whole,
)
from probclass_core.estimation.parameters import (
    BOUND,
    COUNT,
    LOG_PROBABILITY,
    NOT_NEGATIVE,
    Range,
    check_notes,
    check_parameters,
    check_row_counts,
    label_rows,
)
from probclass_core.estimation.tidy import by_feature, dense_arrays, notes_of, tidy_table


class Discretized(Estimator):
    """Independent binned numbers given the class.

    Statistics: class, feature, nulls (Σ w of the nulls that count), width (of a cell, else 0),
    values (or the lower edges of cells, or of bins if their cuts are given), counts (Σ w of each).
    Parameters: class, feature, bin (from 0), lower, upper (lower ≤ x < upper; the outermost are
    infinite, those of null are null), count, log_probability (of the bin: a mass, not a density).

    Raises:
        SpecError: if a column is not numeric, or an option is unknown or out of bounds.
    """

    name: ClassVar[str] = "discretized"
    factorizes = True
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
        cuts: dict[str, list[float]] = option(
            {},
            parse_cuts,
            expected="a table of lists of ascending numbers, by column",
            doc="Cut points of columns, which are then not computed from the data: a value below "
            "the first cut is in the first bin, a value at a cut or above it in the next.",
        )
        missing: str = choice(
            "marginalize",
            ("marginalize", "level"),
            doc="A null: 'marginalize' leaves the feature of the row out; 'level' makes null a bin "
            "of its own, the last.",
        )
        shared_strength: float | str | None = shared_strength_option()

    options: Options

    def __init__(self, features: pa.Schema, options: Mapping[str, Any]) -> None:
        super().__init__(features, options)
        self.models_nulls = self.options.missing == "level"

    def summarize(
        self, batch: pa.RecordBatch, classes: pa.DictionaryArray, weights: FloatArray | None
    ) -> pa.Table:
        labels = classes.dictionary
        group = classes.indices.to_numpy(zero_copy_only=False).astype(np.intp)
        names = self.features.names
        cells, nulls = [], np.zeros((len(names), len(labels)))
        for name, nulls_of_name in zip(names, nulls, strict=True):
            values, width, null = _observed(batch, name)
            rows: BoolArray | slice = slice(None)
            if null is not None:
                rows = ~null
                if self.models_nulls:
                    weight = None if weights is None else weights[null]
                    nulls_of_name += np.bincount(group[null], weight, len(labels))
            weight = None if weights is None else weights[rows]
            of_rows = values, width, group[rows], weight
            cells.append(self._histogram(name, *of_rows, len(labels)))
        return _table(names, labels, cells, nulls)

    def _histogram(
        self,
        feature: str,
        values: FloatArray,
        width: float,
        group: IntArray,
        weights: FloatArray | None,
        groups: int,
    ) -> Histogram:
        """Counts of rows or cells: of bins if their cuts are given, else see `histogram`."""
        cuts = self.options.cuts.get(feature)
        if cuts is None:
            return histogram(values, width, group, weights, groups, self.options.cells)
        lower = np.array([-np.inf, *cuts])
        return Histogram(lower, 0.0, _bin_counts(values, lower[1:], group, weights, groups))

    def merge(self, tables: Sequence[pa.Table]) -> pa.Table:
        classes = sorted_classes(pa.concat_tables(tables)["class"])
        names, cells, nulls = zip(*self._cells(tables, classes), strict=True)
        return _table(names, classes, cells, np.stack(nulls))

    def finalize(self, statistics: pa.Table, classes: pa.Array) -> pa.Table:
        parts, notes, empty, modeled, none = [], [], [], [], []
        shared, strengths = self.options.shared_strength, {}
        for feature, cells, nulls in self._cells([statistics], classes):
            notes += self._rounded(feature, cells, nulls)
            if not nulls.any() and not len(cells.values):
                empty.append(feature)
                continue
            cuts = self._cuts(feature, cells)
            bins = len(cuts) + 1
            bin_of = np.searchsorted(cuts, cells.values, side="right")
            of_classes = [np.bincount(bin_of, of, bins) for of in cells.counts]
            counts = np.stack(of_classes, dtype=np.float64)
            lower, upper = np.append(-np.inf, cuts), np.append(cuts, np.inf)
            if nulls.any():
                counts = np.column_stack([counts, nulls])
                lower, upper = np.append(lower, np.nan), np.append(upper, np.nan)
            bin_columns = {
                "feature": feature,
                "bin": np.arange(counts.shape[1]),
                "lower": pa.array(lower, from_pandas=True),  # NaN is null
                "upper": pa.array(upper, from_pandas=True),
            }
            alpha: FloatArray | float = self.options.pseudo_count
            prior = self.options.pseudo_count * counts.shape[1]
            if shared is not None:
                prior, mean = shared_prior(counts, alpha, shared, self.row_weight)
                strengths[feature], alpha = prior, prior * mean
            counts, absent = pooled_counts(self.on_scarce, feature, classes, counts, prior)
            modeled.append(feature)
            none.append(absent)
            log_probability = log_share(counts, counts.sum(axis=1, keepdims=True), alpha, prior)
            fields = {"count": counts, "log_probability": log_probability}
            parts.append(tidy_table(classes, bin_columns, fields))
        if self.on_scarce == "error":
            require_values(empty, [0] * len(empty))
        notes += without_values(empty, [0] * len(empty))
        notes += of_other_rows(modeled, classes, none, self.options.pseudo_count)
        parts = parts or [_no_parameters(classes)]
        about = {} if shared is None else {"shared_strengths": strengths}
        return self.annotate(pa.concat_tables(parts).combine_chunks(), scarce=notes, **about)

    def _rounded(self, feature: str, cells: Histogram, nulls: FloatArray) -> list[str]:
        """A sentence about integers that were counted no finer than float64 represents them.

        Raises:
            DataError: instead, if they are all the same to float64, so that the column would say
                nothing, or if ``on_scarce`` is ``"error"``.
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
        if len(cells.values) == 1 and not nulls.any():
            raise DataError(f"{found}, and all of them to the same; {fix}.")
        if self.on_scarce == "error":
            raise DataError(f"{found}; {fix}.")
        return [f"{found}: discretized does not see smaller differences; {fix}."]

    def check_statistics(self, statistics: pa.Table, classes: pa.Table) -> None:
        # A merge would bring the classes of many parts, which are checked together, to one grid.
        nothing = self.merge([statistics.slice(0, 0)])
        if statistics.schema.remove_metadata() != nothing.schema.remove_metadata():
            raise StoreError(f"its columns are {statistics.column_names}, or of other types.")
        COUNT.check("nulls", statistics["nulls"])
        counts = statistics["counts"]
        Range(low=float(np.finfo(np.float64).tiny)).check("counts", pc.list_flatten(counts))
        sizes = _sizes(statistics)
        if not np.array_equal(sizes, pc.list_value_length(counts).to_numpy()):
            raise StoreError("there are not as many counts as values.")
        row = np.repeat(np.arange(len(sizes)), sizes)
        rows = np.bincount(row, _flat(counts), len(sizes)) + statistics["nulls"].to_numpy()
        check_row_counts(
            statistics.select(["class", "feature"]).append_column("count", pa.array(rows)),
            classes,
            ["feature"],
            features=self.features.names,
        )
        nulls = statistics["nulls"].to_numpy()
        if not self.models_nulls and nulls.any():
            raise StoreError("it counts nulls, which the model leaves out.")
        labels = classes["class"].combine_chunks()
        for feature, of in by_feature(statistics, self.features.names):
            label = label_rows(of, labels)
            if len(np.unique(label)) < len(label):
                raise StoreError(f"column {feature!r} has a class twice.")
            self._check_cells(feature, of)

    def _check_cells(self, feature: str, table: pa.Table) -> None:
        """Check that each class has a cell once, on a grid of one or more widths."""
        sizes, values = _sizes(table), _flat(table["values"])
        width = np.repeat(table["width"].to_numpy(), sizes)
        row = np.repeat(np.arange(len(sizes)), sizes)
        if ((values[1:] <= values[:-1]) & (row[1:] == row[:-1])).any():
            raise StoreError(f"column {feature!r} has a cell of a class twice, or not in order.")
        if (cuts := self.options.cuts.get(feature)) is not None:
            on_grid = np.isin(values, [-np.inf, *cuts]).all() and not width.any()
        else:
            on_grid = np.isfinite(values).all() and sizes.max(initial=0) <= self.options.cells
            for of in np.unique(width[width != 0.0]):
                mantissa, exponent = np.frexp(of)
                edges = values[width == of]
                on_grid &= mantissa == 0.5 and np.array_equal(
                    edges, lower_edges(edges, int(exponent) - 1)
                )
        if not on_grid:
            raise StoreError(f"the cells of column {feature!r} are not those of a grid.")

    def check_parameters(self, parameters: pa.Table, classes: pa.Array) -> None:
        strengths = notes_of(parameters).get("shared_strengths", {})
        check_notes(strengths, "shared_strengths", NOT_NEGATIVE)
        bounds = {"lower": BOUND, "upper": BOUND}
        check_parameters(
            parameters,
            classes,
            {"feature": pa.string(), "bin": pa.int64()},
            {**bounds, "count": COUNT, "log_probability": LOG_PROBABILITY},
            within=["feature"],
        )
        for feature, cells in by_feature(parameters, self.features.names):
            bins, lower, upper = (cells[name].to_numpy() for name in ("bin", *bounds))
            first = cells.num_rows and int(bins.max()) + 1
            edges = np.full((2, first), np.nan)
            if cells.num_rows and bins.min() < 0:
                raise StoreError(f"column {feature!r} has a bin with a negative number.")
            edges[:, bins] = lower, upper
            cuts = edges[0][~np.isnan(edges[0])]
            ends = np.append(cuts[1:], np.inf)[: len(cuts)]
            same = (lower == edges[0][bins]) | np.isnan(lower)
            if (
                len(cuts) < first - 1
                or not same.all()
                or (np.diff(cuts) <= 0.0).any()
                or (cuts[:1] != -np.inf).any()
                or (edges[1][: len(cuts)] != ends).any()
            ):
                raise StoreError(f"the bins of column {feature!r} are not next to each other.")

    def likelihood(self, parameters: pa.Table, classes: pa.Array) -> DiscretizedLikelihood:
        return DiscretizedLikelihood(
            parameters, classes, self.options.pseudo_count if self.models_nulls else None
        )

    def leave_one_out(
        self,
        statistics: pa.Table,
        parameters: pa.Table,
        classes: pa.Array,
        batch: pa.RecordBatch,
        truth: IntArray,
        weights: FloatArray | None,
    ) -> FloatArray:
        """See `LeaveOneOut`. Cuts, strengths and p(x) remain those of all rows."""
        likelihood = self.likelihood(parameters, classes)
        strengths = notes_of(parameters).get("shared_strengths", {})
        own = np.zeros(batch.num_rows)
        for feature, cells in by_feature(parameters, self.features.names):
            if not cells.num_rows:
                continue  # training saw no value
            bins = pa.array(np.arange(pc.max(cells["bin"]).as_py() + 1))
            (counts,) = dense_arrays(cells, classes, "bin", bins, ["count"])
            number = likelihood.bins(batch, feature)
            counted = np.flatnonzero(number < len(bins))
            row, weight = truth[counted], None if weights is None else weights[counted]
            left = without_row(counts[row, number[counted]], weight)
            rows_left = without_row(counts.sum(axis=1)[row], weight)
            alpha = np.full(len(bins), self.options.pseudo_count)
            if feature in strengths:
                alpha = strengths[feature] * shared_mean(counts.sum(axis=0), alpha)
            own[counted] += log_share(left, rows_left, alpha[number[counted]], alpha.sum())
        result = likelihood.log_likelihood(batch)
        result[np.arange(len(own)), truth] = own
        return result

    def _cells(
        self, tables: Sequence[pa.Table], classes: pa.Array
    ) -> Iterator[tuple[str, Histogram, FloatArray]]:
        """Each feature, the cells of all classes on one grid, and the counts of null ``(k,)``."""
        features = [by_feature(table, self.features.names) for table in tables]
        for parts in zip(*features, strict=True):
            feature, rows = parts[0][0], pa.concat_tables([rows for _, rows in parts])
            group = label_codes(rows["class"], classes)
            cells = self._histogram(
                feature,
                _flat(rows["values"]),
                rows["width"].to_numpy().max(initial=0.0),
                np.repeat(group, _sizes(rows)),
                _flat(rows["counts"]),
                len(classes),
            )
            nulls = np.bincount(group, rows["nulls"].to_numpy(), len(classes))
            yield feature, cells, nulls.astype(np.float64)

    def _cuts(self, feature: str, cells: Histogram) -> FloatArray:
        if feature in self.options.cuts:
            return np.array(self.options.cuts[feature], dtype=np.float64)
        if not len(cells.values):
            return np.empty(0)
        if self.options.method == "width":
            return width_cuts(cells, self.options.bins)
        if self.options.method == "frequency":
            return frequency_cuts(cells, self.options.bins)
        return mdl_cuts(cells, self.row_weight)


def _bin_counts(
    values: FloatArray,
    cuts: FloatArray,
    group: IntArray,
    weights: FloatArray | None,
    groups: int,
) -> FloatArray:
    """Σ w of each class and bin, ``(k, bins)``; arguments as for `histogram`."""
    size = len(cuts) + 1
    code = group * size + bins_of(values, cuts)
    return np.bincount(code, weights, groups * size).astype(np.float64).reshape(groups, size)


def _observed(batch: pa.RecordBatch, feature: str) -> tuple[FloatArray, float, BoolArray | None]:
    """`numbers_rounded_down` without nulls, and the mask of the nulls ``(n,)`` if there are any."""
    values, width = numbers_rounded_down(batch, feature)
    if column_extremes(batch.column(feature), lambda: extremes(values))[2]:
        null = np.isnan(values)
        return values[~null], width, null
    return values, width, None


class DiscretizedLikelihood:
    """log p(x | c): the sum over features of the log mass of their bins.

    Args:
        parameters: of `Discretized`.
        classes: ``k`` labels.
        null_alpha: pseudo-count of null if it is a value, or None if it is marginalized.
    """

    normalized = True

    def __init__(
        self, parameters: pa.Table, classes: pa.Array, null_alpha: float | None = None
    ) -> None:
        self.classes = len(classes)
        self.lookup: dict[str, tuple[FloatArray, FloatArray]] = {}
        self.with_nulls: set[str] = set()
        notes = notes_of(parameters)
        for feature, cells in by_feature(parameters, notes["features"]):
            if not cells.num_rows:
                continue  # training saw no value
            number = cells["bin"].to_numpy()
            edges = np.empty(int(number.max()) + 1)
            edges[number] = cells["lower"].to_numpy(zero_copy_only=False)
            masses, counts = dense_arrays(
                cells,
                classes,
                "bin",
                pa.array(np.arange(len(edges))),
                ["log_probability", "count"],
            )
            cuts = edges[1:]
            if np.isnan(edges[-1]):
                cuts = edges[1:-1]  # the last bin is null
                self.with_nulls.add(feature)
            else:
                masses = np.pad(masses, [(0, 0), (0, 1)])  # a missing value adds 0
                if null_alpha is not None:  # a null that training never saw
                    mass, prior = null_alpha, null_alpha * len(edges)
                    if feature in notes.get("shared_strengths", {}):
                        strength = notes["shared_strengths"][feature]
                        mass, prior = strength * mass / (counts.sum() + prior), strength
                    rows = counts.sum(axis=1)
                    masses[:, -1] = log_share(np.zeros_like(rows), rows, mass, prior)
            self.lookup[feature] = cuts, masses

    def log_likelihood(self, batch: pa.RecordBatch) -> FloatArray:
        result = np.zeros((self.classes, batch.num_rows))
        for feature, (_, table) in self.lookup.items():
            add_looked_up(result, table, self.bins(batch, feature))
        return result.T

    def log_factors(self, batch: pa.RecordBatch) -> Iterator[FloatArray]:
        for feature, (_, table) in self.lookup.items():
            yield table[:, self.bins(batch, feature)].T

    def marginal(self, column: str) -> marginals.Levels | None:
        if column not in self.lookup:
            return None
        cuts, table = self.lookup[column]
        probability = np.exp(table.T)
        missing = probability[-1] if column in self.with_nulls else None
        return marginals.bins(cuts, probability[:-1], missing)

    def formula(self) -> Formula:
        return Formula(
            [
                Lookup([Bins(name, cuts.tolist())], table)
                for name, (cuts, table) in self.lookup.items()
            ]
        )

    @property
    def cell_log_likelihood(self) -> FloatArray | None:
        tables = [table for _, table in self.lookup.values()]
        return tables[0] if len(tables) == 1 else None

    def cells(self, batch: pa.RecordBatch) -> IntArray:
        (feature,) = self.lookup
        return self.bins(batch, feature)

    def bins(self, batch: pa.RecordBatch, feature: str) -> IntArray:
        """Number of the bin of each value; for null, that after the last: ``(n,)``."""
        return bin_codes(batch, feature, self.lookup[feature][0])


def _no_parameters(classes: pa.Array) -> pa.Table:
    """The parameters of a block of which no column has a value."""
    numbers = ("lower", "upper", "count", "log_probability")
    schema = [("class", classes.type), ("feature", pa.string()), ("bin", pa.int64())]
    return pa.schema([*schema, *((name, pa.float64()) for name in numbers)]).empty_table()


def _table(
    features: Sequence[str], classes: pa.Array, cells: Sequence[Histogram], nulls: FloatArray
) -> pa.Table:
    """Statistics: one row per feature and class with a value or a null that counts.

    Args:
        features: ``d`` names.
        classes: ``k`` labels.
        cells: of each feature.
        nulls: Σ w of the nulls that count, ``(d, k)``.
    """
    present = [histogram.counts > 0.0 for histogram in cells]
    sizes = np.stack([mask.sum(axis=1) for mask in present])
    feature, label = np.nonzero((sizes > 0) | (nulls > 0.0))
    ends = pa.array(np.append(0, np.cumsum(sizes[feature, label])))
    pairs = list(zip(cells, present, strict=True))
    values = [np.broadcast_to(of.values, mask.shape)[mask] for of, mask in pairs]
    counts = [of.counts[mask] for of, mask in pairs]
    return pa.table(
        {
            "class": classes.take(pa.array(label)),
            "feature": pa.array(features, pa.string()).take(pa.array(feature)),
            "nulls": nulls[feature, label],
            "width": np.array([histogram.width for histogram in cells])[feature],
            "values": pa.LargeListArray.from_arrays(ends, np.concatenate(values)),
            "counts": pa.LargeListArray.from_arrays(ends, np.concatenate(counts)),
        }
    )


def tidy_cells(statistics: pa.Table) -> pa.Table:
    """Statistics of `Discretized` as one row per class and cell: class, value, width, count."""
    row = np.repeat(np.arange(statistics.num_rows), _sizes(statistics))
    cells = statistics.select(["class", "width"]).take(pa.array(row))
    cells = cells.add_column(1, "value", pc.list_flatten(statistics["values"]))
    return cells.append_column("count", pc.list_flatten(statistics["counts"]))


def _sizes(table: pa.Table) -> IntArray:
    """Number of cells of each row of statistics."""
    sizes: IntArray = pc.list_value_length(table["values"]).to_numpy()
    return sizes


def _flat(lists: pa.ChunkedArray) -> FloatArray:
    """The elements of all lists, one after another."""
    elements: FloatArray = pc.list_flatten(lists).to_numpy()
    return elements
