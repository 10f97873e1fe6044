"""Models and tables as Airflow assets, each with one URI.

The URI of a table is the URI that operators read. The URI of a model has the scheme ``probclass``,
the location of the store, the name of the model and the alias:
``probclass://file/lake/models/air@champion`` is in a local store,
``probclass://s3/bucket/models/air@champion`` in a store on S3.
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

_PATH = re.compile(r"/(?:.+/)?[A-Za-z0-9][A-Za-z0-9._-]*(?:@[A-Za-z0-9][A-Za-z0-9._-]*)?")


def model_asset(
    store: str, model: str, alias: str | None = "champion", *, name: str | None = None, **rest: Any
) -> Asset:
    """The asset of a model: the version that an alias names or, without an alias, all versions.

    Args:
        store: absolute path or URI of the model store.
        model: name of the model.
        alias: alias of the version, such as ``"champion"``.
        name: name of the asset; by default ``model@alias``.
        rest: further arguments of `Asset`, such as group and extra.

    Raises:
        ValueError: if store, model or alias does not make a valid URI.
    """
    ref = model if alias is None else f"{model}@{alias}"
    scheme, separator, path = store.removeprefix("file://").partition("://")
    if not separator:
        scheme, path = "file", scheme
        if not path.startswith("/"):
            raise ValueError(f"store {store!r} must be an absolute path or a URI.")
        path = path.lstrip("/")
    uri = sanitize_uri(urlsplit(f"{SCHEME}://{scheme}/{path}/{ref}")).geturl()
    return Asset(name=name or ref, uri=uri, **rest)


def table_asset(uri: str, *, name: str | None = None, **rest: Any) -> Asset:
    """The asset of a table; its URI has the scheme ``file`` for a path, and no prefix of a format.

    Args:
        uri: absolute path or URI of the table, as an operator's source or sink.
        name: name of the asset; by default its URI.
        rest: further arguments of `Asset`, such as group and extra.

    Raises:
        ValueError: if the path is not absolute.
    """
    scheme, separator, path = uri.partition("://")
    if not separator:
        if not uri.startswith("/"):
            raise ValueError(f"table {uri!r} must be an absolute path or a URI.")
        scheme, path = "file", posixpath.normpath(uri)
    uri = f"{scheme.rpartition('+')[2]}://{path}".rstrip("/")
    return Asset(name=name or uri, uri=uri, **rest)


def sanitize_uri(parts: SplitResult) -> SplitResult:
    """The normal form of a model's URI, for Airflow's registry of asset schemes.

    Raises:
        ValueError: if the URI does not name a model.
    """
    path = posixpath.normpath(f"/{parts.path.lstrip('/')}")
    if not _PATH.fullmatch(path):
        raise ValueError(
            f"{parts.geturl()!r} does not name a model; write "
            "probclass://file/<store>/<model>@<alias> or "
            "probclass://s3/<bucket>/<store>/<model>@<alias>."
        )
    return SplitResult(SCHEME, parts.netloc.lower() or "file", path, "", "")


def to_openlineage(asset: Asset, lineage_context: object) -> Dataset:
    """The OpenLineage dataset of a model's asset, the same as in the operators' lineage."""
    from openlineage.client.event_v2 import Dataset

    from probclass_airflow.lineage import model_name

    parts = urlsplit(asset.uri)
    folder, _, ref = parts.path.rpartition("/")
    store = folder or "/" if parts.netloc == "file" else f"{parts.netloc}:/{folder}"
    return Dataset(*model_name(store, ref))
