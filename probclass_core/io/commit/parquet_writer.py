"""Rows on their way into Parquet files, whatever table these are to be part of."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.fs import FileSystem, LocalFileSystem

from probclass_core.arrow.arrays import BATCH_ROWS
from probclass_core.errors import TableError
from probclass_core.io.errors import translate_write_errors
from probclass_core.io.retry import retry

COMMIT_KEY = "probclass.commit"
"""What a commit record is called, in footers and in logs."""

_ROW_GROUP = BATCH_ROWS


def commit_record(path: str | Path, filesystem: FileSystem | None = None) -> dict[str, Any]:
    """The commit record in a file's footer, with its ``rows``.

    Raises:
        KeyError: it has none.
        OSError, ArrowException, ValueError: it cannot be read.
    """
    footer = pq.read_metadata(path, filesystem=filesystem)
    return {**json.loads((footer.metadata or {})[COMMIT_KEY.encode()]), "rows": footer.num_rows}


def whole_commits(
    records: Iterable[Mapping[str, Any] | None],
) -> list[dict[str, Any] | None]:
    """One record of each commit whose files are all there, from the records of the files.

    None stands for a file of no commit, and for one of a commit that others are missing of.
    """
    whole: list[dict[str, Any] | None] = []
    parted: dict[str, list[Mapping[str, Any]]] = {}
    for record in records:
        if record is not None and "parts" in record:
            parted.setdefault(record["commit_id"], []).append(record)
        else:
            whole.append(None if record is None else dict(record))
    for parts in parted.values():
        commit = {key: value for key, value in parts[0].items() if key not in ("part", "parts")}
        if sorted(part["part"] for part in parts) == [*range(parts[0]["parts"])]:
            whole.append({**commit, "rows": sum(part["rows"] for part in parts)})
        else:
            whole.extend([None] * len(parts))
    return whole


def unique_names(count: int) -> list[str]:
    """Of 32 hexadecimal digits, that nobody else has; sorted, for readers go by names."""
    own = uuid.uuid4().hex[:28]
    return [f"{own}{number:04x}" for number in range(count)]


class RowsToParquet:
    """One Parquet file, written row group by row group; one is written while the next is made.

    The file is made with its first rows. Until then this pickles; see `tables.table.StagedPart`.

    Args:
        path: of the new file.
        schema: of the rows.
        commit: a record of plain values for the file's footer.
        place: where the rows are to stand in the end, for messages.
        filesystem: that the path is of; the local one by default.
        part: number of the file among those of the commit, and how many they are.
    """

    def __init__(
        self,
        path: str | Path,
        schema: pa.Schema,
        commit: Mapping[str, Any],
        *,
        place: str,
        filesystem: FileSystem | None = None,
        part: tuple[int, int] = (0, 1),
    ) -> None:
        self.rows = 0
        self.path = path
        self.number = part[0]
        self._place = place
        self._filesystem = filesystem
        one_of_many = {"part": part[0], "parts": part[1]} if part[1] > 1 else {}
        record = json.dumps({**commit, **one_of_many}, sort_keys=True).encode()
        self._schema = schema.with_metadata(
            {**(schema.metadata or {}), COMMIT_KEY.encode(): record}
        )
        self._pending: list[pa.RecordBatch] = []
        self._footer: pq.FileMetaData | None = None
        self._writer: pq.ParquetWriter | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._under_way: Future[None] | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows.

        Raises:
            TableError: the file cannot be made, the disk is full or the like; it may be told of at
                the next row group.
        """
        if not batch.num_rows:
            return
        self._opened()
        self.rows += batch.num_rows
        self._pending.append(batch)
        if sum(part.num_rows for part in self._pending) >= _ROW_GROUP:
            self._flush()

    def finish_file(self) -> pq.FileMetaData:
        """Write what is left, close the file and read its footer back.

        Returns:
            The footer.

        Raises:
            TableError: it could not be written, or does not hold what was written.
        """
        if self._footer is not None:
            return self._footer
        self._flush()
        self._settle()
        with translate_write_errors(self._place):
            self._opened().close()
            footer = retry(lambda: pq.read_metadata(self.path, filesystem=self._filesystem))
        if footer.num_rows != self.rows:
            raise TableError(f"{self.path} holds {footer.num_rows} rows of {self.rows} written.")
        self._footer = footer
        return footer

    def finish(self) -> pq.FileMetaData | None:
        """The footer; none of no rows, which make no file until it is asked for."""
        return self.finish_file() if self.rows else None

    def adopt(self, written: pq.FileMetaData | None) -> None:
        if written is not None:
            self.rows, self._footer = written.num_rows, written

    def close(self) -> None:
        self._pending.clear()
        if self._thread is not None:
            self._thread.shutdown()
        with suppress(OSError, pa.ArrowException):  # a finished file is closed already
            if self._writer is not None:
                self._writer.close()

    def _opened(self) -> pq.ParquetWriter:
        if self._writer is None:
            # Dictionary pages pay for text and cost time for floats that never repeat.
            text = [field.name for field in self._schema if not pa.types.is_floating(field.type)]
            with translate_write_errors(self._place):
                if isinstance(self._filesystem, LocalFileSystem):
                    # pyiceberg's own makes folders, and in another process it is a plain one.
                    folder = str(self.path).rpartition("/")[0]
                    self._filesystem.create_dir(folder, recursive=True)
                self._writer = pq.ParquetWriter(
                    self.path,
                    self._schema,
                    use_dictionary=text,
                    write_page_checksum=True,
                    filesystem=self._filesystem,
                )
        return self._writer

    def _flush(self) -> None:
        if self._pending:
            table = pa.Table.from_batches(self._pending).replace_schema_metadata(
                self._schema.metadata
            )
            self._pending.clear()
            self._settle()
            if self._thread is None:
                self._thread = ThreadPoolExecutor(1, thread_name_prefix="probclass-write")
            self._under_way = self._thread.submit(
                self._opened().write_table, table, row_group_size=_ROW_GROUP
            )

    def _settle(self) -> None:
        """Wait for the row group that is being written."""
        under_way, self._under_way = self._under_way, None
        if under_way is not None:
            with translate_write_errors(self._place):
                under_way.result()


class StagedParquet:
    """What is staged as Parquet files: one, or several that follow each other."""

    _parts: Sequence[RowsToParquet] = ()

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self._parts)

    def close(self) -> None:
        """Let go of the files, whatever has become of them."""
        for part in self._parts:
            part.close()
