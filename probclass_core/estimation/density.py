"""A density of single columns is one page of NumPy; everything else follows from it.

An author writes the parameters and their ranges, the terms whose moments suffice, the estimate and
the log density::

    class Exponential(pc.Density):
        '''Waiting times: f(x | c) = λ exp(−λx), x ≥ 0.'''

        name = "exponential"
        support = (0.0, math.inf)
        parameters = {"rate": POSITIVE}

        def estimate(self, m):
            return {"rate": 1.0 / m.x.mean}

        def log_density(self, x, p):
            return np.log(p.rate) - p.rate * x

`Density` derives summaries of batches and their merge, weights, nulls and the support, a table of
parameters and its check, scoring, leave-one-out, and SQL that scores and that trains.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.arrow.arrays import BoolArray, ByClass, FloatArray, IntArray
from probclass_core.arrow.rows import Rows
from probclass_core.errors import DataError, NotSupportedError, PluginError, StoreError, shown
from probclass_core.estimation.column_density import (
    BEYOND_FLOAT64,
    ByName,
    ColumnDensity,
    ColumnEstimates,
    DensityLikelihood,
    Estimates,
)
from probclass_core.estimation.families.scarce import pooled
from probclass_core.estimation.formulas import Column
from probclass_core.estimation.kinds.grids import Grids
from probclass_core.estimation.kinds.kind import Sums
from probclass_core.estimation.kinds.moments import TermMoments, without_row
from probclass_core.estimation.moments import Moments, moments_of_arrays
from probclass_core.estimation.moments import pooled as of_all_classes
from probclass_core.estimation.options import EstimatorOptions, number
from probclass_core.estimation.tidy import Range

LEAST_SPREAD = 1e-12
"""Smallest spread of a class, which has no unit. Smaller ones are rounding errors."""

_LEAST_FRACTION = 1e-9
"""Smallest spread of a class, as a fraction of that of all classes together."""


class Terms(ByName[Moments]):
    """The moments of a column by term: ``m.<term>`` has ``count``, ``mean`` and ``scatter``.

    Args:
        values: the moments by the name of the term; for shapes see `Density.estimate`.

    Attributes:
        spread: result of `Density.spread`, after its floor.
    """

    spread: FloatArray


class SpreadOptions(EstimatorOptions):
    """Options of a density with a `Density.spread`."""

    spread_floor: float = number(
        0.005,
        doc="Smallest spread of a class, as a fraction of the spread within the classes that vary; "
        "a class whose rows are all equal by chance would otherwise decide about every row.",
    )


class Density(ColumnDensity):
    """A `ColumnDensity` whose parameters follow from moments.

    Statistics: class, feature, term, count (Σ w), mean, scatter (Σ w (t − mean)²).

    A class without values, or whose estimates are outside the ranges of ``parameters``, gets the
    density of all classes together, and a note says so.
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "spread" in vars(cls) and not issubclass(cls.Options, SpreadOptions):
            raise PluginError(
                f"{cls.__name__} has a spread, but its options have no floor for it; set "
                "Options = SpreadOptions, or derive them from it."
            )
        if "next_pass" in vars(cls) and cls.passes < 2:
            raise PluginError(
                f"{cls.__name__} has a next_pass, but passes is 1; set the largest number of "
                "passes."
            )

    def terms(self, x: Any) -> Mapping[str, Any]:
        """Functions of the values whose moments suffice for the estimate; by default x itself.

        Args:
            x: values within the support, or NaN, ``(n,)``.

        Returns:
            Values by name, ``(n,)`` each. A NaN is left out of its term; the first term counts the
            values of the column.
        """
        return {"x": x}

    @abstractmethod
    def estimate(self, m: Terms) -> Mapping[str, FloatArray]:
        """The parameters from the moments of the terms (see `Terms`), elementwise.

        The moments are those of each class, and then of all classes together.
        """

    def spread(self, m: Terms) -> FloatArray | None:
        """A measure of variation without unit, 0 if all values are equal; None for no floor.

        A class whose rows are all equal by chance would decide about every row. With
        ``Options = SpreadOptions``, ``m.spread`` is this measure, not below its floor.
        """
        return None

    def next_pass(self, columns: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Options of another pass over the rows, from the moments of every column, or None."""
        return None

    def evidence(self, m: Terms) -> FloatArray:
        """log p(values of a column | class), the parameters integrated out, in nats, ``(k,)``."""
        raise NotSupportedError(f"{self.name} offers no log evidence.")

    @property
    def kind(self) -> TermMoments:
        return TermMoments(self.features.names, list(self._terms(np.empty(0))))

    @property
    def _of_x_alone(self) -> bool:
        return type(self).terms is Density.terms

    def summarize(
        self, rows: Rows, classes: pa.DictionaryArray, weights: FloatArray | None
    ) -> pa.Table:
        if self._of_x_alone and self.support == Density.support and not self.whole:
            return super().summarize(rows, classes, weights)
        columns = [self._terms_of(name, self.values(rows, name)) for name in self.features.names]
        terms, groups = [term for column in columns for term in column], ByClass.group(classes)
        return self.kind.table(groups.labels, moments_of_arrays(terms, groups, weights))

    def _terms(self, x: FloatArray) -> Mapping[str, FloatArray]:
        """The terms of values.

        Raises:
            PluginError: if they are not arrays like the values, by name.
        """
        terms = self.terms(x)
        if not isinstance(terms, Mapping) or not terms:
            raise PluginError(
                f"{self.name}: terms returns {shown(terms)}; map names to arrays like x, as in "
                "{'x': x}."
            )
        for term, values in terms.items():
            if np.shape(values) != x.shape:
                raise PluginError(
                    f"{self.name}: term {term!r} has the shape {np.shape(values)}, but x has "
                    f"{x.shape}; return a number for each value."
                )
        return {term: np.asarray(values, np.float64) for term, values in terms.items()}

    def _terms_of(self, name: str, x: FloatArray) -> Sequence[FloatArray]:
        """The terms of a column.

        Raises:
            DataError: if one is infinite.
        """
        with np.errstate(over="ignore"):
            terms = self._terms(x)
        for term, values in terms.items():
            infinite = np.isinf(values)
            if infinite.any():
                raise DataError(
                    f"column {name!r}: {term} of {x[int(np.argmax(infinite))]:g}, a term of "
                    f"{self.name}, exceeds float64; divide the column by a power of ten."
                )
        return list(terms.values())

    def check_statistics(self, statistics: pa.Table, classes: pa.Table) -> None:
        self.kind.check(statistics, classes, infinite=True)
        of_x = statistics.filter(pc.equal(statistics["term"], "x"))
        Range(*self.support).check("mean", of_x["mean"])

    def aggregates(self) -> Sums | None:
        """Sums of the values, if these are the only term; other terms need the rows."""
        if not self._of_x_alone:
            return None
        columns = map(Column, self.features.names)
        return self.kind.aggregates([each for x in columns for each in self.outside(x)])

    def estimates(
        self, statistics: pa.Table, classes: pa.Array
    ) -> Iterator[tuple[str, ColumnEstimates]]:
        for name, m in self.kind.by_column(statistics, classes).items():
            if all(moments.count.any() for moments in m.values()):
                yield name, _Column(self, name, classes, m).fit()

    def refine(self, statistics: pa.Table, classes: pa.Array) -> Mapping[str, Any] | None:
        columns = self.kind.by_column(statistics, classes)
        return self.next_pass({name: Terms(m) for name, m in columns.items()})

    @classmethod
    def has_evidence(cls) -> bool:
        return cls.evidence is not Density.evidence

    def log_evidence(self, statistics: pa.Table) -> float:
        classes = pc.unique(statistics["class"])
        columns = self.kind.by_column(statistics, classes)
        return float(sum(self.evidence(Terms(m)).sum() for m in columns.values()))

    @BEYOND_FLOAT64
    def leave_one_out(
        self,
        statistics: pa.Table,
        likelihood: DensityLikelihood,
        classes: pa.Array,
        rows: Rows,
        truth: IntArray,
        weights: FloatArray | None,
    ) -> FloatArray:
        """See `LeaveOneOut`; floors of spreads remain those of all rows."""
        result = likelihood.log_likelihood(rows)
        own = np.zeros(len(rows))
        for name, m in self.kind.by_column(statistics, classes).items():
            if name in likelihood.estimates:
                x = rows.numbers(name)
                within = np.flatnonzero(self.has_density(x))
                weight = np.ones(len(within)) if weights is None else weights[within]
                column = _Column(self, name, classes, m)
                p = column.without_rows(self._terms(x[within]), truth[within], weight)
                own[within] += self.log_densities(x[within], p)
        result[np.arange(len(own)), truth] = own
        return result


class _Column:
    """The estimates of one column, and what is done if a class has too few rows for its own.

    Args:
        density: the estimator.
        name: name of the column.
        classes: ``k`` labels.
        m: moments by term, ``(k,)`` each.

    Attributes:
        m: moments by term of each class and then of all classes together, ``(k + 1,)`` each.
        within: spread within the classes that vary, 0 if none does.
        floor: least spread of a class.
    """

    @BEYOND_FLOAT64
    def __init__(
        self, density: Density, name: str, classes: pa.Array, m: Mapping[str, Moments]
    ) -> None:
        self.density, self.name, self.classes = density, name, classes
        self.m = {term: _followed(moments, of_all_classes(moments)) for term, moments in m.items()}
        self.within = self.floor = 0.0
        spread = self._spread(self.m)
        if spread is not None:
            *of_classes, of_all = spread
            varies = (np.array(of_classes) > LEAST_SPREAD) & ~self._none
            counts = np.where(varies, _first(m).count, 0.0)
            if counts.any():
                self.within = float(counts @ np.where(varies, of_classes, 0.0) / counts.sum())
            fraction: float = density.options.spread_floor
            self.floor = max(_LEAST_FRACTION * of_all, fraction * self.within, LEAST_SPREAD)

    @property
    def _none(self) -> BoolArray:
        """The classes without values of some term, ``(k,)``."""
        none: BoolArray = np.any([each.count[:-1] == 0.0 for each in self.m.values()], axis=0)
        return none

    def fit(self) -> ColumnEstimates:
        """The estimates of the column."""
        count, notes = _first(self.m).count, []
        spread = self._spread(self.m)
        if spread is not None:
            alone = self._is_alone(spread, count)[:-1, None]
            instead = "the spread there is that of the others"
            found = "too few values for a spread"
            notes = pooled(found, [self.name], self.classes, alone, instead)
        return ColumnEstimates(count[:-1], self._none, self._estimate(self.m), notes)

    @BEYOND_FLOAT64
    def without_rows(
        self, terms: Mapping[str, FloatArray], truth: IntArray, weights: FloatArray
    ) -> Estimates:
        """The parameters of each row's class without this row, ``(n,)`` each."""
        left = {}
        for term, values in terms.items():
            of_class = self.m[term].map(itemgetter(truth))
            known = ~np.isnan(values)
            without = without_row(of_class, np.where(known, values, 0.0), weights)
            of_all = self.m[term].map(itemgetter(slice(-1, None)))
            left[term] = _followed(_choose(known, without, of_class), of_all)
        return self.density.in_ranges(self._estimate(left), len(truth))[0]

    def _estimate(self, m: Mapping[str, Moments]) -> Mapping[str, FloatArray]:
        """The parameters; the last moments are of all classes together."""
        terms, spread = self._usable(m), self._spread(m)
        if spread is not None:
            alone = self._is_alone(spread, _first(m).count)
            terms.spread = np.maximum(np.where(alone, self.within, spread), self.floor)
        return self.density.estimate(terms)

    def _spread(self, m: Mapping[str, Moments]) -> FloatArray | None:
        return self.density.spread(self._usable(m))

    def _usable(self, m: Mapping[str, Moments]) -> Terms:
        """The moments; a class without values has the last ones, of all classes together."""
        return Terms(
            {
                term: _choose(each.count > 0.0, each, each.map(itemgetter(-1)))
                for term, each in m.items()
            }
        )

    def _is_alone(self, spread: FloatArray, count: FloatArray) -> BoolArray:
        """Whether a class has a single value, so that its spread is that of the others."""
        return (spread <= LEAST_SPREAD) & (count > 0.0) & (count <= 1.0) & (self.within > 0.0)


def _first(m: Mapping[str, Moments]) -> Moments:
    return next(iter(m.values()))


def _followed(first: Moments, last: Moments) -> Moments:
    """Moments, then others."""
    pairs = zip(vars(first).values(), vars(last).values(), strict=True)
    return Moments(*(np.append(*pair) for pair in pairs))


def _choose(mask: BoolArray, first: Moments, second: Moments) -> Moments:
    """The first moments where the mask is true, elsewhere the second ones."""
    pairs = zip(vars(first).values(), vars(second).values(), strict=True)
    return Moments(*(np.where(mask, *pair) for pair in pairs))


@dataclass(frozen=True)
class Counts:
    """Counts of one column.

    Attributes:
        values: values, or the middles of cells, ascending, ``(m,)``.
        counts: Σ w by class, ``(k, m)``.
    """

    values: FloatArray
    counts: FloatArray

    @property
    def count(self) -> FloatArray:
        """Σ w of each class, ``(k,)``."""
        count: FloatArray = self.counts.sum(axis=1)
        return count

    def mean(self, values: FloatArray | None = None) -> FloatArray:
        """The mean of the values, or of other numbers ``(m,)`` or ``(k, m)``: ``(k,)``."""
        total = (self.counts * (self.values if values is None else values)).sum(axis=1)
        mean: FloatArray = total / self.count
        return mean

    def quantile(self, share: float) -> FloatArray:
        """The least value that at least a share of the rows do not exceed, ``(k,)``."""
        cumulated = np.cumsum(self.counts, axis=1)
        place = np.argmax(cumulated >= share * cumulated[:, -1:], axis=1)
        return np.where(self.count > 0.0, self.values[place], np.nan)

    def each(self, fit: Callable[[FloatArray, FloatArray], Sequence[float]]) -> FloatArray:
        """Parameters that a function finds for one class after another.

        Args:
            fit: from values, ascending, and their counts, above 0, to ``r`` numbers.

        Returns:
            ``(r, k)``; NaN for a class without values.
        """
        fits = [fit(self.values[n > 0.0], n[n > 0.0]) if n.any() else np.nan for n in self.counts]
        return np.stack(np.broadcast_arrays(*fits), axis=-1)


class HistogramDensity(ColumnDensity):
    """A `ColumnDensity` whose parameters follow from counts of the values on a grid.

    For what moments do not suffice: medians, quantiles, mean absolute deviations, likelihoods that
    are maximized numerically. A cell is as narrow as `cells` of them allow, so that estimates are
    approximate for more different values; `refine` may ask for another pass with more cells.

    Statistics: those of `Grids`.

    Attributes:
        cells: largest number of cells of a column.
    """

    cells: float = 4096

    def rounded(self, x: FloatArray) -> FloatArray:
        """The values to count, such as the leading digits of large ones; by default x itself."""
        return x

    @abstractmethod
    def estimate(self, h: Counts) -> Mapping[str, FloatArray]:
        """The parameters of every class, ``(k,)``, from the counts of the values.

        Those of a class without values are NaN. All classes together count as one more class.
        """

    @property
    def kind(self) -> Grids:
        return Grids(self.features.names, self.cells)

    def summarize(
        self, rows: Rows, classes: pa.DictionaryArray, weights: FloatArray | None
    ) -> pa.Table:
        names = self.features.names
        columns = {name: self.values(rows, name) for name in names}  # refuses some
        if type(self).rounded is not HistogramDensity.rounded:
            arrays = [self.rounded(values) for values in columns.values()]
            rows = Rows(pa.record_batch(arrays, names))
        return super().summarize(rows, classes, weights)

    def check_statistics(self, statistics: pa.Table, classes: pa.Table) -> None:
        super().check_statistics(statistics, classes)
        for name, histogram, _ in self.kind.read([statistics], classes["class"].combine_chunks()):
            if not histogram.width and not self.has_density(histogram.values).all():
                raise StoreError(f"a value of column {name!r} is not one that {self.name} models.")

    def estimates(
        self, statistics: pa.Table, classes: pa.Array
    ) -> Iterator[tuple[str, ColumnEstimates]]:
        for name, histogram, _ in self.kind.read([statistics], classes):
            if len(histogram.values):
                counts = np.vstack([histogram.counts, histogram.counts.sum(axis=0)])
                h = Counts(histogram.values + 0.5 * histogram.width, counts)
                count = h.count[:-1]
                yield name, ColumnEstimates(count, count == 0.0, self.estimate(h))
