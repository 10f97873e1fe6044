"""Score a record batch: passthrough columns, then what the model says about each row."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from probclass_core.analysis.distributions.label_shift import log_ratio
from probclass_core.analysis.distributions.sums import HealthMeter, HealthSums
from probclass_core.arguments import checks_arguments
from probclass_core.arrow.arrays import (
    FloatArray,
    IntArray,
    as_table,
    batch_rows,
    check_columns,
    in_slices,
    names_of_columns,
)
from probclass_core.arrow.parts import source_columns
from probclass_core.arrow.rows import Rows
from probclass_core.errors import DataError, SpecError
from probclass_core.model.contributions import Contributions
from probclass_core.model.decision import Decisions, rejection_reasons, take_classes
from probclass_core.model.density_quantiles import rarity as rarity_of
from probclass_core.model.model import Model
from probclass_core.model.posterior import Posterior
from probclass_core.scoring.options import ScoringOption, ScoringOptions

_ROUNDING = 1e-6
"""By how much the probabilities of a row may differ from a sum of 1."""


class BatchScorer:
    """A model prepared to score batches of one schema.

    Scored columns: the passthrough columns; ``prediction``, null if the row is rejected;
    ``probability``, the posterior of the chosen class, rejected or not; with a rule that can
    reject, ``rejected``, the reason or null; with a rule that has costs, ``expected_cost`` of the
    choice; the posterior, as one ``p_<class>`` per class or as ``posterior`` (list<double> in class
    order); ``log_density``, log p(x) in nats, null if a block knows it only up to a term; with the
    options for it, ``rarity``, see `Model.rarity`, and whether it is ``rare``; ``model_id``.
    Without a label: the passthrough columns, ``log_density`` and what follows it.

    With ``contributions``, after ``model_id``: ``runner_up``, the most probable class besides the
    chosen one; ``contribution_<name>``, what each column, the prior, the biases of weights and the
    calibration add to the log odds of the chosen class against it; and ``surprise_<name>``, what
    each column and the class add to −log p(x). They are in nats; see `model.contributions`. A model
    of one class has no contributions, and one whose log p(x) is not a density no surprise.

    Args:
        schema: fields of the passthrough columns as they are written, and maybe others.
        options: what is written for each row; without `columns` there are none, and the posteriors
            are under the prior of the training unless the options have the shares.

    Attributes:
        options: the options.
        quantiles: those of log p(x), if rarity is asked for.
        rule: decision rule.
        compiled_rule: the rule compiled for the model.
        log_ratio: log of the shares in ``options.prior`` divided by those of the training,
            ``(k,)``; None without them.
        contributions: computes what each column contributes; None unless it is wanted.
        schema: schema of the scored batches.

    Raises:
        SpecError: if a passthrough column has the name of a scored one or is named twice, or the
            decision rule does not fit the model, or the model has no label and an option is about
            classes.
        NotSupportedError: if the rule or rarity needs a density that a block knows only up to a
            term.
    """

    def __init__(self, model: Model, schema: pa.Schema, options: ScoringOptions) -> None:
        columns = list(options.columns or ())
        prior = options.prior
        self._as_list = options.posterior == "list"
        if self._as_list:
            model.spec.label_for("posterior='list'")
        if prior is not None:
            model.spec.label_for("prior")
        for name in columns:
            if columns.count(name) > 1:
                raise SpecError(f"column {name!r} is listed twice in columns; list it once.")
        self._model = model
        self.compiled_rule = model.compile_rule(options.decision)
        self.log_ratio = None if prior is None else log_ratio(model, prior)
        if options.rarity or options.rare is not None:
            self.quantiles: pa.Table | None = model.check_rarity()
        else:  # without a label it is what people ask of a row
            self.quantiles = None if model.spec.label is not None else model.density_quantiles
        self.contributions = None
        if options.contributions:
            self.contributions = Contributions(model, self.log_ratio)
        passthrough = [schema.field(name) for name in columns]
        self._columns = columns
        self._kinds = {field.name: field.type for field in passthrough}
        self.rule, self.options = self.compiled_rule.rule, options
        scored = self._scored_fields()
        taken = {field.name for field in scored} & set(columns)
        if taken:
            raise SpecError(
                f"column {min(taken)!r} of the source has the name of a scored column; rename it, "
                "or leave it out of columns."
            )
        metadata = {
            "probclass.model_id": model.id,
            "probclass.classes": json.dumps(model.class_names),
            "probclass.decision": json.dumps(self.rule.to_dict()),
        }
        self.schema = pa.schema([*passthrough, *scored], metadata=metadata)

    def _scored_fields(self) -> list[pa.Field]:
        model, rule = self._model, self.rule
        of_density = [
            pa.field("log_density", pa.float64()),
            *([pa.field("rarity", pa.float64())] if self.quantiles is not None else []),
            *([pa.field("rare", pa.bool_())] if self.options.rare is not None else []),
            pa.field("model_id", pa.string()),
            *self._contributed_fields(),
        ]
        if model.spec.label is None:
            return of_density
        if self._as_list:
            posterior = [pa.field("posterior", pa.list_(pa.float64()))]
        else:
            posterior = [pa.field(f"p_{name}", pa.float64()) for name in model.class_names]
        return [
            pa.field("prediction", model.classes.type),
            pa.field("probability", pa.float64()),
            *([pa.field("rejected", pa.string())] if rule.rejects else []),
            *([pa.field("expected_cost", pa.float64())] if rule.costs is not None else []),
            *posterior,
            *of_density,
        ]

    def _contributed_fields(self) -> Iterator[pa.Field]:
        for name in self.contributions.columns if self.contributions is not None else ():
            is_class = name == "runner_up"
            yield pa.field(name, self._model.classes.type if is_class else pa.float64())

    @property
    def batch_rows(self) -> int:
        """Number of rows to score at once, so that what is computed of them fits in memory."""
        if self.contributions is None:
            return self._model.batch_rows
        return self.contributions.batch_rows

    def score(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Score a batch row by row; it has the passthrough columns and the features."""
        rows = self._rows(batch)
        return self._scored(batch, rows, *self.decide(rows))

    def score_and_measure(
        self, batch: pa.RecordBatch, meter: HealthMeter
    ) -> tuple[pa.RecordBatch, HealthSums]:
        """Score a batch and measure its health at once."""
        rows = self._rows(batch)
        posterior, decisions = self.decide(rows)
        measured = meter.measure(rows, posterior, decisions)
        return self._scored(batch, rows, posterior, decisions), measured

    def _rows(self, batch: pa.RecordBatch) -> Rows:
        rows = self._model.rows(batch)
        return rows if self.contributions is None else Rows(rows.batch, keeps=True)

    def decide(self, batch: pa.RecordBatch | Rows) -> tuple[Posterior, Decisions]:
        """Posteriors and decisions of a batch, which has the features."""
        return self._model.decide(batch, self.compiled_rule, self.log_ratio)

    def _scored(
        self, batch: pa.RecordBatch, rows: Rows, posterior: Posterior, decisions: Decisions
    ) -> pa.RecordBatch:
        _check_distributions(posterior.probability)
        # Text that is read as dictionaries is written as text.
        columns = [batch.column(name).cast(self._kinds[name]) for name in self._columns]
        if self._model.spec.label is not None:
            columns += self._of_classes(posterior, decisions)
        if self._model.normalized:
            columns.append(pa.array(posterior.log_density))
        else:
            columns.append(pa.nulls(batch.num_rows, pa.float64()))
        if self.quantiles is not None:
            shares = rarity_of(self.quantiles, posterior.log_density)
            columns.append(pa.array(shares))
            if self.options.rare is not None:
                columns.append(pa.array(shares <= self.options.rare))
        columns.append(pa.repeat(self._model.id, batch.num_rows))
        columns += self._contributed(rows, posterior, decisions.choice)
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _of_classes(self, posterior: Posterior, decisions: Decisions) -> list[pa.Array]:
        """The columns that say which class a row is of."""
        probability, columns = posterior.probability, []
        columns.append(take_classes(self._model.classes, decisions.prediction))
        columns.append(pa.array(posterior.probability_of(decisions.choice)))
        if self.rule.rejects:
            columns.append(rejection_reasons(decisions.rejected))
        if decisions.expected_cost is not None:
            columns.append(pa.array(decisions.expected_cost))
        if self._as_list:
            offsets = np.arange(0, probability.size + 1, probability.shape[1], dtype=np.int32)
            columns.append(pa.ListArray.from_arrays(offsets, probability.ravel()))
        else:
            columns.extend(pa.array(column) for column in probability.T)
        return columns

    def _contributed(
        self, rows: Rows, posterior: Posterior, choice: IntArray
    ) -> Iterator[pa.Array]:
        """The columns of `_contributed_fields`."""
        if self.contributions is None:
            return
        if self.contributions.log_odds_names:
            runner_up = posterior.runner_up(choice)
            yield take_classes(self._model.classes, runner_up)
            numbers = self.contributions.log_odds(rows, posterior, choice, runner_up)
            yield from (_or_null(numbers[name]) for name in self.contributions.log_odds_names)
        if self.contributions.surprise_names:
            numbers = self.contributions.surprise(rows)
            yield from (_or_null(numbers[name]) for name in self.contributions.surprise_names)


def _or_null(numbers: FloatArray) -> pa.Array:
    """Numbers, NaN as null."""
    return pa.array(numbers, from_pandas=bool(np.isnan(numbers).any()))


def _check_distributions(probability: FloatArray) -> None:
    """Refuse posteriors, ``(n, k)``, that are not probabilities of one of the classes.

    Raises:
        DataError: with the number of rows.
    """
    sums = probability.sum(axis=1)
    wrong = ~(np.abs(sums - 1.0) <= _ROUNDING)
    if wrong.any():
        raise DataError(
            f"the posterior of {int(wrong.sum())} rows is not a distribution: the first sums to "
            f"{sums[np.argmax(wrong)]:g}. An estimator of the model returns NaN or +inf; nothing "
            "of these rows was committed."
        )


@checks_arguments
def predict_table(model: Model, data: Any, *, options: ScoringOption = None) -> pa.Table:
    """The rows with their predictions, in memory: the columns that `pipeline.score` writes.

    Args:
        model: model to score with.
        data: table or frame with the feature columns; see `arrays.as_table`.
        options: columns of the data to keep, posterior, decision, prior, rarity, rare and
            contributions of `ScoringOptions`, or a mapping of them; no others.

    Returns:
        One row per row of the data: the columns that are kept, then ``prediction``,
        ``probability`` and the others of `BatchScorer`.

    Raises:
        DataError: if a column is missing, has an unsuitable type, or is infinite.
        SpecError: if a column has the name of a scored one, an option is not one of its
            choices, or the rule does not fit the model.
    """
    table = as_table(data)
    chosen = ScoringOptions.of_rows(options, "predict_table")
    kept = names_of_columns(table.schema) if chosen.columns is None else list(chosen.columns)
    check_columns(table.schema, kept)
    sources = source_columns(table.schema, model.spec.features)
    table = table.select(list(dict.fromkeys([*kept, *sources])))
    scorer = BatchScorer(model, table.schema, replace(chosen, columns=kept))
    rows = min(scorer.batch_rows, batch_rows(table.num_columns))
    batches = [scorer.score(batch) for batch in in_slices(table.to_batches(), rows)]
    return pa.Table.from_batches(batches, scorer.schema)
