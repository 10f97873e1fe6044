"""Full disks, closed directories, lost and damaged files: one line each, old rows intact."""

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
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from campaign import FORMATS, MONTH, ROWS, arrange, model, one_file_of_new, rows_of, score

import probclass_core as pc

BIG = 50_000


@pytest.fixture(params=sorted(FORMATS))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def folder(tmp_path: Path, name: str) -> Path:
    """The lakes and the scored table, in a directory that anybody can read."""
    for place in (tmp_path, *tmp_path.parents):
        if place.stat().st_mode & 0o005 != 0o005:
            place.chmod(0o755)
    arrange(tmp_path, name)
    return tmp_path


def rows(folder: Path, name: str) -> pa.Table:
    """The partition of the scored table that is replaced."""
    plan = pc.open_table(FORMATS[name].place(folder)).plan(partition=MONTH)
    return pa.Table.from_batches(plan.batches(), plan.schema)


def data_file(folder: Path, name: str) -> Path:
    """The one file of that partition."""
    found = pc.inspect_table(FORMATS[name].place(folder), partition=MONTH).files
    assert found is not None
    [file] = found
    return next(path for path in folder.rglob("*.parquet") if str(path).endswith(file.path))


def refused(folder: Path, name: str) -> str:
    """Score, which must fail on one line and leave the old rows alone; the line."""
    with pytest.raises(pc.TableError) as caught:
        score(folder, name, "new")
    assert FORMATS[name].states(folder) == {"old"}
    line = str(caught.value)
    assert "\n" not in line
    return line


@contextmanager
def as_nobody() -> Iterator[None]:
    """Without root's right to write anywhere, where the tests run as root."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@contextmanager
def closed(folder: Path, mode: int) -> Iterator[None]:
    """Directories that nobody may write in, or not even look into."""
    places = [folder, *(path for path in (folder / "scored").rglob("*") if path.is_dir())]
    places.append(folder / "scored")
    for place in places:
        place.chmod(mode if place != folder else 0o555)
    try:
        with as_nobody():
            yield
    finally:
        for place in places:
            place.chmod(0o755)


@contextmanager
def short_files(free: int) -> Iterator[None]:
    """No file may grow beyond so many bytes."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (free, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_full_disk(tmp_path: Path, name: str) -> None:
    own_user = [] if os.geteuid() == 0 else ["--map-root-user"]
    script = Path(__file__).with_name("on_a_small_disk.py")
    ended = subprocess.run(
        ["unshare", "--mount", *own_user, sys.executable, script, tmp_path, name],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    [line] = ended.stdout.splitlines()
    assert re.search(r"cannot write .*No space left.*the existing data is unchanged", line)


def test_a_limit_on_files(folder: Path, name: str) -> None:
    one_file_of_new(folder, rows_of(2, BIG))
    with short_files(300_000):
        line = refused(folder, name)
    assert re.search(r"cannot write .*(File too large|EFBIG).*the existing data is unchanged", line)
    one_file_of_new(folder, rows_of(2, ROWS["new"]))
    assert score(folder, name, "new").skipped == 0
    assert FORMATS[name].states(folder) == {"new"}
    assert not FORMATS[name].strangers(folder)


def test_a_read_only_table(folder: Path, name: str) -> None:
    with closed(folder, 0o555):
        assert "ermission denied" in refused(folder, name)
    assert not FORMATS[name].strangers(folder)
    assert score(folder, name, "new").skipped == 0


def test_a_table_that_may_not_be_looked_into(folder: Path, name: str) -> None:
    with closed(folder, 0o000), pytest.raises(pc.TableError, match="ermission denied") as caught:
        pc.open_table(FORMATS[name].place(folder)).plan()
    assert "\n" not in str(caught.value)
    assert FORMATS[name].states(folder) == {"old"}


def test_a_file_that_goes_while_it_is_read(folder: Path, name: str) -> None:
    plan = pc.open_table(FORMATS[name].place(folder)).plan(partition=MONTH)
    lost = data_file(folder, name)
    lost.unlink()
    with pytest.raises(pc.TableError, match=rf"cannot read .*{re.escape(lost.name)}") as caught:
        list(plan.batches())
    assert "\n" not in str(caught.value)


def damaged_footer(content: bytes) -> bytes:
    return content[: len(content) * 3 // 4]


def no_footer(content: bytes) -> bytes:
    return content[:-8] + bytes(8)


@pytest.mark.parametrize("damage", [damaged_footer, no_footer])
def test_a_damaged_footer(folder: Path, name: str, damage: Callable[[bytes], bytes]) -> None:
    path = data_file(folder, name)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(pc.TableError, match=rf"cannot read .*{re.escape(path.name)}") as caught:
        rows(folder, name)
    assert "\n" not in str(caught.value)
    # The next scoring makes it good.
    assert score(folder, name, "new").skipped == 0
    assert FORMATS[name].states(folder) == {"new"}


def test_a_source_file_that_goes_while_it_is_scored(folder: Path, name: str) -> None:
    first = one_file_of_new(folder, rows_of(2, ROWS["new"]))
    for number in range(1, 7):  # files are opened a few batches ahead
        shutil.copy(first, first.with_name(f"rows-{number}.parquet"))
    lost = first.with_name("second.parquet")
    pq.write_table(rows_of(3, BIG), lost)

    def lose(done: int, total: int | None) -> None:
        lost.unlink(missing_ok=True)

    place = FORMATS[name].place(folder)
    with pytest.raises(pc.TableError, match=r"cannot read .*second\.parquet") as caught:
        pc.score(model("new"), folder / "new", place, partition=MONTH, workers=1, progress=lose)
    assert "\n" not in str(caught.value)
    assert FORMATS[name].states(folder) == {"old"}
    assert not FORMATS[name].strangers(folder)


def test_a_damaged_source_leaves_the_scored_table_alone(folder: Path, name: str) -> None:
    source = one_file_of_new(folder, rows_of(2, ROWS["new"]))
    source.write_bytes(damaged_footer(source.read_bytes()))
    assert re.search(r"cannot read .*rows\.parquet", refused(folder, name))


def test_a_flipped_bit_in_a_page_is_never_read_as_another_value(folder: Path, name: str) -> None:
    path = data_file(folder, name)
    content, expected, footer = path.read_bytes(), rows(folder, name), pq.read_metadata(path)
    chance = random.Random(0)
    lines: list[str] = []
    for number in range(footer.num_columns):
        column = footer.row_group(0).column(number)
        begins = column.dictionary_page_offset or column.data_page_offset
        for _ in range(3):
            damaged = bytearray(content)
            place = begins + chance.randrange(column.total_compressed_size)
            damaged[place] ^= 1 << chance.randrange(8)
            path.write_bytes(damaged)
            try:
                found = rows(folder, name)
            except pc.TableError as error:
                lines.append(str(error))
            else:
                # A bit of a page's header may tell nothing that a reader needs.
                assert found.equals(expected)
    assert all(re.search(rf"cannot read .*{re.escape(path.name)}[^\n]*$", line) for line in lines)
    assert len(lines) > 2 * footer.num_columns
