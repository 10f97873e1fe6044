"""The stores that the pages show, and the look-up of a model by the parts of an address."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import probclass_core as pc
from probclass_airflow.links import store_key
from probclass_airflow.ui.formatting import hide_credentials


class NotFound(Exception):
    """An address names something that does not exist; the message is one line for the page."""


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

    def versions(self, name: str) -> list[pc.ModelVersion]:
        """The versions of a model, oldest first.

        Raises:
            NotFound: if the store has no such model.
            StoreError: if the store cannot be read, or a version is damaged.
        """
        if name not in self.store.models():
            raise NotFound(f"There is no model {name!r} in the store {self.title}.")
        return self.store.versions(name)

    def version(self, name: str, content_id: str) -> pc.ModelVersion:
        """A version by its full content id.

        Raises:
            NotFound: if there is no such model or version.
            StoreError: if the store cannot be read, or the version is damaged.
        """
        for version in self.versions(name):
            if version.id == content_id:
                return version
        raise NotFound(f"Model {name!r} has no version {content_id[:12]!r}.")

    def aliases(self, name: str) -> Mapping[str, pc.Alias]:
        """The aliases of a model by name."""
        return self.store.aliases(name)


def shown_stores() -> list[ShownStore]:
    """The stores of the option ``[probclass] stores``, or else the one of PROBCLASS_STORE."""
    from airflow.configuration import conf

    configured = conf.get("probclass", "stores", fallback=None)
    text = configured or os.environ.get("PROBCLASS_STORE", "")
    uris = dict.fromkeys(uri.strip() for uri in re.split(r"[,\n]", text))
    return [ShownStore(uri) for uri in uris if uri]


def find_store(key: str) -> ShownStore:
    """The shown store with a key.

    Raises:
        NotFound: if no shown store has the key.
    """
    for shown in shown_stores():
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
