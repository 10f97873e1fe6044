"""Texts of a local Parquet file as dictionaries, decoded page by page with the compiled loops.

Arrow appends the indices of a dictionary one by one. Here they are unpacked eight at a time. Only
what writers write by default is decoded; at anything else, and at any byte that is not as expected,
Arrow goes on with the rows that follow, and says what is wrong.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from probclass_core.arrow.compiled import kernels
from probclass_core.io.retry import skip_rows

_TEXTS = pa.dictionary(pa.int32(), pa.string())

_READ_AT_ONCE = 2**18
"""Bytes of a column that are read at once, unless a page has more."""

_LARGEST_PAGE, _MOST_VALUES = 2**26, 2**22
"""Bytes and values of the largest page that is decoded here."""


class _OtherPage(Exception):
    """A page that Arrow has to read."""


def page_batches(
    file: pq.ParquetFile,
    source: pa.NativeFile,
    groups: Sequence[int],
    names: Sequence[str],
    rows: int,
) -> Iterator[pa.RecordBatch]:
    """The rows of ``file.iter_batches``; a batch ends where a row group does, as dictionaries do.

    Args:
        file: an open file, some of whose columns may be read as dictionaries.
        source: what it was opened from; Arrow does not use its position.
        groups: numbers of row groups.
        names: columns, none of which is part of another one.
        rows: largest number of rows of a batch.
    """
    done, compiled = 0, kernels(rows)
    texts = {} if compiled is None else _texts(file, names)
    if compiled is not None and texts:
        try:
            for batch in _with_texts(file, source, groups, names, rows, texts, compiled.pages):
                yield batch
                done += batch.num_rows
            return
        except _OtherPage:
            pass
    batches = file.iter_batches(rows, groups, names, use_threads=False)
    yield from skip_rows(done, batches)


def _texts(file: pq.ParquetFile, names: Sequence[str]) -> dict[str, int]:
    """The number in the file of each column of texts that is read as a dictionary."""
    schema, stored = file.schema_arrow, file.schema
    leaves = {stored.column(leaf).path: leaf for leaf in range(len(stored))}
    texts = {}
    for name in names:
        if schema.field(name).type == _TEXTS and name in leaves:
            of = stored.column(leaves[name])
            is_flat = of.max_repetition_level == 0 and of.max_definition_level <= 1
            if of.physical_type == "BYTE_ARRAY" and is_flat:
                texts[name] = leaves[name]
    return texts


def _with_texts(
    file: pq.ParquetFile,
    source: pa.NativeFile,
    groups: Sequence[int],
    names: Sequence[str],
    rows: int,
    texts: dict[str, int],
    compiled: Any,
) -> Iterator[pa.RecordBatch]:
    """See `page_batches`: columns of texts by their pages, and the others by Arrow.

    Raises:
        _OtherPage: if Arrow has to read all columns of the rows that follow.
    """
    others = [name for name in names if name not in texts]
    readers = {
        name: _Texts(source, leaf, file.schema.column(leaf).max_definition_level, compiled)
        for name, leaf in texts.items()
    }
    by_arrow = file.iter_batches(rows, groups, others, use_threads=False) if others else iter(())
    rest = pa.RecordBatch.from_pydict({})
    schema = pa.schema([file.schema_arrow.field(name) for name in names])
    done = 0
    for number in groups:
        group = file.metadata.row_group(number)
        for reader in readers.values():
            reader.start(group)
        left = group.num_rows
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


class _Texts:
    """Reads a column of texts, one row group after another, in memory that it keeps.

    Args:
        source: the file.
        leaf: number of the column in the file.
        nullable: whether the file has definition levels for it.
        compiled: the module ``probclass_kernels.pages``.
    """

    def __init__(self, source: pa.NativeFile, leaf: int, nullable: int, compiled: Any) -> None:
        self._source, self._leaf, self._compiled = source, leaf, compiled
        # The cursor has the addresses of these, and does not keep them.
        self._stored = self._page = np.empty(0, np.uint8)
        self._of_page: list[NDArray[Any]] = []
        self._dictionary: pa.StringArray | None = None
        self._cursor = compiled.Cursor(nullable=nullable)

    def start(self, group: pq.RowGroupMetaData) -> None:
        """Begin with a row group.

        Raises:
            _OtherPage: if Arrow has to read it.
        """
        chunk, cursor = group.column(self._leaf), self._cursor
        compressions = self._compiled.COMPRESSIONS
        if chunk.compression not in compressions or chunk.num_values != group.num_rows:
            raise _OtherPage
        self._compression = chunk.compression
        self._at = chunk.data_page_offset
        if chunk.has_dictionary_page and 0 < chunk.dictionary_page_offset < self._at:
            self._at = chunk.dictionary_page_offset
        self._end = self._at + chunk.total_compressed_size
        self._dictionary = None
        cursor.compression = compressions[chunk.compression]
        cursor.left, cursor.page_size, cursor.entries = chunk.num_values, -1, -1
        cursor.size = cursor.at = cursor.rows = cursor.done = 0

    def take(self, rows: int) -> pa.DictionaryArray:
        """The texts of the next rows.

        Raises:
            _OtherPage: if Arrow has to read them.
        """
        cursor, taken = self._cursor, ctypes.c_int64()
        indices, bits = pa.allocate_buffer(4 * rows), pa.allocate_buffer((rows + 7) // 8)
        cursor.saw_nulls = 0
        while status := cursor.take(rows, taken, indices.address, bits.address):
            self._provide(status, cursor.wanted)
        buffers = [bits if cursor.saw_nulls else None, indices]
        of_dictionary = pa.Array.from_buffers(pa.int32(), rows, buffers)
        # The indices have been compared with the size of the dictionary.
        return pa.DictionaryArray.from_arrays(of_dictionary, self._dictionary, safe=False)

    def _provide(self, status: int, wanted: int) -> None:
        """Do what the compiled loop leaves to its caller."""
        cursor, compiled = self._cursor, self._compiled
        if status == compiled.BYTES:
            self._load(wanted)
        elif status == compiled.ROOM and wanted <= _LARGEST_PAGE:
            self._page = np.empty(wanted, np.uint8)
            cursor.page, cursor.room = self._page.ctypes.data, wanted
        elif status == compiled.VALUES and wanted <= _MOST_VALUES:
            self._of_page = [np.empty(wanted, kind) for kind in (np.uint32, np.uint32, np.uint8)]
            cursor.dense, cursor.indices, cursor.bits = (of.ctypes.data for of in self._of_page)
            cursor.most = wanted
        elif status == compiled.DECOMPRESS:
            self._decompress(wanted)
        elif status == compiled.ENTRIES:
            self._take_dictionary(wanted)
        else:
            raise _OtherPage

    def _load(self, wanted: int) -> None:
        """Read the next bytes of the column, at least as many as are wanted."""
        cursor = self._cursor
        self._at += cursor.at
        size = min(max(wanted, _READ_AT_ONCE), self._end - self._at)
        if size <= cursor.size - cursor.at or size < wanted:
            raise _OtherPage
        if len(self._stored) < size:
            self._stored = np.empty(size, np.uint8)
        self._source.seek(self._at)
        if self._source.readinto(self._stored[:size]) < size:
            raise _OtherPage
        cursor.stored, cursor.size, cursor.at = self._stored.ctypes.data, size, 0

    @property
    def _body(self) -> pa.Buffer:
        """The body of the page, which is in memory of this reader."""
        if not self._cursor.body_size:
            return pa.py_buffer(b"")
        return pa.foreign_buffer(self._cursor.body, self._cursor.body_size, base=self)

    def _decompress(self, size: int) -> None:
        stream = pa.CompressedInputStream(pa.BufferReader(self._body), self._compression.lower())
        try:
            is_whole = stream.readinto(self._page[:size]) == size and not stream.read(1)
        except (pa.ArrowException, OSError) as error:
            raise _OtherPage from error
        if not is_whole:
            raise _OtherPage
        self._cursor.page_size = size

    def _take_dictionary(self, entries: int) -> None:
        body = self._body
        found = None
        if entries <= body.size:
            found = self._compiled.unpack_texts(body.address, body.size, entries)
        if found is None:
            raise _OtherPage
        ends, texts = map(pa.py_buffer, found)
        self._dictionary = pa.StringArray.from_buffers(entries, ends, texts)
        self._cursor.entries = entries
