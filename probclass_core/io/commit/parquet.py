"""What commits to Parquet share: a file with its commit record, and the types of its columns."""

from __future__ import annotations

import copy
import json
from abc import abstractmethod
from collections.abc import Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow.fs import FileSystem, LocalFileSystem

from probclass_core.arrow.arrays import BATCH_ROWS
from probclass_core.arrow.types import common_type, map_type
from probclass_core.errors import TableError, TableMismatchError, one_line, one_of
from probclass_core.io.failures import retry, translate_write_errors
from probclass_core.io.sink import ColumnChanges, Sink, StagedPart

COMMIT_KEY = "probclass.commit"
"""Key of a commit record in footers and in logs."""

SUMMARY_KEY = "probclass.summary"
"""Key of those entries of a commit record in a footer that are known once the rows are written."""

_ROW_GROUP = BATCH_ROWS

_SAMPLE = 2048
"""Rows of a column that are looked at to decide whether it is written with a dictionary."""


DATA_FILE = r"(?:.*/)?part-[0-9a-f]{32}\.parquet"
"""Regular expression for the paths of data files that `LogSink` writes."""

_SIGNED = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64()}


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


class EvolvingSink(Sink):
    """Base of sinks that compare rows with the columns of their table, which may gain columns."""

    appends = True
    _may_add: frozenset[str] | None = None

    def sibling(self, partition: Mapping[str, Any]) -> Self:
        sibling = copy.copy(self)
        sibling._open(partition)
        return sibling

    @abstractmethod
    def _open(self, partition: Mapping[str, Any]) -> None:
        """Take a partition, which is checked, in place of that before."""

    def evolving(self, columns: Collection[str]) -> Self:
        evolving = copy.copy(self)
        evolving._may_add = frozenset(columns)
        return evolving

    def compare_columns(
        self, uri: str, rows: pa.Schema, table: pa.Schema | None, *, exact_types: bool = True
    ) -> ColumnChanges:
        """Compare the columns of rows with those of a table, in any order.

        The columns from ``prediction``, or ``log_density`` without a label, to ``model_id`` are
        those of a scoring, and are never added nor left out.

        Args:
            uri: path or URI of the table, for messages.
            rows: schema of the rows, without the partition columns.
            table: schema of the table, with or without the partition columns; None if it does not
                exist.
            exact_types: whether the table has one schema. Types must then be equal or, if columns
                may be added, of a kind: numbers, or nothing but nulls. Otherwise, as in a directory
                of files with a schema each, they must have a common type.

        Raises:
            TableMismatchError: if the table cannot take the rows.
        """
        if table is None:
            return ColumnChanges()
        evolves = self._may_add is not None
        added = [name for name in rows.names if name not in table.names]
        for name in added:
            if name not in (self._may_add or ()):
                hint = "A scored column, as of a new class, is not added: write another table, "
                hint += "such as one with posterior='list', which takes any classes."
                if not evolves:
                    hint = "Add it with schema='evolve', leave it out with columns=, or write "
                    hint += "another table."
                raise TableMismatchError(
                    f"{uri} has no column {name!r}; it has {one_of(table.names)}. {hint}"
                )
            twins = [other for other in table.names if other.lower() == name.lower()]
            if twins:
                raise TableMismatchError(
                    f"column {name!r} differs from {twins[0]!r} of {uri} by upper and lower case "
                    "only, which many readers do not tell apart; rename it, or leave it out with "
                    "columns=."
                )
        for column in rows:
            expected = column.type if column.name in added else table.field(column.name).type
            if expected == column.type:
                continue
            fits = is_of_a_kind(column.type, expected) if evolves else False
            if not fits and (exact_types or common_type([expected, column.type]) is None):
                raise TableMismatchError(
                    f"column {column.name!r} is {column.type} here and {expected} in {uri}; cast "
                    "it, or write another table."
                )
        written = {*rows.names, *self.partition}
        absent = [name for name in table.names if name not in written]
        names = list(table.names)
        first = "prediction" if "prediction" in names else "log_density"
        scored = range(*(names.index(name) if name in names else 0 for name in (first, "model_id")))
        refused = [
            name
            for name in absent
            if not evolves or names.index(name) in scored or not table.field(name).nullable
        ]
        if refused:
            raise TableMismatchError(
                f"{uri} also has {one_of(refused)}, which these rows lack; write another table."
            )
        return ColumnChanges(tuple(added), tuple(absent))


def is_of_a_kind(kind: pa.DataType, other: pa.DataType) -> bool:
    """Whether values of one type may be exactly representable in the other: numbers, or nulls."""

    def is_number(one: pa.DataType) -> bool:
        return bool(pa.types.is_integer(one) or pa.types.is_floating(one))

    return bool(pa.types.is_null(kind)) or (is_number(kind) and is_number(other))


def cast_exactly(column: pa.Array, field: pa.Field, location: str) -> pa.Array:
    """Cast values to the type of a table's column.

    Args:
        column: the values.
        field: the column of the table.
        location: path or URI of the table, for messages.

    Raises:
        TableMismatchError: if a value is not exactly representable in that type.
    """
    if column.type == field.type and (field.nullable or not column.null_count):
        return column
    try:
        if not field.nullable and column.null_count:
            raise ValueError("null, where the table allows none")
        cast = column.cast(field.type)
    except ValueError as error:
        reason = f": {one_line(error)}"
    else:
        # The only cast of Arrow here that rounds without an error.
        floats = pa.types.is_floating(column.type) and pa.types.is_floating(field.type)
        if not floats or field.type.bit_width >= column.type.bit_width:
            return cast
        back = cast.cast(column.type)
        changed = pc.and_(pc.is_finite(column), pc.not_equal(column, back))
        if not pc.any(changed).as_py():
            return cast
        first = column.filter(changed)[0]
        reason = f": {first} would become {back.filter(changed)[0]}"
    raise TableMismatchError(
        f"cannot write {location}: column {field.name!r} is {column.type} here and {field.type} in "
        f"the table, and a value does not fit{reason}; cast it, or write another table."
    )


def portable_schema(schema: pa.Schema, *, narrowest_int: int = 8) -> pa.Schema:
    """Return the schema in types that Delta, Iceberg and their readers share.

    Dictionaries become their values, unsigned integers the next wider signed ones, timestamps
    have microseconds, and timestamps with a time zone are stored as UTC.

    Args:
        schema: schema of the rows.
        narrowest_int: bits of the narrowest integer type of the format.

    Raises:
        TableError: if a column has a type without a portable counterpart.
    """

    def portable(column: pa.Field) -> pa.Field:
        return column.with_type(
            map_type(column.type, lambda kind: _portable_type(column.name, kind, narrowest_int))
        )

    return pa.schema([portable(column) for column in schema])


def _portable_type(name: str, kind: pa.DataType, narrowest_int: int) -> pa.DataType:
    """The portable counterpart of a type whose nested types are portable already."""
    if pa.types.is_dictionary(kind):
        return kind.value_type
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_float16(kind):
        return pa.float32()
    kind = _SIGNED.get(kind, kind)
    if pa.types.is_signed_integer(kind) and kind.bit_width < narrowest_int:
        return pa.int32()
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", None if kind.tz is None else "UTC")
    if pa.types.is_date64(kind):
        return pa.date32()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(kind.value_type)
    is_portable = (
        pa.types.is_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_signed_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_date32(kind)
        or pa.types.is_decimal128(kind)
        or pa.types.is_struct(kind)
    )
    if not is_portable:
        raise TableMismatchError(
            f"column {name!r} is {kind}, which this format cannot store; cast it, or leave it out "
            "of the columns to keep."
        )
    return kind
