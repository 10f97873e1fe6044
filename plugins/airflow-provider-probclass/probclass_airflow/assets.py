"""Models and tables as assets of Airflow, each under one URI.

A table has the URI it is read by. A model has one of the scheme ``probclass``: where the store
lies, then the model and its alias. ``probclass://file/lake/models/air@champion`` is in a local
store, ``probclass://s3/bucket/models/air@champion`` in one on S3.
"""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urlsplit

from airflow.sdk import Asset

if TYPE_CHECKING:
    from openlineage.client.event_v2 import Dataset

SCHEME = "probclass"

_PLACE = re.compile(r"/(?:.+/)?[A-Za-z0-9][A-Za-z0-9._-]*(?:@[A-Za-z0-9][A-Za-z0-9._-]*)?")


def model_asset(
    store: str, model: str, alias: str | None = "champion", *, name: str | None = None, **rest: Any
) -> Asset:
    """The asset of a model: what an alias names or, without an alias, all its versions.

    Args:
        store: absolute path or URI of the model store.
        model: its name.
        alias: such as ``"champion"``.
        name: of the asset; by default ``model@alias``.
        rest: as for `Asset`, such as group and extra.

    Raises:
        ValueError: store, model or alias cannot be such a place.
    """
    ref = model if alias is None else f"{model}@{alias}"
    scheme, separator, place = store.removeprefix("file://").partition("://")
    if not separator:
        scheme, place = "file", scheme
        if not place.startswith("/"):
            raise ValueError(f"store {store!r} must be an absolute path, or a URI.")
        place = place.lstrip("/")
    uri = sanitize_uri(urlsplit(f"{SCHEME}://{scheme}/{place}/{ref}")).geturl()
    return Asset(name=name or ref, uri=uri, **rest)


def table_asset(uri: str, *, name: str | None = None, **rest: Any) -> Asset:
    """The asset of a table: an absolute path as ``file://``, a URI without what names its format.

    Args:
        uri: as an operator's source or sink.
        name: of the asset; by default its URI.
        rest: as for `Asset`, such as group and extra.

    Raises:
        ValueError: the path is not absolute.
    """
    scheme, separator, place = uri.partition("://")
    if not separator:
        if not uri.startswith("/"):
            raise ValueError(f"table {uri!r} must be an absolute path, or a URI.")
        scheme, place = "file", posixpath.normpath(uri)
    uri = f"{scheme.rpartition('+')[2]}://{place}".rstrip("/")
    return Asset(name=name or uri, uri=uri, **rest)


def sanitize_uri(parts: SplitResult) -> SplitResult:
    """The one spelling of a model's URI, for Airflow's registry of asset schemes.

    Raises:
        ValueError: it names no model.
    """
    path = posixpath.normpath(f"/{parts.path.lstrip('/')}")
    if not _PLACE.fullmatch(path):
        raise ValueError(
            f"{parts.geturl()!r} names no model; write probclass://file/<store>/<model>@<alias>, "
            "or probclass://s3/<bucket>/<store>/<model>@<alias>."
        )
    return SplitResult(SCHEME, parts.netloc.lower() or "file", path, "", "")


def to_openlineage(asset: Asset, lineage_context: object) -> Dataset:
    """The dataset of a model's asset: the same that the operators tell of."""
    from openlineage.client.event_v2 import Dataset

    from probclass_airflow.lineage import model_name

    parts = urlsplit(asset.uri)
    folder, _, ref = parts.path.rpartition("/")
    store = folder or "/" if parts.netloc == "file" else f"{parts.netloc}:/{folder}"
    return Dataset(*model_name(store, ref))
