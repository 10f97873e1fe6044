"""Patterns of file names, such as ``trips/*.csv``, and the files that match one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from pyarrow.fs import FileInfo, FileType

from probclass_core.io.filesystem import Location, is_file

_WILDCARD = re.compile(r"[*?]|\[.+\]")


def split_pattern(uri: str) -> tuple[str, str | None]:
    """Split a path or URI before the first name with a wildcard.

    Returns:
        The folder before it, and the pattern below that folder; the URI and None if it has no
        wildcard, or a local file or directory has this name.
    """
    scheme, separator, path = uri.rpartition("://")
    if not _WILDCARD.search(path) or (not separator and Path(uri).exists()):
        return uri, None
    names = path.split("/")
    first = next(number for number, name in enumerate(names) if _WILDCARD.search(name))
    folder = "/".join(names[:first]) or ("/" if first else "")
    return f"{scheme}{separator}{folder}", "/".join(names[first:])


def matching_files(location: Location, pattern: str, folder: str = "") -> Sequence[FileInfo]:
    """List the files that match, by path; names that begin with ``_`` or ``.`` do not.

    Args:
        location: folder to look in.
        pattern: names separated by ``/``, in which ``*``, ``?`` and ``[…]`` match characters; the
            name ``**`` matches any number of folders.
        folder: folder below it to list.
    """
    files: list[FileInfo] = []
    for info in location.entries(folder):
        path = location.relative(info.path)
        if info.type == FileType.Directory and may_match(path, pattern):
            files += matching_files(location, pattern, path)
        elif is_file(info) and _matches(path.split("/"), pattern.split("/"), whole=True):
            files.append(info)
    return sorted(files, key=lambda info: str(info.path))


def may_match(path: str, pattern: str) -> bool:
    """Whether a file at a relative path, or below it, may match; see `matching_files`."""
    return _matches(path.split("/"), pattern.split("/"), whole=False)


def _matches(names: Sequence[str], patterns: Sequence[str], *, whole: bool) -> bool:
    """Whether names match patterns: all of them, or else the first of them at least."""
    if not patterns or not names:
        return not names and not (whole and patterns)
    first, rest = patterns[0], patterns[1:]
    if first == "**":
        if _matches(names, rest or ["*"], whole=whole):
            return True
        rest = patterns
    return _matches_name(names[0], first) and _matches(names[1:], rest, whole=whole)


def _matches_name(name: str, pattern: str) -> bool:
    return not name.startswith(("_", ".")) and fnmatchcase(name, pattern)
