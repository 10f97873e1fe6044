"""Lakes and a scored table for tests of kills and damage, and the states that readers may see.

A table is scored from the lake ``old`` first. ``new`` replaces a partition of it by other rows of
another model, and ``more`` is appended to it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from backends import BACKENDS
from delta_and_iceberg import IcebergLake
from monthly_lake import model, rows_of

import probclass_core as pc
from probclass_core.scoring.reports import ScoreReport

MONTH = {"month": "2014-02"}
SIZES = {"old": 40, "new": 60, "more": 30}
"""Rows of that month by lake, to be multiplied by a scale."""
SCALE = 10
PART_ROWS = 300
"""Rows of a file at most, so that the rows of ``new`` are two files in one commit."""
SEEDS = {"old": 50, "new": 51, "more": 50}
"""Seeds of the models that score the lakes."""
STATE_AFTER = {"old": "old", "new": "new", "more": "old and more"}
"""State of the partition after each lake is scored."""


def set_up(folder: Path, sink: pc.TableRef, scale: int = SCALE) -> None:
    """Write the lakes, and score ``old``."""
    for which, rows in SIZES.items():
        february = rows_of(20 if which == "more" else 2, scale * rows)
        for month, table in (("2014-01", rows_of(1)), ("2014-02", february)):
            partition = folder / which / f"month={month}"
            partition.mkdir(parents=True)
            size = PART_ROWS if which == "new" else table.num_rows
            for start in range(0, table.num_rows, size):
                pq.write_table(table.slice(start, size), partition / f"{start:06d}.parquet")
    pc.score(model(SEEDS["old"]), folder / "old", sink)


def replace_new(folder: Path, rows: int = SCALE * SIZES["new"]) -> Path:
    """Replace the rows of February of ``new`` by one file, and return its path."""
    month = folder / "new" / "month=2014-02"
    for path in month.iterdir():
        path.unlink()
    pq.write_table(rows_of(2, rows), month / "rows.parquet")
    return month / "rows.parquet"


def score(folder: Path, sink: pc.TableRef, which: str) -> ScoreReport:
    """Score a lake: replace the partition, or append to it if the lake is ``more``."""
    return pc.score(
        *(model(SEEDS[which]), folder / which, sink),
        partition=MONTH,
        options={"overwrite": "append" if which == "more" else "partition"},
        workers=1,
    )


def state(table: pa.Table, scale: int = SCALE) -> str:
    """Return the state of the partition; check that it is complete and the other one untouched."""
    found: dict[tuple[str, str], list[int]] = {}
    for row in table.select(["month", "model_id", "id"]).sort_by("id").to_pylist():
        found.setdefault((row["month"], row["model_id"]), []).append(row["id"])
    old, new = (model(SEEDS[which]).id for which in ("old", "new"))
    assert found.pop(("2014-01", old)) == list(range(1_000, 1_040))
    rows = {which: list(range(2_000, 2_000 + scale * SIZES[which])) for which in ("old", "new")}
    more = list(range(20_000, 20_000 + scale * SIZES["more"]))
    states = {
        "old": {("2014-02", old): rows["old"]},
        "new": {("2014-02", new): rows["new"]},
        "old and more": {("2014-02", old): [*rows["old"], *more]},
    }
    names = [which for which, expected in states.items() if expected == found]
    assert names, {key: len(values) for key, values in found.items()}
    return names[0]


def states(folder: Path, name: str) -> set[str]:
    """Return the states that probclass and other tools see."""
    backend = BACKENDS[name](folder)
    readers = (backend.read, *backend.others.values())
    return {state(read("scored")) for read in readers}


def unknown_files(folder: Path, name: str) -> list[str]:
    """Return files and staging directories that belong to neither the lakes nor the table."""
    known = FILES[name](folder)
    return sorted(
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path not in known
        and path.relative_to(folder).parts[0] not in SIZES
        and (path.is_file() or path.name.startswith("_staging"))
    )


def _files_of_parquet(folder: Path) -> set[Path]:
    parts = [folder / "scored" / f"month={month}" for month in ("2014-01", "2014-02")]
    commit = "[0-9a-f]" * 32
    appended = chain(*(parts[1].glob(f"{name}-{commit}.parquet") for name in ("part", "_summary")))
    written = ("_SUCCESS", "_summary.parquet", "part-0.parquet", "part-1.parquet")
    return {*appended, *(part / name for part in parts for name in written)}


def _files_of_delta(folder: Path) -> set[Path]:
    log = folder / "scored" / "_delta_log"
    entries = set(log.glob("*.json"))
    actions: list[dict[str, Any]] = [
        json.loads(line) for entry in entries for line in entry.read_text().splitlines()
    ]
    named = {folder / "scored" / unquote(a["add"]["path"]) for a in actions if "add" in a}
    return entries | named | {log / "_last_checkpoint", *log.glob("*.checkpoint.parquet")}


def _files_of_iceberg(folder: Path) -> set[Path]:
    """Include all metadata: that of a killed commit looks like that of a running one.

    A writer killed before it wrote to its journal leaves it to SQLite's next writer.
    """
    table = IcebergLake(folder).table("scored")
    named = {
        Path(entry.data_file.file_path.removeprefix("file://"))
        for snapshot in table.snapshots()
        for manifest in snapshot.manifests(table.io)
        for entry in manifest.fetch_manifest_entry(table.io, False)
    }
    metadata = Path(table.location().removeprefix("file://")) / "metadata"
    return {folder / "catalog.db", folder / "catalog.db-journal", *named, *metadata.iterdir()}


FILES: dict[str, Callable[[Path], set[Path]]] = {
    "parquet": _files_of_parquet,
    "delta": _files_of_delta,
    "iceberg": _files_of_iceberg,
}
"""Files that belong to a table, by its log or its layout."""
