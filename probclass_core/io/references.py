"""Addresses of tables, patterns of file names, leftovers of writers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from probclass_core.arguments import check_argument
from probclass_core.errors import TableMismatchError, hide_credentials, shown

_WILDCARD = re.compile(r"[*?]|\[.+\]")


@dataclass(frozen=True, repr=False)
class TableRef:
    """The address of a table: its path or URI, format, version and options.

    Attributes:
        uri: path or URI; a prefix names the format, as in ``delta+s3://bucket/table`` or
            ``delta+/lake/table``.
        format: name of a registered format; by default it follows from the prefix or the files.
        version: version or snapshot to read; by default the newest.
        options: options of the storage, see `io.storage_options`, properties of a catalog, and for
            text files also how to read them, see `io.text.options`. The query of a URI adds to
            them, except after ``http``. They are never shown or recorded.

    Raises:
        TableError: if the prefix and `format` differ, or the URI contains a password.
    """

    uri: str
    format: str | None = None
    version: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        check_argument("uri", self.uri, str)
        prefix, plus, rest = self.uri.partition("+")
        if plus and ("://" in rest or rest.startswith("/")) and prefix.isidentifier():
            if self.format not in (None, prefix):
                raise TableMismatchError(
                    f"{self.uri} is of format {prefix!r}, not {self.format!r}."
                )
            object.__setattr__(self, "format", prefix)
            object.__setattr__(self, "uri", rest)
        if "://" in self.uri:
            self._separate_options()
        object.__setattr__(self, "uri", self.uri.removeprefix("file://"))

    def __repr__(self) -> str:
        values = {"format": self.format, "version": self.version}
        given = [f"{name}={value!r}" for name, value in values.items() if value is not None]
        return f"TableRef({', '.join([repr(hide_credentials(self.uri)), *given])})"

    def _separate_options(self) -> None:
        """Move the query into the options, because the URI is recorded in models and tables."""
        masked = hide_credentials(self.uri)
        if "***@" in masked:
            raise TableMismatchError(
                f"{masked}: a URI is recorded in models and scored tables, and "
                "must not contain a password; give it in the options or by the environment."
            )
        address, _, query = self.uri.partition("?")
        if query and not address.startswith("http"):
            object.__setattr__(self, "uri", address)
            object.__setattr__(self, "options", {**dict(parse_qsl(query)), **self.options})

    @classmethod
    def parse(cls, table: object) -> TableRef:
        """Return a reference as it is, and the reference to a path or URI.

        Raises:
            TableError: if `table` is neither, or a Path made from a URI.
        """
        if isinstance(table, cls):
            return table
        if not isinstance(table, (str, Path)):
            raise TableMismatchError(
                f"{shown(table)} is not a path; name a table by its path or URI, as str or Path."
            )
        if isinstance(table, Path) and re.match(r"\w[\w+.-]+:/", str(table)):
            raise TableMismatchError(
                f"{str(table)!r} was a URI before it was made a Path; give it as a str."
            )
        return cls(str(table))


def recorded_uri(uri: str) -> str:
    """A path or URI as records name it, however it is spelled: absolute, without credentials."""
    return hide_credentials(uri.rstrip("/") if "://" in uri else str(Path(uri).absolute()))


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


def matches(path: str, pattern: str, *, below: bool = False) -> bool:
    """Whether a relative path matches; names that begin with ``_`` or ``.`` do not.

    Args:
        path: path of a file or a folder.
        pattern: names separated by ``/``, in which ``*``, ``?`` and ``[…]`` match characters; the
            name ``**`` matches any number of folders.
        below: whether a file below the path may match instead.
    """
    return _match(path.split("/"), pattern.split("/"), below)


def _match(names: Sequence[str], patterns: Sequence[str], below: bool) -> bool:
    if not patterns or not names:
        return not names and (below or not patterns)
    first, rest = patterns[0], patterns[1:]
    if first == "**":
        if _match(names, rest or ["*"], below):
            return True
        rest = patterns
    return _matches_name(names[0], first) and _match(names[1:], rest, below)


def _matches_name(name: str, pattern: str) -> bool:
    return not name.startswith(("_", ".")) and fnmatchcase(name, pattern)


ABANDONED = timedelta(hours=24)
"""Age at which a leftover cannot belong to a live writer."""


@dataclass(frozen=True)
class Leftover:
    """A file or directory that a killed writer left and no reader sees.

    Attributes:
        path: path or URI of the file or the directory.
        bytes: size in bytes.
        touched: time of the last change, or None if the file system does not report it.
        remove: function that removes it; it does nothing if it is gone already.
    """

    path: str
    bytes: int
    touched: datetime | None
    remove: Callable[[], None] = field(repr=False)

    def abandoned(self, older_than: timedelta = ABANDONED) -> bool:
        """Whether it is too old to belong to a live writer; of unknown age only if zero is."""
        if self.touched is None:
            return older_than <= timedelta(0)
        return datetime.now(UTC) - self.touched >= older_than
