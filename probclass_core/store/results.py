"""Results with versions of a model, evaluations and scorings, and all records of the model.

An evaluation is one small file per version and set of rows, named by the digest of its result and
of the description of the rows. So recording the same evaluation again adds nothing, and two tasks
that do so at once write the same file.

A scoring is one small file per call that wrote partitions, named by its time and the digest of the
partitions, so a listing is in order of time. Partitions that were skipped are recorded only if no
record says that they were written, as after a task that was killed between the commit and the
record. So a retry adds no record.

All records of a model are read by one listing, and the files that this process has not read yet. A
record is kept in brief, evaluations without tables, with size and time of its file: records do not
change, but aliases do.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import nlargest
from typing import Any, Protocol, Self, TypeVar

from pyarrow.fs import FileInfo, FileType

from probclass_core.arrow.bundle import as_json, json_digest, plain_json
from probclass_core.display import ShortRepr
from probclass_core.errors import StoreError, hide_credentials
from probclass_core.io.filesystem import Location
from probclass_core.io.references import recorded_uri
from probclass_core.store.promotions import Promotion, counted
from probclass_core.store.records import (
    MANIFEST,
    Alias,
    ContentId,
    ModelVersion,
    Object,
    Objects,
    Record,
    Time,
    file_name,
    is_id,
    read_records,
    timestamp,
)

_MAX_EVALUATION = 1_000_000
"""Size up to which an evaluation is stored with its tables; of a larger one, as with hundreds of
classes, only the numbers are stored."""

_MAX_PARTITIONS = 500
"""Most partitions of a record; more make several records."""

_MAX_COLUMNS = 5_000
"""Most columns of the health of all partitions of a record."""

_RECORDS_CACHED = 250_000
"""Most records of all models in the memory of this process."""


class Evaluated(Protocol):
    """An evaluation, or anything else that can describe itself in plain values."""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; an infinite or undefined number is null."""


@dataclass(frozen=True, repr=False)
class EvaluationRecord(Record):
    """One recorded evaluation of one version.

    Attributes:
        model: name of the model.
        version: content id of the version.
        id: digest of `on` and `result`, 64 hex digits.
        created: time when it was first recorded, ISO 8601 in UTC.
        on: description of the rows, such as source, partition and where.
        result: `Evaluation.to_dict`, without its tables if they are very large. See
            `Evaluation.from_dict`.
        provenance: how it was made, such as a run id; not part of `id`.
    """

    folder = "evaluations"
    advice = "remove it, and evaluate again"

    model: str
    version: ContentId
    id: ContentId
    created: Time
    on: Object
    result: Object
    provenance: Object

    @property
    def path(self) -> str:
        """Path of the file in the store."""
        return f"{self.model}/{self.folder}/{self.version}/{self.id}.json"

    def brief(self) -> Self:
        """The record without the tables of its result."""
        return replace(self, result=_without_tables(self.result))


def evaluation_record(
    version: ModelVersion,
    evaluation: Evaluated,
    on: Mapping[str, Any],
    provenance: Mapping[str, Any],
) -> EvaluationRecord:
    """The record of an evaluation; see `ModelStore.record_evaluation`.

    Raises:
        StoreError: if the evaluation is of another version, or a value is not plain JSON.
    """
    result = plain_json(evaluation.to_dict(), "evaluation")
    if result.get("model_id") != version.id:
        raise StoreError(
            f"the evaluation is of model {str(result.get('model_id'))[:12]}, "
            f"not of {version.short!r}; load that version and evaluate it."
        )
    if len(json.dumps(result)) > _MAX_EVALUATION:
        result = _without_tables(result)
    rows = plain_json(on, "on")
    return EvaluationRecord(
        model=version.model,
        version=version.id,
        id=json_digest([rows, result]),
        created=timestamp(),
        on=rows,
        result=result,
        provenance=plain_json(provenance, "provenance"),
    )


def _without_tables(result: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in result.items() if not _is_table(value)}


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(row, dict) for row in value)


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
            sink, _ = _place(record.sink, one)
            for place, (_, stopped) in [*found.items()]:
                if place[0] == sink and is_part_of(one["partition"], stopped["partition"]):
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
                sink=recorded_uri(report.uri),
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
    return recorded_uri(sink), _texts(one.get("partition"))


def _texts(partition: Any) -> frozenset[tuple[str, str]]:
    """The values of a partition as text, which in another record may be numbers."""
    values = partition if isinstance(partition, Mapping) else {}
    return frozenset((str(name), str(value)) for name, value in values.items())


_KINDS: tuple[type[Record], ...] = (Alias, ScoringRecord, EvaluationRecord, Promotion)
"""Kinds of records that have a folder."""
_NESTED = (EvaluationRecord, Promotion)
"""Those whose folder has a folder for each version or alias."""

_Kind = TypeVar("_Kind", bound=Record)


@dataclass(frozen=True, repr=False)
class ModelRecords(ShortRepr):
    """All records of a model at one time.

    Attributes:
        model: name of the model.
        versions: its versions, oldest first, without the profiles of columns and the notes of specs
            in their provenance.
        aliases: its aliases by name, sorted.
        evaluations: evaluations of all versions, without tables, oldest first.
        scorings: scorings with all versions, oldest first.
        promotions: promotions that count, rollbacks and refusals, oldest first.
        damaged: one sentence for each damaged file, with the reason.
    """

    model: str
    versions: list[ModelVersion] = field(default_factory=list)
    aliases: dict[str, Alias] = field(default_factory=dict)
    evaluations: list[EvaluationRecord] = field(default_factory=list)
    scorings: list[ScoringRecord] = field(default_factory=list)
    promotions: list[Promotion] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)


_CACHE: dict[tuple[Any, ...], Record] = {}
"""What this process has read, by the folder of the model, and path, size and time of the file."""


def read_model_records(files: Location, model: str) -> ModelRecords:
    """Read all records of a model; a damaged one does not hide the others.

    Raises:
        StoreError: if the folder of the model cannot be listed.
    """
    damaged: list[str] = []
    known = _read_all(files, model, damaged)
    aliases = {alias.alias: alias for alias in _of(Alias, known)}
    return ModelRecords(
        model=model,
        versions=_of(ModelVersion, known),
        aliases=dict(sorted(aliases.items())),
        evaluations=_of(EvaluationRecord, known),
        scorings=_of(ScoringRecord, known),
        promotions=counted(_of(Promotion, known), aliases.values()),
        damaged=sorted(damaged),
    )


def _of(kind: type[_Kind], records: Iterable[Record]) -> list[_Kind]:
    """The records of a kind, oldest first."""
    found = [record for record in records if isinstance(record, kind)]
    return sorted(found, key=lambda record: (getattr(record, "created", ""), record.path))


def _read_all(files: Location, model: str, damaged: list[str]) -> list[Record]:
    """All records of a model in brief; `damaged` gets a sentence for each damaged one."""
    known: list[Record] = []
    unknown: dict[tuple[Any, ...], tuple[type[Record], str]] = {}
    for kind, info in _listed(files, model, damaged):
        path = files.relative(info.path)
        key = files.uri_of(model), path, info.size, info.mtime_ns
        if key in _CACHE:
            known.append(_CACHE[key])
        elif info.type == FileType.File:
            unknown[key] = kind, path
        else:
            place = f"{files.uri_of(path)} is damaged (it is not a regular file)"
            damaged.append(f"{place}; {kind.advice}.")

    for key, one in zip(unknown, read_records(files, unknown.values(), brief=True), strict=True):
        if isinstance(one, StoreError):
            damaged.append(str(one))
        elif one is not None:
            known.append(one)
            if not isinstance(one, Alias):  # its file is replaced
                _CACHE[key] = one
    if len(_CACHE) > _RECORDS_CACHED:
        _CACHE.clear()
    return known


def _listed(
    files: Location, model: str, damaged: list[str]
) -> Iterator[tuple[type[Record], FileInfo]]:
    """The files of a model's records, by levels, so that links cannot lead in a circle.

    Args:
        files: the store.
        model: name of the model.
        damaged: gets a sentence for each folder that cannot be listed.
    """

    def inside(folder: str) -> list[FileInfo]:
        try:
            return files.entries(folder)
        except StoreError as error:
            damaged.append(str(error))
            return []

    names = [str(info.base_name) for info in files.entries(model)]
    for kind in _KINDS:
        found = inside(f"{model}/{kind.folder}") if kind.folder in names else []
        if kind in _NESTED:
            found = [info for one in found for info in inside(files.relative(one.path))]
        for info in found:
            if info.base_name.endswith(".json") and not info.base_name.startswith("."):
                yield kind, info
    manifests = [f"{model}/{name}/{MANIFEST}" for name in names if is_id(name)]
    for info in files.filesystem.get_file_info(list(map(files.absolute, manifests))):
        if info.type != FileType.NotFound:
            yield ModelVersion, info
