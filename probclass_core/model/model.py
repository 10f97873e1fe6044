"""A fitted model: a class prior times blocks, and everything that follows from it for a row.

For a batch of rows, read top to bottom in `Model`::

    log p(x_block | c)                                      the likelihood of each block
    log p(x | c)    = Σ_blocks log p(x_block | c)           Model.log_likelihood
    log p(x, c)     = log P(c) + log p(x | c)               Model.joint
    log P(c | x)    = log p(x, c) − log p(x)                Model.posterior
    a class or none                                         Model.decide

If the model has block weights, its posterior is that of the weighted blocks instead (see
`block_weights`); the likelihood, the joint and log p(x) remain those of the unweighted product.

The methods named ``predict…``, ``joint_log_likelihood``, ``score_samples`` and
``log_likelihood_by_block`` do the same for whole tables. Methods that draw, store, report or write
SQL are attached to `ModelMethods` by the public face.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, TypeGuard

import numpy as np
import pyarrow as pa

from probclass_core.arrow.arrays import FloatArray, as_recorded, as_table, batch_rows, in_slices
from probclass_core.arrow.bundle import Bundle, json_digest
from probclass_core.arrow.parts import TimeZones, select, source_columns, time_zones
from probclass_core.arrow.rows import Rows
from probclass_core.arrow.types import is_number_type, type_names
from probclass_core.attached import ModelMethods
from probclass_core.display import Part, Report
from probclass_core.errors import NotSupportedError, SpecError, expect, one_of
from probclass_core.estimation.contract import BinnedLikelihood, Likelihood
from probclass_core.estimation.statistics import bind
from probclass_core.model.bin_densities import BinDensity, bin_densities
from probclass_core.model.block_weights import (
    BlockWeights,
    CompiledBlock,
    given_weights,
    weighted_log_likelihoods,
)
from probclass_core.model.calibration import Calibration
from probclass_core.model.decision import (
    CompiledRule,
    DecisionOption,
    DecisionRule,
    Decisions,
    take_classes,
)
from probclass_core.model.density_quantiles import log_density_quantile, rarity
from probclass_core.model.description import describe
from probclass_core.model.posterior import Posterior, log_density, log_of, normalize
from probclass_core.plugins.manager import find_estimator, origins
from probclass_core.release import VERSION
from probclass_core.spec.model_spec import ModelSpec, Prior, category_text, probabilities

OPTIONAL_TABLES = ("block_weights", "bin_densities", "calibration", "density_quantiles")
"""Tables that a model may have besides its prior and its parameters."""

SPEC_NOTES = "spec_notes"
"""Key of the notes of the spec in the provenance of a bundle."""

_ROUNDED = 1e-3
"""Largest difference of the sum of given shares from 1: a report may have rounded them."""

NO_DENSITY = (
    "log p(x) is not known: no blocks of the pool have each column once, so no product of them is "
    "a density; add a block of each column alone."
)
"""Why a model has no density if its spec has no `density_blocks`."""

LOAD_HINT = "load one by load(path) or ModelStore(…).load, or pass a fitted ProbClassifier"
"""How to fix a call that was given the name of a model instead of a model."""


@dataclass(frozen=True, repr=False)
class Model(Report, ModelMethods):
    """A class prior times the likelihoods of its blocks.

    Attributes:
        spec: specification that the model was fitted by.
        features: features and their types.
        priors: one row per class, in class order: class, count (Σ w), prior.
        parameters: parameters table of each block, by block name.
        training: provenance: rows, null labels, source, columns (rows, nulls, min and max of each
            feature; see `kinds.summary`), notes (sentences about estimates that the rows did not
            suffice for); not part of the model's identity.
        block_weights: weights of blocks, or None; see the module `block_weights`.
        bin_densities: densities of numbers within their bins, or None; see the module
            `bin_densities`.
        calibration: calibration table, or None; see the module `calibration`.
        density_quantiles: quantiles of log p(x), or None; see the module `density_quantiles`.
        inputs: digest of what the model was made from, by which a `ModelStore` knows a training
            again on another processor, where the last digits differ; None if that is unknown, as
            for rows in memory and for a changed copy. Not part of the model's identity.
    """

    spec: ModelSpec
    features: pa.Schema
    priors: pa.Table
    parameters: Mapping[str, pa.Table]
    training: Mapping[str, Any] = field(default_factory=dict, compare=False)
    block_weights: pa.Table | None = None
    bin_densities: pa.Table | None = None
    calibration: pa.Table | None = None
    density_quantiles: pa.Table | None = None
    inputs: str | None = field(default=None, init=False, compare=False)

    def made_from(self, *inputs: str | None) -> Model:
        """Set `inputs` of a new model.

        Args:
            inputs: digests of what it was made from; None if one is unknown.
        """
        if None not in inputs:
            origin = origins(block.estimator for block in self.spec.blocks)
            digest = json_digest([VERSION, origin, self.spec.to_dict(), *inputs])
            object.__setattr__(self, "inputs", digest)
        return self

    def __hash__(self) -> int:
        return hash(self.id)

    @cached_property
    def id(self) -> str:
        """Content id, 64 hexadecimal digits: a checksum of the spec and all tables."""
        return self.to_bundle().content_id

    @cached_property
    def classes(self) -> pa.Array:
        """The ``k`` classes, ascending: the column order of every result."""
        return self.priors["class"].combine_chunks()

    @cached_property
    def class_names(self) -> list[str]:
        """The classes as text, in class order."""
        return [category_text(value) for value in self.classes.to_pylist()]

    @cached_property
    def time_zones(self) -> TimeZones:
        """Time zone of the training by part of a date, such as ``hour(pickup)``; None for none."""
        return time_zones(self.features)

    @property
    def batch_rows(self) -> int:
        """Number of rows to score at once, so that their posteriors easily fit in memory."""
        return batch_rows(len(self.classes))

    # The pipeline: prior and blocks, log-likelihoods, posterior, decision of one batch.

    @cached_property
    def log_prior(self) -> FloatArray:
        """log P(c), ``(k,)``; −inf for a prior of 0."""
        return log_of(self.priors["prior"].to_numpy())

    @cached_property
    def source_prior(self) -> FloatArray:
        """The shares of the classes under which the posteriors are right, ``(k,)``.

        For a calibrated model they are the mean posterior of the rows that it was calibrated on
        (Alexandari, Kundaje and Shrikumar, "Maximum likelihood with bias-corrected calibration is
        hard-to-beat at label shift adaptation", 2020); for others, or if it is not recorded, the
        prior.
        """
        mean = (self.training.get("calibration") or {}).get("mean_posterior")
        if self.calibration is None or not mean or set(mean) != set(self.class_names):
            return np.asarray(self.priors["prior"])
        shares = np.array([mean[name] for name in self.class_names], np.float64)
        return np.asarray(shares / shares.sum())

    def shares(self, prior: Mapping[str, float]) -> FloatArray:
        """Given shares of the classes in class order, ``(k,)``.

        Raises:
            SpecError: if they are not a distribution over the classes.
        """
        shares = probabilities(prior, "the prior", "class")
        total = math.fsum(shares.values())
        if abs(total - 1.0) > _ROUNDED:
            raise SpecError(f"the shares of a prior must sum to 1, got {dict(prior)!r}.")
        scaled = {name: share / total for name, share in shares.items()}
        return np.asarray(
            prior_table(self.classes, self.priors["count"].to_numpy(), scaled)["prior"]
        )

    def log_ratio(self, prior: Mapping[str, float]) -> FloatArray:
        """What `decide` adds to log posteriors for other shares of the classes, ``(k,)``.

        Under a label shift p(x | c) stays and only the shares of the classes change. The posterior
        under shares π' then follows from that under π (Saerens, Latinne and Decaestecker,
        "Adjusting the outputs of a classifier to new a priori probabilities: a simple procedure",
        Neural Computation 14, 2002, eq. 2.4)::

            P'(c | x) = π'_c / π_c P(c | x) / Σ_d π'_d / π_d P(d | x)

        Raises:
            SpecError: if they are not a distribution over the classes.
        """
        source = self.source_prior
        return log_of(self.shares(prior)) - np.log(np.where(source > 0.0, source, 1.0))

    @cached_property
    def likelihoods(self) -> dict[str, Likelihood]:
        """The compiled likelihood of each block, by block name."""
        return {
            name: estimator.likelihood(self.parameters[name], self.classes)
            for name, estimator in bind(self.spec, self.features).items()
        }

    @cached_property
    def _bools_and_numbers(self) -> list[tuple[int, pa.Field]]:
        """Positions and fields of the features that were bools or numbers in training."""
        return [
            (at, one)
            for at, one in enumerate(self.features)
            if pa.types.is_boolean(one.type) or is_number_type(one.type)
        ]

    def rows(self, batch: pa.RecordBatch | Rows) -> Rows:
        """The features of one batch, which has their columns; `Rows` are returned as they are."""
        if isinstance(batch, Rows):
            return batch
        batch = select(batch, self.spec.features, self.time_zones)
        for at, one in self._bools_and_numbers:
            column = batch.column(at)
            if (recorded := as_recorded(column, one)) is not column:
                batch = batch.set_column(at, one.name, recorded)
        return Rows(batch)

    def log_likelihood(self, batch: pa.RecordBatch | Rows) -> FloatArray:
        """log p(x | c) of one batch, ``(n, k)``; the caller must not change the array.

        It is the product of the blocks that are the density, or of all if there is none.
        """
        rows, all_blocks = self.rows(batch), not self.spec.density_blocks
        factors = (block for block in self.compiled_blocks if block.in_density or all_blocks)
        product = _product(block.log(rows).by_class.T for block in factors)
        return self._within_bins(rows, product)

    def _within_bins(self, rows: Rows, log_likelihood: FloatArray) -> FloatArray:
        """Log densities ``(n, k)`` of numbers, from those of their bins."""
        if not self.compiled_bin_densities:
            return log_likelihood
        within = np.zeros(len(rows))
        for density in self.compiled_bin_densities:
            within += density.log(rows)
        return log_likelihood + within[:, None]

    @cached_property
    def compiled_bin_densities(self) -> Sequence[BinDensity]:
        """`bin_densities`, ready for use."""
        return [] if self.bin_densities is None else bin_densities(self.bin_densities)

    @cached_property
    def cuts(self) -> dict[str, Sequence[float]]:
        """The cuts of the columns of numbers of which the density's blocks know the bins only."""
        likelihoods = (self.likelihoods[name] for name in self.spec.density_blocks)
        binned = (one.cuts for one in likelihoods if isinstance(one, BinnedLikelihood))
        return {name: cuts for of_block in binned for name, cuts in of_block.items()}

    def joint(self, batch: pa.RecordBatch | Rows) -> FloatArray:
        """log p(x, c) of one batch, ``(n, k)``."""
        return self.log_likelihood(batch) + self.log_prior

    def posterior(self, batch: pa.RecordBatch | Rows, *, density: bool = True) -> Posterior:
        """Posteriors of one batch, weighted and calibrated if the model is.

        Args:
            batch: ``n`` rows.
            density: whether log p(x) is wanted: of weighted blocks it takes a pass of its own.
        """
        return self._posterior(*self.log_likelihoods(batch, density=density))

    def decide(
        self, batch: pa.RecordBatch | Rows, rule: CompiledRule, log_ratio: FloatArray | None = None
    ) -> tuple[Posterior, Decisions]:
        """Posteriors of one batch and the decisions of a rule; see `compile_rule`.

        Args:
            batch: ``n`` rows.
            rule: decision rule.
            log_ratio: log of the shares of the classes divided by those under which the posteriors
                are, ``(k,)``, to have posteriors under these shares; None leaves them.
        """
        weighted, product = self.log_likelihoods(batch)
        posterior = self._posterior(weighted, product)
        if log_ratio is not None:
            joint = posterior.log_probability + log_ratio
            shifted = normalize(joint, self.log_prior + log_ratio)
            posterior = dataclasses.replace(shifted, log_density=posterior.log_density)
        return posterior, rule.decide(posterior, weighted)

    def log_likelihoods(
        self, batch: pa.RecordBatch | Rows, *, density: bool = True
    ) -> tuple[FloatArray, FloatArray | None]:
        """What the posterior is made of besides the prior, and the product if that is another.

        The former are weighted blocks and biases; without block weights, it is `log_likelihood`.
        The latter is None if it is not another, no density, or not wanted. Each is ``(n, k)``; the
        caller must not change them.
        """
        rows, weights = self.rows(batch), self.weights
        if weights is None:
            return rows.kept("log-likelihood", lambda: self.log_likelihood(rows)), None
        density = density and self.normalized

        def of_blocks() -> tuple[FloatArray, FloatArray | None]:
            blocks, bias = self.compiled_blocks, weights.bias
            weighted, product = weighted_log_likelihoods(rows, blocks, bias, density=density)
            return weighted, None if product is None else self._within_bins(rows, product)

        return rows.kept(("log-likelihoods", density), of_blocks)

    def _posterior(self, weighted: FloatArray, product: FloatArray | None) -> Posterior:
        """Posteriors from log-likelihoods ``(n, k)``, as `log_likelihoods` returns them."""
        posterior = normalize(weighted + self.log_prior, self.log_prior)
        if self.calibrator is not None:
            posterior = self.calibrator.apply(posterior)
        if product is not None:
            density = log_density(product + self.log_prior)
            posterior = dataclasses.replace(posterior, log_density=density)
        elif self.weights is not None:
            posterior = dataclasses.replace(posterior, log_density=np.full(len(weighted), np.nan))
        return posterior

    @cached_property
    def weights(self) -> BlockWeights | None:
        """The block weights, ready for use; None for the product of the blocks."""
        if self.block_weights is None:
            return None
        return BlockWeights.from_table(self.block_weights, self.spec)

    @cached_property
    def compiled_blocks(self) -> list[CompiledBlock]:
        """All blocks, ready for use."""
        return CompiledBlock.of(self.spec, self.likelihoods, self.weights)

    @cached_property
    def calibrator(self) -> Calibration | None:
        """The calibration, ready for use; None without one."""
        if self.calibration is None:
            return None
        return Calibration.from_table(self.calibration)

    def compile_rule(self, decision: DecisionOption) -> CompiledRule:
        """Compile a decision rule for `decide`.

        Raises:
            SpecError: if the rule is invalid, names unknown classes, needs density quantiles that
                the model does not have, or is another than the default and there is no label.
            NotSupportedError: if the rule needs density quantiles and log p(x) is not a density;
                see `normalized`.
        """
        rule = DecisionRule.parse(decision)
        if rule != DecisionRule():
            self.spec.label_for("a decision rule")
        least = rule.min_rarity
        if least is None:
            return CompiledRule(rule, self.class_names, None)
        min_log_density = log_density_quantile(self.check_rarity(), least)
        return CompiledRule(rule, self.class_names, min_log_density)

    def check_rarity(self) -> pa.Table:
        """The density quantiles, from which the rarity of rows follows.

        Raises:
            NotSupportedError: if log p(x) is not a density; see `normalized`.
            SpecError: if the model has no density quantiles.
        """
        self.check_normalized()
        if self.density_quantiles is None:
            raise SpecError(
                "the rarity of rows needs a model with density quantiles; make one by "
                "with_density_quantiles(model, source), or fit with --density-quantiles."
            )
        return self.density_quantiles

    @cached_property
    def normalized(self) -> bool:
        """Whether log p(x) is a density.

        It is not if a block's density is known only up to a common term, or some column is only
        in blocks with others or in a cycle; see `ModelSpec.density_blocks`.
        """
        names = self.spec.density_blocks
        return bool(names) and all(self.likelihoods[name].normalized for name in names)

    def check_normalized(self) -> None:
        """Check that log p(x) is a density.

        Raises:
            NotSupportedError: if the densities of a block are known only up to a common term.
        """
        names = self.spec.density_blocks
        relative = [name for name in names if not self.likelihoods[name].normalized]
        if relative:
            raise NotSupportedError(
                f"log p(x) is not known: the likelihood of block {relative[0]!r} is not a density, "
                "as those of a normal with the option outliers and of neighbors by a metric "
                "without volume (use a Minkowski metric) are not."
            )
        if not names:
            raise NotSupportedError(NO_DENSITY)

    # The same for whole tables.

    def predict(self, data: Any, decision: DecisionOption = "map") -> pa.Array:
        """The predicted class of each row, null if the rule rejects the row: ``(n,)``.

        Args:
            data: table or frame with the feature columns; see `arrays.as_table`.
            decision: decision rule; by default the most probable class, ties going to the first.
                See `DecisionRule`.

        Raises:
            DataError: if a feature column is missing, has an unsuitable type, or is infinite.
            SpecError: if the rule does not fit the model, or the model has no label.
        """
        self.spec.label_for("predict")
        rule = self.compile_rule(decision)
        positions = self._by_batch(data, lambda batch: self.decide(batch, rule)[1].prediction)
        return take_classes(self.classes, positions)

    def predict_proba(self, data: Any) -> FloatArray:
        """P(c | x), ``(n, k)``; raises like `predict`."""
        self.spec.label_for("predict_proba")
        return self._by_batch(data, lambda batch: self.posterior(batch, density=False).probability)

    def predict_log_proba(self, data: Any) -> FloatArray:
        """log P(c | x), ``(n, k)``; raises like `predict`."""
        self.spec.label_for("predict_log_proba")
        return self._by_batch(
            data, lambda batch: self.posterior(batch, density=False).log_probability
        )

    def joint_log_likelihood(self, data: Any) -> FloatArray:
        """log p(x, c) = log P(c) + log p(x | c), ``(n, k)``; raises like `predict`."""
        return self._by_batch(data, self.joint)

    def score_samples(self, data: Any) -> FloatArray:
        """log p(x) of each row in nats, ``(n,)``; raises like `predict`.

        Raises:
            NotSupportedError: if the densities of a block are known only up to a common term.
        """
        self.check_normalized()
        return self._by_batch(data, lambda batch: self.posterior(batch).log_density)

    def rarity(self, data: Any) -> FloatArray:
        """The share of the known rows that are at least as improbable as each row, ``(n,)``.

        The known rows are a sample of those of the training, left out one by one or with their
        group, or those of `with_density_quantiles`. A share is rounded up to the next stored one,
        see the module `density_quantiles`. Raises like `predict`.

        Raises:
            NotSupportedError: if log p(x) is not a density; see `normalized`.
            SpecError: if the model has no density quantiles.
        """
        return rarity(self.check_rarity(), self.score_samples(data))

    def log_likelihood_by_block(self, data: Any) -> FloatArray:
        """log p(x_block | c), ``(n, k, blocks)``; the blocks and log P(c) add up to the joint.

        Raises like `predict`.
        """

        def by_block(batch: pa.RecordBatch) -> FloatArray:
            rows = self.rows(batch)
            return np.stack([of.log_likelihood(rows) for of in self.likelihoods.values()], axis=2)

        return self._by_batch(data, by_block)

    def _by_batch(self, data: Any, compute: Callable[[pa.RecordBatch], np.ndarray]) -> np.ndarray:
        table = as_table(data)
        table = table.select(source_columns(table.schema, self.spec.features))
        rows = min(self.batch_rows, batch_rows(table.num_columns))
        results = [compute(batch) for batch in in_slices(table.to_batches(), rows)]
        return np.concatenate(results or [compute(pa.RecordBatch.from_pylist([], table.schema))])

    # Other forms of the model.

    @property
    def _optional_tables(self) -> dict[str, pa.Table]:
        tables = {name: getattr(self, name) for name in OPTIONAL_TABLES}
        return {name: table for name, table in tables.items() if table is not None}

    def _report(self) -> list[Part]:
        """Classes, blocks and notes."""
        return describe(self.id, self.spec, self.priors, self.training, self._optional_tables)

    def with_prior(self, prior: Prior) -> Model:
        """The same likelihoods with another prior; ``"uniform"`` predicts by maximum likelihood.

        It has no density quantiles, because log p(x) is another under another prior.

        Raises:
            SpecError: if the prior is not a distribution over the model's classes, or the model has
                no label, or a calibration, which depends on its prior.
        """
        self.spec.label_for("with_prior")
        if self.calibration is not None:
            raise SpecError(
                "the calibration of the model was measured under its prior and would be wrong "
                "under another; take dataclasses.replace(model, calibration=None), and calibrate "
                "again."
            )
        spec = dataclasses.replace(self.spec, prior=prior)
        counts = self.priors["count"].to_numpy()
        return dataclasses.replace(
            self,
            spec=spec,
            priors=prior_table(self.classes, counts, spec.prior),
            density_quantiles=None,
        )

    def prior_only(self) -> Model:
        """The same model with blocks of weight 0: its posterior is the class prior for every row.

        It is what a model is compared with (`Evaluation.baseline_log_loss`), as a model of its own,
        to fall back to while the other one does harm. It keeps the blocks and their log p(x), so
        that rows can still be compared with those of the training; a calibration is left out.

        Raises:
            SpecError: if the model has no label.
        """
        self.spec.label_for("prior_only")
        weights = {str(block.name): 0.0 for block in self.spec.pool}
        training = {
            name: value
            for name, value in self.training.items()
            if name not in ("block_weights", "calibration")
        }
        return dataclasses.replace(
            self,
            spec=dataclasses.replace(self.spec, block_weights=weights),
            training=training,
            block_weights=given_weights(weights, list(weights), self.classes),
            calibration=None,
        )

    @property
    def is_prior_only(self) -> bool:
        """Whether the posterior is the class prior for every row, as in `prior_only`."""
        return self.weights is not None and not (
            any(self.weights.by_block.values()) or self.weights.bias.any()
        )

    def to_bundle(self) -> Bundle:
        """The model as Arrow tables and plain values, ready to be stored."""
        blocks = {
            str(block.name): {
                "estimator": block.estimator,
                "parameters_version": find_estimator(block.estimator).estimator.parameters_version,
            }
            for block in self.spec.blocks
        }
        return Bundle(
            content={
                "spec": self.spec.to_dict(),
                "features": type_names(self.features),
                **({"time_zones": dict(zones)} if (zones := self.time_zones) else {}),
                "blocks": blocks,
            },
            tables={"priors": self.priors, **self.parameters, **self._optional_tables},
            provenance={
                **origins(block.estimator for block in self.spec.blocks),
                **({SPEC_NOTES: self.spec.notes} if self.spec.notes else {}),
                **self.training,
            },
        )

    def __getstate__(self) -> dict[str, Any]:
        """Everything except the compiled likelihoods, which are derived; some do not pickle."""
        derived = ("likelihoods", "compiled_blocks", "compiled_bin_densities")
        return {name: value for name, value in vars(self).items() if name not in derived}


class FittedClassifier(Protocol):
    """A classifier that has a model once it is fitted, as a `ProbClassifier` has."""

    @property
    def model_(self) -> Model: ...


ModelOption = Model | FittedClassifier
"""What functions take as a model; see `as_model`."""


def as_model(model: ModelOption) -> Model:
    """A model, or that of a fitted classifier.

    Raises:
        SpecError: if it is something else, or a classifier without a model yet.
    """
    if not _is_classifier(model):
        return expect(model, Model, LOAD_HINT)
    try:
        return model.model_
    except AttributeError as error:
        raise SpecError(f"the {type(model).__name__} has no model yet: {error}") from error


def is_model(value: object) -> TypeGuard[ModelOption]:
    """Whether a value is a model or a classifier, fitted or not."""
    return isinstance(value, Model) or _is_classifier(value)


def _is_classifier(value: object) -> TypeGuard[FittedClassifier]:
    return hasattr(type(value), "model_")  # the instance has none before fit


def _product(logs: Iterator[FloatArray]) -> FloatArray:
    """The sum of log-likelihoods, ``(n, k)``; it may be the only one of them."""
    total = next(logs)
    for number, log in enumerate(logs):
        # The first sum is a new array, because the first block's array belongs to its likelihood;
        # it keeps that array's memory order.
        total = np.add(total, log, out=total if number else None)
    return total


def prior_table(classes: pa.Array, counts: FloatArray, prior: Prior) -> pa.Table:
    """The prior of each class: a table with class, count (Σ w) and prior.

    Raises:
        SpecError: if a given prior is not a distribution over the classes.
    """
    if prior == "empirical":
        values = counts / counts.sum()
    elif prior == "uniform":
        values = np.full(len(classes), 1.0 / len(classes))
    else:
        assert isinstance(prior, Mapping)
        names = [category_text(value) for value in classes.to_pylist()]
        unknown = [name for name in prior if name not in names]
        missing = [name for name in names if name not in prior]
        if unknown or missing:
            problem = (
                f"names class {unknown[0]!r}" if unknown else f"leaves out class {missing[0]!r}"
            )
            raise SpecError(f"the prior {problem}; training saw {one_of(names)}.")
        values = np.array([prior[name] for name in names], dtype=np.float64)
    return pa.table({"class": classes, "count": counts, "prior": values})
