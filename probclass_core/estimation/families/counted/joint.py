"""The joint distribution of a block of categories, with pseudo-counts.

Zaki and Meira, *Data Mining and Machine Learning*, ch. 18.1.2, eq. 18.5 and 18.6: f(v | c) =
(n_c(v) + α) / (n_c + α M), where v is a cell, one value of every column, and M = ∏ m_j the number
of cells. M may be astronomically large, so only the cells that training saw are stored; the mass of
all others is known without them, in logs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from probclass_core.arrow.arrays import (
    MISSING,
    FloatArray,
    IntArray,
    category_codes,
    label_codes,
    missing_patterns,
    sorted_classes,
)
from probclass_core.errors import DataError, NotSupportedError, SpecError, StoreError, one_of
from probclass_core.estimation.aggregates import DistinctRows
from probclass_core.estimation.contract import Estimator
from probclass_core.estimation.families.counted.encoder import Encoder
from probclass_core.estimation.families.counted.options import CategoricalOptions
from probclass_core.estimation.families.scarce import (
    OF_ALL,
    OF_PRIOR,
    NoLikelihood,
    require_values,
    without_values,
)
from probclass_core.estimation.formulas import MOST_LOOKUPS, Formula, Lookup
from probclass_core.estimation.kinds.cells import CellIndex, count_cells
from probclass_core.estimation.marginals import Levels
from probclass_core.estimation.options import CATEGORIES
from probclass_core.estimation.parameters import (
    COUNT,
    LOG_PROBABILITY,
    check_notes,
    check_parameters,
    check_row_counts,
    label_rows,
)
from probclass_core.estimation.tidy import notes_of, sum_counts, tidy_table

_OWN_COLUMNS = ("class", "count", "log_probability")

_CACHED_PATTERNS = 64
"""Patterns of missing columns whose marginal counts are cached; each is as long as the cells."""


class CategoricalJoint(Estimator):
    """The joint distribution of categorical features given the class.

    A row that lacks a feature is in no cell: training uses it only for the domains of its other
    features. In scoring, nulls are summed out exactly, over seen and unseen cells; with
    ``smooth="zeros"`` the rule applies to the marginal cell.

    Statistics: class, one column per feature (text, null if missing), count (Σ w).
    Parameters: class, one column per feature, count, log_probability; for every class each cell
    that any class showed. The probability of a cell that no class showed is in the notes.

    Raises:
        SpecError: if a column is not categorical or has the name of a column of the parameters, or
            an option is unknown or out of bounds.
    """

    name: ClassVar[str] = "categorical_joint"
    models = CATEGORIES
    Options = CategoricalOptions
    options: CategoricalOptions

    def __init__(self, features: pa.Schema, options: Mapping[str, Any]) -> None:
        super().__init__(features, options)
        for column in features.names:
            if column in _OWN_COLUMNS:
                raise SpecError(
                    f"{self.name}: column {column!r} has the name of a column of the parameters "
                    f"table; rename it, to {column + '_'!r} for example."
                )
        pseudo_count = self.options.plain()["pseudo_count"]
        by_column = isinstance(pseudo_count, Mapping)
        self.cell_pseudo_count = None if by_column else float(pseudo_count)

    def summarize(
        self, batch: pa.RecordBatch, classes: pa.DictionaryArray, weights: FloatArray | None
    ) -> pa.Table:
        encoded = [category_codes(batch.column(name), name) for name in self.features.names]
        codes = np.stack([column for column, _ in encoded])
        rows = np.flatnonzero((codes != MISSING).any(axis=0))
        label = classes.indices.to_numpy(zero_copy_only=False).astype(np.intp)
        codes = np.concatenate([label[None], codes - MISSING])[:, rows]  # 0 for null
        texts = (pa.array([None, *distinct], pa.string()) for _, distinct in encoded)
        values = [classes.dictionary, *texts]
        weight = None if weights is None else weights[rows]
        cells, counts = count_cells(codes, [len(distinct) for distinct in values], weight)
        columns = {
            name: distinct.take(pa.array(code))
            for name, distinct, code in zip(
                ["class", *self.features.names], values, cells, strict=True
            )
        }
        return self.merge([pa.table({**columns, "count": counts})])

    def aggregates(self) -> DistinctRows:
        return DistinctRows([self.features.names])

    def merge(self, tables: Sequence[pa.Table]) -> pa.Table:
        return sum_counts(tables, ["class", *self.features.names], ["count"])

    def finalize(self, statistics: pa.Table, classes: pa.Array) -> pa.Table:
        cells = self._cells(statistics, classes)
        without_prior = bool(np.isneginf(cells.prior.log_total))
        notes = self._notes(cells, classes, without_prior)
        if not cells.domain or (without_prior and not cells.counts.any()):
            return self.annotate(pa.table({"class": classes}), scarce=notes)
        if without_prior:
            none = ~cells.counts.any(axis=1, keepdims=True)
            cells = replace(cells, counts=np.where(none, cells.counts.sum(axis=0), cells.counts))
        rows = cells.counts.sum(axis=1)
        rule = _Rule(rows, cells.prior.log_total, self.options.smooth)
        log_alpha = cells.prior.log_alpha(cells.codes)
        log_probability = rule.log_probability(_log(cells.counts), log_alpha)
        values = {
            name: pa.array(domain, pa.string()).take(pa.array(code))
            for (name, domain), code in zip(cells.domain.items(), cells.codes, strict=True)
        }
        fields = {"count": cells.counts, "log_probability": log_probability}
        unseen = rule.log_probability(
            np.full((len(classes), 1), -np.inf), np.array([cells.prior.log_least])
        )
        return self.annotate(
            tidy_table(classes, values, fields),
            scarce=notes,
            domain=cells.domain,
            pseudo_count=[alpha.tolist() for alpha in cells.prior.alpha],
            cell_pseudo_count=cells.prior.scale,
            unseen_log_probability=[None if np.isneginf(p) else p for p in unseen[:, 0].tolist()],
        )

    def _notes(self, cells: _Cells, classes: pa.Array, without_prior: bool) -> list[str]:
        """Sentences about columns without values, and classes without complete rows.

        Raises:
            DataError: instead, if ``on_scarce`` is ``"error"``. A class without complete rows is an
                error only if its pseudo-counts are 0.
        """
        names, modeled = self.features.names, list(cells.domain)
        rows = cells.counts.sum(axis=1)
        if self.on_scarce == "error":
            require_values(
                names, [name in modeled for name in names], hint=", or declare its domain"
            )
            if not rows.any():
                raise DataError(
                    f"no training row has all of {', '.join(names)}; leave out the columns that "
                    "are often null."
                )
            if without_prior and not rows.all():
                label = classes[int(np.argmin(rows))].as_py()
                raise DataError(
                    f"class {label!r} has no row with all of {', '.join(names)} and its "
                    "pseudo-counts are 0; give it a pseudo_count, or leave columns out."
                )
        notes = without_values(names, [name in modeled for name in names])
        listed = ", ".join(modeled)
        if modeled and not rows.any():
            instead = "the block says nothing" if without_prior else OF_PRIOR
            notes.append(f"no training row has all of {listed}: {instead}.")
        elif modeled and not rows.all():
            labels = classes.filter(pa.array(rows == 0.0))
            who = f"class {labels[0].as_py()!r} has"
            if len(labels) > 1:
                who = f"{len(labels):,} classes, such as {labels[0].as_py()!r}, have"
            instead = OF_ALL if without_prior else OF_PRIOR
            notes.append(f"{who} no row with all of {listed}: {instead}.")
        return notes

    def check_statistics(self, statistics: pa.Table, classes: pa.Table) -> None:
        super().check_statistics(statistics, classes)
        check_row_counts(statistics, classes)

    def check_parameters(self, parameters: pa.Table, classes: pa.Array) -> None:
        notes = notes_of(parameters)
        if "domain" not in notes:  # the block says nothing
            label_rows(parameters, classes)
            return
        domain, alpha = notes["domain"], notes["pseudo_count"]
        sizes = [len(values) for values in domain.values()]
        if [len(values) for values in alpha] != sizes or len(classes) != len(
            notes["unseen_log_probability"]
        ):
            raise StoreError("the pseudo-counts in its notes are not those of its values.")
        check_notes([alpha, notes["cell_pseudo_count"]], "pseudo_count", COUNT)
        check_notes(notes["unseen_log_probability"], "unseen_log_probability", LOG_PROBABILITY)
        check_parameters(
            parameters,
            classes,
            dict.fromkeys(domain, pa.string()),
            {"count": COUNT, "log_probability": LOG_PROBABILITY},
        )

    def likelihood(
        self, parameters: pa.Table, classes: pa.Array
    ) -> CategoricalJointLikelihood | NoLikelihood:
        if "domain" not in notes_of(parameters):
            return NoLikelihood(len(classes))
        return CategoricalJointLikelihood(
            parameters, classes, self.options.unseen, self.options.smooth
        )

    def log_evidence(self, statistics: pa.Table) -> float:
        """Dirichlet–categorical over the cells: the pseudo-counts are the prior.

        The domain is that of `finalize`. Declare it to compare evidences of different rows, which
        may contain different values.

        Raises:
            NotSupportedError: if a pseudo-count is 0, or not every cell gets it.
            DataError: if rows lack some of the features and not all.
        """
        self.options.check_prior()
        cells = self._cells(statistics, sorted_classes(statistics["class"]))
        if cells.partial:
            raise DataError(
                f"{cells.partial:g} rows have some of {', '.join(self.features.names)} and not "
                f"all, so that the evidence of {self.name} has no closed form; drop those rows, or "
                "give columns with nulls a block of their own."
            )
        log_alpha = np.broadcast_to(cells.prior.log_alpha(cells.codes), cells.counts.shape)
        rows = cells.counts.sum(axis=1)
        log_total = np.full(len(rows), cells.prior.log_total)
        return float(
            _log_rising(log_alpha, cells.counts).sum() - _log_rising(log_total, rows).sum()
        )

    def _cells(self, statistics: pa.Table, classes: pa.Array) -> _Cells:
        counts = statistics["count"].to_numpy()
        domain, parts = {}, []
        for name in self.features.names:
            own, values = category_codes(statistics[name])
            seen = np.bincount(own - MISSING, counts, minlength=len(values) + 1)[1:].tolist()
            found = self.options.domain_of(name, dict(zip(values, seen, strict=True)))
            if not found:
                continue  # training saw no value
            domain[name] = found
            known = label_codes(pa.array(values, pa.string()), pa.array(domain[name], pa.string()))
            parts.append(np.append(known, MISSING)[own])
        codes = np.array(parts, dtype=np.intp).reshape(len(parts), len(counts))
        complete = (codes != MISSING).all(axis=0)
        cells = CellIndex(codes[:, complete], [len(values) for values in domain.values()])
        table = np.zeros((len(classes), len(cells.first)))
        table[label_codes(statistics["class"], classes)[complete], cells.group] = counts[complete]
        if self.cell_pseudo_count is None:
            alpha = [self.options.alpha_of(name, values) for name, values in domain.items()]
            prior = _Prior(1.0, alpha)
        else:
            ones = [np.ones(len(values)) for values in domain.values()]
            prior = _Prior(self.cell_pseudo_count, ones)
        partial = float(counts[(codes != MISSING).any(axis=0) & ~complete].sum())
        return _Cells(domain, codes[:, complete][:, cells.first], table, prior, partial)


class _Prior:
    """Pseudo-counts of all cells, in logs: for a cell, a scale times a product over its values.

    Args:
        scale: factor common to all cells.
        alpha: for each column the factors of its values, ``(m,)``.
    """

    def __init__(self, scale: float, alpha: Sequence[FloatArray]) -> None:
        self.scale = scale
        self.alpha = alpha
        self.log_scale = _log(scale)
        # After the values of a column: the sum of its pseudo-counts, which sums a null out; then
        # the least of them, for an unseen value.
        self.columns = [_log(np.append(factor, [factor.sum(), factor.min()])) for factor in alpha]
        self.log_total = float(self.log_scale + sum(column[-2] for column in self.columns))
        self.log_least = float(self.log_scale + sum(column[-1] for column in self.columns))

    def log_alpha(self, codes: IntArray) -> FloatArray:
        """Log pseudo-counts ``(n,)`` of cells ``(d, n)``; a null sums over a column's values."""
        result = np.full(codes.shape[1], self.log_scale)
        for column, code in zip(self.columns, codes, strict=True):
            result += column[code]
        return result


@dataclass(frozen=True)
class _Cells:
    """The cells that training saw.

    Attributes:
        domain: values by column.
        codes: cells of any class, ``(d, g)``.
        counts: Σ w, ``(k, g)``.
        prior: the pseudo-counts.
        partial: Σ w of the rows that have some of the features, but not all.
    """

    domain: Mapping[str, list[str]]
    codes: IntArray
    counts: FloatArray
    prior: _Prior
    partial: float


class _Rule:
    """From counts to probabilities: log (n_c(v) + α(v)) / (n_c + Σα), or the textbook's zeros.

    Args:
        rows: ``(k,)`` rows of each class.
        log_total: log Σα over all cells.
        smooth: ``"all"`` or ``"zeros"``.
    """

    def __init__(self, rows: FloatArray, log_total: float, smooth: str) -> None:
        self.log_rows = _log(rows)[:, None]
        self.log_divisor = np.logaddexp(self.log_rows, log_total)
        self.smooth = smooth

    def log_probability(self, log_count: FloatArray, log_alpha: FloatArray) -> FloatArray:
        """From ``(k, n)`` and ``(n,)`` to ``(k, n)``; −inf if both are."""
        smoothed: FloatArray = np.logaddexp(log_count, log_alpha) - self.log_divisor
        if self.smooth == "zeros":
            with np.errstate(invalid="ignore"):  # a class without rows
                shares = log_count - self.log_rows
            smoothed = np.where(np.isneginf(log_count), smoothed, shares)
        return smoothed


class CategoricalJointLikelihood:
    """log p(x | c) of the observed features, with null features summed out.

    Args:
        parameters: of `CategoricalJoint`.
        classes: ``k`` labels.
        unseen: policy for values outside the domain.
        smooth: which cells got the pseudo-count.
    """

    normalized = True

    def __init__(self, parameters: pa.Table, classes: pa.Array, unseen: str, smooth: str) -> None:
        notes = notes_of(parameters)
        self.unseen = unseen
        self.encoders = [
            Encoder(name, notes["domain"][name], None, models_nulls=False)
            for name in notes["features"]
            if name in notes["domain"]
        ]
        self.prior = _Prior(
            notes["cell_pseudo_count"], [np.array(alpha) for alpha in notes["pseudo_count"]]
        )
        self.sizes = [encoder.size for encoder in self.encoders]
        codes = np.stack([encoder.of_labels(parameters[encoder.name]) for encoder in self.encoders])
        cells = CellIndex(codes, self.sizes)
        self.codes = codes[:, cells.first]
        self.counts = np.zeros((len(classes), len(cells.first)))
        place = label_codes(parameters["class"], classes), cells.group
        self.counts[place] = parameters["count"].to_numpy()
        self.rule = _Rule(self.counts.sum(axis=1), self.prior.log_total, smooth)
        self._marginals: dict[bytes, tuple[CellIndex, FloatArray]] = {}

    def log_likelihood(self, batch: pa.RecordBatch) -> FloatArray:
        codes = [encoder.of_batch(batch, self.unseen) for encoder in self.encoders]
        return self._of_codes(np.stack(codes)).T

    def marginal(self, column: str) -> Levels | None:
        for place, encoder in enumerate(self.encoders):
            if encoder.name == column:
                codes = np.repeat(
                    [[other.null] for other in self.encoders], len(encoder.values), axis=1
                )
                codes[place] = np.arange(len(encoder.values))
                return Levels(encoder.values, np.exp(self._of_codes(codes)).T)
        return None

    def formula(self, missing: Sequence[str] = ()) -> Formula:
        """See `FormulaLikelihood`.

        Args:
            missing: columns that are null in every row: those that a conditional sums out.
        """
        shape = [encoder.size for encoder in self.encoders]
        if math.prod(shape) * len(self.counts) > MOST_LOOKUPS:
            raise NotSupportedError(
                f"columns {one_of([encoder.name for encoder in self.encoders])} have "
                f"{math.prod(shape):,} combinations of values, too many for a table to look up; "
                "put them in separate blocks."
            )
        codes = np.indices(shape).reshape(len(shape), -1)
        for code, encoder in zip(codes, self.encoders, strict=True):
            code[:] = encoder.codes_of(self.unseen)[code]
            if encoder.name in missing:
                code[:] = encoder.null
        table = self._of_codes(codes).reshape(-1, *shape)
        refused = [each for encoder in self.encoders for each in encoder.refused(self.unseen)]
        return Formula([Lookup([encoder.code() for encoder in self.encoders], table)], refused)

    def _of_codes(self, codes: IntArray) -> FloatArray:
        """log p of codes ``(d, n)``: ``(k, n)``."""
        log_alpha = self.prior.log_alpha(codes)
        result = np.zeros((len(self.counts), codes.shape[1]))
        is_null = codes == np.array([[encoder.null] for encoder in self.encoders])
        for observed, rows in missing_patterns(np.where(is_null, np.nan, codes)):
            if observed.any():
                columns = np.flatnonzero(observed)
                index, log_count = self._marginal(columns)
                cell = index.find(codes[columns][:, rows])
                result[:, rows] = self.rule.log_probability(log_count[:, cell], log_alpha[rows])
        return result

    def _marginal(self, columns: IntArray) -> tuple[CellIndex, FloatArray]:
        """The seen cells of some columns, and their log counts ``(k, g + 1)``, the last −inf."""
        key = columns.tobytes()
        marginal = self._marginals.get(key)
        if marginal is None:
            index = CellIndex(self.codes[columns], [self.sizes[column] for column in columns])
            size = len(index.first) + 1
            counts = [np.bincount(index.group, row, minlength=size) for row in self.counts]
            marginal = index, _log(np.stack(counts))
            if len(self._marginals) >= _CACHED_PATTERNS:
                self._marginals.clear()
            self._marginals[key] = marginal
        return marginal


def _log(values: FloatArray | float) -> Any:
    with np.errstate(divide="ignore"):
        return np.log(values)


def _log_rising(log_start: FloatArray, by: FloatArray) -> FloatArray:
    """log Γ(s + by) / Γ(s), elementwise, for any s > 0, even too small or large for float64."""
    from scipy.special import gammaln

    # For a small s, Γ(s) is 1/s; for a large one, s(s + 1)(s + 2)… is s^by (1 + by (by − 1) / 2s).
    small, large = log_start < -40.0, log_start > np.log(1e8) + np.log1p(by)
    start = np.exp(np.clip(log_start, -40.0, np.log(1e8) + np.log1p(by)))
    plain = gammaln(start + by) - gammaln(start)
    at_zero = np.where(by > 0.0, log_start + gammaln(np.where(by > 0.0, by, 1.0)), 0.0)
    far = by * log_start + 0.5 * by * (by - 1.0) * np.exp(-np.maximum(log_start, 0.0))
    rising: FloatArray = np.where(small, at_zero, np.where(large, far, plain))
    return rising
