"""Files of a table or a store at a path or URI, read and written atomically.

A class for each medium says how a file is put in place: here for a local disk and for fsspec, in
`object_stores` for S3, Google Cloud Storage and Azure.
"""

from __future__ import annotations

import errno
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from mmap import mmap
from pathlib import Path
from re import Pattern
from stat import S_ISREG
from typing import IO, Any, TypeAlias

import pyarrow as pa
from pyarrow.fs import FileInfo, FileSelector, FileSystem, FileType

from probclass_core.arrow.bundle import Buffer
from probclass_core.errors import ProbClassError, TableError, one_line
from probclass_core.io.failures import retry, translate_read_errors, translate_write_errors
from probclass_core.io.local_files import exclusive_lock, new_folder, sync, sync_names, write_synced
from probclass_core.io.references import Leftover

Content: TypeAlias = Buffer | mmap

_SCRATCH_SUFFIX = ".put"
"""End of the names of files that are removed at once; a killed process may leave one."""

_STAGING_PREFIX = ".staging-"
_LOCK_PREFIX = ".lock-"

_MOST_IN_MEMORY = 2**28
"""Bytes up to which a local file is read into memory; a larger one is mapped."""


@dataclass(frozen=True)
class Revision:
    """What a file contained at one time.

    Attributes:
        data: content of the file; None if it did not exist.
        version: what the object store calls this state: an ETag or a generation, or both.
        compared: whether a file is only replaced in this state, if the store has no versions.
    """

    data: Buffer | None
    version: Mapping[str, str] = field(default_factory=dict)
    compared: bool = True


@dataclass(frozen=True)
class Location:
    """A folder or file at a path or URI. Paths in its methods are relative to it.

    Attributes:
        filesystem: the file system.
        path: path in the file system.
        uri: path or URI for messages and provenance, without credentials.
        remote: whether every request goes over a network.
        error: class of the errors that methods raise.
    """

    filesystem: FileSystem = field(repr=False)
    path: str
    uri: str
    remote: bool
    error: type[ProbClassError] = field(default=TableError, repr=False)

    def absolute(self, path: str) -> str:
        """Return the path in the file system; of ``""``, the location itself."""
        return "/".join(part for part in (self.path, path) if part)

    def relative(self, path: str) -> str:
        """Return the relative path of a path in the file system."""
        return path.removeprefix(self.path).lstrip("/")

    def uri_of(self, path: str) -> str:
        """Return the path or URI of a path, for messages."""
        return f"{self.uri}/{path}" if path else self.uri

    def info(self, path: str) -> FileInfo:
        """Describe the file or folder at a path; its type is NotFound if there is none."""
        with translate_read_errors(self.uri_of(path), error=self.error):
            self._forget_listings()
            return retry(lambda: self.filesystem.get_file_info(self.absolute(path)))

    def identity(self, path: str) -> object:
        """Return what differs between two files of one name, size and time; None if unknown."""
        return None

    def state_key(self, path: str) -> str | None:
        """Return what differs between two states of a file besides its size and time, if any."""
        return None

    def is_file(self, path: str) -> bool:
        """Whether there is a file at a path."""
        return is_file(self.info(path))

    def entries(self, folder: str, *, recursive: bool = False) -> list[FileInfo]:
        """List the files and folders in a folder, by path; empty if there is no such folder."""
        selector = FileSelector(self.absolute(folder), recursive=recursive, allow_not_found=True)
        with translate_read_errors(self.uri_of(folder), error=self.error):
            self._forget_listings()
            try:
                entries = retry(lambda: self.filesystem.get_file_info(selector))
            except (FileNotFoundError, NotADirectoryError):
                # Arrow looks again for a folder that it did not find, which another process may
                # have made by then.
                return []
        return sorted(entries, key=lambda info: str(info.path))

    def names(self, folder: str) -> list[str]:
        """List the names of the files and folders in a folder that are not hidden, sorted."""
        names = (str(info.base_name) for info in self.entries(folder))
        return sorted(name for name in names if not name.startswith("."))

    def read(self, path: str, *, at_most: int | None = None) -> Buffer:
        """Read a file as a whole; FileNotFoundError if it does not exist.

        Args:
            path: path of the file.
            at_most: largest size of the file, in bytes; a larger one is an error.
        """
        with translate_read_errors(self.uri_of(path), pass_missing=True, error=self.error):
            return retry(partial(self._read, self.absolute(path), at_most))

    def write(self, path: str, data: Content) -> None:
        """Make or replace a file in one step: a reader sees the old file or the new one.

        Args:
            path: path of the file; its folders are made.
            data: content of the file.
        """
        with translate_write_errors(self.uri_of(path), error=self.error):
            retry(partial(self._put, self.absolute(path), data))

    def revision(self, path: str, *, content: bool = True) -> Revision:
        """Read what a file contains now, for `replace`.

        Args:
            path: path of the file.
            content: whether to read the content, without which only an object store can compare;
                others then replace what is there.

        Raises:
            NotSupportedError: if obstore, which writes to object stores, is not installed.
        """
        if not content:
            return Revision(None, compared=False)
        try:
            return Revision(self.read(path))
        except FileNotFoundError:
            return Revision(None)

    def replace(self, path: str, data: Content, seen: Revision) -> bool:
        """Make or replace a file if it is still as it was seen.

        On a local disk the path must be locked. With fsspec, another process may replace the file
        between comparing and writing.

        Args:
            path: path of the file; its folders are made.
            data: new content of the file.
            seen: what `revision` returned.

        Returns:
            False if another process replaced, made or removed the file first.
        """
        if seen.compared and self.revision(path).data != seen.data:
            return False
        self.write(path, data)
        return True

    def fetch(self, path: str, file: IO[bytes]) -> None:
        """Read a file into an open local one."""

        def copy() -> None:
            file.seek(0)
            with self.filesystem.open_input_file(self.absolute(path)) as stream:
                stream.download(file)

        retry(copy)

    def publish(self, folder: str, files: Mapping[str, Buffer]) -> None:
        """Make a folder of files, complete once the last file exists.

        Folders are named by their content, so an existing folder has the same files.
        """
        for name, data in files.items():
            self.write(f"{folder}/{name}", data)

    def remove(self, path: str) -> None:
        """Remove a file, if it exists."""
        with self._removing(path):
            self.filesystem.delete_file(self.absolute(path))

    def leftovers(self, files: Iterable[FileInfo]) -> list[Leftover]:
        """Describe files of killed writers; each can be removed."""
        return [
            Leftover(self.uri_of(path), info.size, info.mtime, partial(self.remove, path))
            for info in files
            for path in [self.relative(info.path)]
        ]

    def unnamed_files(
        self, ours: Pattern[str], named: Callable[[], Collection[str]]
    ) -> list[Leftover]:
        """Describe files of writers of ours that a log does not name, in any folder.

        Args:
            ours: pattern of their paths in the file system.
            named: returns the paths that the log names.
        """
        # Files first and the log after them, or a commit in between would look like a leftover.
        files = self.entries("", recursive=True)
        left = {info.path for info in files} - {*named()}
        return self.leftovers(
            info
            for info in files
            if is_file(info) and info.path in left and ours.fullmatch(info.path)
        )

    def remove_folder(self, folder: str) -> None:
        """Remove a folder with its files, if it exists."""
        with self._removing(folder):
            if self.info(folder).type != FileType.NotFound:
                self.filesystem.delete_dir(self.absolute(folder))

    @contextmanager
    def _removing(self, path: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            return
        except OSError as cause:
            raise self.error(f"cannot remove {self.uri_of(path)}: {one_line(cause)}.") from cause

    def lock(self, path: str) -> AbstractContextManager[None]:
        """Exclude other processes that lock the same path; only a local disk has locks."""
        return nullcontext()

    def _forget_listings(self) -> None:
        """Forget folders that were listed before, which other processes may have changed."""

    # These two take paths in the file system.

    def _read(self, path: str, at_most: int | None) -> Buffer:
        with self.filesystem.open_input_file(path) as file:
            _check_size(path, file.size(), at_most)
            return bytes(file.read())

    def _put(self, path: str, data: Content) -> None:
        """Make or replace a file in one step, with its folders; not if a location is only read."""
        raise NotImplementedError


@dataclass(frozen=True)
class LocalLocation(Location):
    """A local path: files are staged next to the target, synced, and renamed into place."""

    def _read(self, path: str, at_most: int | None) -> Buffer:
        status = Path(path).stat()
        if not S_ISREG(status.st_mode):  # opening a named pipe would wait for its writer
            raise OSError(errno.EINVAL, "it is not a regular file", path)
        _check_size(path, status.st_size, at_most)
        # A mapped file that is cut off while it is in use kills the process.
        if status.st_size <= _MOST_IN_MEMORY:
            return Path(path).read_bytes()
        with pa.memory_map(path) as mapped:
            return mapped.read_buffer()

    def identity(self, path: str) -> object:
        """Inode of a file, its size, and when it last changed, also by a rename."""
        with suppress(OSError):
            status = Path(self.absolute(path)).stat()
            return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
        return None

    def write(self, path: str, data: Content) -> None:
        with self._staging(path) as (target, staging):
            write_synced(staging / target.name, data)
            (staging / target.name).replace(target)
            sync_names(target)

    def publish(self, folder: str, files: Mapping[str, Buffer]) -> None:
        with self._staging(folder) as (target, staging):
            for name, data in files.items():
                write_synced(staging / name, data)
            sync(staging)
            try:
                staging.rename(target)
            except OSError as error:
                # Another process has published the same content first.
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
                if not (target / list(files)[-1]).is_file():
                    raise self.error(
                        f"{target} exists but is incomplete; remove it and save again."
                    ) from error
            sync_names(target)

    @contextmanager
    def _staging(self, path: str) -> Iterator[tuple[Path, Path]]:
        """Yield the target and a hidden folder next to it, removed at the end unless renamed."""
        target = Path(self.absolute(path))
        with translate_write_errors(str(target), error=self.error):
            staging = target.with_name(f"{_STAGING_PREFIX}{uuid.uuid4().hex}")
            with new_folder(staging, target.parent.glob(f"{_STAGING_PREFIX}*")):
                yield target, staging

    @contextmanager
    def lock(self, path: str) -> Iterator[None]:
        target = Path(self.absolute(path))
        with ExitStack() as stack:
            with translate_write_errors(str(target), error=self.error):
                target.parent.mkdir(parents=True, exist_ok=True)
                lock = target.with_name(f"{_LOCK_PREFIX}{target.name}")
                stack.enter_context(exclusive_lock(lock))
            yield


@dataclass(frozen=True)
class FsspecLocation(Location):
    """Files of a file system of fsspec, which reads and writes them whole."""

    @property
    def _fsspec(self) -> Any:
        return self.filesystem.handler.fs

    def state_key(self, path: str) -> str | None:
        with suppress(FileNotFoundError):  # fsspec gives pyarrow no times
            return str(self._fsspec.ukey(self.absolute(path)))
        return None

    def _forget_listings(self) -> None:
        self._fsspec.invalidate_cache()

    def _read(self, path: str, at_most: int | None) -> Buffer:
        if at_most is not None:
            _check_size(path, self._fsspec.size(path), at_most)
        return bytes(self._fsspec.cat_file(path))

    def _put(self, path: str, data: Content) -> None:
        folder = path.rpartition("/")[0]
        self.filesystem.create_dir(folder, recursive=True)
        # Some file systems show a file before it is complete.
        scratch = f"{folder}/{scratch_name()}"
        try:
            self._fsspec.pipe_file(scratch, bytes(data))
            self.filesystem.move(scratch, path)
        finally:
            with suppress(OSError):
                self.filesystem.delete_file(scratch)


def scratch_name() -> str:
    """Return a name for a hidden file that is removed at once."""
    return f".{uuid.uuid4().hex}{_SCRATCH_SUFFIX}"


def is_scratch(info: FileInfo) -> bool:
    """Whether a killed writer left this file, which has such a name."""
    name = str(info.base_name)
    return name.startswith(".") and name.endswith(_SCRATCH_SUFFIX)


def _check_size(path: str, size: int | None, at_most: int | None) -> None:
    if at_most is not None and size is not None and size > at_most:
        reason = f"it has {size:,} bytes, but at most {at_most:,} are expected"
        raise OSError(errno.EFBIG, reason, path)


def is_file(info: FileInfo) -> bool:
    """Whether this is an existing file, not a folder."""
    return bool(info.type == FileType.File)


def file_state(location: Location, info: FileInfo) -> str:
    """Name, size and time of change of a file: they differ between two states of it."""
    name = location.relative(info.path)
    state = f"{name or info.base_name}\0{info.size}\0{info.mtime_ns}"
    key = location.state_key(name)  # fsspec gives pyarrow no times
    return state if key is None else f"{state}\0{key}"


@dataclass(frozen=True)
class FileVersion:
    """A file in the state in which it was planned; it pickles.

    Attributes:
        location: location of its table.
        path: path of the file, relative to it.
        state: its state; see `file_state`.
    """

    location: Location
    path: str
    state: str

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Read within this context: all that is read belongs to this version.

        Size and time are those of the plan. In addition, what is read has one ETag, or one inode
        on a local disk: S3 and Azure report times in seconds, and two files that are renamed to
        and fro keep theirs.

        Raises:
            TableError: if the file was replaced, changed or removed since the plan, whatever error
                reading it raised then.
        """
        identity = self.location.identity(self.path)
        try:
            yield
        except Exception as error:
            self._check(identity, error)
            raise
        self._check(identity)

    def _check(self, identity: object, cause: Exception | None = None) -> None:
        """Check that the file has this identity, and the state of the plan."""
        location, path = self.location, self.path
        # An ETag does not cover the time of the file.
        is_same = location.identity(path) == identity
        if not is_same or file_state(location, location.info(path)) != self.state:
            uri = location.uri_of(path)
            raise TableError(f"{uri} has changed while it was being read; run it again.") from cause
