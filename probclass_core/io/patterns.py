"""Patterns of file names, such as ``trips/*.csv``, and the files that match one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
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


def matching_files(location: Location, pattern: str) -> Sequence[FileInfo]:
    """List the files that match, by path; names that begin with ``_`` or ``.`` do not.

    Args:
        location: folder to look in.
        pattern: names separated by ``/``, in which ``*``, ``?`` and ``[…]`` match characters; the
            name ``**`` matches any number of folders.
    """
    matches = {str(info.path): info for info in _matches(location, "", pattern.split("/"))}
    return [matches[path] for path in sorted(matches)]


def may_match(path: str, pattern: str) -> bool:
    """Whether a file at a relative path, or below it, may match; see `matching_files`."""
    return _may_match(path.split("/"), pattern.split("/"))


def _may_match(names: Sequence[str], patterns: Sequence[str]) -> bool:
    if not patterns or not names:
        return not names
    if patterns[0] == "**":
        return _may_match(names, patterns[1:]) or _may_match(names[1:], patterns)
    return _matches_name(names[0], patterns[0]) and _may_match(names[1:], patterns[1:])


def _matches(location: Location, folder: str, patterns: Sequence[str]) -> Iterator[FileInfo]:
    first, rest = patterns[0], patterns[1:]
    if first == "**" and rest:
        yield from _matches(location, folder, rest)
    for info in location.entries(folder):
        if not _matches_name(info.base_name, first):
            continue
        if info.type == FileType.Directory:
            below = patterns if first == "**" else rest
            if below:
                yield from _matches(location, location.relative(info.path), below)
        elif is_file(info) and not rest:
            yield info


def _matches_name(name: str, pattern: str) -> bool:
    return not name.startswith(("_", ".")) and fnmatchcase(name, pattern)
