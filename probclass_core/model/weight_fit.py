"""The fit of block weights, on rows that no block was trained on.

Weights w ≥ 0 of the blocks and a bias b of each class maximize the log-likelihood of the labels,
minus a penalty in nats per unit of weight and ½ Σ b², over a sample of the training rows (see
`kinds.sample`). The problem is convex, so its solution does not depend on the start.

What a block says of a row is said by parameters that saw neither the row nor its group, see
`left_out`: likelihoods of rows that a block was trained on would reward the block that remembers
most. Rows of one group are alike, so how much weights should be held back is found by leaving
groups out as well: each penalty of `_PENALTIES` is tried on four folds of the groups.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from probclass_core.arrow.arrays import BoolArray, FloatArray, IntArray
from probclass_core.errors import DataError
from probclass_core.execution.threads import single_threaded_blas
from probclass_core.model.block_weights import base_blocks, weights_table
from probclass_core.model.left_out import LeftOutRows
from probclass_core.model.model import Model

_PENALTIES = (2.0, 6.0, 20.0, 60.0)
"""Nats of log-likelihood that a unit of weight must gain: the first, or the best among groups."""

_MOST_WEIGHT = 1.0
"""Largest weight by groups, that of Bayes' rule. What is the same for all rows of a group, such as
no snow in summer, tells of a dozen groups only, and many rows of each would trust it many times."""

_FOLDS = 4
"""Folds of the groups on which the penalty is chosen."""

_MAX_CELLS = 1 << 25
"""Log-likelihoods in memory, rows × classes × blocks: 256 MiB."""

_MIN_ROWS = 256
"""Rows that weights are fitted on, however many classes and blocks there are."""

_ITERATIONS = 500


def fit_block_weights(rows: LeftOutRows) -> tuple[pa.Table, dict[str, Any]]:
    """Fit the weights of a model.

    Args:
        rows: at most `most_rows` rows that blocks did not see.

    Returns:
        The table of weights, and plain values about the fit: number of different rows; mean log
        loss of their labels under the prior, the product of the blocks and the weighted blocks; the
        number of groups, and the penalty that was chosen among them; the blocks that the rows
        without a group are too few for, with the reason.
    """
    pool, classes = rows.statistics.spec.pool, rows.model.classes
    names = [str(block.name) for block in pool]
    problem, left_out = weight_problem(rows)
    product = np.ones(len(names))
    for base in base_blocks(pool).values():
        product[names.index(base)] += 1.0
    problem = problem.with_best_penalty()
    weights, bias = problem.solve()
    count = len(np.unique(problem.group))
    return weights_table(names, weights, problem.importance(weights, bias), classes, bias), {
        "rows": len(problem.truth),
        "prior_log_loss": problem.log_loss(np.zeros(len(names)), np.zeros(len(classes))),
        "product_log_loss": problem.log_loss(product, np.zeros(len(classes))),
        "log_loss": problem.log_loss(weights, bias),
        **({"groups": count, "penalty": problem.penalty} if count else {}),
        **({"left_out": left_out} if left_out else {}),
    }


def most_rows(model: Model) -> int:
    """Largest number of rows that the weights of a model are fitted on."""
    return max(_MIN_ROWS, _MAX_CELLS // (len(model.classes) * len(model.spec.pool)))


def weight_problem(rows: LeftOutRows) -> tuple[WeightProblem, dict[str, str]]:
    """The problem whose solution is the weights of a model.

    Args:
        rows: at most `most_rows` rows that blocks did not see.

    Returns:
        The problem, and the blocks that the rows without a group are too few for, with the reason.
    """
    pool, log_prior = rows.statistics.spec.pool, rows.model.log_prior
    reference = int(np.argmax(log_prior))
    others = np.delete(np.arange(len(log_prior)), reference)
    names = [str(block.name) for block in pool]
    factors = np.zeros((len(names), len(others), len(rows.truth)))
    left_out: dict[str, str] = {}
    for factor, name in zip(factors, names, strict=True):
        try:
            said = rows.evidence(name).T
        except DataError as error:
            left_out[name] = str(error)
        else:
            np.subtract(said[others], said[reference], out=factor)
    for name, base in base_blocks(pool).items():
        factors[names.index(name)] -= factors[names.index(base)]
    group = rows.group if rows.groups else np.empty(0, np.intp)
    problem = WeightProblem(factors, log_prior, reference, rows.truth, rows.counts, group)
    return problem, left_out


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
        group: number of the group of each row, ``(n,)``; empty if single rows are left out.
        penalty: nats of log-likelihood that a unit of weight must gain.
    """

    factors: FloatArray
    log_prior: FloatArray
    reference: int
    truth: IntArray
    counts: FloatArray
    group: IntArray = field(default_factory=lambda: np.empty(0, np.intp))
    penalty: float = _PENALTIES[0]

    def of(self, blocks: IntArray) -> WeightProblem:
        """The problem of some of the blocks, by their places."""
        return replace(self, factors=self.factors[blocks])

    def _of_rows(self, chosen: BoolArray) -> WeightProblem:
        """The problem of some of the rows, by mask."""
        return replace(
            self,
            factors=self.factors.compress(chosen, axis=2),  # contiguous, which a mask is not
            truth=self.truth[chosen],
            counts=self.counts[chosen],
            group=self.group[chosen],
        )

    def with_best_penalty(self) -> WeightProblem:
        """The problem with the penalty whose weights predict groups best that they did not see."""
        numbers = np.unique(self.group)
        if len(numbers) < 2:
            return self
        fold = np.searchsorted(numbers, self.group) % _FOLDS
        losses = np.zeros(len(_PENALTIES))
        for number in range(min(_FOLDS, len(numbers))):
            seen, unseen = self._of_rows(fold != number), self._of_rows(fold == number)
            fit = None
            for place, penalty in reversed([*enumerate(_PENALTIES)]):
                fit = replace(seen, penalty=penalty).solve(fit)
                losses[place] += unseen.log_loss(*fit) * unseen.counts.sum()
        return replace(self, penalty=_PENALTIES[int(np.argmin(losses))])

    def solve(self, start: Fit | None = None) -> Fit:
        """The best weights and biases.

        Args:
            start: those to start from; the solution does not depend on them.
        """
        from scipy.optimize import minimize

        size = len(self.factors)
        terms = np.concatenate(start or (np.full(size, 0.5), np.zeros(len(self.log_prior))))
        # In units of about one standard error, the curvature is similar in all directions.
        information = np.einsum("bcn,bcn,n->b", self.factors, self.factors, self.counts)
        of_class = np.bincount(self.truth, self.counts, len(self.log_prior))
        unit = 1.0 / np.sqrt(1.0 + np.append(information, of_class))
        most = _MOST_WEIGHT if len(self.group) else np.inf
        bounds = [(0.0, most / each) for each in unit[:size]] + [(None, None)] * len(of_class)

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
                options={"maxiter": _ITERATIONS, "maxcor": 20},
            ).x
        return Fit(*np.split(best * unit, [size]))

    def log_loss(self, weights: FloatArray, bias: FloatArray) -> float:
        """Mean log loss of the labels, in nats."""
        losses, _ = self._losses(self._scores(weights, bias))
        return float(losses @ self.counts / self.counts.sum())

    def importance(self, weights: FloatArray, bias: FloatArray) -> list[float]:
        """The increase of the mean log loss without each block, in nats."""
        scores = self._scores(weights, bias)
        total, (losses, _) = self.counts.sum(), self._losses(scores)
        increases = []
        for weight, factor in zip(weights, self.factors, strict=True):
            without = self._losses(scores - weight * factor)[0] if weight else losses
            increases.append(float((without - losses) @ self.counts / total))
        return increases

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
        curvature[:size, :size] = roots @ roots.T - (means * self.counts) @ means.T
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
        value = losses @ self.counts + self.penalty * weights.sum() + 0.5 * (bias @ bias)
        excess[self._true] -= 1.0
        excess *= self.counts
        of_class = excess.sum(axis=1)
        gradient = np.empty(len(terms))
        gradient[:size] = self.factors.reshape(size, -1) @ excess.ravel() + self.penalty
        gradient[size + self._others] = of_class
        gradient[size + self.reference] = -of_class.sum()
        gradient[size:] += bias
        return float(value), gradient
