"""A partition written aside, checked, and put in place at once.

Nothing under a partition's own name changes before the commit. Rows go to a staging directory whose
name no reader looks at; the commit closes and syncs the files, reads their footers back, adds the
commit record and ``_SUCCESS``, and lets the directory take the partition's place in one step
(`swap`). An attempt that dies leaves its staging directory behind and nothing else; two attempts
each have their own.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from probclass_core.arrays import BATCH_ROWS
from probclass_core.errors import TableError
from probclass_core.tables.swap import put_in_place

COMMIT_FILE = "_commit.json"
SUCCESS_FILE = "_SUCCESS"
DATA_FILE = "part-0.parquet"
STAGING = "_staging"

_COMMIT_KEY = b"probclass.commit"
_ROW_GROUP = 4 * BATCH_ROWS


class ParquetSink:
    """Where one partition (or one whole unpartitioned table) is to stand.

    Args:
        root: directory of the table, or a single ``.parquet`` file.
        partition: values of the partition columns, outermost first; none replaces the whole table.

    Raises:
        TableError: the path holds something that a table must not replace.
    """

    def __init__(self, root: Path, partition: Mapping[str, Any] | None = None) -> None:
        self.root = root
        self.partition = dict(partition or {})
        self.is_file = root.suffix == ".parquet" and not root.is_dir()
        if self.is_file and self.partition:
            raise TableError(f"{root} is one file and cannot hold partitions; name a directory.")
        self.target = root.joinpath(*(_segment(*item) for item in self.partition.items()))
        self._check_target()

    def _check_target(self) -> None:
        # A partition goes beside its like, a whole table where no partitions are.
        level = self.root
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
            if self.is_file:
                footer = pq.read_metadata(self.root)
                record: dict[str, Any] = json.loads((footer.metadata or {})[_COMMIT_KEY])
                return {**record, "rows": footer.num_rows}
            record = json.loads((self.target / COMMIT_FILE).read_text(encoding="utf-8"))
            whole = (self.target / DATA_FILE).stat().st_size == record["bytes"]
        except (OSError, KeyError, ValueError, pa.ArrowException):
            return None
        return record if whole else None

    @contextmanager
    def stage(self, schema: pa.Schema, commit: Mapping[str, Any]) -> Iterator[Staged]:
        """Write aside; leaving the block without `Staged.publish` leaves everything as it was.

        Args:
            schema: of the rows, without the partition columns.
            commit: the record to keep beside them; row and byte counts are added.

        Raises:
            TableError: the place cannot be written.
        """
        where = self.target.parent if self.is_file or not self.partition else self.root
        try:
            where.mkdir(parents=True, exist_ok=True)
            area = where / STAGING
            directory = area / uuid.uuid4().hex
            directory.mkdir(parents=True)
        except OSError as error:
            raise TableError(f"cannot write to {where}: {error.strerror}.") from error
        try:
            with Staged(self, directory, schema, commit) as staged:
                yield staged
        finally:
            shutil.rmtree(directory, ignore_errors=True)
            _remove_if_empty(area)


class Staged:
    """A partition in the making."""

    def __init__(
        self, sink: ParquetSink, directory: Path, schema: pa.Schema, commit: Mapping[str, Any]
    ) -> None:
        self.rows = 0
        self._sink = sink
        self._commit = dict(commit)
        self._content = directory / "content"
        self._content.mkdir()
        self._file = self._content / (sink.root.name if sink.is_file else DATA_FILE)
        metadata = {**(schema.metadata or {})}
        if sink.is_file:
            metadata[_COMMIT_KEY] = json.dumps(self._commit, sort_keys=True).encode()
        self._schema = schema.with_metadata(metadata)
        self._pending: list[pa.RecordBatch] = []
        # Dictionary pages pay for text and cost time for floats that never repeat.
        text = [column.name for column in schema if not pa.types.is_floating(column.type)]
        with self._disk():
            self._writer = pq.ParquetWriter(self._file, self._schema, use_dictionary=text)

    def __enter__(self) -> Staged:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._pending.clear()
        try:
            self._writer.close()
        except (OSError, pa.ArrowException) as failure:
            if error is None:
                raise self._cannot_write(failure) from failure

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows.

        Raises:
            TableError: the disk is full or the like.
        """
        self.rows += batch.num_rows
        self._pending.append(batch)
        if sum(part.num_rows for part in self._pending) >= _ROW_GROUP:
            self._flush()

    def publish(self) -> dict[str, Any]:
        """Check what was written and put it in place: the commit.

        Returns:
            The commit record as it stands beside the rows.

        Raises:
            TableError: the files do not hold what was written, or the place cannot be taken.
        """
        self._flush()
        with self._disk():
            self._writer.close()
            held = pq.read_metadata(self._file).num_rows
            if held != self.rows:
                raise TableError(f"{self._file} holds {held} rows of {self.rows} written.")
            _sync(self._file)
            record = {**self._commit, "rows": self.rows, "bytes": self._file.stat().st_size}
            if self._sink.is_file:
                put_in_place(self._file, self._sink.root)
            else:
                self._seal(record)
                self._sink.target.parent.mkdir(parents=True, exist_ok=True)
                put_in_place(self._content, self._sink.target)
            _sync(self._sink.target.parent)
        return record

    def _seal(self, record: Mapping[str, Any]) -> None:
        commit = self._content / COMMIT_FILE
        commit.write_text(json.dumps(record, indent=2, sort_keys=True) + "\n", encoding="utf-8")
        _sync(commit)
        (self._content / SUCCESS_FILE).touch()
        _sync(self._content)

    def _flush(self) -> None:
        if self._pending:
            table = pa.Table.from_batches(self._pending).replace_schema_metadata(
                self._schema.metadata
            )
            self._pending.clear()
            with self._disk():
                self._writer.write_table(table, row_group_size=_ROW_GROUP)

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
    """The directory of a partition value, escaped as Hive does."""
    if value is None:
        return f"{name}=__HIVE_DEFAULT_PARTITION__"
    return f"{name}={quote(str(value), safe=' -_.~')}"


def _entries(directory: Path) -> list[Path]:
    """What a reader would see in a directory; nothing where there is none."""
    if not directory.is_dir():
        return []
    return sorted(entry for entry in directory.iterdir() if not entry.name.startswith(("_", ".")))


def _remove_if_empty(directory: Path) -> None:
    try:
        directory.rmdir()
    except OSError:
        return  # another attempt is writing there


def _sync(path: Path) -> None:
    """Make a file or directory entry survive a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
