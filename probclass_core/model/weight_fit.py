"""The fit of block weights, on rows that no block was trained on.

Weights w ≥ 0 of the blocks and a bias b of each class maximize the log-likelihood of the labels,
minus a penalty in nats per unit of weight and ½ Σ b², over a sample of the training rows (see
`kinds.sample`, `weight_problem`).

What a block says of a row is said by parameters that saw neither the row nor its group, see
`left_out`: likelihoods of rows that a block was trained on would reward the block that remembers
most. Rows of one group are alike, so how much weights should be held back is found by leaving
groups out as well: each penalty λ of `_PENALTIES` is tried on four folds of G groups. A dozen
groups hardly tell which is the best, so the weights are the mean of those under each penalty, a
group counting as one observation for it (for each block, λ is multiplied by `_errors_by_group`)::

    w = Σ_λ a_λ w_λ        a_λ ∝ exp(−G · log loss of left-out groups under λ)

The mean of the log posteriors of pools of the same blocks is such a pool again.

How often a class comes changes with time by more than blocks can tell: a flu begins, a kind of
storm gets its name. Partitions have an order, and the next one is most like the latest, so the
biases follow these a quarter of the way, see `_drift`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from probclass_core.arrow.arrays import FloatArray, IntArray
from probclass_core.errors import DataError
from probclass_core.model.block_weights import base_blocks, weights_table
from probclass_core.model.left_out import LeftOutRows
from probclass_core.model.model import Model
from probclass_core.model.weight_problem import Fit, WeightProblem

_PENALTIES = (2.0, 6.0, 20.0, 60.0)
"""Nats of log-likelihood that a unit of weight must gain: the first, or each by groups."""

_MOST_WEIGHT = 1.0
"""Largest weight by groups, that of Bayes' rule. What is the same for all rows of a group, such as
no snow in summer, tells of a dozen groups only, and many rows of each would trust it many times."""

_OLDER = 0.25
"""What a partition counts for the drift of biases, next to the one after it."""

_DRIFT_ROWS = 3.0
"""Rows of each class, as many as are expected, that hold its drift back."""

_FOLDS = 4
"""Folds of the groups on which the penalty is chosen."""

_ROUGH = 1e-6
"""Share of the loss that a step must gain where fits only tell penalties apart."""

_MAX_CELLS = 1 << 25
"""Log-likelihoods in memory, rows × classes × blocks: 256 MiB."""

_MIN_ROWS = 256
"""Rows that weights are fitted on, however many classes and blocks there are."""


def fit_block_weights(rows: LeftOutRows) -> tuple[pa.Table, dict[str, Any]]:
    """Fit the weights of a model.

    Args:
        rows: at most `most_rows` rows that blocks did not see.

    Returns:
        The table of weights, and plain values about the fit: number of different rows; mean log
        loss of their labels under the prior, the product of the blocks and the weighted blocks; the
        number of groups, and the penalty that predicts left-out groups best; the blocks that the
        rows without a group are too few for, with the reason.
    """
    from scipy.special import softmax

    pool, classes = rows.statistics.spec.pool, rows.model.classes
    names = [str(block.name) for block in pool]
    problem, left_out = weight_problem(rows)
    product = np.ones(len(names))
    for base in base_blocks(pool).values():
        product[names.index(base)] += 1.0
    groups = len(np.unique(rows.group)) if rows.groups else 0
    penalties: list[float | FloatArray] = [_PENALTIES[0]]
    if groups > 1:
        errors = _errors_by_group(problem, rows.group)
        penalties = [penalty * errors for penalty in _PENALTIES]
    fits = _solve_each(problem, penalties)
    losses = np.zeros(1)
    if groups > 1:
        losses = _left_out_losses(problem, rows.group, penalties, fits)
    shares = softmax(-groups * losses)
    weights, bias = (np.tensordot(shares, terms, 1) for terms in zip(*fits, strict=True))
    latest = bias + _drift(problem, rows.group, Fit(weights, bias)) if rows.in_order else bias
    return weights_table(names, weights, problem.importance(weights, bias), classes, latest), {
        "rows": len(problem.truth),
        "prior_log_loss": problem.log_loss(np.zeros(len(names)), np.zeros(len(classes))),
        "product_log_loss": problem.log_loss(product, np.zeros(len(classes))),
        "log_loss": problem.log_loss(weights, bias),
        **({"groups": groups, "penalty": _PENALTIES[int(np.argmin(losses))]} if groups else {}),
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
    return WeightProblem(
        factors,
        log_prior,
        reference,
        rows.truth,
        rows.counts,
        most=_MOST_WEIGHT if rows.groups else np.inf,
        penalty=_PENALTIES[0],
    ), left_out


def _errors_by_group(problem: WeightProblem, group: IntArray) -> FloatArray:
    """How much less is known of each weight than as many independent rows would tell, at least 1.

    What rows say of a weight is the derivative of their loss. If a block errs in the same direction
    in all rows of a group, as on a month that was unlike the others, the sum over all rows has a
    larger standard error: by the root of the design effect (Kish, "Survey sampling", 1965)::

        √( Σ_g (s_g − mean of s)² / Σ_i s_i² )        s_g = Σ s_i of the rows of group g

    Args:
        problem: the problem of all rows.
        group: number of the group of each row, ``(n,)``.
    """
    slopes = problem.slopes(*replace(problem, penalty=_PENALTIES[1]).solve())
    of_groups = np.stack([np.bincount(group, of_block) for of_block in slopes])
    of_groups -= of_groups.mean(axis=1, keepdims=True)
    independent = np.maximum(np.square(slopes).sum(axis=1), np.finfo(np.float64).tiny)
    errors: FloatArray = np.sqrt(np.maximum(np.square(of_groups).sum(axis=1) / independent, 1.0))
    return errors


def _drift(problem: WeightProblem, group: IntArray, fit: Fit) -> FloatArray:
    """What is added to biases because the next partition is most like the latest, ``(k,)``.

    Of groups in order of time, each counts a quarter of the one after it::

        ¼ log( (rows of the class + 3) / (Σ P(c | x) + 3) )

    P is that of blocks which did not see the group, so that the ratio is what they could not tell.
    A quarter of its logarithm gives the mean of four log posteriors: three with the odds of all
    groups, and one with those of the latest.
    """
    latest = replace(problem, counts=problem.counts * _OLDER ** (group.max() - group))
    rows = np.bincount(latest.truth, latest.counts, len(latest.log_prior))
    drift: FloatArray = 0.25 * np.log((rows + _DRIFT_ROWS) / (latest.expected(*fit) + _DRIFT_ROWS))
    return drift


def _left_out_losses(
    problem: WeightProblem,
    group: IntArray,
    penalties: Sequence[float | FloatArray],
    fits: Sequence[Fit],
) -> FloatArray:
    """Mean log loss under each penalty of groups that the weights were not fitted on.

    Args:
        problem: the problem of all rows.
        group: number of the group of each row, ``(n,)``.
        penalties: the penalties, each of all blocks or ``(blocks,)``.
        fits: its solutions, near which those of most rows are.
    """
    fold = np.unique(group, return_inverse=True)[1] % _FOLDS
    losses: FloatArray = np.zeros(len(penalties))
    for number in np.unique(fold):
        seen, unseen = problem.of_rows(fold != number), problem.of_rows(fold == number)
        of_fold = [
            unseen.log_loss(*replace(seen, penalty=penalty).solve(fit, precision=_ROUGH))
            for penalty, fit in zip(penalties, fits, strict=True)
        ]
        losses += unseen.counts.sum() / problem.counts.sum() * np.array(of_fold)
    return losses


def _solve_each(problem: WeightProblem, penalties: Sequence[float | FloatArray]) -> list[Fit]:
    """Weights under each penalty, each found from those under the next larger one."""
    fits: list[Fit] = []
    for penalty in reversed(penalties):
        fits.append(replace(problem, penalty=penalty).solve(fits[-1] if fits else None))
    return fits[::-1]
