"""Weights and biases under which rows have the most probable labels: a convex problem.

Weights w ≥ 0 of blocks and a bias b of each class maximize the log-likelihood of the labels under
the pool of `block_weights`, minus a penalty. It is convex, so its solution does not depend on the
start. The weights of a model are such a solution (`weight_fit`), and so is a calibration, which
weighs a single block, the scores of the model (`calibration`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from probclass_core.arrow.arrays import BoolArray, FloatArray, IntArray
from probclass_core.execution.threads import single_threaded_blas

_ITERATIONS = 500


class Fit(NamedTuple):
    """Weights w of the blocks ``(blocks,)`` and biases b of the classes ``(k,)``."""

    weights: FloatArray
    bias: FloatArray


@dataclass(frozen=True)
class WeightProblem:
    """The penalized log-likelihood of labels, as a function of weights and biases.

    Scores are relative to those of a reference class, which are 0: one class fewer to compute, half
    of the work if there are two.

    Attributes:
        factors: s of the other classes minus s of the reference, minus those of a base block,
            ``(blocks, k − 1, n)``.
        log_prior: ``(k,)``.
        reference: position of the reference, a class with a prior above 0.
        truth: positions of the true classes, ``(n,)``.
        counts: weights of the rows, ``(n,)``.
        most: largest weight.
        penalty: nats of log-likelihood that a unit of weight must gain, of all blocks or of each.
        pull: p of ½ p Σ (w − 1)², which pulls weights to 1.
    """

    factors: FloatArray
    log_prior: FloatArray
    reference: int
    truth: IntArray
    counts: FloatArray
    most: float = np.inf
    penalty: float | FloatArray = 0.0
    pull: float = 0.0

    def of(self, blocks: IntArray) -> WeightProblem:
        """The problem of some of the blocks, by their places."""
        return replace(self, factors=self.factors[blocks])

    def of_rows(self, chosen: BoolArray) -> WeightProblem:
        """The problem of some of the rows, by mask."""
        factors = self.factors.compress(chosen, axis=2)  # contiguous, which a mask is not
        truth, counts = self.truth[chosen], self.counts[chosen]
        return replace(self, factors=factors, truth=truth, counts=counts)

    def solve(self, start: Fit | None = None, precision: float = 1e-9) -> Fit:
        """The best weights and biases.

        Args:
            start: those to start from; the solution does not depend on them.
            precision: share of the loss that a step must gain.
        """
        from scipy.optimize import minimize

        size = len(self.factors)
        terms = np.concatenate(start or (np.full(size, 0.5), np.zeros(len(self.log_prior))))
        # In units of about one standard error, the curvature is similar in all directions.
        information = np.einsum("bcn,bcn,n->b", self.factors, self.factors, self.counts)
        of_class = np.bincount(self.truth, self.counts, len(self.log_prior))
        unit = 1.0 / np.sqrt(1.0 + np.append(information, of_class))
        bounds = [(0.0, self.most / each) for each in unit[:size]] + [(None, None)] * len(of_class)

        def objective(steps: FloatArray) -> tuple[float, FloatArray]:
            value, gradient = self._value_and_gradient(steps * unit)
            return value, gradient * unit

        with single_threaded_blas():  # small products, whose threads would wait for each other
            best = minimize(
                objective,
                terms / unit,
                jac=True,
                method="L-BFGS-B",
                bounds=bounds,
                options={"maxiter": _ITERATIONS, "maxcor": 20, "ftol": precision, "gtol": 1e-6},
            ).x
        return Fit(*np.split(best * unit, [size]))

    def log_loss(self, weights: FloatArray, bias: FloatArray) -> float:
        """Mean log loss of the labels, in nats."""
        losses, _ = self._losses(self._scores(weights, bias))
        return float(losses @ self.counts / self.counts.sum())

    def expected(self, weights: FloatArray, bias: FloatArray) -> FloatArray:
        """Σ P(c | x) of the rows: how many of each class are expected, ``(k,)``."""
        _, probability = self._losses(self._scores(weights, bias))
        others = (probability * self.counts).sum(axis=1)
        return np.insert(others, self.reference, self.counts.sum() - others.sum())

    def importance(self, weights: FloatArray, bias: FloatArray) -> list[float]:
        """The increase of the mean log loss without each block, in nats."""
        scores = self._scores(weights, bias)
        total, (losses, _) = self.counts.sum(), self._losses(scores)
        increases = []
        for weight, factor in zip(weights, self.factors, strict=True):
            without = self._losses(scores - weight * factor)[0] if weight else losses
            increases.append(float((without - losses) @ self.counts / total))
        return increases

    def slopes(self, weights: FloatArray, bias: FloatArray) -> FloatArray:
        """Derivatives of the loss of each row by the weights, ``(blocks, n)``."""
        _, excess = self._losses(self._scores(weights, bias))
        excess[self._true] -= 1.0
        slopes: FloatArray = np.einsum("bcn,cn->bn", self.factors, excess * self.counts)
        return slopes

    @single_threaded_blas()
    def curvature(self, weights: FloatArray, bias: FloatArray) -> FloatArray:
        """Second derivatives of the penalized loss by weights and biases."""
        _, probability = self._losses(self._scores(weights, bias))
        weighted = probability * self.counts
        size = len(self.factors)
        roots = (self.factors * np.sqrt(weighted)).reshape(size, -1)
        means = np.einsum("bcn,cn->bn", self.factors, probability)
        relative = np.eye(len(self.log_prior))[self._others]  # biases less that of the reference
        relative[:, self.reference] = -1.0
        mixed = (np.einsum("bcn,cn->bc", self.factors, weighted) - means @ weighted.T) @ relative
        of_biases = np.diag(weighted.sum(axis=1)) - weighted @ probability.T
        curvature = np.eye(size + len(self.log_prior))  # that of ½ Σ b²
        curvature[:size, :size] *= self.pull
        curvature[:size, :size] += roots @ roots.T - (means * self.counts) @ means.T
        curvature[:size, size:], curvature[size:, :size] = mixed, mixed.T
        curvature[size:, size:] += relative.T @ of_biases @ relative
        return curvature

    @cached_property
    def _others(self) -> IntArray:
        """Positions of the classes besides the reference."""
        return np.delete(np.arange(len(self.log_prior)), self.reference)

    @cached_property
    def _true(self) -> tuple[IntArray, IntArray]:
        """Where a score is that of the true class: rows of the scores, and their columns."""
        place = np.full(len(self.log_prior), -1)
        place[self._others] = np.arange(len(self._others))
        (columns,) = np.nonzero(self.truth != self.reference)
        return place[self.truth[columns]], columns

    def _scores(self, weights: FloatArray, bias: FloatArray) -> FloatArray:
        """log P(c | x) − log P(reference | x), ``(k − 1, n)``."""
        prior = self.log_prior + bias
        scores = (weights @ self.factors.reshape(len(weights), -1)).reshape(self.factors.shape[1:])
        scores += (prior[self._others] - prior[self.reference])[:, None]
        return scores

    def _losses(self, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        """−log P(true class) of each row, and P(c) ``(k − 1, n)``."""
        peak = scores.max(axis=0, initial=0.0)
        probability = np.exp(scores - peak)
        sums = probability.sum(axis=0) + np.exp(-peak)
        probability /= sums
        losses: FloatArray = peak + np.log(sums)
        place, columns = self._true
        losses[columns] -= scores[place, columns]
        return losses, probability

    def _value_and_gradient(self, terms: FloatArray) -> tuple[float, FloatArray]:
        """The penalized loss in nats, and its gradient, in weights and biases."""
        size = len(self.factors)
        weights, bias = terms[:size], terms[size:]
        losses, excess = self._losses(self._scores(weights, bias))
        value = losses @ self.counts + np.sum(self.penalty * weights) + 0.5 * (bias @ bias)
        value += 0.5 * self.pull * ((weights - 1.0) @ (weights - 1.0))
        excess[self._true] -= 1.0
        excess *= self.counts
        of_class = excess.sum(axis=1)
        gradient = np.empty(len(terms))
        gradient[:size] = self.factors.reshape(size, -1) @ excess.ravel()
        gradient[:size] += self.penalty + self.pull * (weights - 1.0)
        gradient[size + self._others] = of_class
        gradient[size + self.reference] = -of_class.sum()
        gradient[size:] += bias
        return float(value), gradient
