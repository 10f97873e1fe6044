"""Text files as a table: one schema for all of them, and one unit for each."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from re import Pattern
from typing import Any, Unpack

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from probclass_core.arrow.arrays import in_slices, read_rows
from probclass_core.arrow.types import common_type
from probclass_core.errors import DataError, TableError, one_line, suggest
from probclass_core.io.errors import translate_read_errors
from probclass_core.io.filesystem import FileVersion, Location
from probclass_core.io.filters import Where, filtered_columns, parse_where
from probclass_core.io.parquet.dataset import DatasetTable
from probclass_core.io.parquet.discovery import FoundFiles, find_files
from probclass_core.io.parquet.files import PlannedFile, path_of
from probclass_core.io.parquet.partitions import partition_of, partition_values
from probclass_core.io.parquet.units import FragmentDigests
from probclass_core.io.references import TableRef
from probclass_core.io.retry import read_again, retry
from probclass_core.io.table import Plan, Query, Unit, columns_and_filter
from probclass_core.io.text.csv import CsvFormat, give_type
from probclass_core.io.text.json_lines import JsonLinesFormat
from probclass_core.io.text.options import NAMES, TextOptions

log = logging.getLogger(__name__)

_DAMAGED = re.compile(r"compressed stream|inflate|(?i:zstd|bz2|lz4|brotli)")
"""Errors of pyarrow's decompression."""

TextFormat = CsvFormat | JsonLinesFormat


_FORMATS: Mapping[str, type[TextFormat]] = {one.name: one for one in (CsvFormat, JsonLinesFormat)}


def text_table(ref: TableRef, name: str) -> TextTable:
    """Open a text file, a directory of them with or without Hive partitions, or a pattern.

    The types of columns are decided here: those of the options, and for the others the common type
    of the first and the last file that have rows, by path. They are logged.

    Args:
        ref: address of the table, with the options of the format and of the storage.
        name: name of the format; a directory with files of its usual names must have no others.

    Raises:
        TableError: if no file exists, none has rows, or one that is read here is empty or
            malformed.
        DataError: if a column has no common type, or the table lacks a column of the options.
    """
    kind = _FORMATS[name]
    options, storage = TextOptions.separate(ref, kind.supported)
    text_format = kind(options)
    found = find_files(replace(ref, options=storage), kind.title)
    _check_files(found, NAMES[name], kind.title)
    columns = _columns_of(found, text_format)
    partition_columns = found.partition_schema
    stored = [field for field in columns if field.name not in partition_columns.names]
    schema = pa.schema([*stored, *partition_columns])
    for name in options.types:
        if name not in schema.names:
            raise DataError(
                f"{found.uri} has no column {name!r}, which options give a type; it has "
                f"{suggest(name, schema.names)}"
            )
    log.info("%s: %s", found.uri, ", ".join(f"{field.name} {field.type}" for field in schema))
    return TextTable(found, text_format, schema, partition_columns)


class TextTable(DatasetTable):
    """A table of text files.

    Args:
        found: the files.
        text_format: how they are read.
        schema: all columns, those of the partitions last.
        partition_columns: the columns that folder names give.
    """

    def __init__(
        self,
        found: FoundFiles,
        text_format: TextFormat,
        schema: pa.Schema,
        partition_columns: pa.Schema,
    ) -> None:
        options = ds.FileSystemFactoryOptions()
        if partition_columns.names:
            options.partition_base_dir = found.location.path
            options.partitioning = ds.partitioning(partition_columns, flavor="hive")
        paths = [info.path for info in found.files]
        # The dataset knows paths and partitions; its own reader of text is not used.
        factory = ds.FileSystemDatasetFactory(
            found.location.filesystem, paths, ds.CsvFileFormat(), options
        )
        super().__init__(
            factory.finish(schema),
            uri=found.uri,
            location=found.location,
            partition_columns=partition_columns.names,
            state=found.state(),
        )
        self._files = found.location
        self._format = text_format
        self._stored = [name for name in schema.names if name not in partition_columns.names]

    def plan(self, columns: Sequence[str] | None = None, **query: Unpack[Query]) -> Plan:
        columns, row_filter = columns_and_filter(self.schema, columns, query)
        partition, where = query.get("partition"), parse_where(query.get("where"))
        needed = {*columns, *filtered_columns(self.schema, query)}
        stored = [name for name in self._stored if name in needed] or self._stored[:1]
        file_schema = pa.schema([self.schema.field(name) for name in stored])
        schema = pa.schema([self.schema.field(name) for name in columns])
        digests = FragmentDigests(self.uri, schema, partition, where)
        files = [
            PlannedFile(fragment, self._state(fragment), self.schema, ())
            for fragment in self._matching_fragments(partition, where)
        ]
        units = [
            TextFile(
                version=FileVersion(
                    self._files, self._files.relative(path_of(file.fragment)), file.state
                ),
                text_format=self._format,
                file_schema=file_schema,
                constants={
                    name: pa.scalar(value, self.schema.field(name).type)
                    for name, value in partition_of(file.fragment).items()
                    if name in needed
                },
                schema=schema,
                row_filter=row_filter,
                digest=digests.digest(self._row_state(file), partition_of(file.fragment), ()),
            )
            for file in files
        ]
        names = self.partition_columns
        partitions = [partition_values(file.fragment, names) for file in files] if names else ()
        return Plan(schema, units, None, self._snapshot(files), partitions=partitions)

    def parquet_files(
        self, *, partition: Mapping[str, Any] | None = None, where: Where = None
    ) -> None:
        return None

    def _row_state(self, file: PlannedFile) -> str:
        return f"{file.state}\0{self._format}"


@dataclass(frozen=True)
class TextFile(Unit):
    """A text file of a table.

    Attributes:
        version: the file in the state in which it was planned.
        text_format: how it is read.
        file_schema: columns to read from it, with their types.
        constants: value of each partition column to read.
        schema: columns of the batches: of the file, and of the partition.
        row_filter: rows to read, or None for all.
        digest: see `io.table.Unit`.
    """

    version: FileVersion
    text_format: TextFormat
    file_schema: pa.Schema
    constants: Mapping[str, pa.Scalar]
    schema: pa.Schema
    row_filter: pc.Expression | None
    digest: str | None

    def __str__(self) -> str:
        return self.version.location.uri_of(self.version.path)

    def read(self) -> Iterator[pa.RecordBatch]:
        """Read the rows; after a transient error, continue behind the last batch.

        Raises:
            TableError: if the file cannot be read, is malformed, or has changed since the plan.
            DataError: if a value does not have the type of its column.
        """
        open_stream = partial(_open_stream, self.version.location, self.version.path)
        with self.version.unchanged(), _translate_errors(str(self)):
            yield from in_slices(
                read_again(
                    lambda: map(
                        self._selected,
                        self.text_format.read(open_stream, str(self), self.file_schema),
                    ),
                    remote=self.version.location.remote,
                ),
                read_rows(self.schema),
            )

    def _selected(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Add the columns of the partition, and select the rows and columns of the plan."""
        for name, value in self.constants.items():
            batch = batch.append_column(name, pa.repeat(value, batch.num_rows))
        if self.row_filter is not None:
            batch = batch.filter(self.row_filter)
        return batch.select(self.schema.names)


def _open_stream(location: Location, path: str) -> pa.NativeFile:
    """Open a file, decompressed if its name says that it is compressed."""
    return retry(lambda: location.filesystem.open_input_stream(location.absolute(path)))


@contextmanager
def _translate_errors(location: str) -> Iterator[None]:
    """Raise TableError for errors of file systems, of Arrow and of compressed files."""
    with translate_read_errors(location):
        try:
            yield
        except OSError as error:
            if _DAMAGED.search(str(error)) is None:
                raise
            raise TableError(
                f"{location} is not a complete compressed file ({one_line(error)}); write it again."
            ) from error


def _check_files(found: FoundFiles, names: Pattern[str], title: str) -> None:
    """Refuse an empty file, and a directory with files of another format.

    Raises:
        TableError: if there is one.
    """
    usual = [info for info in found.files if names.fullmatch(info.base_name)]
    for info in found.files:
        relative = found.location.relative(info.path)
        if usual and info not in usual:
            raise TableError(
                f"{found.uri} contains {relative!r} next to {title} files; name the files by a "
                "pattern such as '*.csv', or begin the names of files that are not data with '_'."
            )
        if info.size == 0:
            raise TableError(
                f"{found.location.uri_of(relative)} is empty; write it again or remove it."
            )


def _columns_of(found: FoundFiles, text_format: TextFormat) -> pa.Schema:
    """Return the columns of the first and the last file with rows, in types common to both.

    Raises:
        TableError: if no file has rows.
        DataError: if a column has no common type.
    """
    paths = [found.location.relative(info.path) for info in found.files]
    first = _first_with_rows(found, text_format, paths)
    last = _first_with_rows(found, text_format, paths[:0:-1]) or first
    if first is None or last is None:
        raise TableError(f"{found.uri} has no rows, so the types of its columns are unknown.")
    (first_path, first_columns), (last_path, last_columns) = first, last
    types = {field.name: field.type for field in (*first_columns, *last_columns)}
    for name in {*first_columns.names} & {*last_columns.names}:
        kinds = [columns.field(name).type for columns in (first_columns, last_columns)]
        types[name] = _common_type(kinds)
        if types[name] is None:
            raise DataError(
                f"column {name!r} is {kinds[0]} in {found.location.uri_of(first_path)} and "
                f"{kinds[1]} in {found.location.uri_of(last_path)}; {give_type(name, 'string')}."
            )
    return pa.schema([(name, types[name]) for name in types])


def _first_with_rows(
    found: FoundFiles, text_format: TextFormat, paths: Sequence[str]
) -> tuple[str, pa.Schema] | None:
    """Return the path and the columns of the first of some files that has rows, or None."""
    for path in paths:
        location = found.location.uri_of(path)
        with _translate_errors(location):
            columns, has_rows = text_format.infer(
                partial(_open_stream, found.location, path), location
            )
        if has_rows:
            return path, columns
    return None


def _common_type(kinds: Sequence[pa.DataType]) -> pa.DataType | None:
    """Return the type that the text of values of all types can be read as, or None."""
    if all(pa.types.is_date32(kind) or kind == pa.timestamp("us") for kind in kinds):
        return kinds[0] if kinds[0] == kinds[1] else pa.timestamp("us")
    return common_type(kinds)
