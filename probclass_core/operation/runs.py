"""A model that runs on a schedule: the windows of each run, and what happens once labels come.

Labels come later than rows. So a run that scores a partition trains and judges on the partitions
before it that have labels, in this order, without overlap::

    train …………………………………………… | judge | (labels not there yet) | score

`plan_run` gives these windows; runs go forward in time, see `order`. `judge_served` evaluates the
version that scored the newest labeled partition, and falls back to the class prior while a model
predicts worse than it.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from probclass_core.analysis.evaluation import Evaluation
from probclass_core.arguments import checked_number, checks_arguments
from probclass_core.arrow.bundle import as_json
from probclass_core.display import ShortRepr, counted, json_values
from probclass_core.errors import DataError, MissingLabelsError, StoreError, TableError, check_known
from probclass_core.execution.engine import EngineOption
from probclass_core.execution.progress import ProgressOption
from probclass_core.io.filters import Condition, partition_text
from probclass_core.io.open import open_table
from probclass_core.io.references import TableRef, recorded_uri
from probclass_core.io.selection import Selection, count_labels
from probclass_core.io.table import Source
from probclass_core.model.decision import DecisionOption
from probclass_core.model.model import Model
from probclass_core.operation.order import judged_beyond, rows_judged, steps_between, time_column
from probclass_core.pipeline.evaluation import evaluate
from probclass_core.store.model_store import ModelStore
from probclass_core.store.promotions import Promotion
from probclass_core.store.records import DEFAULT_ALIAS, ModelVersion
from probclass_core.store.results import ScoringRecord, is_part_of
from probclass_core.training.overlap import trained_on

log = logging.getLogger(__name__)

Fallback = Literal["prior", "rollback"]
"""What an alias names instead of a version that predicts worse than its class prior: ``"prior"``,
the prior alone, or ``"rollback"``, the version before if that is better than its prior."""

Conditions = Sequence[Condition]

_UP_TO_DATE = "class prior of the last training"
_METRICS = ("log_loss", "baseline_log_loss", "rows")
"""What the ledger keeps of the evaluation of a champion that is worse than its prior."""
_ROUNDING = 1e-9
"""Relative difference below which two log losses are equal."""


@dataclass(frozen=True, repr=False)
class RunPlan(ShortRepr):
    """The partitions of one run of a scheduled model.

    Attributes:
        scored: partition to score.
        labeled: newest partition with labels: the last one to judge on.
        train: conditions of the rows to train on.
        train_partitions: number of partitions that these are.
        judge: conditions of the rows to judge on.
        missing: newer partitions that should have labels, with how many they have; None if all do.
    """

    scored: Mapping[str, Any]
    labeled: Mapping[str, Any]
    train: Conditions
    train_partitions: int
    judge: Conditions
    missing: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; the partitions as text, as in the names of their folders."""
        plain: dict[str, Any] = as_json(vars(self))
        for name in ("scored", "labeled"):
            plain[name] = {column: str(value) for column, value in plain[name].items()}
        return plain


@checks_arguments
def plan_run(
    source: Any,
    partition: Mapping[str, Any],
    *,
    train: int = 24,
    judge: int = 1,
    label_delay: int = 1,
    label: str | None = None,
    label_share: float = 0.5,
    max_gap: int = 7,
) -> RunPlan:
    """Divide the partitions before the one to score into windows to train and judge on.

    Partitions are counted as they exist, in the order of their values: a month without a partition
    does not count. If the newest ones have no labels yet, the windows end before them. A new table
    has fewer partitions to train on, at least one. Of a table by region and month, the regions of a
    month are counted as one.

    Args:
        source: partitioned table, as for `fit`.
        partition: partition to score, such as ``{"month": "2014-01"}``; it need not exist. Its one
            column is the time: all windows are of its values.
        train: largest number of partitions to train on.
        judge: number of partitions to judge on.
        label_delay: by how many partitions labels are later than rows; 1 if the partition before
            the one to score is the newest with labels.
        label: the class column, to look for labels; None to assume that they are there.
        label_share: least share of the rows of the newest labeled partition that have a label. Some
            rows may never get one: of the 60 months of the demo, the least has 65 %.
        max_gap: largest number of partitions that may be missing between the newest labeled one and
            the one to score, besides the delay. It keeps a run long after the last rows, or long
            before the next ones, from making a model of another time.

    Raises:
        SpecError: if a number is too small, `partition` does not name one partition column, or the
            table has no column `label`.
        DataError: if there are too few labeled partitions before, or they are too far away.
        TableError: if the table does not exist or cannot be read.
    """
    for name, count in {"train": train, "judge": judge, "label_delay": label_delay}.items():
        checked_number(name, count, 1)
    checked_number("max_gap", max_gap)
    table = open_table(source)
    column, newest = time_column(table, partition)
    if label is not None:
        check_known([label], table.schema.names, "no column", "the table has")
    scored = {column: newest}
    before = {each[column] for each in table.partitions()} - {None}
    values = sorted(value for value in before if value < newest)
    expected = values[: len(values) - (label_delay - 1)]
    looked_at = [] if label is None else expected[: -max_gap - 2 : -1]
    missing = _without_labels(table, str(label), label_share, column, looked_at)
    labeled = expected[: len(expected) - len(missing)]
    why = f" Labels are missing: {'; '.join(missing)}." if missing else ""
    where = table.uri or "the source"
    if len(labeled) <= judge:
        raise DataError(
            f"{where} has {counted(len(labeled), 'labeled partition')} before "
            f"{partition_text(scored)}, and a run needs {judge + 1} or more: 1 to train and "
            f"{judge} to judge on; start the schedule later.{why}"
        )
    steps = steps_between(labeled, labeled[-1], newest)
    gap = max(steps or 0, label_delay + len(missing))
    if gap - label_delay > max_gap:
        raise DataError(
            f"the newest labeled partition of {where}, {column}={labeled[-1]}, is {gap} partitions "
            f"before {partition_text(scored)}, and labels may be {label_delay} late and {max_gap} "
            "partitions missing (max_gap): a model of rows so far away is neither trained nor "
            f"judged.{why}"
        )
    trained, judged = labeled[:-judge][-train:], labeled[-judge:]
    log.info("training on %d partitions, of at most %d", len(trained), train)

    def conditions(window: Sequence[Any]) -> Conditions:
        first, last = window[0], window[-1]
        if first == last:
            return [(column, "==", first)]
        return [(column, ">=", first), (column, "<=", last)]

    return RunPlan(
        scored=dict(partition),
        labeled={column: judged[-1]},
        train=conditions(trained),
        train_partitions=len(trained),
        judge=conditions(judged),
        missing=why.strip() or None,
    )


def _without_labels(
    table: Source, label: str, share: float, column: str, values: Sequence[Any]
) -> list[str]:
    """The first of some partitions that lack labels, each with how many it has."""
    found: list[str] = []
    for value in values:
        try:
            counts = count_labels(table, label, partition={column: value})
        except (DataError, TableError) as error:
            found.append(f"{column}={value}: {str(error).rstrip('.')}")
            continue
        if counts.labeled and counts.share >= share:
            break
        found.append(f"{column}={value} has {counts.labeled:,} in {counts.rows:,} rows")
    return found


@dataclass(frozen=True, repr=False)
class Judgment(ShortRepr):
    """What labels say about the version that scored a partition, and what was done.

    Attributes:
        partition: the partition.
        served: version that scored it, or None if no scoring of it is recorded.
        evaluation: its evaluation on the partition; None if `served` is None.
        prior_log_loss: log loss of the class prior on it: of the version that scored, or of the
            last training if that is better.
        champion: version that the alias names now.
        promotion: the entry of the ledger if the alias was moved; None if it was not.
        late: judgments of partitions before it whose labels came late.
    """

    partition: Mapping[str, Any]
    served: ModelVersion | None
    evaluation: Evaluation | None
    prior_log_loss: float | None
    champion: ModelVersion
    promotion: Promotion | None
    late: Sequence[Judgment] = ()

    @property
    def below_prior(self) -> bool:
        """Whether the log loss of the served version is worse than that of a class prior."""
        return self._compared == "worse than"

    @property
    def fell_back(self) -> bool:
        """Whether the alias was moved to a class prior or back, other than from prior to prior."""
        return self.promotion is not None and self.promotion.reason != _UP_TO_DATE

    @property
    def _compared(self) -> str:
        if self.evaluation is None or self.prior_log_loss is None:
            return ""
        worse_by = self.evaluation.log_loss - self.prior_log_loss
        if abs(worse_by) <= _ROUNDING * self.prior_log_loss:
            return "as good as"
        return "worse than" if worse_by > 0 else "better than"

    def __str__(self) -> str:
        name = partition_text(self.partition)
        if self.evaluation is None:
            sentence = f"{name}: no scoring is recorded"
        else:
            figures = _figures(self.evaluation, self.prior_log_loss)
            sentence = f"{name}: {self._compared} the class prior, {figures}"
        if self.promotion is not None:
            sentence += f"; {self.promotion.reason}"
        return sentence

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; the evaluation without its tables."""
        values: dict[str, Any] = {
            "partition": as_json(self.partition),
            "sentence": str(self),
            "served": None if self.served is None else self.served.ref,
            "below_prior": self.below_prior,
            "fell_back": self.fell_back,
            "model": self.champion.ref,
            "action": "none" if self.promotion is None else self.promotion.action,
            "reason": None if self.promotion is None else self.promotion.reason,
        }
        if self.evaluation is not None:
            plain = self.evaluation.to_dict()
            names = ("rows", "accuracy", "baseline_accuracy", "log_loss", "baseline_log_loss")
            values |= {name: plain[name] for name in names}
            values |= json_values({"prior_log_loss": self.prior_log_loss})
        if self.late:
            values["late"] = [one.to_dict() for one in self.late]
        return values


@checks_arguments
def judge_served(
    store: ModelStore,
    name: str,
    source: Any,
    sink: str | Path | TableRef,
    partition: Mapping[str, Any],
    *,
    alias: str = DEFAULT_ALIAS,
    fallback: Fallback | None = "prior",
    prior_of: ModelVersion | str | None = None,
    decision: DecisionOption = "map",
    catch_up: int = 0,
    by: str | None = None,
    provenance: Mapping[str, Any] | None = None,
    engine: EngineOption = None,
    workers: int | None = None,
    progress: ProgressOption = None,
) -> Judgment:
    """Evaluate the version that scored a partition, and fall back if the champion does harm.

    The version that scored is that of the newest scoring of the partition in the store, and of a
    month with several regions the one that scored most of them. Its evaluation is recorded. The
    champion, the version that the alias names, is then measured on the same rows: if its log loss
    is worse than that of its class prior, the alias is moved, and the ledger of promotions has the
    reason. A champion that was trained on these rows stays, and so does one that was judged on
    newer partitions. While the alias names a prior, each call brings it up to date with `prior_of`.

    Args:
        store: store of the model.
        name: name of the model.
        source: table with the labels of the partition.
        sink: scored table.
        partition: partition whose labels have come.
        alias: alias whose version scores.
        fallback: ``"prior"``, ``"rollback"``, or None to leave the alias as it is; with
            ``"rollback"``, the prior is taken if the version before is worse than its prior too.
        prior_of: version whose class prior to fall back to, such as the one trained last; by
            default the champion.
        decision: decision rule; see `DecisionRule`.
        catch_up: number of partitions before this one that are judged as well, without a fallback,
            if they were scored and have not been judged, since their labels came late.
        by: who judges, for the ledger; by default the user of this process.
        provenance: plain JSON values to record, such as a run id.
        engine: as for `evaluate`.
        workers: number of workers of the engine.
        progress: True for a bar, or a function that progress is reported to.

    Raises:
        SpecError: if `fallback` is unknown, or the decision rule does not fit the model.
        DataError: if no row has a label that the model knows.
        StoreError: if there is no such version, or the alias names none and there is no `prior_of`.
        TableError: if the table or partition does not exist or cannot be read.
    """
    table = open_table(source)
    on = as_json(rows_judged(table, partition))
    reading: dict[str, Any] = {"decision": decision, "engine": engine, "workers": workers}
    evaluations: dict[str, Evaluation] = {}

    def measure(version: ModelVersion) -> Evaluation:
        if version.id not in evaluations:
            evaluations[version.id] = evaluation = evaluate(
                store.load(version), table, partition=partition, progress=progress, **reading
            )
            store.record_evaluation(version, evaluation, on=on, provenance=provenance)
        return evaluations[version.id]

    def to_prior(
        of: ModelVersion | str, champion: ModelVersion | None, reason: str
    ) -> Promotion | None:
        version = store.save(store.load(of).prior_only(), name, provenance=provenance)
        if champion == version:
            return None
        plain = (
            evaluations[champion.id].to_dict() if champion and champion.id in evaluations else {}
        )
        return store.promote(
            name,
            version,
            alias=alias,
            expected=champion,
            by=by,
            reason=reason,
            metrics={key: plain[key] for key in _METRICS if key in plain},
            provenance={**on, **(provenance or {})},
        )

    uri = recorded_uri(TableRef.parse(sink).uri)
    scorings = [one for one in store.scorings(name) if recorded_uri(one.sink) == uri]
    served = _version_that_scored(store, scorings, partition)
    if served is not None and not served.is_readable:
        log.warning(
            "%s is in a format that this release does not read: what it scored is not judged",
            served.short,
        )
        served = None
    evaluation, best_prior = None, None
    if served is not None:
        evaluation = measure(served)
        best_prior = evaluation.baseline_log_loss
        if prior_of is not None:
            best_prior = min(best_prior, _prior_log_loss(evaluation, store.load(prior_of)))
    named = store.aliases(name).get(alias)
    moved: Promotion | None = None
    if named is None:
        if prior_of is None or fallback is None:
            raise StoreError(
                f"'{name}@{alias}' does not exist: no version has been promoted yet; promote one."
            )
        moved = to_prior(prior_of, None, "class prior: no version has been promoted yet")
    elif (
        fallback is not None
        and (champion := store.resolve(f"{name}@{named.id}")).is_readable
        and not judged_beyond(store, name, alias, table, partition)
    ):
        model = store.load(champion)
        if model.is_prior_only:
            if prior_of is not None:
                moved = to_prior(prior_of, champion, _UP_TO_DATE)
        elif (
            # A repeated judgment of an old partition says nothing of a version trained on it.
            trained_on(model.training, Selection(table, partition)) != "yes"
            and _is_below_prior(measured := measure(champion))
        ):
            reason = f"{champion.short} is worse than the class prior: {_figures(measured)}"
            if (
                fallback == "rollback"
                and named.previous is not None
                and (previous := store.resolve(f"{name}@{named.previous}")).is_readable
                and not _is_below_prior(measure(previous))
            ):
                moved = store.rollback(name, alias, by=by, reason=reason, provenance=provenance)
            if moved is None:
                moved = to_prior(prior_of or champion, champion, f"class prior: {reason}")
    late: list[Judgment] = []
    for unjudged in _unjudged(store, scorings, table, on, catch_up):
        try:
            late.append(
                judge_served(
                    store,
                    name,
                    table,
                    sink,
                    unjudged,
                    alias=alias,
                    fallback=None,
                    provenance=provenance,
                    **reading,
                )
            )
        except MissingLabelsError:
            pass  # a later call judges it
        except (DataError, TableError) as error:
            log.warning("%s is not judged: %s", partition_text(unjudged), error)
    return Judgment(
        partition=dict(partition),
        served=served,
        evaluation=evaluation,
        prior_log_loss=best_prior,
        champion=store.resolve(f"{name}@{alias}"),
        promotion=moved,
        late=late,
    )


def _unjudged(
    store: ModelStore,
    scorings: Sequence[ScoringRecord],
    table: Source,
    on: Mapping[str, Any],
    count: int,
) -> list[Mapping[str, Any]]:
    """Those of the partitions before one that were scored, and not evaluated since, in order."""
    if not count:
        return []
    column, last = time_column(table, on.get("partition", {}))
    values = {one[column] for one in table.partitions()} - {None}
    found: list[Mapping[str, Any]] = []
    for value in sorted(value for value in values if value < last)[-count:]:
        served = _version_that_scored(store, scorings, {column: value})
        if served is not None and not any(
            record.on.get("source") == on.get("source")
            and is_part_of({column: value}, record.on.get("partition"))
            for record in store.evaluations(served)
        ):
            found.append({column: value})
    return found


def _version_that_scored(
    store: ModelStore, scorings: Sequence[ScoringRecord], partition: Mapping[str, Any]
) -> ModelVersion | None:
    """The version of the newest scoring of a partition, or of most of its parts."""
    newest = {
        partition_text(one["partition"]): f"{record.model}@{record.version}"
        for record in scorings
        for one in record.partitions
        if is_part_of(one["partition"], partition)
    }
    if not newest:
        return None
    ((ref, _),) = Counter(newest.values()).most_common(1)
    return store.resolve(ref)


def _is_below_prior(evaluation: Evaluation) -> bool:
    return "log_loss" in evaluation.worse_than_prior


def _prior_log_loss(evaluation: Evaluation, model: Model) -> float:
    """Log loss of the class prior of a model on evaluated rows; infinite if it is not known."""
    classes = dict(zip(model.class_names, model.log_prior, strict=True))
    names = evaluation.per_class["class"].to_pylist()
    if evaluation.decided < evaluation.rows or not classes.keys() >= set(names):
        return math.inf
    rows = evaluation.per_class["support"].to_numpy()
    return float(-sum(rows * [classes[name] for name in names]) / evaluation.rows)


def _figures(evaluation: Evaluation, prior: float | None = None) -> str:
    prior = evaluation.baseline_log_loss if prior is None else prior
    digits = 4 if f"{evaluation.log_loss:.4f}" != f"{prior:.4f}" else 6
    figures = f"log loss {evaluation.log_loss:.{digits}f} against {prior:.{digits}f}"
    return f"{figures} on {evaluation.rows:,} rows"
