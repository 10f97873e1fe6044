"""Full disks, missing permissions, lost and damaged files: one-line errors, old rows intact."""

from __future__ import annotations

import os
import random
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from backends import BACKENDS
from monthly_lake import model, rows_of
from permissions import as_nobody, make_readable
from reading import read_rows
from refusals import refused
from scored_lakes import FORMATS, MONTH, SEEDS, replace_new, score, set_up, states

import probclass_core as pc
from probclass_core.errors import TableError

MANY = 50_000
FLIPS = int(os.environ.get("PROBCLASS_KILLS", "2"))
"""Bits to flip in each column of a file."""


@pytest.fixture(params=FORMATS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def folder(tmp_path: Path, name: str) -> Path:
    """The lakes and the scored table, in a directory that every user can read."""
    make_readable(tmp_path)
    set_up(tmp_path, sink_in(tmp_path, name))
    return tmp_path


def sink_in(folder: Path, name: str) -> pc.TableRef:
    return BACKENDS[name](folder).ref("scored")


def read_partition(folder: Path, name: str) -> pa.Table:
    """Read the partition of the scored table that is to be replaced."""
    return read_rows(sink_in(folder, name), partition=MONTH)


def data_file(folder: Path, name: str) -> Path:
    """Return the only file of that partition."""
    files = pc.inspect_table(sink_in(folder, name), partition=MONTH).files
    assert files is not None
    [file] = files
    return next(path for path in folder.rglob("*.parquet") if str(path).endswith(file.path))


def error_line(action: Callable[[], object]) -> str:
    """Return the error of an action, which must be one line."""
    with refused(TableError, ".") as caught:
        action()
    return str(caught.value)


def scoring_error(folder: Path, name: str) -> str:
    """Score, which must fail and leave the old rows only, and return the error."""
    line = error_line(lambda: score(folder, sink_in(folder, name), "new"))
    assert states(folder, name) == {"old"}
    return line


def assert_no_leftovers(folder: Path, name: str) -> None:
    assert pc.clean_table(sink_in(folder, name), older_than=timedelta(0), dry_run=True) == []


def assert_scored_again(folder: Path, name: str) -> None:
    assert score(folder, sink_in(folder, name), "new").counts["unchanged"] == 0
    assert states(folder, name) == {"new"}
    assert_no_leftovers(folder, name)


@contextmanager
def directory_modes(folder: Path, mode: int) -> Iterator[None]:
    """Set the mode of the directories of the scored table, and make its parent read-only."""
    scored = folder / ("air" if (folder / "air").exists() else "scored")
    directories = [folder, scored, *(path for path in scored.rglob("*") if path.is_dir())]
    for directory in reversed(directories):
        directory.chmod(mode if directory != folder else 0o555)
    try:
        with as_nobody():
            yield
    finally:
        for directory in directories:
            directory.chmod(0o755)


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """Limit the size of every file, in bytes."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.services
def test_a_full_disk(tmp_path: Path, name: str) -> None:
    map_user = [] if os.geteuid() == 0 else ["--map-root-user"]
    script = Path(__file__).with_name("score_on_a_full_disk.py")
    process = subprocess.run(
        ["unshare", "--mount", *map_user, sys.executable, script, tmp_path, name],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    [line] = process.stdout.splitlines()
    assert re.search(r"cannot write .*No space left.*the existing data is unchanged", line)


def test_a_file_size_limit(folder: Path, name: str) -> None:
    replace_new(folder, MANY)
    with file_size_limit(300_000):
        line = scoring_error(folder, name)
    assert re.search(r"cannot write .*(File too large|EFBIG).*the existing data is unchanged", line)
    replace_new(folder)
    assert_scored_again(folder, name)


def test_a_read_only_table(folder: Path, name: str) -> None:
    with directory_modes(folder, 0o555):
        assert "ermission denied" in scoring_error(folder, name)
    assert_no_leftovers(folder, name)
    assert_scored_again(folder, name)


def test_a_table_without_read_permission(folder: Path, name: str) -> None:
    with directory_modes(folder, 0o000):
        line = error_line(lambda: pc.open_table(sink_in(folder, name)).plan())
    assert "ermission denied" in line
    assert states(folder, name) == {"old"}


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "truncated": lambda content: content[: len(content) * 3 // 4],
    "no footer": lambda content: content[:-8] + bytes(8),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_footer(folder: Path, name: str, damage: str) -> None:
    path = data_file(folder, name)
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    line = error_line(lambda: read_partition(folder, name))
    assert re.search(rf"cannot read .*{re.escape(path.name)}", line)
    assert_scored_again(folder, name)


def test_a_source_file_deleted_while_it_is_scored(folder: Path, name: str) -> None:
    first = replace_new(folder)
    for number in range(200):  # 64 small files are read at once, and a few batches ahead
        shutil.copy(first, first.with_name(f"rows-{number}.parquet"))
    lost = first.with_name("second.parquet")
    pq.write_table(rows_of(3, MANY), lost)

    def delete(done: int, total: int | None) -> None:
        lost.unlink(missing_ok=True)

    scoring = model(SEEDS["new"]), folder / "new", sink_in(folder, name)
    line = error_line(lambda: pc.score(*scoring, partition=MONTH, workers=1, progress=delete))
    assert re.search(r"(cannot read .*second\.parquet|second\.parquet has changed)", line)
    assert states(folder, name) == {"old"}
    assert_no_leftovers(folder, name)


def test_a_flipped_bit_in_a_page_is_never_read_as_another_value(folder: Path, name: str) -> None:
    path = data_file(folder, name)
    content, expected, footer = (
        path.read_bytes(),
        read_partition(folder, name),
        pq.read_metadata(path),
    )
    rng = random.Random(0)
    lines: list[str] = []
    for number in range(footer.num_columns):
        column = footer.row_group(0).column(number)
        start = column.dictionary_page_offset or column.data_page_offset
        for _ in range(FLIPS):
            damaged = bytearray(content)
            position = start + rng.randrange(column.total_compressed_size)
            damaged[position] ^= 1 << rng.randrange(8)
            path.write_bytes(damaged)
            try:
                rows = read_partition(folder, name)
            except TableError as error:
                lines.append(str(error))
            else:
                # Readers do not need every bit of a page header.
                assert rows.equals(expected)
    assert all(re.search(rf"cannot read .*{re.escape(path.name)}[^\n]*$", line) for line in lines)
    assert len(lines) > 0.6 * FLIPS * footer.num_columns
