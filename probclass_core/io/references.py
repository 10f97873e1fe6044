"""Which table, and in which format: what a plugin registers so that its tables are found.

A format is a descriptor with a name and functions: one opens a table to read, one opens the place
of a partition to write, one tells what killed writers left behind. The built-in formats are
registered in the same way.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from probclass_core.errors import TableError

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class TableRef:
    """The address of a table, where a path alone does not say enough.

    Attributes:
        uri: path or URI; a prefix names the format, as in ``delta+s3://bucket/table``.
        format: name of a registered format; by default what the prefix or a look at the place says.
        version: version or snapshot to read; by default the newest.
        timestamp: read the version that was the newest at this time; not together with `version`.
        options: storage or catalog options, as the format's own library takes them; the query of a
            URI is taken for more of them, except after ``http``. They are never shown or recorded.

    Raises:
        TableError: version and timestamp are both given, the prefix and `format` differ, or the
            URI holds a password.
    """

    uri: str
    format: str | None = None
    version: int | None = None
    timestamp: datetime | None = None
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self.version is not None and self.timestamp is not None:
            raise TableError(f"{self.uri}: give a version or a timestamp to read, not both.")
        prefix, plus, rest = self.uri.partition("+")
        if plus and "://" in rest and prefix.isidentifier():
            if self.format not in (None, prefix):
                raise TableError(f"{self.uri} is of format {prefix!r}, not {self.format!r}.")
            object.__setattr__(self, "format", prefix)
            object.__setattr__(self, "uri", rest)
        object.__setattr__(self, "uri", self.uri.removeprefix("file://"))
        if "://" in self.uri:
            self._keep_to_the_address()

    def _keep_to_the_address(self) -> None:
        """A URI is recorded in models and tables; what is no address has no place in it."""
        masked = re.sub(r"://[^/@]*:[^/]*@", "://***@", self.uri)
        if masked != self.uri:
            raise TableError(
                f"{masked.partition('?')[0]}: a URI is recorded with what is made of the table, "
                "and must not hold a password; give it in the options or by the environment."
            )
        address, _, query = self.uri.partition("?")
        if query and not address.startswith("http"):
            object.__setattr__(self, "uri", address)
            object.__setattr__(self, "options", {**dict(parse_qsl(query)), **self.options})

    @classmethod
    def parse(cls, place: object) -> TableRef:
        """The reference itself, or one to a path or URI.

        Raises:
            TableError: it is neither, or a Path made of a URI.
        """
        if isinstance(place, cls):
            return place
        if not isinstance(place, (str, Path)):
            raise TableError(
                f"{place!r} is no path; a table is named by its path or URI, as text or Path."
            )
        if isinstance(place, Path) and re.match(r"\w[\w+.-]+:/", str(place)):
            raise TableError(
                f"{str(place)!r} was a URI before it was made a Path; give it as text."
            )
        return cls(str(place))

    @property
    def newest(self) -> bool:
        """Whether no earlier version is asked for."""
        return self.version is None and self.timestamp is None


ABANDONED = timedelta(hours=24)
"""What nobody has touched for so long is no living writer's work."""


@dataclass(frozen=True)
class Leftover:
    """What a writer that was killed left behind, and no reader is shown.

    Attributes:
        path: where it lies: a file, or a directory as a whole.
        bytes: on disk.
        touched: when anything of it was last written; none where the storage does not say.
        remove: takes it away; silent where it is gone already.
    """

    path: str
    bytes: int
    touched: datetime | None
    remove: Callable[[], None] = field(repr=False)

    def abandoned(self, older_than: timedelta = ABANDONED) -> bool:
        """Whether it is too old to be a living writer's; never of an unknown age, but for zero."""
        if self.touched is None:
            return older_than <= timedelta(0)
        return datetime.now(UTC) - self.touched >= older_than
