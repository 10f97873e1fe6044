"""Records of a store as rows of tables: models, versions, evaluations, partitions, promotions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from probclass_airflow.ui.formatting import as_text, described_rows, finite, words
from probclass_airflow.ui.partition_dates import partition_date, rows_date
from probclass_airflow.ui.stores import ShownStore
from probclass_core.errors import StoreError
from probclass_core.store.scorings import unscored

if TYPE_CHECKING:
    from probclass_airflow.ui.runs import FailedRun
    from probclass_core.store.evaluations import EvaluationRecord
    from probclass_core.store.model_records import ModelRecords
    from probclass_core.store.references import Alias, ModelVersion
    from probclass_core.store.scorings import ScoringRecord

_LOOKED_AT = 50
"""Newest records among which that of the newest rows is."""

Row = TypeVar("Row")
LastRun = Callable[[str], "FailedRun | None"]
CHAMPION = "champion"
"""The alias whose version is a model's champion."""


@dataclass(frozen=True)
class EvaluationRow:
    """A recorded evaluation.

    Attributes:
        record: the record, without tables.
        on: description of the rows.
        run: query of the link to the task that recorded it, or None.
        worse: metrics by which the prior alone is better.
    """

    record: EvaluationRecord
    on: str
    run: Mapping[str, str] | None
    worse: Sequence[str]

    @property
    def is_of_density(self) -> bool:
        """Whether the model has no label, so that only its log density says something."""
        return self.record.result.get("is_of_density") is True

    def number(self, name: str) -> float | None:
        """A number of the result, or None if it is unknown; infinite for an infinite log loss."""
        if self.is_of_density and name not in ("rows", "log_density"):
            return None
        value = self.record.result.get(name)
        if value is None and name == "log_loss" and name in self.record.result:
            return math.inf
        return finite(value)


@dataclass(frozen=True)
class Warned:
    """A warning about a partition.

    Attributes:
        action: what was done: ``"warn"``, ``"fail"`` or ``"rollback"``.
        title: the check and the column or class, such as ``"drift temperature"``.
        sentence: the warning in a sentence.
    """

    action: str
    title: str
    sentence: str


@dataclass(frozen=True)
class PartitionRow:
    """A partition as one scoring wrote it.

    Attributes:
        record: the record of the scoring.
        values: what it says of the partition.
        name: the partition as text, such as ``month=2014-01``.
        run: query of the link to the task that scored it, or None.
        warnings: what a watch found.
        why: why it was scored: ``"new"``, or what changed since the record before: ``"model"``,
            ``"input"``, ``"rule"``; empty if nothing is known to have changed.
        is_current: whether no later record is of the same partition of the same sink.
    """

    record: ScoringRecord
    values: Mapping[str, Any]
    name: str
    run: Mapping[str, str] | None
    warnings: Sequence[Warned]
    why: Sequence[str]
    is_current: bool

    @property
    def rows(self) -> int | None:
        """Number of rows in the sink."""
        rows = self.values.get("rows")
        return rows if isinstance(rows, int) else None

    @property
    def health(self) -> Mapping[str, Any]:
        """Health of the partition as a dict, see `Health.to_dict`; empty if it is unknown."""
        health = self.values.get("health")
        return health if isinstance(health, dict) else {}

    @property
    def rare(self) -> float | None:
        """Share of the rows that are rare; None if it is unknown."""
        density = self.health.get("log_density")
        return finite(density.get("rare")) if isinstance(density, Mapping) else None

    @property
    def columns(self) -> dict[str, Mapping[str, Any]]:
        """Health of the columns, without what is in another form."""
        columns = self.health.get("columns")
        found = columns.items() if isinstance(columns, dict) else ()
        return {name: column for name, column in found if isinstance(column, dict)}


@dataclass(frozen=True)
class Stop:
    """A partition that was not scored, and has not been since.

    Attributes:
        record: the record of the first scoring that it was left out of.
        name: the partition as text.
        when: values of its columns.
        reason: why it was left out last, in a sentence.
        run: query of the link to the task, or None.
    """

    record: ScoringRecord
    name: str
    when: Any
    reason: str
    run: Mapping[str, str] | None


@dataclass(frozen=True)
class VersionRow:
    """A version, with its newest evaluation."""

    version: ModelVersion
    aliases: list[str]
    rows: int | None
    trained_on: str
    evaluation: EvaluationRow | None


@dataclass(frozen=True)
class ModelRow:
    """A model, with its champion.

    Attributes:
        name: name of the model.
        records: all of its records.
        champion: the version that the alias ``champion`` names, or None.
        aliases: names and content ids of the other aliases, the most recently promoted first.
        evaluation: newest evaluation of the champion, or None.
        labeled: evaluation of any version on the newest rows, or None.
        scored: newest scored partition, or None.
        stops: partitions that were not scored, and have not been since.
        failed: runs in Airflow of the DAGs that wrote the newest records, if the last one failed.
    """

    name: str
    records: ModelRecords
    champion: Alias | None
    aliases: list[tuple[str, str]]
    evaluation: EvaluationRow | None
    labeled: EvaluationRow | None
    scored: PartitionRow | None
    stops: list[Stop]
    failed: list[FailedRun]


@dataclass(frozen=True)
class StoreRows:
    """A store in the list, with a line for each problem in reading it."""

    shown: ShownStore
    models: list[ModelRow]
    problems: list[str]


def store_rows(shown: ShownStore, last_run: LastRun) -> StoreRows:
    """The models of a store; a damaged model is a problem and does not hide the others."""
    rows, problems = [], []
    try:
        for records in shown.store.catalog():
            problems += records.damaged
            if records.versions:
                rows.append(model_row(records, last_run))
    except StoreError as error:
        problems.append(str(error))
    return StoreRows(shown, rows, problems)


def model_row(records: ModelRecords, last_run: LastRun) -> ModelRow:
    """A model as a row of the list.

    Args:
        records: its records.
        last_run: returns the newest finished run of a DAG if it failed.
    """
    written: Sequence[Any] = (records.versions, records.promotions, records.scorings)
    runs = [run_of(known[-1].provenance) for known in written if known]
    dags = dict.fromkeys(run["dag_id"] for run in runs if run is not None)
    champion = records.aliases.get(CHAMPION)
    others = [alias for alias in records.aliases.values() if alias.alias != CHAMPION]
    others.sort(key=lambda alias: alias.promoted, reverse=True)
    evaluations = records.evaluations
    own = [one for one in evaluations if champion is not None and one.version == champion.id]
    scored = [record for record in records.scorings if record.partitions][-_LOOKED_AT:]
    return ModelRow(
        name=records.model,
        records=records,
        champion=champion,
        aliases=[(alias.alias, alias.id) for alias in others],
        evaluation=evaluation_row(own[-1]) if own else None,
        labeled=_newest(
            [evaluation_row(one) for one in evaluations[-_LOOKED_AT:]],
            lambda row: rows_date(row.record.on),
        ),
        scored=_newest(
            partition_rows(scored), lambda row: partition_date(row.values.get("partition"))
        ),
        stops=stops(records.scorings),
        failed=[run for run in map(last_run, dags) if run is not None],
    )


def _newest(rows: Sequence[Row], date: Callable[[Row], datetime | None]) -> Row | None:
    """The row with the newest data; of several, and without dates, the last."""
    dated = [(date(row) or datetime.min.replace(tzinfo=UTC), at) for at, row in enumerate(rows)]
    return rows[max(dated)[1]] if dated else None


def version_rows(records: ModelRecords) -> list[VersionRow]:
    """The versions, oldest first."""
    newest = {record.version: record for record in records.evaluations}
    names: dict[str, list[str]] = {}
    for alias in records.aliases.values():
        names.setdefault(alias.id, []).append(alias.alias)
    rows = []
    for version in records.versions:
        count = version.provenance.get("rows")
        record = newest.get(version.id)
        rows.append(
            VersionRow(
                version=version,
                aliases=names.get(version.id, []),
                rows=count if isinstance(count, int) else None,
                trained_on=described_rows(version.provenance),
                evaluation=None if record is None else evaluation_row(record),
            )
        )
    return rows


def evaluation_row(record: EvaluationRecord) -> EvaluationRow:
    """An evaluation as a row."""
    table = str(record.on.get("source") or "").rstrip("/").rpartition("/")[2]
    return EvaluationRow(
        record=record,
        on=described_rows({**record.on, "source": table}),
        run=run_of(record.provenance),
        worse=worse_metrics(record.result),
    )


def worse_metrics(result: Mapping[str, Any]) -> list[str]:
    """The metrics of an evaluation by which the prior alone is better."""
    worse = result.get("worse_than_prior")
    return [str(metric) for metric in worse] if isinstance(worse, list) else []


def partition_rows(scorings: Sequence[ScoringRecord]) -> list[PartitionRow]:
    """The partitions of scorings, each compared with the record of it before, oldest first."""
    places = [
        (record, one, (record.sink, as_text(one.get("partition"))))
        for record in scorings
        for one in record.partitions
    ]
    left = Counter(place for _, _, place in places)
    before: dict[tuple[str, str], tuple[ScoringRecord, Mapping[str, Any]]] = {}
    rows = []
    for record, one, place in places:
        left[place] -= 1
        rows.append(
            PartitionRow(
                record=record,
                values=one,
                name=described_rows({"partition": one.get("partition")}) or "whole table",
                run=run_of(record.provenance),
                warnings=_warnings(one),
                why=_changes(record, one, before.get(place)),
                is_current=not left[place],
            )
        )
        before[place] = record, one
    return rows


def stops(scorings: Sequence[ScoringRecord]) -> list[Stop]:
    """The partitions that were not scored, and have not been since, oldest first."""
    return [
        Stop(
            record=record,
            name=described_rows({"partition": one.get("partition")}) or "whole table",
            when=one.get("partition"),
            reason=str(one.get("error", "")),
            run=run_of(record.provenance),
        )
        for record, one in unscored(scorings)
    ]


def _changes(
    record: ScoringRecord,
    one: Mapping[str, Any],
    before: tuple[ScoringRecord, Mapping[str, Any]] | None,
) -> list[str]:
    if before is None:
        return ["new"]
    changes = ["model"] if record.version != before[0].version else []
    return changes + [key for key in ("input", "rule") if one.get(key) != before[1].get(key)]


def _warnings(one: Mapping[str, Any]) -> list[Warned]:
    found = one.get("verdicts")
    warnings = []
    for verdict in found if isinstance(found, list) else []:
        values = verdict if isinstance(verdict, dict) else {"sentence": verdict}
        title = [words(str(values.get("check") or "warning")), str(values.get("subject") or "")]
        action, sentence = str(values.get("action", "warn")), str(values.get("sentence", ""))
        warnings.append(Warned(action, " ".join(filter(None, title)), sentence))
    return warnings


def run_of(provenance: Mapping[str, Any]) -> dict[str, str] | None:
    """The query of a link to the task that wrote a record, or None if no task did."""
    run = provenance.get("airflow")
    names = ("dag_id", "run_id", "task_id")
    if not isinstance(run, Mapping) or not all(isinstance(run.get(name), str) for name in names):
        return None
    return {**{name: run[name] for name in names}, "map_index": str(run.get("map_index", -1))}


def days_since(moment: str) -> str:
    """How long ago an ISO 8601 time was, in words."""
    try:
        then = datetime.fromisoformat(moment)
    except ValueError:
        return ""
    then = then if then.tzinfo else then.replace(tzinfo=UTC)
    days = (datetime.now(UTC) - then).days
    return "today" if days < 1 else "1 day ago" if days == 1 else f"{days:,} days ago"
