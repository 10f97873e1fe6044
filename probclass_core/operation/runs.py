"""A model that runs on a schedule: the windows of each run, and what happens once labels come.

Labels come later than rows. So a run that scores a partition trains and judges on the partitions
before it that have labels, in this order, without overlap::

    train …………………………………………… | judge | (labels not there yet) | score

`plan_run` gives these windows. `judge_served` evaluates the version that scored the newest labeled
partition, and falls back to the class prior while a model predicts worse than it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from probclass_core.analysis.evaluation import Evaluation
from probclass_core.arguments import checks_arguments
from probclass_core.arrow.bundle import as_json, plain_json
from probclass_core.arrow.display import ShortRepr
from probclass_core.errors import DataError, MissingLabelsError, SpecError, StoreError, one_of
from probclass_core.execution.engine import EngineOption
from probclass_core.execution.progress import ProgressOption
from probclass_core.io.filters import Condition, partition_text, typed_partition
from probclass_core.io.open import open_table
from probclass_core.io.references import TableRef
from probclass_core.io.selection import Selection
from probclass_core.io.table import Source
from probclass_core.model.decision import DecisionOption
from probclass_core.model.model import Model
from probclass_core.pipeline.evaluation import evaluate
from probclass_core.store.model_store import ModelStore
from probclass_core.store.promotions import Promotion
from probclass_core.store.references import DEFAULT_ALIAS, ModelVersion
from probclass_core.store.scorings import ScoringRecord
from probclass_core.training.overlap import trained_on

Fallback = Literal["prior", "rollback"]
"""What an alias names instead of a version that predicts worse than its class prior: ``"prior"``,
the prior alone, or ``"rollback"``, the version before if that is better than its prior."""

Conditions = Sequence[Condition]


@dataclass(frozen=True, repr=False)
class RunPlan(ShortRepr):
    """The partitions of one run of a scheduled model.

    Attributes:
        scored: partition to score.
        labeled: newest partition with labels: the last one to judge on.
        train: conditions of the rows to train on.
        judge: conditions of the rows to judge on.
    """

    scored: Mapping[str, Any]
    labeled: Mapping[str, Any]
    train: Conditions
    judge: Conditions

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
    train: int = 12,
    judge: int = 1,
    label_delay: int = 1,
) -> RunPlan:
    """Divide the partitions before the one to score into windows to train and judge on.

    Partitions are counted as they exist, in the order of their values: a month without a partition
    does not count.

    Args:
        source: table with one partition column, as for `fit`.
        partition: partition to score, such as ``{"month": "2014-01"}``; it need not exist.
        train: number of partitions to train on.
        judge: number of partitions to judge on.
        label_delay: by how many partitions labels are later than rows; 1 if the partition before
            the one to score is the newest with labels.

    Raises:
        SpecError: if a number is too small, or the table does not have one partition column.
        DataError: if there are too few partitions before.
        TableError: if the table does not exist or cannot be read.
    """
    counts = {"train": train, "judge": judge, "label_delay": label_delay}
    for name, count in counts.items():
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise SpecError(f"{name} must be a number of partitions of at least 1, got {count!r}.")
    table = open_table(source)
    if len(table.partition_columns) != 1 or set(partition) != set(table.partition_columns):
        found = one_of(table.partition_columns) if table.partition_columns else "none"
        raise SpecError(
            f"the windows of a run are counted along one partition column, got {dict(partition)} "
            f"for a table with {found}; give the conditions of each task instead."
        )
    scored = typed_partition(table.schema, partition)
    ((column, newest),) = scored.items()
    before = [each[column] for each in table.partitions() if each[column] is not None]
    values = sorted(value for value in before if value < newest)
    labeled = values[: len(values) - (label_delay - 1)]
    needed = train + judge
    if len(labeled) < needed:
        raise DataError(
            f"{table.uri or 'the source'} has {len(labeled)} labeled partitions before "
            f"{column}={newest}, and a run needs {needed}: {train} to train "
            f"and {judge} to judge on; start the schedule later, or take fewer."
        )
    trained, judged = labeled[-needed:-judge], labeled[-judge:]

    def conditions(window: Sequence[Any]) -> Conditions:
        return [(column, ">=", window[0]), (column, "<=", window[-1])]

    return RunPlan(
        scored=dict(partition),
        labeled={column: judged[-1]},
        train=conditions(trained),
        judge=conditions(judged),
    )


@dataclass(frozen=True, repr=False)
class Judgment(ShortRepr):
    """What labels say about the version that scored a partition, and what was done.

    Attributes:
        partition: the partition.
        served: version that scored it, or None if no scoring of it is recorded.
        evaluation: its evaluation on the partition; None if `served` is None.
        champion: version that the alias names now.
        promotion: the entry of the ledger if the alias was moved; None if it was not.
        late: judgments of partitions before it whose labels came late.
    """

    partition: Mapping[str, Any]
    served: ModelVersion | None
    evaluation: Evaluation | None
    champion: ModelVersion
    promotion: Promotion | None
    late: Sequence[Judgment] = ()

    @property
    def below_prior(self) -> bool:
        """Whether the log loss of the served version is worse than that of its class prior."""
        return self.evaluation is not None and _is_below_prior(self.evaluation)

    def __str__(self) -> str:
        name = partition_text(self.partition)
        if self.evaluation is None:
            sentence = f"{name}: no scoring is recorded"
        else:
            worse = "worse" if self.below_prior else "better"
            sentence = f"{name}: {worse} than the class prior, {_figures(self.evaluation)}"
        if self.promotion is not None:
            sentence += f"; {self.promotion.reason}"
        return sentence

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; the evaluation without its tables."""
        values: dict[str, Any] = {
            "partition": as_json(self.partition),
            "served": None if self.served is None else self.served.ref,
            "below_prior": self.below_prior,
            "model": self.champion.ref,
            "action": "none" if self.promotion is None else self.promotion.action,
            "reason": None if self.promotion is None else self.promotion.reason,
        }
        if self.evaluation is not None:
            plain = self.evaluation.to_dict()
            names = ("rows", "accuracy", "baseline_accuracy", "log_loss", "baseline_log_loss")
            values |= {name: plain[name] for name in names}
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

    The version that scored is that of the newest scoring of the partition in the store. Its
    evaluation is recorded. The champion, the version that the alias names, is then measured on the
    same rows: if its log loss is worse than that of its class prior, the alias is moved, and the
    ledger of promotions has the reason. A champion that was trained on these rows stays. While the
    alias names a prior, each call brings it up to date with `prior_of`.

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
    on = plain_json({"source": table.uri, "partition": as_json(partition)}, "on")
    evaluations: dict[str, Evaluation] = {}

    def measure(version: ModelVersion, model: Model) -> Evaluation:
        if version.id not in evaluations:
            evaluations[version.id] = evaluation = evaluate(
                model,
                table,
                partition=partition,
                decision=decision,
                engine=engine,
                workers=workers,
                progress=progress,
            )
            store.record_evaluation(version, evaluation, on=on, provenance=provenance)
        return evaluations[version.id]

    def prior(version: ModelVersion | str) -> Model:
        ref = version if isinstance(version, str) else version.ref
        return store.load(ref).prior_only()

    def promote(model: Model, champion: ModelVersion | None, reason: str) -> Promotion | None:
        version = store.save(model, name, provenance=provenance)
        if champion == version:
            return None
        metrics = {}
        if champion is not None and champion.id in evaluations:
            plain = evaluations[champion.id].to_dict()
            metrics = {key: plain[key] for key in ("log_loss", "baseline_log_loss", "rows")}
        store.promote(
            name,
            version,
            alias=alias,
            expected=champion,
            by=by,
            reason=reason,
            metrics=metrics,
            provenance=provenance,
        )
        return store.history(name, alias)[-1]

    uri = TableRef.parse(sink).uri
    scorings = [record for record in store.scorings(name) if record.sink == uri]
    served = _version_that_scored(store, scorings, partition)
    evaluation = None if served is None else measure(served, store.load(served.ref))
    named = store.aliases(name).get(alias)
    moved: Promotion | None = None
    if named is None:
        if prior_of is None or fallback is None:
            raise StoreError(
                f"'{name}@{alias}' does not exist: no version has passed the gate yet; promote one."
            )
        moved = promote(prior(prior_of), None, "class prior: no version has passed the gate yet")
    else:
        champion = store.resolve(f"{name}@{named.id}")
        model = store.load(champion.ref)
        if fallback is not None and model.is_prior_only:
            if prior_of is not None:
                moved = promote(prior(prior_of), champion, "class prior of the last training")
        elif (
            fallback is not None
            # A repeated judgment of an old partition says nothing of a version trained on it.
            and trained_on(model.training, Selection(table, partition)) != "yes"
            and _is_below_prior(measured := measure(champion, model))
        ):
            reason = f"{_short(champion)} is worse than the class prior: {_figures(measured)}"
            if fallback == "rollback" and named.previous is not None:
                before = store.resolve(f"{name}@{named.previous}")
                if not _is_below_prior(measure(before, store.load(before.ref))):
                    moved = store.rollback(name, alias, by=by, reason=reason, provenance=provenance)
            if moved is None:
                moved = promote(prior(prior_of or champion), champion, f"class prior: {reason}")
    late: list[Judgment] = []
    for unjudged in _unjudged(store, scorings, table, partition, catch_up):
        with suppress(MissingLabelsError):  # a later call judges it
            late.append(
                judge_served(
                    store,
                    name,
                    table,
                    sink,
                    unjudged,
                    alias=alias,
                    fallback=None,
                    decision=decision,
                    provenance=provenance,
                    engine=engine,
                    workers=workers,
                )
            )
    return Judgment(
        partition=dict(partition),
        served=served,
        evaluation=evaluation,
        champion=store.resolve(f"{name}@{alias}"),
        promotion=moved,
        late=late,
    )


def _unjudged(
    store: ModelStore,
    scorings: Sequence[ScoringRecord],
    table: Source,
    partition: Mapping[str, Any],
    count: int,
) -> list[Mapping[str, Any]]:
    """Those of the partitions before one that were scored, and not evaluated since, in order."""
    if not count or len(table.partition_columns) != 1:
        return []
    ((column, last),) = typed_partition(table.schema, partition).items()
    values = [one[column] for one in table.partitions() if one[column] is not None]
    found: list[Mapping[str, Any]] = []
    for value in sorted(value for value in values if value < last)[-count:]:
        served = _version_that_scored(store, scorings, {column: value})
        if served is not None and not any(
            record.on.get("source") == table.uri
            and _is_of(record.on.get("partition"), {column: value})
            for record in store.evaluations(served)
        ):
            found.append({column: value})
    return found


def _version_that_scored(
    store: ModelStore, scorings: Sequence[ScoringRecord], partition: Mapping[str, Any]
) -> ModelVersion | None:
    """The version of the newest scoring of a partition."""
    for record in reversed(scorings):
        if any(_is_of(one["partition"], partition) for one in record.partitions):
            return store.resolve(f"{record.model}@{record.version}")
    return None


def _is_of(recorded: Any, partition: Mapping[str, Any]) -> bool:
    """Whether a partition in a record is this one, whose values may be text."""
    return isinstance(recorded, Mapping) and (
        {column: str(value) for column, value in recorded.items()}
        == {column: str(value) for column, value in partition.items()}
    )


def _is_below_prior(evaluation: Evaluation) -> bool:
    return "log_loss" in evaluation.worse_than_prior


def _figures(evaluation: Evaluation) -> str:
    return (
        f"log loss {evaluation.log_loss:.4f} against {evaluation.baseline_log_loss:.4f} on "
        f"{evaluation.rows:,} rows"
    )


def _short(version: ModelVersion) -> str:
    return f"{version.model}@{version.id[:12]}"
