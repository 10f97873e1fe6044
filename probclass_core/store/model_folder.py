"""A model in a folder of its own, outside of a store: the files of one version."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from probclass_core.arrow.bundle import TABLES, Bundle
from probclass_core.errors import StoreError, one_of, shown
from probclass_core.io.filesystem import Location
from probclass_core.model.model import Model
from probclass_core.model.stored import model_from_bundle
from probclass_core.store.model_store import ModelStore, open_store_location
from probclass_core.store.records import MANIFEST, encode_json, read_json, timestamp


def save(
    model: Model, path: str | os.PathLike[str], *, options: Mapping[str, Any] | None = None
) -> None:
    """Write a model to a folder of its own, in one step; `load` reads it.

    The files are Arrow tables and JSON with their checksum. A `ModelStore` keeps versions.

    Args:
        model: model to save.
        path: path or URI of the folder. It must not exist, unless it has this model already.
        options: arguments of the file system of a URI, as in a `TableRef`.

    Raises:
        StoreError: if the path contains anything else, or the file system refuses.
    """
    files, folder = _folder_in_parent(path, options)
    bundle = model.to_bundle()
    if not (files.entries(folder) or files.is_file(folder)):
        manifest = {**bundle.manifest(), "created": timestamp()}
        files.publish(folder, {TABLES: bundle.data, MANIFEST: encode_json(manifest)})
    _check_equal(files, folder, bundle)  # another process may have been faster


def load(path: str | os.PathLike[str], *, options: Mapping[str, Any] | None = None) -> Model:
    """Load a model that `Model.save` wrote. No code is executed, and nothing is unpickled.

    The tables are first checked against their SHA-256; a local file above 256 MiB is memory-mapped.

    Args:
        path: path or URI of the folder; the folder of a version in a store is one as well.
        options: arguments of the file system of a URI, as in a `TableRef`.

    Raises:
        StoreError: if there is no model, it is damaged, or it was written by a newer release.
        PluginError: if an estimator of the model is not installed.
    """
    files = open_store_location(_path_text(path), options)
    where = files.uri_of("")
    if files.is_file(""):
        raise StoreError(f"{where}: this is a file; give the folder that save wrote.")
    manifest = read_json(files, MANIFEST, "restore it from a copy")
    if manifest is None:
        raise StoreError(f"{where}: {_what_is_there(files, path, options)}")
    return model_from_bundle(Bundle.from_files(manifest, files.read, where=where), where=where)


def _what_is_there(
    files: Location, path: str | os.PathLike[str], options: Mapping[str, Any] | None
) -> str:
    if models := ModelStore(path, options=options).models():
        return (
            f"this is a model store with the models {one_of(models)}; load one by "
            f"ModelStore({os.fspath(path)!r}).load({models[0]!r})."
        )
    if files.entries(""):
        return f"the folder has no {MANIFEST}, so it is not a saved model; check the path."
    return "there is no such folder; check the path, or save a model first."


def _check_equal(files: Location, folder: str, bundle: Bundle) -> None:
    """Refuse a path at which there is something else than this model."""
    manifest: Mapping[str, Any] | None = None
    with suppress(StoreError):
        manifest = read_json(files, f"{folder}/{MANIFEST}", "remove it")
    if manifest is None or manifest.get("content_id") != bundle.content_id:
        found = "another model" if manifest else "something else"
        raise StoreError(
            f"{files.uri_of(folder)} exists and contains {found}; remove it or choose another "
            "path. A ModelStore keeps all versions of a model under one name."
        )


def _folder_in_parent(
    path: str | os.PathLike[str], options: Mapping[str, Any] | None
) -> tuple[Location, str]:
    """The parent folder, in which a folder is published in one step, and the folder's name."""
    text = _path_text(path)
    text = text.rstrip("/") if "://" in text else os.path.abspath(text)  # noqa: PTH100
    parent, _, name = text.rpartition("/")
    if not name:
        raise StoreError(
            f"{os.fspath(path)!r} is not the path of a folder; name a folder for the model."
        )
    return open_store_location(parent or "/", options), name


def _path_text(path: object) -> str:
    if not isinstance(path, (str, os.PathLike)) or not os.fspath(path):
        raise StoreError(f"expected the path of a folder, got {shown(path)}.")
    return str(os.fspath(path))
