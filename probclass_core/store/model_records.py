"""All records of a model, read with one listing and one index.

Records never change, so ``index.json`` in the folder of the model repeats many of them, in brief:
evaluations without tables, scorings without histograms. A record that the index does not have is
read from its own file, and so is every record if the index is missing or damaged. Writers of
records replace the index now and then; readers never write.
"""

from __future__ import annotations

import json
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from probclass_core.errors import StoreError
from probclass_core.io.filesystem import Location, is_file
from probclass_core.store.evaluations import FOLDER as EVALUATIONS
from probclass_core.store.evaluations import EvaluationRecord, brief_evaluation, evaluation_from
from probclass_core.store.promotions import FOLDER as PROMOTIONS
from probclass_core.store.promotions import Promotion, in_force, promotion_from, promotion_path
from probclass_core.store.records import read_record
from probclass_core.store.references import Alias, ModelVersion, is_id
from probclass_core.store.scorings import FOLDER as SCORINGS
from probclass_core.store.scorings import ScoringRecord, brief_scoring, scoring_from

INDEX = "index.json"
ALIASES = "aliases"
MANIFEST = "manifest.json"
_FORMAT = 1
_ONE_IN = 32
"""A writer replaces the index after about one record of this many."""
_SETTLED_NS = 60 * 10**9
"""Age from which the size and time of an alias's file say whether it was replaced."""
_READERS = 16
"""Threads that read records which the index does not have."""
_MODELS_CACHED = 64

_State = tuple[int, int | None]
"""Size and modification time of a file, in bytes and nanoseconds."""
_Known = dict[str, tuple[_State, Any]]
"""Records in brief by path in the folder of the model, with the state of their files."""


@dataclass(frozen=True)
class ModelRecords:
    """All records of a model at one time.

    Attributes:
        model: name of the model.
        versions: its versions, oldest first, without the profiles of columns in their provenance.
        aliases: its aliases by name, sorted.
        evaluations: evaluations of all versions, without tables, oldest first.
        scorings: scorings with all versions, without histograms, oldest first.
        promotions: promotions that count, rollbacks and refusals, oldest first.
        damaged: one sentence for each file that could not be read.
    """

    model: str
    versions: list[ModelVersion] = field(default_factory=list)
    aliases: dict[str, Alias] = field(default_factory=dict)
    evaluations: list[EvaluationRecord] = field(default_factory=list)
    scorings: list[ScoringRecord] = field(default_factory=list)
    promotions: list[Promotion] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)


_CACHE: OrderedDict[str, _Known] = OrderedDict()
"""Records in brief that this process has read, by the URI of the folder of the model."""
_CACHE_LOCK = Lock()


def read_model_records(files: Location, model: str) -> ModelRecords:
    """Read all records of a model; a damaged one hides no other.

    Raises:
        StoreError: if the file system refuses.
    """
    parsed, damaged, _ = _read_all(files, model)
    aliases = {value.alias: value for value in parsed.values() if isinstance(value, Alias)}
    versions = [value for value in parsed.values() if isinstance(value, ModelVersion)]
    evaluations = [value for value in parsed.values() if isinstance(value, EvaluationRecord)]
    scorings = [value for value in parsed.values() if isinstance(value, ScoringRecord)]
    entries = {path: entry for path, entry in parsed.items() if isinstance(entry, Promotion)}
    promotions = [entry for entry in entries.values() if entry.action == "refused"]
    for alias in aliases.values():

        def entry_of(when: str, id_: str, alias: Alias = alias) -> Promotion | None:
            path = promotion_path(model, alias.alias, when, id_)
            return entries.get(path.removeprefix(f"{model}/"))

        promotions += [entry for entry in in_force(alias, entry_of) if entry.time]
    return ModelRecords(
        model=model,
        versions=sorted(versions, key=lambda version: (version.created, version.id)),
        aliases=dict(sorted(aliases.items())),
        evaluations=sorted(evaluations, key=lambda record: (record.created, record.id)),
        scorings=sorted(scorings, key=lambda record: (record.created, record.id)),
        promotions=sorted(promotions, key=lambda entry: (entry.time, entry.alias)),
        damaged=damaged,
    )


def write_index(files: Location, model: str) -> int:
    """Replace the index of a model, and return the number of records in it.

    Raises:
        StoreError: if the file system refuses.
    """
    _, _, known = _read_all(files, model)
    records = {path: [*state, value] for path, (state, value) in known.items()}
    text = json.dumps({"format": _FORMAT, "records": records}, separators=(",", ":"))
    files.write(f"{model}/{INDEX}", text.encode(), durable=False)
    return len(records)


def index_now_and_then(files: Location, model: str, digest: str) -> None:
    """Replace the index of a model after a new record, if the record's digest is one of few."""
    if int(digest[-4:], 16) % _ONE_IN == 0:
        write_index(files, model)


def _read_all(files: Location, model: str) -> tuple[dict[str, Any], list[str], _Known]:
    """Parsed records by path, sentences about damaged ones, and the records to index."""
    listed = {}
    for info in files.entries(model, recursive=True):
        path = files.relative(info.path).removeprefix(f"{model}/")
        if is_file(info) and (parse := _parser(model, path)) is not None:
            listed[path] = ((info.size, info.mtime_ns), parse)
    cached = _CACHE.get(files.uri_of(model), {})
    if any(path not in cached for path in listed):
        cached = _indexed(files, model) | cached
    parsed: dict[str, Any] = {}
    known: _Known = {}
    for path, (state, parse) in listed.items():
        if path in cached and cached[path][0] == state:
            try:
                parsed[path] = parse(cached[path][1])
            except (TypeError, KeyError):
                continue  # the index is damaged here
            known[path] = cached[path]
    unknown = [path for path in listed if path not in parsed]
    damaged: list[str] = []
    with ThreadPoolExecutor(_READERS) as pool:
        values_read = pool.map(lambda path: _read(files, f"{model}/{path}"), unknown)
    for path, values in zip(unknown, values_read, strict=True):
        state, parse = listed[path]
        try:
            if not isinstance(values, dict):
                raise TypeError(path)
            brief = _brief(path, values)
            parsed[path] = parse(brief)
        except (TypeError, KeyError):
            if values != _GONE:
                damaged.append(_sentence(files, f"{model}/{path}", values))
            continue
        if not path.startswith(f"{ALIASES}/") or _is_settled(state):
            known[path] = state, brief
    with _CACHE_LOCK:
        _CACHE[files.uri_of(model)] = known
        _CACHE.move_to_end(files.uri_of(model))
        while len(_CACHE) > _MODELS_CACHED:
            _CACHE.popitem(last=False)
    return parsed, damaged, known


_GONE = "gone"


def _read(files: Location, path: str) -> dict[str, Any] | str | None:
    """The values of a record; a text if it cannot be read, None if it is not a JSON object."""
    try:
        return read_record(files, path)
    except FileNotFoundError:  # deleted since it was listed
        return _GONE
    except StoreError as error:
        return str(error)


def _sentence(files: Location, path: str, values: Any) -> str:
    if isinstance(values, str):
        return values
    return f"{files.uri_of(path)} is damaged; restore it from a copy, or remove it."


def _indexed(files: Location, model: str) -> _Known:
    """The records of the index; none if it is missing, damaged, or of another release."""
    try:
        index = read_record(files, f"{model}/{INDEX}") or {}
    except (FileNotFoundError, StoreError):
        return {}
    records = index.get("records")
    if index.get("format") != _FORMAT or not isinstance(records, dict):
        return {}
    return {
        path: ((one[0], one[1]), one[2])
        for path, one in records.items()
        if isinstance(one, list) and len(one) == 3 and isinstance(one[2], dict)
    }


def _is_settled(state: _State) -> bool:
    return state[1] is not None and time.time_ns() - state[1] > _SETTLED_NS


def _parser(model: str, path: str) -> Callable[[dict[str, Any]], Any] | None:
    """What makes a record out of the values of a file, or None if it is another file."""
    match path.split("/"):
        case [id_, name] if name == MANIFEST and is_id(id_):
            return lambda values: _version(model, id_, values)
        case [folder, name] if not name.endswith(".json") or name.startswith("."):
            return None
        case [folder, name] if folder == ALIASES:
            return lambda values: Alias(**values)
        case [folder, name] if folder == SCORINGS:
            return scoring_from
        case [folder, _, name] if name.endswith(".json") and not name.startswith("."):
            parsers = {EVALUATIONS: evaluation_from, PROMOTIONS: promotion_from}
            return parsers.get(folder)
    return None


def _brief(path: str, values: dict[str, Any]) -> dict[str, Any]:
    folder, _, name = path.rpartition("/")
    if name == MANIFEST:
        provenance = values.get("provenance")
        provenance = provenance if isinstance(provenance, dict) else {}
        kept = {key: value for key, value in provenance.items() if key != "columns"}
        return {"created": values.get("created", ""), "provenance": kept}
    if folder == SCORINGS:
        return brief_scoring(values)
    return brief_evaluation(values) if folder.startswith(EVALUATIONS) else values


def _version(model: str, id_: str, values: Mapping[str, Any]) -> ModelVersion:
    return ModelVersion(model, id_, str(values["created"]), values["provenance"])
