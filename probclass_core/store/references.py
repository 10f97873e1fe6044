"""Names, aliases and references to a version; what a reference resolves to.

A reference is ``name@alias``, ``name@<content id>``, ``name@<first 8 or more digits of it>``, or
the bare ``name`` of a model that has one version.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from probclass_core.errors import StoreError

_SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_ID = re.compile(r"[0-9a-f]{64}")
_ID_PREFIX = re.compile(r"[0-9a-fA-F]{8,64}")
_RULE = "up to 128 letters, digits, '.', '_' or '-', with a letter or digit first"


@dataclass(frozen=True)
class ModelVersion:
    """One saved version of a model.

    Attributes:
        model: the name it was saved under.
        id: its content id, 64 hex digits; equal fits have equal ids.
        created: when it was first saved, ISO 8601 in UTC.
        provenance: how it came about, as recorded by the fit and by whoever saved it.
    """

    model: str
    id: str
    created: str
    provenance: Mapping[str, Any]

    @property
    def ref(self) -> str:
        """``name@id``: names this very version for ever."""
        return f"{self.model}@{self.id}"


@dataclass(frozen=True)
class Alias:
    """A name that moves from version to version, such as ``champion``.

    Attributes:
        model: the model's name.
        alias: the name itself.
        id: content id of the version it names now.
        promoted: since when, ISO 8601 in UTC.
        previous: content id of the version it named before, if any: promote that to go back.
    """

    model: str
    alias: str
    id: str
    promoted: str
    previous: str | None


def check_model_name(name: str) -> str:
    """The name, if it can name a folder on any file system.

    Raises:
        StoreError: it cannot.
    """
    if not isinstance(name, str) or not _SAFE_NAME.fullmatch(name):
        raise StoreError(f"{name!r} cannot name a model; use {_RULE}.")
    return name


def check_alias(alias: str) -> str:
    """The alias, if it can name a file and cannot be taken for a content id.

    Raises:
        StoreError: it cannot, or it can.
    """
    if not isinstance(alias, str) or not _SAFE_NAME.fullmatch(alias):
        raise StoreError(f"{alias!r} cannot be an alias; use {_RULE}.")
    if is_id_prefix(alias):
        raise StoreError(f"alias {alias!r} would be taken for a content id; choose another name.")
    return alias


def is_id(text: str) -> bool:
    """Whether ``text`` is a whole content id."""
    return _ID.fullmatch(text) is not None


def is_id_prefix(text: str) -> bool:
    """Whether ``text`` names a version by the first digits of its content id, at least 8."""
    return _ID_PREFIX.fullmatch(text) is not None


def parse_ref(ref: str) -> tuple[str, str | None]:
    """The model's name and what follows the ``@``, an alias or the start of a content id, if any.

    Raises:
        StoreError: the reference is none of the forms above.
    """
    if not isinstance(ref, str):
        raise StoreError(f"a reference is text such as 'name@alias', got {ref!r}.")
    name, at, selector = ref.partition("@")
    check_model_name(name)
    if not at:
        return name, None
    if not is_id_prefix(selector):
        check_alias(selector)
    return name, selector
