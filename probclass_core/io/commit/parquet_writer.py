"""Write the rows of a commit to Parquet files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow.fs import FileSystem, LocalFileSystem

from probclass_core.arrow.arrays import BATCH_ROWS
from probclass_core.errors import TableError
from probclass_core.io.failures import retry, translate_write_errors
from probclass_core.io.sink import StagedPart

COMMIT_KEY = "probclass.commit"
"""Key of a commit record in footers and in logs."""

SUMMARY_KEY = "probclass.summary"
"""Key of those entries of a commit record in a footer that are known once the rows are written."""

_ROW_GROUP = BATCH_ROWS

_SAMPLE = 2048
"""Rows of a column that are looked at to decide whether it is written with a dictionary."""


DATA_FILE = r"(?:.*/)?part-[0-9a-f]{32}\.parquet"
"""Regular expression for the paths of data files that `LogSink` writes."""


class ParquetPart(StagedPart):
    """The Parquet file of a commit; a row group is written while the next one is collected.

    The file is created with its first rows. Until then the object can be pickled; see
    `io.sink.StagedPart`.

    Args:
        path: path of the new file.
        schema: schema of the rows.
        commit: record of plain values for the footer of the file.
        location: path or URI of the partition, for messages.
        filesystem: file system of the path; the local one by default.
        codec: compression of the pages.
    """

    def __init__(
        self,
        path: str | Path,
        schema: pa.Schema,
        commit: Mapping[str, Any],
        *,
        location: str,
        filesystem: FileSystem | None = None,
        codec: str = "snappy",
    ) -> None:
        self.rows = 0
        self.path = path
        self._codec = codec
        self._location = location
        self._filesystem = filesystem
        record = json.dumps(commit, sort_keys=True).encode()
        # Between processes, the fields inside maps lose their names, which the file contains.
        plain = pa.ipc.read_schema(schema.serialize())
        self._schema = plain.with_metadata({**(schema.metadata or {}), COMMIT_KEY.encode(): record})
        self._pending: list[pa.RecordBatch] = []
        self._footer: pq.FileMetaData | None = None
        self._writer: pq.ParquetWriter | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._being_written: Future[None] | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        self._pending.append(batch)
        self._open()
        self.rows += batch.num_rows
        if sum(pending.num_rows for pending in self._pending) >= _ROW_GROUP:
            self._flush()

    def finish(self, summary: Mapping[str, Any] | None = None) -> pq.FileMetaData | None:
        """Write the pending rows, close the file and read its footer back.

        Returns:
            The footer. A part without rows creates its file here.
        """
        if self._footer is not None:
            return self._footer
        self._flush()
        self._wait()
        with translate_write_errors(self._location):
            writer = self._open()
            if summary:
                text = json.dumps(summary, sort_keys=True)
                writer.add_key_value_metadata({SUMMARY_KEY: text})
            writer.close()
            footer = retry(lambda: pq.read_metadata(self._file(), filesystem=self._filesystem))
        if footer.num_rows != self.rows:
            raise TableError(
                f"{self.path} contains {footer.num_rows} rows, but {self.rows} were written."
            )
        self._footer = footer
        return footer

    def adopt(self, finished: Any) -> None:
        self.rows, self._footer = finished.num_rows, finished

    def close(self) -> None:
        self._pending.clear()
        if self._thread is not None:
            self._thread.shutdown()
        with suppress(OSError, pa.ArrowException):  # a finished file is already closed
            if self._writer is not None:
                self._writer.close()

    def _file(self) -> Any:
        """The path of the file, or the open file."""
        return self.path

    def _open(self) -> pq.ParquetWriter:
        if self._writer is None:
            columns = self._pending[0].columns if self._pending else []
            named = zip(self._schema.names, columns, strict=False)
            encoded = [name for name, column in named if _values_repeat(column)]
            with translate_write_errors(self._location):
                if isinstance(self._filesystem, LocalFileSystem):
                    # pyiceberg's own class creates folders, but pickles as a plain one.
                    folder = str(self.path).rpartition("/")[0]
                    self._filesystem.create_dir(folder, recursive=True)
                self._writer = pq.ParquetWriter(
                    self._file(),
                    self._schema,
                    use_dictionary=encoded,
                    compression=self._codec,
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
            self._wait()
            if self._thread is None:
                self._thread = ThreadPoolExecutor(1, thread_name_prefix="probclass-write")
            self._being_written = self._thread.submit(
                self._open().write_table, table, row_group_size=_ROW_GROUP
            )

    def _wait(self) -> None:
        """Wait for the row group that is being written."""
        being_written, self._being_written = self._being_written, None
        if being_written is not None:
            with translate_write_errors(self._location):
                being_written.result()


def _values_repeat(column: pa.Array) -> bool:
    """Whether a dictionary page pays, in time and size: values repeat among a few of the rows."""
    if pa.types.is_dictionary(column.type):
        return True
    step = max(len(column) // _SAMPLE, 1)
    try:
        sample = column.take(pa.array(np.arange(0, len(column), step)))
        return bool(pc.count_distinct(sample).as_py() <= 0.9 * len(sample))
    except pa.ArrowNotImplementedError:  # for nested types and a few others
        return False


def read_commit_record(
    path: str | Path, filesystem: FileSystem | None = None
) -> dict[str, Any] | None:
    """Read the commit record in the footer of a Parquet file, with the ``rows`` of the file.

    Returns:
        The record, or None if the file has none or cannot be read.
    """
    try:
        footer = pq.read_metadata(path, filesystem=filesystem)
    except (OSError, ValueError, pa.ArrowException):
        return None
    record = commit_record_in(footer)
    return None if record is None else {**record, "rows": footer.num_rows}


def commit_record_in(footer: pq.FileMetaData) -> dict[str, Any] | None:
    """The commit record of a footer, or None if it has none."""
    metadata = footer.metadata or {}
    try:
        record = dict(json.loads(metadata[COMMIT_KEY.encode()]))
        return {**record, **json.loads(metadata.get(SUMMARY_KEY.encode(), "{}"))}
    except (KeyError, TypeError, ValueError):
        return None  # another writer may use the same key
