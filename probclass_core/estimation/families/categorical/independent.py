"""Independent categories with pseudo-counts.

Zaki and Meira, *Data Mining and Machine Learning*, ch. 18.2: f(v | c) = (n_c(v) + α_v) /
(n_c + Σα), with α = 1 the Laplace correction and any α_v a prior count per value (eq. 18.17 and
18.18 of the authors' earlier draft of the chapter).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from probclass_core.arrow.arrays import (
    MISSING,
    FloatArray,
    IntArray,
    add_looked_up,
    label_codes,
    short_codes,
    sorted_classes,
)
from probclass_core.arrow.compiled import kernels
from probclass_core.errors import DataError, NotSupportedError
from probclass_core.estimation.aggregates import DistinctRows
from probclass_core.estimation.contract import Estimator
from probclass_core.estimation.evidence import dirichlet_categorical
from probclass_core.estimation.families.categorical.cells import runs
from probclass_core.estimation.families.categorical.domains import (
    CategoricalOptions,
    domain_codes,
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
from probclass_core.estimation.formulas import Categories, Formula, IsCode, Lookup
from probclass_core.estimation.marginals import Levels
from probclass_core.estimation.options import CATEGORIES, choice
from probclass_core.estimation.parameters import (
    COUNT,
    LOG_PROBABILITY,
    NOT_NEGATIVE,
    check_notes,
    check_parameters,
    check_row_counts,
)
from probclass_core.estimation.tidy import (
    by_feature,
    dense_arrays,
    notes_of,
    sum_counts,
    tidy_table,
)

_MOST_CELLS = 65_536
"""Cells of a feature, classes times values, up to which parameters list all of them."""


class IndependentOptions(CategoricalOptions):
    """Options of `Categorical`."""

    missing: str = choice(
        "marginalize",
        ("marginalize", "level"),
        doc="A null: 'marginalize' leaves the feature of the row out; 'level' makes null a value "
        "of its own, with the column's pseudo_count, or the least of its values'. If no training "
        "row has a null, 'level' scores it as the option unseen says.",
    )
    shared_strength: float | str | None = shared_strength_option()


class Categorical(Estimator):
    """Independent categorical features given the class.

    Statistics: class, feature, value (text; null for a null that counts), count (Σ w).
    Parameters: class, feature, value, count, log_probability. If a feature has more than 65,536
    cells and fewer than half of them have a count, only these are listed, and the feature is in the
    note ``sparse``; the others have the probability of the pseudo-count alone, see
    `complete_cells`.

    Raises:
        SpecError: if a column is not categorical, or an option is unknown or out of bounds.
    """

    name: ClassVar[str] = "categorical"
    factorizes = True
    models = CATEGORIES
    Options = IndependentOptions
    options: IndependentOptions

    def __init__(self, features: pa.Schema, options: Mapping[str, Any]) -> None:
        super().__init__(features, options)
        self.models_nulls = self.options.missing == "level"

    def summarize(
        self, batch: pa.RecordBatch, classes: pa.DictionaryArray, weights: FloatArray | None
    ) -> pa.Table:
        labels = classes.dictionary
        rows = classes.indices.to_numpy(zero_copy_only=False).astype(np.intp)
        features = batch.schema.names
        encoded = [short_codes(batch.column(feature), feature) for feature in features]
        values: list[str | None] = []
        cells = []
        tables = _counts(rows, len(labels), encoded, weights)
        for number, ((_, distinct), counts) in enumerate(zip(encoded, tables, strict=True)):
            domain = [None, *distinct] if self.models_nulls else distinct
            counts = counts[:, len(distinct) + 1 - len(domain) :]
            row, value = np.nonzero(counts)
            column = np.full(len(row), number)
            cells.append((row, column, value + len(values), counts[row, value].astype(np.float64)))
            values += domain
        # One take for all features: tables of single features would take longer to put together.
        row, column, value, count = (np.concatenate(part) for part in zip(*cells, strict=True))
        return pa.table(
            {
                "class": labels.take(pa.array(row)),
                "feature": pa.array(features, pa.string()).take(pa.array(column)),
                "value": pa.array(values, pa.string()).take(pa.array(value)),
                "count": count,
            }
        )

    def aggregates(self) -> DistinctRows:
        return DistinctRows([[name] for name in self.features.names])

    def merge(self, tables: Sequence[pa.Table]) -> pa.Table:
        return sum_counts(tables, ["class", "feature", "value"], ["count"])

    def finalize(self, statistics: pa.Table, classes: pa.Array) -> pa.Table:
        parts, unseen, totals = [], {}, {}
        sparse: dict[str, list[str]] = {}
        empty, none = [], []
        shared = self.options.shared_strength
        for feature, domain, counts, alpha in self._counted(statistics, classes):
            if not domain:
                empty.append(feature)
                continue
            prior, least = float(alpha.sum()), float(alpha.min())
            if shared is not None and counts.sum() + prior:
                # α of a value that no class showed is a share of the mean.
                least /= counts.sum() + prior
                prior, mean = shared_prior(counts, alpha, shared, self.row_weight)
                least, alpha = least * prior, mean * prior
            counts, absent = pooled_counts(self.on_scarce, feature, classes, counts, prior)
            none.append(absent)
            table = self._table(classes, feature, domain, counts, alpha)
            if table.num_rows < counts.size:
                seen = counts.sum(axis=0).tolist()
                absent_values = (v for v, count in zip(domain, seen, strict=True) if not count)
                sparse[feature] = [str(value) for value in absent_values]
            parts.append(table)
            unseen[feature] = least
            totals[feature] = prior
        if self.on_scarce == "error":
            require_values(empty, [0] * len(empty), hint=", or declare its domain")
        notes = without_values(empty, [0] * len(empty))
        notes += of_other_rows(list(totals), classes, none, sum(totals.values()))
        parts = parts or [_no_parameters(classes)]
        about = {"sparse": sparse} if sparse else {}
        return self.annotate(
            pa.concat_tables(parts).combine_chunks(),
            scarce=notes,
            **about,
            unseen_pseudo_count=unseen,
            total_pseudo_count=totals,
        )

    def log_evidence(self, statistics: pa.Table) -> float:
        """Dirichlet–categorical: the pseudo-counts are the prior, each column a factor.

        The domain is that of `finalize`. Declare it to compare evidences of different rows, which
        may contain different values.
        """
        self.options.check_prior()
        if self.options.shared_strength is not None:
            raise NotSupportedError(
                f"{self.name} offers no log evidence with shared_strength, a prior that depends on "
                "the rows; leave it out."
            )
        counted = self._counted(statistics, sorted_classes(statistics["class"]))
        return sum(
            float(dirichlet_categorical(counts, alpha).sum()) for _, _, counts, alpha in counted
        )

    def _counted(
        self, statistics: pa.Table, classes: pa.Array
    ) -> Iterator[tuple[str, list[str | None], FloatArray, FloatArray]]:
        """Name, domain, counts ``(k, m)`` and pseudo-counts ``(m,)`` of each feature.

        A null that is a value and occurs is the last of its domain.
        """
        for feature, cells in by_feature(statistics, self.features.names):
            seen: dict[str, float] = {}
            missing = 0.0
            for value, count in zip(
                cells["value"].to_pylist(), cells["count"].to_pylist(), strict=True
            ):
                if value is None:
                    missing += count
                else:
                    seen[value] = seen.get(value, 0.0) + count
            nulls = [None] if missing else []
            known = self.options.domain_of(feature, seen) if seen or not nulls else []
            alpha = self.options.alpha_of(feature, known)
            if nulls:
                alpha = np.append(alpha, self._null_alpha(feature))
            domain = [*known, *nulls]
            (counts,) = dense_arrays(
                cells, classes, "value", pa.array(domain, pa.string()), ["count"]
            )
            yield feature, domain, counts, alpha

    def _null_alpha(self, feature: str) -> float:
        """The pseudo-count of null: the column's, or the least of its values'."""
        alpha = self.options.pseudo_count[feature]
        return min(alpha.values()) if isinstance(alpha, dict) else alpha

    def _table(
        self,
        classes: pa.Array,
        feature: str,
        domain: Sequence[str | None],
        counts: FloatArray,
        alpha: FloatArray,
    ) -> pa.Table:
        """The parameters of one feature; of many cells, only those with a count.

        Args:
            classes: ``k`` labels.
            feature: name of the feature.
            domain: ``m`` values.
            counts: ``(k, m)``.
            alpha: pseudo-counts, ``(m,)``.
        """
        rows, prior = counts.sum(axis=1, keepdims=True), alpha.sum()
        cells = {"feature": feature, "value": pa.array(domain, pa.string())}
        few = 2 * np.count_nonzero(counts) < counts.size
        if counts.size <= _MOST_CELLS or not few or alpha.min() < alpha.max():
            logs = self._log_probability(counts, alpha, rows, prior)
            return tidy_table(classes, cells, {"count": counts, "log_probability": logs})
        row, cell = np.nonzero(counts)
        kept = counts[row, cell]
        columns = {
            "class": classes.take(pa.array(row)),
            "feature": pa.repeat(feature, len(row)),
            "value": cells["value"].take(pa.array(cell)),
            "count": kept,
            "log_probability": self._log_probability(kept, alpha[cell], rows[row, 0], prior),
        }
        return pa.table(columns)

    def _log_probability(
        self, counts: FloatArray, alpha: FloatArray, rows: FloatArray, prior: float
    ) -> FloatArray:
        """Log probabilities of cells; −inf if a count and its pseudo-count are both 0.

        Args:
            counts: of each cell.
            alpha: pseudo-count of each cell.
            rows: count of each cell's class.
            prior: sum of the pseudo-counts of a class.
        """
        total = rows + prior
        with np.errstate(divide="ignore", invalid="ignore"):
            smoothed: FloatArray = np.log(counts + alpha) - np.log(total)
            if self.options.smooth == "zeros":
                smoothed = np.where(counts > 0.0, np.log(counts) - np.log(rows), smoothed)
        return smoothed

    def check_statistics(self, statistics: pa.Table, classes: pa.Table) -> None:
        super().check_statistics(statistics, classes)
        check_row_counts(statistics, classes, ["feature"], features=self.features.names)

    def check_parameters(self, parameters: pa.Table, classes: pa.Array) -> None:
        notes = notes_of(parameters)
        for name in ("unseen_pseudo_count", "total_pseudo_count"):
            check_notes(notes[name], name, NOT_NEGATIVE)
        # With smooth="zeros", cells without a count add to a sum of 1.
        zeros = self.options.smooth == "zeros"
        check_parameters(
            parameters,
            classes,
            {"feature": pa.string(), "value": pa.string()},
            {"count": COUNT, "log_probability": LOG_PROBABILITY},
            nullable=["value"],
            complete=not notes.get("sparse"),
            within=None if zeros else ["feature"],
        )

    def likelihood(self, parameters: pa.Table, classes: pa.Array) -> CategoricalLikelihood:
        return CategoricalLikelihood(
            parameters, classes, self.options.unseen, models_nulls=self.models_nulls
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
        """See `LeaveOneOut`. Domains, strengths and p(x) remain those of all rows."""
        likelihood = self.likelihood(parameters, classes)
        total_alpha = notes_of(parameters)["total_pseudo_count"]
        own = np.zeros(batch.num_rows)
        for feature, cells in by_feature(parameters, self.features.names):
            if not cells.num_rows:
                continue  # training saw no value
            domain, _ = likelihood.lookup[feature]
            values, alpha = domain.to_pylist(), self.options.alpha_of(feature, domain.to_pylist())
            if self.models_nulls:
                values, alpha = [*values, None], np.append(alpha, self._null_alpha(feature))
            (counts,) = dense_arrays(
                cells, classes, "value", pa.array(values, pa.string()), ["count"]
            )
            if self.options.shared_strength is not None:
                alpha = total_alpha[feature] * shared_mean(counts.sum(axis=0), alpha)
            codes = likelihood.codes(batch, feature)
            counted = np.flatnonzero(codes < len(domain))  # a null has the code −1, the last value
            if not self.models_nulls:
                counted = counted[codes[counted] != MISSING]
            row, code = truth[counted], codes[counted]
            weight = None if weights is None else weights[counted]
            left = without_row(counts[row, code], weight)
            rows_left = without_row(counts.sum(axis=1)[row], weight)
            shares = log_share(left, rows_left, alpha[code], total_alpha[feature])
            if self.options.smooth == "zeros":
                shares = np.where(left > 0.0, log_share(left, rows_left, 0.0, 0.0), shares)
            own[counted] += shares
        result = likelihood.log_likelihood(batch)
        result[np.arange(len(own)), truth] = own
        return result


class CategoricalLikelihood:
    """log p(x | c): the sum over features of the log probability of their values.

    Args:
        parameters: of `Categorical`.
        classes: ``k`` labels.
        unseen: policy for values outside the domain.
        models_nulls: whether null is a value.
    """

    normalized = True

    def __init__(
        self, parameters: pa.Table, classes: pa.Array, unseen: str, *, models_nulls: bool
    ) -> None:
        self.unseen = unseen
        self.models_nulls = models_nulls
        self.classes = len(classes)
        self.lookup: dict[str, tuple[pa.Array, FloatArray]] = {}
        self.without_nulls: set[str] = set()
        self.with_nulls: set[str] = set()
        notes = notes_of(parameters)
        for feature, cells in by_feature(parameters, notes["features"]):
            if not cells.num_rows:
                continue  # training saw no value
            domain = pc.unique(cells["value"]).drop_null()
            without_count = _log_without_count(notes, feature, cells, classes)
            is_sparse = feature in notes.get("sparse", {})
            if is_sparse:
                absent = pa.array(notes["sparse"][feature], pa.string())
                domain = pa.concat_arrays([domain, absent])
            # Two columns after the domain: an unseen value, then a missing one (code −1).
            table = np.zeros((len(classes), len(domain) + 2))
            table[:, :-2] = without_count[:, None]
            row, code = label_codes(cells["class"], classes), label_codes(cells["value"], domain)
            known = code != MISSING
            table[row[known], code[known]] = cells["log_probability"].to_numpy()[known]
            if unseen == "pseudo_count":
                table[:, -2] = without_count
            if models_nulls:
                nulls = cells.filter(cells["value"].is_null())
                # The null of a class without one, or one that training never saw.
                table[:, -1] = without_count if is_sparse and nulls.num_rows else table[:, -2]
                codes = label_codes(nulls["class"], classes)
                table[codes, -1] = nulls["log_probability"].to_numpy()
                if nulls.num_rows:
                    self.with_nulls.add(feature)
                elif unseen == "error":
                    self.without_nulls.add(feature)
            self.lookup[feature] = domain, table

    def log_likelihood(self, batch: pa.RecordBatch) -> FloatArray:
        result = np.zeros((self.classes, batch.num_rows))
        for feature, (_, table) in self.lookup.items():
            add_looked_up(result, table, self.codes(batch, feature))
        return result.T

    def log_factors(self, batch: pa.RecordBatch) -> Iterator[FloatArray]:
        for feature, (_, table) in self.lookup.items():
            yield table[:, self.codes(batch, feature)].T

    def marginal(self, column: str) -> Levels | None:
        if column not in self.lookup:
            return None
        domain, table = self.lookup[column]
        names, probability = domain.to_pylist(), np.exp(table.T)
        if column in self.with_nulls:
            return Levels([*names, None], np.delete(probability, -2, axis=0))
        return Levels(names, probability[:-2])

    def formula(self) -> Formula:
        terms, refused = [], []
        for feature, (domain, table) in self.lookup.items():
            code = Categories(feature, domain.to_pylist())
            terms.append(Lookup([code], table))
            if self.unseen == "error":
                refused.append(IsCode(code, len(domain)))
            if feature in self.without_nulls:
                refused.append(IsCode(code, len(domain) + 1))
        return Formula(terms, refused)

    @property
    def cell_log_likelihood(self) -> FloatArray | None:
        tables = [table for _, table in self.lookup.values()]
        return tables[0] if len(tables) == 1 else None

    def cells(self, batch: pa.RecordBatch) -> IntArray:
        (feature,) = self.lookup
        return self.codes(batch, feature)

    def codes(self, batch: pa.RecordBatch, feature: str) -> IntArray:
        """Positions in the feature's domain, as `domain_codes` gives them: ``(n,)``.

        Raises:
            DataError: if the option unseen is 'error' and there is an unseen value, or null.
        """
        domain, _ = self.lookup[feature]
        unseen = self.unseen
        if self.models_nulls and unseen == "ignore":
            unseen = "pseudo_count"  # only a null is missing; the table ignores unseen values
        codes = domain_codes(batch.column(feature), feature, domain, unseen)
        if feature in self.without_nulls and (codes == MISSING).any():
            raise DataError(
                f"column {feature!r}: {int((codes == MISSING).sum())} rows are null, which "
                "training never saw. Set unseen to 'pseudo_count' or 'ignore' to score them."
            )
        return codes


def complete_cells(parameters: pa.Table) -> pa.Table:
    """Parameters with a row for every class and value of the domain, also if they are sparse.

    Args:
        parameters: of any estimator.
    """
    notes = notes_of(parameters)
    if "sparse" not in notes:
        return parameters
    classes = sorted_classes(parameters["class"])
    parts = []
    for feature, cells in by_feature(parameters, notes["features"]):
        if feature in notes["sparse"]:
            values = pc.unique(cells["value"])
            domain = pa.concat_arrays([values, pa.array(notes["sparse"][feature], pa.string())])
            row, code = label_codes(cells["class"], classes), label_codes(cells["value"], domain)
            counts = np.zeros((len(classes), len(domain)))
            counts[row, code] = cells["count"].to_numpy()
            logs = _log_without_count(notes, feature, cells, classes)
            logs = np.repeat(logs[:, None], len(domain), axis=1)
            logs[row, code] = cells["log_probability"].to_numpy()
            fields = {"count": counts, "log_probability": logs}
            cells = tidy_table(classes, {"feature": feature, "value": domain}, fields)
        parts.append(cells.replace_schema_metadata(None))
    complete = pa.concat_tables(parts)
    return complete.replace_schema_metadata(parameters.schema.metadata)


def _log_without_count(
    notes: Mapping[str, Any], feature: str, cells: pa.Table, classes: pa.Array
) -> FloatArray:
    """log p of a value that a class never showed, by its least pseudo-count: ``(k,)``.

    Args:
        notes: of the parameters.
        feature: name of the feature.
        cells: its rows of the parameters.
        classes: ``k`` labels.
    """
    codes, counts = label_codes(cells["class"], classes), cells["count"].to_numpy()
    rows = np.bincount(codes, counts, len(classes))
    with np.errstate(divide="ignore"):
        logs: FloatArray = np.log(notes["unseen_pseudo_count"][feature]) - np.log(
            rows + notes["total_pseudo_count"][feature]
        )
    return logs


def _no_parameters(classes: pa.Array) -> pa.Table:
    """The parameters of a block of which no column has a value."""
    texts = [("class", classes.type), ("feature", pa.string()), ("value", pa.string())]
    numbers = [("count", pa.float64()), ("log_probability", pa.float64())]
    return pa.schema([*texts, *numbers]).empty_table()


def _counts(
    rows: IntArray,
    classes: int,
    columns: Sequence[tuple[NDArray[Any], Sequence[str]]],
    weights: FloatArray | None,
) -> Iterator[NDArray[Any]]:
    """Rows or weights by class and value of each column, null first: ``(k, 1 + m)``.

    Columns with few values are counted together, by the cells of their product, in one pass over
    the rows; the counts of each column are a margin of the joint counts.
    """
    if weights is None and (compiled := kernels(len(rows))) is not None:
        group = np.ascontiguousarray(rows, np.int32)
        for codes, values in columns:
            narrow = np.ascontiguousarray(codes, np.int32)
            yield compiled.count_codes(group, narrow, classes, len(values))
        return
    sizes = [len(values) + 1 for _, values in columns]
    room = max(len(rows) // 4, 1)
    # One buffer for all columns: touching fresh memory would take longer than counting.
    memory = np.empty(len(rows), np.int32)
    cell, offset = np.empty((2, len(rows)), np.intp)
    before: tuple[int, ...] = ()
    for run in runs(sizes, classes, room):
        shape = tuple(sizes[run])
        if shape != before:
            # A null, code −1, is the first cell of its column.
            first = sum(math.prod(shape[place:]) for place in range(1, len(shape) + 1))
            np.multiply(rows, math.prod(shape), out=offset)
            np.add(offset, first, out=offset)
            before = shape
        values = columns[run.start][0]
        for (codes, _), size in zip(columns[run][1:], shape[1:], strict=True):
            values = np.multiply(values, np.int32(size), out=memory, casting="same_kind")
            np.add(values, codes, out=memory, casting="same_kind")
        np.add(values, offset, out=cell)
        joint = np.bincount(cell, weights, classes * math.prod(shape)).reshape(classes, *shape)
        for axis in range(1, joint.ndim):
            others = tuple(other for other in range(1, joint.ndim) if other != axis)
            yield joint.sum(axis=others)
