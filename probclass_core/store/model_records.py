"""All records of a model: one listing, and the files that this process has not read yet.

A record is kept in brief, evaluations without tables and scorings without histograms, with size and
time of its file: records do not change, but aliases do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from pyarrow.fs import FileInfo, FileType

from probclass_core.arrow.display import ShortRepr
from probclass_core.errors import StoreError
from probclass_core.io.filesystem import Location
from probclass_core.store.evaluations import FOLDER as EVALUATIONS
from probclass_core.store.evaluations import EvaluationRecord, brief_evaluation
from probclass_core.store.promotions import FOLDER as PROMOTIONS
from probclass_core.store.promotions import Promotion, in_force, promotion_path
from probclass_core.store.records import is_time, read_record, record_from
from probclass_core.store.references import Alias, ModelVersion, is_id
from probclass_core.store.scorings import FOLDER as SCORINGS
from probclass_core.store.scorings import ScoringRecord, brief_scoring

ALIASES = "aliases"
MANIFEST = "manifest.json"
_READERS = 16
"""Threads that read records."""
_RECORDS_CACHED = 250_000
"""Most records of all models in the memory of this process."""

_Record = ModelVersion | Alias | EvaluationRecord | ScoringRecord | Promotion


@dataclass(frozen=True, repr=False)
class ModelRecords(ShortRepr):
    """All records of a model at one time.

    Attributes:
        model: name of the model.
        versions: its versions, oldest first, without the profiles of columns and the notes of specs
            in their provenance.
        aliases: its aliases by name, sorted.
        evaluations: evaluations of all versions, without tables, oldest first.
        scorings: scorings with all versions, without histograms, oldest first.
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


_CACHE: dict[tuple[Any, ...], _Record] = {}
"""What this process has read, by the folder of the model, and path, size and time of the file."""


def read_model_records(files: Location, model: str) -> ModelRecords:
    """Read all records of a model; a damaged one does not hide the others.

    Raises:
        StoreError: if the folder of the model cannot be listed.
    """
    known, damaged = _read_all(files, model)
    records = known.values()
    aliases = {record.alias: record for record in records if isinstance(record, Alias)}
    versions = [record for record in records if isinstance(record, ModelVersion)]
    evaluations = [record for record in records if isinstance(record, EvaluationRecord)]
    scorings = [record for record in records if isinstance(record, ScoringRecord)]
    entries = {path: one for path, one in known.items() if isinstance(one, Promotion)}
    promotions = [entry for entry in entries.values() if entry.action == "refused"]
    for alias in aliases.values():

        def entry_of(when: str, id_: str, alias: Alias = alias) -> Promotion | None:
            path = promotion_path(model, alias.alias, when, id_)
            return entries.get(path.removeprefix(f"{model}/"))

        promotions += in_force(alias, entry_of)
    return ModelRecords(
        model=model,
        versions=sorted(versions, key=lambda version: (version.created, version.id)),
        aliases=dict(sorted(aliases.items())),
        evaluations=sorted(evaluations, key=lambda record: (record.created, record.id)),
        scorings=sorted(scorings, key=lambda record: (record.created, record.id)),
        promotions=sorted(promotions, key=lambda entry: (entry.time, entry.alias)),
        damaged=sorted(damaged),
    )


def alias_from(name: str, values: Mapping[str, Any]) -> Alias:
    """An alias from the values of its file.

    Raises:
        ValueError: if they are not of an alias of this name; the message is the reason.
    """
    alias = record_from(Alias, values)
    if alias.alias != name:
        raise ValueError(f"it is of the alias {alias.alias!r}")
    if not is_id(alias.id):
        raise ValueError("its 'id' is not a content id")
    return alias


def version_from(model: str, content_id: str, manifest: Mapping[str, Any]) -> ModelVersion:
    """A version from its manifest.

    Raises:
        ValueError: if the manifest has no time or no provenance; the message is the reason.
    """
    created, provenance = manifest.get("created"), manifest.get("provenance")
    if not is_time(created):
        raise ValueError("its 'created' is not a time")
    if not isinstance(provenance, dict):
        raise ValueError("its 'provenance' is not an object")
    return ModelVersion(model, content_id, str(created), provenance)


def _read_all(files: Location, model: str) -> tuple[dict[str, _Record], list[str]]:
    """All records of a model by their path in its folder, and a sentence for each damaged one."""
    known: dict[str, _Record] = {}
    damaged: list[str] = []
    unknown: dict[str, tuple[Any, ...]] = {}
    for info in _listed(files, model, damaged):
        path = files.relative(info.path).removeprefix(f"{model}/")
        key = files.uri_of(model), path, info.size, info.mtime_ns
        if key in _CACHE:
            known[path] = _CACHE[key]
        elif _kind(path) is not None and info.type == FileType.File:
            unknown[path] = key
        elif _kind(path) is not None:
            damaged.append(_sentence(files, model, path, "it is not a regular file"))
    if unknown:
        with ThreadPoolExecutor(_READERS) as pool:
            found = list(pool.map(lambda path: _read(files, model, path), unknown))
        for (path, key), one in zip(unknown.items(), found, strict=True):
            if isinstance(one, str):
                damaged.append(one)
            elif one is not None:
                known[path] = one
                if not isinstance(one, Alias):  # its file is replaced
                    _CACHE[key] = one
        if len(_CACHE) > _RECORDS_CACHED:
            _CACHE.clear()
    return known, damaged


def _listed(files: Location, model: str, damaged: list[str]) -> Iterator[FileInfo]:
    """The files of a model's records, by levels, so that links cannot lead in a circle.

    Args:
        files: the store.
        model: name of the model.
        damaged: gets a sentence for each folder that cannot be listed.
    """

    def inside(folders: Iterable[str]) -> Iterator[FileInfo]:
        for folder in folders:
            try:
                yield from files.entries(folder)
            except StoreError as error:
                damaged.append(str(error))

    names = [str(info.base_name) for info in files.entries(model)]
    of_versions = [f"{model}/{name}" for name in (EVALUATIONS, PROMOTIONS) if name in names]
    nested = [files.relative(info.path) for info in inside(of_versions)]
    yield from inside([f"{model}/{one}" for one in (ALIASES, SCORINGS) if one in names] + nested)
    manifests = [f"{model}/{name}/{MANIFEST}" for name in names if is_id(name)]
    found = files.filesystem.get_file_info(list(map(files.absolute, manifests)))
    yield from (info for info in found if info.type != FileType.NotFound)


def _read(files: Location, model: str, path: str) -> _Record | str | None:
    """The record of a file in brief; a sentence if it is damaged, None if it is gone."""
    try:
        values = read_record(files, f"{model}/{path}")
        _record(model, path, values)
        return _record(model, path, _brief(path, values))
    except FileNotFoundError:  # deleted since it was listed
        return None
    except ValueError as reason:
        return _sentence(files, model, path, str(reason))
    except StoreError as error:
        return str(error)


def _sentence(files: Location, model: str, path: str, reason: str) -> str:
    place = files.uri_of(f"{model}/{path}")
    return f"{place} is damaged ({reason}); restore it from a copy, or remove it."


def _kind(path: str) -> type[_Record] | None:
    """The kind of record at a path in the folder of a model, or None if it is another file."""
    match path.split("/"):
        case [id_, name] if name == MANIFEST and is_id(id_):
            return ModelVersion
        case [*_, name] if not name.endswith(".json") or name.startswith("."):
            return None
        case [folder, _]:
            return {ALIASES: Alias, SCORINGS: ScoringRecord}.get(folder)
        case [folder, _, _]:
            return {EVALUATIONS: EvaluationRecord, PROMOTIONS: Promotion}.get(folder)
    return None


def _record(model: str, path: str, values: Mapping[str, Any]) -> _Record:
    """The record of the values of a file.

    Raises:
        ValueError: if they are not of such a record; the message is the reason.
    """
    folder, _, name = path.rpartition("/")
    kind = _kind(path)
    assert kind is not None
    if kind is ModelVersion:
        return version_from(model, folder, values)
    if kind is Alias:
        return alias_from(name.removesuffix(".json"), values)
    record = record_from(kind, values)
    if isinstance(record, EvaluationRecord) and not folder.endswith(f"/{record.version}"):
        raise ValueError("it is of another version")
    return record


def _brief(path: str, values: dict[str, Any]) -> dict[str, Any]:
    """The values of a record that are kept in memory."""
    kind = _kind(path)
    if kind is ModelVersion:
        kept = {k: v for k, v in values["provenance"].items() if k not in ("columns", "spec_notes")}
        return {"created": values["created"], "provenance": kept}
    if kind is ScoringRecord:
        return brief_scoring(values)
    return brief_evaluation(values) if kind is EvaluationRecord else values
