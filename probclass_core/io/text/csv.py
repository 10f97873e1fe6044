"""Types and rows of CSV files, by pyarrow's reader."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from probclass_core.errors import DataError, TableError, TableMismatchError, one_line, one_of
from probclass_core.io.commit.file_sink import BatchWriter, FileSink
from probclass_core.io.references import TableRef
from probclass_core.io.sink import ColumnChanges
from probclass_core.io.text.options import TextOptions

BLOCK_BYTES = 1 << 23
"""Bytes of text that are parsed at once, and from which types are inferred."""

SHOWN = 80
"""Characters of a malformed row in a message."""

_TABS = re.compile(r".*\.(tsv|tab)(\.\w+)?", re.IGNORECASE)
_OTHER_DELIMITERS = ";\t|"
_COLUMN = re.compile(r"CSV column #(\d+)")
_VALUE = re.compile(r"Row #(\d+): CSV conversion error to (.+?): invalid value '(.*)'", re.S)

OpenStream = Callable[[], pa.NativeFile]


@dataclass(frozen=True)
class CsvFormat:
    """How CSV files are read.

    A header names the columns. An empty field is null, and so are ``NA``, ``NaN``, ``null`` and the
    like in columns that are not text.

    Attributes:
        options: see `TextOptions`.
    """

    options: TextOptions

    name: ClassVar[str] = "csv"
    title: ClassVar[str] = "CSV"
    supported: ClassVar[frozenset[str]] = frozenset(
        {"types", "delimiter", "decimal", "null", "encoding", "names"}
    )

    def infer(self, open_stream: OpenStream, location: str) -> tuple[pa.Schema, bool]:
        """Return the columns of a file and whether it has rows.

        Types are those of `TextOptions.types`, and of the values in the first `BLOCK_BYTES`.

        Args:
            open_stream: opens the file.
            location: path or URI of the file, for messages.

        Raises:
            TableError: if the header or a row is malformed, or the text is not in the encoding.
            DataError: if a value does not have the type of its column in the options.
        """
        names = self._header(open_stream, location)
        with self._translate(location, names, {}), open_stream() as stream:
            reader = self._open(stream, location, arrow_csv.ConvertOptions())
            rows = pa.Table.from_batches(islice(reader, 1), reader.schema)
            columns = [self._inferred(field, rows[field.name], location) for field in rows.schema]
            return pa.schema(columns), rows.num_rows > 0
        return pa.schema([(name, pa.null()) for name in names]), False

    def read(
        self, open_stream: OpenStream, location: str, schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        """Read columns of a file in their types; a column that it lacks is null.

        Args:
            open_stream: opens the file.
            location: path or URI of the file, for messages.
            schema: at least one column.

        Raises:
            TableError: if the header or a row is malformed, the text is not in the encoding, or the
                file has none of the columns.
            DataError: if a value does not have the type of its column.
        """
        names = self._header(open_stream, location)
        if not {*names} & {*schema.names}:
            raise TableError(
                f"{location} has none of the columns {one_of(schema.names)}; its header is "
                f"{one_of(names)}."
            )
        types = {field.name: field.type for field in schema}
        convert = arrow_csv.ConvertOptions(
            include_columns=schema.names, include_missing_columns=True, column_types=types
        )
        with self._translate(location, names, types), open_stream() as stream:
            counted = _CountedQuotes(stream)
            for batch in self._open(pa.PythonFile(counted, "r"), location, convert):
                yield self._with_nulls(batch)
        # Arrow takes all that follows a quote for one value, if no quote closes it.
        if counted.quotes % 2 and self._ends_in_quotes(open_stream, location):
            raise _unclosed_quote(location)

    def _ends_in_quotes(self, open_stream: OpenStream, location: str) -> bool:
        """Whether the last value of a file has an opening quote and no closing one."""
        with open_stream() as stream:
            text = io.TextIOWrapper(io.BufferedReader(stream), self.options.encoding, newline="")
            try:
                for _ in csv.reader(text, delimiter=self._delimiter(location), strict=True):
                    pass
            except csv.Error as error:
                # The value in quotes may be longer than Python's csv module reads.
                return "end of data" in str(error) or "field larger" in str(error)
            return False

    def _open(
        self, stream: pa.NativeFile, location: str, convert: arrow_csv.ConvertOptions
    ) -> arrow_csv.CSVStreamingReader:
        options = self.options
        convert.column_types = {**options.types, **convert.column_types}
        convert.null_values = [*convert.null_values, *options.null]
        convert.decimal_point = options.decimal
        return arrow_csv.open_csv(
            stream,
            # Threads would lose the numbers of rows, and read ahead without a bound.
            arrow_csv.ReadOptions(
                use_threads=False,
                block_size=BLOCK_BYTES,
                encoding=options.encoding,
                column_names=options.names,
            ),
            arrow_csv.ParseOptions(delimiter=self._delimiter(location), newlines_in_values=True),
            convert,
        )

    def _delimiter(self, location: str) -> str:
        return self.options.delimiter or default_delimiter(location)

    def _header(self, open_stream: OpenStream, location: str) -> Sequence[str]:
        """Return the names of the columns, which must differ."""
        names = self.options.names
        if names is None:
            encoding = self.options.encoding.lower()
            marked = "utf-8-sig" if encoding in ("utf-8", "utf8") else encoding
            with self._translate(location, (), {}), open_stream() as stream:
                text = io.TextIOWrapper(io.BufferedReader(stream), marked, newline="")
                rows = csv.reader(text, delimiter=self._delimiter(location))
                names = tuple(next((row for row in rows if row), ()))
        if not names:
            raise TableError(f"{location} is empty; a CSV file begins with the names of columns.")
        for name in names:
            if names.count(name) > 1:
                raise TableError(
                    f"{location} has {names.count(name)} columns named {name!r}; rename all but "
                    "one."
                )
        found = [one for one in _OTHER_DELIMITERS if one in names[0]]
        if len(names) == 1 and self.options.delimiter is None and found:
            raise TableError(
                f"{location} has one column, {names[0][:SHOWN]!r}; if {found[0]!r} is the "
                f"delimiter, {give_option('delimiter', found[0], found[0])}."
            )
        return names

    def _inferred(self, field: pa.Field, values: pa.ChunkedArray, location: str) -> pa.Field:
        if pa.types.is_binary(field.type) and field.name not in self.options.types:
            raise self._wrong_encoding(location, field.name)
        if pa.types.is_timestamp(field.type) and field.name not in self.options.types:
            # Arrow infers seconds or nanoseconds; most fractions are of microseconds.
            with suppress(pa.ArrowInvalid):
                kind = pa.timestamp("us", field.type.tz)
                values.cast(kind)
                return field.with_type(kind)
        return field

    def _with_nulls(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Make the texts null that mean null."""
        nulls = pa.array(["", *self.options.null])
        for number, field in enumerate(batch.schema):
            if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
                column = batch.column(number)
                is_null = pc.is_in(column, nulls.cast(field.type))
                if pc.any(is_null).as_py():
                    texts = pc.if_else(is_null, pa.scalar(None, field.type), column)
                    batch = batch.set_column(number, field, texts)
        return batch

    def _wrong_encoding(self, location: str, column: str | None = None) -> TableError:
        where = "" if column is None else f", column {column!r},"
        return TableError(
            f"{location}{where} is not {self.options.encoding.upper()} text; if it is latin-1, "
            f"utf-16 or another, {give_option('encoding', 'latin-1', 'latin-1')}; if the file is "
            "compressed, end its name with '.gz'."
        )

    @contextmanager
    def _translate(
        self, location: str, names: Sequence[str], types: Mapping[str, pa.DataType]
    ) -> Iterator[None]:
        """Raise errors of ours for those of the reader.

        Args:
            location: path or URI of the file.
            names: names of all columns of the file.
            types: inferred types of columns.
        """
        try:
            yield
        except UnicodeDecodeError as error:
            raise self._wrong_encoding(location) from error
        except (pa.ArrowInvalid, csv.Error) as error:
            text, found = str(error), _COLUMN.search(str(error))
            column = None if found is None else names[int(found[1])]
            if "Empty CSV file" in text:  # as Arrow calls a header that no line end follows
                return
            if "invalid UTF8 data" in text:
                raise self._wrong_encoding(location, column) from error
            if column is not None and (value := _VALUE.search(text)):
                kind = types.get(column, value[2])
                raise misfit(f"{location}, row {value[1]}", column, kind, value[3]) from error
            if "straddling" in text:
                raise _unclosed_quote(location) from error
            raise TableError(
                f"cannot read {location}: {one_line(error)[: 2 * SHOWN]}; correct the row, or "
                "quote a field that contains the delimiter."
            ) from error


class _CountedQuotes(io.RawIOBase):
    """A stream that counts the quotes that are read from it.

    Args:
        stream: the stream.
    """

    def __init__(self, stream: pa.NativeFile) -> None:
        self._stream = stream
        self.quotes = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data: bytes = self._stream.read(size)
        self.quotes += data.count(b'"')
        return data


def _unclosed_quote(location: str) -> TableError:
    return TableError(
        f"{location} has a quote that is never closed, or a row of more than {BLOCK_BYTES} bytes; "
        'close it, or write a quote within a value as "".'
    )


def default_delimiter(location: str) -> str:
    """Return the character between the fields of files with such a name."""
    return "\t" if _TABS.fullmatch(location) else ","


def misfit(where: str, column: str, kind: pa.DataType | str, value: object) -> DataError:
    """Return the error of a value that does not have the type of its column.

    Args:
        where: path or URI of the file, and the row.
        column: name of the column.
        kind: type of the column.
        value: the value.
    """
    wider = "string"
    with suppress(ValueError):
        float(str(value))
        wider = "double"
    # A value that is no text has no wider type: JSON lines do not mix text with others.
    fix = "" if str(kind) == "string" else f", or {give_type(column, wider)}"
    return DataError(
        f"{where}: column {column!r} is {kind}, but has {str(value)[:SHOWN]!r}; correct the "
        f"value{fix}."
    )


def give_type(column: str, kind: str) -> str:
    """Return how to give a column a type, as the end of a message."""
    return give_option("types", {column: kind}, f"{column}:{kind}")


def give_option(name: str, value: object, text: str) -> str:
    """Return how to give an option in Python, and by its text in a URI; the end of a message."""
    return (
        f"give options={ {name: value} } of a TableRef, or end a URI such as file://rows.csv with "
        f"'?{name}={text}'"
    )


class CsvSink(FileSink):
    """A CSV file, compressed if its name says so.

    CSV has no place for a commit record, so nothing tells which model and input a file came from,
    and scoring again writes it again.

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
        options = arrow_csv.WriteOptions(delimiter=self.delimiter)
        with (
            pa.output_stream(str(path)) as file,  # compressed as its name says
            arrow_csv.CSVWriter(file, schema, write_options=options) as writer,
        ):
            yield writer
