"""Types and rows of files of JSON objects, one a line, by pyarrow's reader."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar

import pyarrow as pa
from pyarrow import json as arrow_json

from probclass_core.arrow.types import Rows
from probclass_core.errors import DataError, TableError, one_line
from probclass_core.io.text.csv import BLOCK_BYTES, SHOWN, OpenStream, misfit
from probclass_core.io.text.options import TextOptions

_TEMPORAL = (
    pa.date32(),
    *(pa.timestamp(unit, zone) for unit in ("us", "ns") for zone in (None, "UTC")),
)
"""Types that texts are tried as; ISO 8601 writes them."""


@dataclass(frozen=True)
class JsonLinesFormat:
    """How files of JSON objects, one a line, are read; arguments of methods as in `CsvFormat`.

    Attributes:
        options: see `TextOptions`.
    """

    options: TextOptions

    name: ClassVar[str] = "jsonl"
    title: ClassVar[str] = "JSON lines"
    supported: ClassVar[frozenset[str]] = frozenset({"types"})

    def infer(self, open_stream: OpenStream, location: str) -> tuple[pa.Schema, bool]:
        """Return the columns of a file and whether it has rows; see `CsvFormat.infer`."""
        types = pa.schema(list(self.options.types.items()))
        with open_stream() as stream:
            start = stream.read(1 << 16)
        if start.lstrip().startswith(b"["):
            raise TableError(
                f"{location} is a JSON array; write one JSON object per line, as in JSON lines."
            )
        if not start.strip():
            return types, False
        with _translate(open_stream, location, types, [0]):
            with open_stream() as stream:
                schema = _open(stream, types, "infer").schema
            fields = [_as_text(field) for field in schema]
            texts = pa.schema([field for field in fields if field.type == pa.string()])
            with open_stream() as stream:
                rows = next(iter(_open(stream, texts, "ignore")))
        for text in texts:
            if text.name not in types.names:
                number = schema.get_field_index(text.name)
                schema = schema.set(number, text.with_type(_temporal_type(rows[text.name])))
        return schema, True

    def read(
        self, open_stream: OpenStream, location: str, schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        """Read columns of a file in their types; see `CsvFormat.read`."""
        rows = [0]
        with _translate(open_stream, location, schema, rows), open_stream() as stream:
            for batch in _open(stream, schema, "ignore"):
                yield _typed(batch, schema).select(schema.names)
                rows[0] += batch.num_rows


def _open(
    stream: pa.NativeFile, schema: pa.Schema, unexpected: str
) -> arrow_json.JSONStreamingReader:
    """Open a reader of a file, which reads dates and times as text; see `_typed`."""
    return arrow_json.open_json(
        stream,
        arrow_json.ReadOptions(use_threads=False, block_size=BLOCK_BYTES),
        arrow_json.ParseOptions(
            explicit_schema=pa.schema([_as_text(field) for field in schema]),
            unexpected_field_behavior=unexpected,
        ),
    )


def _as_text(field: pa.Field) -> pa.Field:
    return field.with_type(pa.string()) if pa.types.is_temporal(field.type) else field


def _typed(rows: Rows, schema: pa.Schema) -> Rows:
    """Parse dates and times, of which the reader of Arrow would lose time zones.

    Raises:
        pa.ArrowInvalid: if a text is none, or is not UTF-8, which the reader does not check.
    """
    rows.validate(full=True)
    for field in schema:
        if pa.types.is_temporal(field.type):
            number = rows.schema.get_field_index(field.name)
            rows = rows.set_column(number, field, rows.column(number).cast(field.type))
    return rows


def _temporal_type(texts: pa.Array) -> pa.DataType:
    """Return the type of dates or times that texts have in common, or string."""
    for kind in _TEMPORAL:
        with suppress(pa.ArrowInvalid):
            texts.cast(kind)
            return kind
    return pa.string()


@contextmanager
def _translate(
    open_stream: OpenStream, location: str, schema: pa.Schema, rows: list[int]
) -> Iterator[None]:
    """Raise errors of ours for those of the reader, which name neither line nor value.

    Args:
        open_stream: opens the file.
        location: path or URI of the file.
        schema: types of columns that were given or inferred.
        rows: number of rows read so far.
    """
    try:
        yield
    except pa.ArrowInvalid as error:
        with open_stream() as stream:
            lines = enumerate(io.BufferedReader(stream), 1)
            behind = islice((one for one in lines if one[1].strip()), rows[0], None)
            problems = (_problem(f"{location}, line {n}", line, schema) for n, line in behind)
            found = next(filter(None, problems), None)
        message = f"cannot read {location}: {one_line(error)}; give each column one type."
        raise found or TableError(message) from error


def _problem(where: str, line: bytes, schema: pa.Schema) -> TableError | DataError | None:
    """Why a line cannot be read, or None if it can."""
    try:
        values = json.loads(line)
        if not isinstance(values, dict):
            raise ValueError(f"it is of type {type(values).__name__}")
    except ValueError as error:
        shown = repr(line.decode(errors="replace").strip()[:SHOWN])
        return TableError(
            f"{where}, is not a JSON object in UTF-8 ({one_line(error)}): {shown}; correct it."
        )
    if _fits(line, schema):
        return None
    for name in values.keys() & {*schema.names}:
        field = schema.field(name)
        if not _fits(json.dumps({name: values[name]}).encode(), pa.schema([field])):
            return misfit(where, name, field.type, values[name])
    return None


def _fits(line: bytes, schema: pa.Schema) -> bool:
    try:
        _typed(_open(pa.BufferReader(line), schema, "ignore").read_all(), schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    return True
