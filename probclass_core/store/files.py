"""The files of a model store, by their paths relative to the store."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from probclass_core.arrow.bundle import Buffer
from probclass_core.errors import StoreError, TableError
from probclass_core.io.filesystem import ARROW_SCHEMES, Location, is_file, open_location
from probclass_core.io.references import TableRef


class StoreFiles:
    """A `Location` addressed by relative paths with ``/`` between parts; it raises StoreError.

    Args:
        location: folder of the store.
    """

    def __init__(self, location: Location) -> None:
        self._location = location

    def uri(self, path: str) -> str:
        """Return the path or URI of a path, for messages."""
        return self._location.uri_of(self._path(path))

    def names(self, folder: str) -> list[str]:
        """List the visible files and folders directly in a folder; empty if it does not exist."""
        names = (str(info.base_name) for info in self._location.entries(self._path(folder)))
        return sorted(name for name in names if not name.startswith("."))

    def exists(self, path: str) -> bool:
        """Whether there is a file at a path."""
        return is_file(self._location.info(self._path(path)))

    def read(self, path: str) -> Buffer:
        """Read a file; FileNotFoundError if it does not exist."""
        return self._location.read(self._path(path))

    def write(self, path: str, data: Buffer, *, durable: bool = True) -> None:
        """Make or replace a file in one step; see `Location.write`."""
        self._location.make_listed(self._path(path).rpartition("/")[0])
        self._location.write(self._path(path), data, durable=durable)

    def remove(self, path: str) -> None:
        """Remove a file, if it exists."""
        self._location.remove(self._path(path))

    def lock(self, path: str) -> AbstractContextManager[None]:
        """Exclude other processes that lock the same path; see `Location.lock`."""
        return self._location.lock(self._path(path))

    def publish(self, folder: str, files: Mapping[str, Buffer]) -> None:
        """Make a folder of files, complete once the last one exists; see `Location.publish`."""
        self._location.make_listed(self._path(folder))
        self._location.publish(self._path(folder), files)

    def _path(self, path: str) -> str:
        return f"{self._location.path}/{path}".rstrip("/")


def open_files(uri: str, options: Mapping[str, Any] | None = None) -> StoreFiles:
    """Open the files of the store at a path or URI.

    Args:
        uri: local path, ``file://`` URI, or URI of another file system.
        options: arguments of the file system, as in a `TableRef`; a local path takes none.

    Raises:
        StoreError: if the scheme is unknown, or the library for it is not installed.
    """
    scheme, is_uri, _ = uri.partition("://")
    if not is_uri:
        uri = str(Path(uri).absolute())
    elif scheme == "file":
        parts = urlsplit(uri)
        if parts.netloc not in ("", "localhost"):
            raise StoreError(
                f"{uri!r} names the host {parts.netloc!r}; a local path is 'file:///…'."
            )
        uri = str(Path(url2pathname(parts.path)).absolute())
    elif scheme in ARROW_SCHEMES:
        try:
            ref = TableRef(uri, options=options or {})
        except TableError as error:
            raise StoreError(str(error)) from error
        uri, options = ref.uri, ref.options
    return StoreFiles(open_location(uri, options, error=StoreError))
