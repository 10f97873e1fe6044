"""What each column adds to the log odds of a row's class, and to the surprise of the row.

The log odds of the class c that is chosen for a row against its runner-up r, the most probable
other class, and the surprise of the row are sums over columns::

    log P(c | x) − log P(r | x) = prior + bias + Σ_j contribution_j + calibration
    −log p(x)                   = class + Σ_j surprise_j

The contribution of a column is its weight of evidence, log p(x_j | c) − log p(x_j | r): of a model
with block weights in each block times the weight of the block. Its surprise is −log p(x_j | b)
under the class b that explains the row best, that of the largest P(b) p(x | b), given the columns
that its block is given. As p(x) is a sum over classes, the rest of the surprise is what b adds:
log P(b | x) − log P(b), both of the product that is the density.

A block of several columns contributes to each of them if its log-likelihood is a sum over them, and
otherwise as one, under its own name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from probclass_core.arrow.arrays import FloatArray, IntArray, batch_rows
from probclass_core.arrow.rows import Rows
from probclass_core.estimation.contract import FactorizedLikelihood, ItemizedLikelihood, Likelihood
from probclass_core.model.block_weights import BlockValues, CompiledBlock
from probclass_core.model.model import Model
from probclass_core.model.posterior import Posterior, largest
from probclass_core.spec.model_spec import Block

_BATCHES = 4
"""Batches of ordinary size that the numbers of one may take, since its columns are worked on
one after another."""

ROUNDING = 1e-9
"""Nats by which the contributions of columns may differ from that of their block."""


def sums_over_columns(block: Block, likelihood: Likelihood) -> bool:
    """Whether each column of a block contributes by itself, as `column_log_likelihoods` says."""
    is_sum = block.estimator_class.factorizes and not isinstance(likelihood, ItemizedLikelihood)
    return is_sum or len(block.columns) == 1


def column_log_likelihoods(
    block: Block, likelihood: Likelihood, rows: Rows
) -> Sequence[FloatArray]:
    """log p(x_j | c) of each column of a block that is a sum over them, ``(n, k)`` each.

    A null is marginalized (law 5 of `contract`), so a row in which all other columns are null has
    the column's own factor as its likelihood. Columns that the block is given keep their values.
    """
    if len(block.columns) == 1:
        return [likelihood.log_likelihood(rows)]
    if isinstance(likelihood, FactorizedLikelihood):
        return list(likelihood.log_factors(rows))
    return [
        likelihood.log_likelihood(rows.without([one for one in block.columns if one != name]))
        for name in block.columns
    ]


class Contributions:
    """The sums of a model whose log p(x), or log odds of two classes, are wanted by column.

    Args:
        model: the model.
        log_ratio: what `Model.decide` adds to the log posteriors, ``(k,)``; None for nothing.

    Attributes:
        log_prior: log prior of the classes under which the posteriors are, ``(k,)``.
        log_odds_terms: terms of the log odds.
        surprise_terms: terms of −log p(x).
        log_odds_names: names of the terms of `log_odds`; none if there is one class.
        surprise_names: names of the terms of `surprise`; none if log p(x) is not a density.
    """

    def __init__(self, model: Model, log_ratio: FloatArray | None = None) -> None:
        self._model = model
        self.log_prior = model.log_prior + (0.0 if log_ratio is None else log_ratio)
        several = len(model.classes) > 1
        others = ["prior", "bias", "calibration"]
        if model.weights is None:
            others.remove("bias")
        if model.calibrator is None:
            others.remove("calibration")
        blocks = model.compiled_blocks
        pool = [one for one in blocks if one.block in model.spec.pool]
        density = [replace(one, factor=None) for one in blocks if one.in_density]
        self.log_odds_terms = Terms(pool, others)
        self.surprise_terms = Terms(density, ["class"] if several else [])
        self.log_odds_names = self.log_odds_terms.names if several else []
        self.surprise_names = self.surprise_terms.names if model.normalized else []

    @property
    def columns(self) -> list[str]:
        """Names of the columns of a scored table: the runner-up, then a column for each term."""
        return [
            *(["runner_up"] if self.log_odds_names else []),
            *(f"contribution_{name}" for name in self.log_odds_names),
            *(f"surprise_{name}" for name in self.surprise_names),
        ]

    @property
    def batch_rows(self) -> int:
        """Number of rows to score at once, so that what is kept of them fits in memory."""
        size = len(self._model.classes)
        numbers = len(self.log_odds_names) + len(self.surprise_names)
        for one in self._model.compiled_blocks:
            numbers += 1 if one.has_table else size * len(one.block.columns)
        return min(self._model.batch_rows, batch_rows(numbers // _BATCHES))

    def log_odds(
        self, rows: Rows, posterior: Posterior, choice: IntArray, runner_up: IntArray
    ) -> dict[str, FloatArray]:
        """What each term adds to log P(choice | x) − log P(runner-up | x), ``(n,)`` by name.

        Of a row that no class explains, the contributions of the columns are NaN, for its posterior
        is the prior. The calibration is NaN if the log odds were infinite before it.

        Args:
            rows: ``n`` rows that keep results.
            posterior: their posteriors, as `Model.decide` returns them.
            choice: position of a class, ``(n,)``.
            runner_up: position of another one, ``(n,)``.
        """
        model = self._model

        def difference(values: BlockValues) -> FloatArray:
            return values.of(choice) - values.of(runner_up)

        with np.errstate(invalid="ignore"):
            sums = self.log_odds_terms.sums(rows, difference)
            others = {"prior": self.log_prior[choice] - self.log_prior[runner_up]}
            if model.weights is not None:
                others["bias"] = model.weights.bias[choice] - model.weights.bias[runner_up]
            elif (unexplained := np.isneginf(posterior.log_density)).any():
                for of_term in sums.values():
                    of_term[unexplained] = np.nan
            if model.calibrator is not None:
                total = sum(others.values()) + np.nansum(list(sums.values()), axis=0)
                change = posterior.log_odds(choice, runner_up) - total
                others["calibration"] = np.where(np.isfinite(total), change, np.nan)
        return sums | {self.log_odds_terms.others[name]: others[name] for name in others}

    def best_class(self, rows: Rows) -> IntArray:
        """The position of the class that explains each row best, ``(n,)``."""
        return largest(self._joint(rows))

    def _joint(self, rows: Rows) -> FloatArray:
        """log p(x, c) of the product of the blocks, ``(n, k)``."""
        weighted, product = self._model.log_likelihoods(rows)
        joint: FloatArray = (weighted if product is None else product) + self._model.log_prior
        return joint

    def surprise(self, rows: Rows) -> dict[str, FloatArray]:
        """What each term adds to −log p(x), ``(n,)`` by name.

        Of a row that no class explains, some are infinite, and the class adds 0.

        Args:
            rows: ``n`` rows that keep results.
        """
        joint = self._joint(rows)
        best = largest(joint)
        sums = self.surprise_terms.sums(rows, lambda values: -values.of(best))
        for density in self._model.compiled_bin_densities:
            sums[self.surprise_terms.of_column[density.feature]] -= density.log(rows)
        for name in self.surprise_terms.others.values():
            # From differences: log p(x) may be far larger, and its digits would be lost.
            of_best = BlockValues(joint.T, None).of(best)
            explained = ~np.isneginf(of_best)
            relative = joint - np.where(explained, of_best, 0.0)[:, None]
            total = np.where(explained, np.exp(relative).sum(axis=1), 1.0)
            prior = np.where(explained, self._model.log_prior[best], 0.0)
            sums[name] = -np.log(total) - prior
        return sums


class Terms:
    """Blocks that are summed, and the names of what each adds to: columns, blocks, other terms.

    Args:
        blocks: the blocks.
        others: other terms.

    Attributes:
        whole: the blocks that have one column, or contribute as a whole, each with its term.
        divided: the blocks of several columns that are sums over them.
        names: all names, columns first. One that is that of a column, too, ends with underscores.
        of_column: name of the term that each column is in, by column.
        of_block: name of the term of each block that is not, or not always, a sum over its columns.
        others: names of the other terms.
    """

    def __init__(self, blocks: Sequence[CompiledBlock], others: Sequence[str]) -> None:
        self.whole: list[tuple[str, CompiledBlock]] = []
        self.divided: list[CompiledBlock] = []
        divides = {one.name: sums_over_columns(one.block, one.likelihood) for one in blocks}
        columns = (name for one in blocks if divides[one.name] for name in one.block.columns)
        self.names = list(dict.fromkeys(columns))
        self.of_column = {name: name for name in self.names}
        self.of_block: dict[str, str] = {}
        for one in blocks:
            several = len(one.block.columns) > 1
            # The limit of block weights applies to a block as a whole.
            if not divides[one.name] or (one.factor is not None and several):
                self.of_block[one.name] = self._add(one.name)
                for column in one.block.columns:
                    self.of_column.setdefault(column, self.of_block[one.name])
            if one.factor == 0.0:
                continue
            if several and divides[one.name]:
                self.divided.append(one)
            else:
                self.whole.append((self.of_block.get(one.name, one.block.columns[0]), one))
        self.others = {name: self._add(name) for name in others}

    def _add(self, name: str) -> str:
        while name in self.names:
            name += "_"
        self.names.append(name)
        return name

    def sums(
        self, rows: Rows, number_of: Callable[[BlockValues], FloatArray]
    ) -> dict[str, FloatArray]:
        """The sums over blocks by name, ``(n,)`` each, without the other terms.

        Args:
            rows: ``n`` rows that keep results.
            number_of: number of each row, ``(n,)``, from the values of a block or a column.
        """
        sums = dict(zip(self.names, np.zeros((len(self.names), len(rows))), strict=True))
        for name, _, part in self.parts(rows, number_of):
            sums[name] += part
        return sums

    def parts(
        self, rows: Rows, number_of: Callable[[BlockValues], FloatArray]
    ) -> Iterator[tuple[str, CompiledBlock | None, FloatArray]]:
        """The summands of `sums`, which has the arguments.

        Yields:
            Term, block, number of each row ``(n,)``. The block is None for what a column adds to a
            block that is a sum over them. Where the limit of block weights applies, such a block
            counts as a whole; in all other rows it is 0.
        """
        for name, one in self.whole:
            yield name, one, number_of(one.weighted(rows, one.log(rows)))
        for one in self.divided:
            logs = rows.kept(
                (one.name, "columns"),
                partial(column_log_likelihoods, one.block, one.likelihood, rows),
            )
            parts = np.stack([number_of(BlockValues(log.T, None)) for log in logs])
            if one.factor is not None:
                whole = number_of(one.weighted(rows, one.log(rows)))
                parts *= one.factor
                rest = whole - parts.sum(axis=0)
                limited = ~(np.abs(rest) <= ROUNDING * np.maximum(1.0, np.abs(whole)))
                parts[:, limited] = 0.0
                yield self.of_block[one.name], one, np.where(limited, whole, 0.0)
            for column, part in zip(one.block.columns, parts, strict=True):
                yield column, None, part
