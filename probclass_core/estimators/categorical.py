"""Independent categories with pseudo-counts.

Zaki and Meira, *Data Mining and Machine Learning*, ch. 18.2: f(v | c) = (n_c(v) + α_v) /
(n_c + Σα), with α = 1 the Laplace correction and any α_v a prior count per value (eq. 18.17 and
18.18 of the authors' earlier draft of the chapter).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.arrays import (
    MISSING,
    FloatArray,
    category_codes,
    label_codes,
)
from probclass_core.errors import DataError, SpecError, one_of
from probclass_core.estimator import (
    PROBCLASS_API,
    EstimatorPlugin,
    LikelihoodEstimator,
    Traits,
    choice_option,
    notes_of,
    number_option,
    read_options,
    require_types,
    with_notes,
)
from probclass_core.hookspecs import hookimpl
from probclass_core.spec import category_text, is_category_type

__all__ = ["PROBCLASS_API", "Categorical", "probclass_estimators"]

_DEFAULTS = {"pseudo_count": 1.0, "domain": {}, "unseen": "pseudo_count", "smooth": "all"}
_UNSEEN = ("pseudo_count", "ignore", "error")


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
        chosen = read_options(self.name, options, _DEFAULTS)
        super().__init__(features, chosen)
        require_types(self.name, features, is_category_type, "categories (text, bool, integers)")
        self.unseen = choice_option(self.name, "unseen", chosen["unseen"], _UNSEEN)
        self.smooth = choice_option(self.name, "smooth", chosen["smooth"], ("all", "zeros"))
        self.domain = self._read_domain(chosen["domain"])
        self.pseudo_count = self._read_pseudo_count(chosen["pseudo_count"])
        for column, values in self.domain.items():
            self._check_alpha(column, values)

    def _read_domain(self, declared: Any) -> dict[str, list[str]]:
        self._check_table("domain", declared)
        domain = {}
        for column, values in declared.items():
            if not isinstance(values, Sequence) or isinstance(values, str) or not values:
                raise SpecError(
                    f"{self.name}: domain of {column!r} must be a list of values, got {values!r}."
                )
            domain[column] = [category_text(value) for value in values]
            if len(set(domain[column])) < len(values):
                raise SpecError(f"{self.name}: domain of {column!r} lists a value twice.")
        return domain

    def _read_pseudo_count(self, given: Any) -> dict[str, float | dict[str, float]]:
        """Per column: one α for every value, or an α for each."""
        if not isinstance(given, Mapping):
            number_option(self.name, "pseudo_count", given)
            return dict.fromkeys(self.features.names, float(given))
        self._check_table("pseudo_count", given)
        counts: dict[str, float | dict[str, float]] = {}
        for column in self.features.names:
            count = given.get(column, _DEFAULTS["pseudo_count"])
            key = f"pseudo_count of {column!r}"
            if isinstance(count, Mapping) and count:
                counts[column] = {
                    category_text(value): number_option(self.name, f"{key} ({value!r})", alpha)
                    for value, alpha in count.items()
                }
            else:
                counts[column] = number_option(self.name, key, count)
        return counts

    def _check_alpha(self, column: str, domain: Sequence[str]) -> None:
        """Where each value has an α of its own, the values are those of the domain."""
        alpha = self.pseudo_count[column]
        odd = sorted(alpha.keys() ^ set(domain)) if isinstance(alpha, dict) else []
        if odd:
            has, lacks = ("domain", "pseudo_count")[:: 1 if odd[0] in domain else -1]
            raise SpecError(
                f"{self.name}: {has} of {column!r} has value {odd[0]!r}, {lacks} has not; "
                "give both the same values."
            )

    def _check_table(self, option: str, given: Any) -> None:
        if not isinstance(given, Mapping):
            raise SpecError(
                f"{self.name}: {option} must be a table keyed by column, got {given!r}."
            )
        for column in given:
            if column not in self.features.names:
                raise SpecError(
                    f"{self.name}: {option} names column {column!r}, which is not in the block; "
                    f"it has {one_of(self.features.names)}."
                )

    def summarize(
        self, batch: pa.RecordBatch, classes: pa.DictionaryArray, weights: FloatArray | None
    ) -> pa.Table:
        labels = classes.dictionary
        rows = classes.indices.to_numpy(zero_copy_only=False).astype(np.intp)
        parts = []
        for feature in self.features.names:
            codes, values = category_codes(batch.column(feature))
            # Column 0 of the count table takes the nulls (code −1) and is left out.
            cells = rows * (len(values) + 1) + codes - MISSING
            size = len(labels) * (len(values) + 1)
            counts = np.bincount(cells, weights, minlength=size).reshape(len(labels), -1)[:, 1:]
            row, column = np.nonzero(counts)
            parts.append(
                pa.table(
                    {
                        "class": labels.take(pa.array(row)),
                        "feature": pa.array([feature] * len(row), pa.string()),
                        "value": pa.array(values, pa.string()).take(pa.array(column)),
                        "count": counts[row, column].astype(np.float64),
                    }
                )
            )
        return self.merge(parts)

    def merge(self, tables: Sequence[pa.Table]) -> pa.Table:
        keys = ["class", "feature", "value"]
        grouped = pa.concat_tables(tables).group_by(keys, use_threads=False)
        merged = grouped.aggregate([("count", "sum")]).rename_columns([*keys, "count"])
        return merged.sort_by([(key, "ascending") for key in keys])

    def finalize(self, statistics: pa.Table, classes: pa.Array) -> pa.Table:
        parts, unseen, totals = [], {}, {}
        for feature, seen in _by_feature(statistics, self.features.names):
            domain = self._domain_of(feature, seen)
            seen = seen.filter(pc.is_in(seen["value"], value_set=pa.array(domain, pa.string())))
            counts = np.zeros((len(classes), len(domain)))
            place = (
                label_codes(seen["class"], classes),
                label_codes(seen["value"], pa.array(domain, pa.string())),
            )
            counts[place] = seen["count"].to_numpy()
            alpha = self._alpha_of(feature, domain)
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

    def _domain_of(self, feature: str, seen: pa.Table) -> list[str]:
        observed = sorted(set(seen["value"].to_pylist()))
        alpha = self.pseudo_count[feature]
        declared = self.domain.get(feature) or (list(alpha) if isinstance(alpha, dict) else [])
        outside = [value for value in observed if value not in set(declared)]
        if declared and outside and self.unseen != "ignore":
            rows = pc.sum(seen.filter(pc.field("value") == outside[0])["count"]).as_py()
            raise DataError(
                f"column {feature!r} has value {outside[0]!r} in {rows:g} training rows, outside "
                f"its declared domain {one_of(declared)}; add it, or set unseen='ignore'."
            )
        domain = declared or observed
        if not domain:
            raise DataError(
                f"column {feature!r} has no value in any training row; leave it out of the block, "
                "or declare its domain."
            )
        return domain

    def _alpha_of(self, feature: str, domain: Sequence[str]) -> FloatArray:
        alpha = self.pseudo_count[feature]
        if not isinstance(alpha, dict):
            return np.full(len(domain), float(alpha))
        return np.array([alpha[value] for value in domain], dtype=np.float64)

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
            if self.smooth == "zeros":
                smoothed = np.where(counts > 0.0, np.log(counts) - np.log(held), smoothed)
        return smoothed

    def likelihood(self, parameters: pa.Table, classes: pa.Array) -> CategoricalLikelihood:
        return CategoricalLikelihood(parameters, classes, self.unseen)


class CategoricalLikelihood:
    """log p(x | c): the sum over features of the log probability of their values.

    Args:
        parameters: of `Categorical`.
        classes: ``k`` labels.
        unseen: policy for values outside the domain.
    """

    normalised = True

    def __init__(self, parameters: pa.Table, classes: pa.Array, unseen: str) -> None:
        self.unseen = unseen
        self.classes = len(classes)
        self.lookup: dict[str, tuple[pa.Array, FloatArray]] = {}
        notes = notes_of(parameters)
        for feature, cells in _by_feature(parameters, notes["features"]):
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
                self._refuse(feature, codes, known, values, domain)
            cells = np.append(np.where(known == MISSING, len(domain), known), MISSING)
            result += table[:, cells[codes]]
        return result.T

    def _refuse(
        self,
        feature: str,
        codes: np.ndarray,
        known: np.ndarray,
        values: Sequence[str],
        domain: pa.Array,
    ) -> None:
        unknown = (codes != MISSING) & (np.append(known, 0)[codes] == MISSING)
        if unknown.any():
            value = values[codes[np.argmax(unknown)]]
            raise DataError(
                f"column {feature!r}: rows outside its domain: {int(unknown.sum())}, such as "
                f"{value!r}; it knows {one_of(domain.to_pylist())}. Set unseen to 'pseudo_count' "
                "or 'ignore' to score them."
            )


def _by_feature(table: pa.Table, features: Sequence[str]) -> Iterator[tuple[str, pa.Table]]:
    """The rows of each feature, in one pass over the table."""
    codes = label_codes(table["feature"], pa.array(features, pa.string()))
    gathered = table.take(pa.array(np.argsort(codes, kind="stable"))).combine_chunks()
    counts = np.bincount(codes, minlength=len(features))
    starts = np.cumsum(counts) - counts
    for feature, start, count in zip(features, starts, counts, strict=True):
        yield feature, gathered.slice(start, count)


@hookimpl
def probclass_estimators() -> Iterable[EstimatorPlugin]:
    """Registers `Categorical`."""
    yield EstimatorPlugin(
        name=Categorical.name,
        factory=Categorical,
        summary="independent categories with pseudo-counts, domains and a policy for unseen values",
        traits=Traits(factorises=True),
    )
