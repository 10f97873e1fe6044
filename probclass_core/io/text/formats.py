"""Recognize text files by their names."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from probclass_core.io.patterns import split_pattern
from probclass_core.io.references import TableRef

_COMPRESSED = r"(\.(gz|bz2|zst|lz4|br))?"

_FILES_LOOKED_AT = 100
"""Files of a directory after which it is not recognized as one of text."""

CSV = re.compile(rf".*\.(csv|tsv|tab){_COMPRESSED}", re.IGNORECASE)
JSON_LINES = re.compile(rf".*\.(jsonl|ndjson|json){_COMPRESSED}", re.IGNORECASE)


def names_files(ref: TableRef, names: re.Pattern[str]) -> bool:
    """Whether a table consists of files with such names.

    A local directory is recognized by its first files. Directories of an object store are not
    listed; a file or a pattern there is recognized by its own name.
    """
    if "://" in ref.uri:
        return names.fullmatch(ref.uri.rstrip("/")) is not None
    base, pattern = split_pattern(ref.uri)
    path = Path(base)
    if pattern is not None:
        if names.fullmatch(pattern) is not None:
            return True
        found = (file for file in path.glob(pattern) if file.is_file())
        return names.fullmatch(next(found, Path()).name) is not None
    if path.is_dir():
        return _is_folder_of(path, names)
    return names.fullmatch(path.name) is not None


def _is_folder_of(folder: Path, names: re.Pattern[str]) -> bool:
    """Whether one of the first files has such a name, and none before it is a Parquet file."""
    for file in islice(_visible_files(folder), _FILES_LOOKED_AT):
        if names.fullmatch(file):
            return True
        if file.endswith(".parquet"):
            return False
    return False


def _visible_files(folder: Path) -> Iterator[str]:
    """Yield the names of the files in a folder that are not hidden, at any depth.

    In the order of the file system: sinks are recognized once for each partition, and to list a
    folder of many partitions each time would take time quadratic in their number.
    """
    with suppress(OSError), os.scandir(folder) as entries:  # opening the table will report it
        for entry in entries:
            if entry.name.startswith(("_", ".")):
                continue
            if entry.is_dir():
                yield from _visible_files(Path(entry.path))
            else:
                yield entry.name
