"""Write one CSV file.

CSV has no place for a commit record, so nothing tells which model and input a file came from, and
scoring again writes it again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import csv as arrow_csv

from probclass_core.arrow.types import value_type
from probclass_core.errors import TableMismatchError
from probclass_core.io.commit.file_sink import BatchWriter, FileSink
from probclass_core.io.references import TableRef
from probclass_core.io.sink import ColumnChanges
from probclass_core.io.text.csv import default_delimiter
from probclass_core.io.text.options import TextOptions


class CsvSink(FileSink):
    """A CSV file, compressed if its name says so.

    Args:
        ref: path of the file, with the option ``delimiter``.
        partition: values of partition columns; a file has none.

    Raises:
        TableError: as `FileSink`, or if there are other options.
    """

    def __init__(self, ref: TableRef, partition: Mapping[str, Any]) -> None:
        super().__init__(ref, partition)
        options, _ = TextOptions.separate(ref, frozenset({"delimiter"}))
        self.delimiter = options.delimiter or default_delimiter(ref.uri)

    def check_columns(
        self, schema: pa.Schema, replaced: Sequence[Mapping[str, Any]]
    ) -> ColumnChanges:
        for column in schema:
            if pa.types.is_nested(column.type):
                raise TableMismatchError(
                    f"{self.path}: column {column.name!r} is {column.type}, which CSV cannot "
                    "store; leave it out of the columns, or write Parquet."
                )
        return ColumnChanges()

    @contextmanager
    def open_writer(
        self, path: Path, schema: pa.Schema, commit: Mapping[str, Any]
    ) -> Iterator[BatchWriter]:
        plain = pa.schema([column.with_type(value_type(column.type)) for column in schema])
        options = arrow_csv.WriteOptions(delimiter=self.delimiter)
        with (
            pa.output_stream(str(path)) as file,  # compressed as its name says
            arrow_csv.CSVWriter(file, plain, write_options=options) as writer,
        ):
            yield _PlainBatches(writer, plain)


class _PlainBatches:
    """A writer of batches whose dictionaries become their values."""

    def __init__(self, writer: arrow_csv.CSVWriter, schema: pa.Schema) -> None:
        self._writer, self._schema = writer, schema

    def write_batch(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch.cast(self._schema))
