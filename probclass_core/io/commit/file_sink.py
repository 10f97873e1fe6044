"""Write one file on a local disk: staged next to its place, and put there by a rename.

Readers see the old file or the new one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from probclass_core.arrow.types import value_type
from probclass_core.errors import TableMismatchError
from probclass_core.io.failures import translate_write_errors
from probclass_core.io.local_files import put_in_place, staging_folder, sync, sync_names
from probclass_core.io.references import TableRef
from probclass_core.io.sink import Sink, StagedPart, StagedPartition


class BatchWriter(Protocol):
    """A writer of a file, such as those of pyarrow's modules ``ipc``, ``csv`` and ``parquet``."""

    def write_batch(self, batch: pa.RecordBatch) -> None: ...


class FileSink(Sink):
    """A table of one local file. A format defines `open_writer`, and `commits` if it keeps records.

    Args:
        ref: path of the file.
        partition: values of partition columns; a file has none.

    Raises:
        TableError: if the path is that of a directory or on an object store, or there is a
            partition.
    """

    def __init__(self, ref: TableRef, partition: Mapping[str, Any]) -> None:
        super().__init__(ref, partition)
        if "://" in ref.uri:
            raise TableMismatchError(
                f"{ref.uri}: a single file cannot be written on an object store; name a local "
                "file, or a directory of Parquet files."
            )
        if partition:
            raise TableMismatchError(
                f"{ref.uri} is a file and cannot have partitions; name a directory."
            )
        self.path = Path(ref.uri).resolve()  # a link stays, and its target is replaced
        if self.path.is_dir():
            raise TableMismatchError(
                f"{ref.uri} is a directory; write to another directory, or name a file."
            )

    @property
    def location(self) -> str:
        return str(self.path)

    @property
    def exists(self) -> bool:
        return self.path.exists()

    def open_writer(
        self, path: Path, schema: pa.Schema, commit: Mapping[str, Any]
    ) -> AbstractContextManager[BatchWriter]:
        """Open a new file for rows; leaving the context completes the file.

        Args:
            path: path of the new file, with the name of the table.
            schema: schema of the rows, without dictionaries.
            commit: record to store with the rows.
        """
        raise NotImplementedError

    def new_part(self, path: Path, schema: pa.Schema, commit: Mapping[str, Any]) -> StagedPart:
        """The staged file; arguments as of `open_writer`."""
        return FilePart(self, path, schema, commit)

    @contextmanager
    def stage(
        self, schema: pa.Schema, commit: Mapping[str, Any], *, append: bool = False
    ) -> Iterator[StagedFile]:
        with staging_folder(self.path) as folder:
            path = folder / self.path.name
            with closing(StagedFile(self, path, self.new_part(path, schema, commit))) as staged:
                yield staged


class StagedFile(StagedPartition):
    """A file that is being written."""

    def __init__(self, sink: FileSink, path: Path, part: StagedPart) -> None:
        self._sink = sink
        self._path = path
        self.part = part

    def publish(self, summary: Mapping[str, Any] | None = None) -> None:
        self.part.finish(summary)
        with translate_write_errors(self._sink.location):
            sync(self._path)
            put_in_place(self._path, self._sink.path)
            sync_names(self._sink.path)


class FilePart(StagedPart):
    """The rows of a `FileSink`, in one file; also without rows there is a file."""

    def __init__(
        self, sink: FileSink, path: Path, schema: pa.Schema, commit: Mapping[str, Any]
    ) -> None:
        self.rows = 0
        self._sink, self._path, self._commit = sink, path, dict(commit)
        self._schema = pa.schema([field.with_type(value_type(field.type)) for field in schema])
        self._writer: BatchWriter | None = None
        self._context = ExitStack()
        self._finished = False

    def write(self, batch: pa.RecordBatch) -> None:
        with translate_write_errors(self._sink.location):
            self._open().write_batch(batch.cast(self._schema))
        self.rows += batch.num_rows

    def finish(self, summary: Mapping[str, Any] | None = None) -> int:
        if not self._finished:
            with translate_write_errors(self._sink.location):
                self._open()
                self._context.close()
            self._finished = True
        return self.rows

    def adopt(self, finished: Any) -> None:
        self.rows, self._finished = finished, True

    def close(self) -> None:
        with suppress(OSError, pa.ArrowException):  # a finished file is already closed
            self._context.close()

    def _open(self) -> BatchWriter:
        if self._writer is None:
            opened = self._sink.open_writer(self._path, self._schema, self._commit)
            self._writer = self._context.enter_context(opened)
        return self._writer
