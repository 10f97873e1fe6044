"""Durable changes of a local disk: synced files and folders, locks, abandoned staging folders."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from mmap import mmap
from pathlib import Path
from stat import S_ISREG

from probclass_core.arrow.bundle import Buffer
from probclass_core.errors import TableError, one_line
from probclass_core.io.references import Leftover


def sync(path: Path) -> None:
    """Make a file, or the names in a folder, survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_synced(path: Path, data: Buffer | mmap) -> None:
    """Make a new file that survives a power cut once its folder is synced."""
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync_names(*paths: Path) -> None:
    """Make the names of files and folders survive a power cut, and those of all folders above.

    A folder above may be new, or a killed process may have made it, so all are synced: those that
    have not changed cost little. It ends at the first folder that this user may not write, or that
    is a mount. A path that was removed stays removed.
    """
    folders: set[Path] = set()
    for path in paths:
        for folder in path.absolute().parents:
            if folder in folders or (folder.is_dir() and not os.access(folder, os.W_OK)):
                break
            folders.add(folder)
            if folder.is_mount():
                break
    for folder in sorted(folders, key=lambda folder: -len(folder.parts)):
        with suppress(FileNotFoundError):
            sync(folder)


@contextmanager
def exclusive_lock(lock: Path) -> Iterator[None]:
    """Wait for a lock file, and hold it; the system releases it if this process is killed.

    On a file system without locks this does nothing.
    """
    descriptor = _locked(lock)
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
        os.close(descriptor)


def _locked(lock: Path) -> int:
    """Return the descriptor of a lock file that is locked until it is closed."""
    while True:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), lock.stat()):
                    return descriptor
        except OSError as error:
            if error.errno in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
                return descriptor
            os.close(descriptor)
            raise
        os.close(descriptor)  # its last owner has removed the file in the meantime


def folder_leftover(folder: Path) -> Leftover:
    """Describe a staging folder as a leftover, touched when its newest content was.

    Raises:
        FileNotFoundError: if it is removed at the same time.
    """
    statuses = [path.lstat() for path in (folder, *folder.rglob("*"))]
    return Leftover(
        path=str(folder),
        bytes=sum(status.st_size for status in statuses if S_ISREG(status.st_mode)),
        touched=datetime.fromtimestamp(max(status.st_mtime for status in statuses), UTC),
        remove=partial(_remove_folder, folder),
    )


@contextmanager
def new_folder(folder: Path, earlier: Iterable[Path]) -> Iterator[None]:
    """Make a folder with those above it, and remove it in the end with what is in it.

    Args:
        folder: path of the folder.
        earlier: folders of other writers; those of killed ones are removed.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(earlier)
    folder.mkdir()
    try:
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _remove_abandoned(folders: Iterable[Path]) -> None:
    """Remove staging folders that are too old to belong to a live writer."""
    for folder in folders:
        # It may be removed at the same time, or belong to another user.
        with suppress(OSError, TableError):
            leftover = folder_leftover(folder)
            if leftover.abandoned():
                leftover.remove()


def _remove_folder(folder: Path) -> None:
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        return
    except OSError as error:
        raise TableError(f"cannot remove {folder}: {error.strerror or one_line(error)}.") from error
