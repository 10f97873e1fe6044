"""Commit records: which model, input and run the rows of a file come from."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.fs import FileSystem

COMMIT_KEY = "probclass.commit"
"""Key of a commit record in footers and in logs."""

SUMMARY_KEY = "probclass.summary"
"""Key of those entries of a commit record in a footer that are known once the rows are written."""


def read_commit_record(
    path: str | Path, filesystem: FileSystem | None = None
) -> dict[str, Any] | None:
    """Read the commit record in the footer of a Parquet file, with the ``rows`` of the file.

    Returns:
        The record, or None if the file has none or cannot be read.
    """
    try:
        footer = pq.read_metadata(path, filesystem=filesystem)
    except (OSError, ValueError, pa.ArrowException):
        return None
    record = commit_record_in(footer)
    return None if record is None else {**record, "rows": footer.num_rows}


def commit_record_in(footer: pq.FileMetaData) -> dict[str, Any] | None:
    """The commit record of a footer, or None if it has none."""
    metadata = footer.metadata or {}
    try:
        record = dict(json.loads(metadata[COMMIT_KEY.encode()]))
        return {**record, **json.loads(metadata.get(SUMMARY_KEY.encode(), "{}"))}
    except (KeyError, TypeError, ValueError):
        return None  # another writer may use the same key


def complete_commits(
    file_records: Iterable[Mapping[str, Any] | None],
) -> list[dict[str, Any] | None]:
    """Combine the records of files to one record for each commit whose files are all present.

    Args:
        file_records: the commit record of each file, or None for a file without one.

    Returns:
        Records of commits, and None for each file without one or whose commit lacks other files.
    """
    commits: list[dict[str, Any] | None] = []
    parts_by_commit: dict[str, list[Mapping[str, Any]]] = {}
    for record in file_records:
        if record is not None and "parts" in record:
            parts_by_commit.setdefault(record["commit_id"], []).append(record)
        else:
            commits.append(None if record is None else dict(record))
    for parts in parts_by_commit.values():
        commit = {key: value for key, value in parts[0].items() if key not in ("part", "parts")}
        if sorted(part["part"] for part in parts) == [*range(parts[0]["parts"])]:
            commits.append({**commit, "rows": sum(part["rows"] for part in parts)})
        else:
            commits.extend([None] * len(parts))
    return commits
