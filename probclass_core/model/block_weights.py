"""Block weights: how far the posterior trusts each block, fitted on rows that it did not see.

A product of blocks counts twice what two blocks both know. A weighted model is a log-linear pool::

    log P(c | x) = log P(c) + b_c + Σ_B w_B · s_B,c(x) − (the same for every class)

where s_B,c(x) is log p(x_B | c), at most `CAP` nats below that of the block's best class; from that
of a block of columns given others, s of the block of the same columns alone is subtracted if there
is one, so that its weight is about what the given columns add. Weights
w ≥ 0 and a bias b per class maximize the log-likelihood of the labels, minus `_WEIGHT_PENALTY` nats
per unit of weight and ½ Σ b². The problem is convex, so its solution does not depend on the start.
With w = 1 and b = 0 it is the naive Bayes classifier (Zaidi, Cerquides, Carman and Webb,
"Alleviating naive Bayes attribute independence assumption by attribute weighting", JMLR 14, 2013).

Weights are fitted on a sample of the training rows (see `kinds.sample`) and on likelihoods of
parameters that did not see the row: by exact leave-one-out if the estimator has it, else in five
folds of the sample, each scored by the merged statistics of the other four. Likelihoods of rows
that a block was trained on would reward the block that remembers most.

They are stored as a table: term (``"block"`` or ``"class"``), name, value (w or b), importance (of
a block: the increase of the mean log loss of the sample's rows, in nats, without the block).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.arrow.arrays import BoolArray, FloatArray, IntArray, label_codes
from probclass_core.arrow.rows import Rows
from probclass_core.errors import DataError
from probclass_core.estimation.contract import (
    CellLikelihood,
    Estimator,
    LeaveOneOut,
    Likelihood,
)
from probclass_core.estimation.kinds.sample import COUNT, HASH
from probclass_core.estimation.statistics import Statistics, bind
from probclass_core.execution.threads import single_threaded_blas
from probclass_core.spec.model_spec import Block, ModelSpec, category_text

CAP = 20.0
"""Nats by which a block may put a class below its best one: a row may contradict a model so much
that no weight could repair it."""

_WEIGHT_PENALTY = 2.0
"""Nats of log-likelihood that a unit of weight must gain."""

_FOLDS = 5

_MAX_CELLS = 1 << 25
"""Log-likelihoods in memory, rows × classes × blocks: 256 MiB."""

_MIN_ROWS = 256
"""Rows that weights are fitted on, however many classes and blocks there are."""

_ITERATIONS = 500


@dataclass(frozen=True)
class BlockWeights:
    """The weights of a model's blocks and the biases of its classes.

    Attributes:
        by_block: w of each block, by name.
        factors: what s of each block is multiplied by in total, by name: its weight, minus those of
            the blocks that it is subtracted from.
        bias: b of each class, ``(k,)``.
    """

    by_block: Mapping[str, float]
    factors: Mapping[str, float]
    bias: FloatArray

    @classmethod
    def from_table(cls, table: pa.Table, spec: ModelSpec) -> BlockWeights:
        """Read weights from their table: one row per block of the spec, then one per class."""
        values = table["value"].to_pylist()
        names = [str(block.name) for block in spec.blocks]
        by_block = dict(zip(names, values, strict=False))
        factors = dict(by_block)
        for name, base in base_blocks(spec.blocks).items():
            factors[base] -= by_block[name]
        return cls(by_block, factors, np.array(values[len(names) :]))


class WeightedBlocks:
    """The blocks of a model that count in its posterior, compiled for use on many batches.

    Args:
        weights: weights and biases.
        blocks: all blocks of the model.
        likelihoods: their likelihoods, by name.
    """

    def __init__(
        self,
        weights: BlockWeights,
        blocks: Sequence[Block],
        likelihoods: Mapping[str, Likelihood],
    ) -> None:
        self._bias = weights.bias[:, None]
        self._lookups: list[_Lookup] = []
        self._others: list[tuple[Likelihood, float]] = []
        for block in blocks:
            name = str(block.name)
            likelihood, factor = likelihoods[name], weights.factors[name]
            lookup = likelihood if isinstance(likelihood, CellLikelihood) else None
            table = None if lookup is None else lookup.cell_log_likelihood
            if lookup is None or table is None:
                self._others.append((likelihood, factor))
            else:
                self._lookups.append(_Lookup(lookup, factor, table))

    def log_likelihood(self, rows: Rows) -> FloatArray:
        """b_c + Σ_B w_B s_B,c of ``n`` rows, ``(n, k)``."""
        total = np.tile(self._bias, (1, len(rows)))
        for lookup in self._lookups:
            if lookup.factor:
                total += lookup.weighted.take(lookup.likelihood.cells(rows), axis=1)
        for likelihood, factor in self._others:
            if factor:
                log = likelihood.log_likelihood(rows)
                total += factor * below_best(log).T
        return total.T

    def log_likelihoods(self, rows: Rows) -> tuple[FloatArray, FloatArray]:
        """`log_likelihood`, and Σ_B log p(x_B | c), in one pass: each ``(n, k)``."""
        classes = len(self._bias)
        total = np.zeros((2 * classes, len(rows)))
        weighted, product = total[:classes], total[classes:]
        weighted += self._bias
        for lookup in self._lookups:
            total += lookup.both.take(lookup.likelihood.cells(rows), axis=1)
        for likelihood, factor in self._others:
            log = likelihood.log_likelihood(rows)
            product += log.T
            if factor:
                weighted += factor * below_best(log).T
        return weighted.T, product.T


@dataclass(frozen=True)
class _Lookup:
    """A block whose log-likelihoods are columns of a table.

    Attributes:
        likelihood: gives the column of each row.
        factor: what s of the block is multiplied by.
        table: log p(x | c) of each cell, ``(k, cells)``.
    """

    likelihood: CellLikelihood
    factor: float
    table: FloatArray

    @cached_property
    def weighted(self) -> FloatArray:
        """factor · s of each cell, ``(k, cells)``."""
        return np.ascontiguousarray(self.factor * below_best(self.table.T).T)

    @cached_property
    def both(self) -> FloatArray:
        """`weighted` and below it `table`, ``(2k, cells)``."""
        return np.concatenate([self.weighted, self.table])


def base_blocks(blocks: Sequence[Block]) -> dict[str, str]:
    """For blocks with given columns, the block of the same columns and estimator without them."""
    alone = {
        (block.estimator, block.columns): str(block.name) for block in blocks if not block.given
    }
    bases = {
        str(block.name): alone.get((block.estimator, block.columns))
        for block in blocks
        if block.given
    }
    return {name: base for name, base in bases.items() if base is not None}


def below_best(log_likelihood: FloatArray) -> FloatArray:
    """Log-likelihoods relative to the best class of each row, at least −`CAP`: ``(n, k)``.

    A row that is impossible in every class says nothing: it is 0 in all of them.
    """
    best = log_likelihood.max(axis=1, keepdims=True)
    impossible = np.isneginf(best)
    relative: FloatArray = log_likelihood - np.where(impossible, 0.0, best)
    np.maximum(relative, -CAP, out=relative)
    if impossible.any():
        relative[impossible[:, 0]] = 0.0
    return relative


def ranked_blocks(table: pa.Table) -> pa.Table:
    """The blocks of a table of weights: block, weight, importance; the most important first."""
    blocks = table.filter(pc.equal(table["term"], "block"))
    order = [("importance", "descending"), ("value", "descending"), ("name", "ascending")]
    ranked = blocks.sort_by(order).select(["name", "value", "importance"])
    return ranked.rename_columns(["block", "weight", "importance"])


def given_weights(
    weights: Mapping[str, float], blocks: Sequence[str], classes: pa.Array
) -> pa.Table:
    """The table of weights that a spec gives as numbers; other blocks weigh 1, biases are 0."""
    return _table(
        blocks,
        np.array([weights.get(name, 1.0) for name in blocks]),
        [None] * len(blocks),
        classes,
        np.zeros(len(classes)),
    )


def fit_block_weights(
    statistics: Statistics,
    parameters: Mapping[str, pa.Table],
    classes: pa.Array,
    log_prior: FloatArray,
) -> tuple[pa.Table, dict[str, Any]]:
    """Fit the weights of a model on the sample of its statistics.

    Args:
        statistics: statistics of all rows, with a sample.
        parameters: parameters of all rows, by block name.
        classes: ``k`` labels.
        log_prior: log P(c), ``(k,)``.

    Returns:
        The table of weights, and plain values about the fit: number of different rows; mean log
        loss of their labels under the prior, the product of the blocks and the weighted blocks; the
        blocks that four of five folds are too few rows for, with the reason.
    """
    names = [str(block.name) for block in statistics.spec.blocks]
    problem, left_out = weight_problem(statistics, parameters, classes, log_prior)
    product = np.ones(len(names))
    for base in base_blocks(statistics.spec.blocks).values():
        product[names.index(base)] += 1.0
    weights, bias = problem.solve()
    return _table(names, weights, problem.importance(weights, bias), classes, bias), {
        "rows": len(problem.truth),
        "prior_log_loss": problem.log_loss(np.zeros(len(names)), np.zeros(len(classes))),
        "product_log_loss": problem.log_loss(product, np.zeros(len(classes))),
        "log_loss": problem.log_loss(weights, bias),
        **({"left_out": left_out} if left_out else {}),
    }


def weight_problem(
    statistics: Statistics,
    parameters: Mapping[str, pa.Table],
    classes: pa.Array,
    log_prior: FloatArray,
) -> tuple[WeightProblem, dict[str, str]]:
    """The problem whose solution is the weights of a model.

    Args:
        statistics: statistics of all rows, with a sample.
        parameters: parameters of all rows, by block name.
        classes: ``k`` labels.
        log_prior: log P(c), ``(k,)``.

    Returns:
        The problem, and the blocks that four of five folds are too few rows for, with the reason.
    """
    spec = statistics.spec
    estimators = bind(spec, statistics.features, statistics.row_weight)
    sample = _Sample.of(statistics, classes, np.isfinite(log_prior))
    reference = int(np.argmax(log_prior))
    others = np.delete(np.arange(len(classes)), reference)
    factors = np.zeros((len(estimators), len(others), len(sample.truth)))
    left_out: dict[str, str] = {}
    for factor, (name, estimator) in zip(factors, estimators.items(), strict=True):
        try:
            said = sample.log_likelihood(estimator, statistics.blocks[name], parameters[name]).T
        except DataError as error:
            left_out[name] = str(error)
        else:
            np.subtract(said[others], said[reference], out=factor)
    names = [str(block.name) for block in spec.blocks]
    for name, base in base_blocks(spec.blocks).items():
        factors[names.index(name)] -= factors[names.index(base)]
    problem = WeightProblem(factors, log_prior, reference, sample.truth, sample.counts)
    return problem, left_out


def _table(
    blocks: Sequence[str],
    weights: FloatArray,
    importance: Sequence[float | None],
    classes: pa.Array,
    bias: FloatArray,
) -> pa.Table:
    names = [category_text(value) for value in classes.to_pylist()]
    return pa.table(
        {
            "term": pa.array(["block"] * len(blocks) + ["class"] * len(names), pa.string()),
            "name": pa.array([*blocks, *names], pa.string()),
            "value": np.concatenate([weights, bias]),
            "importance": pa.array([*importance, *[None] * len(names)], pa.float64()),
        }
    )


@dataclass(frozen=True)
class _Sample:
    """Rows to fit weights on.

    Attributes:
        rows: ``n`` different rows, in the order of their hashes.
        truth: position of the class of each row, ``(n,)``.
        counts: Σ w of the training rows with these values, ``(n,)``.
        classes: ``k`` labels.
    """

    rows: Rows
    truth: IntArray
    counts: FloatArray
    classes: pa.Array

    @classmethod
    def of(cls, statistics: Statistics, classes: pa.Array, possible: BoolArray) -> _Sample:
        """The sample of some statistics, without classes whose prior is 0."""
        spec, sample = statistics.spec, statistics.sample
        assert sample is not None  # `summarize_batches` takes one for every spec that fits weights
        for field in statistics.features:
            place = sample.schema.get_field_index(field.name)
            sample = sample.set_column(place, field, sample[field.name].cast(field.type))
        sample = sample.filter(pa.array(possible[label_codes(sample[spec.label], classes)]))
        most = max(_MIN_ROWS, _MAX_CELLS // (len(classes) * len(spec.blocks)))
        (batch,) = sample.slice(0, most).combine_chunks().to_batches()
        truth = label_codes(batch[spec.label], classes)
        return cls(Rows(batch), truth, batch[COUNT].to_numpy(), classes)

    def log_likelihood(
        self, estimator: Estimator, statistics: pa.Table, parameters: pa.Table
    ) -> FloatArray:
        """log p(x | c) of rows that the parameters did not see, relative to the best class.

        Args:
            estimator: estimator of a block.
            statistics: its statistics, of all rows.
            parameters: its parameters, of all rows.

        Raises:
            DataError: if four of five folds are too few rows for the estimator.
        """
        if isinstance(estimator, LeaveOneOut):
            # A row of weight 2 is two rows, of which one is left out.
            weights = np.minimum(self.counts, 1.0)
            return below_best(
                estimator.leave_one_out(
                    statistics, parameters, self.classes, self.rows, self.truth, weights
                )
            )
        result = np.full((len(self.truth), len(self.classes)), -CAP)
        fold = (self.rows.column(HASH).to_numpy() % np.uint64(_FOLDS)).astype(np.intp)
        members = [np.flatnonzero(fold == number) for number in range(_FOLDS)]
        members = [member for member in members if len(member)]
        if len(members) < 2:
            return np.zeros_like(result)
        parts = [self._summarize(estimator, member) for member in members]
        for number, member in enumerate(members):
            others = [part for other, part in enumerate(parts) if other != number]
            seen = np.unique(np.concatenate([m for i, m in enumerate(members) if i != number]))
            present = np.unique(self.truth[seen])
            classes = self.classes.take(pa.array(present))
            fitted = estimator.finalize(estimator.merge(others), classes)
            likelihood = estimator.likelihood(fitted, classes)
            scored = below_best(likelihood.log_likelihood(self.rows.take(member)))
            result[np.ix_(member, present)] = scored
            # Nothing can be said of rows whose class the other folds lack.
            result[member[~np.isin(self.truth[member], present)]] = 0.0
        return result

    def _summarize(self, estimator: Estimator, member: IntArray) -> pa.Table:
        codes = pa.DictionaryArray.from_arrays(pa.array(self.truth[member]), self.classes)
        return estimator.summarize(self.rows.take(member), codes, self.counts[member])


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
    """

    factors: FloatArray
    log_prior: FloatArray
    reference: int
    truth: IntArray
    counts: FloatArray

    def of(self, blocks: IntArray) -> WeightProblem:
        """The problem of some of the blocks, by their places."""
        return replace(self, factors=self.factors[blocks])

    def solve(self, start: FloatArray | None = None) -> tuple[FloatArray, FloatArray]:
        """The best weights ``(blocks,)`` and biases ``(k,)``.

        Args:
            start: weights and biases to start from; the solution does not depend on them.
        """
        from scipy.optimize import minimize

        size = len(self.factors)
        if start is None:
            start = np.concatenate([np.full(size, 0.5), np.zeros(len(self.log_prior))])
        bounds = [(0.0, None)] * size + [(None, None)] * len(self.log_prior)
        with single_threaded_blas():  # small products, whose threads would wait for each other
            best = minimize(
                self._value_and_gradient,
                start,
                jac=True,
                method="L-BFGS-B",
                bounds=bounds,
                options={"maxiter": _ITERATIONS, "maxcor": 20},
            ).x
        return best[:size], best[size:]

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
        """Second derivatives of the penalized loss by the weights, the biases being the best.

        Returns:
            The Hessian without the biases, by Schur's complement, ``(blocks, blocks)``.
        """
        _, probability = self._losses(self._scores(weights, bias))
        weighted = probability * self.counts
        size = len(self.factors)
        roots = (self.factors * np.sqrt(weighted)).reshape(size, -1)
        means = np.einsum("bcn,cn->bn", self.factors, probability)
        of_weights = roots @ roots.T - (means * self.counts) @ means.T
        mixed = np.einsum("bcn,cn->bc", self.factors, weighted) - means @ weighted.T
        of_biases = np.diag(weighted.sum(axis=1)) - weighted @ probability.T
        of_biases += np.eye(len(probability)) - 1.0 / len(self.log_prior)  # that of ½ Σ b²
        curvature: FloatArray = of_weights - mixed @ np.linalg.solve(of_biases, mixed.T)
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
        value = losses @ self.counts + _WEIGHT_PENALTY * weights.sum() + 0.5 * (bias @ bias)
        excess[self._true] -= 1.0
        excess *= self.counts
        of_class = excess.sum(axis=1)
        gradient = np.empty(len(terms))
        gradient[:size] = self.factors.reshape(size, -1) @ excess.ravel() + _WEIGHT_PENALTY
        gradient[size + self._others] = of_class
        gradient[size + self.reference] = -of_class.sum()
        gradient[size:] += bias
        return float(value), gradient
