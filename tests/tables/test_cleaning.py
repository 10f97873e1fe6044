"""Cleaning removes the files that killed writers left, and nothing else."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake
from lakes import contents, write_rows
from monthly_lake import model, rows_of, write_lake

import probclass_core as pc
from probclass_core.errors import TableError
from probclass_core.io.references import Leftover

NOW = timedelta(0)


def aged(path: Path, hours: float) -> Path:
    """Set the modification time of a file or directory to some hours ago."""
    moment = time.time() - 3600 * hours
    for entry in (path, *path.rglob("*")):
        os.utime(entry, (moment, moment))
    return path


def paths(leftovers: Sequence[Leftover]) -> list[str]:
    return [leftover.path for leftover in leftovers]


def staging(parent: Path, table: str, hours: float) -> Path:
    """Create a staging directory as a killed writer of a table leaves it."""
    directory = parent / f"_staging-{table}-{uuid.uuid4().hex}"
    write_rows(directory / "content", rows_of(1))
    return aged(directory, hours)


@pytest.fixture
def scored(tmp_path: Path) -> Path:
    lake = write_lake(tmp_path / "lake", "2014-01", "2014-02")
    pc.score(model(), lake, tmp_path / "scored")
    return tmp_path / "scored"


@pytest.fixture
def delta(tmp_path: Path) -> Path:
    """A Delta table in which the second commit replaced a file of the first."""
    lake = write_lake(tmp_path / "lake", "2014-01", "2014-02")
    sink = pc.TableRef(str(tmp_path / "scored"), format="delta")
    pc.score(model(), lake, sink)
    pc.score(model(51), lake, sink, partition={"month": "2014-01"})
    return tmp_path / "scored"


def test_old_staging_directories_next_to_and_in_a_table_are_removed(scored: Path) -> None:
    kept = [
        staging(scored.parent, "scored", 23),
        staging(scored.parent, "scored2", 100),
        staging(scored.parent, "other", 100),
        aged(write_rows(scored.parent / "_staging-scored-mine", rows_of(1)), 100),
    ]
    before = contents(scored)
    old = [staging(scored.parent, "scored", 25), staging(scored, "scored", 25)]
    leftovers = pc.clean_table(scored, dry_run=True)
    assert paths(leftovers) == [str(path) for path in old]
    assert all(path.is_dir() for path in old)
    assert leftovers[0].bytes == sum(path.stat().st_size for path in old[0].rglob("*.parquet"))
    removed = pc.clean_table(scored)
    assert paths(removed) == [str(path) for path in old]
    assert not any(path.exists() for path in old)
    assert all(path.is_dir() for path in kept)
    assert contents(scored) == before
    assert paths(pc.clean_table(scored, older_than=NOW)) == [str(kept[0])]
    removed[0].remove()  # again, as if another process had removed it first


def test_leftovers_of_a_table_that_does_not_exist_are_removed(tmp_path: Path) -> None:
    leftover = staging(tmp_path, "scored.parquet", 25)
    assert len(pc.clean_table(tmp_path / "scored.parquet")) == 1
    assert not leftover.exists()
    with pytest.raises(TableError, match=r"scored\.parquet does not exist"):
        pc.clean_table(tmp_path / "scored.parquet")


def test_the_only_copy_of_a_partition_is_not_removed(scored: Path) -> None:
    """If a commit takes two renames, a writer may be killed between them."""
    directory = staging(scored.parent, "scored", 25)
    (scored / "month=2014-01").rename(directory / "content.old")
    aged(directory, 25)
    assert pc.clean_table(scored) == []
    (directory / "content").rename(scored / "month=2014-01")
    aged(directory, 25)
    assert paths(pc.clean_table(scored)) == [str(directory)]


@pytest.mark.parametrize("checkpointed", [False, True])
def test_files_that_no_version_of_a_delta_table_names_are_removed(
    delta: Path, checkpointed: bool
) -> None:
    write_deltalake(delta, DeltaTable(delta).to_pyarrow_table(), mode="append")
    if checkpointed:
        DeltaTable(delta).create_checkpoint()
    content = next(delta.rglob("*.parquet")).read_bytes()
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
        path.write_bytes(content)
    aged(delta, 100)
    os.utime(kept[0])
    before = contents(delta)
    removed = pc.clean_table(delta)
    assert paths(removed) == [str(path) for path in left]
    assert before.keys() - contents(delta).keys() == {
        path.relative_to(delta).as_posix() for path in left
    }
    versions = [DeltaTable(delta, version=number) for number in range(4)]
    assert [version.to_pyarrow_table().num_rows for version in versions] == [47, 94, 94, 188]
    assert paths(pc.clean_table(delta, older_than=NOW)) == [str(kept[0])]


def test_current_files_stay_when_the_log_has_lost_its_old_entries(delta: Path) -> None:
    DeltaTable(delta).create_checkpoint()
    for entry in (delta / "_delta_log").glob("*[01].json"):
        entry.unlink()
    assert DeltaTable(delta).version() == 2
    before = contents(delta)
    current = {Path(path).name for path in DeltaTable(delta).file_uris()}
    removed = pc.clean_table(delta, older_than=NOW)
    assert not current & {Path(path).name for path in paths(removed)}
    assert pc.open_table(delta).plan().rows == 94
    assert before.keys() - contents(delta).keys() == {
        Path(path).relative_to(delta).as_posix() for path in paths(removed)
    }


def test_a_version_or_a_wrong_format_cannot_be_cleaned(scored: Path) -> None:
    with pytest.raises(TableError, match="all versions of a table are cleaned at once"):
        pc.clean_table(pc.TableRef(str(scored), version=3))
    with pytest.raises(TableError, match="is not a Delta table"):
        pc.clean_table(pc.TableRef(str(scored), format="delta"))


def test_a_scoring_removes_old_leftovers_of_its_table(scored: Path) -> None:
    running = staging(scored.parent, "scored", 23)
    old, other = (staging(scored.parent, name, 25) for name in ("scored", "another"))
    pc.score(model(51), scored.parent / "lake", scored)
    assert [path.is_dir() for path in (running, old, other)] == [True, False, True]
