"""Text files as a table: one schema for all of them, and one unit for each."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from re import Pattern
from typing import Any, Unpack

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow.fs import FileSystem

from probclass_core.arrow.arrays import in_slices
from probclass_core.arrow.types import common_type
from probclass_core.errors import DataError, TableError, check_known, one_line
from probclass_core.io.failures import retry, translate_read_errors
from probclass_core.io.filters import Where
from probclass_core.io.parquet.dataset import DatasetTable
from probclass_core.io.parquet.discovery import FoundFiles, find_files
from probclass_core.io.parquet.files import (
    PlannedFile,
    Reading,
    RowGroups,
    StoredColumn,
    partition_of,
)
from probclass_core.io.references import TableRef
from probclass_core.io.table import Footer, Plan, Query
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
    stored = [field for field in columns if field.name not in found.partition_schema.names]
    schema = pa.schema([*stored, *found.partition_schema])
    unknown = "option types names column"
    check_known(options.types, schema.names, unknown, f"{found.uri} has", DataError)
    log.info("%s: %s", found.uri, ", ".join(f"{field.name} {field.type}" for field in schema))
    return TextTable(found, text_format, schema)


class TextTable(DatasetTable):
    """A table of text files.

    Args:
        found: the files.
        text_format: how they are read.
        schema: all columns, those of the partitions last.
    """

    def __init__(self, found: FoundFiles, text_format: TextFormat, schema: pa.Schema) -> None:
        super().__init__(
            # The dataset knows paths and partitions; its own reader of text is not used.
            found.dataset(schema, ds.CsvFileFormat()),
            uri=found.uri,
            location=found.location,
            partition_columns=found.partition_schema.names,
            state=found.state(),
            has_log=False,
        )
        self._format = text_format

    def plan(self, columns: Sequence[str] | None = None, **query: Unpack[Query]) -> Plan:
        query["allow_dictionaries"] = False
        plan = super().plan(columns, **query)
        return replace(plan, rows=None, unit_rows=(), footers=(), from_cache=())

    def parquet_files(
        self, *, partition: Mapping[str, Any] | None = None, where: Where = None
    ) -> None:
        return None

    def _read_footers(self, fragments: Sequence[ds.Fragment]) -> None:
        """Read nothing: text files have no footers."""

    def _planned_file(
        self, fragment: ds.Fragment, state: str, footer: Footer | None
    ) -> PlannedFile:
        version = self._version(fragment, state)
        location, name = self.location_of(fragment), self._name(fragment)
        return TextFile(
            fragment, state, name, location, self.schema, (), reopen=False, version=version
        )

    def _row_state(self, file: PlannedFile) -> str:
        return f"{file.state}\0{self._format}"

    def _row_groups(
        self, file: PlannedFile, numbers: tuple[int, ...], reading: Reading, digest: str | None
    ) -> RowGroups:
        return TextRows(file, numbers, reading, digest, text_format=self._format)


class TextFile(PlannedFile):
    """A text file, which is one unit; how many rows it has is unknown before they are read."""

    def chunks(self) -> Iterator[tuple[int, ...]]:
        yield ()


@dataclass(frozen=True)
class TextRows(RowGroups):
    """The rows of a text file.

    Attributes:
        text_format: how they are read.
    """

    text_format: TextFormat = field(kw_only=True)

    def __str__(self) -> str:
        return self.file.location

    def _batches(self) -> Iterator[pa.RecordBatch]:
        """Read the rows.

        Raises:
            TableError: if the file cannot be read, or is malformed.
            DataError: if a value does not have the type of its column.
        """
        reading, fragment, location = self.reading, self.file.fragment, self.file.location
        partition = partition_of(fragment)
        in_file = [name for name in reading.schema.names if name not in partition]
        columns = self._stored_columns(in_file)
        stored = [one for one in columns if one.stored is not None]
        file_schema = self._schema_of(stored or [StoredColumn(in_file[0], in_file[0])])
        open_stream = partial(_open_stream, fragment.filesystem, fragment.path)
        with _translate_errors(location):
            batches = self.text_format.read(open_stream, location, file_schema)
            for batch in in_slices(batches, reading.batch_rows):
                yield self._requested(batch, columns)

    def _check_columns(self, fragment: ds.Fragment) -> None:
        """Check nothing: text files have no footers."""


def _open_stream(filesystem: FileSystem, path: str) -> pa.NativeFile:
    """Open a file, decompressed if its name says that it is compressed."""
    return retry(lambda: filesystem.open_input_stream(path))


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
        open_stream = partial(
            _open_stream, found.location.filesystem, found.location.absolute(path)
        )
        with _translate_errors(location):
            columns, has_rows = text_format.infer(open_stream, location)
        if has_rows:
            return path, columns
    return None


def _common_type(kinds: Sequence[pa.DataType]) -> pa.DataType | None:
    """Return the type that the text of values of all types can be read as, or None."""
    if all(pa.types.is_date32(kind) or kind == pa.timestamp("us") for kind in kinds):
        return kinds[0] if kinds[0] == kinds[1] else pa.timestamp("us")
    return common_type(kinds)
