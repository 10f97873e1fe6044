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
``log_likelihood_by_block`` do the same for whole tables. `finalize` makes a model from statistics.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard

import numpy as np
import pyarrow as pa

from probclass_core.arguments import checks_arguments
from probclass_core.arrow.annotations import ArrowArray, ArrowTable
from probclass_core.arrow.arrays import (
    FloatArray,
    as_table,
    batch_rows,
    check_columns,
    in_slices,
    names_of_columns,
)
from probclass_core.arrow.bundle import RESTORE, Bundle
from probclass_core.arrow.display import Part, Report, TablePart, counted
from probclass_core.arrow.parts import (
    TimeZones,
    select,
    source_columns,
    time_zones,
    with_time_zones,
)
from probclass_core.arrow.shared_conversions import shared_conversions
from probclass_core.arrow.types import schema_from_names, type_names
from probclass_core.errors import (
    DataError,
    NotSupportedError,
    ProbClassError,
    SpecError,
    StoreError,
    expect,
    one_of,
)
from probclass_core.estimation.contract import Likelihood, LinearLikelihood
from probclass_core.estimation.statistics import (
    STATISTICS_HINT,
    Statistics,
    bind,
    check_classes,
    refine,
)
from probclass_core.estimation.tidy import notes_of, tidy_table
from probclass_core.model.block_weights import (
    BlockWeights,
    WeightedBlocks,
    fit_block_weights,
    given_weights,
    ranked_blocks,
)
from probclass_core.model.calibration import (
    Calibrator,
    apply_calibration,
    compile_calibration,
)
from probclass_core.model.decision import (
    CompiledRule,
    DecisionOption,
    DecisionRule,
    Decisions,
    take_classes,
)
from probclass_core.model.density_quantiles import log_density_quantile
from probclass_core.model.posterior import Posterior, log_density, normalize
from probclass_core.model.stored import check_model
from probclass_core.plugins.manager import check_reader, find_estimator, origins
from probclass_core.spec.model_spec import Block, ModelSpec, Prior, category_text

if TYPE_CHECKING:
    from probclass_core.analysis.evaluation import Evaluation
    from probclass_core.execution.progress import ProgressOption
    from probclass_core.io.filters import Where
    from probclass_core.plots.methods import ModelPlots
    from probclass_core.scoring.batch import PosteriorFormat
    from probclass_core.store.evaluations import EvaluationRecord

_POSTFIT_TABLES = ("calibration", "density_quantiles")
"""Optional tables of a model, measured after it was fitted."""

_OPTIONAL_TABLES = ("block_weights", *_POSTFIT_TABLES)

_SPEC_NOTES = "spec_notes"
"""Key of the notes of the spec in the provenance of a bundle."""

SEVERAL_BLOCKS = (
    "log p(x) is not known: a column is in several blocks, so their product is not a density; use "
    "a model in which every column is in one block."
)
"""Why a model has no density, unless its spec `factorizes`."""

LOAD_HINT = "load one by load(path) or ModelStore(…).load, or pass a fitted ProbClassifier"
"""How to fix a call that was given the name of a model instead of a model."""


@dataclass(frozen=True, repr=False)
class Model(Report):
    """A class prior times the likelihoods of its blocks.

    Attributes:
        spec: specification that the model was fitted by.
        features: features and their types.
        priors: one row per class, in class order: class, count (Σ w), prior.
        parameters: parameters table of each block, by block name.
        training: provenance: rows, null labels, source, columns (rows, nulls, min and max of each
            feature; see `column_profile`), notes (sentences about estimates that the rows did not
            suffice for); not part of the model's identity.
        block_weights: weights of blocks, or None; see the module `block_weights`.
        calibration: calibration table, or None; see the module `calibration`.
        density_quantiles: quantiles of log p(x), or None; see the module `density_quantiles`.
    """

    spec: ModelSpec
    features: pa.Schema
    priors: ArrowTable
    parameters: Mapping[str, ArrowTable]
    training: Mapping[str, Any] = field(default_factory=dict, compare=False)
    block_weights: ArrowTable | None = None
    calibration: ArrowTable | None = None
    density_quantiles: ArrowTable | None = None

    @cached_property
    def id(self) -> str:
        """Content id, 64 hexadecimal digits: equal fits have equal ids."""
        return self.to_bundle().content_id

    @cached_property
    def classes(self) -> ArrowArray:
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
        with np.errstate(divide="ignore"):
            log_prior: FloatArray = np.log(self.priors["prior"].to_numpy())
        return log_prior

    @cached_property
    def likelihoods(self) -> dict[str, Likelihood]:
        """The compiled likelihood of each block, by block name."""
        return {
            name: estimator.likelihood(self.parameters[name], self.classes)
            for name, estimator in bind(self.spec, self.features).items()
        }

    def _block_log_likelihoods(
        self, batch: pa.RecordBatch, blocks: Sequence[Block]
    ) -> Iterator[FloatArray]:
        """log p(x_block | c) of one batch: ``(n, k)`` for each block."""
        for block in blocks:
            likelihood = self.likelihoods[str(block.name)]
            yield likelihood.log_likelihood(select(batch, block.inputs, self.time_zones))

    def log_likelihood(self, batch: pa.RecordBatch) -> FloatArray:
        """log p(x | c) of one batch, ``(n, k)``; the caller must not change the array."""
        with shared_conversions():
            return _product(self._block_log_likelihoods(batch, self.spec.blocks))

    def joint(self, batch: pa.RecordBatch) -> FloatArray:
        """log p(x, c) of one batch, ``(n, k)``."""
        return self.log_likelihood(batch) + self.log_prior

    def weighted_log_likelihood(self, batch: pa.RecordBatch) -> FloatArray:
        """What the posterior is made of besides the prior, ``(n, k)``: weighted blocks and biases.

        Without block weights it is `log_likelihood`; the caller must not change the array.
        """
        if self._weighted_blocks is None:
            return self.log_likelihood(batch)
        with shared_conversions():
            return self._weighted_blocks.log_likelihood(batch)

    def posterior(self, batch: pa.RecordBatch) -> Posterior:
        """Posteriors of one batch, weighted and calibrated if the model is."""
        return self._posterior(*self._log_likelihoods(batch))

    def _classified(self, batch: pa.RecordBatch) -> Posterior:
        """Posteriors of one batch without log p(x), which takes a pass of its own if weighted."""
        return self._posterior(self.weighted_log_likelihood(batch), None)

    def decide(
        self, batch: pa.RecordBatch, rule: CompiledRule, log_ratio: FloatArray | None = None
    ) -> tuple[Posterior, Decisions]:
        """Posteriors of one batch and the decisions of a rule; see `compile_rule`.

        Args:
            batch: ``n`` rows.
            rule: decision rule.
            log_ratio: log of the shares of the classes divided by those under which the posteriors
                are, ``(k,)``, to have posteriors under these shares; None leaves them.
        """
        weighted, product = self._log_likelihoods(batch)
        posterior = self._posterior(weighted, product)
        if log_ratio is not None:
            joint = posterior.log_probability + log_ratio
            shifted = normalize(joint, self.log_prior + log_ratio)
            posterior = dataclasses.replace(shifted, log_density=posterior.log_density)
        return posterior, rule.decide(posterior, weighted)

    def _log_likelihoods(self, batch: pa.RecordBatch) -> tuple[FloatArray, FloatArray | None]:
        """Weighted log-likelihoods, and those of the product if it is another and a density."""
        if self._weighted_blocks is None or not self.normalized:
            return self.weighted_log_likelihood(batch), None
        with shared_conversions():
            return self._weighted_blocks.log_likelihoods(batch)

    def _posterior(self, weighted: FloatArray, product: FloatArray | None) -> Posterior:
        """Posteriors from log-likelihoods ``(n, k)``, as `_log_likelihoods` returns them."""
        posterior = normalize(weighted + self.log_prior, self.log_prior)
        if self.calibrator is not None:
            posterior = apply_calibration(posterior, self.calibrator)
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
    def _weighted_blocks(self) -> WeightedBlocks | None:
        if self.weights is None:
            return None
        return WeightedBlocks(self.weights, self.spec.blocks, self.likelihoods, self.time_zones)

    @cached_property
    def calibrator(self) -> Calibrator | None:
        """The calibration, ready for use; None without one."""
        if self.calibration is None:
            return None
        return compile_calibration(self.calibration, self.classes)

    def compile_rule(self, decision: DecisionOption) -> CompiledRule:
        """Compile a decision rule for `decide`.

        Raises:
            SpecError: if the rule is invalid, names unknown classes, or needs density quantiles
                that the model does not have.
            NotSupportedError: if the rule needs density quantiles and log p(x) is not a density;
                see `normalized`.
        """
        rule = DecisionRule.parse(decision)
        quantile = rule.min_density_quantile
        if quantile is None:
            return CompiledRule(rule, self.class_names, None)
        self.check_normalized()
        if self.density_quantiles is None:
            raise SpecError(
                "min_density_quantile needs a model with density quantiles; make one by "
                "with_density_quantiles(model, source), or fit with --density-quantiles."
            )
        min_log_density = log_density_quantile(self.density_quantiles, quantile)
        return CompiledRule(rule, self.class_names, min_log_density)

    @cached_property
    def normalized(self) -> bool:
        """Whether log p(x) is a density.

        It is not if a block's density is known only up to a common term, a column is in several
        blocks, or blocks are given each other's columns in a cycle.
        """
        return self.spec.factorizes and all(
            likelihood.normalized for likelihood in self.likelihoods.values()
        )

    def check_normalized(self) -> None:
        """Check that log p(x) is a density.

        Raises:
            NotSupportedError: if the densities of a block are known only up to a common term.
        """
        if not all(likelihood.normalized for likelihood in self.likelihoods.values()):
            raise NotSupportedError(
                "log p(x) is not known: a block's metric gives a ball of unknown volume; "
                "use a Minkowski metric."
            )
        if not self.normalized:
            raise NotSupportedError(SEVERAL_BLOCKS)

    # The same for whole tables.

    def predict(self, data: Any, decision: DecisionOption = "map") -> ArrowArray:
        """The predicted class of each row, null if the rule rejects the row: ``(n,)``.

        Args:
            data: table or frame with the feature columns; see `arrays.as_table`.
            decision: decision rule; by default the most probable class, ties going to the first.
                See `DecisionRule`.

        Raises:
            DataError: if a feature column is missing, has an unsuitable type, or is infinite.
            SpecError: if the rule does not fit the model.
        """
        rule = self.compile_rule(decision)
        positions = self._by_batch(data, lambda batch: self.decide(batch, rule)[1].prediction)
        predicted: ArrowArray = take_classes(self.classes, positions)
        return predicted

    def predict_proba(self, data: Any) -> FloatArray:
        """P(c | x), ``(n, k)``; raises like `predict`."""
        return self._by_batch(data, lambda batch: self._classified(batch).probability)

    def predict_log_proba(self, data: Any) -> FloatArray:
        """log P(c | x), ``(n, k)``; raises like `predict`."""
        return self._by_batch(data, lambda batch: self._classified(batch).log_probability)

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

    def log_likelihood_by_block(self, data: Any) -> FloatArray:
        """log p(x_block | c), ``(n, k, blocks)``; the blocks and log P(c) add up to the joint.

        Raises like `predict`.
        """
        return self._by_batch(
            data,
            lambda batch: np.stack(
                list(self._block_log_likelihoods(batch, self.spec.blocks)), axis=2
            ),
        )

    def _by_batch(self, data: Any, compute: Callable[[pa.RecordBatch], np.ndarray]) -> np.ndarray:
        table = as_table(data)
        table = table.select(source_columns(table.schema, self.spec.features))
        rows = min(self.batch_rows, batch_rows(table.num_columns))
        results = [compute(batch) for batch in in_slices(table.to_batches(), rows)]
        return np.concatenate(results or [compute(pa.RecordBatch.from_pylist([], table.schema))])

    @checks_arguments
    def predict_table(
        self,
        data: Any,
        *,
        columns: str | Sequence[str] | None = None,
        posterior: PosteriorFormat = "columns",
        decision: DecisionOption = "map",
    ) -> ArrowTable:
        """The rows with their predictions, in memory: the columns that `pipeline.score` writes.

        Args:
            data: table or frame with the feature columns; see `arrays.as_table`.
            columns: column of the data to keep, or several; by default all except an index without
                a name of pandas.
            posterior: ``"columns"`` for one column ``p_<class>`` per class, ``"list"`` for one list
                column ``posterior``.
            decision: decision rule; see `DecisionRule`.

        Returns:
            One row per row of the data: the columns that are kept, then ``prediction``,
            ``probability`` and the others of `scoring.batch.BatchScorer`.

        Raises:
            DataError: if a column is missing, has an unsuitable type, or is infinite.
            SpecError: if a column has the name of a scored one, an argument is not one of its
                choices, or the rule does not fit the model.
        """
        from probclass_core.scoring.batch import BatchOptions, BatchScorer

        table = as_table(data)
        names = [columns] if isinstance(columns, str) else columns
        kept = names_of_columns(table.schema) if names is None else list(names)
        check_columns(table.schema, kept)
        sources = source_columns(table.schema, self.spec.features)
        table = table.select(list(dict.fromkeys([*kept, *sources])))
        scorer = BatchScorer(self, table.schema, BatchOptions(kept, posterior, decision))
        rows = min(self.batch_rows, batch_rows(table.num_columns))
        batches = [scorer.score(batch) for batch in in_slices(table.to_batches(), rows)]
        scored: ArrowTable = pa.Table.from_batches(batches, scorer.schema)
        return scored

    # Other forms of the model.

    def _report(self) -> list[Part]:
        """Classes, blocks and notes."""
        spec, training = self.spec, self.training
        rows = f", fitted on {counted(training['rows'], 'row')}" if "rows" in training else ""
        counts = self.priors["count"].to_pylist()
        names = [str(block.name) for block in spec.blocks]
        of_blocks: dict[str, list[Any]] = {
            "block": names,
            "estimator": [block.estimator for block in spec.blocks],
            "columns": [_columns_text(block) for block in spec.blocks],
        }
        if self.block_weights is not None:
            weights = ranked_blocks(self.block_weights)
            order = [names.index(name) for name in weights["block"].to_pylist()]
            of_blocks = {key: [values[i] for i in order] for key, values in of_blocks.items()}
            of_blocks["weight"] = weights["weight"].to_pylist()
            if spec.fits_weights:
                of_blocks["importance"] = weights["importance"].to_pylist()
        notes = [*spec.notes, *training.get("notes", ())]
        if self.calibration is not None:
            method = (training.get("calibration") or {}).get("method", "an unknown method")
            notes.append(f"The posterior is calibrated: {method}.")
        if self.density_quantiles is not None:
            notes.append("It has density quantiles, so a decision rule can reject unusual rows.")
        title = (
            f"Model of {spec.label!r}: {counted(len(self.classes), 'class', 'classes')}, "
            f"{counted(len(names), 'block')} of {counted(len(spec.features), 'column')}{rows}; "
            f"id {self.id[:12]}"
        )
        return [
            title,
            *self._log_loss_text,
            TablePart(
                {
                    "class": self.class_names,
                    "prior": self.priors["prior"].to_pylist(),
                    "rows" if spec.weight is None else "weight": [
                        int(count) if count.is_integer() else count for count in counts
                    ],
                }
            ),
            TablePart(of_blocks),
            notes,
        ]

    @property
    def _log_loss_text(self) -> list[str]:
        """A sentence about the log loss, if fitting the block weights has measured it."""
        fitted = self.training.get("block_weights") or {}
        if not {"rows", "log_loss", "prior_log_loss"} <= fitted.keys():
            return []
        values = (fitted["log_loss"], fitted["rows"], fitted["prior_log_loss"])
        text = "Log loss {:.4f} on the {:,} training rows of the block weights; prior alone {:.4f}."
        return [text.format(*values)]

    def to_sql(
        self,
        *,
        dialect: str,
        source: str | Sequence[str],
        columns: str | Sequence[str] = (),
        posterior: PosteriorFormat = "columns",
        decision: DecisionOption = "map",
        prior: Mapping[str, float] | None = None,
        view: str | Sequence[str] | None = None,
        tables: str | Sequence[str] | None = None,
    ) -> str:
        """The query that scores a table where it is: the scored table of `score`, as one SELECT.

        Rows that `score` raises an error about, such as those with an infinite number, have null in
        every scored column but ``model_id``.

        Args:
            dialect: ``"duckdb"``, ``"postgres"``, ``"sqlite"``, ``"spark"``, ``"datafusion"`` or
                ``"clickhouse"``.
            source: name of the table, such as ``schema.table``, or its parts as a list; or a query
                in parentheses, which is not quoted.
            columns: passthrough column of the scored table, or several, in order; none by default.
            posterior: ``"columns"`` for one column per class, ``"list"`` for one list column.
            decision: decision rule; see `DecisionRule`.
            prior: shares of the classes to have the posteriors under, as for `score`.
            view: name of a view to create; by default the text is the SELECT alone.
            tables: beginning of the names of the tables that `to_sql_tables` creates, which the
                query joins; by default the numbers of the model are in the query.

        Returns:
            SQL without a semicolon at its end.

        Raises:
            SpecError: if the dialect is unknown, the engine cannot have one of the names, or the
                options do not fit the model.
            NotSupportedError: if a block has no formula, saying why.
        """
        from probclass_core.sql.query import to_sql

        return to_sql(
            self,
            dialect=dialect,
            source=source,
            columns=[columns] if isinstance(columns, str) else columns,
            posterior=posterior,
            decision=decision,
            prior=prior,
            view=view,
            tables=tables,
        )

    def to_sql_tables(self, *, dialect: str, tables: str | Sequence[str]) -> list[str]:
        """The statements that create and fill the tables of numbers that a query of `to_sql` joins.

        The names of the tables contain the beginning of the model's id, so that a query only joins
        the numbers of its own model. If rows of a table are missing, the query gives null.

        Args:
            dialect: as for `to_sql`.
            tables: beginning of the names of the tables, such as ``schema.air``.

        Returns:
            Statements without a semicolon: DROP TABLE, CREATE TABLE and INSERT; none if all numbers
            of the model are in the query.

        Raises:
            SpecError: if the dialect is unknown, or it cannot have such a name.
            NotSupportedError: if a block has no formula, saying why.
        """
        from probclass_core.sql.query import to_sql_tables

        return to_sql_tables(self, dialect=dialect, tables=tables)

    @property
    def plot(self) -> ModelPlots:
        """Plots of the model, such as ``model.plot.effect("x")``; see `ModelPlots`.

        They need matplotlib: ``pip install 'probclass[plots]'``.
        """
        from probclass_core.plots.methods import ModelPlots

        return ModelPlots(self)

    def report(
        self,
        path: str | os.PathLike[str],
        *,
        source: Any = None,
        partition: Mapping[str, Any] | None = None,
        where: Where = None,
        evaluation: Evaluation | EvaluationRecord | None = None,
        title: str | None = None,
        progress: ProgressOption = None,
    ) -> None:
        """Write the report of the model: one HTML page that loads nothing from anywhere.

        It says how good the model is next to its class prior, which columns matter, what each of
        them does, and what the model is: classes, blocks, training, the reference of its health.
        Without an evaluation, it has what the training recorded. Plots need matplotlib
        (``pip install 'probclass[plots]'``); without it, the rest is written.

        Args:
            path: file to write, such as ``"air.html"``.
            source: labeled rows to evaluate the model on, and to measure the importance of its
                columns with; as for `pipeline.evaluate`. Rows that training has not seen, best.
            partition: partition of the source to read.
            where: rows of the source to read.
            evaluation: evaluation of the model to show, also one that a store recorded.
            title: title of the page; by default the label.
            progress: True for bars while rows are evaluated and plots are drawn, or a function that
                the numbers of rows, and then of plots, are reported to.

        Raises:
            SpecError: if the evaluation is of another model, or rows are selected without a source.
            DataError, TableError: as `pipeline.evaluate`; also if the file cannot be written.
        """
        from probclass_core.plots.methods import write_report

        write_report(
            self,
            path,
            source=source,
            partition=partition,
            where=where,
            evaluation=evaluation,
            title=title,
            progress=progress,
        )

    def save(
        self, path: str | os.PathLike[str], *, options: Mapping[str, Any] | None = None
    ) -> None:
        """Write the model to a folder of its own, in one step; `load` reads it.

        The files are Arrow tables and JSON with a checksum of each. A `ModelStore` keeps versions.

        Args:
            path: path or URI of the folder. It must not exist, unless it has this model already.
            options: arguments of the file system of a URI, as in a `TableRef`.

        Raises:
            StoreError: if the path contains anything else, or the file system refuses.
        """
        from probclass_core.store.model_folder import save

        save(self, path, options)

    def linear_form(self) -> ArrowTable:
        """log p(x, c) as a linear function of the features, up to a term common to all classes.

        It applies to rows without nulls and includes neither block weights nor a calibration.

        Returns:
            class, feature, weight: for each class one row per feature, and one row with a null
            feature for the intercept, which includes log P(c).

        Raises:
            NotSupportedError: if a block is not linear in its features.
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
        cells = {"feature": pa.array(features, pa.string())}
        form: ArrowTable = tidy_table(self.classes, cells, {"weight": weights})
        return form

    def with_prior(self, prior: Prior) -> Model:
        """The same likelihoods with another prior; ``"uniform"`` predicts by maximum likelihood.

        Raises:
            SpecError: if the prior is not a distribution over the model's classes, or the model has
                a calibration or density quantiles, which depend on its prior.
        """
        for name in _POSTFIT_TABLES:
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

    def prior_only(self) -> Model:
        """The same model with blocks of weight 0: its posterior is the class prior for every row.

        It is what a model is compared with (`Evaluation.baseline_log_loss`), as a model of its own,
        to fall back to while the other one does harm. It keeps the blocks and their log p(x), so
        that rows can still be compared with those of the training; a calibration is left out.
        """
        weights = {str(block.name): 0.0 for block in self.spec.blocks}
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
        tables = {name: getattr(self, name) for name in _OPTIONAL_TABLES}
        optional = {name: table for name, table in tables.items() if table is not None}
        blocks = {
            str(block.name): {
                "estimator": block.estimator,
                "parameters_version": find_estimator(block.estimator).estimator.parameters_version,
            }
            for block in self.spec.blocks
        }
        return Bundle(
            kind="model",
            content={
                "spec": self.spec.to_dict(),
                "features": type_names(self.features),
                **({"time_zones": dict(zones)} if (zones := self.time_zones) else {}),
                "blocks": blocks,
            },
            tables={"priors": self.priors, **self.parameters, **optional},
            provenance={
                **origins(block.estimator for block in self.spec.blocks),
                **({_SPEC_NOTES: self.spec.notes} if self.spec.notes else {}),
                **self.training,
            },
        )

    @classmethod
    def from_bundle(cls, bundle: Bundle, *, where: str = "this bundle") -> Model:
        """The inverse of `to_bundle`; the tables are checked, see `stored`.

        Args:
            bundle: the verified tables and manifest.
            where: name of the bundle in messages.

        Raises:
            StoreError: if the bundle does not contain a model that training could have made, or
                parameters of another version.
            PluginError: if an estimator is not installed.
        """
        if bundle.kind != "model":
            raise StoreError(f"{where} contains {bundle.kind}, not a model.")
        for name, block in _recorded_blocks(bundle, where).items():
            check_reader(name, block, bundle.provenance)
        try:
            return cls._from_bundle(bundle)
        except Exception as error:  # damaged values can cause any error
            reason = str(error) if isinstance(error, ProbClassError) else repr(error)
            raise StoreError(
                f"{where} is not a valid model: {reason.rstrip('.')}; {RESTORE}."
            ) from error

    @classmethod
    def _from_bundle(cls, bundle: Bundle) -> Model:
        tables, training = dict(bundle.tables), dict(bundle.provenance)
        spec = ModelSpec.from_dict(bundle.content["spec"])
        model = cls(
            spec=dataclasses.replace(spec, notes=tuple(map(str, training.pop(_SPEC_NOTES, ())))),
            features=with_time_zones(
                schema_from_names(bundle.content["features"]), bundle.content.get("time_zones", {})
            ),
            priors=tables.pop("priors"),
            **{name: tables.pop(name) for name in _OPTIONAL_TABLES if name in tables},
            parameters=tables,
            training=training,
        )
        vars(model)["likelihoods"] = check_model(model)
        # The id under which it was stored: another Arrow release might write other bytes.
        vars(model)["id"] = bundle.content_id
        return model

    def __getstate__(self) -> dict[str, Any]:
        """Everything except the compiled likelihoods, which are derived; some do not pickle."""
        derived = ("likelihoods", "_weighted_blocks")
        return {name: value for name, value in vars(self).items() if name not in derived}


def _recorded_blocks(bundle: Bundle, where: str) -> dict[str, Mapping[str, Any]]:
    """Estimator and version of the parameters of each block, as a bundle records them.

    Raises:
        StoreError: if they are not those of the blocks of its spec.
    """
    content = bundle.content
    try:
        recorded: dict[str, Mapping[str, Any]] = {
            str(name): dict(block) for name, block in content["blocks"].items()
        }
        found = {
            name: block["estimator"]
            for name, block in recorded.items()
            if isinstance(block["parameters_version"], int)
        }
        expected = {block["name"]: block["estimator"] for block in content["spec"]["blocks"]}
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise StoreError(f"{where} does not say which blocks it has; {RESTORE}.") from error
    if found != expected or not all(isinstance(name, str) for name in found.values()):
        raise StoreError(f"{where}: its blocks are not those of its spec; {RESTORE}.")
    return recorded


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


@checks_arguments
def finalize(statistics: Statistics, *, early: bool = False) -> Model:
    """Compute the prior and the parameters of a model from statistics: the last step of training.

    Args:
        statistics: statistics of all rows.
        early: accept these statistics even if an estimator asks for another pass over the rows.

    Raises:
        DataError: if there are no labeled rows. With ``on_scarce="error"`` also if there is only
            one class, or the rows do not suffice for the parameters of a block.
        SpecError: if a given prior does not fit the classes, or another pass is due.
    """
    expect(statistics, Statistics, STATISTICS_HINT)
    if not early and (refined := refine(statistics)) is not None:
        pairs = zip(statistics.spec.blocks, refined.blocks, strict=True)
        due = [str(new.name) for old, new in pairs if new != old]
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
    check_classes(statistics.classes, statistics.spec, statistics.labeled_rows)
    notes = _notes_on_rows(statistics, classes)
    counts = statistics.classes["count"].to_numpy()
    estimators = bind(statistics.spec, statistics.features, statistics.row_weight)
    parameters = {
        name: estimator.finalize(statistics.blocks[name], classes)
        for name, estimator in estimators.items()
    }
    for table in parameters.values():
        notes += notes_of(table).get("scarce", [])
    notes = list(dict.fromkeys(notes))  # blocks of the same columns say the same
    model = Model(
        spec=statistics.spec,
        features=statistics.features,
        priors=_prior_table(classes, counts, statistics.spec.prior),
        parameters=parameters,
        training={
            "rows": statistics.rows,
            "null_labels": statistics.null_labels,
            "columns": statistics.column_values,
            **({"notes": notes} if notes else {}),
        },
    )
    return _weigh_blocks(model, statistics)


def _weigh_blocks(model: Model, statistics: Statistics) -> Model:
    """The model with the block weights that its spec asks for."""
    option = model.spec.block_weights
    if option is None:
        return model
    if isinstance(option, Mapping):
        names = [str(block.name) for block in model.spec.blocks]
        return dataclasses.replace(model, block_weights=given_weights(option, names, model.classes))
    table, fitted = fit_block_weights(statistics, model.parameters, model.classes, model.log_prior)
    return dataclasses.replace(
        model, block_weights=table, training={**model.training, "block_weights": fitted}
    )


def _columns_text(block: Block) -> str:
    columns = ", ".join(block.columns)
    return f"{columns} given {', '.join(block.given)}" if block.given else columns


def _product(logs: Iterator[FloatArray]) -> FloatArray:
    """The sum of log-likelihoods, ``(n, k)``; it may be the only one of them."""
    total = next(logs)
    for number, log in enumerate(logs):
        # The first sum is a new array, because the first block's array belongs to its likelihood;
        # it keeps that array's memory order.
        total = np.add(total, log, out=total if number else None)
    return total


def _notes_on_rows(statistics: Statistics, classes: pa.Array) -> list[str]:
    """Sentences about the labels and weights of the rows.

    Raises:
        DataError: if there is only one class, and the spec's ``on_scarce`` is ``"error"``.
    """
    notes, spec = [], statistics.spec
    if len(classes) == 1:
        found = f"label {spec.label!r} has one class only, {classes[0].as_py()!r}"
        without_weight = statistics.rows - statistics.null_labels - statistics.labeled_rows
        if without_weight:
            found += (
                f", in rows with a weight {spec.weight!r} above 0 (it is 0 in {without_weight})"
            )
        if spec.on_scarce == "error":
            raise DataError(f"{found}; a classifier needs rows of at least two.")
        notes.append(f"{found}: the model predicts it for every row.")
    if statistics.row_weight > 1.0:
        notes.append(
            f"weight {spec.weight!r} averages {statistics.row_weight:.6g} per row, too much for a "
            "number of rows: rules that count rows, such as the cuts of discretized, count every "
            "row once; pseudo-counts have little effect until the weights average 1."
        )
    return notes


def _prior_table(classes: ArrowArray, counts: FloatArray, prior: Prior) -> ArrowTable:
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
    table: ArrowTable = pa.table({"class": classes, "count": counts, "prior": values})
    return table
