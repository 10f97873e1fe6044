"""Which stores the page shows, and how one of their models is found by what an address says."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import probclass_core as pc
from probclass_airflow.links import store_key
from probclass_airflow.ui.shown import place


class NotThere(Exception):
    """What was asked for does not exist; the message says so in one line."""


@dataclass(frozen=True)
class Shelf:
    """One store of those that are shown.

    Attributes:
        uri: as configured.
        key: what stands for it in addresses.
    """

    uri: str
    key: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", store_key(self.uri))

    @property
    def title(self) -> str:
        """Where it is, without secrets."""
        return place(self.uri)

    @property
    def store(self) -> pc.ModelStore:
        """The store itself.

        Raises:
            StoreError: the URI names no file system that is installed.
        """
        return pc.ModelStore(self.uri)

    def versions(self, name: str) -> list[pc.ModelVersion]:
        """The versions of a model, oldest first.

        Raises:
            NotThere: there is no such model.
            StoreError: the store cannot be read, or a version is damaged.
        """
        if name not in self.store.models():
            raise NotThere(f"There is no model {name!r} in the store {self.title}.")
        return self.store.versions(name)

    def version(self, name: str, content_id: str) -> pc.ModelVersion:
        """One version, by its whole content id.

        Raises:
            NotThere: there is no such model or version.
            StoreError: the store cannot be read, or the version is damaged.
        """
        for version in self.versions(name):
            if version.id == content_id:
                return version
        raise NotThere(f"Model {name!r} has no version {content_id[:12]!r}.")

    def aliases(self, name: str) -> Mapping[str, pc.Alias]:
        """The aliases of a model by name."""
        return self.store.aliases(name)


def shelves() -> list[Shelf]:
    """The stores of ``[probclass] stores``, by default the one that PROBCLASS_STORE names."""
    from airflow.configuration import conf

    configured = conf.get("probclass", "stores", fallback=None)
    text = configured or os.environ.get("PROBCLASS_STORE", "")
    return [Shelf(uri.strip()) for uri in dict.fromkeys(re.split(r"[,\n]", text)) if uri.strip()]


def shelf(key: str) -> Shelf:
    """The store that an address means.

    Raises:
        NotThere: none of those that are shown.
    """
    for each in shelves():
        if each.key == key:
            return each
    raise NotThere("This store is not among those that Airflow shows; see [probclass] stores.")


@lru_cache(maxsize=8)
def loaded(uri: str, ref: str) -> pc.Model:
    """The model of a version, verified when it is first loaded; a content id never changes.

    Raises:
        StoreError: it is damaged.
        PluginError: an estimator of it is not installed here.
    """
    return pc.ModelStore(uri).load(ref)
