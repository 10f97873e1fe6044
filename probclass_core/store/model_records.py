"""All records of a model: one listing, and the files that this process has not read yet.

A record is kept in brief, evaluations without tables, with size and time of its file: records do
not change, but aliases do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pyarrow.fs import FileInfo, FileType

from probclass_core.display import ShortRepr
from probclass_core.errors import StoreError
from probclass_core.io.filesystem import Location
from probclass_core.store.evaluations import EvaluationRecord
from probclass_core.store.promotions import Promotion, counted
from probclass_core.store.records import Record, is_id, read_records
from probclass_core.store.references import MANIFEST, Alias, ModelVersion
from probclass_core.store.scorings import ScoringRecord

_RECORDS_CACHED = 250_000
"""Most records of all models in the memory of this process."""
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
