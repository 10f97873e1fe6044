"""The few things a store asks of a file system, for a local folder and for what fsspec reaches.

Both make the same promise: a reader meets a written file, or a published folder, whole or not
at all, whatever happens to the writer. Paths are relative to the store, with ``/`` between parts.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pyarrow as pa

from probclass_core.arrow.bundle import Buffer
from probclass_core.errors import StoreError, TableError, one_line
from probclass_core.io.filesystem import ARROW_SCHEMES, storage_of
from probclass_core.io.references import ABANDONED, TableRef

_STAGING = ".staging-"
_LOCK = ".lock-"


class Files(Protocol):
    """What a store needs; every method raises StoreError where the file system refuses."""

    def place(self, path: str) -> str:
        """The whole path or URI, for messages."""

    def names(self, folder: str) -> list[str]:
        """Files and folders directly in ``folder``, sorted; none where there is no such folder."""

    def exists(self, path: str) -> bool:
        """Whether there is a file at ``path``."""

    def read(self, path: str) -> Buffer:
        """The bytes of a file; FileNotFoundError where there is none."""

    def write(self, path: str, data: Buffer, *, lasting: bool = True) -> None:
        """Make or replace one file in one step; ``lasting`` ones outlive a power cut."""

    def remove(self, path: str) -> None:
        """Remove a file, if it is there."""

    def alone(self, path: str) -> AbstractContextManager[None]:
        """One at a time, whoever looks at a file and then replaces it; where that can be had."""

    def publish(self, folder: str, files: Mapping[str, Buffer]) -> None:
        """Make ``folder`` of ``files``; it counts as there once the last of them is.

        Where it is there already it is left alone: folders are named by their content.
        """


def open_files(uri: str, options: Mapping[str, Any] | None = None) -> Files:
    """The file system that ``uri`` names: a path or ``file://`` is local, the rest is fsspec's.

    Args:
        uri: of the store.
        options: of the file system, as in a `TableRef`; a local folder takes none.

    Raises:
        StoreError: the URI's scheme is unknown, or what it needs is not installed.
    """
    if "://" in uri and not uri.startswith("file://"):
        return FsspecFiles(uri, options or {})
    if options:
        raise StoreError(f"{uri}: a store on a local disk takes no options.")
    if "://" not in uri:
        return LocalFiles(Path(uri))
    parts = urlsplit(uri)
    if parts.netloc not in ("", "localhost"):
        raise StoreError(f"{uri!r} names the host {parts.netloc!r}; a local path is 'file:///…'.")
    return LocalFiles(Path(url2pathname(parts.path)))


class LocalFiles:
    """A local folder: staged beside the target, synced to disk, put in place by one rename."""

    def __init__(self, root: Path) -> None:
        self._root = root.absolute()

    def place(self, path: str) -> str:
        return f"{self._root}{os.sep}{path}" if path else str(self._root)

    def names(self, folder: str) -> list[str]:
        path = self._root / folder
        with _refusals("list", str(path)):
            found = [entry.name for entry in path.iterdir()] if path.is_dir() else []
        return sorted(name for name in found if not name.startswith("."))

    def exists(self, path: str) -> bool:
        with _refusals("look at", self.place(path)):
            return (self._root / path).is_file()

    def read(self, path: str) -> Buffer:
        place = self.place(path)
        with _refusals("read", place), pa.memory_map(place) as file:
            return file.read_buffer()

    def write(self, path: str, data: Buffer, *, lasting: bool = True) -> None:
        target = self._root / path
        with _refusals("write", str(target)), _staging(target.parent) as staging:
            if lasting:
                _write_synced(staging / target.name, data)
            else:
                (staging / target.name).write_bytes(data)
            (staging / target.name).replace(target)
            if lasting:
                _sync(target.parent)

    def remove(self, path: str) -> None:
        with _refusals("remove", self.place(path)):
            (self._root / path).unlink(missing_ok=True)

    @contextmanager
    def alone(self, path: str) -> Iterator[None]:
        target = self._root / path
        with _refusals("lock", str(target)):
            _make_folder(target.parent)
            lock = target.with_name(f"{_LOCK}{target.name}")
            held = _held(lock)
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)
            os.close(held)

    def publish(self, folder: str, files: Mapping[str, Buffer]) -> None:
        target = self._root / folder
        with _refusals("write", str(target)), _staging(target.parent) as staging:
            for name, data in files.items():
                _write_synced(staging / name, data)
            _sync(staging)
            try:
                staging.rename(target)
            except OSError as error:
                # Another saver of the same content was first.
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
                if not (target / list(files)[-1]).is_file():
                    raise StoreError(
                        f"{target} is there already but incomplete; remove it and save again."
                    ) from error
            _sync(target.parent)


class FsspecFiles:
    """Any other URI, through fsspec: a file is one PUT, a folder is there with its last file.

    What pyarrow opens for a table it opens here, too, and fsspec wraps it.
    """

    def __init__(self, uri: str, options: Mapping[str, Any]) -> None:
        # A password in a URI has no place in a message.
        self._shown = re.sub(r"://[^/@:]*:[^/@]*@", "://***@", uri).rstrip("/")
        try:
            from fsspec.core import url_to_fs
            from fsspec.implementations.arrow import ArrowFSWrapper
        except ImportError as error:
            raise StoreError(
                f"{self._shown!r} needs fsspec: pip install 'probclass[fsspec]'."
            ) from error
        try:
            if uri.partition("://")[0] in ARROW_SCHEMES:
                storage = storage_of(TableRef(uri, options=options))
                self._fs, self._root = ArrowFSWrapper(storage.filesystem), storage.path
                self._put = storage.put
                self._shown = storage.uri
            else:
                self._fs, self._root = url_to_fs(uri, **options)
                self._put = self._fs.pipe_file
        except TableError as error:
            raise StoreError(str(error)) from error
        except (ImportError, TypeError, ValueError) as error:
            reason = one_line(error)
            raise StoreError(f"cannot open the store at {self._shown!r}: {reason}.") from error

    def place(self, path: str) -> str:
        return f"{self._shown}/{path}"

    def names(self, folder: str) -> list[str]:
        with _refusals("list", self.place(folder)):
            # A listing from before another process wrote would hide what it wrote.
            self._fs.invalidate_cache()
            try:
                found = self._fs.ls(self._path(folder), detail=False)
            except FileNotFoundError:
                return []
        names = (path.rstrip("/").rsplit("/", 1)[-1] for path in found)
        return sorted(name for name in names if not name.startswith("."))

    def exists(self, path: str) -> bool:
        with _refusals("look at", self.place(path)):
            self._fs.invalidate_cache()
            return bool(self._fs.isfile(self._path(path)))

    def read(self, path: str) -> Buffer:
        with _refusals("read", self.place(path)):
            return pa.py_buffer(self._fs.cat_file(self._path(path)))

    def write(self, path: str, data: Buffer, *, lasting: bool = True) -> None:
        with _refusals("write", self.place(path)):
            self._fs.makedirs(self._path(path).rsplit("/", 1)[0], exist_ok=True)
            self._put(self._path(path), bytes(data))

    def remove(self, path: str) -> None:
        with _refusals("remove", self.place(path)), suppress(FileNotFoundError):
            self._fs.rm_file(self._path(path))

    def alone(self, path: str) -> AbstractContextManager[None]:
        return nullcontext()  # What fsspec reaches has no locks.

    def publish(self, folder: str, files: Mapping[str, Buffer]) -> None:
        for name, data in files.items():
            self.write(f"{folder}/{name}", data)

    def _path(self, path: str) -> str:
        return f"{self._root.rstrip('/')}/{path}".rstrip("/")


@contextmanager
def _refusals(verb: str, place: str) -> Iterator[None]:
    """Turn what a file system refuses into one line; what is not there is the caller's to tell."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        reason = error.strerror or one_line(error)
        raise StoreError(f"cannot {verb} {place}: {reason}.") from error


@contextmanager
def _staging(parent: Path) -> Iterator[Path]:
    """A new folder in ``parent`` that readers ignore, gone afterwards unless it was renamed."""
    _make_folder(parent)
    _sweep(parent)
    staging = parent / f"{_STAGING}{uuid.uuid4().hex}"
    staging.mkdir()
    try:
        yield staging
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _sweep(parent: Path) -> None:
    """Remove what killed writers left behind, once it is too old to be anyone's work."""
    for staging in parent.glob(f"{_STAGING}*"):
        try:
            abandoned = time.time() - staging.stat().st_mtime > ABANDONED.total_seconds()
        except FileNotFoundError:
            continue
        if abandoned:
            shutil.rmtree(staging, ignore_errors=True)


def _held(lock: Path) -> int:
    """The descriptor of a lock file, held until it is closed: by the system if we are killed."""
    while True:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), lock.stat()):
                    return descriptor
        except OSError as error:
            if error.errno in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
                return descriptor  # A file system without locks.
            os.close(descriptor)
            raise
        os.close(descriptor)  # Its last holder has removed it since.


def _make_folder(folder: Path) -> None:
    if not folder.is_dir():
        _make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        _sync(folder.parent)


def _write_synced(path: Path, data: Buffer) -> None:
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    """Make the names in a folder durable, where the system can: a rename alone may be lost."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
