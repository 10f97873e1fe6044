"""Sums over the rows of a partition from which its health follows, gathered while it is scored.

Counts of rows are exact, but for those in the bins of a column: of a large batch, every s-th row is
counted there, and stands for the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from probclass_core.analysis.distributions.columns import MOST_BINS, expected_columns, rounded
from probclass_core.analysis.distributions.health import (
    ClassHealth,
    ColumnHealth,
    DensityHealth,
    Health,
)
from probclass_core.analysis.distributions.label_shift import prior_vector, source_prior
from probclass_core.arrow.arrays import MISSING, FloatArray, IntArray
from probclass_core.arrow.rows import Rows
from probclass_core.model.decision import Decisions
from probclass_core.model.density_quantiles import log_density_quantile
from probclass_core.model.model import Model
from probclass_core.model.posterior import Posterior

_BATCH_SAMPLE = 2**12
"""Rows of a batch that are counted in the bins of columns, at most."""

_RARE = 0.01
"""Quantile of the model's log p(x) below which a row is rare."""

_MOST_COLUMNS, _MOST_CLASSES = 100, 100
"""Most columns whose bins a report shows, and most classes: those that differ most come first among
columns, the most probable ones among classes."""


@dataclass(frozen=True)
class HealthSums:
    """Sums over rows; those of consecutive rows add up.

    Attributes:
        rows: number of rows.
        sampled: number of rows that are counted in bins.
        columns: numbers of nulls, unseen categories and values outside the range of the training
            rows, by column: ``(3, d)``.
        bins: estimated number of rows in each bin of each column, ``(d, MOST_BINS)``.
        predicted: number of rows that each class is predicted for, ``(k,)``.
        probability: Σ P(c | x) of each class, ``(k,)``.
        rare: number of rows below the 1 % quantile of the model's log p(x).
        impossible: number of rows with p(x) = 0.
    """

    rows: int
    sampled: int
    columns: IntArray
    bins: FloatArray
    predicted: IntArray
    probability: FloatArray
    rare: int
    impossible: int

    def __add__(self, other: HealthSums) -> HealthSums:
        """The sums over the rows of both."""
        return HealthSums(
            **{name: value + getattr(other, name) for name, value in vars(self).items()}
        )


class HealthMeter:
    """Measures the health of the rows that a model scores.

    Args:
        model: model that scores the rows.

    Attributes:
        columns: what the model expects of each feature.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.columns = expected_columns(model)

    @cached_property
    def _rare_below(self) -> float | None:
        """Log p(x) below which a row is rare, or None if the model does not say."""
        quantiles = self.model.density_quantiles
        if quantiles is None or quantiles["quantile"][0].as_py() > _RARE:
            return None
        return log_density_quantile(quantiles, _RARE)

    def zero(self) -> HealthSums:
        """The sums over no rows."""
        features, classes = len(self.columns), len(self.model.classes)
        return HealthSums(
            rows=0,
            sampled=0,
            columns=np.zeros((3, features), np.int64),
            bins=np.zeros((features, MOST_BINS)),
            predicted=np.zeros(classes, np.int64),
            probability=np.zeros(classes),
            rare=0,
            impossible=0,
        )

    def measure(self, rows: Rows, posterior: Posterior, decisions: Decisions) -> HealthSums:
        """The sums over a batch; safe to call from several threads.

        Args:
            rows: the features of ``n`` rows.
            posterior: posteriors of the rows, as they are served.
            decisions: decisions about the rows.
        """
        size = len(rows)
        stride = max(1, -(-size // _BATCH_SAMPLE))
        sampled = -(-size // stride)
        counts, bins = zip(*(column.measure(rows, stride) for column in self.columns), strict=True)
        probability, choice = posterior.probability, decisions.prediction
        density = posterior.log_density
        return HealthSums(
            rows=size,
            sampled=sampled,
            columns=np.array(counts, np.int64).T,
            bins=np.stack(bins) * (size / max(1, sampled)),
            predicted=np.bincount(choice[choice != MISSING], minlength=probability.shape[1]),
            probability=probability.sum(axis=0),
            rare=0 if self._rare_below is None else int((density < self._rare_below).sum()),
            impossible=int(np.isneginf(density).sum()),
        )

    def health(self, sums: HealthSums, prior: Mapping[str, float] | None = None) -> Health:
        """The health of at least one row.

        Args:
            sums: sums over the rows.
            prior: shares of the classes under which the posteriors are; None for those of training.
        """
        rows, model = sums.rows, self.model
        # As many rows as were counted, so that a small sample is known as one.
        bins = np.rint(sums.bins * (sums.sampled / rows)).astype(np.int64)
        measured = zip(self.columns, (sums.columns / rows).T, bins, strict=True)
        density = None
        if model.normalized:
            density = DensityHealth(
                rare=None if self._rare_below is None else rounded(sums.rare / rows),
                impossible=rounded(sums.impossible / rows),
            )
        names, shares = model.class_names, sums.probability / rows
        usual = source_prior(model) if prior is None else prior_vector(model, prior)
        shown = sorted(np.argsort(-shares, kind="stable")[:_MOST_CLASSES].tolist())
        return Health(
            rows=rows,
            sampled=sums.sampled,
            rejected=rounded(1.0 - sums.predicted.sum() / rows),
            columns=_with_fewer_bins(
                {column.name: column.health(shares, counts) for column, shares, counts in measured}
            ),
            classes={
                names[i]: ClassHealth(
                    predicted=rounded(sums.predicted[i] / rows),
                    expected=rounded(shares[i]),
                    prior=rounded(usual[i]),
                )
                for i in shown
            },
            log_density=density,
        )


def _with_fewer_bins(columns: dict[str, ColumnHealth]) -> dict[str, ColumnHealth]:
    """The columns, those that differ least without their bins if there are very many."""
    if len(columns) <= _MOST_COLUMNS:
        return columns
    ranked = sorted(columns, key=lambda name: -columns[name].unusual)
    shown = set(ranked[:_MOST_COLUMNS])
    return {
        name: one if name in shown else replace(one, cuts=(), values=(), counts=(), expected=None)
        for name, one in columns.items()
    }
