"""The stores that the pages show, and the look-up of a model by the parts of an address."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from fastapi import HTTPException

import probclass_core as pc
from probclass_airflow.links import store_key
from probclass_core.errors import StoreError, hide_credentials

if TYPE_CHECKING:
    from probclass_core.store.records import ModelVersion
    from probclass_core.store.results import ModelRecords


class NotFound(HTTPException):
    """An address names something that does not exist; the detail is one line for the page."""

    def __init__(self, line: str) -> None:
        super().__init__(404, line)


@dataclass(frozen=True)
class ShownStore:
    """One of the stores that the pages show.

    Attributes:
        uri: path or URI, as configured.
        key: the store's name in addresses.
    """

    uri: str
    key: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", store_key(self.uri))

    @property
    def title(self) -> str:
        """Its path or URI without credentials."""
        return hide_credentials(self.uri)

    @property
    def store(self) -> pc.ModelStore:
        """The store itself.

        Raises:
            StoreError: if no installed file system opens the URI.
        """
        return pc.ModelStore(self.uri)

    def records(self, name: str) -> ModelRecords:
        """All records of a model.

        Raises:
            NotFound: if the store has no such model.
            StoreError: if the store cannot be read.
        """
        try:
            return self.store.records(name)
        except StoreError:
            # Its message lists all models of the store; a name may also be no name at all.
            if name not in self.store.models():
                raise NotFound(f"There is no model {name!r} in the store {self.title}.") from None
            raise


def version_of(records: ModelRecords, content_id: str) -> ModelVersion:
    """A version of a model by its full content id.

    Raises:
        NotFound: if there is no such version.
        StoreError: if the version is damaged.
    """
    for version in records.versions:
        if version.id == content_id:
            return version
    for sentence in records.damaged:
        if f"{records.model}/{content_id}/" in sentence:
            raise StoreError(sentence)
    raise NotFound(f"Model {records.model!r} has no version {content_id[:12]!r}.")


def configured_stores(team: str | None = None) -> list[ShownStore]:
    """The stores of the option ``[probclass] stores``, or else the one of PROBCLASS_STORE.

    Args:
        team: team of Airflow whose own option is read, or None for the stores that all users see.
    """
    from airflow.configuration import conf

    of_team = {} if team is None else {"team_name": team}
    text = conf.get("probclass", "stores", fallback=None, **of_team)
    if not text and team is None:
        text = os.environ.get("PROBCLASS_STORE")
    uris = dict.fromkeys(uri.strip() for uri in re.split(r"[,\n]", text or ""))
    return [ShownStore(uri) for uri in uris if uri]


def find_store(stores: Sequence[ShownStore], key: str) -> ShownStore:
    """The store with a key.

    Raises:
        NotFound: if none of the stores has the key.
    """
    for shown in stores:
        if shown.key == key:
            return shown
    raise NotFound("This store is not among those that Airflow shows; see [probclass] stores.")


@lru_cache(maxsize=8)
def load_model(uri: str, ref: str) -> pc.Model:
    """The model of a version, cached: a content id always names the same model.

    Raises:
        StoreError: if the version is damaged.
        PluginError: if one of its estimators is not installed.
    """
    return pc.ModelStore(uri).load(ref)
