"""Columns that were added, moved or widened are found by name, in every format."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pac
import pytest
from delta_and_iceberg import IcebergLake
from deltalake import write_deltalake
from lakes import write_rows
from pyiceberg.types import DoubleType, LongType, StringType
from reading import read_rows

import probclass_core as pc
from probclass_core.errors import PartitionError

FIRST = pa.table(
    {
        "kind": ["p", "q", "p", "q"],
        "n": pa.array([1, 2, 3, 4], pa.int32()),
        "x": pa.array([0.5, 1.5, 2.5, 3.5], pa.float32()),
        "y": ["a", "a", "b", "b"],
    }
)
LATER = pa.table(
    {
        "extra": [10.0, 20.0],
        "word": ["r", "s"],
        "y": ["a", "b"],
        "x": [0.1, 4.1],
        "n": pa.array([2**40, 5]),
        "kind": ["p", "q"],
    }
)
LATER_WITH_SAME_TYPES = LATER.set_column(3, "x", pa.array([0.1, 4.1], pa.float32())).set_column(
    4, "n", pa.array([6, 5], pa.int32())
)


def parquet(root: Path) -> tuple[pc.TableRef, pa.Table]:
    for month, part in (("2014-01", FIRST), ("2014-02", LATER)):
        write_rows(root / "lake" / f"month={month}", part)
    return pc.TableRef(str(root / "lake")), LATER


def object_store(root: Path) -> tuple[pc.TableRef, pa.Table]:
    parquet(root)
    fsspec.filesystem("memory").put(f"{root}/lake", f"/{root.name}/lake", recursive=True)
    return pc.TableRef(f"memory://{root.name}/lake"), LATER


def delta(root: Path) -> tuple[pc.TableRef, pa.Table]:
    """Delta widens types by a feature that probclass refuses; see test_delta.py."""
    for month, part in (("2014-01", FIRST), ("2014-02", LATER_WITH_SAME_TYPES)):
        rows = part.append_column("month", pa.array([month] * part.num_rows))
        merge = {"mode": "append", "schema_mode": "merge"} if month == "2014-02" else {}
        write_deltalake(str(root / "lake"), rows, partition_by=["month"], **merge)
    return pc.TableRef(str(root / "lake"), format="delta"), LATER_WITH_SAME_TYPES


def iceberg(root: Path) -> tuple[pc.TableRef, pa.Table]:
    lake = IcebergLake(root)
    lake.write("lake", FIRST.append_column("month", pa.array(["2014-01"] * 4)), ["month"])
    with lake.table("lake").update_schema() as change:
        change.add_column("extra", DoubleType())
        change.add_column("word", StringType())
        change.update_column("n", LongType())
        change.update_column("x", DoubleType())
        change.move_first("y")
    later = LATER.append_column("month", pa.array(["2014-02"] * 2))
    table = lake.table("lake")
    table.append(later.select(table.schema().column_names))
    return lake.ref("lake"), LATER


BACKENDS: dict[str, Callable[[Path], tuple[pc.TableRef, pa.Table]]] = {
    "parquet": parquet,
    "object store": object_store,
    "delta": delta,
    "iceberg": iceberg,
}


@pytest.fixture(params=BACKENDS)
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[pc.TableRef, pa.Table]:
    """A table of two months, and the rows of its later month."""
    return BACKENDS[request.param](tmp_path)


def read(table: pc.TableRef, *columns: str, **rows: object) -> pa.Table:
    return read_rows(table, columns=list(columns) or None, **rows)


def test_all_rows_are_read_by_column_name(lake: tuple[pc.TableRef, pa.Table]) -> None:
    ref, later = lake
    table = read(ref, "n", "x", "extra", "word", "kind", "y", "month")
    assert table["n"].to_pylist() == [1, 2, 3, 4, *later["n"].to_pylist()]
    x = pa.chunked_array([FIRST["x"].cast(pa.float64()).chunk(0), later["x"].chunk(0).cast("f8")])
    assert table["x"].cast(pa.float64()).to_pylist() == x.to_pylist()
    assert table["extra"].to_pylist() == [None] * 4 + [10.0, 20.0]
    assert table["word"].to_pylist() == [None] * 4 + ["r", "s"]
    assert table["kind"].to_pylist() == ["p", "q", "p", "q", "p", "q"]
    assert table["month"].to_pylist() == ["2014-01"] * 4 + ["2014-02"] * 2
    assert set(pc.open_table(ref).schema.names) == {*LATER.column_names, "month"}
    # A partition that is older than a column has nulls there.
    january = read(ref, "extra", "n", partition={"month": "2014-01"})
    assert january["extra"].null_count == january.num_rows == 4


def test_rows_are_filtered_by_added_and_widened_columns(
    lake: tuple[pc.TableRef, pa.Table],
) -> None:
    ref, _ = lake
    assert read(ref, "kind", where=[("extra", ">", 15.0)])["kind"].to_pylist() == ["q"]
    assert read(ref, "x", where=[("extra", "==", None)]).num_rows == 4
    assert read(ref, "n", where=[("n", ">", 3)]).num_rows == 3
    assert read(ref, "n", where=[("x", ">", 1.25)]).num_rows == 4
    assert read(ref, "n", where=pac.field("x") > 1.25).num_rows == 4


def test_the_model_is_that_of_the_same_rows_in_memory(
    lake: tuple[pc.TableRef, pa.Table], tmp_path: Path
) -> None:
    ref, later = lake
    blocks = [
        pc.Block("gaussian_diagonal", ["n", "x", "extra"]),
        pc.Block("categorical", ["kind", "word"]),
    ]
    spec = pc.ModelSpec("y", blocks)
    parts = [
        part.set_column(part.column_names.index("x"), "x", part["x"].cast("f8"))
        for part in (FIRST, later)
    ]
    in_memory = pa.concat_tables(parts, promote_options="permissive")
    model, expected = pc.fit(ref, spec), pc.fit(in_memory, spec)
    probability = model.predict_proba(in_memory)
    np.testing.assert_allclose(probability, expected.predict_proba(in_memory), rtol=1e-12)
    with pytest.raises(
        PartitionError, match=r"1 of 2 .*: month=2014-01: no file has columns 'extra', 'word'"
    ):
        pc.score(model, ref, tmp_path / "scored")
    report = pc.score(model, ref, tmp_path / "scored", options={"missing_columns": "warn"})
    assert (report.rows, len(report.partitions)) == (6, 2)
    scored = read(pc.TableRef(str(tmp_path / "scored")), "extra", "prediction")
    assert scored["extra"].to_pylist() == [None] * 4 + [10.0, 20.0]
