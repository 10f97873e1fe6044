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


def write_synced(path: Path, data: Buffer) -> None:
    """Make a new file that survives a power cut once its folder is synced."""
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def make_synced_folder(folder: Path) -> None:
    """Make a folder and its parents, if they do not exist, such that they survive a power cut."""
    if not folder.is_dir():
        make_synced_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        sync(folder.parent)


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


def remove_abandoned(folders: Iterable[Path]) -> None:
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
