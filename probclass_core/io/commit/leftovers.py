"""Data files that killed writers left: they have our file names, and no commit names them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import partial

from pyarrow.fs import FileInfo, FileSelector, FileSystem, FileType

from probclass_core.io.filesystem import remove_file
from probclass_core.io.references import Leftover

DATA_FILE = r"(?:.*/)?part-[0-9a-f]{32}\.parquet"
"""Regular expression for the paths of data files that `LogSink` writes."""


def list_files(filesystem: FileSystem, folder: str, pattern: str) -> list[FileInfo]:
    """List the files below a folder whose whole path matches a regular expression, by path."""
    selector = FileSelector(folder, recursive=True, allow_not_found=True)
    files = [
        info
        for info in filesystem.get_file_info(selector)
        if info.type is FileType.File and re.fullmatch(pattern, info.path)
    ]
    return sorted(files, key=lambda info: str(info.path))


def file_leftovers(
    filesystem: FileSystem, files: Iterable[FileInfo], *, uri: str, path: Callable[[str], str]
) -> list[Leftover]:
    """Describe files as leftovers.

    Args:
        filesystem: file system of the files.
        files: files that no commit names.
        uri: path or URI of the table, for messages.
        path: function from a path in the file system to the path or URI to report.
    """
    return [
        Leftover(
            path=path(info.path),
            bytes=info.size,
            touched=info.mtime,
            remove=partial(remove_file, filesystem, info.path, f"{info.path} of {uri}"),
        )
        for info in files
    ]
