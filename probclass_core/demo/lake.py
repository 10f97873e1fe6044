"""Lay the bundled air-quality data out as a Hive-partitioned lake, one directory per month.

    lake/month=2010-01/part-0.parquet ... lake/month=2014-12/part-0.parquet

The lake appears whole or not at all, and laying it out again changes nothing.
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

from probclass_core.errors import TableError

GOOD_UP_TO, MODERATE_UP_TO = 35.0, 115.0
"""Upper ends of two classes of PM2.5, in µg/m³: breakpoints of China's HJ 633 air quality index."""

_RECIPE = b"1"
_MARKER = "_probclass_demo"


def lay_out(root: str | Path) -> Path:
    """Write the monthly lake at `root`, unless it lies there already; return its path.

    Beside the columns of the bundled file (see ``beijing_pm25.md``) each row has `air` ("good",
    "moderate" or "unhealthy"; null where pm25 is), `hour` of the day (0 to 23) and
    `log_wind_speed` (natural logarithm of m/s). `month` ("2014-01") is in the directory's name.

    Raises:
        TableError: something else is at `root`, or it cannot be written.
    """
    root = Path(root)
    source = files("probclass_core.demo").joinpath("beijing_pm25.parquet").read_bytes()
    digest = hashlib.sha256(_RECIPE + source).hexdigest()
    marker = root / _MARKER
    if marker.is_file() and marker.read_text(encoding="utf-8") == digest:
        return root
    if root.exists() and not marker.is_file() and (not root.is_dir() or any(root.iterdir())):
        raise TableError(
            f"{root} exists and is no demo lake; name another directory, or remove it."
        )
    staging = root.parent / f"_staging-{root.name}-{uuid.uuid4().hex}"
    try:
        for month, rows in _by_month(_enriched(pq.read_table(pa.BufferReader(source)))):
            directory = staging / f"month={month}"
            directory.mkdir(parents=True)
            pq.write_table(rows, directory / "part-0.parquet")
        (staging / _MARKER).write_text(digest, encoding="utf-8")
        _swap(staging, root)
    except OSError as error:
        if marker.is_file() and marker.read_text(encoding="utf-8") == digest:
            return root  # another run laid out the same lake in the meantime
        raise TableError(f"cannot lay out the lake at {root}: {error.strerror}.") from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return root


def _enriched(table: pa.Table) -> pa.Table:
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


def _by_month(table: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    month = pc.strftime(table["time"], format="%Y-%m")
    for name in pc.unique(month).to_pylist():
        yield name, table.filter(pc.equal(month, name))


def _swap(staging: Path, root: Path) -> None:
    if not (root / _MARKER).is_file():
        staging.replace(root)  # onto nothing, or onto an empty directory
        return
    retired = root.parent / f"_retired-{root.name}-{uuid.uuid4().hex}"
    root.replace(retired)
    staging.replace(root)
    shutil.rmtree(retired, ignore_errors=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m probclass_core.demo.lake DIRECTORY")
    try:
        sys.stdout.write(f"{lay_out(sys.argv[1])}\n")
    except TableError as error:
        sys.exit(f"error: {error}")
