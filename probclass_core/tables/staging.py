"""A partition written aside, checked, and put in place at once.

Nothing under a partition's own name changes before the commit. Rows go to a staging directory
beside the table; the commit closes and syncs the file, reads its footer back, adds ``_SUCCESS``,
and lets the directory take the partition's place in one step (`swap`). What identifies the commit
stands in the file's footer, so that the directory holds nothing that a reader of Parquet could trip
over. An attempt that dies leaves its staging directory behind and nothing else, and a later one
removes it; two attempts each have their own.
"""

from __future__ import annotations

import json
import os
import shutil
import time
import uuid
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from probclass_core.arrays import BATCH_ROWS
from probclass_core.errors import TableError
from probclass_core.spec import category_text
from probclass_core.tables.swap import put_in_place

SUCCESS_FILE = "_SUCCESS"
DATA_FILE = "part-0.parquet"
STAGING = "_staging-"

_COMMIT_KEY = b"probclass.commit"
_ROW_GROUP = 4 * BATCH_ROWS
_ABANDONED_SECONDS = 24 * 3600


class ParquetSink:
    """Where one partition (or one whole unpartitioned table) is to stand.

    Args:
        root: directory of the table, or a single ``.parquet`` file.
        partition: values of the partition columns, outermost first; none replaces the whole table.

    Raises:
        TableError: the path holds something that a table must not replace.
    """

    def __init__(self, root: Path, partition: Mapping[str, Any] | None = None) -> None:
        self.root = root.resolve()  # a link stays, and what it points to is replaced
        self.partition = dict(partition or {})
        self.is_file = root.suffix == ".parquet" and not root.is_dir()
        if self.is_file and self.partition:
            raise TableError(f"{root} is one file and cannot hold partitions; name a directory.")
        self.target = self.root.joinpath(*(_segment(*item) for item in self.partition.items()))
        self._check_target()

    def _check_target(self) -> None:
        # A partition goes beside its like, a whole table where no partitions are.
        level = self.root
        for place in (self.root, self.target):
            if place.exists() and not self.is_file and not place.is_dir():
                raise TableError(
                    f"{place} is a file; name a directory for the scored table, or a .parquet file."
                )
        for name in self.partition:
            others = [entry for entry in _entries(level) if not entry.name.startswith(f"{name}=")]
            if others:
                raise TableError(
                    f"{level} holds {others[0].name!r} beside partitions by {name!r}; "
                    "choose another directory for the scored table."
                )
            level = level / _segment(name, self.partition[name])
        foreign = [entry for entry in _entries(self.target) if entry.suffix != ".parquet"]
        if foreign:
            raise TableError(
                f"{self.target} holds {foreign[0].name!r}, which is no part of a table written "
                "here; give the partition to replace, or another directory."
            )

    @property
    def commit(self) -> dict[str, Any] | None:
        """The commit record of what stands there; none where there is none, or it is not whole."""
        try:
            if not self.is_file and _names(self.target) != [DATA_FILE]:
                return None
            footer = pq.read_metadata(self.root if self.is_file else self.target / DATA_FILE)
            record: dict[str, Any] = json.loads((footer.metadata or {})[_COMMIT_KEY])
        except (OSError, KeyError, ValueError, pa.ArrowException):
            return None
        return {**record, "rows": footer.num_rows}

    @contextmanager
    def stage(self, schema: pa.Schema, commit: Mapping[str, Any]) -> Iterator[Staged]:
        """Write aside; leaving the block without `Staged.publish` leaves everything as it was.

        Args:
            schema: of the rows, without the partition columns.
            commit: the record to keep in the file's footer.

        Raises:
            TableError: the place cannot be written.
        """
        where = self._staging_place()
        directory = where / f"{STAGING}{uuid.uuid4().hex}"
        try:
            where.mkdir(parents=True, exist_ok=True)
            _sweep(where)
            directory.mkdir()
        except OSError as error:
            raise TableError(f"cannot write to {where}: {error.strerror}.") from error
        try:
            with Staged(self, directory, schema, commit) as staged:
                yield staged
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    def _staging_place(self) -> Path:
        """Beside the table, for polars and duckdb read every directory in it, whatever its name.

        Only where the table is a disk of its own, or nothing may be made beside it, partitions are
        staged inside.
        """
        beside = self.root.parent
        effective = os.access in os.supports_effective_ids
        writable = os.access(beside, os.W_OK, effective_ids=effective)
        alone = self.root.is_mount() or not writable
        return self.root if self.partition and self.root.is_dir() and alone else beside


class Staged:
    """A partition in the making."""

    def __init__(
        self, sink: ParquetSink, directory: Path, schema: pa.Schema, commit: Mapping[str, Any]
    ) -> None:
        self.rows = 0
        self._sink = sink
        self._content = directory / "content"
        self._content.mkdir()
        self._file = self._content / (sink.root.name if sink.is_file else DATA_FILE)
        record = json.dumps(dict(commit), sort_keys=True).encode()
        self._schema = schema.with_metadata({**(schema.metadata or {}), _COMMIT_KEY: record})
        self._pending: list[pa.RecordBatch] = []
        # Dictionary pages pay for text and cost time for floats that never repeat.
        text = [column.name for column in schema if not pa.types.is_floating(column.type)]
        with self._disk():
            self._writer = pq.ParquetWriter(self._file, self._schema, use_dictionary=text)
        # One row group is written while the next is read and scored.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="probclass-write")
        self._under_way: Future[None] | None = None

    def __enter__(self) -> Staged:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._pending.clear()
        self._thread.shutdown()
        try:
            self._writer.close()
        except (OSError, pa.ArrowException) as failure:
            if error is None:
                raise self._cannot_write(failure) from failure

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows.

        Raises:
            TableError: the disk is full or the like; it may be told of at the next row group.
        """
        self.rows += batch.num_rows
        self._pending.append(batch)
        if sum(part.num_rows for part in self._pending) >= _ROW_GROUP:
            self._flush()

    def publish(self) -> None:
        """Check what was written and put it in place: the commit.

        Raises:
            TableError: the file does not hold what was written, or the place cannot be taken.
        """
        self._flush()
        self._settle()
        with self._disk():
            self._writer.close()
            held = pq.read_metadata(self._file).num_rows
            if held != self.rows:
                raise TableError(f"{self._file} holds {held} rows of {self.rows} written.")
            _sync(self._file)
            target = self._sink.target
            target.parent.mkdir(parents=True, exist_ok=True)
            if self._sink.is_file:
                put_in_place(self._file, target)
            else:
                (self._content / SUCCESS_FILE).touch()
                _sync(self._content)
                put_in_place(self._content, target)
            _sync(target.parent)

    def _flush(self) -> None:
        if self._pending:
            table = pa.Table.from_batches(self._pending).replace_schema_metadata(
                self._schema.metadata
            )
            self._pending.clear()
            self._settle()
            self._under_way = self._thread.submit(
                self._writer.write_table, table, row_group_size=_ROW_GROUP
            )

    def _settle(self) -> None:
        """Wait for the row group that is being written."""
        under_way, self._under_way = self._under_way, None
        if under_way is not None:
            with self._disk():
                under_way.result()

    @contextmanager
    def _disk(self) -> Iterator[None]:
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            raise self._cannot_write(error) from error

    def _cannot_write(self, error: BaseException) -> TableError:
        reason = " ".join(str(error).split())
        return TableError(
            f"cannot write {self._sink.target}: {reason}; what stood there is unchanged."
        )


def _segment(name: str, value: Any) -> str:
    """The directory of a partition value, escaped as Hive does.

    Raises:
        TableError: a column whose name would hide the directory from readers, or split it.
    """
    if name.startswith(("_", ".")) or set(name) & set("/="):
        raise TableError(
            f"column {name!r} cannot name a partition: readers pass over names that begin with '_' "
            "or '.', and '/' or '=' would be misread; rename it."
        )
    if value is None:
        return f"{name}=__HIVE_DEFAULT_PARTITION__"
    return f"{name}={quote(category_text(value), safe=' -_.~')}"


def _entries(directory: Path) -> list[Path]:
    """What a reader would see in a directory; nothing where there is none."""
    if not directory.is_dir():
        return []
    return sorted(entry for entry in directory.iterdir() if not entry.name.startswith(("_", ".")))


def _names(directory: Path) -> list[str]:
    return [entry.name for entry in _entries(directory)]


def _sweep(place: Path) -> None:
    """Remove what killed attempts left behind, once it is too old to be anyone's work."""
    for directory in place.glob(f"{STAGING}*"):
        try:
            touched = max(path.stat().st_mtime for path in (directory, *directory.rglob("*")))
        except FileNotFoundError:
            continue  # another attempt has just ended
        if time.time() - touched > _ABANDONED_SECONDS:
            shutil.rmtree(directory, ignore_errors=True)


def _sync(path: Path) -> None:
    """Make a file or directory entry survive a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
