"""The estimate of counted cells: p(x | z₁ … z_d, class), from that given one column fewer.

    p(x | class)           = (n(x) + α_x) / (N + Σα),  or (n(x) + s p(x)) / (N + s)
    p(x | z₁ … z_d, class) = (n(x, z₁ … z_d) + s_d p(x | z₁ … z_{d−1}, class)) / (N(z₁ … z_d) + s_d)

n counts rows of the class, N is the sum of n over x, α a pseudo-count, p(x) the estimate of all
classes together, and s_d the strength of a prior, the number of rows that its mean is worth: a
Dirichlet distribution whose mean is the estimate given one column fewer (as in Petitjean, Buntine,
Webb and Zaidi, "Accurate parameter estimation for Bayesian network classifiers using hierarchical
Dirichlet processes", 2018, who sample the strengths). A value of z that the class never showed has
n = N = 0 and leaves the estimate before it.

Bins next to each other are alike, so a row of bins x' and z' may be shared out among those around::

    n(x, z) = Σ_x'z' K(x, x') K(z, z') · rows of x' and z'        K(x, x') ∝ 1 − |x − x'| / window

K sums to 1 over x, hence so does p. A row that is left out takes its share K(x, x) K(z, z) along.
p(x | class) counts whole rows.

A strength is given, or the one of a few under which the training rows, each left out of its counts,
are most probable.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TypeAlias

import numpy as np

from probclass_core.arrow.arrays import FloatArray, IntArray, add_looked_up
from probclass_core.arrow.rows import Rows
from probclass_core.errors import NotSupportedError, one_of
from probclass_core.estimation import marginals
from probclass_core.estimation.families.counted.encoder import Encoder
from probclass_core.estimation.families.counted.options import CountedOptions
from probclass_core.estimation.formulas import Formula, Lookup
from probclass_core.estimation.kinds.cells import (
    CellIndex,
    are_few,
    cell_numbers,
    count_cells,
    without_row,
)

Numbers: TypeAlias = FloatArray | float

_MAX_DENSE = 2**18
"""Numbers in a table of all combinations of values; with more, they are computed for each row."""

_STRENGTHS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)
"""Strengths to choose from."""

_SHARED_STRENGTHS = _STRENGTHS[:5]
"""Strengths of a shared prior to choose from. A stronger one would take all that a column tells if
it tells little, which block weights decide better."""

_TIE = 1e-12
"""Relative difference up to which two log-likelihoods count as equal: it may be rounding."""


@dataclass(frozen=True)
class CellCounts:
    """Counts of the cells of a column and of those that it is given.

    Attributes:
        codes: of the column, then of the given ones, ``(1 + d, n)``.
        classes: position of the class, ``(n,)``.
        counts: Σ w, ``(n,)``.
    """

    codes: IntArray
    classes: IntArray
    counts: FloatArray

    def by_depth(self, encoders: Sequence[Encoder], classes: int) -> list[CellCounts]:
        """Counts of the column given the first 0 … d columns, of the rows that know these."""
        known = self.codes[0] != encoders[0].null
        result = []
        for depth in range(len(encoders)):
            if depth:
                known = known & (self.codes[depth] != encoders[depth].null)
            keys = np.concatenate([self.classes[None], self.codes[: depth + 1]])[:, known]
            sizes = [classes, *(encoder.size for encoder in encoders[: depth + 1])]
            cells, counts = count_cells(keys, sizes, self.counts[known])
            result.append(CellCounts(cells[1:], cells[0], counts))
        return result

    def shared_out(self, shares: Sequence[FloatArray]) -> CellCounts:
        """The cells with each row shared out among those around it.

        Args:
            shares: of each column, see `Encoder.shares`.
        """
        codes, classes, counts = self.codes, self.classes, self.counts
        for place, of_code in enumerate(shares[: len(codes)]):
            step, cell = np.nonzero(of_code[:, codes[place]])
            counts = counts[cell] * of_code[step, codes[place, cell]]
            codes, classes = codes[:, cell], classes[cell]
            codes[place] += step - len(of_code) // 2
        return CellCounts(codes, classes, counts)


@dataclass(frozen=True)
class Prior:
    """How counts become probabilities.

    Attributes:
        alpha: pseudo-count of each value, ``(m,)``.
        shared: strength of the prior that all classes share, or None.
        strengths: those of depths 1 … d; fewer while they are chosen.
        zeros: whether only cells without a count get the pseudo-count.
        window: bins to either side that a row is shared out among, its own included.
    """

    alpha: FloatArray
    shared: float | None
    strengths: list[float]
    zeros: bool
    window: int

    @property
    def all_strengths(self) -> list[float]:
        """The shared one, if there is one, and those of depths 1 … d."""
        return [*([] if self.shared is None else [self.shared]), *self.strengths]

    @property
    def mass(self) -> float:
        """Number of rows that the prior of depth 0 is worth in a class."""
        return float(self.alpha.sum()) if self.shared is None else self.shared

    def of_codes(self, counts: FloatArray) -> FloatArray:
        """Rows that each code is worth in a class, ``(m + 2,)``: an unseen one the least α.

        Args:
            counts: by class and code, ``(k, m + 2)``.
        """
        alpha = np.concatenate([self.alpha, [0.0], np.sort(self.alpha)[:1]])
        if self.shared is None:
            return alpha
        total = counts.sum(axis=1).sum() + self.alpha.sum()
        return self.shared * smoothed(counts.sum(axis=0) + alpha, total, 0.0, 0.0)


class Chain:
    """Counts of one column and the columns before it, and probabilities from them.

    Args:
        encoders: the column, then the ``d`` columns that it is given, nearest first.
        cells: cells of the rows of each depth, see `CellCounts.by_depth`.
        classes: number of classes, ``k``.
        prior: how they become probabilities.

    Attributes:
        counts: by class and code of the column, ``(k, m + 2)``.
        deeper: the cells of depths 1 … d.
    """

    def __init__(
        self, encoders: Sequence[Encoder], cells: Sequence[CellCounts], classes: int, prior: Prior
    ) -> None:
        self.encoders, self.prior, self.deeper = encoders, prior, cells[1:]
        first, own = cells[0], encoders[0]
        self.counts = np.zeros((classes, own.size))
        np.add.at(self.counts, (first.classes, first.codes[0]), first.counts)
        self._rows = self.counts.sum(axis=1)
        self._alpha = prior.of_codes(self.counts)
        self._sizes = [encoder.size for encoder in encoders]
        shares = [encoder.shares(prior.window) for encoder in encoders]
        self._own_shares = [of_code[prior.window - 1] for of_code in shares]
        self._steps = [
            [
                _Table(
                    [of.classes, *of.codes[i:]], [classes, *self._sizes[i : depth + 1]], of.counts
                )
                for i in (0, 1)
            ]
            for depth, of in enumerate((of.shared_out(shares) for of in self.deeper), 1)
        ]

    @property
    def name(self) -> str:
        return self.encoders[0].name

    @property
    def counts_of_values(self) -> FloatArray:
        """By class and value of the column, ``(k, m)``."""
        return self.counts[:, : len(self.encoders[0].values)]

    @property
    def _every_class(self) -> IntArray:
        return np.arange(len(self.counts))[:, None]

    @cached_property
    def table(self) -> FloatArray | None:
        """Log probabilities of all combinations of codes, ``(k, cells)``; None if too many."""
        size = len(self.counts) * math.prod(self._sizes)
        if self._steps and size > _MAX_DENSE:
            return None
        return self.of_classes(self._all_codes(), self._every_class)

    def cells(self, codes: Sequence[IntArray] | IntArray) -> IntArray:
        """Columns of the table of codes, ``(n,)``."""
        return cell_numbers(codes, self._sizes)

    def log_probability(self, codes: Sequence[IntArray]) -> FloatArray:
        """log p(x | z, c), ``(k, n)``; 0 for a null that is not a value.

        Args:
            codes: those of the column and of each given one, ``(n,)``.
        """
        if self.table is not None:
            return self.table.take(self.cells(codes), axis=1)
        stacked = np.stack(codes)
        cells = CellIndex(stacked, self._sizes)
        logs = self.of_classes(stacked[:, cells.first], self._every_class)
        return logs.take(cells.group, axis=1)

    def lookup(self, unseen: str) -> Lookup | None:
        """`log_probability` as a table for formulas; None if it is too large.

        Args:
            unseen: what to do about unseen values of the column, as `Encoder.of_rows`.
        """
        if self.table is None:
            return None
        table = self.table.reshape(-1, *self._sizes)
        for axis, encoder in enumerate(self.encoders):
            table = table.take(encoder.codes_of("pseudo_count" if axis else unseen), axis=axis + 1)
        return Lookup([encoder.code() for encoder in self.encoders], table)

    def of_classes(
        self, codes: Sequence[IntArray] | IntArray, classes: IntArray, weights: Numbers = 0.0
    ) -> FloatArray:
        """log p(x | z, class) of rows as if each had been left out, ``(n,)`` or ``(k, n)``.

        p(x), which a shared prior has as its mean, remains that of all rows.

        Args:
            codes: those of the column and of the first given ones, ``(n,)`` each.
            classes: position of a class for each row, ``(n,)``, or of all classes, ``(k, 1)``.
            weights: weight of each row, ``(n,)``, 0 to leave none out.
        """
        with np.errstate(divide="ignore"):
            return np.log(self._probability(np.asarray(codes), classes, weights))

    def _probability(self, codes: IntArray, classes: IntArray, weights: Numbers) -> FloatArray:
        own, prior = codes[0], self.prior
        counts = without_row(self.counts[classes, own], weights)
        rows = without_row(self._rows[classes], weights)
        p = smoothed(counts, rows, self._alpha[own], prior.mass)
        if prior.zeros:
            p = np.where(counts > 0.0, smoothed(counts, rows, 0.0, 0.0), p)
        known = own != self.encoders[0].null
        p = np.where(known, p, 1.0)
        for depth, strength in enumerate(prior.strengths[: len(codes) - 1], 1):
            known = known & (codes[depth] != self.encoders[depth].null)
            counts, rows = self._left(depth, codes, classes, weights)
            p = np.where(known, smoothed(counts, rows, strength * p, strength), p)
        return p

    def _left(
        self, depth: int, codes: IntArray, classes: IntArray, weights: Numbers
    ) -> tuple[FloatArray, FloatArray]:
        """Counts of the cells of rows, and of their first given values, without each row."""
        cells, totals = self._steps[depth - 1]
        counts = cells.of([classes, *codes[: depth + 1]])
        rows = totals.of([classes, *codes[1 : depth + 1]])
        own, *given = (shares[code] for shares, code in zip(self._own_shares, codes, strict=False))
        of_given = weights * math.prod(given[:depth])
        return without_row(counts, of_given * own), without_row(rows, of_given)

    def best_strength(self, depth: int) -> float:
        """The strength under which the cells of a depth are most probable, one row left out each.

        The strengths of the depths before it are known.
        """
        cells = self.deeper[depth - 1]
        others, rest = self._left(depth, cells.codes, cells.classes, 1.0)
        mean = self._probability(cells.codes[:-1], cells.classes, 1.0)
        return best_strength(cells.counts, others, rest, mean, _STRENGTHS)

    def _all_codes(self) -> IntArray:
        """All combinations of codes, ``(1 + d, cells)``."""
        return np.indices(self._sizes).reshape(len(self._sizes), -1)


class _Table:
    """Counts of the combinations of codes, such as those of a class and a cell.

    Args:
        codes: ``n`` combinations; the counts of equal ones are added up.
        sizes: number of codes in each place.
        counts: ``(n,)``.
    """

    def __init__(self, codes: Sequence[IntArray], sizes: Sequence[int], counts: FloatArray) -> None:
        self._find: Callable[[Sequence[IntArray]], IntArray] = partial(cell_numbers, sizes=sizes)
        if are_few(math.prod(sizes), len(counts)):
            group, cells = self._find(codes), math.prod(sizes)
        else:
            index = CellIndex(np.stack(codes), sizes)
            self._find, group = index.find, index.group
            cells = len(index.first) + 1  # an empty one at the end for `MISSING`
        self._counts = np.bincount(group, counts, cells).astype(np.float64)

    def of(self, codes: Sequence[IntArray]) -> FloatArray:
        """The counts of combinations; the arrays of codes are broadcast."""
        return self._counts[self._find(codes)]


def best_shared_strength(counts: FloatArray, alpha: FloatArray, row_weight: float) -> float:
    """The strength of the prior that all classes share.

    Args:
        counts: by class and value, ``(k, m)``.
        alpha: pseudo-count of each value, ``(m,)``.
        row_weight: average weight of a row, see `Estimator`.
    """
    row, column = np.nonzero(counts)
    cells, total = counts[row, column], counts.sum(keepdims=True).ravel()
    sums = cells, counts.sum(axis=1)[row], counts.sum(axis=0)[column], total
    others, rest, values, all_others = (without_row(each / row_weight) for each in sums)
    mean = smoothed(values, all_others, alpha[column], float(alpha.sum()))
    return best_strength(cells, others, rest, mean, _SHARED_STRENGTHS)


def best_strength(
    counts: FloatArray,
    others: FloatArray,
    rest: FloatArray,
    mean: FloatArray,
    strengths: Sequence[float],
) -> float:
    """The strength under which training rows are most probable, each left out of its counts.

    Args:
        counts: of cells, ``(n,)``.
        others: the same without one row.
        rest: sum of the counts that the cell's is a share of, without this row.
        mean: mean of the prior without this row.
        strengths: those to choose from, ascending.
    """
    with np.errstate(divide="ignore"):
        scores = np.array(
            [
                counts @ np.log(smoothed(others, rest, strength * mean, strength))
                for strength in strengths
            ]
        )
    best = scores.max()
    tolerance = _TIE * abs(best) if np.isfinite(best) else 0.0
    return strengths[int(np.argmax(scores >= best - tolerance))]


def smoothed(counts: FloatArray, totals: Numbers, mass: Numbers, total_mass: Numbers) -> FloatArray:
    """(n + mass) / (N + total mass); 0 if the numerator is 0."""
    numerator, denominator = counts + mass, totals + total_mass
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(numerator > 0.0, numerator / denominator, 0.0)


class CountedLikelihood:
    """log p(x | z, c).

    Args:
        chains: the estimates of the columns, those without values included.
        given: the given columns.
        classes: number of classes.
        options: options of the block.
    """

    normalized = True

    def __init__(
        self,
        chains: Sequence[Chain],
        given: Sequence[Encoder],
        classes: int,
        options: CountedOptions,
    ) -> None:
        self.columns = [chain.name for chain in chains]
        self.chains = {chain.name: chain for chain in chains if chain.encoders[0].values}
        self.given, self.classes, self.options = given, classes, options

    def log_likelihood(self, rows: Rows) -> FloatArray:
        result = np.zeros((self.classes, len(rows)))
        for chain, codes in self._coded(rows):
            if chain.table is not None:
                add_looked_up(result, chain.table, chain.cells(codes))
            else:
                result += chain.log_probability(codes)
        return result.T

    def log_factors(self, rows: Rows) -> Iterator[FloatArray]:
        factors = {of.name: of.log_probability(codes).T for of, codes in self._coded(rows)}
        nothing = np.zeros((len(rows), self.classes))
        return (factors.get(name, nothing) for name in self.columns)

    def marginal(self, column: str) -> marginals.Levels | None:
        """Probabilities without the given columns; of a given column, its frequencies."""
        chain = self.chains.get(column)
        if chain is not None:
            encoder, *given = chain.encoders
            size = len(encoder.values)
            # The code of a null that is no value leaves the given columns out.
            codes = [np.arange(size), *(np.full(size, of.null) for of in given)]
            probability = np.exp(chain.log_probability(codes)).T
        else:
            found = next((of for of in self.given if of.name == column), None)
            if found is None or not found.values:
                return None  # training saw no value
            encoder = found
            counts = self._counts_given(encoder)[: len(encoder.values)]
            totals = counts.sum(axis=0)
            probability = np.divide(counts, totals, out=np.zeros_like(counts), where=totals > 0.0)
        if encoder.cuts is None:
            return marginals.Levels(encoder.values, probability)
        missing = probability[-1] if None in encoder.values else None
        return marginals.bins(np.array(encoder.cuts), probability[: len(encoder.known)], missing)

    def _counts_given(self, encoder: Encoder) -> FloatArray:
        """Counts of a given column, by code and class, of the rows of all columns."""
        depth = 1 + [of.name for of in self.given].index(encoder.name)
        counts = np.zeros((encoder.size, self.classes))
        for chain in self.chains.values():
            cells = chain.deeper[depth - 1]
            np.add.at(counts, (cells.codes[depth], cells.classes), cells.counts)
        return counts

    def formula(self) -> Formula:
        terms = []
        for chain in self.chains.values():
            lookup = chain.lookup(self.options.unseen)
            if lookup is None:
                raise NotSupportedError(
                    f"column {chain.name!r} given {one_of([of.name for of in self.given])} has too "
                    "many combinations of values for a table to look up; give it fewer columns."
                )
            terms.append(lookup)
        return Formula(terms)

    @property
    def cuts(self) -> dict[str, Sequence[float]]:
        encoders = {name: chain.encoders[0] for name, chain in self.chains.items()}
        return {name: of.cuts for name, of in encoders.items() if of.cuts is not None}

    @property
    def cell_log_likelihood(self) -> FloatArray | None:
        chains = [*self.chains.values()]
        return chains[0].table if len(chains) == 1 else None

    def cells(self, rows: Rows) -> IntArray:
        ((chain, codes),) = self._coded(rows)
        return chain.cells(codes)

    def left_out(self, rows: Rows, truth: IntArray, weights: FloatArray | None) -> FloatArray:
        """log p(x | z, own class) of rows as if each had been left out, ``(n,)``."""
        result = np.zeros(len(rows))
        for chain, codes in self._coded(rows):
            result += chain.of_classes(codes, truth, 1.0 if weights is None else weights)
        return result

    def _coded(self, rows: Rows) -> Iterator[tuple[Chain, Sequence[IntArray]]]:
        given = [encoder.of_rows(rows, "pseudo_count") for encoder in self.given]
        for chain in self.chains.values():
            yield chain, [chain.encoders[0].of_rows(rows, self.options.unseen), *given]
