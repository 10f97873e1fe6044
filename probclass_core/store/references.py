"""Versions, aliases, and the references that name them.

A reference is ``name@alias``, ``name@<content id>``, ``name@<at least 8 first digits of it>``, or
the bare ``name`` of a model that has one version. ``name@alias@previous`` is the version to which
the alias would be rolled back; ``name@previous`` is short for ``name@champion@previous``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from probclass_core.arrow.bundle import FORMAT_VERSION
from probclass_core.errors import StoreError, shown
from probclass_core.store.records import ContentId, Object, Record, Time

_SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_ID_PREFIX = re.compile(r"[0-9a-fA-F]{8,64}")
PREVIOUS = "previous"
"""Part of a reference: the version to which an alias would be rolled back."""

DEFAULT_ALIAS = "champion"
"""The alias that ``name@previous`` is about."""

MANIFEST = "manifest.json"

_RULE = "up to 128 letters, digits, '.', '_' or '-', starting with a letter or digit"


class OfVersion(Record):
    """A record that names a version by its content id."""

    id: ContentId

    @property
    def ref(self) -> str:
        """``name@id``, a reference that always names this version."""
        return f"{self.model}@{self.id}"

    @property
    def short(self) -> str:
        """The reference with the first digits of the id, for messages."""
        return self.ref[: len(self.model) + 13]


@dataclass(frozen=True, repr=False)
class ModelVersion(OfVersion):
    """One saved version of a model.

    Attributes:
        model: name of the model.
        id: content id, 64 hex digits; equal fits have equal ids.
        created: time when it was first saved, ISO 8601 in UTC.
        provenance: how it was made, as recorded by the fit and by the caller of `save`.
        inputs: digest of what it was made from, see `Model.inputs`; None if that is unknown.
        format_version: version of the format of its files.
    """

    advice = "restore it from a copy, or remove this version and save it again"

    model: str
    id: ContentId
    created: Time
    provenance: Object
    inputs: ContentId | None = None
    format_version: int = FORMAT_VERSION

    @property
    def path(self) -> str:
        """Path of the manifest, which exists once the version does."""
        return f"{self.model}/{self.id}/{MANIFEST}"

    @classmethod
    def from_values(cls, path: str, values: Mapping[str, Any]) -> Self:
        """The version of a manifest."""
        model, id_, _ = path.split("/")
        names = ("created", "provenance", "inputs", "format_version")
        own = {name: values.get(name) for name in names}
        return super().from_values(path, {"model": model, "id": id_, **own})

    @property
    def is_readable(self) -> bool:
        """Whether this release reads the format of its files."""
        return self.format_version == FORMAT_VERSION

    def brief(self) -> Self:
        """The version without the profiles of its columns and the notes of its spec."""
        left_out = ("columns", "spec_notes")
        kept = {key: one for key, one in self.provenance.items() if key not in left_out}
        return replace(self, provenance=kept)


@dataclass(frozen=True, repr=False)
class Alias(OfVersion):
    """A name that moves from version to version, such as ``champion``.

    Attributes:
        model: name of the model.
        alias: the alias itself.
        id: content id of the version that it names.
        promoted: time of the promotion, ISO 8601 in UTC.
        previous: content id of the version to which it would be rolled back, or None: the one that
            it named before the promotion in force.
    """

    folder = "aliases"
    advice = "promote a version to it again"

    model: str
    alias: str
    id: ContentId
    promoted: Time
    previous: ContentId | None

    @property
    def path(self) -> str:
        """Path of the file in the store."""
        return f"{self.model}/{self.folder}/{self.alias}.json"


@dataclass(frozen=True, repr=False)
class Training(OfVersion):
    """The version that a training made, found by what it was made from.

    Attributes:
        model: name of the model.
        inputs: digest of spec, rows and release, see `Model.inputs`.
        id: content id of the version.
    """

    folder = "trainings"

    model: str
    inputs: ContentId
    id: ContentId

    @property
    def path(self) -> str:
        """Path of the file in the store."""
        return f"{self.model}/{self.folder}/{self.inputs}.json"


def is_model_name(name: object) -> bool:
    """Whether this is a valid name of a model."""
    return isinstance(name, str) and _SAFE_NAME.fullmatch(name) is not None


def check_model_name(name: str) -> str:
    """Return the name if it is a valid name of a folder on any file system.

    Raises:
        StoreError: if it is not.
    """
    if not is_model_name(name):
        raise StoreError(f"{shown(name)} cannot name a model; use {_RULE}.")
    return name


def check_alias(alias: str) -> str:
    """Return the alias if it is a valid name of a file and cannot be mistaken for a content id.

    Raises:
        StoreError: if it is not valid, or looks like a content id.
    """
    if not isinstance(alias, str) or not _SAFE_NAME.fullmatch(alias):
        raise StoreError(f"{alias!r} cannot be an alias; use {_RULE}.")
    if is_id_prefix(alias):
        raise StoreError(f"alias {alias!r} looks like a content id; choose another name.")
    return alias


def is_id_prefix(text: str) -> bool:
    """Whether the text is the beginning of a content id: 8 to 64 hex digits."""
    return _ID_PREFIX.fullmatch(text) is not None


def parse_ref(ref: str) -> tuple[str, str | None]:
    """Split a reference into the name of the model and the part after ``@``, or None.

    Raises:
        StoreError: if the reference has none of the forms above.
    """
    if not isinstance(ref, str):
        raise StoreError(f"a reference is text such as 'name@alias', got {shown(ref)}.")
    name, at, selector = ref.partition("@")
    check_model_name(name)
    if not at:
        return name, None
    alias, at, before = selector.partition("@")
    if not is_id_prefix(selector):
        check_alias(alias)
    if at and before != PREVIOUS:
        raise StoreError(
            f"{before!r} cannot follow the alias of {ref!r}; write '{name}@{alias}@{PREVIOUS}', "
            f"or find the version in 'probclass models history {name}'."
        )
    return name, selector
