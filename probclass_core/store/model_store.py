"""Save, load, list and promote models; the road of a version from a fit to a scoring run."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from types import EllipsisType
from typing import Any, Protocol

from probclass_core.arrow.bundle import Bundle, plain_json
from probclass_core.errors import StoreError, nearest, one_of
from probclass_core.model.model import Model
from probclass_core.store.evaluations import (
    Evaluated,
    EvaluationRecord,
    evaluations,
    record_evaluation,
)
from probclass_core.store.files import StoreFiles, open_files
from probclass_core.store.references import (
    Alias,
    ModelVersion,
    check_alias,
    check_model_name,
    is_id,
    is_id_prefix,
    parse_ref,
)

_MANIFEST = "manifest.json"
_ALIASES = "aliases"


class Bundled(Protocol):
    """Anything that can be written as a bundle."""

    def to_bundle(self) -> Bundle:
        """Its content, tables and provenance."""


class ModelStore:
    """A folder of models: versions named by their content, aliases that move between them.

    Args:
        uri: local path or ``file://`` URI, URI of S3, Google Cloud Storage, Azure or HDFS, or any
            URI that fsspec knows (``pip install 'probclass[fsspec]'``). The first save makes it.
        options: of the file system, as in a `TableRef`: credentials, an endpoint. They are never
            shown or recorded.

    Examples:
        >>> store = ModelStore("models")                                    # doctest: +SKIP
        >>> version = store.save(model, "air_quality")                      # doctest: +SKIP
        >>> store.promote("air_quality", version, alias="champion")         # doctest: +SKIP
        >>> store.load("air_quality@champion").id == version.id             # doctest: +SKIP
        True
    """

    def __init__(
        self, uri: str | os.PathLike[str], *, options: Mapping[str, Any] | None = None
    ) -> None:
        self.uri = os.fspath(uri)
        self._files = open_files(self.uri, options)

    def __repr__(self) -> str:
        return f"ModelStore({self.uri!r})"

    @property
    def files(self) -> StoreFiles:
        """Its file system, for what else is kept in the store."""
        return self._files

    # Saving and loading

    def save(
        self, model: Bundled, name: str, *, provenance: Mapping[str, Any] | None = None
    ) -> ModelVersion:
        """Save a model; where an equal fit is stored already, return that version untouched.

        Args:
            model: what to save.
            name: of the model; versions of one model share it.
            provenance: plain JSON values to record beside those of the fit, such as a run id.

        Raises:
            StoreError: the name or provenance will not do, the file system refuses, or the
                version that is stored already is damaged.
        """
        check_model_name(name)
        bundle = model.to_bundle()
        if bundle.kind != "model":
            raise StoreError(f"a model store keeps models, not {bundle.kind}; finalize it first.")
        recorded = {**bundle.provenance, **plain_json(provenance or {}, "provenance")}
        manifest = {**bundle.manifest(), "provenance": recorded, "created": _now()}
        folder = f"{name}/{bundle.content_id}"
        if self._files.exists(f"{folder}/{_MANIFEST}"):
            self._bundle(name, bundle.content_id)
        else:
            files = {**bundle.files(), _MANIFEST: _json(manifest)}
            self._files.publish(folder, files)
        return self._version(name, bundle.content_id)

    def load(self, ref: str) -> Model:
        """The model that ``name@alias``, ``name@id``, an id's first 8 digits or ``name`` names.

        Every file is verified against its SHA-256 first; local files are memory-mapped.

        Raises:
            StoreError: there is no such model or version, or it is damaged, or too new.
            PluginError: an estimator of the model is not installed.
        """
        return Model.from_bundle(self.read_bundle(ref))

    def read_bundle(self, ref: str) -> Bundle:
        """The verified tables and manifest of a version, needing none of its estimators.

        Raises:
            StoreError: as for `load`.
        """
        version = self.resolve(ref)
        return self._bundle(version.model, version.id)

    # Listing

    def models(self) -> list[str]:
        """The names of all models, sorted; none where nothing was ever saved."""
        return [name for name in self._files.names("") if self._ids(name)]

    def versions(self, name: str) -> list[ModelVersion]:
        """All versions of a model, oldest first.

        Raises:
            StoreError: there is no such model.
        """
        versions = [self._version(name, each) for each in self._known_ids(name)]
        return sorted(versions, key=lambda version: (version.created, version.id))

    def aliases(self, name: str) -> dict[str, Alias]:
        """All aliases of a model by name, sorted.

        Raises:
            StoreError: there is no such model, or an alias file is damaged.
        """
        self._known_ids(name)
        found = ((alias, self._alias(name, alias)) for alias in self._alias_names(name))
        return {alias: record for alias, record in found if record is not None}

    def resolve(self, ref: str) -> ModelVersion:
        """The version that a reference names now; a run resolves once and records the id.

        Raises:
            StoreError: there is no such model or version, or the reference fits several.
        """
        name, selector = parse_ref(ref)
        return self._version(name, self._id(name, selector))

    # Promoting

    def promote(
        self,
        name: str,
        version: ModelVersion | str,
        alias: str,
        *,
        expected: ModelVersion | str | EllipsisType | None = ...,
    ) -> Alias:
        """Let ``alias`` name ``version`` from now on, in one step: a reader meets old or new.

        Promoting what the alias names already changes nothing, so a retry does no harm.

        Args:
            name: of the model.
            version: of that model, or a reference to it, its id, or another of its aliases.
            alias: such as ``"champion"``.
            expected: what the alias must name until then, as for `version`, or `None` for nothing
                yet: compare and swap. Whatever it names will do by default. A local store lets one
                process at a time compare and swap; on an object store they are two steps.

        Raises:
            StoreError: the alias will not do, there is no such version of this model, or the
                alias does not name what was expected.
        """
        check_alias(alias)
        promoted = self._own_version(name, version)
        wanted = expected
        if isinstance(expected, (ModelVersion, str)):
            wanted = self._own_version(name, expected).id
        path = _alias_path(name, alias)
        with self._files.lock(path):
            try:
                before = self._alias(name, alias)
            except StoreError:
                before = None  # Damaged: promoting again is the mend.
            named = None if before is None else before.id
            if before is not None and named == promoted.id:
                return before
            if wanted not in (..., named):
                raise StoreError(
                    f"'{name}@{alias}' was promoted by another meanwhile: it names "
                    f"{_short(before)} and not what was expected; compare with what stands there "
                    "now, and try again."
                )
            record = Alias(name, alias, promoted.id, _now(), named)
            self._files.write(path, _json(asdict(record)))
        return record

    def _own_version(self, name: str, version: ModelVersion | str) -> ModelVersion:
        ref = version.ref if isinstance(version, ModelVersion) else version
        ref = ref if "@" in ref else f"{name}@{ref}"
        if parse_ref(ref)[0] != name:
            raise StoreError(f"{ref!r} is no version of model {name!r}; name a version of its own.")
        return self.resolve(ref)

    # Evaluations

    def record_evaluation(
        self,
        version: ModelVersion | str,
        evaluation: Evaluated,
        *,
        on: Mapping[str, Any] | None = None,
        provenance: Mapping[str, Any] | None = None,
    ) -> EvaluationRecord:
        """Keep how well a version did beside it; measured again on the same rows, it adds nothing.

        Args:
            version: what was evaluated, or a reference to it.
            evaluation: of that version.
            on: plain JSON values that say on which rows, such as source, partition and where.
            provenance: plain JSON values to record with it, such as a run id.

        Raises:
            StoreError: there is no such version, the evaluation is of another, or the file system
                refuses.
        """
        known = version if isinstance(version, ModelVersion) else self.resolve(version)
        return record_evaluation(self._files, known, evaluation, on or {}, provenance or {})

    def evaluations(self, version: ModelVersion | str) -> list[EvaluationRecord]:
        """The recorded evaluations of a version, oldest first.

        Raises:
            StoreError: there is no such version, or a record is damaged.
        """
        known = version if isinstance(version, ModelVersion) else self.resolve(version)
        return evaluations(self._files, known)

    # What stands in the files

    def _bundle(self, name: str, content_id: str) -> Bundle:
        folder = f"{name}/{content_id}"
        where = f"model '{name}@{content_id[:12]}' ({self._files.uri(folder)})"
        manifest = self._manifest(name, content_id)
        bundle = Bundle.from_files(
            manifest, lambda file: self._files.read(f"{folder}/{file}"), where=where
        )
        if bundle.content_id != content_id:
            raise StoreError(
                f"{where} holds version {bundle.content_id[:12]}…; move it to a folder of that "
                "whole id, or remove it."
            )
        return bundle

    def _manifest(self, name: str, content_id: str) -> dict[str, Any]:
        path = f"{name}/{content_id}/{_MANIFEST}"
        try:
            manifest = _parsed(self._files.read(path))
        except FileNotFoundError as error:
            raise StoreError(
                f"model {name!r} has no version {content_id[:12]}… (no {self._files.uri(path)}); "
                f"it has {self._choices(name)}."
            ) from error
        if manifest is None:
            raise StoreError(
                f"model '{name}@{content_id[:12]}': {self._files.uri(path)} is no JSON object; "
                "restore it from a copy, or remove this version and save it again."
            )
        return manifest

    def _version(self, name: str, content_id: str) -> ModelVersion:
        manifest = self._manifest(name, content_id)
        provenance = manifest.get("provenance")
        return ModelVersion(
            model=name,
            id=content_id,
            created=str(manifest.get("created", "")),
            provenance=provenance if isinstance(provenance, dict) else {},
        )

    def _alias(self, name: str, alias: str) -> Alias | None:
        path = _alias_path(name, alias)
        try:
            record = _parsed(self._files.read(path)) or {}
        except FileNotFoundError:
            return None
        if record.keys() != Alias.__dataclass_fields__.keys() or not is_id(str(record["id"])):
            raise StoreError(
                f"alias '{name}@{alias}': {self._files.uri(path)} is damaged; promote a version "
                f"to it again; the model has {self._choices(name)}."
            )
        return Alias(**record)

    # What a reference names

    def _id(self, name: str, selector: str | None) -> str:
        if selector is None:
            ids = self._known_ids(name)
            if len(ids) == 1:
                return ids[0]
            raise StoreError(
                f"model {name!r} has {len(ids)} versions; say which, as in '{name}@champion': "
                f"it has {self._choices(name)}."
            )
        if is_id_prefix(selector):
            found = [each for each in self._known_ids(name) if each.startswith(selector.lower())]
            if len(found) == 1:
                return found[0]
            if found:
                raise StoreError(
                    f"'{name}@{selector}' fits {len(found)} versions, {one_of(found)}; "
                    "give more digits."
                )
        elif (record := self._alias(name, selector)) is not None:
            return record.id
        self._known_ids(name)
        raise StoreError(
            f"model {name!r} has no version or alias {selector!r}; it has {self._choices(name)}."
            + nearest(selector, self._alias_names(name))
        )

    def _ids(self, name: str) -> list[str]:
        folders = (each for each in self._files.names(name) if is_id(each))
        return [each for each in folders if self._files.exists(f"{name}/{each}/{_MANIFEST}")]

    def _known_ids(self, name: str) -> list[str]:
        check_model_name(name)
        ids = self._ids(name)
        if not ids:
            models = self.models()
            if not models:
                raise StoreError(
                    f"no model {name!r}: the store at {self._files.uri('')} holds none; check "
                    "the path, or save a model first."
                )
            raise StoreError(
                f"no model {name!r} in the store at {self._files.uri('')}; it has "
                f"{one_of(models)}." + nearest(name, models)
            )
        return ids

    def _alias_names(self, name: str) -> list[str]:
        files = self._files.names(f"{name}/{_ALIASES}")
        return [file.removesuffix(".json") for file in files if file.endswith(".json")]

    def _choices(self, name: str) -> str:
        versions = one_of(each[:12] for each in self._ids(name))
        return f"aliases {one_of(self._alias_names(name))}; versions {versions}"


def _alias_path(name: str, alias: str) -> str:
    return f"{name}/{_ALIASES}/{alias}.json"


def _short(alias: Alias | None) -> str:
    return "nothing" if alias is None else f"{alias.id[:12]}…"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")


def _json(values: Mapping[str, Any]) -> bytes:
    return (json.dumps(values, indent=2, allow_nan=False) + "\n").encode()


def _parsed(data: Any) -> dict[str, Any] | None:
    """A JSON object, or None where the bytes are no such thing."""
    try:
        values = json.loads(bytes(data))
    except ValueError:
        return None
    return values if isinstance(values, dict) else None
