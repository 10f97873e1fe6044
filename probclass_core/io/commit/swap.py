"""The atomic step of a commit on a local disk: one directory replaces another.

If the system can exchange two names in one step (Linux ``renameat2``, macOS ``renamex_np``), a
reader finds the old directory or the new one at every instant. Elsewhere the replacement takes two
renames, and a reader may find no directory between them.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from pathlib import Path

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_RENAME_SWAP = 2
_UNSUPPORTED = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EPERM)


def put_in_place(staged: Path, target: Path) -> None:
    """Move ``staged`` to ``target``, replacing it; both must be on the same file system.

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
