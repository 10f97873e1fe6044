"""The one atomic step of a commit: a directory takes another's place.

Where the system can exchange two names in one step (Linux ``renameat2``, macOS ``renamex_np``) a
reader finds the old directory or the new one at every instant. Elsewhere two renames follow each
other, and a reader may for that moment find none.
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
_CANNOT = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EPERM)


def put_in_place(staged: Path, target: Path) -> None:
    """Move ``staged`` to ``target``; both lie on one file system.

    The old content of ``target`` lies in place of ``staged`` afterwards, or at `retired_name`: it
    goes with the directory that both are in.
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
            continue  # the target went away in between: rename again
        except OSError as error:
            if error.errno not in _CANNOT:
                raise
        target.rename(retired_name(staged))
        staged.rename(target)
        return


def retired_name(staged: Path) -> Path:
    """Where the old content goes while no name can be exchanged."""
    return staged.with_name(f"{staged.name}.old")


def _exchange(one: Path, other: Path) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    names = os.fsencode(one), os.fsencode(other)
    if sys.platform == "linux" and hasattr(library, "renameat2"):
        code = library.renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE)
    elif sys.platform == "darwin" and hasattr(library, "renamex_np"):
        code = library.renamex_np(names[0], names[1], _RENAME_SWAP)
    else:
        raise OSError(errno.ENOSYS, "no system call exchanges two names here")
    if code:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(one))
