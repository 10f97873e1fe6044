"""Columns of a local Parquet file, decoded page by page with the compiled loops.

Arrow appends values and the indices of a dictionary in several steps. Here they are copied or
unpacked to where they stay. Only what writers write by default is decoded; at anything else, and at
any byte that is not as expected, Arrow goes on with the rows that follow, and says what is wrong.
"""

from __future__ import annotations

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

_SMALL = 2**17
"""Bytes of a column in a row group up to which it is read and decoded together with others; larger
ones would not stay in the processor's cache."""

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
    most = max((group.num_rows for group in metadata), default=0)
    together = [name for name, leaf in leaves.items() if leaf.stored_width * most <= _SMALL]
    alone = [[name] for name in leaves if name not in together]
    readers = [
        _Columns(source, {name: leaves[name] for name in some}, schema, metadata, rows, compiled)
        for some in ([together] if together else []) + alone
    ]
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
            arrays = {name: rest.column(name).slice(0, size) for name in others}
            for reader in readers:
                arrays |= reader.take(size)
            rest = rest.slice(size)
            yield pa.RecordBatch.from_arrays([arrays[name] for name in names], schema=schema)
            left, done = left - size, done + size


class _Columns:
    """Reads columns together, one row group after another.

    Args:
        source: the file.
        leaves: the columns by name.
        schema: their types.
        groups: the row groups.
        rows: number of rows that are usually taken at once.
        compiled: the module ``probclass_kernels.pages``.
    """

    def __init__(
        self,
        source: pa.NativeFile,
        leaves: Mapping[str, _Leaf],
        schema: pa.Schema,
        groups: Sequence[pq.RowGroupMetaData],
        rows: int,
        compiled: Any,
    ) -> None:
        self._source, self._compiled = source, compiled
        self._columns = {
            name: (_Texts if leaf.form == compiled.TEXT else _Column)(
                source, leaf, schema.field(name).type, rows, compiled
            )
            for name, leaf in leaves.items()
        }
        self._cursors = [column.cursor for column in self._columns.values()]
        self._groups, self._left = iter(groups), 0
        self._memory: dict[int, pa.Buffer] = {}

    def take(self, rows: int) -> dict[str, pa.Array]:
        """The values of the next rows, by column.

        Raises:
            _OtherPage: if Arrow has to read them.
        """
        columns = list(self._columns.values())
        for column in columns:
            column.begin(rows)
        while rows:
            while not self._left:
                self._start(next(self._groups))
            size = min(rows, self._left)
            for column in columns:
                column.extend(size)
            for number, status in self._compiled.read_columns(self._cursors):
                columns[number].provide(status)
            for column in columns:
                column.keep()
            rows, self._left = rows - size, self._left - size
        return {name: column.array() for name, column in self._columns.items()}

    def _start(self, group: pq.RowGroupMetaData) -> None:
        """Begin with a row group, and read small columns that are neighbors together."""
        self._left = group.num_rows
        if not self._left:
            return
        columns = self._columns.values()
        for column in columns:
            column.start(group)
        runs: list[list[_Column]] = []
        for column in sorted(columns, key=lambda column: column.at):
            run = runs[-1] if runs else []
            if column.end - column.at > _SMALL:
                column.load()
            elif run and column.at == run[-1].end and column.end - run[0].at <= _READ_AT_ONCE:
                run.append(column)
            else:
                runs.append([column])
        for number, run in enumerate(runs):
            at, size = run[0].at, run[-1].end - run[0].at
            memory = self._memory.get(number)
            if memory is None or memory.size < size:
                memory = self._memory[number] = pa.allocate_buffer(size)
            _read(self._source, at, np.frombuffer(memory, np.uint8)[:size])
            for column in run:
                column.use(memory.address + column.at - at)


class _Column:
    """Reads a column of numbers, in memory that it keeps.

    Args:
        source: the file.
        leaf: the column.
        type_: its type.
        rows: number of rows that are usually taken at once.
        compiled: the module ``probclass_kernels.pages``.

    Attributes:
        cursor: where the decoding is.
        at, end: bytes of the file that are still to be read.
    """

    def __init__(
        self, source: pa.NativeFile, leaf: _Leaf, type_: pa.DataType, rows: int, compiled: Any
    ) -> None:
        self._source, self._leaf, self._type, self._compiled = source, leaf, type_, compiled
        self._read_at_once = min(rows * leaf.stored_width, _READ_AT_ONCE)
        # The cursor has the addresses of these, and does not keep them.
        self._window = pa.allocate_buffer(compiled.WINDOW)
        self._stored = self._levels = self._entries = pa.allocate_buffer(0)
        self._pages: dict[int | None, pa.Buffer] = {}
        self._first = 0
        self.at = self.end = 0
        self.cursor = compiled.Cursor(
            nullable=leaf.nullable,
            form=leaf.form,
            stored_width=leaf.stored_width,
            width=leaf.width,
            window=self._window.address,
        )

    def begin(self, rows: int) -> None:
        """Make room for the values of a batch."""
        self._values = pa.allocate_buffer(self._leaf.width * rows)
        self._bits = pa.allocate_buffer((rows + 7) // 8)
        cursor = self.cursor
        cursor.to, cursor.to_bits = self._values.address, self._bits.address
        cursor.n = cursor.taken = cursor.saw_nulls = 0

    def extend(self, rows: int) -> None:
        """Ask for the next rows, all of them in the current row group."""
        self.cursor.n += rows

    def keep(self) -> None:
        """Finish these rows, if that takes the dictionary of the row group."""

    def array(self) -> pa.Array:
        """The values of the batch."""
        return self._taken(self._type)

    def _taken(self, type_: pa.DataType) -> pa.Array:
        bits = self._bits if self.cursor.saw_nulls else None
        return pa.Array.from_buffers(type_, self.cursor.n, [bits, self._values])

    def start(self, group: pq.RowGroupMetaData) -> None:
        """Begin with a row group.

        Raises:
            _OtherPage: if Arrow has to read it.
        """
        chunk = group.column(self._leaf.number)
        compressions, rows = self._compiled.COMPRESSIONS, group.num_rows
        size = chunk.total_compressed_size
        if chunk.compression not in compressions or chunk.num_values != rows or size <= 0:
            raise _OtherPage
        self._compression = chunk.compression
        self.at = chunk.data_page_offset
        if chunk.has_dictionary_page and 0 < chunk.dictionary_page_offset < self.at:
            self.at = chunk.dictionary_page_offset
        self.end = self.at + size
        self.cursor.start(rows, compressions[chunk.compression])

    def use(self, address: int) -> None:
        """Decode the bytes of the row group that are in memory at an address."""
        cursor = self.cursor
        cursor.stored, cursor.size, cursor.at = address, self.end - self.at, 0
        self.at = self.end

    def provide(self, status: int) -> None:
        """Do what the compiled loop leaves to its caller.

        Raises:
            _OtherPage: if Arrow has to read what follows.
        """
        cursor, compiled = self.cursor, self._compiled
        wanted = cursor.wanted
        if status == compiled.BYTES:
            self.load(wanted)
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

    def load(self, wanted: int = 0) -> None:
        """Read the next bytes of the column, until there are as many as are wanted, or more."""
        cursor = self.cursor
        before = cursor.size - cursor.at
        size = min(max(wanted - before, self._read_at_once), self.end - self.at)
        if size <= 0 or before + size < wanted:
            raise _OtherPage
        # What is read begins at a multiple of 64 bytes: near the beginning of a block of 4 KiB,
        # but not at it, some processors take several times as long to copy from a file.
        first, old = -before % 64, np.frombuffer(self._stored, np.uint8)
        if len(old) < first + before + size:
            self._stored = pa.allocate_buffer(first + before + size)
        new, start = np.frombuffer(self._stored, np.uint8), self._first + cursor.at
        new[first : first + before] = old[start : start + before]
        _read(self._source, self.at, new[first + before :][:size])
        self._first, self.at = first, self.at + size
        cursor.stored, cursor.size, cursor.at = self._stored.address + first, before + size, 0

    def _give_page(self, page: pa.Buffer) -> None:
        cursor = self.cursor
        self._pages.pop(cursor.page, None)
        self._pages[page.address] = page
        cursor.page, cursor.room = page.address, page.size

    @property
    def _body(self) -> pa.Buffer:
        """What follows of the page, which is in memory of this reader."""
        if not self.cursor.body_size:
            return pa.py_buffer(b"")
        return pa.foreign_buffer(self.cursor.body, self.cursor.body_size, base=self)

    def _decompress(self, size: int) -> None:
        if size > _LARGEST_PAGE:
            raise _OtherPage
        try:
            page = pa.decompress(self._body, size, self._compression.lower())
        except (pa.ArrowException, OSError) as error:
            raise _OtherPage from error
        self._give_page(page)
        self.cursor.page_size = size

    def _take_dictionary(self, entries: int) -> None:
        cursor, leaf = self.cursor, self._leaf
        if entries * leaf.stored_width > cursor.body_size:
            raise _OtherPage
        self._entries = pa.allocate_buffer(entries * leaf.width)
        cursor.unpack_entries(entries, self._entries.address)
        cursor.dictionary, cursor.entries = self._entries.address, entries


class _Texts(_Column):
    """Reads the indices of texts in a dictionary, of which every row group has its own."""

    def begin(self, rows: int) -> None:
        self._parts: list[pa.DictionaryArray] = []

    def extend(self, rows: int) -> None:
        super().begin(rows)
        super().extend(rows)

    def keep(self) -> None:
        indices = self._taken(pa.int32())
        # The indices have been compared with the size of the dictionary.
        self._parts.append(pa.DictionaryArray.from_arrays(indices, self._texts, safe=False))

    def array(self) -> pa.Array:
        parts = self._parts
        return parts[0] if len(parts) == 1 else pa.chunked_array(parts).combine_chunks()

    def _take_dictionary(self, entries: int) -> None:
        body = self._body
        if entries * self._leaf.stored_width > body.size:
            raise _OtherPage
        found = self._compiled.unpack_texts(body.address, body.size, entries)
        if found is None:
            raise _OtherPage
        ends, texts = map(pa.py_buffer, found)
        self._texts = pa.StringArray.from_buffers(entries, ends, texts)
        self.cursor.entries = entries


def _read(source: pa.NativeFile, at: int, memory: np.ndarray) -> None:
    """Fill memory with the bytes of a file from a position on.

    Raises:
        _OtherPage: if the file ends before.
    """
    source.seek(at)
    if source.readinto(memory) < len(memory):
        raise _OtherPage
