"""Data files that killed writers left: they have our file names, and no commit names them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from pyarrow.fs import FileInfo

from probclass_core.io.filesystem import Location
from probclass_core.io.references import Leftover

DATA_FILE = r"(?:.*/)?part-[0-9a-f]{32}\.parquet"
"""Regular expression for the paths of data files that `LogSink` writes."""


def file_leftovers(location: Location, files: Iterable[FileInfo]) -> list[Leftover]:
    """Describe files below a location as leftovers."""
    return [
        Leftover(
            path=location.uri_of(location.relative(info.path)),
            bytes=info.size,
            touched=info.mtime,
            remove=partial(location.remove, location.relative(info.path)),
        )
        for info in files
    ]
