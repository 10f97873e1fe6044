"""Write one CSV file on a local disk: staged next to its place, and put there by a rename.

Readers see the old file or the new one. CSV has no place for a commit record, so nothing tells
which model and input a file came from, and scoring again writes it again.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import csv as arrow_csv

from probclass_core.arrow.types import value_type
from probclass_core.errors import TableError, TableMismatchError
from probclass_core.io.commit.swap import put_in_place
from probclass_core.io.errors import translate_write_errors
from probclass_core.io.local_files import remove_abandoned, sync, sync_names
from probclass_core.io.parquet.directory_sink import STAGING_PREFIX, staging_folders
from probclass_core.io.references import TableRef
from probclass_core.io.text.csv import default_delimiter
from probclass_core.io.text.options import TextOptions


class CsvSink:
    """A CSV file, compressed if its name says so.

    Args:
        ref: path of the file, with the option ``delimiter``.
        partition: values of partition columns; a file has none.

    Raises:
        TableError: if the path is that of a directory or on an object store, or there are
            partitions or other options.
    """

    def __init__(self, ref: TableRef, partition: Mapping[str, Any]) -> None:
        if "://" in ref.uri:
            raise TableMismatchError(
                f"{ref.uri}: a CSV file cannot be written on an object store; name a local file, "
                "or a directory of Parquet files."
            )
        if partition:
            raise TableMismatchError(
                f"{ref.uri} is a file and cannot have partitions; name a directory."
            )
        options, _ = TextOptions.separate(ref, frozenset({"delimiter"}))
        self.path = Path(ref.uri).resolve()  # a link stays, and its target is replaced
        if self.path.is_dir():
            raise TableMismatchError(
                f"{ref.uri} is a directory of text files; write to another directory, or name a "
                "file."
            )
        self.partition: Mapping[str, Any] = {}
        self.delimiter = options.delimiter or default_delimiter(ref.uri)

    @property
    def location(self) -> str:
        return str(self.path)

    @property
    def exists(self) -> bool:
        return self.path.exists()

    @property
    def commit_record(self) -> None:
        return None

    @contextmanager
    def stage(self, schema: pa.Schema, commit: Mapping[str, Any]) -> Iterator[StagedCsv]:
        for column in schema:
            if pa.types.is_nested(column.type):
                raise TableMismatchError(
                    f"{self.path}: column {column.name!r} is {column.type}, which CSV cannot "
                    "store; leave it out of the columns, or write Parquet."
                )
        folder = self.path.with_name(f"{STAGING_PREFIX}{self.path.name}-{uuid.uuid4().hex}")
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            remove_abandoned(staging_folders(self.path))
            folder.mkdir()
        except OSError as error:
            raise TableError(f"cannot write to {folder.parent}: {error.strerror}.") from error
        try:
            with closing(StagedCsv(self, folder / self.path.name, schema)) as staged:
                yield staged
        finally:
            shutil.rmtree(folder, ignore_errors=True)


class StagedCsv:
    """A CSV file that is being written."""

    def __init__(self, sink: CsvSink, path: Path, schema: pa.Schema) -> None:
        self._sink = sink
        self._part = CsvPart(path, schema, sink.delimiter, sink.location)

    @property
    def rows(self) -> int:
        return self._part.rows

    def parts(self, count: int) -> Sequence[CsvPart]:
        return [self._part]

    def publish(self, summary: Mapping[str, Any] | None = None) -> None:
        self._part.finish()  # also without rows: the file has a header
        with translate_write_errors(self._sink.location):
            sync(self._part.path)
            put_in_place(self._part.path, self._sink.path)
            sync_names(self._sink.path)

    def close(self) -> None:
        """Close the file, whether or not it is finished."""
        self._part.close()


class CsvPart:
    """The rows of a CSV file; see `io.table.StagedPart`.

    Args:
        path: path of the new file.
        schema: schema of the rows.
        delimiter: character between fields.
        location: path of the target, for messages.
    """

    def __init__(self, path: Path, schema: pa.Schema, delimiter: str, location: str) -> None:
        self.rows = 0
        self.path = path
        self._schema = pa.schema(
            [column.with_type(value_type(column.type)) for column in schema.remove_metadata()]
        )
        self._delimiter = delimiter
        self._location = location
        self._file: pa.NativeFile | None = None
        self._writer: arrow_csv.CSVWriter | None = None
        self._finished = False

    def write(self, batch: pa.RecordBatch) -> None:
        with translate_write_errors(self._location):
            self._open().write_batch(batch.replace_schema_metadata(None).cast(self._schema))
        self.rows += batch.num_rows

    def finish(self, summary: Mapping[str, Any] | None = None) -> int:
        """Finish the file; return its number of rows."""
        if not self._finished:
            with translate_write_errors(self._location):
                self._open().close()
                if self._file is not None:
                    self._file.close()
            self._finished = True
        return self.rows

    def adopt(self, finished: Any) -> None:
        self.rows, self._finished = finished, True

    def close(self) -> None:
        with suppress(OSError, pa.ArrowException):  # a finished file is already closed
            if self._writer is not None:
                self._writer.close()
            if self._file is not None:
                self._file.close()

    def _open(self) -> arrow_csv.CSVWriter:
        if self._writer is None:
            self._file = pa.output_stream(str(self.path))  # compressed as its name says
            options = arrow_csv.WriteOptions(delimiter=self._delimiter)
            self._writer = arrow_csv.CSVWriter(self._file, self._schema, write_options=options)
        return self._writer
