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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.arrow.arrays import FloatArray, IntArray
from probclass_core.arrow.rows import Rows
from probclass_core.errors import PluginError
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


@dataclass(frozen=True)
class BlockValues:
    """Numbers of a block by class for ``n`` rows: columns of a table.

    Attributes:
        table: ``(k, m)``.
        cells: the column of each row, ``(n,)``; None if the columns are the rows.
    """

    table: FloatArray
    cells: IntArray | None

    @property
    def by_class(self) -> FloatArray:
        """The number of each row in each class, ``(k, n)``; not to be changed."""
        return self.table if self.cells is None else self.table.take(self.cells, axis=1)

    def of(self, classes: IntArray) -> FloatArray:
        """The number of each row in one class, given by position, ``(n,)`` each."""
        places = classes * self.table.shape[1]
        places += np.arange(len(classes)) if self.cells is None else self.cells
        numbers: FloatArray = self.table.ravel().take(places)
        return numbers


@dataclass(frozen=True)
class CompiledBlock:
    """A block of a model, compiled for use on many batches.

    Attributes:
        block: the block.
        likelihood: its likelihood.
        factor: what s of the block is multiplied by, 0 if it is not in the posterior; None if its
            log p(x_B | c) is in the posterior as it is.
        in_density: whether the block is a factor of the density.
    """

    block: Block
    likelihood: Likelihood
    factor: float | None
    in_density: bool

    @property
    def name(self) -> str:
        """Name of the block."""
        return str(self.block.name)

    @classmethod
    def of(
        cls,
        spec: ModelSpec,
        likelihoods: Mapping[str, Likelihood],
        weights: BlockWeights | None,
    ) -> list[CompiledBlock]:
        """The blocks of a model; without weights, its posterior is that of their product."""
        return [
            cls(
                block,
                likelihoods[str(block.name)],
                None if weights is None else weights.factors.get(str(block.name), 0.0),
                block.name in spec.density_blocks,
            )
            for block in spec.blocks
        ]

    def log(self, rows: Rows) -> BlockValues:
        """log p(x_B | c)."""
        return rows.kept(self.name, lambda: self._log(rows))

    def _log(self, rows: Rows) -> BlockValues:
        if self._lookup is None:
            logs = self.likelihood.log_likelihood(rows)
            if np.ndim(logs) != 2 or len(logs) != len(rows):
                raise PluginError(
                    f"{self.block.estimator}: log_likelihood returns an array of the shape "
                    f"{np.shape(logs)} for {len(rows)} rows; return a row for each of them, and a "
                    "column for each class."
                )
            return BlockValues(logs.T, None)
        likelihood, table = self._lookup
        return BlockValues(table, likelihood.cells(rows))

    def weighted(self, rows: Rows, log: BlockValues) -> BlockValues:
        """factor · s, or log p(x_B | c) itself.

        Args:
            rows: the rows.
            log: result of `log` for them.
        """
        if self.factor is None:
            return log
        if log.cells is not None:
            return BlockValues(self._weighted_table, log.cells)
        factor = self.factor
        table = rows.kept((self.name, factor), lambda: _weigh(factor, log.table))
        return BlockValues(table, None)

    @cached_property
    def _lookup(self) -> tuple[CellLikelihood, FloatArray] | None:
        """The likelihood and log p(x | c) of each cell, ``(k, cells)``; None if it has no table."""
        likelihood = self.likelihood
        if not isinstance(likelihood, CellLikelihood):
            return None
        table = likelihood.cell_log_likelihood
        return None if table is None else (likelihood, table)

    @property
    def has_table(self) -> bool:
        """Whether log p(x_B | c) is looked up."""
        return self._lookup is not None

    @cached_property
    def _weighted_table(self) -> FloatArray:
        """factor · s of each cell, ``(k, cells)``."""
        assert self._lookup is not None
        return _weigh(self.factor or 0.0, self._lookup[1])


def _weigh(factor: float, log_likelihood: FloatArray) -> FloatArray:
    """factor · s of log-likelihoods, ``(k, n)`` each."""
    return np.ascontiguousarray(factor * below_best(log_likelihood.T).T)


def weighted_log_likelihoods(
    rows: Rows, blocks: Sequence[CompiledBlock], bias: FloatArray, *, density: bool
) -> tuple[FloatArray, FloatArray | None]:
    """b_c + Σ_B w_B s_B,c of ``n`` rows, and Σ log p(x_B | c) of the density: each ``(n, k)``.

    Args:
        rows: the rows.
        blocks: blocks with a factor.
        bias: b of each class, ``(k,)``.
        density: whether the second is wanted; else it is None.
    """
    weighted = np.tile(bias[:, None], (1, len(rows)))
    product = np.zeros_like(weighted)
    for block in blocks:
        in_density = density and block.in_density
        if not (block.factor or in_density):
            continue
        log = block.log(rows)
        if in_density:
            product += log.by_class
        if block.factor:
            weighted += block.weighted(rows, log).by_class
    return weighted.T, product.T if density else None


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
