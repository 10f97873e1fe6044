"""Parquet files that tests read as tables."""

from __future__ import annotations

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
