"""Back-off from counts: p(x | z₁ … z_d, class) from that given one column fewer.

    p(x | class)           = (n(x) + α) / (N + α m),  or that of a prior that all classes share
    p(x | z₁ … z_d, class) = (n(x, z₁ … z_d) + s_d p(x | z₁ … z_{d−1}, class)) / (N(z₁ … z_d) + s_d)

n counts rows of the class, N is the sum of n over x, m the number of values of x, α a pseudo-count
and s_d the strength of a prior: a Dirichlet distribution whose mean is the estimate given one
column fewer (as in Petitjean, Buntine, Webb and Zaidi, "Accurate parameter estimation for Bayesian
network classifiers using hierarchical Dirichlet processes", 2018, who sample the strengths). A
value of z that the class never showed has n = N = 0 and leaves the estimate before it.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from probclass_core.arrow.arrays import (
    MISSING,
    BoolArray,
    FloatArray,
    IntArray,
    label_codes,
)
from probclass_core.arrow.shared_conversions import converted
from probclass_core.errors import DataError
from probclass_core.estimation.families.categorical.cells import CellIndex
from probclass_core.estimation.families.categorical.domains import domain_codes
from probclass_core.estimation.families.discretized.cuts import bin_codes
from probclass_core.estimation.families.left_out import without_row
from probclass_core.estimation.families.strength import shared_mean, smoothed
from probclass_core.estimation.formulas import Bins, Categories, Code, Lookup

_MAX_DENSE = 2**18
"""Numbers in a table of all combinations of values; with more, they are computed for each row."""

_MAX_COUNTS = 2**22
"""Numbers in a dense table of counts by class and cell; larger ones are sparse."""


@dataclass(frozen=True)
class Levels:
    """The values that a column can take: categories, or bins of numbers.

    Codes are positions among the values; then follow that of an unseen value and that of a null
    which is no value.

    Attributes:
        name: the column.
        values: ``m`` categories, or names of bins; last None for null, if it is a value.
        cuts: cuts between the bins, ascending; None for categories.
        models_nulls: whether null is a value, even if training saw none.
    """

    name: str
    values: Sequence[str | None]
    cuts: FloatArray | None
    models_nulls: bool

    @property
    def unseen(self) -> int:
        """Code of an unseen value."""
        return len(self.values)

    @property
    def null(self) -> int:
        """Code of a null that is not a value."""
        return len(self.values) + 1

    @property
    def size(self) -> int:
        """Number of codes."""
        return len(self.values) + 2

    def of_labels(self, labels: pa.ChunkedArray) -> IntArray:
        """Codes of values as tables name them, ``(n,)``."""
        codes = label_codes(labels, pa.array(self.values, pa.string()))
        return np.where(codes == MISSING, self.null, codes)

    def of_batch(self, batch: pa.RecordBatch, unseen: str) -> IntArray:
        """Codes of the column of a batch, ``(n,)``.

        Args:
            batch: ``n`` rows.
            unseen: ``"ignore"`` treats unseen values as null, ``"error"`` refuses them.

        Raises:
            DataError: if there are unseen values and ``unseen`` is ``"error"``.
        """
        column = batch.column(self.name)
        return converted(column, (self._key, unseen), lambda: self._of_batch(batch, unseen))

    @cached_property
    def _key(self) -> Hashable:
        cuts = None if self.cuts is None else self.cuts.tobytes()
        return tuple(self.values), cuts, self.models_nulls

    @cached_property
    def _known(self) -> pa.Array:
        return pa.array([value for value in self.values if value is not None], pa.string())

    def code(self) -> Code:
        """What gives the position of a value in a formula; see `codes_of`."""
        if self.cuts is not None:
            return Bins(self.name, self.cuts.tolist())
        return Categories(self.name, self._known.to_pylist())

    def codes_of(self, unseen: str) -> IntArray:
        """The code of each position that `code` gives; ``unseen`` as in `of_batch`."""
        code_of_unseen = self.null if unseen == "ignore" else self.unseen
        null = self.null
        if self.models_nulls:
            null = self.values.index(None) if None in self.values else code_of_unseen
        if self.cuts is not None:
            return np.array([*range(len(self.cuts) + 1), null])
        known = [at for at, value in enumerate(self.values) if value is not None]
        return np.array([*known, code_of_unseen, null])

    def _of_batch(self, batch: pa.RecordBatch, unseen: str) -> IntArray:
        code_of_unseen = self.null if unseen == "ignore" else self.unseen
        if self.cuts is None:
            policy = "error" if unseen == "error" else "pseudo_count"
            codes = domain_codes(batch.column(self.name), self.name, self._known, policy)
            missing = codes == MISSING
            codes = np.where(codes == len(self._known), code_of_unseen, codes)
        else:
            codes = bin_codes(batch, self.name, self.cuts)
            missing = codes > len(self.cuts)
        null = self.null
        if self.models_nulls:
            null = self.values.index(None) if None in self.values else code_of_unseen
            if unseen == "error" and null == self.unseen and missing.any():
                raise DataError(
                    f"column {self.name!r}: {int(missing.sum())} rows are null, which training "
                    "never saw. Set unseen to 'pseudo_count' or 'ignore' to score them."
                )
        return np.where(missing, null, codes)


class Chain:
    """Counts of one column and the columns before it, and probabilities from them.

    Args:
        levels: the column, then the ``d`` columns that it is given, nearest first.
        codes: cells of the rows of each depth 0 … d, ``(1 + depth, g)``: codes of the column and of
            the given ones.
        classes: class of each cell, ``(g,)``, by depth.
        counts: Σ w of each cell in its class, ``(g,)``, by depth.
        k_classes: number of classes.
        strengths: s of depths 1 … d, after that of depth 0 if the classes share a prior.
        alpha: α.
        shared: whether depth 0 backs off to p(x), that of all classes together.
        uniform: whether every depth backs off to 1 / m.

    Attributes:
        table: log probabilities of all combinations of codes, ``(k, cells)``; None if they are too
            many.
    """

    def __init__(
        self,
        levels: Sequence[Levels],
        codes: Sequence[IntArray],
        classes: Sequence[IntArray],
        counts: Sequence[FloatArray],
        k_classes: int,
        strengths: Sequence[float],
        alpha: float,
        *,
        shared: bool,
        uniform: bool,
    ) -> None:
        self.levels = levels
        self.strengths: Sequence[float | None] = strengths if shared else [None, *strengths]
        self.alpha = alpha
        self.uniform = uniform
        of_value = np.zeros(levels[0].size)
        np.add.at(of_value, codes[0][0], counts[0])
        of_value = of_value[: len(levels[0].values)]
        # An unseen value has the pseudo-count alone; a null that is not a value has no probability.
        mean = shared_mean(of_value, alpha)
        unseen = smoothed(np.zeros(1), of_value.sum(), alpha, alpha * len(of_value))
        self._mean = np.concatenate([mean, unseen, np.ones(1)])
        self._steps = []
        for code, label, count in zip(codes, classes, counts, strict=True):
            sizes = [level.size for level in levels[: len(code)]]
            self._steps.append(_Step(code, sizes, label, count, k_classes))
        self.table: FloatArray | None = None
        self._sizes = [level.size for level in levels]
        if k_classes * math.prod(self._sizes) <= _MAX_DENSE:
            self.table = self._log_probability(self._all_codes())

    def log_probability(self, codes: Sequence[IntArray]) -> FloatArray:
        """log p(x | z, c), ``(k, n)``; 0 for a null that is not a value.

        Args:
            codes: those of the column and of each given one, ``(n,)``.
        """
        if self.table is not None:
            result: FloatArray = self.table.take(self.cells(codes), axis=1)
            return result
        stacked = np.stack(codes)
        cells = CellIndex(stacked, self._sizes)
        return self._log_probability(stacked[:, cells.first]).take(cells.group, axis=1)

    def lookup(self, unseen: str) -> Lookup | None:
        """`log_probability` as a table for formulas; None if it is too large.

        Args:
            unseen: what to do about unseen values of the column, as `Levels.of_batch`.
        """
        if self.table is None:
            return None
        table = self.table.reshape(-1, *self._sizes)
        for axis, level in enumerate(self.levels):
            table = table.take(level.codes_of("pseudo_count" if axis else unseen), axis=axis + 1)
        return Lookup([level.code() for level in self.levels], table)

    def cells(self, codes: Sequence[IntArray]) -> IntArray:
        """Columns of the table of codes, ``(n,)``."""
        cell = codes[0]
        for level, code in zip(self.levels[1:], codes[1:], strict=True):
            cell = cell * level.size
            cell += code
        return cell

    def left_out(
        self, codes: Sequence[IntArray], truth: IntArray, weights: FloatArray | None
    ) -> FloatArray:
        """log p(x | z, own class) of rows as if each had been left out, ``(n,)``."""
        places: Iterator[_Place]
        if math.prod(self._sizes) <= len(truth):  # fewer combinations than rows
            cells = self.cells(codes)
            places = (
                (step, cell[cells], row[cells], known[cells])
                for step, cell, row, known in self._places(self._all_codes())
            )
        else:
            places = self._places(np.stack(codes))
        p = self._mean[codes[0]]
        for depth, (step, cell, total, known) in enumerate(places):
            count = without_row(step.counts.of_class(truth, cell), weights)
            rows = without_row(step.totals.of_class(truth, total), weights)
            p = np.where(known, self._probability(depth, count, rows, p), p)
        return self._log(p, codes)

    def _all_codes(self) -> IntArray:
        """All combinations of codes, ``(1 + d, cells)``."""
        return np.indices(self._sizes).reshape(len(self._sizes), -1)

    def _log_probability(self, codes: IntArray) -> FloatArray:
        p = self._mean[codes[0]][None]
        for depth, (step, cell, total, known) in enumerate(self._places(codes)):
            counts, rows = step.counts.of_all(cell), step.totals.of_all(total)
            p = np.where(known, self._probability(depth, counts, rows, p), p)
        return self._log(p, codes)

    def _log(self, p: FloatArray, codes: Sequence[IntArray] | IntArray) -> FloatArray:
        if not self.levels[0].values:  # training saw no value, so the column says nothing
            return np.zeros_like(p)
        with np.errstate(divide="ignore"):
            logs: FloatArray = np.where(codes[0] == self.levels[0].null, 0.0, np.log(p))
        return logs

    def _places(self, codes: IntArray) -> Iterator[_Place]:
        """Each step with the positions of cells and totals, and which rows get that far."""
        known = np.ones(codes.shape[1], dtype=bool)
        for depth, step in enumerate(self._steps):
            if depth:
                known &= codes[depth] != self.levels[depth].null
            yield (
                step,
                step.cells.find(codes[: depth + 1]),
                step.rows.find(codes[1 : depth + 1]),
                known,
            )

    def _probability(
        self, depth: int, counts: FloatArray, totals: FloatArray, before: FloatArray
    ) -> FloatArray:
        values = max(len(self.levels[0].values), 1)
        strength = self.strengths[depth]
        if strength is None:
            return smoothed(counts, totals, self.alpha, self.alpha * values)
        mean = 1.0 / values if self.uniform and depth else before
        return smoothed(counts, totals, strength * mean, strength)


class _Step:
    """Counts at one depth of a chain.

    Attributes:
        cells: the combinations of the column and the given ones that occur.
        rows: the combinations of the given columns that occur.
        counts: Σ w of each cell by class; that of the code `MISSING` is 0.
        totals: Σ w of each combination of given columns by class.
    """

    def __init__(
        self,
        codes: IntArray,
        sizes: Sequence[int],
        classes: IntArray,
        counts: FloatArray,
        k_classes: int,
    ) -> None:
        self.cells = CellIndex(codes, sizes)
        self.rows = CellIndex(codes[1:], sizes[1:])
        self.counts = _Counts(classes, self.cells.group, counts, k_classes, len(self.cells.first))
        self.totals = _Counts(classes, self.rows.group, counts, k_classes, len(self.rows.first))


class _Counts:
    """Sums by class and cell; sparse if most classes lack most of many cells.

    Args:
        classes: class of each count, ``(n,)``.
        cells: cell of each count, ``(n,)``, below ``size``.
        counts: ``(n,)``; those of one class and cell are added up.
        k_classes: number of classes.
        size: number of cells.
    """

    def __init__(
        self, classes: IntArray, cells: IntArray, counts: FloatArray, k_classes: int, size: int
    ) -> None:
        self._dense: FloatArray | None = None
        shape = k_classes, size + 1  # the last cell, `MISSING`, is empty
        if math.prod(shape) <= _MAX_COUNTS:
            self._dense = np.zeros(shape)
            np.add.at(self._dense, (classes, cells), counts)
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


_Place = tuple[_Step, IntArray, IntArray, BoolArray]
"""A step, positions of cells and of rows in it, and which rows get that far."""
