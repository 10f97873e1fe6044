"""Parquet files that tests read as tables, and what is in a folder of them."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


def write_rows(folder: Path, *parts: pa.Table, **options: Any) -> Path:
    """Write each part as a Parquet file of a folder, replacing the files in it."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    for number, part in enumerate(parts):
        pq.write_table(part, folder / f"{number}.parquet", **options)
    return folder


def digests(root: Path) -> dict[str, str]:
    """Return the digest of every file below a directory, by path."""
    return {path: digest for path, (digest, _) in contents(root).items()}


def contents(root: Path) -> dict[str, tuple[str, int]]:
    """Return the digest and the modification time of every file below a directory, by path."""
    return {
        path.relative_to(root).as_posix(): (
            hashlib.sha256(path.read_bytes()).hexdigest(),
            path.stat().st_mtime_ns,
        )
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }
