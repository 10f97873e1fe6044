"""Files with cached statistics are not opened, and a changed file is read again."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.compute
import pytest
from daily_lake import DAYS, SPEC, CountingTable, days_between, fit_and_count, footers_of, rows_of
from lakes import write_rows

import probclass_core as pc
from probclass_core.errors import TableError
from probclass_core.io.open import open_table
from probclass_core.training.shards import plan_shards


def test_files_with_cached_statistics_are_not_opened(lake: Path, store: pc.ModelStore) -> None:
    """Not even their footers are read, but those of the first and the last file of the table.

    A fit without the cache reports that the files are damaged.
    """
    model = pc.fit(lake, SPEC, where=days_between(DAYS[0], DAYS[6]), cache=store)
    for day in DAYS[1:7]:
        path = lake / f"day={day}" / "0.parquet"
        before = path.stat()
        path.write_bytes(bytes(before.st_size))
        os.utime(path, ns=(0, before.st_mtime_ns))
    source = CountingTable(lake)
    again = pc.fit(source, SPEC, cache=store)
    assert again.training["cache"] == {"units": 8, "reused": 7}
    assert source.rows == 60
    assert pc.fit(lake, SPEC, where=days_between(DAYS[0], DAYS[6]), cache=store).id == model.id
    assert plan_shards(lake, SPEC, cache=store).cached == 8
    with pytest.raises(TableError, match=DAYS[1]):
        pc.fit(lake, SPEC)


def test_a_cached_footer_is_not_used_for_a_changed_file(lake: Path, store: pc.ModelStore) -> None:
    fit_and_count(lake, store)
    write_rows(lake / f"day={DAYS[4]}", rows_of(9, 500), row_group_size=90)
    assert fit_and_count(lake, store) == (500, 7)
    narrow = rows_of(9, 50).set_column(0, "x", pa.array(range(50)))
    write_rows(lake / f"day={DAYS[4]}", narrow)
    assert fit_and_count(lake, store) == (50, 7)
    shutil.copytree(lake, lake.parent / "copy")
    assert fit_and_count(lake.parent / "copy", store) == (470, 0), "a copy is another table"


def test_a_file_that_differs_from_its_cached_footer_is_reported(lake: Path) -> None:
    first = open_table(lake).with_footer_cache({}).plan()
    units = first.units
    plan = open_table(lake).with_footer_cache(footers_of(first)).plan()
    assert [str(part) for part in plan.units] == [str(part) for part in units]
    assert [part.digest for part in plan.units] == [part.digest for part in units]
    write_rows(lake / f"day={DAYS[0]}", rows_of(0, 70))
    with pytest.raises(TableError, match=rf"{DAYS[0]}.* has changed while it was being read"):
        list(plan.units[0].read())
    assert sum(batch.num_rows for batch in plan.units[1].read()) == 60


@pytest.mark.parametrize(
    "other",
    [
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.dictionary(pa.int8(), pa.string()),
        pa.dictionary(pa.int32(), pa.large_string()),
        pa.dictionary(pa.int32(), pa.string(), ordered=True),
        pa.null(),
    ],
    ids=str,
)
@pytest.mark.parametrize("swapped", [False, True])
def test_text_of_any_type_is_read_the_same_with_cached_footers(
    tmp_path: Path, other: pa.DataType, swapped: bool
) -> None:
    values = ["p", None, "q"] if not pa.types.is_null(other) else [None] * 3
    kinds = [other, pa.string()] if swapped else [pa.string(), other]
    for day, kind in zip(DAYS[:2], kinds, strict=True):
        text = pa.array(["p", None, "q"]) if kind != other else pa.array(values).cast(other)
        write_rows(tmp_path / "lake" / f"day={day}", pa.table({"text": text, "id": range(3)}))
    table = open_table(tmp_path / "lake").with_footer_cache({})
    plan = table.plan(["text", "id"], allow_dictionaries=True)
    with_cache = open_table(tmp_path / "lake").with_footer_cache(footers_of(plan))
    again = with_cache.plan(["text", "id"], allow_dictionaries=True)
    assert again.schema == plan.schema
    assert [part.digest for part in again.units] == [part.digest for part in plan.units]
    for read in (plan, again):
        rows = [row["text"] for batch in read.batches() for row in batch.to_pylist()]
        assert rows == ([*values, "p", None, "q"] if swapped else ["p", None, "q", *values])
