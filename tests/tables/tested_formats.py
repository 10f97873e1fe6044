"""The formats under test: their scored tables, other readers, and the files that belong to a table.

Every test starts from small lakes, two models, and a table scored from the lake ``old``. To test
another format, add it to `FORMATS`.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import chain
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

# Otherwise polars warns that it falls back to this planner, for its own is a separate package.
os.environ["POLARS_ICEBERG_PLANNER"] = "pyiceberg"

SPEC = pc.ModelSpec(
    "air", [pc.Block("gaussian_full", ["x", "y"]), pc.Block("categorical", ["wind"])]
)
ROWS = {"old": 4_000, "new": 6_000}
"""Rows of the partition that is replaced, by the lake and the model that scores it."""
MORE = 3_000
"""Rows that are appended to the partition of ``old``, by the same model."""
LAKES = {**ROWS, "more": MORE}
STATE_AFTER = {"old": "old", "new": "new", "more": "old and more"}
"""State of the partition after each lake is scored."""
MONTH = {"month": "2014-02"}
PART_ROWS = 3_000
"""Rows of a file at most, so that the rows of ``new`` are two files in one commit."""
COLUMNS = ["id", "model_id", "month"]


def rows_of(seed: int, rows: int) -> pa.Table:
    """Return rows of one month: an id, features with nulls, and the label."""
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


def set_up(folder: Path, name: str) -> None:
    """Write the lakes ``old``, ``new`` and ``more``, and score ``old``."""
    for which, rows in LAKES.items():
        february = rows_of(3 if which == "more" else 2, rows)
        for month, table in (("2014-01", rows_of(1, 40)), ("2014-02", february)):
            partition = folder / which / f"month={month}"
            partition.mkdir(parents=True)
            size = PART_ROWS if which == "new" else table.num_rows
            for start in range(0, table.num_rows, size):
                pq.write_table(table.slice(start, size), partition / f"{start:06d}.parquet")
    pc.score(model("old"), folder / "old", FORMATS[name].sink(folder))


def replace_new(folder: Path, table: pa.Table) -> Path:
    """Replace the rows of February of ``new`` by one file, and return its path."""
    month = folder / "new" / "month=2014-02"
    for path in month.iterdir():
        path.unlink()
    pq.write_table(table, month / "rows.parquet")
    return month / "rows.parquet"


def score(folder: Path, name: str, which: str) -> pc.ScoreReport:
    """Score a lake: replace the partition, or append to it if the lake is ``more``."""
    return pc.score(
        *(model(which), folder / which, FORMATS[name].sink(folder)),
        partition=MONTH,
        overwrite="append" if which == "more" else "partition",
        workers=1,
    )


def state(table: pa.Table) -> str:
    """Return the state of the partition; check that it is complete and the other one untouched."""
    rows_by_month: dict[str, list[tuple[int, str]]] = {"2014-01": [], "2014-02": []}
    for row in table.to_pylist():
        rows_by_month[row["month"]].append((row["id"], row["model_id"]))
    assert sorted(rows_by_month["2014-01"]) == [(10_000 + n, model("old").id) for n in range(40)]
    february = sorted(rows_by_month["2014-02"])
    for which, rows in ROWS.items():
        if february == [(20_000 + n, model(which).id) for n in range(rows)]:
            return which
    old, more = february[: ROWS["old"]], [(30_000 + n, model("old").id) for n in range(MORE)]
    if february == [*((20_000 + n, model("old").id) for n in range(len(old))), *more]:
        return "old and more"
    models = sorted({model_id for _, model_id in february})
    raise AssertionError(f"{len(february)} rows of the models {models}")


@dataclass(frozen=True)
class Format:
    """A format under test.

    Attributes:
        sink: returns the scored table in a folder.
        readers: other tools; each reads `COLUMNS` of the table.
        files: returns the files that belong to a table, by its log or its layout.
    """

    sink: Callable[[Path], pc.TableRef]
    readers: Mapping[str, Callable[[pc.TableRef], pa.Table]]
    files: Callable[[Path], set[Path]]

    def states(self, folder: Path) -> set[str]:
        """Return the states that probclass and the other readers see."""
        ref = self.sink(folder)
        plan = pc.open_table(ref).plan(COLUMNS)
        ours = {state(pa.Table.from_batches(plan.batches(), plan.schema))}
        return ours | {state(read(ref)) for read in self.readers.values()}

    def unknown_files(self, folder: Path) -> list[str]:
        """Return files and staging directories that belong to neither the lakes nor the table."""
        known = self.files(folder)
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
    commit = "[0-9a-f]" * 32
    appended = chain(*(parts[1].glob(f"{name}-{commit}.parquet") for name in ("part", "_summary")))
    written = ("_SUCCESS", "_summary.parquet", "part-0.parquet", "part-1.parquet")
    return {*appended, *(part / name for part in parts for name in written)}


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


def iceberg_sink(folder: Path) -> pc.TableRef:
    uri, warehouse = f"sqlite:///{folder}/catalog.db", f"file://{folder}/scored"
    options = {"type": "sql", "uri": uri, "warehouse": warehouse}
    return pc.TableRef("iceberg://lake/air.scored", options=options)


def iceberg_table(ref: pc.TableRef) -> Table:
    return load_catalog("lake", **ref.options).load_table("air.scored")


def files_of_iceberg(folder: Path) -> set[Path]:
    """Include all metadata: that of a killed commit looks like that of a running one.

    A writer killed before it wrote to its journal leaves it to SQLite's next writer.
    """
    table = iceberg_table(iceberg_sink(folder))
    manifests = {
        manifest.manifest_path: manifest
        for snapshot in table.snapshots()
        for manifest in snapshot.manifests(table.io)
    }
    named = {
        Path(entry.data_file.file_path.removeprefix("file://"))
        for manifest in manifests.values()
        for entry in manifest.fetch_manifest_entry(table.io, False)
    }
    metadata = Path(table.location().removeprefix("file://")) / "metadata"
    catalog = {folder / "catalog.db", folder / "catalog.db-journal"}
    return {*catalog, *named, *metadata.iterdir()}


FORMATS = {
    "parquet": Format(
        sink=lambda folder: pc.TableRef(str(folder / "scored"), format="parquet"),
        readers={
            "pyarrow": lambda ref: ds.dataset(ref.uri, partitioning="hive").to_table(COLUMNS),
            "duckdb": with_duckdb,
        },
        files=files_of_parquet,
    ),
    "delta": Format(
        sink=lambda folder: pc.TableRef(str(folder / "scored"), format="delta"),
        readers={
            "deltalake": lambda ref: DeltaTable(ref.uri).to_pyarrow_table(columns=COLUMNS),
            "polars": lambda ref: pl.scan_delta(ref.uri).select(COLUMNS).collect().to_arrow(),
        },
        files=files_of_delta,
    ),
    "iceberg": Format(
        sink=iceberg_sink,
        readers={
            "pyiceberg": lambda ref: iceberg_table(ref).scan(selected_fields=COLUMNS).to_arrow(),
            "polars": lambda ref: (
                pl.scan_iceberg(iceberg_table(ref)).select(COLUMNS).collect().to_arrow()
            ),
        },
        files=files_of_iceberg,
    ),
}
