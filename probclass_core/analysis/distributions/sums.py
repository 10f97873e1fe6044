"""Sums over the rows of a partition from which its health follows, gathered while it is scored.

Counts of rows are exact. What needs the values themselves, such as quantiles, is computed from a
sample: every s-th row of each batch, where s is a power of two. When a sample has too many rows, s
doubles, so that the sample of two parts does not depend on how they are merged.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from probclass_core.analysis.distributions.columns import expected_columns, rounded
from probclass_core.analysis.distributions.health import (
    ClassHealth,
    ColumnHealth,
    DensityHealth,
    Health,
)
from probclass_core.analysis.distributions.label_shift import (
    MOST_CLASSES,
    Shares,
    estimate_shares,
    prior_vector,
    source_prior,
    used_rows,
)
from probclass_core.arrow.arrays import MISSING, FloatArray
from probclass_core.arrow.rows import Rows
from probclass_core.execution.threads import single_threaded_blas
from probclass_core.model.decision import Decisions
from probclass_core.model.density_quantiles import log_density_quantile
from probclass_core.model.model import Model
from probclass_core.model.posterior import Posterior

SAMPLE_ROWS = 2**16
"""Most rows of a sample."""

_BATCH_SAMPLE = 2**12
"""Most rows that the sample takes from one batch."""

_BATCH_CELLS = 2**18
"""Most values that the sample takes from one batch: wide tables have more batches of fewer rows."""

_LEAST_BATCH_SAMPLE = 2**10
"""Rows that the sample takes from one batch at least, even if they have more values than that."""

_RARE = 0.01
"""Quantile of the model's log p(x) below which a row is rare."""

_MOST_OUTSIDE = 0.05
"""Share of rows outside of what training saw above which shares of classes are not estimated."""

_ALL_ROWS, _SURE_POSTERIOR = 0.99, 0.9
"""An estimated share above and a mean posterior below go together only if p(x | c) changed."""

_MOST_COLUMNS = 100
"""Columns with bins in a report: those that differ most."""


@dataclass(frozen=True)
class Sample:
    """Rows of one batch: its rows 0, s, 2s, ….

    Attributes:
        stride: s.
        bins: bin of each column, ``(d, m)`` uint8.
        log_probability: log P(c | x), ``(k, m)``; of more than `MOST_CLASSES` classes, ``(0, m)``.
    """

    stride: int
    bins: np.ndarray
    log_probability: FloatArray

    def thin(self, stride: int) -> Sample:
        """Every row whose number is a multiple of a larger stride."""
        step = stride // self.stride
        if step == 1:
            return self
        # A copy, because a view would keep the rows that are left out in memory.
        logs = self.log_probability[:, ::step].copy()
        return Sample(stride, self.bins[:, ::step].copy(), logs)


@dataclass(frozen=True)
class HealthSums:
    """Sums over rows; those of consecutive rows add up.

    Attributes:
        rows: number of rows.
        columns: numbers of nulls, unseen categories and values outside the range of the training
            rows, by column: ``(3, d)``.
        predicted: number of rows that each class is predicted for, ``(k,)``.
        probability: Σ P(c | x) of each class, ``(k,)``.
        rare: number of rows below the 1 % quantile of the model's log p(x).
        impossible: number of rows with p(x) = 0.
        samples: sampled rows of each batch, all with the same stride.
    """

    rows: int
    columns: np.ndarray
    predicted: np.ndarray
    probability: FloatArray
    rare: int
    impossible: int
    samples: tuple[Sample, ...]

    def __add__(self, other: HealthSums) -> HealthSums:
        """The sums over the rows of both, those of ``self`` first."""
        sums = {name: value + getattr(other, name) for name, value in vars(self).items()}
        return HealthSums(**{**sums, "samples": _thinned(sums["samples"])})


class HealthMeter:
    """Measures the health of the rows that a model scores.

    Args:
        model: model that scores the rows.

    Attributes:
        columns: what the model expects of each feature.
        prior: share of each class under which the posteriors are, ``(k,)``.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.columns = expected_columns(model)
        self.prior = source_prior(model)

    def under(self, prior: Mapping[str, float] | None) -> HealthMeter:
        """The same for posteriors under these shares of the classes; None for those of training."""
        if prior is None:
            return self
        shifted = copy(self)
        shifted.prior = prior_vector(self.model, prior)
        return shifted

    @cached_property
    def _rare_below(self) -> float | None:
        """Log p(x) below which a row is rare, or None if the model does not say."""
        quantiles = self.model.density_quantiles
        if quantiles is None or quantiles["quantile"][0].as_py() > _RARE:
            return None
        return log_density_quantile(quantiles, _RARE)

    def zero(self) -> HealthSums:
        """The sums over no rows."""
        size = len(self.model.classes)
        return HealthSums(
            rows=0,
            columns=np.zeros((3, len(self.columns)), np.int64),
            predicted=np.zeros(size, np.int64),
            probability=np.zeros(size),
            rare=0,
            impossible=0,
            samples=(),
        )

    def measure(self, rows: Rows, posterior: Posterior, decisions: Decisions) -> HealthSums:
        """The sums over a batch; safe to call from several threads.

        Args:
            rows: the features of ``n`` rows.
            posterior: posteriors of the rows, as they are served.
            decisions: decisions about the rows.
        """
        size = len(rows)
        cells = _BATCH_CELLS // max(1, len(self.columns))
        most = min(_BATCH_SAMPLE, max(cells, _LEAST_BATCH_SAMPLE))
        stride = 1 << max(0, (-(-size // most) - 1).bit_length())
        counts, bins = zip(*(column.measure(rows, stride) for column in self.columns), strict=True)
        probability, choice = posterior.probability, decisions.prediction
        density = posterior.log_density
        kept = probability.shape[1] if probability.shape[1] <= MOST_CLASSES else 0
        return HealthSums(
            rows=size,
            columns=np.array(counts, np.int64).T,
            predicted=np.bincount(choice[choice != MISSING], minlength=probability.shape[1]),
            probability=probability.sum(axis=0),
            rare=0 if self._rare_below is None else int((density < self._rare_below).sum()),
            impossible=int(np.isneginf(density).sum()),
            samples=(
                Sample(stride, np.stack(bins), posterior.log_probability[::stride, :kept].T.copy()),
            ),
        )

    def total(self, sums: Iterable[HealthSums]) -> HealthSums:
        """The sums over all rows, given those of consecutive rows in order."""
        return sum(sums, self.zero())

    @single_threaded_blas()  # its rounding must not depend on the number of threads
    def health(self, sums: HealthSums) -> Health:
        """The health of the rows of at least one row."""
        sample, rows = _concatenated(sums.samples), sums.rows
        measured = zip(self.columns, (sums.columns / rows).T, sample.bins, strict=True)
        density = None
        if self.model.normalized:
            density = DensityHealth(
                rare=None if self._rare_below is None else rounded(sums.rare / rows),
                impossible=rounded(sums.impossible / rows),
            )
        health = Health(
            rows=rows,
            sampled=sample.bins.shape[1],
            rejected=rounded(1.0 - sums.predicted.sum() / rows),
            columns=_with_fewer_bins(
                {column.name: column.health(shares, bins) for column, shares, bins in measured}
            ),
            classes={},
            log_density=density,
        )
        estimate, unestimated = self._estimated_shares(health, sample)
        names, shares = self.model.class_names, sums.probability / rows
        shown = sorted(np.argsort(-shares, kind="stable")[:MOST_CLASSES].tolist())
        classes = {
            names[i]: ClassHealth(
                predicted=rounded(sums.predicted[i] / rows),
                expected=rounded(shares[i]),
                prior=rounded(self.prior[i]),
                estimated=None if estimate is None else rounded(estimate.shares[i]),
                error=None if estimate is None else rounded(estimate.errors[i]),
            )
            for i in shown
        }
        return replace(health, classes=classes, unestimated=unestimated)

    def _estimated_shares(
        self, health: Health, sample: Sample
    ) -> tuple[Shares, None] | tuple[None, str]:
        """The shares of the classes under a label shift, or why there is none, as a sentence."""
        if len(self.prior) > MOST_CLASSES:
            return None, f"There are more than {MOST_CLASSES} classes."
        # Of rows outside of what training saw p(x) is not that of a label shift.
        limit = _MOST_OUTSIDE + 3.0 * math.sqrt(_MOST_OUTSIDE * (1 - _MOST_OUTSIDE) / health.rows)
        for check, _, share, _, what in health.shares():
            if check != "nulls" and share is not None and share > limit:
                return None, f"{what} in {share:.1%} of the rows."
        used = used_rows(sample.bins.shape[1], len(self.prior))
        probability = np.exp(np.ascontiguousarray(sample.log_probability[:, used].T))
        estimate = estimate_shares(probability, self.prior)
        number = int(np.argmax(estimate.shares))
        posterior = float(probability[:, number].mean())
        if estimate.shares[number] > _ALL_ROWS and posterior < _SURE_POSTERIOR:
            return None, (
                f"The estimated shares put all rows into class {self.model.class_names[number]!r}, "
                f"whose mean posterior is {posterior:.1%}, so that not only the shares of "
                "the classes changed."
            )
        return estimate, None


def _thinned(samples: tuple[Sample, ...]) -> tuple[Sample, ...]:
    """Samples with one stride, the smallest with which they are few enough."""
    stride = max((sample.stride for sample in samples), default=1)
    thin = tuple(sample.thin(stride) for sample in samples)
    # A batch keeps at least one row.
    while len(thin) < sum(sample.bins.shape[1] for sample in thin) > SAMPLE_ROWS:
        stride *= 2
        thin = tuple(sample.thin(stride) for sample in thin)
    return thin


def _concatenated(samples: Sequence[Sample]) -> Sample:
    bins = np.concatenate([sample.bins for sample in samples], axis=1)
    logs = np.concatenate([sample.log_probability for sample in samples], axis=1)
    return Sample(samples[0].stride, bins, logs)


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
