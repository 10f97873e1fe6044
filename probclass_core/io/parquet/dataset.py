"""A pyarrow dataset of Parquet files as a table: planned file by file, read row group by row group.

Every format whose data lie in Parquet files is read here: directories, Delta, Iceberg.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import groupby
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from probclass_core.arrow.types import safe_types
from probclass_core.errors import DataError, TableError, one_of
from probclass_core.io.commit.schemas import common_type
from probclass_core.io.errors import translate_read_errors
from probclass_core.io.filesystem import Location
from probclass_core.io.filters import Where, expression
from probclass_core.io.footers import Footer, FooterCache
from probclass_core.io.parquet.digests import FragmentDigests, file_digest, place_of
from probclass_core.io.parquet.pieces import (
    by_partition,
    columns_of_partitions,
    copy_of,
    partition_of,
    path_of,
    with_dictionaries,
)
from probclass_core.io.parquet.planned_file import PlannedFile
from probclass_core.io.parquet.row_groups import LOCAL_SCAN, REMOTE_SCAN, RowGroups
from probclass_core.io.retry import retry
from probclass_core.io.table import Plan, columns_and_filter

_FOOTERS_AT_ONCE = 16
"""Footers of remote files that are read at the same time."""

_FOOTERS_HELD = 64
"""Files of a plan up to which their footers stay with them."""

_CODED = pa.dictionary(pa.int32(), pa.string())
"""Text as Parquet's own dictionaries give it."""

_TEXT = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)

_ANY = object()
"""Stands for every value of a partition column."""


class DatasetTable:
    """A table whose rows are those of a pyarrow dataset.

    Args:
        dataset: Parquet files, or anything that pyarrow can scan.
        uri: where it lies; none where it has no address.
        storage: of its files; none for a local disk, or where pyarrow alone knows.
        partition_columns: outermost first.
        state: tells one state of a file from another: its path, by default, for formats whose
            files never change. What its footer says is kept under it.
        version: of the table, where its format counts them.
    """

    def __init__(
        self,
        dataset: ds.Dataset,
        *,
        uri: str | None = None,
        storage: Location | None = None,
        partition_columns: Sequence[str] | None = None,
        state: Callable[[ds.Fragment], str] = path_of,
        version: int | None = None,
    ) -> None:
        self.uri = uri
        self.version = version
        self._dataset = dataset
        self._storage = storage
        self._state = state
        self._footer_cache: FooterCache | None = None
        self.partition_columns: Sequence[str] = (
            columns_of_partitions(dataset) if partition_columns is None else partition_columns
        )

    def with_footer_cache(self, cache: FooterCache) -> Self:
        """Return the same table with plans that open no file whose footer is in the cache."""
        table = copy.copy(self)
        table._footer_cache = None if self.uri is None else cache
        return table

    @cached_property
    def schema(self) -> pa.Schema:
        return safe_types(self._dataset.schema)

    def partitions(self, where: Where = None) -> Sequence[Mapping[str, Any]]:
        kept = expression(self.schema, None, where)
        names = self.partition_columns
        found: dict[tuple[tuple[str, Any], ...], None] = {}
        for piece in self._pieces(kept):
            keys = partition_of(piece)
            found[tuple((name, keys[name]) for name in names if name in keys)] = None
        return [dict(items) for items in found if items]

    def plan(
        self,
        columns: Sequence[str] | None = None,
        *,
        partition: Mapping[str, Any] | None = None,
        where: Where = None,
        allow_dictionaries: bool = False,
    ) -> Plan:
        columns, kept = columns_and_filter(self.schema, columns, partition, where)
        texts: list[str] = []
        if allow_dictionaries and not isinstance(where, pc.Expression) and self.uri is not None:
            compared = {condition[0] for condition in where or ()}
            texts = [name for name in columns if name not in compared and self._is_text(name)]
        files, texts = self._files(self._matching(partition, where), texts)
        whole = self._types(files)
        for name in texts:
            whole = whole.set(whole.get_field_index(name), pa.field(name, _CODED))
        scan = REMOTE_SCAN if self._remote else LOCAL_SCAN
        schema = pa.schema([whole.field(name) for name in columns])
        digests = FragmentDigests(self.uri, schema, partition, where)
        fragments: list[RowGroups] = []
        sizes: list[int] = []
        footers: dict[str, Footer] = {}
        for file in files:
            place = self.name_of(file.piece)
            with translate_read_errors(place):
                identity, keys = self._identity(file), partition_of(file.piece)
                footer = None if self._footer_cache is None else file.footer(self._place)
                for piece, numbers, rows in file.parts():
                    of_file = RowGroups(
                        piece=piece,
                        numbers=numbers,
                        rows=rows,
                        schema=whole,
                        columns=columns,
                        kept=kept,
                        place=place,
                        scan=scan,
                        digest=digests.of(identity, keys, numbers),
                        forgets=file.unread,
                    )
                    if footer is not None and of_file.digest is not None:
                        footers[of_file.digest] = footer
                    fragments.append(self._fragment(of_file, file))
                    sizes.append(rows)
                    footer = None  # once is enough
        snapshot = self._snapshot(files)
        return Plan(schema, fragments, sum(sizes), snapshot, self.version, sizes, footers)

    def pieces(
        self, *, partition: Mapping[str, Any] | None = None, where: Where = None
    ) -> list[ds.Fragment]:
        """Files that may hold such rows, in order of their paths, with their footers at hand.

        Args:
            partition: as for `plan`.
            where: as for `plan`.

        Raises:
            TableError: none may, or a footer cannot be read.
        """
        pieces = self._matching(partition, where)
        self._look_into(pieces)
        return pieces

    def _matching(self, partition: Mapping[str, Any] | None, where: Where) -> list[ds.Fragment]:
        """Files that may hold such rows, in order of their paths; raises where none may."""
        kept = expression(self.schema, partition, where)
        pieces = self._pieces(kept, partition)
        if not pieces and kept is not None:
            raise TableError(self._nothing_there(partition, where))
        return pieces

    def _files(
        self, pieces: Sequence[ds.Fragment], texts: Sequence[str]
    ) -> tuple[list[PlannedFile], list[str]]:
        """The files, to be read with text as dictionaries, as Parquet stores it: four times faster.

        Args:
            pieces: the files.
            texts: columns that may be read so.

        Returns:
            The files, and those columns that are text in all of them.
        """
        # A footer takes some 3 kB for each column; from a local disk it is soon read again.
        unread = not self._remote and len(pieces) > _FOOTERS_HELD
        states = [self._state(piece) for piece in pieces]
        footers = [self._footer_of(state) for state in states]

        def read_with(names: Sequence[str]) -> list[PlannedFile]:
            coded = with_dictionaries(pieces, names) if names else pieces
            each = list(zip(coded, states, footers, strict=True))
            self._look_into([piece for piece, _, footer in each if footer is None])
            return [self._file(*one, unread=unread) for one in each]

        files = read_with(texts)
        held = [schema for schema, _ in groupby(file.schema for file in files)]
        text = [name for name in texts if all(_coded_in(schema, name) for schema in held)]
        return (files if text == texts else read_with(text)), text

    def _file(
        self, piece: ds.Fragment, state: str, footer: Footer | None, *, unread: bool
    ) -> PlannedFile:
        if footer is not None:
            return PlannedFile.remembered(piece, state, footer)
        with translate_read_errors(self.name_of(piece)):
            return PlannedFile.opened(piece, state, unread=unread)

    def _footer_of(self, state: str) -> Footer | None:
        """The footer of a file in that state, if it is known."""
        if self._footer_cache is None:
            return None
        return self._footer_cache.footer(file_digest(self._place, state))

    @cached_property
    def _place(self) -> str:
        return place_of(str(self.uri))

    def _pieces(
        self, kept: pc.Expression | None, partition: Mapping[str, Any] | None = None
    ) -> list[ds.Fragment]:
        """Files that may hold such rows, in order of their paths."""
        dataset = self._dataset
        key = tuple((partition or {}).get(name, _ANY) for name in self.partition_columns)
        if _ANY not in key and key in self._by_partition:
            # A look at every file for every partition would take the square of their number.
            files = self._by_partition[key]
            dataset = ds.FileSystemDataset(files, dataset.schema, dataset.format, None)
        pieces = sorted(dataset.get_fragments(filter=kept), key=path_of)
        # A dataset would keep the footer of every file that was looked into, of a copy it does not.
        return pieces if self.uri is None else [copy_of(piece) for piece in pieces]

    @cached_property
    def _by_partition(self) -> Mapping[tuple[Any, ...], list[ds.Fragment]]:
        return by_partition(self._dataset, self.partition_columns)

    def _types(self, files: Sequence[PlannedFile]) -> pa.Schema:
        """Of the columns, such that all these files can be read as them."""
        return self.schema if self.uri is None else _common_schema(self.schema, files)

    def _is_text(self, name: str) -> bool:
        kind = self.schema.field(name).type
        return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))

    def _identity(self, file: PlannedFile) -> str:
        """Tells one state of a file's rows from another: statistics are kept under it.

        Where rows are deleted without a change of their file, it must know of that.
        """
        return file.state

    def _fragment(self, rows: RowGroups, file: PlannedFile) -> RowGroups:
        """As what some row groups of a file are read; formats may have more to do than to read."""
        return rows

    @property
    def _remote(self) -> bool:
        return self._storage is not None and self._storage.remote

    def name_of(self, piece: ds.Fragment) -> str:
        """The path or URI of a file, for messages."""
        path = path_of(piece)
        return path if self._storage is None else self._storage.uri_of(path)

    def _look_into(self, pieces: Sequence[ds.Fragment]) -> None:
        """Read the footers of remote files, many at once; they stay with their fragments."""
        if not self._remote:
            return

        def look(piece: ds.Fragment) -> None:
            with translate_read_errors(self.name_of(piece)):
                retry(piece.ensure_complete_metadata)

        with ThreadPoolExecutor(_FOOTERS_AT_ONCE, thread_name_prefix="probclass-footer") as pool:
            for _ in pool.map(look, pieces):
                pass

    def _nothing_there(self, partition: Mapping[str, Any] | None, where: Where) -> str:
        present = self.partitions()
        names = ["/".join(f"{key}={value}" for key, value in one.items()) for one in present]
        some = one_of(names[:3]) + (f", … {names[-1]!r}" if len(names) > 3 else "")
        asked = " and ".join(str(what) for what in (partition, where) if what is not None)
        return f"{self.uri} has no partition with {asked}; it has {len(names)}: {some}."

    def _snapshot(self, files: Sequence[PlannedFile]) -> str | None:
        """Digest of the files that are read, in their state; none without an address."""
        if self.uri is None:
            return None
        digest = hashlib.sha256()
        for file in files:
            digest.update(f"{self._identity(file)}\n".encode())
        return digest.hexdigest()


def _common_schema(schema: pa.Schema, files: Sequence[PlannedFile]) -> pa.Schema:
    """The types that the columns of all these files can be read as.

    A dataset takes the types of its first file for those of all, whose integers would not do for
    another file's floats, nor its nulls for anything.

    Raises:
        DataError: a column is text in one file and a number in another, or the like.
    """
    kinds: dict[str, dict[pa.DataType, str]] = {}
    for held, alike in groupby(files, key=lambda file: file.schema):
        path = path_of(next(alike).piece)
        for column in safe_types(held):
            kinds.setdefault(column.name, {}).setdefault(column.type, path)
    for number, column in enumerate(schema):
        if column.name in kinds and column.name not in partition_of(files[0].piece):
            kind = _type_of_all(column.name, kinds[column.name])
            schema = schema.set(number, column.with_type(kind))
    return safe_types(schema)


def _type_of_all(name: str, found: Mapping[pa.DataType, str]) -> pa.DataType:
    """The one type of a column, or what all its types can be read as; each with a file of it."""
    if len(found) == 1:
        return next(iter(found))
    kind = common_type(found)
    if kind is None:
        listed = " and ".join(f"{held} in {path}" for held, path in list(found.items())[:2])
        raise DataError(f"column {name!r} is {listed}; cast it to one type.")
    return kind


def _coded_in(schema: pa.Schema, name: str) -> bool:
    """Whether a file of this schema gives a column as `_CODED`, asked for dictionaries."""
    if name not in schema.names:
        return False
    kind = schema.field(name).type
    if pa.types.is_dictionary(kind):
        return bool(pa.types.is_string(kind.value_type)) and not kind.ordered
    return any(is_text(kind) for is_text in _TEXT)
