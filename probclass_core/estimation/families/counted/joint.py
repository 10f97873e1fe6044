"""The joint distribution of a block of categories, with pseudo-counts.

Zaki and Meira, *Data Mining and Machine Learning*, ch. 18.1.2, eq. 18.5 and 18.6: f(v | c) =
(n_c(v) + α) / (n_c + α M), where v is a cell, one value of every column, and M = ∏ m_j the number
of cells. M may be astronomically large, so only the cells that training saw are stored; the mass of
all others is known without them, in logs.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from probclass_core.arrow import arrays
from probclass_core.arrow.arrays import FloatArray, IntArray
from probclass_core.arrow.rows import Rows
from probclass_core.errors import DataError, NotSupportedError, SpecError, StoreError, one_of
from probclass_core.estimation import tidy
from probclass_core.estimation.contract import Estimator
from probclass_core.estimation.evidence import log_rising
from probclass_core.estimation.families import scarce
from probclass_core.estimation.families.counted.chain import smoothed
from probclass_core.estimation.families.counted.encoder import Encoder, LabeledCells
from probclass_core.estimation.families.counted.options import JointOptions
from probclass_core.estimation.formulas import MOST_LOOKUPS, Formula, Lookup
from probclass_core.estimation.kinds.cells import CellIndex, Cells
from probclass_core.estimation.marginals import Levels
from probclass_core.estimation.options import CATEGORIES

_OWN_COLUMNS = ("class", "count", "log_probability")

_CACHED_PATTERNS = 64
"""Patterns of missing columns whose marginal counts are cached; each is as long as the cells."""


class CategoricalJoint(Estimator):
    """The joint distribution of categorical features given the class.

    A row that lacks a feature is in no cell: training uses it only for the domains of its other
    features. In scoring, nulls are summed out exactly, over seen and unseen cells; with
    ``smooth="zeros"`` the rule applies to the marginal cell.

    Statistics: class, feature (the first column), value (text, null if missing), "given …" (the
    same of the other columns), count (Σ w).
    Parameters: class, one column per feature, count, log_probability; for every class each cell
    that any class showed. The values of each column are in the notes.

    Raises:
        SpecError: if a column is not categorical or has the name of a column of the parameters, or
            an option is unknown or out of bounds.
    """

    name: ClassVar[str] = "categorical_joint"
    models = CATEGORIES
    statistics_version = 2
    Options = JointOptions
    options: JointOptions

    def __init__(self, features: pa.Schema, options: Mapping[str, Any]) -> None:
        super().__init__(features, options)
        for column in features.names:
            if column in _OWN_COLUMNS:
                raise SpecError(
                    f"{self.name}: column {column!r} has the name of a column of the parameters "
                    f"table; rename it, to {column + '_'!r} for example."
                )

    @property
    def kind(self) -> Cells:
        first, *others = self.features.names
        return Cells([first], others, counts_nulls=True)

    def finalize(self, statistics: pa.Table, classes: pa.Array) -> pa.Table:
        joint, _ = self._joint(statistics, classes)
        without_prior = joint.prior.total == 0.0
        notes = self._notes(joint, classes, without_prior)
        if not joint.encoders or (without_prior and not joint.counts.any()):
            return self.annotate(pa.table({"class": classes}), scarce=notes, values={})
        if without_prior:
            none = ~joint.counts.any(axis=1, keepdims=True)
            counts = np.where(none, joint.counts.sum(axis=0), joint.counts)
            joint = CategoricalJointLikelihood(joint.encoders, joint.codes, counts, self.options)
        cells = {
            encoder.name: pa.array(encoder.values, pa.string()).take(pa.array(code))
            for encoder, code in zip(joint.encoders, joint.codes, strict=True)
        }
        fields = {"count": joint.counts, "log_probability": joint.of_codes(joint.codes)}
        return self.annotate(
            tidy.tidy_table(classes, cells, fields),
            scarce=notes,
            values={encoder.name: list(encoder.values) for encoder in joint.encoders},
        )

    def _notes(
        self, joint: CategoricalJointLikelihood, classes: pa.Array, without_prior: bool
    ) -> list[str]:
        """Sentences about columns without values, and classes without complete rows."""
        names, modeled = self.features.names, [encoder.name for encoder in joint.encoders]
        notes = scarce.without_values([name for name in names if name not in modeled])
        lacks, listed = joint.counts.sum(axis=1) == 0.0, ", ".join(modeled)
        if modeled and lacks.any():
            who, instead = (
                scarce.classes_have(classes, lacks),
                scarce.probabilities_of(not without_prior),
            )
            found = f"{who} no row with all of {listed}"
            if lacks.all():
                found = f"no training row has all of {listed}"
                instead = "the block says nothing" if without_prior else instead
            notes.append(f"{found}: {instead}.")
        return notes

    def check_parameters(self, parameters: pa.Table, classes: pa.Array) -> None:
        notes = tidy.notes_of(parameters)
        if not notes["values"] and parameters.column_names == ["class"]:  # the block says nothing
            tidy.label_rows(parameters, classes)
            return
        tidy.check_parameters(
            parameters,
            classes,
            dict.fromkeys(notes["values"], pa.string()),
            {"count": tidy.COUNT, "log_probability": tidy.LOG_PROBABILITY},
        )

    def likelihood(
        self, parameters: pa.Table, classes: pa.Array
    ) -> CategoricalJointLikelihood | scarce.NoLikelihood:
        known = tidy.notes_of(parameters)["values"]
        if not known:
            return scarce.NoLikelihood(len(classes))
        encoders = [_encoder(name, known[name]) for name in self.features.names if name in known]
        codes = np.stack([encoder.of_labels(parameters[encoder.name]) for encoder in encoders])
        if (codes == _nulls(encoders)).any():
            raise StoreError("the values of its cells are not those in its notes.")
        labels = arrays.label_codes(parameters["class"], classes)
        return self._counted(encoders, codes, labels, parameters["count"].to_numpy(), len(classes))

    def log_evidence(self, statistics: pa.Table) -> float:
        """Dirichlet–categorical over the cells: the pseudo-counts are the prior.

        The domain is that of `finalize`. Declare it to compare evidences of different rows, which
        may contain different values.

        Raises:
            NotSupportedError: if a pseudo-count is 0, or not every cell gets it.
            DataError: if rows lack some of the features and not all.
        """
        self.options.check_prior(self.features.names)
        joint, partial = self._joint(statistics, arrays.sorted_classes(statistics["class"]))
        if partial:
            raise DataError(
                f"{partial:g} rows have some of {', '.join(self.features.names)} and not "
                f"all, so that the evidence of {self.name} has no closed form; drop those rows, or "
                "give columns with nulls a block of their own."
            )
        of_cells = log_rising(joint.prior.alpha(joint.codes), joint.counts)
        of_rows = log_rising(np.array(joint.prior.total), joint.counts.sum(axis=1))
        return float(of_cells.sum() - of_rows.sum())

    def _joint(
        self, statistics: pa.Table, classes: pa.Array
    ) -> tuple[CategoricalJointLikelihood, float]:
        """The counts of complete rows, and Σ w of the rows that lack some of the features."""
        (cells,) = LabeledCells.by_column([statistics], self.kind)
        domains = [
            self.options.domain_of(name, cells.known(place))
            for place, name in enumerate(self.features.names)
        ]
        encoders = [_encoder(*each) for each in zip(self.features.names, domains, strict=True)]
        with_values = [place for place, values in enumerate(domains) if values]
        codes, counts = cells.by(encoders)[with_values], cells.counts
        encoders = [encoders[place] for place in with_values]
        missing = codes == _nulls(encoders)
        complete = ~missing.any(axis=0)
        partial = float(counts[~complete & ~missing.all(axis=0)].sum())
        of_rows = codes[:, complete], cells.of_class(classes)[complete], counts[complete]
        return self._counted(encoders, *of_rows, len(classes)), partial

    def _counted(
        self,
        encoders: Sequence[Encoder],
        codes: IntArray,
        labels: IntArray,
        counts: FloatArray,
        classes: int,
    ) -> CategoricalJointLikelihood:
        """The likelihood from counts of cells, ``(n,)``, each of one class."""
        cells = CellIndex(codes, [encoder.size for encoder in encoders])
        table = np.zeros((classes, len(cells.first)))
        table[labels, cells.group] = counts
        return CategoricalJointLikelihood(encoders, codes[:, cells.first], table, self.options)


def _encoder(name: str, values: Sequence[str]) -> Encoder:
    return Encoder(name, values, None, models_nulls=False)


def _nulls(encoders: Sequence[Encoder]) -> IntArray:
    """The code of null of each column, ``(d, 1)``."""
    return np.array([encoder.null for encoder in encoders], np.intp)[:, None]


class _Prior:
    """Pseudo-counts of all cells: products over their values.

    Args:
        options: the pseudo-count is that of a cell if it is one number; else each value has its
            factor.
        encoders: the columns.

    Raises:
        DataError: if their sum exceeds float64.
    """

    def __init__(self, options: JointOptions, encoders: Sequence[Encoder]) -> None:
        number = options.plain()["pseudo_count"]
        factors = [np.ones(len(encoder.values)) for encoder in encoders]
        if isinstance(number, Mapping):
            factors = [options.alpha_of(encoder.name, encoder.values) for encoder in encoders]
        elif factors:
            factors[0] *= number
        # After the values of a column: the sum of its factors, which sums a null out; then the
        # least of them, for an unseen value.
        self.columns = [np.append(factor, [factor.sum(), factor.min()]) for factor in factors]
        self.total = math.prod(float(column[-2]) for column in self.columns)
        if math.isinf(self.total):
            names = one_of([encoder.name for encoder in encoders])
            raise DataError(
                f"columns {names} have more combinations of values than float64 can count; put "
                "them in separate blocks."
            )

    def alpha(self, codes: IntArray) -> FloatArray:
        """Pseudo-counts ``(n,)`` of cells ``(d, n)``; a null sums over a column's values."""
        result = np.ones(codes.shape[1])
        for column, code in zip(self.columns, codes, strict=True):
            result *= column[code]
        return result


class CategoricalJointLikelihood:
    """log p(x | c) of the observed features, with null features summed out.

    Args:
        encoders: the ``d`` columns.
        codes: the cells that training saw in any class, ``(d, g)``.
        counts: Σ w, ``(k, g)``.
        options: of the block.
    """

    normalized = True

    def __init__(
        self,
        encoders: Sequence[Encoder],
        codes: IntArray,
        counts: FloatArray,
        options: JointOptions,
    ) -> None:
        self.encoders, self.codes, self.counts = encoders, codes, counts
        self.unseen, self.smooth = options.unseen, options.smooth
        self.prior = _Prior(options, encoders)
        self._rows = counts.sum(axis=1)[:, None]
        self._marginal = functools.lru_cache(_CACHED_PATTERNS)(self._marginal_of)

    def log_likelihood(self, rows: Rows) -> FloatArray:
        codes = [encoder.of_rows(rows, self.unseen) for encoder in self.encoders]
        return self.of_codes(np.stack(codes)).T

    def marginal(self, column: str) -> Levels | None:
        names = [encoder.name for encoder in self.encoders]
        if column not in names:
            return None
        values = self.encoders[names.index(column)].values
        codes = np.repeat(_nulls(self.encoders), len(values), axis=1)
        codes[names.index(column)] = np.arange(len(values))
        return Levels(values, np.exp(self.of_codes(codes)).T)

    def formula(self) -> Formula:
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
        table = self.of_codes(codes).reshape(-1, *shape)
        return Formula([Lookup([encoder.code() for encoder in self.encoders], table)])

    def of_codes(self, codes: IntArray) -> FloatArray:
        """log p of codes ``(d, n)``: ``(k, n)``, nulls summed out."""
        alpha = self.prior.alpha(codes)
        result = np.zeros((len(self.counts), codes.shape[1]))
        is_null = codes == _nulls(self.encoders)
        for observed, rows in arrays.missing_patterns(np.where(is_null, np.nan, codes)):
            if observed.any():
                columns = np.flatnonzero(observed)
                index, counts = self._marginal(tuple(columns))
                found = counts[:, index.find(codes[columns][:, rows])]
                p = smoothed(found, self._rows, alpha[rows], self.prior.total)
                if self.smooth == "zeros":
                    p = np.where(found > 0.0, smoothed(found, self._rows, 0.0, 0.0), p)
                with np.errstate(divide="ignore"):
                    result[:, rows] = np.log(p)
        return result

    def _marginal_of(self, columns: Sequence[int]) -> tuple[CellIndex, FloatArray]:
        """The seen cells of some columns, and their counts ``(k, g + 1)``, the last 0."""
        sizes = [self.encoders[column].size for column in columns]
        index = CellIndex(self.codes[list(columns)], sizes)
        size = len(index.first) + 1
        counts = [np.bincount(index.group, row, minlength=size) for row in self.counts]
        return index, np.stack(counts)
