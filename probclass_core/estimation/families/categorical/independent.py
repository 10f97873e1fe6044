"""Independent categories with pseudo-counts.

Zaki and Meira, *Data Mining and Machine Learning*, ch. 18.2: f(v | c) = (n_c(v) + α_v) /
(n_c + Σα), with α = 1 the Laplace correction and any α_v a prior count per value (eq. 18.17 and
18.18 of the authors' earlier draft of the chapter).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from probclass_core.arrow.arrays import (
    MISSING,
    FloatArray,
    IntArray,
    category_codes,
    label_codes,
    short_codes,
    sorted_classes,
)
from probclass_core.arrow.types import is_category_type
from probclass_core.errors import DataError
from probclass_core.estimation.contract import (
    LikelihoodEstimator,
    notes_of,
    read_options,
    require_types,
    with_notes,
)
from probclass_core.estimation.evidence import dirichlet_categorical
from probclass_core.estimation.families.categorical.cells import runs
from probclass_core.estimation.families.categorical.domains import (
    CATEGORICAL_DEFAULTS,
    Domains,
    refuse_unseen,
)
from probclass_core.estimation.tidy import by_feature, summed
from probclass_core.plugins.descriptors import PROBCLASS_API, EstimatorPlugin, Traits
from probclass_core.plugins.hookspecs import hookimpl

__all__ = ["PROBCLASS_API", "Categorical", "probclass_estimators"]


class Categorical(LikelihoodEstimator):
    """Independent categorical features given the class.

    A feature's domain is what was declared, what the pseudo-counts name, and (where nothing was
    declared) what training saw in any class.

    Options:
        pseudo_count: α: a number, or per column a number or a number per value.
        domain: per column, the values it can take.
        unseen: a value outside the domain. ``"pseudo_count"`` gives it the probability of a value
            of the domain that the class never showed (α the column's, or the least of its values'),
            ``"ignore"`` takes it as missing, ``"error"`` refuses. In training a value outside a
            declared domain is an error unless ``"ignore"``.
        smooth: ``"all"`` cells, or only ``"zeros"``: the textbook's example 18.4, where the
            probabilities of a class no longer sum to 1.

    Statistics: class, feature, value (text), count (Σ w).
    Parameters: class, feature, value, count, log_probability.

    Raises:
        SpecError: a column is not categorical, or an option is out of range.
    """

    name: ClassVar[str] = "categorical"

    def __init__(self, features: pa.Schema, options: Mapping[str, Any]) -> None:
        chosen = read_options(self.name, options, CATEGORICAL_DEFAULTS)
        super().__init__(features, chosen)
        require_types(self.name, features, is_category_type, "categories (text, bool, integers)")
        self.domains = Domains.read(self.name, features, chosen)

    def summarize(
        self, batch: pa.RecordBatch, classes: pa.DictionaryArray, weights: FloatArray | None
    ) -> pa.Table:
        labels = classes.dictionary
        rows = classes.indices.to_numpy(zero_copy_only=False).astype(np.intp)
        coded = [short_codes(batch.column(feature)) for feature in self.features.names]
        spelled: list[str] = []
        cells = []
        tables = _counts(rows, len(labels), coded, weights)
        for number, ((_, values), counts) in enumerate(zip(coded, tables, strict=True)):
            row, value = np.nonzero(counts)
            column = np.full(len(row), number)
            cells.append((row, column, value + len(spelled), counts[row, value].astype(np.float64)))
            spelled += values
        row, column, value, count = (np.concatenate(part) for part in zip(*cells, strict=True))
        return pa.table(
            {
                "class": labels.take(pa.array(row)),
                "feature": pa.array(self.features.names, pa.string()).take(pa.array(column)),
                "value": pa.array(spelled, pa.string()).take(pa.array(value)),
                "count": count,
            }
        )

    def merge(self, tables: Sequence[pa.Table]) -> pa.Table:
        return summed(tables, ["class", "feature", "value"], ["count"])

    def finalize(self, statistics: pa.Table, classes: pa.Array) -> pa.Table:
        parts, unseen, totals = [], {}, {}
        for feature, domain, counts, alpha in self._counted(statistics, classes):
            parts.append(
                pa.table(
                    {
                        "class": classes.take(
                            pa.array(np.repeat(np.arange(len(classes)), len(domain)))
                        ),
                        "feature": pa.array([feature] * counts.size, pa.string()),
                        "value": pa.array(domain * len(classes), pa.string()),
                        "count": counts.ravel(),
                        "log_probability": self._log_probability(
                            feature, classes, counts, alpha
                        ).ravel(),
                    }
                )
            )
            unseen[feature] = float(alpha.min())
            totals[feature] = float(alpha.sum())
        return with_notes(
            pa.concat_tables(parts).combine_chunks(),
            estimator=self.name,
            features=self.features.names,
            options=self.options,
            unseen_pseudo_count=unseen,
            total_pseudo_count=totals,
        )

    def log_evidence(self, statistics: pa.Table) -> float:
        """Dirichlet–categorical: the pseudo-counts are the prior, each column a factor.

        The domain is that of `finalize`. Declare it to compare evidences of different rows: what
        each of them saw may differ.
        """
        self.domains.check_prior()
        counted = self._counted(statistics, sorted_classes(statistics["class"]))
        return sum(
            float(dirichlet_categorical(counts, alpha).sum()) for _, _, counts, alpha in counted
        )

    def _counted(
        self, statistics: pa.Table, classes: pa.Array
    ) -> Iterator[tuple[str, list[str], FloatArray, FloatArray]]:
        """Of each feature: its name, domain, counts ``(k, m)`` and pseudo-counts ``(m,)``."""
        for feature, cells in by_feature(statistics, self.features.names):
            values, counts = cells["value"].to_pylist(), cells["count"].to_numpy()
            seen: dict[str, float] = {}
            for value, count in zip(values, counts, strict=True):
                seen[value] = seen.get(value, 0.0) + float(count)
            domain = self.domains.domain_of(feature, seen)
            column = label_codes(cells["value"], pa.array(domain, pa.string()))
            known = column != MISSING
            table = np.zeros((len(classes), len(domain)))
            table[label_codes(cells["class"], classes)[known], column[known]] = counts[known]
            yield feature, domain, table, self.domains.alpha_of(feature, domain)

    def _log_probability(
        self, feature: str, classes: pa.Array, counts: FloatArray, alpha: FloatArray
    ) -> FloatArray:
        """``(k, m)``; −inf where a count and its pseudo-count are both 0."""
        held = counts.sum(axis=1, keepdims=True)
        total = held + alpha.sum()
        for row in np.flatnonzero(total == 0.0):
            raise DataError(
                f"class {classes[int(row)].as_py()!r} has no value of column {feature!r} and its "
                "pseudo-counts are 0; give it a pseudo_count, or leave the column out."
            )
        with np.errstate(divide="ignore", invalid="ignore"):
            smoothed: FloatArray = np.log(counts + alpha) - np.log(total)
            if self.domains.smooth == "zeros":
                smoothed = np.where(counts > 0.0, np.log(counts) - np.log(held), smoothed)
        return smoothed

    def likelihood(self, parameters: pa.Table, classes: pa.Array) -> CategoricalLikelihood:
        return CategoricalLikelihood(parameters, classes, self.domains.unseen)


class CategoricalLikelihood:
    """log p(x | c): the sum over features of the log probability of their values.

    Args:
        parameters: of `Categorical`.
        classes: ``k`` labels.
        unseen: policy for values outside the domain.
    """

    normalized = True

    def __init__(self, parameters: pa.Table, classes: pa.Array, unseen: str) -> None:
        self.unseen = unseen
        self.classes = len(classes)
        self.lookup: dict[str, tuple[pa.Array, FloatArray]] = {}
        notes = notes_of(parameters)
        for feature, cells in by_feature(parameters, notes["features"]):
            domain = pc.unique(cells["value"])
            place = label_codes(cells["class"], classes), label_codes(cells["value"], domain)
            # Two cells beyond the domain: an unseen value, then a missing one (code −1).
            table = np.zeros((len(classes), len(domain) + 2))
            table[place] = cells["log_probability"].to_numpy()
            if unseen == "pseudo_count":
                held = np.zeros(len(classes))
                np.add.at(held, place[0], cells["count"].to_numpy())
                with np.errstate(divide="ignore"):
                    table[:, -2] = np.log(notes["unseen_pseudo_count"][feature]) - np.log(
                        held + notes["total_pseudo_count"][feature]
                    )
            self.lookup[feature] = domain, table

    def log_likelihood(self, batch: pa.RecordBatch) -> FloatArray:
        result = np.zeros((self.classes, batch.num_rows))
        for feature, (domain, table) in self.lookup.items():
            codes, values = category_codes(batch.column(feature))
            known = label_codes(pa.array(values, pa.string()), domain)
            if self.unseen == "error":
                refuse_unseen(feature, codes, known, values, domain.to_pylist())
            cells = np.append(np.where(known == MISSING, len(domain), known), MISSING)
            result += table[:, cells[codes]]
        return result.T


def _counts(
    rows: IntArray,
    classes: int,
    columns: Sequence[tuple[NDArray[Any], Sequence[str]]],
    weights: FloatArray | None,
) -> Iterator[NDArray[Any]]:
    """Of each column, rows or weights by class and value, nulls left out: ``(k, m)``.

    Columns of few values are counted together, by the cells of their product, in one pass over
    the rows; the counts of each are a margin of that.
    """
    sizes = [len(values) + 1 for _, values in columns]
    room = max(len(rows) // 4, 1)
    # One memory for all columns: that of fresh pages would take longer than the counting.
    memory = np.empty(len(rows), np.int32)
    cell, offset = np.empty((2, len(rows)), np.intp)
    before: tuple[int, ...] = ()
    for run in runs(sizes, classes, room):
        shape = tuple(sizes[run])
        if shape != before:
            # A null, code −1, is the first of its column's cells.
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
            yield joint.sum(axis=others)[:, 1:]


@hookimpl
def probclass_estimators() -> Iterable[EstimatorPlugin]:
    """Registers `Categorical`."""
    yield EstimatorPlugin(
        name=Categorical.name,
        factory=Categorical,
        summary="independent categories with pseudo-counts, domains and a policy for unseen values",
        traits=Traits(factorizes=True, has_evidence=True),
    )
