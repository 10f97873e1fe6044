"""An Iceberg table whose files are in a bucket, over the S3 protocol."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from buckets import Bucket
from monthly_lake import SCORED, model, rows_of, write_lake, write_rows

import probclass_core as pc


@pytest.fixture
def sink(bucket: Bucket, tmp_path: Path) -> pc.TableRef:
    """A table that does not exist yet."""
    options = {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "warehouse": f"s3://{bucket.name}/warehouse",
        "s3.endpoint": bucket.endpoint,
        "s3.access-key-id": bucket.options["access_key"],
        "s3.secret-access-key": bucket.options["secret_key"],
        "s3.region": bucket.options["region"],
    }
    return pc.TableRef("iceberg://lake/air.scored", options=options)


def test_a_table_is_written_replaced_read_and_inspected(
    bucket: Bucket, sink: pc.TableRef, tmp_path: Path
) -> None:
    lake = write_lake(tmp_path / "lake", "2014-01", "2014-02")
    assert pc.score(model(), lake, sink).rows == 94
    assert pc.score(model(), lake, sink).skipped == 2
    write_rows(lake / "month=2014-02", rows_of(5, rows=9))
    assert pc.score(model(), lake, sink).skipped == 1
    plan = pc.open_table(sink).plan(partition={"month": "2014-02"})
    february = pa.Table.from_batches(plan.batches())
    assert (february.num_rows, plan.rows) == (9, 9)
    assert {*SCORED} < {*february.column_names}
    inspection = pc.inspect_table(sink)
    assert inspection.files is not None
    assert (inspection.rows, len(inspection.files)) == (56, 2)
    assert "secret" not in repr(sink)


def test_an_interrupted_scoring_leaves_no_files(
    bucket: Bucket, sink: pc.TableRef, tmp_path: Path
) -> None:
    lake = write_lake(tmp_path / "lake", "2014-01")

    def interrupt(done: int, total: int | None) -> None:
        raise KeyboardInterrupt

    pc.score(model(), lake, sink)
    with pytest.raises(KeyboardInterrupt):
        pc.score(model(51), lake, sink, progress=interrupt)
    assert len([key for key in bucket.keys("warehouse") if key.endswith(".parquet")]) == 1
    assert pc.clean_table(sink, older_than=timedelta(0)) == []
