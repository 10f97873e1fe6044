"""Promote a challenger only if it beats the champion on rows that it was not trained on."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from probclass_core.analysis.distributions.reading import density_units
from probclass_core.analysis.paired import PairedEvaluation, PairedEvaluator
from probclass_core.arguments import ColumnName, checks_arguments
from probclass_core.arrow.bundle import as_json
from probclass_core.errors import DataError, SpecError, check_known, naming, one_of
from probclass_core.execution.engine import EngineOption
from probclass_core.execution.open import open_engine
from probclass_core.execution.progress import ProgressOption, RowCounter, draws_progress
from probclass_core.io.filters import Where
from probclass_core.io.open import open_table
from probclass_core.io.selection import Selection
from probclass_core.model.decision import DecisionOption, DecisionRule
from probclass_core.model.model import Model, ModelOption, as_model
from probclass_core.operation.order import judged_beyond, rows_judged
from probclass_core.store.gate import Decision, Gate, TrainedOn
from probclass_core.store.model_store import ModelStore
from probclass_core.store.promotions import Promotion
from probclass_core.store.records import DEFAULT_ALIAS, ModelVersion
from probclass_core.training.overlap import trained_on

log = logging.getLogger(__name__)

_SEEN = {"yes": "was trained on", "unknown": "may have been trained on"}


@checks_arguments
@draws_progress("evaluating")
def evaluate_paired(
    challenger: ModelOption,
    champion: ModelOption | None,
    source: Any,
    *,
    partition: Mapping[str, Any] | None = None,
    where: Where = None,
    windows: ColumnName | None = None,
    decision: DecisionOption = "map",
    engine: EngineOption = None,
    workers: int | None = None,
    progress: ProgressOption = None,
) -> PairedEvaluation:
    """Evaluate two models on the same labeled rows in one pass, with the gain of the first.

    Args:
        challenger: model to judge, or a fitted `ProbClassifier`.
        champion: model to compare it with, or None to evaluate the challenger alone.
        source: as for `fit`, like the arguments that are not listed.
        partition: partition to read.
        where: rows to read.
        windows: partition column by whose values the rows are divided, such as ``"month"``. The
            gain then also has its value in each window, and its standard error allows for rows of
            one window that are alike.
        decision: decision rule; see `DecisionRule`.
        engine: engine that reads and measures. The result does not depend on it.
        workers: number of workers of the engine.
        progress: True for a bar, or a function that progress is reported to.

    Raises:
        DataError: if a column is missing, or no row has a label that a model knows.
        SpecError: if the decision rule does not fit a model, or `windows` is not a partition
            column.
        TableError: if the table or partition does not exist or cannot be read.
    """
    challenger = as_model(challenger)
    if champion is not None:
        champion = as_model(champion)
    evaluator = PairedEvaluator(challenger, champion, decision)
    parts = list(_windows(Selection(open_table(source), partition, where), windows))
    plans = [_plan(selection, challenger, champion) for _, selection in parts]
    known = [plan.rows for plan in plans if plan.rows is not None]
    counter = RowCounter(progress, sum(known) if len(known) == len(plans) else None)
    with open_engine(engine, workers) as opened:
        return evaluator.result(
            [
                (window, evaluator.measure_plan(plan, opened, counter))
                for (window, _), plan in zip(parts, plans, strict=True)
            ]
        )


def _windows(
    selection: Selection, column: str | None
) -> Iterator[tuple[Mapping[str, Any] | None, Selection]]:
    """The windows, each with the selection of its rows; the window None if there is no column."""
    if column is None:
        yield None, selection
        return
    table, where, partition = selection.table, selection.where, dict(selection.partition or {})
    names = list(table.partition_columns)
    check_known([column], names, "windows: no partition column", "the table has")
    of_partitions: list[Any] = [(name, "==", value) for name, value in partition.items()]
    if isinstance(where, (list, tuple)):
        of_partitions += [condition for condition in where if condition[0] in names]
    found = table.partitions(of_partitions or None)
    values = sorted({each[column] for each in found}, key=lambda value: (value is not None, value))
    if not values:
        raise DataError(f"nothing to evaluate: no partition by {column!r} meets the conditions.")
    for value in values:
        yield {column: value}, Selection(table, {**partition, column: value}, where)


def _plan(selection: Selection, challenger: Model, champion: Model | None) -> Any:
    """The plan of the rows with the columns of both models."""
    models = [challenger] if champion is None else [challenger, champion]
    labels = list(dict.fromkeys(model.spec.label for model in models))
    if len(labels) > 1:
        raise SpecError(
            f"the challenger predicts {labels[0]!r} and the champion {labels[1]!r}; only models of "
            "the same label can be compared."
        )
    features = list(dict.fromkeys(name for model in models for name in model.spec.features))
    try:
        return selection.plan(models[0].spec.label_columns, features)
    except DataError:
        for model, role in zip(models, ("challenger", "champion"), strict=False):
            with naming(f"the {role}"):
                selection.plan(model.spec.label_columns, model.spec.features)
        raise


@checks_arguments
@draws_progress("evaluating")
def promote_if_better(
    store: ModelStore,
    challenger: ModelVersion | str,
    source: Any,
    alias: str = DEFAULT_ALIAS,
    *,
    partition: Mapping[str, Any] | None = None,
    where: Where = None,
    windows: ColumnName | None = None,
    gate: Gate | None = None,
    propose: bool = False,
    decision: DecisionOption = "map",
    by: str | None = None,
    provenance: Mapping[str, Any] | None = None,
    engine: EngineOption = None,
    workers: int | None = None,
    progress: ProgressOption = None,
) -> Promotion:
    """Promote a challenger if a gate lets it pass on labeled rows that it was not trained on.

    Both versions are evaluated on the same rows in one pass, and both evaluations are recorded in
    the store. The decision is recorded in the ledger of promotions, refusals too. Nothing is
    decided between equal models: a gain within its standard error is refused. So is a challenger
    judged on older partitions than those before it: a backfill or a repeated run of the past does
    not replace a newer champion.

    Args:
        store: store of the versions.
        challenger: version to promote, or a reference to it.
        source: table of labeled rows, as for `evaluate`, like the arguments that are not listed.
        alias: alias to move; the champion is the version that it names now.
        partition: partition to judge on.
        where: rows to judge on.
        windows: partition column that divides the rows into judging windows, see
            `evaluate_paired`.
        gate: the conditions; those of ``Gate()`` by default, and without a label those of
            ``Gate("log_density")``.
        propose: whether a challenger that passes is left to somebody's decision: the action is then
            ``"proposed"``, and `ModelStore.decide` promotes or refuses it.
        decision: decision rule; see `DecisionRule`.
        by: who promotes, by default the user of this process.
        provenance: plain JSON values to record with the decision, such as a run id.
        engine: engine that reads and measures.
        workers: number of workers of the engine.
        progress: True for a bar, or a function that progress is reported to.

    Returns:
        The entry of the ledger, see `ModelStore.promote_if_better`.

    Raises:
        SpecError: if the decision rule or the gate does not fit, or `windows` is not a partition
            column.
        NotSupportedError: if the metric is the log density, and a model has none.
        DataError: if a version cannot be evaluated.
        StoreError: if there is no such version, or another process promotes meanwhile.
        TableError: if the table or partition does not exist or cannot be read.

    Examples:
        >>> entry = pc.promote_if_better(                                     # doctest: +SKIP
        ...     store, "air@new", "lake", where="month >= 2014-01", windows="month"
        ... )
        >>> print(entry.action, entry.reason)                                 # doctest: +SKIP
        promoted log_loss 0.7115 against 0.7908 on 2,160 rows is better by 0.0793 ± 0.0048 …
    """
    if gate is None:
        spec = store.load(challenger).spec
        gate = Gate("log_loss" if spec.label is not None else "log_density")
    rule = DecisionRule.parse(decision)
    table = open_table(source)
    selection = Selection(table, partition, where)
    decided = {} if rule == DecisionRule() else {"decision": rule.to_dict()}
    rows = as_json({**rows_judged(table, partition, where), **decided})
    recorded = {**rows, **({"windows": windows} if windows else {}), **(provenance or {})}

    def judge(version: ModelVersion, champion: ModelVersion | None) -> Mapping[str, Any] | Decision:
        if champion is not None and (
            until := judged_beyond(store, version.model, alias, table, partition, where)
        ):
            reason = f"it is judged on rows before {until}, up to which the {alias} was judged"
            return Decision(False, f"{reason}; runs go forward in time", {"judged_until": until})
        unreadable = champion if champion is not None and not champion.is_readable else None
        if unreadable is not None:
            champion = None  # the floors decide
        versions = [version] if champion is None else [version, champion]
        models = [store.load(each) for each in versions]
        if gate.metric == "log_density":
            units = [density_units(each) for each in models]
            if differ := _differ(units[0], units[-1]):
                reason = f"log densities compare for the same columns only, and {differ}"
                return Decision(False, f"{reason}; promote it without comparing")
        elif models[0].spec.label is None:
            models[0].spec.label_for(f"the metric {gate.metric}")
        seen = dict(zip(("challenger", "champion"), map(overlap, models), strict=False))
        if seen["challenger"] == "yes" and not gate.allow_training_rows:
            return {"trained_on": seen}  # which the gate refuses
        for each, answer in zip(versions, seen.values(), strict=True):
            if answer != "no":
                log.warning("%s %s the rows that it is judged on", each.short, _SEEN[answer])
        paired = evaluate_paired(
            models[0],
            models[1] if champion is not None else None,
            table,
            partition=partition,
            where=where,
            windows=windows,
            decision=rule,
            engine=engine,
            workers=workers,
            progress=progress,
        )
        for each, evaluation in zip(versions, (paired.challenger, paired.champion), strict=False):
            if evaluation is not None:
                store.record_evaluation(each, evaluation, on=rows, provenance=provenance)
                if evaluation.warning:
                    log.warning("%s: %s", each.short, evaluation.warning)
        if callable(progress):
            progress(paired.challenger.rows, paired.challenger.rows)  # the last chance to stop
        decision = gate.decide({**paired.to_dict(), "trained_on": seen}, alias)
        if decision.accepted and unreadable is not None:
            reason = f"{unreadable.short} is in a format that this release does not read"
            return replace(decision, reason=reason)
        return decision

    def overlap(model: Model) -> TrainedOn:
        return trained_on(model.training, selection)

    return store.promote_if_better(
        challenger, alias, judge, gate=gate, propose=propose, by=by, provenance=recorded
    )


def _differ(challenger: Mapping[str, str], champion: Mapping[str, str]) -> str | None:
    """How the columns of two densities differ, in words; None if they do not."""
    for name, unit in challenger.items():
        other = champion.get(name)
        if other != unit:
            of_champion = "does not have" if other is None else f"knows as {other}"
            return f"the challenger has {name!r} as {unit}, which the champion {of_champion}"
    missing = champion.keys() - challenger.keys()
    return f"the challenger does not have {one_of(sorted(missing))}" if missing else None
