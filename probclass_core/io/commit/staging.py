"""Staging folders on a local disk: rows are written there, and put in place by a rename."""

from __future__ import annotations

import re
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from probclass_core.errors import TableError
from probclass_core.io.commit.swap import retired_path
from probclass_core.io.local_files import folder_leftover, remove_abandoned
from probclass_core.io.references import Leftover

STAGING_PREFIX = "_staging-"
CONTENT = "content"
"""Name of the staged rows in the folder, if they are a folder of files."""


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
    try:
        parent.mkdir(parents=True, exist_ok=True)
        remove_abandoned(_staging_folders(root))
        folder.mkdir()
    except OSError as error:
        raise TableError(f"cannot write to {parent}: {error.strerror}.") from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def staging_leftovers(root: Path) -> list[Leftover]:
    """List what writers of a table have staged next to it or in it, live writers included."""
    leftovers = []
    for folder in _staging_folders(root):
        with suppress(FileNotFoundError):  # its writer has just finished
            leftovers.append(folder_leftover(folder))
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
