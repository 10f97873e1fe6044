"""What the campaign of faults is waged on: a small lake, two models of it, and a scored table.

A format joins by an entry in `FORMATS`.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table

import probclass_core as pc

# Without a planner of its own, which is a package by itself, polars warns that it takes this one.
os.environ["POLARS_ICEBERG_PLANNER"] = "pyiceberg"

SPEC = pc.ModelSpec(
    "air", [pc.Block("gaussian_full", ["x", "y"]), pc.Block("categorical", ["wind"])]
)
ROWS = {"old": 4_000, "new": 6_000}
"""Of the partition that is replaced, by the model that scores it."""
MORE = 3_000
"""Rows that are added to the partition of ``old``, by the same model."""
LAKES = {**ROWS, "more": MORE}
LEAVES = {"old": "old", "new": "new", "more": "old and more"}
"""What the partition is once such a lake is scored."""
MONTH = {"month": "2014-02"}
PART_ROWS = 3_000
"""That a file is to have at most: what ``new`` leaves are two files, committed at once."""
LOOKED_AT = ["id", "model_id", "month"]


def rows_of(seed: int, rows: int) -> pa.Table:
    """Rows of one month: an id, features with gaps, and the label."""
    noise = np.random.default_rng(seed)
    good = noise.random(rows) < 0.5
    return pa.table(
        {
            "id": pa.array(10_000 * seed + np.arange(rows)),
            "x": pa.array(noise.normal(np.where(good, 1.0, -1.0)), mask=noise.random(rows) < 0.1),
            "y": noise.normal(size=rows) + good,
            "wind": pa.array(noise.choice(["N", "S"], rows), mask=noise.random(rows) < 0.1),
            "air": np.where(good, "good", "bad"),
        }
    )


@functools.cache
def model(which: str) -> pc.Model:
    return pc.fit(rows_of(50 if which == "more" else list(ROWS).index(which) + 50, 200), SPEC)


def arrange(folder: Path, name: str) -> None:
    """The lakes ``old``, ``new`` and ``more`` and a table scored from the old one."""
    for which, rows in LAKES.items():
        february = rows_of(3 if which == "more" else 2, rows)
        for month, table in (("2014-01", rows_of(1, 40)), ("2014-02", february)):
            place = folder / which / f"month={month}"
            place.mkdir(parents=True)
            cut = PART_ROWS if which == "new" else table.num_rows
            for start in range(0, table.num_rows, cut):
                pq.write_table(table.slice(start, cut), place / f"{start:06d}.parquet")
    pc.score(model("old"), folder / "old", FORMATS[name].place(folder))


def one_file_of_new(folder: Path, table: pa.Table) -> Path:
    """The rows of February of ``new`` from now on, in one file."""
    month = folder / "new" / "month=2014-02"
    for path in month.iterdir():
        path.unlink()
    pq.write_table(table, month / "rows.parquet")
    return month / "rows.parquet"


def score(folder: Path, name: str, which: str) -> pc.ScoreReport:
    """Replace the partition by what this model makes of its lake, or add to it."""
    place, how = FORMATS[name].place(folder), "append" if which == "more" else "partition"
    return pc.score(
        *(model(which), folder / which, place), partition=MONTH, overwrite=how, workers=1
    )


def state(table: pa.Table) -> str:
    """Which of `LEAVES` the partition is; all of one, and the other partition untouched."""
    held: dict[str, list[tuple[int, str]]] = {"2014-01": [], "2014-02": []}
    for row in table.to_pylist():
        held[row["month"]].append((row["id"], row["model_id"]))
    assert sorted(held["2014-01"]) == [(10_000 + n, model("old").id) for n in range(40)]
    found = sorted(held["2014-02"])
    for which, rows in ROWS.items():
        if found == [(20_000 + n, model(which).id) for n in range(rows)]:
            return which
    old, more = found[: ROWS["old"]], [(30_000 + n, model("old").id) for n in range(MORE)]
    if found == [*((20_000 + n, model("old").id) for n in range(len(old))), *more]:
        return "old and more"
    raise AssertionError(f"{len(found)} rows of {sorted({each for _, each in found})}")


@dataclass(frozen=True)
class Format:
    """A format under fire.

    Attributes:
        place: of the scored table in a folder.
        readers: others than ours; each gives `LOOKED_AT` of the whole table.
        files: all that belong to the table, by the word of its log or layout alone.
    """

    place: Callable[[Path], pc.TableRef]
    readers: Mapping[str, Callable[[pc.TableRef], pa.Table]]
    files: Callable[[Path], set[Path]]

    def states(self, folder: Path) -> set[str]:
        """What all readers find, ours among them."""
        ref = self.place(folder)
        plan = pc.open_table(ref).plan(LOOKED_AT)
        found = {state(pa.Table.from_batches(plan.batches(), plan.schema))}
        return found | {state(read(ref)) for read in self.readers.values()}

    def strangers(self, folder: Path) -> list[str]:
        """Files and staging directories that are neither the lakes' nor the table's."""
        known = {*self.files(folder)}
        return sorted(
            path.relative_to(folder).as_posix()
            for path in folder.rglob("*")
            if path not in known
            and path.relative_to(folder).parts[0] not in LAKES
            and (path.is_file() or path.name.startswith("_staging"))
        )


def with_duckdb(ref: pc.TableRef) -> pa.Table:
    with duckdb.connect() as connection:
        query = "select id, model_id, month from read_parquet($1, hive_partitioning = true)"
        return connection.sql(query, params=[f"{ref.uri}/**/*.parquet"]).to_arrow_table()


def files_of_parquet(folder: Path) -> set[Path]:
    parts = [folder / "scored" / f"month={month}" for month in ("2014-01", "2014-02")]
    added = parts[1].glob(f"part-{'[0-9a-f]' * 32}.parquet")
    written = ("_SUCCESS", "part-0.parquet", "part-1.parquet")
    return {*added, *(part / name for part in parts for name in written)}


def files_of_delta(folder: Path) -> set[Path]:
    root = folder / "scored"
    entries = set((root / "_delta_log").glob("*.json"))
    checkpoints = {root / "_delta_log" / "_last_checkpoint"}
    checkpoints.update((root / "_delta_log").glob("*.checkpoint.parquet"))
    actions: list[dict[str, Any]] = [
        json.loads(line) for entry in entries for line in entry.read_text().splitlines()
    ]
    named = [action["add"]["path"] for action in actions if "add" in action]
    return entries | checkpoints | {root / unquote(path) for path in named}


def iceberg_place(folder: Path) -> pc.TableRef:
    uri, warehouse = f"sqlite:///{folder}/catalog.db", f"file://{folder}/scored"
    options = {"type": "sql", "uri": uri, "warehouse": warehouse}
    return pc.TableRef("iceberg://lake/air.scored", options=options)


def iceberg_table(ref: pc.TableRef) -> Table:
    return load_catalog("lake", **ref.options).load_table("air.scored")


def files_of_iceberg(folder: Path) -> set[Path]:
    """Metadata as a whole: what a killed commit leaves of it cannot be told from another's work."""
    table = iceberg_table(iceberg_place(folder))
    listed = [each for snapshot in table.snapshots() for each in snapshot.manifests(table.io)]
    manifests = {manifest.manifest_path: manifest for manifest in listed}.values()
    entries = [e for each in manifests for e in each.fetch_manifest_entry(table.io, False)]
    named = {Path(entry.data_file.file_path.removeprefix("file://")) for entry in entries}
    metadata = Path(table.location().removeprefix("file://")) / "metadata"
    return {folder / "catalog.db", *named, *metadata.iterdir()}


FORMATS = {
    "parquet": Format(
        place=lambda folder: pc.TableRef(str(folder / "scored"), format="parquet"),
        readers={
            "pyarrow": lambda ref: ds.dataset(ref.uri, partitioning="hive").to_table(LOOKED_AT),
            "duckdb": with_duckdb,
        },
        files=files_of_parquet,
    ),
    "delta": Format(
        place=lambda folder: pc.TableRef(str(folder / "scored"), format="delta"),
        readers={
            "deltalake": lambda ref: DeltaTable(ref.uri).to_pyarrow_table(columns=LOOKED_AT),
            "polars": lambda ref: pl.scan_delta(ref.uri).select(LOOKED_AT).collect().to_arrow(),
        },
        files=files_of_delta,
    ),
    "iceberg": Format(
        place=iceberg_place,
        readers={
            "pyiceberg": lambda ref: iceberg_table(ref).scan(selected_fields=LOOKED_AT).to_arrow(),
            "polars": lambda ref: (
                pl.scan_iceberg(iceberg_table(ref)).select(LOOKED_AT).collect().to_arrow()
            ),
        },
        files=files_of_iceberg,
    ),
}
