"""Changes of a local disk: staged, synced against power cuts, and put in place by a rename."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import re
import shutil
import sys
import uuid
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from mmap import mmap
from pathlib import Path
from stat import S_ISREG

from probclass_core.arrow.bundle import Buffer
from probclass_core.errors import TableError, one_line
from probclass_core.io.references import Leftover, TableRef

STAGING_PREFIX = "_staging-"
CONTENT = "content"
"""Name of the staged rows in the folder, if they are a folder of files."""

_AT_FDCWD = -100

_RENAME_EXCHANGE = 2

_RENAME_SWAP = 2

_UNSUPPORTED = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EPERM)


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


@contextmanager
def staging_folder(root: Path, parent: Path | None = None) -> Iterator[Path]:
    """A new folder, which is removed in the end with what is in it.

    Args:
        root: directory or file of the table.
        parent: folder to make it in, by default that of the table.

    Raises:
        TableError: if it cannot be made.
    """
    parent = parent or root.parent
    folder = parent / f"{STAGING_PREFIX}{root.name}-{uuid.uuid4().hex}"
    with ExitStack() as stack:
        try:
            stack.enter_context(new_folder(folder, _staging_folders(root)))
        except OSError as error:
            raise TableError(f"cannot write to {parent}: {error.strerror}.") from error
        yield folder


def table_leftovers(ref: TableRef) -> list[Leftover]:
    """List what writers of a table have staged next to it or in it, live writers included.

    Args:
        ref: address of the table, a local path.

    Raises:
        TableError: if there is neither a table nor a leftover.
    """
    leftovers = []
    for folder in _staging_folders(Path(ref.uri)):
        with suppress(FileNotFoundError):  # its writer has just finished
            leftovers.append(folder_leftover(folder))
    if not leftovers and not Path(ref.uri).exists():
        raise TableError(f"{ref.uri} does not exist.")
    return leftovers


def _staging_folders(root: Path) -> Iterator[Path]:
    """Find the staging folders of a table that no reader needs.

    A folder with a retired partition is left out: its writer was killed between the two renames of
    a file system that cannot exchange names, and the folder has the only copy.
    """
    root = root.resolve()
    name = re.compile(rf"{STAGING_PREFIX}{re.escape(root.name)}-[0-9a-f]{{32}}")
    for parent in (root.parent, root):
        for folder in sorted(parent.glob(f"{STAGING_PREFIX}*")):
            content = folder / CONTENT
            retired = content.exists() and retired_path(content).exists()
            if name.fullmatch(folder.name) and folder.is_dir() and not retired:
                yield folder


def put_in_place(staged: Path, target: Path) -> None:
    """Move ``staged`` to ``target``, replacing it; both must be on the same file system.

    If the system can exchange two names in one step (Linux ``renameat2``, macOS ``renamex_np``), a
    reader finds the old directory or the new one at every instant. Elsewhere the replacement takes
    two renames, and a reader may find no directory between them.

    The old content of ``target`` is at ``staged`` afterwards, or at `retired_path`; it is removed
    with the directory that contains both.
    """
    while True:
        try:
            staged.rename(target)
            return
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        try:
            _exchange(staged, target)
            return
        except FileNotFoundError:
            continue  # the target was removed in between: rename again
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
        target.rename(retired_path(staged))
        staged.rename(target)
        return


def retired_path(staged: Path) -> Path:
    """Return where the old content goes if the system cannot exchange two names."""
    return staged.with_name(f"{staged.name}.old")


def _exchange(first: Path, second: Path) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    names = os.fsencode(first), os.fsencode(second)
    if sys.platform == "linux" and hasattr(library, "renameat2"):
        code = library.renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE)
    elif sys.platform == "darwin" and hasattr(library, "renamex_np"):
        code = library.renamex_np(names[0], names[1], _RENAME_SWAP)
    else:
        raise OSError(errno.ENOSYS, "this system cannot exchange two names in one step")
    if code:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(first))
