"""An Iceberg table whose files lie in a bucket, over the S3 protocol."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from buckets import Bucket
from lakes import SCORED, model, rows_of, write_lake, write_rows

import probclass_core as pc


@pytest.fixture
def place(bucket: Bucket, tmp_path: Path) -> pc.TableRef:
    """A table that is not there yet."""
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


def test_a_bucket_holds_a_table_as_a_disk_does(
    bucket: Bucket, place: pc.TableRef, tmp_path: Path
) -> None:
    lake = write_lake(tmp_path / "lake", "2014-01", "2014-02")
    assert pc.score(model(), lake, place).rows == 94
    assert pc.score(model(), lake, place).skipped == 2
    write_rows(lake / "month=2014-02", rows_of(5, rows=9))
    assert pc.score(model(), lake, place).skipped == 1
    plan = pc.open_table(place).plan(partition={"month": "2014-02"})
    held = pa.Table.from_batches(plan.batches())
    assert (held.num_rows, plan.rows) == (9, 9)
    assert {*SCORED} < {*held.column_names}
    told = pc.inspect_table(place)
    assert told.files is not None
    assert (told.rows, len(told.files)) == (56, 2)
    assert "secret" not in repr(place)


def test_what_was_not_committed_is_not_left_in_the_bucket(
    bucket: Bucket, place: pc.TableRef, tmp_path: Path
) -> None:
    lake = write_lake(tmp_path / "lake", "2014-01")

    def stop(done: int, total: int | None) -> None:
        raise KeyboardInterrupt

    pc.score(model(), lake, place)
    with pytest.raises(KeyboardInterrupt):
        pc.score(model(51), lake, place, progress=stop)
    assert len([key for key in bucket.keys("warehouse") if key.endswith(".parquet")]) == 1
    assert pc.clean_table(place, older_than=timedelta(0)) == []
