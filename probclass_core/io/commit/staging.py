"""Staging folders on a local disk: rows are written there, and put in place by a rename."""

from __future__ import annotations

import ctypes
import errno
import os
import re
import sys
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from probclass_core.errors import TableError
from probclass_core.io.local_files import folder_leftover, new_folder
from probclass_core.io.references import Leftover, TableRef

STAGING_PREFIX = "_staging-"
CONTENT = "content"
"""Name of the staged rows in the folder, if they are a folder of files."""

_AT_FDCWD = -100

_RENAME_EXCHANGE = 2

_RENAME_SWAP = 2

_UNSUPPORTED = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EPERM)


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
