"""Write the bundled air-quality data as a Hive-partitioned lake, one directory per month or day.

    lake/month=2010-01/part-0.parquet ... lake/month=2014-12/part-0.parquet
    lake/day=2010-01-01/part-0.parquet ... lake/day=2014-12-31/part-0.parquet

The lake is written completely or not at all, and writing it again changes nothing.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
import uuid
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from probclass_core.errors import SpecError, TableError, one_of

GOOD_UP_TO, MODERATE_UP_TO = 35.0, 115.0
"""Upper limits of two classes of PM2.5, in µg/m³: from China's HJ 633 air quality index."""

PARTITIONS = {"month": "%Y-%m", "day": "%Y-%m-%d"}
"""Partition columns of the lake and the format of their values."""

_RECIPE = b"1"
_MARKER = "_probclass_demo"


def lay_out(root: str | Path, by: str = "month") -> Path:
    """Write the lake unless it is already there.

    In addition to the columns of the bundled file (see ``beijing_pm25.md``), the table has `air`
    ("good", "moderate" or "unhealthy"; null where pm25 is null), `hour` of the day (0 to 23),
    `log_wind_speed` (natural logarithm of m/s), and the partition column.

    Args:
        root: directory of the lake.
        by: partition column: ``"month"``, such as 2014-01, or ``"day"``, such as 2014-01-31.

    Returns:
        The path of the lake.

    Raises:
        SpecError: if the lake cannot be partitioned by this column.
        TableError: if something else is at `root`, or the lake cannot be written.
    """
    if by not in PARTITIONS:
        raise SpecError(f"the demo lake is partitioned by {one_of(PARTITIONS)}, not by {by!r}.")
    root = Path(root)
    source = files("probclass_core.demo").joinpath("beijing_pm25.parquet").read_bytes()
    digest = hashlib.sha256(_RECIPE + by.encode() + source).hexdigest()
    marker = root / _MARKER
    if marker.is_file() and marker.read_text(encoding="utf-8") == digest:
        return root
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise TableError(
            f"{root} exists and is not a demo lake of this release; name another directory, or "
            "remove it."
        )
    staging = root.parent / f"_staging-{root.name}-{uuid.uuid4().hex}"
    try:
        table = _with_derived_columns(pq.read_table(pa.BufferReader(source)))
        for value, rows in _partitions(table, PARTITIONS[by]):
            directory = staging / f"{by}={value}"
            directory.mkdir(parents=True)
            pq.write_table(rows, directory / "part-0.parquet")
        (staging / _MARKER).write_text(digest, encoding="utf-8")
        staging.replace(root)
    except OSError as error:
        if marker.is_file() and marker.read_text(encoding="utf-8") == digest:
            return root  # another process has written the same lake
        raise TableError(f"cannot write the lake at {root}: {error.strerror}.") from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return root


def _with_derived_columns(table: pa.Table) -> pa.Table:
    pm25 = table["pm25"]
    air = pc.if_else(
        pc.less_equal(pm25, GOOD_UP_TO),
        "good",
        pc.if_else(pc.less_equal(pm25, MODERATE_UP_TO), "moderate", "unhealthy"),
    )
    return (
        table.append_column("air", air)
        .append_column("hour", pc.hour(table["time"]))
        .append_column("log_wind_speed", pc.ln(table["wind_speed"]))
    )


def _partitions(table: pa.Table, time_format: str) -> Iterator[tuple[str, pa.Table]]:
    values = pc.strftime(table["time"], format=time_format)
    for value in pc.unique(values).to_pylist():
        yield value, table.filter(pc.equal(values, value))


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: python -m probclass_core.demo.lake DIRECTORY [month|day]")
    try:
        sys.stdout.write(f"{lay_out(*sys.argv[1:])}\n")
    except (SpecError, TableError) as error:
        sys.exit(f"error: {error}")
