"""Types and rows of files of JSON objects, one a line, by pyarrow's reader."""

from __future__ import annotations

import io
import json
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar

import pyarrow as pa
from pyarrow import json as arrow_json

from probclass_core.arrow.types import Rows
from probclass_core.errors import DataError, TableError, one_line
from probclass_core.io.text.csv import BLOCK_BYTES, OpenStream, misfit
from probclass_core.io.text.options import TextOptions

_TEMPORAL = (
    pa.date32(),
    *(pa.timestamp(unit, zone) for unit in ("us", "ns") for zone in (None, "UTC")),
)
"""Types that texts are tried as; ISO 8601 writes them."""

_SHOWN = 80
"""Characters of a malformed line in a message."""


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
        with _translate(open_stream, location, types, "infer", [0]):
            with open_stream() as stream:
                inferred = _open(stream, types, "infer").schema
            texts = pa.schema(
                [text for field in inferred if (text := _as_text(field)).type == pa.string()]
            )
            with open_stream() as stream:
                rows = next(iter(_open(stream, texts, "ignore")))
        schema = inferred
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
        with _translate(open_stream, location, schema, "ignore", rows), open_stream() as stream:
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
        _parse_options(schema, unexpected),
    )


def _parse_options(schema: pa.Schema, unexpected: str) -> arrow_json.ParseOptions:
    return arrow_json.ParseOptions(
        explicit_schema=pa.schema([_as_text(field) for field in schema]),
        unexpected_field_behavior=unexpected,
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
    open_stream: OpenStream, location: str, schema: pa.Schema, unexpected: str, rows: list[int]
) -> Iterator[None]:
    """Raise errors of ours for those of the reader, which name neither line nor value.

    Args:
        open_stream: opens the file.
        location: path or URI of the file.
        schema: types of columns that were given or inferred.
        unexpected: whether the reader infers other columns or ignores them.
        rows: number of rows read so far.
    """
    try:
        yield
    except pa.ArrowInvalid as error:
        with open_stream() as stream:
            lines = io.BufferedReader(stream)
            raise _explain(lines, location, schema, unexpected, rows[0]) from error


def _explain(
    lines: io.BufferedReader, location: str, schema: pa.Schema, unexpected: str, rows: int
) -> TableError | DataError:
    """Return an error that names the first line that cannot be read; see `_translate`."""
    numbered = ((number, line) for number, line in enumerate(lines, 1) if line.strip())
    behind = list(islice(numbered, rows, rows + BLOCK_BYTES // 2))
    texts = [line for _, line in behind]
    # All lines up to some number can be read together, and no more.
    first = bisect_left(
        range(1, len(texts) + 1),
        True,
        key=lambda count: _problem(texts[:count], schema, unexpected) is not None,
    )
    if first == len(texts):
        return TableError(
            f"cannot read {location}: a line behind row {rows} is longer than {BLOCK_BYTES} bytes."
        )
    number, line = behind[first]
    where = f"{location}, line {number}"
    shown = repr(line.decode(errors="replace").strip()[:_SHOWN])
    try:
        values = json.loads(line)
    except UnicodeDecodeError:
        return TableError(f"{where}, is not UTF-8 text: {shown}; write it as UTF-8.")
    except ValueError as error:
        return TableError(
            f"{where}, is not a JSON object ({one_line(error)}): {shown}; correct it."
        )
    if not isinstance(values, dict):
        return TableError(f"{where}, is not a JSON object: {shown}; write one object per line.")
    for name, value in values.items():
        text = json.dumps({name: value}).encode()
        if name in schema.names:
            if _problem([text], schema, unexpected) is not None:
                return misfit(where, name, schema.field(name).type, value)
        elif (problem := _problem([*texts[:first], text], schema, unexpected)) is not None:
            return DataError(f"{where}: {one_line(problem)}; give column {name!r} one type.")
    problem = _problem([line], schema, unexpected) or _problem(
        texts[: first + 1], schema, unexpected
    )
    return TableError(f"cannot read {where}: {one_line(problem or ValueError(shown))}.")


def _problem(lines: list[bytes], schema: pa.Schema, unexpected: str) -> Exception | None:
    """Return why lines cannot be read together, or None if they can."""
    text = b"\n".join(line.rstrip(b"\r\n") for line in lines)
    whole = arrow_json.ReadOptions(use_threads=False, block_size=len(text) + 1)
    parse = _parse_options(schema, unexpected)
    try:
        _typed(arrow_json.read_json(pa.BufferReader(text), whole, parse), schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        problem: Exception = error
        return problem
    return None
