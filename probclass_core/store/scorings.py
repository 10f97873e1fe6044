"""Scorings with a version: one small JSON file per call that wrote partitions.

A record is named by its time and the digest of its partitions, so a listing is in order of time.
Partitions that were skipped are recorded only if no record says that they were written, as after a
task that was killed between the commit and the record. So a retry adds no record.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nlargest
from typing import Any, Protocol

from probclass_core.arrow.bundle import as_json, json_digest, plain_json
from probclass_core.errors import StoreError, hide_credentials
from probclass_core.store.records import (
    ContentId,
    Object,
    Objects,
    Record,
    Time,
    file_name,
    timestamp,
)
from probclass_core.store.references import ModelVersion

_MAX_PARTITIONS = 500
"""Most partitions of a record; more make several records."""
_MAX_COLUMNS = 5_000
"""Most columns of the health of all partitions of a record."""


class Scored(Protocol):
    """The report of a scoring, such as `ScoreReport`."""

    @property
    def model_id(self) -> str:
        """Content id of the model."""

    @property
    def uri(self) -> str:
        """Path or URI of the scored table, without credentials."""

    @property
    def commits(self) -> Sequence[Mapping[str, Any]]:
        """For each partition its commit, with ``partition``, ``commit_id`` and ``skipped``."""


@dataclass(frozen=True, repr=False)
class ScoringRecord(Record):
    """Partitions that one call scored with one version.

    Attributes:
        model: name of the model.
        version: content id of the version.
        id: time and digest, the name of the record.
        created: time of the record, ISO 8601 in UTC.
        sink: path or URI of the scored table.
        partitions: for each partition its values as ``partition``, commit_id, source, input (digest
            of the rows' files), input_version, rule (digest of conditions, columns and decision),
            rows, skipped, and if they are known verdicts and health, see `Health.to_dict`: without
            histograms, and of many columns the most unusual ones.
        provenance: how it was made, such as a run id.
        stopped: for each partition that was not scored, because of a check or an error that a retry
            does not fix, or in a run that catches up, its values as ``partition`` and the reason as
            ``error``.
    """

    folder = "scorings"

    model: str
    version: ContentId
    id: str
    created: Time
    sink: str
    partitions: Objects
    provenance: Object
    stopped: Objects = field(default_factory=list)

    @property
    def path(self) -> str:
        """Path of the file in the store."""
        return f"{self.model}/{self.folder}/{self.id}.json"


def new_partitions(report: Scored, records: Iterable[ScoringRecord]) -> list[Mapping[str, Any]]:
    """The partitions of a report that are to be recorded.

    Args:
        report: the report.
        records: the records of the model, oldest first.
    """
    last = {
        _place(record.sink, one): one.get("commit_id")
        for record in records
        for one in record.partitions
    }
    return [
        one
        for one in report.commits
        if not one["skipped"] or last.get(_place(report.uri, one)) != one["commit_id"]
    ]


def unscored(
    records: Sequence[ScoringRecord],
) -> list[tuple[ScoringRecord, Mapping[str, Any]]]:
    """The partitions that were not scored: the record of the first failure, and the last one."""
    found: dict[Any, tuple[ScoringRecord, Mapping[str, Any]]] = {}
    for record in records:
        for one in record.partitions:
            for place, (first, stopped) in [*found.items()]:
                if first.sink == record.sink and is_part_of(one["partition"], stopped["partition"]):
                    del found[place]
        for one in record.stopped:
            first, _ = found.get(_place(record.sink, one), (record, one))
            found[_place(record.sink, one)] = first, one
    return [*found.values()]


def is_part_of(partition: Any, values: Any) -> bool:
    """Whether a recorded partition has all these values; text in one may be a number in another.

    So a partition by region and month is part of the month.
    """
    return isinstance(values, Mapping) and _texts(values) <= _texts(partition)


def scoring_records(
    version: ModelVersion,
    report: Scored,
    partitions: Sequence[Mapping[str, Any]],
    provenance: Mapping[str, Any],
) -> list[ScoringRecord]:
    """The records of partitions of a report; see `ModelStore.record_scoring`.

    Raises:
        StoreError: if the report is of another version, or a value is not plain JSON.
    """
    if report.model_id != version.id:
        raise StoreError(
            f"the scoring is with model {report.model_id[:12]}, not with {version.short!r}."
        )
    plain = plain_json(provenance, "provenance")
    records = []
    catches_up = bool(getattr(getattr(report, "selected", None), "catch_up", 0))
    stopped = [
        {"partition": as_json(one.partition), "error": hide_credentials(str(one.error))}
        for one in getattr(report, "failed", ())
        if catches_up or not one.is_transient
    ]
    for start in range(0, max(len(partitions), min(len(stopped), 1)), _MAX_PARTITIONS):
        part = partitions[start : start + _MAX_PARTITIONS]
        chosen = [_recorded(one, _MAX_COLUMNS // len(part)) for one in as_json(part)]
        time = timestamp()
        digest = json_digest([version.id, report.uri, chosen, stopped])
        records.append(
            ScoringRecord(
                model=version.model,
                version=version.id,
                id=file_name(time, digest),
                created=time,
                sink=report.uri,
                partitions=chosen,
                provenance=plain,
                stopped=[] if start else stopped[:_MAX_PARTITIONS],
            )
        )
    return records


def _recorded(partition: Mapping[str, Any], most: int) -> Mapping[str, Any]:
    """A partition with the most unusual columns of its health, without their histograms."""
    health = partition.get("health") or {}
    columns = {
        name: {key: value for key, value in column.items() if not isinstance(value, list)}
        for name, column in health.get("columns", {}).items()
    }
    if not columns:
        return partition
    kept = nlargest(most, columns, key=lambda name: _unusual(columns[name]))
    return {**partition, "health": {**health, "columns": {name: columns[name] for name in kept}}}


def _unusual(column: Mapping[str, Any]) -> float:
    """The largest of the checks of a column, which are all from 0 to 1."""
    checks = [column.get(check) or 0.0 for check in ("nulls", "drift", "unseen", "outside")]
    checks[0] -= column.get("training_nulls") or 0.0
    return float(max(checks))


def _place(sink: str, one: Mapping[str, Any]) -> tuple[str, frozenset[tuple[str, str]]]:
    return sink, _texts(one.get("partition"))


def _texts(partition: Any) -> frozenset[tuple[str, str]]:
    """The values of a partition as text, which in another record may be numbers."""
    values = partition if isinstance(partition, Mapping) else {}
    return frozenset((str(name), str(value)) for name, value in values.items())
