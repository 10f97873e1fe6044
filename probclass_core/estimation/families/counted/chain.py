"""The estimate of counted cells: p(x | z₁ … z_d, class), from that given one column fewer.

    p(x | class)           = (n(x) + α_x) / (N + Σα),  or (n(x) + s p(x)) / (N + s)
    p(x | z₁ … z_d, class) = (n(x, z₁ … z_d) + s_d p(x | z₁ … z_{d−1}, class)) / (N(z₁ … z_d) + s_d)

n counts rows of the class, N is the sum of n over x, α a pseudo-count, p(x) the estimate of all
classes together, and s_d the strength of a prior: a Dirichlet distribution whose mean is the
estimate given one column fewer (as in Petitjean, Buntine, Webb and Zaidi, "Accurate parameter
estimation for Bayesian network classifiers using hierarchical Dirichlet processes", 2018, who
sample the strengths). A value of z that the class never showed has n = N = 0 and leaves the
estimate before it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, starmap
from typing import TypeAlias

import numpy as np

from probclass_core.arrow.arrays import BoolArray, FloatArray, IntArray
from probclass_core.estimation.families.counted.encoder import Encoder
from probclass_core.estimation.families.counted.strength import best_strength, log_share, smoothed
from probclass_core.estimation.formulas import Lookup
from probclass_core.estimation.kinds.cells import CellIndex, count_cells, without_row
from probclass_core.estimation.kinds.kind import without_each

_MAX_DENSE = 2**18
"""Numbers in a table of all combinations of values; with more, they are computed for each row."""

_MAX_COUNTS = 2**22
"""Numbers in a dense table of counts by class and cell; larger ones are sparse."""


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

    def without_each(self, encoders: Sequence[Encoder], groups: int, classes: int) -> CellCounts:
        """Counts of all groups but one, for each of them, from those of each group.

        Args:
            encoders: of the columns.
            groups: number of groups, at least two.
            classes: number of classes ``k``; class c of group g is number ``g k + c``, here and in
                the result.
        """
        group, of_class = np.divmod(self.classes, classes)
        keys = np.concatenate([of_class[None], self.codes])
        cells = CellIndex(keys, [classes, *(encoder.size for encoder in encoders)])
        own = np.zeros((groups, len(cells.first)))
        own[group, cells.group] = self.counts
        others = np.stack([*without_each([*own], np.add)])
        group, cell = np.nonzero(others)
        place = cells.first[cell]
        return CellCounts(
            self.codes[:, place], group * classes + of_class[place], others[group, cell]
        )


@dataclass(frozen=True)
class Prior:
    """How counts become probabilities.

    Attributes:
        alpha: pseudo-count of each value, ``(m,)``.
        shared: strength of the prior that all classes share, or None.
        strengths: those of depths 1 … d; fewer while they are chosen.
        uniform: whether every depth backs off to 1 / m.
        zeros: whether only cells without a count get the pseudo-count.
        domain: which values training saw or was told of, ``(m,)``; the others are unseen.
    """

    alpha: FloatArray
    shared: float | None
    strengths: list[float]
    uniform: bool
    zeros: bool
    domain: BoolArray

    @cached_property
    def _of_values(self) -> FloatArray:
        return self.alpha[self.domain]

    @property
    def mass(self) -> float:
        """Number of rows that the prior of depth 0 is worth in a class."""
        return float(self._of_values.sum()) if self.shared is None else self.shared

    @property
    def uniform_share(self) -> float:
        """1 / m."""
        return 1.0 / max(len(self._of_values), 1)

    def of_codes(self, counts: FloatArray) -> FloatArray:
        """Rows that each code is worth in a class, ``(m + 2,)``: an unseen one the least α.

        Args:
            counts: by class and code, ``(k, m + 2)``.
        """
        values = self._of_values
        least = values.min() if len(values) else 0.0
        alpha = np.append(np.where(self.domain, self.alpha, least), [0.0, least])
        if self.shared is None:
            return alpha
        of_all = smoothed(
            counts.sum(axis=0) + alpha, counts.sum(axis=1).sum() + values.sum(), 0.0, 0.0
        )
        return self.shared * of_all


class Chain:
    """Counts of one column and the columns before it, and probabilities from them.

    Args:
        encoders: the column, then the ``d`` columns that it is given, nearest first.
        cells: cells of the rows of each depth, see `CellCounts.by_depth`.
        classes: number of classes of each group.
        priors: that of each group; the classes of a group follow those of the one before it. There
            is one group, unless each of several is left out of the counts.

    Attributes:
        counts: by class and code of the column, ``(k, m + 2)``.
        deeper: the cells of depths 1 … d.
    """

    def __init__(
        self, encoders: Sequence[Encoder], cells: Sequence[CellCounts], classes: int, *priors: Prior
    ) -> None:
        self.encoders, self.priors, self._classes = encoders, priors, classes
        first, own, every = cells[0], encoders[0], len(priors) * classes
        place = first.classes * own.size + first.codes[0]
        counts = np.bincount(place, first.counts, every * own.size).astype(np.float64)
        self.counts = counts.reshape(every, own.size)
        self._rows = self.counts.sum(axis=1)
        by_group = self.counts.reshape(len(priors), classes, own.size)
        alpha = [prior.of_codes(of_group) for prior, of_group in zip(priors, by_group, strict=True)]
        self._alpha = np.repeat(np.stack(alpha), classes, axis=0)
        self._mass = self._by_class(prior.mass for prior in priors)
        self._uniform = self._by_class(prior.uniform_share for prior in priors)
        self._first = self._log_of_class(
            self.counts, self._rows[:, None], *np.ogrid[:every, : own.size]
        )
        self._sizes = [encoder.size for encoder in encoders]
        self.deeper = cells[1:]
        self._steps = [
            _Step(deeper, self._sizes[: depth + 1], every)
            for depth, deeper in enumerate(cells[1:], 1)
        ]

    def _by_class(self, by_group: Iterable[float]) -> FloatArray:
        return np.repeat(np.array([*by_group]), self._classes)

    @cached_property
    def table(self) -> FloatArray | None:
        """Log probabilities of all combinations of codes, ``(k, cells)``; None if too many."""
        size = len(self.counts) * math.prod(self._sizes)
        if self._steps and size > _MAX_DENSE:
            return None
        return self._log_probability(self._all_codes())

    def log_probability(self, codes: Sequence[IntArray]) -> FloatArray:
        """log p(x | z, c), ``(k, n)``; 0 for a null that is not a value.

        Args:
            codes: those of the column and of each given one, ``(n,)``.
        """
        table, place = self._looked_up(codes)
        result: FloatArray = table.take(place, axis=1)
        return result

    def of_groups(self, codes: Sequence[IntArray], group: IntArray) -> FloatArray:
        """`log_probability` in the classes of the group of each row, ``(n, k)``.

        Args:
            codes: as for `log_probability`.
            group: number of the group of each row, ``(n,)``.
        """
        table, place = self._looked_up(codes)
        by_group = table.reshape(len(self.priors), self._classes, -1)
        result: FloatArray = by_group[group, :, place]
        return result

    def _looked_up(self, codes: Sequence[IntArray]) -> tuple[FloatArray, IntArray]:
        """Log probabilities of combinations of codes, ``(k, m)``, and the one of each row."""
        if self.table is not None:
            return self.table, self.cells(codes)
        stacked = np.stack(codes)
        cells = CellIndex(stacked, self._sizes)
        return self._log_probability(stacked[:, cells.first]), cells.group

    @property
    def name(self) -> str:
        return self.encoders[0].name

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

    def cells(self, codes: Sequence[IntArray]) -> IntArray:
        """Columns of the table of codes, ``(n,)``."""
        cell = codes[0]
        for encoder, code in zip(self.encoders[1:], codes[1:], strict=True):
            cell = cell * encoder.size
            cell += code
        return cell

    def of_class(
        self, codes: Sequence[IntArray], classes: IntArray, weights: FloatArray | float
    ) -> FloatArray:
        """log p(x | z, one class) of rows as if each had been left out, ``(n,)``.

        p(x), which a shared prior has as its mean, remains that of all rows.

        Args:
            codes: those of the column and of the first given ones.
            classes: position of a class, ``(n,)``.
            weights: weight of each row, 0 to leave none out.
        """
        counts = without_row(self.counts[classes, codes[0]], weights)
        rows = without_row(self._rows[classes], weights)
        logs = self._log_of_class(counts, rows, classes, codes[0])
        if len(codes) == 1:
            return logs
        places: Iterator[_Place]
        if len(codes) == len(self._sizes) and math.prod(self._sizes) <= len(classes):
            cells = self.cells(codes)  # fewer combinations than rows
            places = (
                (step, cell[cells], row[cells], known[cells])
                for step, cell, row, known in self._places(self._all_codes())
            )
        else:
            places = self._places(np.stack(codes))
        p = np.exp(logs)
        for depth, (step, cell, total, known) in enumerate(places):
            counts = without_row(step.counts.of_class(classes, cell), weights)
            rows = without_row(step.totals.of_class(classes, total), weights)
            p = np.where(known, self._smoothed(depth, counts, rows, classes, p), p)
        return _log(p)

    def best_strengths(self, depth: int) -> list[float]:
        """Strength of each group, under which its cells are most probable, one row left out each.

        The strengths of the depths before it are known.
        """
        cells = self.deeper[depth - 1]
        (*_, (step, cell, total, _)) = self._places(cells.codes)
        others, rest = (
            without_row(counts.of_class(cells.classes, place))
            for counts, place in ((step.counts, cell), (step.totals, total))
        )
        mean = self._uniform[cells.classes]
        if not self.priors[0].uniform:
            mean = np.exp(self.of_class(list(cells.codes[:-1]), cells.classes, 1.0))
        firsts = np.arange(len(self.priors) + 1) * self._classes
        return [
            best_strength(cells.counts[own], others[own], rest[own], mean[own])
            for own in starmap(slice, pairwise(np.searchsorted(cells.classes, firsts)))
        ]

    def _all_codes(self) -> IntArray:
        """All combinations of codes, ``(1 + d, cells)``."""
        return np.indices(self._sizes).reshape(len(self._sizes), -1)

    def _log_probability(self, codes: IntArray) -> FloatArray:
        logs: FloatArray = self._first.take(codes[0], axis=1)
        if not self._steps:
            return logs
        p, classes = np.exp(logs), np.arange(len(logs))[:, None]
        for depth, (step, cell, total, known) in enumerate(self._places(codes)):
            counts, rows = step.counts.of_all(cell), step.totals.of_all(total)
            p = np.where(known, self._smoothed(depth, counts, rows, classes, p), p)
        return _log(p)

    def _log_of_class(
        self, counts: FloatArray, rows: FloatArray, classes: IntArray, codes: IntArray
    ) -> FloatArray:
        """log p(x | class) from counts of x and of the class; 0 for a null that is not a value."""
        logs = log_share(counts, rows, self._alpha[classes, codes], self._mass[classes])
        if self.priors[0].zeros:
            logs = np.where(counts > 0.0, log_share(counts, rows, 0.0, 0.0), logs)
        return np.where(codes == self.encoders[0].null, 0.0, logs)

    def _places(self, codes: IntArray) -> Iterator[_Place]:
        """Each step with the positions of cells and totals, and which rows get that far."""
        known = codes[0] != self.encoders[0].null
        for depth, step in enumerate(self._steps[: len(codes) - 1], 1):
            known = known & (codes[depth] != self.encoders[depth].null)
            found = step.cells.find(codes[: depth + 1]), step.rows.find(codes[1 : depth + 1])
            yield step, *found, known

    def _smoothed(
        self, depth: int, n: FloatArray, total: FloatArray, classes: IntArray, before: FloatArray
    ) -> FloatArray:
        strength = self._by_class(prior.strengths[depth] for prior in self.priors)[classes]
        mean = self._uniform[classes] if self.priors[0].uniform else before
        return smoothed(n, total, strength * mean, strength)


class _Step:
    """Counts at one depth of a chain.

    Attributes:
        cells: the combinations of the column and the given ones that occur.
        rows: the combinations of the given columns that occur.
        counts: Σ w of each cell by class; that of the code `MISSING` is 0.
        totals: Σ w of each combination of given columns by class.
    """

    def __init__(self, cells: CellCounts, sizes: Sequence[int], classes: int) -> None:
        self.cells = CellIndex(cells.codes, sizes)
        self.rows = CellIndex(cells.codes[1:], sizes[1:])
        self.counts, self.totals = (
            _Sums(cells.classes, index.group, cells.counts, (classes, len(index.first) + 1))
            for index in (self.cells, self.rows)
        )


class _Sums:
    """Sums by class and cell; sparse if most classes lack most of many cells.

    Args:
        classes: class of each count, ``(n,)``.
        cells: cell of each count, ``(n,)``.
        counts: ``(n,)``; those of one class and cell are added up.
        shape: number of classes, and of cells with an empty one at the end for `MISSING`.
    """

    def __init__(
        self, classes: IntArray, cells: IntArray, counts: FloatArray, shape: tuple[int, int]
    ) -> None:
        self._dense: FloatArray | None = None
        if math.prod(shape) <= _MAX_COUNTS:
            place = classes * shape[1] + cells
            sums = np.bincount(place, counts, math.prod(shape)).astype(np.float64)
            self._dense = sums.reshape(shape)
        else:
            from scipy.sparse import csc_matrix

            self._sparse = csc_matrix((counts, (classes, cells)), shape)

    def of_all(self, cells: IntArray) -> FloatArray:
        """The counts of cells in every class, ``(k, n)``."""
        if self._dense is not None:
            return self._dense[:, cells]
        counts: FloatArray = self._sparse[:, cells].toarray()
        return counts

    def of_class(self, classes: IntArray, cells: IntArray) -> FloatArray:
        """The counts of cells in one class each, ``(n,)``."""
        if self._dense is not None:
            return self._dense[classes, cells]
        return np.asarray(self._sparse[classes, cells], dtype=np.float64).ravel()


_Place: TypeAlias = tuple[_Step, IntArray, IntArray, BoolArray]
"""A step, positions of cells and of rows in it, and which rows get that far."""


def _log(p: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore"):
        logs: FloatArray = np.log(p)
    return logs
