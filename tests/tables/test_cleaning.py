"""What killed writers left is removed, and nothing that anybody needs."""

from __future__ import annotations

import os
import time
import uuid
from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake
from lakes import contents, model, rows_of, write_lake, write_rows

import probclass_core as pc

AT_ONCE = timedelta(0)


def aged(path: Path, hours: float) -> Path:
    """The file or directory, last touched so long ago."""
    moment = time.time() - 3600 * hours
    for each in (path, *path.rglob("*")):
        os.utime(each, (moment, moment))
    return path


def staging(place: Path, table: str, hours: float) -> Path:
    """A staging directory as a killed attempt on a table leaves it."""
    directory = place / f"_staging-{table}-{uuid.uuid4().hex}"
    write_rows(directory / "content", rows_of(1))
    return aged(directory, hours)


@pytest.fixture
def scored(tmp_path: Path) -> Path:
    lake = write_lake(tmp_path / "lake", "2014-01", "2014-02")
    pc.score(model(), lake, tmp_path / "scored")
    return tmp_path / "scored"


@pytest.fixture
def delta(tmp_path: Path) -> Path:
    """A Delta table of two versions, the older of which had another file."""
    lake = write_lake(tmp_path / "lake", "2014-01", "2014-02")
    place = pc.TableRef(str(tmp_path / "scored"), format="delta")
    pc.score(model(), lake, place)
    pc.score(model(51), lake, place, partition={"month": "2014-01"})
    return tmp_path / "scored"


def test_staging_directories_beside_and_in_a_table(scored: Path) -> None:
    kept = [
        staging(scored.parent, "scored", 23),
        staging(scored.parent, "scored2", 100),
        staging(scored.parent, "other", 100),
        aged(write_rows(scored.parent / "_staging-scored-mine", rows_of(1)), 100),
    ]
    before = contents(scored)
    left = [staging(scored.parent, "scored", 25), staging(scored, "scored", 25)]
    shown = pc.clean_table(scored, dry_run=True)
    assert [each.path for each in shown] == [str(path) for path in left]
    assert all(path.is_dir() for path in left)
    assert shown[0].bytes == sum(path.stat().st_size for path in left[0].rglob("*.parquet"))
    removed = pc.clean_table(scored)
    assert [each.path for each in removed] == [str(path) for path in left]
    assert not any(path.exists() for path in left)
    assert all(path.is_dir() for path in kept)
    assert contents(scored) == before
    assert [each.path for each in pc.clean_table(scored, older_than=AT_ONCE)] == [str(kept[0])]
    removed[0].remove()  # once more, as another cleaner might


def test_what_a_killed_first_attempt_left(tmp_path: Path) -> None:
    left = staging(tmp_path, "scored.parquet", 25)
    assert len(pc.clean_table(tmp_path / "scored.parquet")) == 1
    assert not left.exists()
    with pytest.raises(pc.TableError, match=r"scored\.parquet does not exist"):
        pc.clean_table(tmp_path / "scored.parquet")


def test_the_only_copy_of_a_partition_is_no_leftover(scored: Path) -> None:
    """Where two renames make a commit, a writer may be killed between them."""
    directory = staging(scored.parent, "scored", 25)
    (scored / "month=2014-01").rename(directory / "content.old")
    aged(directory, 25)
    assert pc.clean_table(scored) == []
    (directory / "content").rename(scored / "month=2014-01")
    aged(directory, 25)
    assert [each.path for each in pc.clean_table(scored)] == [str(directory)]


@pytest.mark.parametrize("checkpointed", [False, True])
def test_files_that_no_version_of_a_delta_table_names(delta: Path, checkpointed: bool) -> None:
    write_deltalake(delta, DeltaTable(delta).to_pyarrow_table(), mode="append")
    if checkpointed:
        DeltaTable(delta).create_checkpoint()
    some = next(delta.rglob("*.parquet")).read_bytes()
    left = [
        delta / "_delta_log" / f"{4:020}.json#1",
        delta / "month=2014-01" / f"part-{uuid.uuid4().hex}.parquet",
        delta / "month=2014-02" / f"part-{uuid.uuid4().hex}.parquet#1",
    ]
    kept = [
        delta / "month=2014-01" / f"part-{uuid.uuid4().hex}.parquet",
        delta / "month=2014-01" / f"part-00000-{uuid.uuid4()}-c000.snappy.parquet",
        delta / "notes.txt",
    ]
    for path in (*left, *kept):
        path.write_bytes(some)
    aged(delta, 100)
    os.utime(kept[0])
    before = contents(delta)
    removed = pc.clean_table(delta)
    assert [each.path for each in removed] == [str(path) for path in left]
    assert before.keys() - contents(delta).keys() == {
        path.relative_to(delta).as_posix() for path in left
    }
    versions = [DeltaTable(delta, version=number) for number in range(4)]
    assert [each.to_pyarrow_table().num_rows for each in versions] == [47, 94, 94, 188]
    assert [each.path for each in pc.clean_table(delta, older_than=AT_ONCE)] == [str(kept[0])]


def test_a_log_whose_old_entries_are_gone_still_tells(delta: Path) -> None:
    DeltaTable(delta).create_checkpoint()
    for entry in (delta / "_delta_log").glob("*[01].json"):
        entry.unlink()
    assert DeltaTable(delta).version() == 2
    before = contents(delta)
    standing = {Path(path).name for path in DeltaTable(delta).file_uris()}
    removed = pc.clean_table(delta, older_than=AT_ONCE)
    assert not standing & {Path(each.path).name for each in removed}
    assert pc.open_table(delta).plan().rows == 94
    assert before.keys() - contents(delta).keys() == {
        Path(each.path).relative_to(delta).as_posix() for each in removed
    }


def test_what_cannot_be_cleaned(scored: Path) -> None:
    with pytest.raises(pc.TableError, match="at all versions at once"):
        pc.clean_table(pc.TableRef(str(scored), version=3))
    with pytest.raises(pc.TableError, match="is not a Delta table"):
        pc.clean_table(pc.TableRef(str(scored), format="delta"))
