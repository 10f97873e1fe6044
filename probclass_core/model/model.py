"""A fitted model: a prior times blocks, and what follows from them for a row.

log p(x, c) = log P(c) + Σ_blocks log p(x_block | c). Everything else is derived from this sum.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from probclass_core.arrow.arrays import (
    FloatArray,
    as_table,
    batch_rows,
    check_columns,
    in_slices,
    select,
)
from probclass_core.arrow.bundle import FORMAT_VERSION, READER_VERSION, Bundle
from probclass_core.errors import DataError, NotSupportedError, SpecError, StoreError, one_of
from probclass_core.estimation.contract import Likelihood, LinearLikelihood
from probclass_core.estimation.passes import refine
from probclass_core.estimation.statistics import Statistics, bind, schema_of, type_names
from probclass_core.model.calibration import Calibrator, calibrated, calibrator
from probclass_core.model.decision import Decided, Decider, Decision, DecisionRule, predicted
from probclass_core.model.density_quantiles import log_density_quantile
from probclass_core.model.posterior import Posterior, normalize
from probclass_core.plugins.manager import check_reader, find_estimator, origins
from probclass_core.spec import ModelSpec, Prior, category_text

_MEASURED = ("calibration", "density_quantiles")
"""Tables that a model may hold beside its parameters: what was measured once it was fitted."""

LOAD_ONE = "load one by ModelStore(…).load"
"""The mend where the name of a model stands for the model itself."""


@dataclass(frozen=True)
class Model:
    """A class prior times the likelihoods of its blocks.

    Attributes:
        spec: what was asked for.
        features: feature columns and the types they count as.
        priors: one row per class, in class order: class, count (Σ w), prior.
        parameters: block name to the estimator's parameters.
        training: where it comes from: rows, null labels, source; no part of its identity.
        calibration: what makes of a posterior a calibrated one; see `calibration`.
        density_quantiles: how usual a log p(x) is; see `density_quantiles`.
    """

    spec: ModelSpec
    features: pa.Schema = field(repr=False)
    priors: pa.Table = field(repr=False)
    parameters: Mapping[str, pa.Table] = field(repr=False)
    training: Mapping[str, Any] = field(default_factory=dict, compare=False)
    calibration: pa.Table | None = field(default=None, repr=False)
    density_quantiles: pa.Table | None = field(default=None, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """All but the compiled likelihoods: they follow from the rest, and some do not pickle."""
        return {name: value for name, value in vars(self).items() if name != "likelihoods"}

    @cached_property
    def classes(self) -> pa.Array:
        """The ``k`` classes, ascending: the column order of every result."""
        return self.priors["class"].combine_chunks()

    @cached_property
    def class_names(self) -> list[str]:
        """The classes as text, in class order."""
        return [category_text(value) for value in self.classes.to_pylist()]

    @property
    def batch_rows(self) -> int:
        """Rows to score at once, so that their posteriors fit in memory with ease."""
        return batch_rows(len(self.classes))

    @cached_property
    def log_prior(self) -> FloatArray:
        """log P(c), ``(k,)``; −inf for a prior of 0."""
        with np.errstate(divide="ignore"):
            log_prior: FloatArray = np.log(self.priors["prior"].to_numpy())
        return log_prior

    @cached_property
    def id(self) -> str:
        """Content id, 64 hexadecimal digits: equal fits have equal ids."""
        return self.to_bundle().content_id

    @cached_property
    def likelihoods(self) -> dict[str, Likelihood]:
        """The compiled likelihood of each block."""
        return {
            name: estimator.likelihood(self.parameters[name], self.classes)
            for name, estimator in bind(self.spec, self.features).items()
        }

    @property
    def normalized(self) -> bool:
        """Whether log p(x) is a density: false where a block knows it only up to a term."""
        return all(likelihood.normalized for likelihood in self.likelihoods.values())

    def predict(self, data: Any, decision: Decision = "map") -> pa.Array:
        """The class of each row, null where the rule rejects it: ``(n,)``.

        Args:
            data: a table or frame with the features; see `arrays.as_table`.
            decision: by default the most probable class, the first of equals; see `DecisionRule`.

        Raises:
            DataError: a feature is missing, of a type it cannot be, or infinite.
            SpecError: the rule does not fit the model.
        """
        decider = self.decider(decision)
        predictions = self._by_batch(data, lambda batch: self.decide(batch, decider)[1].prediction)
        return predicted(self.classes, predictions)

    def predict_proba(self, data: Any) -> FloatArray:
        """P(c | x), ``(n, k)``; raises as `predict`."""
        return self._by_batch(data, lambda batch: self.posterior(batch).probability)

    def predict_log_proba(self, data: Any) -> FloatArray:
        """log P(c | x), ``(n, k)``; raises as `predict`."""
        return self._by_batch(data, lambda batch: self.posterior(batch).log_probability)

    def joint_log_likelihood(self, data: Any) -> FloatArray:
        """log p(x, c) = log P(c) + log p(x | c), ``(n, k)``; raises as `predict`."""
        return self._by_batch(data, self.joint)

    def score_samples(self, data: Any) -> FloatArray:
        """log p(x), the evidence of each row in nats, ``(n,)``; raises as `predict`.

        Raises:
            NotSupportedError: a block knows its densities only up to a common term.
        """
        self.check_normalized()
        return self._by_batch(data, lambda batch: self.posterior(batch).log_density)

    def check_normalized(self) -> None:
        """Refuse where log p(x) is no density.

        Raises:
            NotSupportedError: a block knows its densities only up to a common term.
        """
        if not self.normalized:
            raise NotSupportedError(
                "log p(x) is not known: a block's metric gives a ball of unknown volume; "
                "use a Minkowski metric."
            )

    def log_likelihood_by_block(self, data: Any) -> FloatArray:
        """log p(x_block | c), ``(n, k, blocks)``: with log P(c) it sums to the joint.

        Raises as `predict`.
        """
        return self._by_batch(data, self.by_block)

    def linear_form(self) -> pa.Table:
        """log p(x, c) as weights of the features, up to a term that all classes share.

        It holds of rows without nulls, and says nothing of a calibration.

        Returns:
            class, feature, weight: for each class a row of every feature, and one without feature,
            the intercept, which includes log P(c).

        Raises:
            NotSupportedError: a block is not linear in its features.
        """
        linear = {
            name: likelihood
            for name, likelihood in self.likelihoods.items()
            if isinstance(likelihood, LinearLikelihood)
        }
        for block in self.spec.blocks:
            if block.name not in linear:
                raise NotSupportedError(
                    f"block {block.name!r} ({block.estimator}) is not linear in its features; "
                    f"the linear blocks of this model: {one_of(linear)}."
                )
        forms = [linear[str(block.name)].linear_form() for block in self.spec.blocks]
        features = [*(name for names, _, _ in forms for name in names), None]
        intercept = self.log_prior + sum(intercept for _, _, intercept in forms)
        weights = np.column_stack([*(weights for _, weights, _ in forms), intercept])
        rows = pa.array(np.repeat(np.arange(len(self.classes)), len(features)))
        return pa.table(
            {
                "class": self.classes.take(rows),
                "feature": pa.array(features * len(self.classes), pa.string()),
                "weight": weights.ravel(),
            }
        )

    def with_prior(self, prior: Prior) -> Model:
        """The same likelihoods under another prior; ``"uniform"`` decides by maximum likelihood.

        Raises:
            SpecError: not a distribution over the model's classes, or the model holds what was
                measured under the prior it has.
        """
        for name in _MEASURED:
            if getattr(self, name) is not None:
                raise SpecError(
                    f"{name!r} of the model was measured under its prior and would be wrong under "
                    f"another; take dataclasses.replace(model, {name}=None), and measure it again."
                )
        spec = dataclasses.replace(self.spec, prior=prior)
        counts = self.priors["count"].to_numpy()
        return dataclasses.replace(
            self, spec=spec, priors=_prior_table(self.classes, counts, spec.prior)
        )

    def posterior(self, batch: pa.RecordBatch) -> Posterior:
        """Posteriors of one batch, calibrated if the model is."""
        return self._posterior(self.joint(batch))

    def decider(self, decision: Decision) -> Decider:
        """A decision rule made ready for `decide`.

        Raises:
            SpecError: it is no rule, names classes that are not the model's, or asks for a quantile
                of the density that the model does not know.
            NotSupportedError: it asks for one, and a block knows its densities only up to a term.
        """
        rule = DecisionRule.parse(decision)
        least = rule.min_density_quantile
        if least is None:
            return Decider(rule, self.class_names, None)
        self.check_normalized()
        if self.density_quantiles is None:
            raise SpecError(
                "min_density_quantile needs a model that knows the quantiles of its density; make "
                "one by with_density_quantiles(model, source), or fit with --density-quantiles."
            )
        return Decider(rule, self.class_names, log_density_quantile(self.density_quantiles, least))

    def decide(self, batch: pa.RecordBatch, decider: Decider) -> tuple[Posterior, Decided]:
        """Posteriors of one batch, and what a rule makes of them."""
        log_likelihood = self.log_likelihood(batch)
        posterior = self._posterior(log_likelihood + self.log_prior)
        return posterior, decider.decide(posterior, log_likelihood)

    def joint(self, batch: pa.RecordBatch) -> FloatArray:
        """log p(x, c) of one batch, ``(n, k)``."""
        return self.log_likelihood(batch) + self.log_prior

    def log_likelihood(self, batch: pa.RecordBatch) -> FloatArray:
        """log p(x | c) of one batch, ``(n, k)``; not the caller's to change."""
        parts = self._parts(batch)
        total = next(parts)
        for number, part in enumerate(parts):
            # A new array at first, in the memory order of the first part, which is not ours.
            total = np.add(total, part, out=total if number else None)
        return total

    def _posterior(self, joint: FloatArray) -> Posterior:
        posterior = normalize(joint, self.log_prior)
        by = self._calibrator
        return posterior if by is None else calibrated(posterior, by)

    @cached_property
    def _calibrator(self) -> Calibrator | None:
        return None if self.calibration is None else calibrator(self.calibration, self.classes)

    def by_block(self, batch: pa.RecordBatch) -> FloatArray:
        """log p(x_block | c) of one batch, ``(n, k, blocks)``."""
        return np.stack(list(self._parts(batch)), axis=2)

    def _parts(self, batch: pa.RecordBatch) -> Iterator[FloatArray]:
        """log p(x_block | c) of one batch, block by block: ``(n, k)`` each."""
        for block in self.spec.blocks:
            likelihood = self.likelihoods[str(block.name)]
            yield likelihood.log_likelihood(select(batch, block.columns))

    def to_bundle(self) -> Bundle:
        """The model as Arrow tables and plain values, ready to be stored."""
        measured = {name: table for name in _MEASURED if (table := getattr(self, name)) is not None}
        blocks = {
            str(block.name): {
                "estimator": block.estimator,
                "parameters_version": find_estimator(block.estimator).parameters_version,
            }
            for block in self.spec.blocks
        }
        return Bundle(
            kind="model",
            content={
                "spec": self.spec.to_dict(),
                "features": type_names(self.features),
                "blocks": blocks,
            },
            tables={"priors": self.priors, **self.parameters, **measured},
            provenance={
                **origins(block.estimator for block in self.spec.blocks),
                **self.training,
            },
            min_reader_version=FORMAT_VERSION if self.calibration is None else READER_VERSION,
        )

    @classmethod
    def from_bundle(cls, bundle: Bundle) -> Model:
        """The inverse of `to_bundle`.

        Raises:
            StoreError: the bundle holds something else, or parameters of another version.
            PluginError: an estimator is not installed.
        """
        if bundle.kind != "model":
            raise StoreError(f"the bundle holds {bundle.kind}, not a model.")
        for name, block in bundle.content["blocks"].items():
            check_reader(name, block, bundle.provenance)
        tables = dict(bundle.tables)
        model = cls(
            spec=ModelSpec.from_dict(bundle.content["spec"]),
            features=schema_of(bundle.content["features"]),
            priors=tables.pop("priors"),
            **{name: tables.pop(name) for name in _MEASURED if name in tables},
            parameters=tables,
            training=dict(bundle.provenance),
        )
        # The id it was stored under, whatever bytes another release of Arrow would write.
        vars(model)["id"] = bundle.content_id
        return model

    def _by_batch(self, data: Any, compute: Callable[[pa.RecordBatch], np.ndarray]) -> np.ndarray:
        table = as_table(data)
        check_columns(table.schema, self.spec.features)
        table = table.select(list(self.spec.features))
        rows = min(self.batch_rows, batch_rows(table.num_columns))
        parts = [compute(batch) for batch in in_slices(table.to_batches(), rows)]
        return np.concatenate(parts or [compute(pa.RecordBatch.from_pylist([], table.schema))])


def finalize(statistics: Statistics, *, early: bool = False) -> Model:
    """Parameters and prior from statistics: the last step of training.

    Args:
        statistics: of all rows.
        early: make do with these where an estimator would have another pass over the rows.

    Raises:
        DataError: no labeled rows, one class only, or rows that cannot carry a block's model.
        SpecError: a given prior does not fit the classes, or another pass is due.
    """
    if not early and (more := refine(statistics)) is not None:
        due = [
            str(new.name)
            for old, new in zip(statistics.spec.blocks, more.blocks, strict=True)
            if new != old
        ]
        raise SpecError(
            f"block {one_of(due)} asks for another pass over the rows: train by fit, which makes "
            "it, or summarize them again by the spec that refine(statistics) gives."
        )
    classes = statistics.classes["class"].combine_chunks()
    label = statistics.spec.label
    if statistics.rows == 0:
        raise DataError("there is nothing to train on: the source has no rows.")
    if len(classes) == 0:
        raise DataError(
            f"there is nothing to train on: label {label!r} is null (or its weight 0) in all "
            f"{statistics.rows} rows."
        )
    if len(classes) == 1:
        raise DataError(
            f"label {label!r} has one class only, {classes[0].as_py()!r}; "
            "a classifier needs rows of at least two."
        )
    counts = statistics.classes["count"].to_numpy()
    parameters = {
        name: estimator.finalize(statistics.blocks[name], classes)
        for name, estimator in bind(statistics.spec, statistics.features).items()
    }
    return Model(
        spec=statistics.spec,
        features=statistics.features,
        priors=_prior_table(classes, counts, statistics.spec.prior),
        parameters=parameters,
        training={"rows": statistics.rows, "null_labels": statistics.null_labels},
    )


def _prior_table(classes: pa.Array, counts: FloatArray, prior: Prior) -> pa.Table:
    if prior == "empirical":
        values = counts / counts.sum()
    elif prior == "uniform":
        values = np.full(len(classes), 1.0 / len(classes))
    else:
        assert isinstance(prior, Mapping)
        names = [category_text(value) for value in classes.to_pylist()]
        for given, needed, what in ((prior, names, "names"), (names, prior, "leaves out")):
            odd = [name for name in given if name not in needed]
            if odd:
                raise SpecError(f"the prior {what} class {odd[0]!r}; training saw {one_of(names)}.")
        values = np.array([prior[name] for name in names], dtype=np.float64)
    return pa.table({"class": classes, "count": counts, "prior": values})
