"""Records of a store as rows of tables: versions, evaluations, partitions, promotions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from probclass_airflow.ui.listing import Table
from probclass_airflow.ui.runs import run_of
from probclass_core.display import described_rows
from probclass_core.report.html import as_text, finite, words
from probclass_core.store.results import unscored

if TYPE_CHECKING:
    from probclass_core.store.promotions import Promotion
    from probclass_core.store.records import ModelVersion
    from probclass_core.store.results import EvaluationRecord, ModelRecords, ScoringRecord

CHAMPION = "champion"
"""The alias whose version is a model's champion."""

_ACTIONS = {
    "promoted": "Promoted",
    "rolled_back": "Rolled back to",
    "refused": "Refused",
    "unchanged": "Unchanged",
}


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
        partition: values of its columns.
        name: the partition as text.
        reason: why it was left out last, in a sentence.
        run: query of the link to the task, or None.
    """

    record: ScoringRecord
    partition: Any
    name: str
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


def version_rows(records: ModelRecords) -> list[VersionRow]:
    """The versions, oldest first."""
    newest = {record.version: record for record in records.evaluations}
    rows = []
    for version in records.versions:
        count = version.provenance.get("rows")
        rows.append(
            VersionRow(
                version=version,
                aliases=[one.alias for one in records.aliases.values() if one.id == version.id],
                rows=count if isinstance(count, int) else None,
                trained_on=described_rows(version.provenance),
                evaluation=evaluation_row(newest[version.id]) if version.id in newest else None,
            )
        )
    return rows


def evaluation_rows(records: ModelRecords) -> list[EvaluationRow]:
    """The evaluations of all versions, oldest first."""
    return [evaluation_row(record) for record in records.evaluations]


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
                name=partition_name(one),
                run=run_of(record.provenance),
                warnings=_warnings(one),
                why=_changes(record, one, before.get(place)),
                is_current=not left[place],
            )
        )
        before[place] = record, one
    return rows


def partition_name(values: Mapping[str, Any]) -> str:
    """A partition as text."""
    return described_rows({"partition": values.get("partition")}) or "whole table"


def stops(scorings: Sequence[ScoringRecord]) -> list[Stop]:
    """The partitions that were not scored, and have not been since, oldest first."""
    return [
        Stop(
            record=record,
            partition=one.get("partition"),
            name=partition_name(one),
            reason=str(one.get("error", "")),
            run=run_of(record.provenance),
        )
        for record, one in unscored(scorings)
    ]


def words_of(entry: Promotion) -> str:
    """The action of an entry of the ledger in words."""
    return _ACTIONS.get(entry.action, as_text(entry.action))


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


def _partition_text(row: PartitionRow) -> str:
    commit = [row.values.get("commit_id"), row.values.get("input_version")]
    warned = [warning.sentence for warning in row.warnings]
    parts = [row.name, row.record.sink, row.record.version, row.record.created]
    return " ".join(map(str, [*parts, *commit, *(row.run or {}).values(), *row.why, *warned]))


_PARTITION_KEYS: dict[str, Callable[[PartitionRow], Any]] = {
    "partition": lambda row: row.name,
    "scored": lambda row: row.record.created,
    "rows": lambda row: row.rows,
    "model": lambda row: row.record.version,
    "warnings": lambda row: len(row.warnings),
}

TABLES: dict[str, Table[Any]] = {
    "versions": Table(
        version_rows,
        text=lambda row: " ".join(
            [row.version.id, row.version.created, row.trained_on, *row.aliases]
        ),
        keys={
            "saved": lambda row: row.version.created,
            "rows": lambda row: row.rows,
            "loss": lambda row: row.evaluation and row.evaluation.number("log_loss"),
            "accuracy": lambda row: row.evaluation and row.evaluation.number("accuracy"),
        },
        order="-saved",
    ),
    "evaluations": Table(
        evaluation_rows,
        text=lambda row: " ".join([row.on, row.record.version, row.record.created, *row.worse]),
        keys={
            "recorded": lambda row: row.record.created,
            "on": lambda row: row.on,
            "rows": lambda row: row.number("rows"),
            "loss": lambda row: row.number("log_loss"),
            "accuracy": lambda row: row.number("accuracy"),
        },
        order="-recorded",
    ),
    "partitions": Table(
        lambda records: [row for row in partition_rows(records.scorings) if row.is_current],
        text=_partition_text,
        keys=_PARTITION_KEYS,
        order="-partition",
    ),
    "scorings": Table(
        lambda records: partition_rows(records.scorings),
        text=_partition_text,
        keys=_PARTITION_KEYS,
        order="-partition",
    ),
    "promotions": Table(
        lambda records: records.promotions,
        text=lambda entry: " ".join(
            map(str, [entry.alias, words_of(entry), entry.action, entry.id, entry.by, entry.reason])
        ),
        keys={
            "time": lambda entry: entry.time,
            "alias": lambda entry: entry.alias,
            "action": lambda entry: entry.action,
        },
        order="-time",
    ),
}
"""The tables of a model, by the last part of their addresses."""
