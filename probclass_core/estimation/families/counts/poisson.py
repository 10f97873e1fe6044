"""Independent counts without a total to share: events in an interval, visits, defects.

Poisson with a gamma prior of each rate: Gelman et al., *Bayesian Data Analysis*, section 2.6. The
rate is the posterior mean (Σ x + α) / (n + β): α and β are as if β rows with α events in all had
been seen beside the data.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from probclass_core.arrow.arrays import FloatArray, sorted_classes
from probclass_core.arrow.sparse_counts import CountReader, Counts
from probclass_core.errors import DataError
from probclass_core.estimation.contract import flag_option, number_option
from probclass_core.estimation.evidence import gamma_poisson, log_rising
from probclass_core.estimation.families.counts.term_counts import (
    CountEstimator,
    CountLikelihood,
    log_factorials,
    refuse_infinite_weights,
)
from probclass_core.plugins.descriptors import PROBCLASS_API, EstimatorPlugin, Traits
from probclass_core.plugins.hookspecs import hookimpl

__all__ = ["PROBCLASS_API", "Poisson", "probclass_estimators"]


class Poisson(CountEstimator):
    """Independent Poisson counts given the class: a rate per class and column.

    Options:
        pseudo_count: α, events of the prior; its gamma shape.
        pseudo_rows: β, rows of the prior; its gamma rate. With both 0 the rate is the mean of the
            rows, the maximum likelihood.
        predictive: score by the negative binomial, in which the rate is integrated over its
            posterior, instead of its mean.

    Statistics: class, feature, count, rows, log_factorials; see `CountEstimator`.
    Parameters: class, feature, count, rate (events per row); rows are in the notes.

    Raises:
        SpecError: a column is not numeric, or an option is out of range.
    """

    name: ClassVar[str] = "poisson"
    defaults: ClassVar[Mapping[str, Any]] = {
        "pseudo_count": 1.0,
        "pseudo_rows": 1.0,
        "predictive": False,
    }
    takes_terms: ClassVar[bool] = False

    def __init__(self, features: pa.Schema, options: Mapping[str, Any]) -> None:
        super().__init__(features, options)
        self.pseudo_rows = number_option(self.name, "pseudo_rows", self.options["pseudo_rows"])
        self.predictive = flag_option(self.name, "predictive", self.options["predictive"])

    def count_of(self, counts: Counts) -> Any:
        refuse_fractions(counts)
        return counts.matrix

    def finalize(self, statistics: pa.Table, classes: pa.Array) -> pa.Table:
        sums = self.by_class(statistics, classes)
        rows = sums.cells["rows"]
        for group, column in np.argwhere(rows + self.pseudo_rows == 0.0)[:1]:
            raise DataError(
                f"class {classes[int(group)].as_py()!r} has no value of column "
                f"{self.features.names[column]!r} and pseudo_rows is 0; set it above 0, or leave "
                "the column out."
            )
        rate = (sums.cells["count"] + self.pseudo_count) / (rows + self.pseudo_rows)
        return self.parameters(classes, sums, "rate", rate, rows=rows.tolist())

    def likelihood(
        self, parameters: pa.Table, classes: pa.Array
    ) -> PoissonLikelihood | NegativeBinomialLikelihood:
        reader, features, count, rate = self.read_parameters(parameters, classes, "rate")
        if self.predictive:
            rows = self.rows_of(parameters, classes)
            shape = count + self.pseudo_count
            return NegativeBinomialLikelihood(reader, features, shape, rows + self.pseudo_rows)
        return PoissonLikelihood(reader, features, rate)

    def log_evidence(self, statistics: pa.Table) -> float:
        self.refuse_improper_prior("pseudo_count", "pseudo_rows")
        sums = self.by_class(statistics, sorted_classes(statistics["class"])).cells
        evidence = gamma_poisson(
            total=sums["count"],
            rows=sums["rows"],
            log_factorials=sums["log_factorials"],
            shape=self.pseudo_count,
            rate=self.pseudo_rows,
        )
        return float(evidence.sum())


class PoissonLikelihood(CountLikelihood):
    """log p(x | c) = Σ_j [x_j log λ_cj − λ_cj − log x_j!], over the known columns.

    Args:
        reader: gives the counts of a batch.
        features: ``d`` names.
        rate: λ, ``(k, d)``; 0 is a point mass at 0.
    """

    def __init__(self, reader: CountReader, features: pa.Array, rate: FloatArray) -> None:
        super().__init__(reader, features)
        self.rate = np.ascontiguousarray(rate.T)
        with np.errstate(divide="ignore"):
            self.log_rate = np.log(self.rate)

    def of_counts(self, counts: Counts) -> FloatArray:
        refuse_fractions(counts)
        result: FloatArray = counts.matrix @ self.log_rate
        result -= counts.over_known(self.rate)
        result -= log_factorials(counts)[:, None]
        return result

    def linear_form(self) -> tuple[Sequence[str], FloatArray, FloatArray]:
        """log λ, and −Σ λ; the factorials are common to the classes."""
        refuse_infinite_weights(self.log_rate)
        return self.features.to_pylist(), self.log_rate.T, -self.rate.sum(axis=0)


class NegativeBinomialLikelihood(CountLikelihood):
    """log p(x | c) with λ_cj ~ Gamma(a_cj, b_cj) integrated out, over the known columns.

    log Γ(a + x) / Γ(a) + a log(b / (b + 1)) − x log(b + 1) − log x!

    Args:
        reader: gives the counts of a batch.
        features: ``d`` names.
        shape: a, ``(k, d)``; 0 is a point mass at 0.
        rate: b, ``(k, d)``.
    """

    def __init__(
        self, reader: CountReader, features: pa.Array, shape: FloatArray, rate: FloatArray
    ) -> None:
        super().__init__(reader, features)
        self.shape = shape
        self.log_spread = np.log1p(rate)
        self.at_zero = np.ascontiguousarray((-shape * np.log1p(1.0 / rate)).T)

    def of_counts(self, counts: Counts) -> FloatArray:
        refuse_fractions(counts)
        codes, data = counts.matrix.indices, counts.matrix.data
        rises = [
            counts.row_sums(log_rising(shape[codes], data) - data * log_spread[codes])
            for shape, log_spread in zip(self.shape, self.log_spread, strict=True)
        ]
        result = np.stack(rises, axis=1)
        result += counts.over_known(self.at_zero)
        result -= log_factorials(counts)[:, None]
        return result


def refuse_fractions(counts: Counts) -> None:
    """Poisson counts are whole.

    Raises:
        DataError: naming the column and a value.
    """
    data = counts.matrix.data
    broken = np.flatnonzero(data != np.floor(data))
    if len(broken):
        feature = counts.features[int(counts.matrix.indices[broken[0]])].as_py()
        raise DataError(
            f"column {feature!r} holds {data[broken[0]]:g}, which is no whole number, as poisson "
            "counts are; round it, or choose another estimator."
        )


@hookimpl
def probclass_estimators() -> Iterable[EstimatorPlugin]:
    """Registers `Poisson`."""
    yield EstimatorPlugin(
        name=Poisson.name,
        factory=Poisson,
        summary="independent counts of events: a rate per class and column",
        traits=Traits(factorizes=True, has_evidence=True),
    )
