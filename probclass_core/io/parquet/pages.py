"""Columns of a local Parquet file, decoded page by page with the compiled loops.

Arrow appends values and the indices of a dictionary in several steps. Here they are copied or
unpacked to where they stay. Only what writers write by default is decoded; at anything else, and at
any byte that is not as expected, Arrow goes on with the rows that follow, and says what is wrong.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from probclass_core.arrow.compiled import kernels
from probclass_core.io.retry import skip_rows

_TEXTS = pa.dictionary(pa.int32(), pa.string())

_READ_AT_ONCE = 2**20
"""Bytes of a column that are read at once, unless its batches have fewer or a page has more."""

_LARGEST_PAGE = 2**26
"""Bytes of the largest page that is decoded here."""


class _OtherPage(Exception):
    """A page that Arrow has to read."""


@dataclass(frozen=True)
class _Leaf:
    """A column that is decoded here.

    Attributes:
        number: its number in the file.
        form: what `probclass_kernels.pages` calls the form of its values.
        stored_width: bytes of a value in the file.
        width: bytes of a value, or of the index of a text.
        nullable: whether the file has definition levels for it.
    """

    number: int
    form: int
    stored_width: int
    width: int
    nullable: bool


def page_batches(
    file: pq.ParquetFile,
    source: pa.NativeFile,
    groups: Sequence[int],
    names: Sequence[str],
    rows: int,
) -> Iterator[pa.RecordBatch]:
    """The rows of ``file.iter_batches``; a batch may end elsewhere, but not have more rows.

    Args:
        file: an open file, some of whose columns may be read as dictionaries.
        source: what it was opened from; Arrow does not use its position.
        groups: numbers of row groups.
        names: columns, none of which is part of another one.
        rows: largest number of rows of a batch.
    """
    done, compiled = 0, kernels(rows)
    leaves = {} if compiled is None else _leaves(file, names, compiled.pages)
    if compiled is not None and leaves:
        try:
            for batch in _decoded(file, source, groups, names, rows, leaves, compiled.pages):
                yield batch
                done += batch.num_rows
            return
        except _OtherPage:
            pass
    batches = file.iter_batches(rows, groups, names, use_threads=False)
    yield from skip_rows(done, batches)


def _leaves(file: pq.ParquetFile, names: Sequence[str], compiled: Any) -> dict[str, _Leaf]:
    """The columns that can be decoded here."""
    schema, stored = file.schema_arrow, file.schema
    places = {stored.column(number).path: number for number in range(len(stored))}
    leaves = {}
    for name in names:
        if name not in places:
            continue
        number = places[name]
        column = stored.column(number)
        form = _form(schema.field(name).type, column, compiled)
        if form and column.max_repetition_level == 0 and column.max_definition_level <= 1:
            leaves[name] = _Leaf(number, *form, nullable=column.max_definition_level == 1)
    return leaves


def _form(type_: pa.DataType, column: Any, compiled: Any) -> tuple[int, int, int] | None:
    """``(form, stored_width, width)`` of a column of a file, or None if Arrow has to read it."""
    physical = column.physical_type
    if type_ == _TEXTS and physical == "BYTE_ARRAY":
        return compiled.TEXT, 4, 4
    if (type_, physical) in _NUMBERS:
        width = type_.bit_width // 8
        return compiled.AS_STORED, width, width
    if pa.types.is_decimal128(type_):
        if physical == "FIXED_LEN_BYTE_ARRAY" and 1 <= column.length <= 16:
            return compiled.BIG_ENDIAN, column.length, 16
        if physical in ("INT32", "INT64"):
            return compiled.INTEGER, 4 if physical == "INT32" else 8, 16
    return None


_NUMBERS = {
    (pa.float64(), "DOUBLE"),
    (pa.float32(), "FLOAT"),
    (pa.int64(), "INT64"),
    (pa.int32(), "INT32"),
}
"""Types of numbers that are stored as they are."""


def _decoded(
    file: pq.ParquetFile,
    source: pa.NativeFile,
    groups: Sequence[int],
    names: Sequence[str],
    rows: int,
    leaves: Mapping[str, _Leaf],
    compiled: Any,
) -> Iterator[pa.RecordBatch]:
    """See `page_batches`: some columns by their pages, and the others by Arrow.

    Raises:
        _OtherPage: if Arrow has to read all columns of the rows that follow.
    """
    others = [name for name in names if name not in leaves]
    stored = file.schema_arrow
    schema = pa.schema([stored.field(name) for name in names])
    metadata = [file.metadata.row_group(group) for group in groups]
    readers = {
        name: _Column(source, leaf, schema.field(name).type, metadata, rows, compiled)
        for name, leaf in leaves.items()
    }
    by_arrow = file.iter_batches(rows, groups, others, use_threads=False) if others else iter(())
    rest = pa.RecordBatch.from_pydict({})
    parts = [group.num_rows for group in metadata]
    if not others or _TEXTS not in schema.types:
        parts = [sum(parts)]  # else Arrow's batches end where a row group and its dictionary do
    done = 0
    for left in parts:
        while left:
            size = min(rows - done % rows, left)
            if others:
                if not rest.num_rows:
                    rest = next(by_arrow, rest)
                    if not rest.num_rows:
                        return  # Arrow found fewer rows
                size = min(size, rest.num_rows)
            columns = [
                readers[name].take(size) if name in readers else rest.column(name).slice(0, size)
                for name in names
            ]
            rest = rest.slice(size)
            yield pa.RecordBatch.from_arrays(columns, schema=schema)
            left, done = left - size, done + size


class _Column:
    """Reads a column, one row group after another, in memory that it keeps.

    Args:
        source: the file.
        leaf: the column.
        type_: its type.
        groups: the row groups.
        rows: number of rows that are usually taken at once.
        compiled: the module ``probclass_kernels.pages``.
    """

    def __init__(
        self,
        source: pa.NativeFile,
        leaf: _Leaf,
        type_: pa.DataType,
        groups: Sequence[pq.RowGroupMetaData],
        rows: int,
        compiled: Any,
    ) -> None:
        self._source, self._leaf, self._type, self._compiled = source, leaf, type_, compiled
        self._groups, self._left = iter(groups), 0
        self._read_at_once = min(rows * leaf.stored_width, _READ_AT_ONCE)
        # The cursor has the addresses of these, and does not keep them.
        self._window = pa.allocate_buffer(compiled.WINDOW)
        self._stored = self._levels = self._entries = pa.allocate_buffer(0)
        self._pages: dict[int | None, pa.Buffer] = {}
        self._first = 0
        self._texts: pa.StringArray | None = None
        self._cursor = compiled.Cursor(
            nullable=leaf.nullable,
            form=leaf.form,
            stored_width=leaf.stored_width,
            width=leaf.width,
            window=self._window.address,
        )

    def take(self, rows: int) -> pa.Array:
        """The values of the next rows.

        Raises:
            _OtherPage: if Arrow has to read them.
        """
        if self._leaf.form != self._compiled.TEXT:
            return pa.Array.from_buffers(self._type, rows, self._take(rows))
        parts = []
        while rows:
            self._start_if_done()
            size = min(rows, self._left)
            indices = pa.Array.from_buffers(pa.int32(), size, self._take(size))
            # The indices have been compared with the size of the dictionary.
            parts.append(pa.DictionaryArray.from_arrays(indices, self._texts, safe=False))
            rows -= size
        return parts[0] if len(parts) == 1 else pa.chunked_array(parts).combine_chunks()

    def _take(self, rows: int) -> list[pa.Buffer | None]:
        """Which of the next rows are not null, None if all; and their values or indices."""
        cursor, taken = self._cursor, ctypes.c_int64()
        values = pa.allocate_buffer(self._leaf.width * rows)
        bits = pa.allocate_buffer((rows + 7) // 8)
        cursor.saw_nulls = 0
        while (before := taken.value) < rows:
            self._start_if_done()
            end = min(rows, before + self._left)
            while status := cursor.take(end, taken, values.address, bits.address):
                self._provide(status, cursor.wanted)
            self._left -= end - before
        return [bits if cursor.saw_nulls else None, values]

    def _start_if_done(self) -> None:
        """Begin with the next row group if all rows of one were taken."""
        while not self._left:
            self._start(next(self._groups))

    def _start(self, group: pq.RowGroupMetaData) -> None:
        chunk = group.column(self._leaf.number)
        compressions, rows = self._compiled.COMPRESSIONS, group.num_rows
        if chunk.compression not in compressions or chunk.num_values != rows:
            raise _OtherPage
        self._compression = chunk.compression
        self._at = chunk.data_page_offset
        if chunk.has_dictionary_page and 0 < chunk.dictionary_page_offset < self._at:
            self._at = chunk.dictionary_page_offset
        self._end = self._at + chunk.total_compressed_size
        self._left = rows
        self._cursor.start(rows, compressions[chunk.compression])
        if rows:
            self._load(0)

    def _provide(self, status: int, wanted: int) -> None:
        """Do what the compiled loop leaves to its caller."""
        cursor, compiled = self._cursor, self._compiled
        if status == compiled.BYTES:
            self._load(wanted)
        elif status == compiled.ROOM and wanted <= _LARGEST_PAGE:
            self._give_page(pa.allocate_buffer(wanted))
        elif status == compiled.LEVELS and wanted <= _LARGEST_PAGE:
            self._levels = pa.allocate_buffer(wanted)
            cursor.levels, cursor.levels_room = self._levels.address, wanted
        elif status == compiled.DECOMPRESS:
            self._decompress(wanted)
        elif status == compiled.ENTRIES:
            self._take_dictionary(wanted)
        else:
            raise _OtherPage

    def _load(self, wanted: int) -> None:
        """Read the next bytes of the column, until there are as many as are wanted, or more."""
        cursor = self._cursor
        before = cursor.size - cursor.at
        size = min(max(wanted - before, self._read_at_once), self._end - self._at)
        if size <= 0 or before + size < wanted:
            raise _OtherPage
        # What is read begins at a multiple of 64 bytes: near the beginning of a block of 4 KiB,
        # but not at it, some processors take several times as long to copy from a file.
        first, old = -before % 64, np.frombuffer(self._stored, np.uint8)
        if len(old) < first + before + size:
            self._stored = pa.allocate_buffer(first + before + size)
        new, start = np.frombuffer(self._stored, np.uint8), self._first + cursor.at
        new[first : first + before] = old[start : start + before]
        self._source.seek(self._at)
        if self._source.readinto(new[first + before :][:size]) < size:
            raise _OtherPage
        self._first, self._at = first, self._at + size
        cursor.stored, cursor.size, cursor.at = self._stored.address + first, before + size, 0

    def _give_page(self, page: pa.Buffer) -> None:
        cursor = self._cursor
        self._pages.pop(cursor.page, None)
        self._pages[page.address] = page
        cursor.page, cursor.room = page.address, page.size

    @property
    def _body(self) -> pa.Buffer:
        """What follows of the page, which is in memory of this reader."""
        if not self._cursor.body_size:
            return pa.py_buffer(b"")
        return pa.foreign_buffer(self._cursor.body, self._cursor.body_size, base=self)

    def _decompress(self, size: int) -> None:
        if size > _LARGEST_PAGE:
            raise _OtherPage
        try:
            page = pa.decompress(self._body, size, self._compression.lower())
        except (pa.ArrowException, OSError) as error:
            raise _OtherPage from error
        self._give_page(page)
        self._cursor.page_size = size

    def _take_dictionary(self, entries: int) -> None:
        cursor, leaf = self._cursor, self._leaf
        if entries * leaf.stored_width > cursor.body_size:
            raise _OtherPage
        if leaf.form == self._compiled.TEXT:
            body = self._body
            found = self._compiled.unpack_texts(body.address, body.size, entries)
            if found is None:
                raise _OtherPage
            ends, texts = map(pa.py_buffer, found)
            self._texts = pa.StringArray.from_buffers(entries, ends, texts)
        else:
            self._entries = pa.allocate_buffer(entries * leaf.width)
            cursor.unpack_entries(entries, self._entries.address)
            cursor.dictionary = self._entries.address
        cursor.entries = entries
