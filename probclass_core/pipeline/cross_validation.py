"""Cross-validation on tables: every row is evaluated by a model that did not see it.

The statistics of each fold are computed once and merged without those of the fold that is held out,
so the rows are read twice, once to summarize and once to evaluate, however many folds there are:
``finalize(merge(statistics of the other folds))`` instead of a fit for each fold. Several specs are
compared on the same folds: the differences of their metrics, fold by fold, vary less than the
metrics, because the same folds are hard for all of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain
from typing import Any, TypedDict, Unpack, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.analysis.comparison import check_same_label, named_models
from probclass_core.analysis.evaluation import METRICS, Evaluation, EvaluationSums, Evaluator
from probclass_core.arguments import ColumnName, checked_number, checks_arguments
from probclass_core.arrow.arrays import IntArray, in_slices
from probclass_core.arrow.parts import select
from probclass_core.arrow.rows import Rows, row_hashes
from probclass_core.display import Part, Report, TablePart, counted, json_values
from probclass_core.errors import DataError, SpecError, naming
from probclass_core.estimation.statistics import Statistics, merge, refine, summarize_batches
from probclass_core.estimation.statistics import accumulator as statistics_accumulator
from probclass_core.execution.engine import Engine, EngineOption
from probclass_core.execution.open import open_engine
from probclass_core.execution.progress import ProgressOption, RowCounter, draws_progress
from probclass_core.io.filters import Where
from probclass_core.io.open import open_table
from probclass_core.io.selection import Selection
from probclass_core.io.table import Plan, Source, Unit
from probclass_core.model.decision import DecisionOption
from probclass_core.model.finalize import finalize
from probclass_core.model.model import Model
from probclass_core.pipeline.training import spec_or_auto
from probclass_core.spec.model_spec import SPEC_HINT, ModelSpec

_COMPARED = ("log_loss", "accuracy")
"""Metrics by which several specs are compared."""

_MOST_FOLDS = 1_000
"""Folds whose statistics and models fit in memory for most specs."""


@dataclass(frozen=True, repr=False)
class CrossValidation(Report):
    """Evaluations of the folds, each by a model of the other folds.

    Attributes:
        evaluations: one for each fold.
        spec: specification of the models.
        notes: notes of the fits, each once; see ``Model.training``.
    """

    evaluations: tuple[Evaluation, ...]
    spec: ModelSpec
    notes: tuple[str, ...] = ()

    @cached_property
    def table(self) -> pa.Table:
        """One row per fold: fold (from 0), rows, and each metric with that of the prior alone.

        Rows without a label are left out, and so are rows of a class that no other fold has:
        ``unseen_labels`` counts these. The columns are named as in `Evaluation`: ``log_loss``,
        ``baseline_log_loss`` and so on.
        """
        metrics = [name for metric in self._metrics for name in (metric, f"baseline_{metric}")]
        counts = [(name, pa.int64()) for name in ("fold", "rows", "unseen_labels")]
        schema = pa.schema([*counts, *((name, pa.float64()) for name in metrics)])
        folds = [{"fold": fold, **vars(one)} for fold, one in enumerate(self.evaluations)]
        return pa.Table.from_pylist(folds, schema)

    @cached_property
    def summary(self) -> pa.Table:
        """One row per metric: metric, mean, standard_error, prior, prior_standard_error.

        Means are over the folds; ``prior`` is that of predicting the class prior alone. Standard
        errors are s / √k, with the standard deviation s of the k folds. They are approximate,
        because the models of two folds share most of their rows (Bengio and Grandvalet, "No
        unbiased estimator of the variance of k-fold cross-validation", JMLR 5, 2004). A metric that
        is undefined in a fold has the mean of the others.
        """
        names = ("mean", "standard_error", "prior", "prior_standard_error")
        rows = []
        for metric in self._metrics:
            both = (self.table[name] for name in (metric, f"baseline_{metric}"))
            figures = [figure for values in both for figure in _mean_and_error(values)]
            rows.append({"metric": metric, **dict(zip(names, figures, strict=True))})
        schema = [("metric", pa.string()), *((name, pa.float64()) for name in names)]
        return pa.Table.from_pylist(rows, pa.schema(schema))

    @property
    def _metrics(self) -> list[str]:
        return [name for name in METRICS if name != "cost" or self.evaluations[0].cost is not None]

    @property
    def _folds(self) -> str:
        """The number of folds, of their rows, and of rows that are left out."""
        rows, unseen = (sum(self.table[name].to_pylist()) for name in ("rows", "unseen_labels"))
        left_out = f"; left out: {unseen:,} of a class that no other fold has" if unseen else ""
        return f"{len(self.evaluations):,} folds of {counted(rows, 'labeled row')}{left_out}"

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values: the summary, and the evaluation of each fold."""
        return {
            "spec": self.spec.to_dict(),
            "summary": json_values(self.summary),
            "folds": [one.to_dict() for one in self.evaluations],
            "notes": list(self.notes),
        }

    def _report(self) -> list[Part]:
        """The means over the folds."""
        summary = self.summary.to_pydict()
        columns = {
            "": [name.replace("_", " ") for name in summary["metric"]],
            "mean": summary["mean"],
            "± s.e.": summary["standard_error"],
            "prior alone": summary["prior"],
            "± s.e. ": summary["prior_standard_error"],
        }
        title = f"Each fold evaluated by a model of the others: {self._folds}"
        return [title, TablePart(columns), self.notes]


@dataclass(frozen=True, repr=False)
class CrossValidations(Report):
    """Cross-validations of several specs on the same folds, compared.

    Attributes:
        validations: the cross-validation of each spec, by name of the model.
    """

    validations: Mapping[str, CrossValidation]

    @cached_property
    def table(self) -> pa.Table:
        """One row per model, the smallest log loss first.

        Columns: model; log_loss and accuracy, means over the folds, each followed by its standard
        error, as in `CrossValidation.summary`, and by the same of the prior alone; and, for all
        models but the first, the mean difference from the first, with the standard error of the
        differences fold by fold: model, log_loss, log_loss_error, baseline_log_loss,
        log_loss_difference, log_loss_difference_error, accuracy, accuracy_error,
        baseline_accuracy, accuracy_difference, accuracy_difference_error. Errors are None if they
        are unknown, as of an infinite log loss.
        """
        ranked = sorted(
            self.validations.items(), key=lambda one: float(np.mean(one[1].table["log_loss"]))
        )
        best = ranked[0][1].table
        rows: list[dict[str, Any]] = []
        for name, validation in ranked:
            own = validation.table
            row: dict[str, Any] = {"model": name}
            for metric in _COMPARED:
                row[metric], row[f"{metric}_error"] = _mean_and_error(own[metric])
                row[f"baseline_{metric}"] = _mean_and_error(own[f"baseline_{metric}"])[0]
                differences = pc.subtract(own[metric], best[metric])
                mean, error = _mean_and_error(differences) if rows else (None, None)
                row |= {f"{metric}_difference": mean, f"{metric}_difference_error": error}
            rows.append(row)
        kinds = [(name, pa.float64()) for name in rows[0] if name != "model"]
        schema = pa.schema([("model", pa.string()), *kinds])
        return pa.Table.from_pylist(rows, schema=schema)

    @property
    def best(self) -> str:
        """The model with the smallest log loss; ties go to the first."""
        return str(self.table["model"][0].as_py())

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values: the best model, the table, and each cross-validation by name."""
        return {
            "best": self.best,
            "models": json_values(self.table),
            "validations": {name: one.to_dict() for name, one in self.validations.items()},
        }

    def _report(self) -> list[Part]:
        """The models, the smallest log loss first, and what a difference means."""
        columns = self.table.to_pydict()
        table = {
            "model": columns["model"],
            "log loss": columns["log_loss"],
            "± s.e.": columns["log_loss_error"],
            "prior alone": columns["baseline_log_loss"],
            "difference": columns["log_loss_difference"],
            "± s.e. ": columns["log_loss_difference_error"],
            "accuracy": columns["accuracy"],
        }
        title = (
            f"{counted(len(columns['model']), 'model')}, the smallest log loss first, on the same "
            f"{self.validations[self.best]._folds}"
        )
        meaning = (
            f"Differences are from {self.best!r}, fold by fold; one of less than about two "
            "standard errors may be chance."
        )
        notes = [f"{name}: {note}" for name, one in self.validations.items() for note in one.notes]
        return [title, TablePart(table), meaning, notes]


class _Folding(TypedDict, total=False):
    folds: int
    seed: int
    groups: str | None
    partition: Mapping[str, Any] | None
    where: Where
    decision: DecisionOption
    engine: EngineOption
    workers: int | None
    progress: ProgressOption


@overload
def cross_validate(
    source: Any, spec: ModelSpec | None = None, *, label: str | None = None, **how: Unpack[_Folding]
) -> CrossValidation: ...


@overload
def cross_validate(
    source: Any, spec: Mapping[str, ModelSpec] | Sequence[ModelSpec], **how: Unpack[_Folding]
) -> CrossValidations: ...


@checks_arguments
@draws_progress("cross-validating")
def cross_validate(
    source: Any,
    spec: ModelSpec | Mapping[str, ModelSpec] | Sequence[ModelSpec] | None = None,
    *,
    label: ColumnName | None = None,
    folds: int = 5,
    seed: int = 0,
    groups: ColumnName | None = None,
    partition: Mapping[str, Any] | None = None,
    where: Where = None,
    decision: DecisionOption = "map",
    engine: EngineOption = None,
    workers: int | None = None,
    progress: ProgressOption = None,
) -> CrossValidation | CrossValidations:
    """Evaluate specs on rows that their models did not see, fold by fold.

    In each batch of rows that is read, the rows of each class are dealt out to the folds in turn,
    in the order of a hash of their values. So every fold has the same share of each class, equal
    rows are spread over the folds, and the folds depend neither on the engine nor on the order of
    the rows in a batch. Block weights are fitted anew for each fold, on the rows of the others.

    Rows that are alike, such as the hours of a day or the visits of a patient, say much about each
    other, and a model that has seen some of them looks better than it will be on new days and
    patients. With ``groups``, all rows of a day or patient are in one fold.

    Several specs are evaluated on the same folds, which depend on the values of all their columns.

    Args:
        source: path, table, frame or dataset, as for `fit`; it is read twice for each spec, and
            once more for each further pass of an estimator.
        spec: the model; or several to compare, of any columns and one label: a mapping by model
            name, or a list of models M1, M2, …. Its blocks are those of every fold: if
            `ModelSpec.auto` chose them on the same rows, the result is slightly optimistic.
        label: the class column, instead of a spec: the spec is that of `ModelSpec.auto`.
        folds: number of folds, from 2 to 1,000.
        seed: number that the folds depend on.
        groups: column whose rows with the same value are in the same fold, such as a partition
            column; null is a value. The largest groups come first, each in the fold that has the
            fewest rows so far.
        partition: partition to read.
        where: rows to read.
        decision: decision rule; see `DecisionRule`.
        engine: engine that reads, summarizes and measures. The result does not depend on it.
        workers: number of workers of the engine.
        progress: True for a bar, or a function that progress is reported to.

    Returns:
        A `CrossValidation`, or `CrossValidations` of several specs.

    Raises:
        SpecError: if neither or both of spec and label are given, several specs have different
            labels, a spec does not fit the columns, ``folds`` or ``seed`` is not such a number, or
            ``groups`` is the label.
        DataError: if there are fewer labeled rows or groups than folds, a model cannot be estimated
            from the other folds, or the source is a reader, which can be read only once.
        TableError: if the table or partition does not exist or cannot be read.
        NotSupportedError: if the rule needs a density that a block knows only up to a term.
    """
    checked_number("folds", folds, 2, _MOST_FOLDS)
    checked_number("seed", seed, 0, 2**32 - 1)
    table = open_table(source)
    if table.read_once:
        raise DataError(
            "cross-validation reads the rows twice, and a reader can be read only once; pass a "
            "table or a path."
        )
    reading: dict[str, Any] = {"partition": partition, "where": where}
    with open_engine(engine, workers) as opened:
        if isinstance(spec, (Mapping, Sequence)) and not isinstance(spec, str):
            if label is not None:
                raise SpecError("expected specs or label=, got both; the specs have the label.")
            specs = named_models(spec, ModelSpec, SPEC_HINT)
        else:
            derived = spec_or_auto(spec, label, table, engine=opened, progress=progress, **reading)
            specs = {"": derived}
        check_same_label(specs)
        target = next(iter(specs.values())).label_for("cross_validate")
        features = _union(one.features for one in specs.values())
        dealer: Dealer = _RowDealer(folds, target, features, seed)
        if groups == target:
            raise SpecError(
                f"groups is the label {target!r}: a fold would have all rows of a class."
            )
        if groups is not None:
            dealer = _GroupDealer.of(table, groups, folds, seed, reading)
        grouping = {
            name: dataclasses.replace(one, half_life=None).with_groups_of(table.partition_columns)
            for name, one in specs.items()
        }
        alike = _union(one.group_columns for one in grouping.values())
        columns = _union(one.label_and_weight for one in specs.values())
        dealt_by = () if groups is None else (groups,)
        plan = Selection(table, **reading).plan([*columns, *dealt_by], [*features, *alike])
        counter = RowCounter(progress, None if plan.rows is None else 2 * len(specs) * plan.rows)
        validations = {}
        for name, one in grouping.items():
            with naming(f"model {name!r}" if name else ""):
                validation = _validate(plan, one, dealer, decision, opened, counter.add)
            validations[name] = dataclasses.replace(validation, spec=specs[name])
    return CrossValidations(validations) if len(validations) > 1 else validations[""]


def _validate(
    plan: Plan,
    spec: ModelSpec,
    dealer: Dealer,
    decision: DecisionOption,
    engine: Engine,
    on_rows: Callable[[int], None],
) -> CrossValidation:
    """Evaluate a spec on the folds."""
    models = _models(plan, spec, dealer, engine, on_rows)
    evaluators = [Evaluator(model, decision) for model in models]
    totals = [evaluator.no_rows for evaluator in evaluators]
    for measured in engine.map(partial(_measure_folds, dealer, evaluators), plan.units):
        totals = [total + sums for total, sums in zip(totals, measured, strict=True)]
        on_rows(sum(sums.rows for sums in measured))
    evaluations = []
    for fold, (evaluator, total) in enumerate(zip(evaluators, totals, strict=True)):
        with naming(f"fold {fold}"):
            evaluations.append(evaluator.result(total))
    notes = [note for model in models for note in model.training.get("notes", ())]
    return CrossValidation(tuple(evaluations), spec, tuple(dict.fromkeys(notes)))


def _union(names: Iterable[Sequence[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(chain.from_iterable(names)))


def _models(
    plan: Plan, spec: ModelSpec, dealer: Dealer, engine: Engine, on_rows: Callable[[int], None]
) -> list[Model]:
    """For each fold, the model of the rows of all others."""

    def summarized(work: _SummarizeFolds) -> list[Statistics]:
        parts = [statistics_accumulator() for _ in work.specs]
        for part, of_spec in zip(parts, work.specs.values(), strict=True):
            part.add(summarize_batches(of_spec, plan.schema, ()))
        for statistics in engine.map(work, plan.units):
            for part, of_fold in zip(parts, statistics, strict=True):
                part.add(of_fold)
            if not work.outside:
                on_rows(sum(of_fold.rows for of_fold in statistics))
        return [part.result() for part in parts]

    folds = range(dealer.folds)
    of_folds = summarized(_SummarizeFolds(dealer, plan.schema, dict.fromkeys(folds, spec)))
    labeled = sum(one.labeled_rows for one in of_folds)
    if labeled < dealer.folds:
        raise DataError(
            f"{dealer.folds} folds need as many labeled rows, and there are {labeled}; use fewer "
            "folds or more rows."
        )
    training = [merge([*of_folds[:fold], *of_folds[fold + 1 :]]) for fold in folds]
    passes = 1
    while True:
        specs = [refine(statistics, passes=passes) for statistics in training]
        refined = {fold: spec for fold, spec in enumerate(specs) if spec is not None}
        if not refined:
            break
        outside = summarized(_SummarizeFolds(dealer, plan.schema, refined, outside=True))
        for fold, statistics in zip(refined, outside, strict=True):
            training[fold] = statistics
        passes += 1
    models = []
    for fold, statistics in enumerate(training):
        with naming(f"fold {fold}"):
            models.append(dataclasses.replace(finalize(statistics, early=True), spec=spec))
    return models


@dataclass(frozen=True)
class _GroupDealer:
    """Deals out groups of rows: all that have the same value of a column.

    Attributes:
        folds: number of folds.
        column: the column.
        values: each of its values, ``(g,)``.
        fold_of: fold of each value, ``(g,)``.
    """

    folds: int
    column: str
    values: pa.Array
    fold_of: IntArray

    @classmethod
    def of(
        cls, table: Source, column: str, folds: int, seed: int, reading: Mapping[str, Any]
    ) -> _GroupDealer:
        """Read the column, and put each group in the fold that has the fewest rows so far."""
        values = pa.chunked_array(
            [batch.column(0) for batch in table.plan([column], **reading).batches()],
            table.schema.field(column).type,
        )
        counted = values.value_counts()
        found, counts = counted.field("values"), counted.field("counts").to_numpy()
        if len(found) < folds:
            raise DataError(
                f"{folds} folds need as many groups, and column {column!r} has {len(found)}; use "
                "fewer folds or another column."
            )
        hashes = row_hashes(Rows(pa.record_batch([found], [column])), seed=seed)
        rows, fold = np.zeros(folds, dtype=np.int64), np.empty(len(found), dtype=np.intp)
        for group in np.lexsort((hashes, -counts)):
            fold[group] = rows.argmin()
            rows[fold[group]] += counts[group]
        return cls(folds, column, found, fold)

    def deal(self, batch: pa.RecordBatch) -> IntArray:
        group = pc.index_in(batch.column(self.column), self.values)
        folds: IntArray = self.fold_of[group.to_numpy(zero_copy_only=False)]
        return folds


@dataclass(frozen=True)
class _RowDealer:
    """Deals out the rows of each class of a batch in turn, in the order of their hashes.

    Attributes:
        folds: number of folds.
        label: class column, which decides the fold of a row together with the features.
        features: features of all models.
        seed: number that the folds depend on.
    """

    folds: int
    label: str
    features: tuple[str, ...]
    seed: int

    def deal(self, batch: pa.RecordBatch) -> IntArray:
        if not batch.num_rows:
            return np.empty(0, dtype=np.intp)
        rows = Rows(select(batch, list(dict.fromkeys((self.label, *self.features)))))
        hashes = row_hashes(rows, seed=self.seed)
        order = np.lexsort((hashes, row_hashes(rows, [self.label])))
        fold = np.empty(len(order), dtype=np.intp)
        # The first fold differs from batch to batch, or the last ones would get fewer rows.
        fold[order] = (
            int(hashes.min() % np.uint64(self.folds)) + np.arange(len(order))
        ) % self.folds
        return fold


Dealer = _RowDealer | _GroupDealer


@dataclass(frozen=True)
class _SummarizeFolds:
    """The work of an engine in training: the statistics of each fold of a unit.

    Attributes:
        dealer: deals out the rows.
        schema: schema of the batches.
        specs: what to summarize by, by fold.
        outside: whether to summarize the rows outside of the fold.
    """

    dealer: Dealer
    schema: pa.Schema
    specs: Mapping[int, ModelSpec]
    outside: bool = False

    def __call__(self, unit: Unit) -> list[Statistics]:
        dealt = [(batch, self.dealer.deal(batch)) for batch in unit.read()]
        return [
            summarize_batches(
                spec,
                self.schema,
                (batch.filter(pa.array((folds == fold) != self.outside)) for batch, folds in dealt),
            )
            for fold, spec in self.specs.items()
        ]


def _measure_folds(
    dealer: Dealer, evaluators: Sequence[Evaluator], unit: Unit
) -> list[EvaluationSums]:
    """The work of an engine in evaluation: each fold of a unit, measured by its model."""
    sums = [evaluator.no_rows for evaluator in evaluators]
    for batch in unit.read():
        folds = dealer.deal(batch)
        for fold, evaluator in enumerate(evaluators):
            held_out = batch.filter(pa.array(folds == fold))
            for part in in_slices([held_out], evaluator.model.batch_rows):
                sums[fold] += evaluator.measure(part)
    return sums


def _mean_and_error(values: pa.ChunkedArray) -> tuple[float | None, float | None]:
    """Mean of the folds and its standard error; None if it is undefined.

    A fold without a value is left out, as a difference between infinite losses.
    """
    known = values.drop_null().to_numpy()
    known = known[~np.isnan(known)]
    if not len(known):
        return None, None
    mean = float(known.mean())
    if len(known) < 2 or not np.isfinite(known).all():
        return mean, None
    return mean, float(known.std(ddof=1) / np.sqrt(len(known)))
