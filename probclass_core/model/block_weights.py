"""Block weights: how far the posterior trusts each block, fitted on rows that it did not see.

A product of blocks counts twice what two blocks both know. A weighted model is a log-linear pool::

    log P(c | x) = log P(c) + b_c + Σ_B w_B · s_B,c(x) − (the same for every class)

where s_B,c(x) is log p(x_B | c), at most `CAP` nats below that of the block's best class; from that
of a block of columns given others, s of the block of the same columns alone is subtracted if there
is one, so that its weight is about what the given columns add. How w ≥ 0 and b are fitted is in
`weight_fit`. With w = 1 and b = 0 it is the naive Bayes classifier (Zaidi, Cerquides, Carman and
Webb, "Alleviating naive Bayes attribute independence assumption by attribute weighting", JMLR 14,
2013).

Weights are stored as a table: term (``"block"`` or ``"class"``), name, value (w or b), importance
(of a block: the increase of the mean log loss of the sample's rows, in nats, without the block).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.arrow.arrays import FloatArray
from probclass_core.arrow.rows import Rows
from probclass_core.estimation.contract import CellLikelihood, Likelihood
from probclass_core.spec.model_spec import Block, ModelSpec, category_text

CAP = 20.0
"""Nats by which a block may put a class below its best one: a row may contradict a model so much
that no weight could repair it."""


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
        """Read weights from their table: one row per block of the pool, then one per class."""
        values = table["value"].to_pylist()
        names = [str(block.name) for block in spec.pool]
        by_block = dict(zip(names, values, strict=False))
        factors = dict(by_block)
        for name, base in base_blocks(spec.pool).items():
            factors[base] -= by_block[name]
        return cls(by_block, factors, np.array(values[len(names) :]))


class WeightedBlocks:
    """The blocks of a model that count in its posterior, compiled for use on many batches.

    Args:
        weights: weights and biases.
        blocks: all blocks of the model.
        likelihoods: their likelihoods, by name.
        density_blocks: names of those whose product is the density.
    """

    def __init__(
        self,
        weights: BlockWeights,
        blocks: Sequence[Block],
        likelihoods: Mapping[str, Likelihood],
        density_blocks: Collection[str],
    ) -> None:
        self._bias = weights.bias[:, None]
        self._lookups: list[_Lookup] = []
        self._others: list[tuple[Likelihood, float, bool]] = []
        for block in blocks:
            name = str(block.name)
            likelihood, factor = likelihoods[name], weights.factors.get(name, 0.0)
            lookup = likelihood if isinstance(likelihood, CellLikelihood) else None
            table = None if lookup is None else lookup.cell_log_likelihood
            if lookup is None or table is None:
                self._others.append((likelihood, factor, name in density_blocks))
            else:
                self._lookups.append(_Lookup(lookup, factor, table, name in density_blocks))

    def log_likelihood(self, rows: Rows) -> FloatArray:
        """b_c + Σ_B w_B s_B,c of ``n`` rows, ``(n, k)``."""
        total = np.tile(self._bias, (1, len(rows)))
        for lookup in self._lookups:
            if lookup.factor:
                total += lookup.weighted.take(lookup.likelihood.cells(rows), axis=1)
        for likelihood, factor, _ in self._others:
            if factor:
                log = likelihood.log_likelihood(rows)
                total += factor * below_best(log).T
        return total.T

    def log_likelihoods(self, rows: Rows) -> tuple[FloatArray, FloatArray]:
        """`log_likelihood`, and Σ log p(x_B | c) of the density, in one pass: each ``(n, k)``."""
        classes = len(self._bias)
        total = np.zeros((2 * classes, len(rows)))
        weighted, product = total[:classes], total[classes:]
        weighted += self._bias
        for lookup in self._lookups:
            if lookup.in_density:
                total += lookup.both.take(lookup.likelihood.cells(rows), axis=1)
            elif lookup.factor:
                weighted += lookup.weighted.take(lookup.likelihood.cells(rows), axis=1)
        for likelihood, factor, in_density in self._others:
            if not (factor or in_density):
                continue
            log = likelihood.log_likelihood(rows)
            if in_density:
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
        in_density: whether the block is a factor of the density.
    """

    likelihood: CellLikelihood
    factor: float
    table: FloatArray
    in_density: bool

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
    return weights_table(
        blocks,
        np.array([weights.get(name, 1.0) for name in blocks]),
        [None] * len(blocks),
        classes,
        np.zeros(len(classes)),
    )


def weights_table(
    blocks: Sequence[str],
    weights: FloatArray,
    importance: Sequence[float | None],
    classes: pa.Array,
    bias: FloatArray,
) -> pa.Table:
    """The stored table of weights.

    Args:
        blocks: names of the ``B`` blocks.
        weights: w of each, ``(B,)``.
        importance: of each, in nats, or None if it is unknown.
        classes: ``k`` labels.
        bias: b of each, ``(k,)``.
    """
    names = [category_text(value) for value in classes.to_pylist()]
    return pa.table(
        {
            "term": pa.array(["block"] * len(blocks) + ["class"] * len(names), pa.string()),
            "name": pa.array([*blocks, *names], pa.string()),
            "value": np.concatenate([weights, bias]),
            "importance": pa.array([*importance, *[None] * len(names)], pa.float64()),
        }
    )
