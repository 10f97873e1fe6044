"""Score a record batch: passthrough columns, then what the model says about each row."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from probclass_core.analysis.distributions.meter import HealthMeter, HealthSums
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
from probclass_core.scoring.options import RowOption, RowOptions

_ROUNDING = 1e-6
"""By how much the probabilities of a row may differ from a sum of 1."""


class DecidedRows(NamedTuple):
    """Rows of a batch with their posteriors and decisions."""

    rows: Rows
    posterior: Posterior
    decisions: Decisions

    @property
    def chosen_probability(self) -> FloatArray:
        """The posterior of the class that was chosen, ``(n,)``."""
        return self.posterior.probability_of(self.decisions.choice)

    @property
    def rejected(self) -> pa.Array:
        """Why each row is rejected; null if it is not."""
        return rejection_reasons(self.decisions.rejected)

    @property
    def posterior_lists(self) -> pa.ListArray:
        """The posteriors of each row as a list."""
        probability = self.posterior.probability
        offsets = np.arange(0, probability.size + 1, probability.shape[1], dtype=np.int32)
        return pa.ListArray.from_arrays(offsets, probability.ravel())


Group = tuple[Mapping[str, pa.DataType], Callable[[DecidedRows], Iterable[Any]]]
"""Scored columns that are computed together: their types by name, and a function that gives them
as arrays of Arrow or NumPy."""


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

    def __init__(self, model: Model, schema: pa.Schema, options: RowOptions) -> None:
        columns = list(options.columns or ())
        prior = options.prior
        if options.posterior == "list":
            model.spec.label_for("posterior='list'")
        if prior is not None:
            model.spec.label_for("prior")
        for name in columns:
            if columns.count(name) > 1:
                raise SpecError(f"column {name!r} is listed twice in columns; list it once.")
        self._model, self._ids = model, pa.array([], pa.string())
        self.compiled_rule = model.compile_rule(options.decision)
        self.log_ratio = None if prior is None else model.log_ratio(prior)
        if options.rarity or options.rare is not None:
            self.quantiles: pa.Table | None = model.check_rarity()
        else:  # without a label it is what people ask of a row
            self.quantiles = None if model.spec.label is not None else model.density_quantiles
        self.contributions = None
        if options.contributions:
            self.contributions = Contributions(model, self.log_ratio)
        passthrough = [schema.field(name) for name in columns]
        self._columns = columns
        self.rule, self.options = self.compiled_rule.rule, options
        self._groups = list(self._scored_columns())
        scored = {name: kind for kinds, _ in self._groups for name, kind in kinds.items()}
        taken = scored.keys() & set(columns)
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
        self.schema = pa.schema([*passthrough, *scored.items()], metadata=metadata)

    def _scored_columns(self) -> Iterator[Group]:
        """The columns that follow the passthrough columns, in order."""
        model, rule, rare = self._model, self.rule, self.options.rare
        double, of_class = pa.float64(), model.classes.type
        if model.spec.label is not None:
            yield {"prediction": of_class}, lambda of: [self._classes(of.decisions.prediction)]
            yield {"probability": double}, lambda of: [of.chosen_probability]
            if rule.rejects:
                yield {"rejected": pa.string()}, lambda of: [of.rejected]
            if rule.costs is not None:
                yield {"expected_cost": double}, lambda of: [of.decisions.expected_cost]
            if self.options.posterior == "list":
                yield {"posterior": pa.list_(double)}, lambda of: [of.posterior_lists]
            else:
                kinds = {f"p_{name}": double for name in model.class_names}
                yield kinds, lambda of: of.posterior.probability.T
        yield {"log_density": double}, self._log_density
        if self.quantiles is not None:
            yield {"rarity": double} | ({} if rare is None else {"rare": pa.bool_()}), self._rarity
        yield {"model_id": pa.string()}, lambda of: [self._model_ids(len(of.rows))]
        if self.contributions is not None:
            kinds = dict.fromkeys(self.contributions.columns, double)
            if "runner_up" in kinds:
                kinds["runner_up"] = of_class
            yield kinds, self._contributed

    @property
    def batch_rows(self) -> int:
        """Number of rows to score at once, so that what is computed of them fits in memory."""
        if self.contributions is None:
            return self._model.batch_rows
        return self.contributions.batch_rows

    def score(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Score a batch row by row; it has the passthrough columns and the features."""
        return self._scored(batch, self._decide(batch))

    def score_and_measure(
        self, batch: pa.RecordBatch, meter: HealthMeter
    ) -> tuple[pa.RecordBatch, HealthSums]:
        """Score a batch and measure its health at once."""
        decided = self._decide(batch)
        measured = meter.measure(*decided)
        return self._scored(batch, decided), measured

    def _decide(self, batch: pa.RecordBatch) -> DecidedRows:
        rows = self._model.rows(batch)
        if self.contributions is not None:
            rows = Rows(rows.batch, keeps=True)
        return DecidedRows(rows, *self._model.decide(rows, self.compiled_rule, self.log_ratio))

    def _scored(self, batch: pa.RecordBatch, decided: DecidedRows) -> pa.RecordBatch:
        _check_distributions(decided.posterior.probability)
        columns: list[Any] = [batch.column(name) for name in self._columns]
        for _, compute in self._groups:
            columns.extend(compute(decided))
        # Columns get the types of the schema: text that is read as dictionaries is written as text.
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _model_ids(self, rows: int) -> pa.Array:
        """The id of the model, for each row; batches share the memory of its 64 digits."""
        ids = self._ids
        if len(ids) < rows:
            self._ids = ids = pa.repeat(self._model.id, rows)
        return ids[:rows]

    def _classes(self, positions: IntArray) -> pa.Array:
        return take_classes(self._model.classes, positions)

    def _log_density(self, decided: DecidedRows) -> Iterable[Any]:
        if self._model.normalized:
            return [decided.posterior.log_density]
        return [pa.nulls(len(decided.rows), pa.float64())]

    def _rarity(self, decided: DecidedRows) -> Iterable[Any]:
        assert self.quantiles is not None
        shares = rarity_of(self.quantiles, decided.posterior.log_density)
        return [shares] if self.options.rare is None else [shares, shares <= self.options.rare]

    def _contributed(self, decided: DecidedRows) -> Iterable[Any]:
        contributions, (rows, posterior, decisions) = self.contributions, decided
        assert contributions is not None
        if contributions.log_odds_names:
            runner_up = posterior.runner_up(decisions.choice)
            yield self._classes(runner_up)
            numbers = contributions.log_odds(rows, posterior, decisions.choice, runner_up)
            yield from (_or_null(numbers[name]) for name in contributions.log_odds_names)
        if contributions.surprise_names:
            numbers = contributions.surprise(rows)
            yield from (_or_null(numbers[name]) for name in contributions.surprise_names)


def _or_null(numbers: FloatArray) -> pa.Array:
    """Numbers, NaN as null."""
    return pa.array(numbers, from_pandas=bool(np.isnan(numbers.min(initial=0.0))))


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
def predict_table(model: Model, data: Any, *, options: RowOption = None) -> pa.Table:
    """The rows with their predictions, in memory: the columns that `pipeline.score` writes.

    Args:
        model: model to score with.
        data: table or frame with the feature columns; see `arrays.as_table`.
        options: what is written for each row, such as columns of the data to keep; see
            `RowOptions`, or a mapping of its fields.

    Returns:
        One row per row of the data: the columns that are kept, then ``prediction``,
        ``probability`` and the others of `BatchScorer`.

    Raises:
        DataError: if a column is missing, has an unsuitable type, or is infinite.
        SpecError: if a column has the name of a scored one, an option is not one of its
            choices, or the rule does not fit the model.
    """
    table = as_table(data)
    chosen = RowOptions.parse(options)
    kept = names_of_columns(table.schema) if chosen.columns is None else list(chosen.columns)
    check_columns(table.schema, kept)
    sources = source_columns(table.schema, model.spec.features)
    table = table.select(list(dict.fromkeys([*kept, *sources])))
    scorer = BatchScorer(model, table.schema, replace(chosen, columns=kept))
    rows = min(scorer.batch_rows, batch_rows(table.num_columns))
    batches = [scorer.score(batch) for batch in in_slices(table.to_batches(), rows)]
    return pa.Table.from_batches(batches, scorer.schema)
