"""A pyarrow dataset of Parquet files as a table: planned file by file, read row group by row group.

Every format whose data lie in Parquet files is read here: directories, Delta, Iceberg.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from probclass_core.arrays import BATCH_ROWS, schema_without_views
from probclass_core.errors import DataError, TableError, one_of
from probclass_core.retries import Patience, patiently
from probclass_core.storage import Storage, one_line
from probclass_core.tables.digests import FragmentDigests
from probclass_core.tables.filters import Where, expression
from probclass_core.tables.pieces import (
    by_partition,
    columns_of_partitions,
    copy_of,
    partition_of,
    path_of,
    with_dictionaries,
)
from probclass_core.tables.table import Plan, asked_for

_FRAGMENT_ROWS = 4 * BATCH_ROWS
"""Row groups of one file are read together up to this many rows."""

# Fetching ahead pays on a network; from a local disk it doubles the time. A buffered stream is read
# page by page, while it is in the processor's cache, and no column of a row group is held whole.
# Without checksums a flipped bit may be read as another number; files that have none cost nothing.
_LOCAL_SCAN = ds.ParquetFragmentScanOptions(
    pre_buffer=False, use_buffered_stream=True, page_checksum_verification=True
)
_REMOTE_SCAN = ds.ParquetFragmentScanOptions(pre_buffer=True, page_checksum_verification=True)

_FOOTERS_AT_ONCE = 16

_CODED = pa.dictionary(pa.int32(), pa.string())
"""Text as Parquet's own dictionaries give it."""

_ANY = object()
"""Stands for every value of a partition column."""


class DatasetTable:
    """A table whose rows are those of a pyarrow dataset.

    Args:
        dataset: Parquet files, or anything that pyarrow can scan.
        uri: where it lies; none where it has no address.
        storage: of its files; none for a local disk, or where pyarrow alone knows.
        partition_columns: outermost first.
        identity: tells one state of a file's rows from another: its path, by default, for formats
            whose files never change. Statistics are kept under it, so it must know of deleted rows.
        version: of the table, where its format counts them.
    """

    def __init__(
        self,
        dataset: ds.Dataset,
        *,
        uri: str | None = None,
        storage: Storage | None = None,
        partition_columns: Sequence[str] | None = None,
        identity: Callable[[ds.Fragment], str] | None = None,
        version: int | None = None,
    ) -> None:
        self.uri = uri
        self.version = version
        self._dataset = dataset
        self._storage = storage
        self._identity = path_of if identity is None else identity
        self.partition_columns: Sequence[str] = (
            columns_of_partitions(dataset) if partition_columns is None else partition_columns
        )

    @property
    def schema(self) -> pa.Schema:
        return schema_without_views(self._dataset.schema)

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
        coded: bool = False,
    ) -> Plan:
        columns, kept = asked_for(self.schema, columns, partition, where)
        if coded and not isinstance(where, pc.Expression) and self.uri is not None:
            compared = {condition[0] for condition in where or ()}
            pieces, text = self._coded([n for n in columns if n not in compared], partition, where)
        else:
            pieces, text = self.pieces(partition=partition, where=where), []
        whole = self._types(pieces)
        for name in text:
            whole = whole.set(whole.get_field_index(name), pa.field(name, _CODED))
        scan = _REMOTE_SCAN if self._remote else _LOCAL_SCAN
        schema = pa.schema([whole.field(name) for name in columns])
        digests = FragmentDigests(self.uri, schema, partition, where)
        fragments: list[RowGroups] = []
        sizes: list[int] = []
        for piece in pieces:
            place = self.name_of(piece)
            with readable(place):
                state, keys = self._identity(piece), partition_of(piece)
                for groups, held in _grouped(piece):
                    numbers = [group.id for group in getattr(groups, "row_groups", ())]
                    digest = digests.of(state, keys, numbers)
                    rows_of = RowGroups(groups, whole, columns, kept, place, scan, digest)
                    fragments.append(self._fragment(rows_of))
                    sizes.append(held)
        return Plan(
            schema, fragments, sum(sizes), self._snapshot(pieces), self.version, sizes=sizes
        )

    def pieces(
        self,
        *,
        partition: Mapping[str, Any] | None = None,
        where: Where = None,
        coded: Sequence[str] = (),
    ) -> list[ds.Fragment]:
        """Files that may hold such rows, in order of their paths, with their footers at hand.

        Args:
            partition: as for `plan`.
            where: as for `plan`.
            coded: columns whose text is to come as dictionaries.

        Raises:
            TableError: none may, or a footer cannot be read.
        """
        kept = expression(self.schema, partition, where)
        pieces = self._pieces(kept, partition)
        if not pieces and kept is not None:
            raise TableError(self._nothing_there(partition, where))
        if coded:
            pieces = with_dictionaries(pieces, coded)
        self._look_into(pieces)
        return pieces

    def _coded(
        self, columns: Sequence[str], partition: Mapping[str, Any] | None, where: Where
    ) -> tuple[list[ds.Fragment], list[str]]:
        """Pieces that read text as dictionaries, as Parquet stores it: four times faster.

        Returns:
            The pieces, and which of the columns are text in all of them.
        """
        schema = self.schema
        names = [name for name in columns if _is_text(schema.field(name).type)]
        pieces = self.pieces(partition=partition, where=where, coded=names)
        held = []
        for piece in pieces:
            with readable(self.name_of(piece)):
                held.append(piece.physical_schema)
        text = [
            name
            for name in names
            if all(name in part.names and part.field(name).type == _CODED for part in held)
        ]
        if text != names:
            pieces = self.pieces(partition=partition, where=where, coded=text)
        return pieces, text

    def _pieces(
        self, kept: pc.Expression | None, partition: Mapping[str, Any] | None = None
    ) -> list[ds.Fragment]:
        """Files that may hold such rows, in order of their paths."""
        dataset = self._dataset
        key = tuple((partition or {}).get(name, _ANY) for name in self.partition_columns)
        if key in self._by_partition:
            # A look at every file for every partition would take the square of their number.
            files = self._by_partition[key]
            dataset = ds.FileSystemDataset(files, dataset.schema, dataset.format, None)
        pieces = sorted(dataset.get_fragments(filter=kept), key=path_of)
        # A dataset would keep the footer of every file that was looked into, of a copy it does not.
        return pieces if self.uri is None else [copy_of(piece) for piece in pieces]

    @cached_property
    def _by_partition(self) -> Mapping[tuple[Any, ...], list[ds.Fragment]]:
        return by_partition(self._dataset, self.partition_columns)

    def _types(self, pieces: Sequence[ds.Fragment]) -> pa.Schema:
        """Of the columns, such that all these files can be read as them."""
        return (
            self.schema if self.uri is None else _common_schema(self.schema, pieces, self.name_of)
        )

    def _fragment(self, rows: RowGroups) -> RowGroups:
        """As what some row groups of a file are read; formats may have more to do than to read."""
        return rows

    @property
    def _remote(self) -> bool:
        return self._storage is not None and self._storage.remote

    def name_of(self, piece: ds.Fragment) -> str:
        """The path or URI of a file, for messages."""
        path = path_of(piece)
        return path if self._storage is None else self._storage.name(path)

    def _look_into(self, pieces: Sequence[ds.Fragment]) -> None:
        """Read the footers of remote files, many at once; they stay with their fragments."""
        if not self._remote:
            return

        def look(piece: ds.Fragment) -> None:
            with readable(self.name_of(piece)):
                patiently(piece.ensure_complete_metadata)

        with ThreadPoolExecutor(_FOOTERS_AT_ONCE, thread_name_prefix="probclass-footer") as pool:
            for _ in pool.map(look, pieces):
                pass

    def _nothing_there(self, partition: Mapping[str, Any] | None, where: Where) -> str:
        present = self.partitions()
        names = ["/".join(f"{key}={value}" for key, value in one.items()) for one in present]
        some = one_of(names[:3]) + (f", … {names[-1]!r}" if len(names) > 3 else "")
        asked = " and ".join(str(what) for what in (partition, where) if what is not None)
        return f"{self.uri} has no partition with {asked}; it has {len(names)}: {some}."

    def _snapshot(self, pieces: Sequence[ds.Fragment]) -> str | None:
        """Digest of the files that are read, in their state; none without an address."""
        if self.uri is None:
            return None
        digest = hashlib.sha256()
        for piece in pieces:
            digest.update(f"{self._identity(piece)}\n".encode())
        return digest.hexdigest()


@dataclass(frozen=True)
class RowGroups:
    """Some row groups of one file."""

    piece: ds.Fragment
    schema: pa.Schema
    columns: Sequence[str]
    kept: pc.Expression | None
    place: str
    scan: ds.ParquetFragmentScanOptions
    digest: str | None

    def __str__(self) -> str:
        numbers = [group.id for group in getattr(self.piece, "row_groups", ())]
        return f"{self.place} (row groups {numbers[0]} to {numbers[-1]})" if numbers else self.place

    def read(self) -> Iterator[pa.RecordBatch]:
        """Where a store fails half-way it is asked again; what was given is not given twice."""
        patience = Patience()
        given = 0
        with readable(self.place):
            while True:
                try:
                    for batch in _beyond(given, self._batches()):
                        given += batch.num_rows
                        yield batch
                    return
                except OSError as error:
                    patience.wait(error)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        batches: Iterator[pa.RecordBatch] = self.piece.to_batches(
            schema=self.schema,
            columns=list(self.columns),
            filter=self.kept,
            batch_size=BATCH_ROWS,
            batch_readahead=2,
            fragment_scan_options=self.scan,
            use_threads=False,
        )
        return batches


def _beyond(rows: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Batches without the first so many rows."""
    for batch in batches:
        skipped = min(rows, batch.num_rows)
        rows -= skipped
        if skipped < batch.num_rows or not batch.num_rows:
            yield batch.slice(skipped)


class readable:
    """Turns what Arrow raises on a damaged file into an error that names the file."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, (pa.ArrowException, OSError)):
            raise TableError(f"cannot read {self.path}: {one_line(error)}.") from error


def _common_schema(
    schema: pa.Schema, pieces: Sequence[ds.Fragment], name: Callable[[ds.Fragment], str]
) -> pa.Schema:
    """The types that the columns of all these files can be read as.

    A dataset takes the types of its first file for those of all, whose integers would not do for
    another file's floats, nor its nulls for anything.

    Raises:
        DataError: a column is text in one file and a number in another, or the like.
    """
    kinds: dict[str, dict[pa.DataType, str]] = {}
    before: pa.Schema | None = None
    for piece in pieces:
        with readable(path_of(piece)):
            held = piece.physical_schema
            if held == before:
                continue
            before = held
            for column in schema_without_views(held):
                kinds.setdefault(column.name, {}).setdefault(column.type, path_of(piece))
    for number, column in enumerate(schema):
        if column.name in kinds and column.name not in partition_of(pieces[0]):
            kind = _common_type(column.name, kinds[column.name])
            schema = schema.set(number, column.with_type(kind))
    return schema_without_views(schema)


def _common_type(name: str, found: Mapping[pa.DataType, str]) -> pa.DataType:
    if len(found) == 1:
        return next(iter(found))
    plain = [kind.value_type if pa.types.is_dictionary(kind) else kind for kind in found]
    try:
        schemas = [pa.schema([(name, kind)]) for kind in plain]
        return pa.unify_schemas(schemas, promote_options="permissive").field(name).type
    except pa.ArrowException as error:
        listed = " and ".join(f"{kind} in {path}" for kind, path in list(found.items())[:2])
        raise DataError(f"column {name!r} is {listed}; cast it to one type.") from error


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _grouped(piece: ds.Fragment) -> Iterator[tuple[ds.Fragment, int]]:
    """Consecutive row groups of a file, up to `_FRAGMENT_ROWS` together, with their rows."""
    if not hasattr(piece, "row_groups"):
        yield piece, piece.count_rows()
        return
    together: list[int] = []
    held = 0
    for group in piece.row_groups:
        if together and held + group.num_rows > _FRAGMENT_ROWS:
            yield piece.subset(row_group_ids=together), held
            together, held = [], 0
        together.append(group.id)
        held += group.num_rows
    if together:
        yield piece.subset(row_group_ids=together), held
