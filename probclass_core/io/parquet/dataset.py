"""A table of files: planned file by file, read by row groups.

All formats with Parquet data files are read here: directories, Delta, Iceberg. Text files are
planned here, too.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property
from itertools import combinations, groupby
from typing import Any, Self, Unpack

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from probclass_core.arrow.types import common_type, safe_types
from probclass_core.errors import DataError, TableError, one_of
from probclass_core.io.failures import retry, translate_read_errors
from probclass_core.io.filesystem import FileVersion, Location
from probclass_core.io.filters import Where, expression, parse_where, partition_text
from probclass_core.io.parquet.files import (
    PlannedFile,
    Reading,
    RowGroups,
    StoredColumn,
    partition_of,
    partition_values,
    path_of,
    reopened,
    with_utf8_names,
)
from probclass_core.io.parquet.units import (
    FragmentDigests,
    absolute_location,
    divide_into_units,
    file_digest,
    unit_of,
)
from probclass_core.io.table import Footer, Plan, Query, Source, columns_and_filter

_CONCURRENT_FOOTERS = 16
"""Footers of remote files that are read at the same time."""

_DICTIONARY = pa.dictionary(pa.int32(), pa.string())
"""Type of text that is read as Parquet's own dictionaries."""

_ANY = object()
"""Stands for all values of a partition column."""


class DatasetTable(Source):
    """A table of files.

    Files may differ from the table: columns were renamed or added since, or rows deleted. A format
    says how by `_match`, `_deleted_positions` and `_deletions`.

    Args:
        dataset: the files, each with the condition that its partition meets.
        uri: path or URI of the table.
        location: location of the files.
        partition_columns: names of the partition columns, outermost first.
        state: function that returns a text which differs between two states of a file; by default
            its path.
        version: version of the table, or None if its format has no versions.
        has_log: whether a log names the columns of the table and its files, which never change.
    """

    _matched: tuple[pa.Schema, Set[str], Mapping[str, StoredColumn]] | None = None
    """The schema of the file that was matched last, which most files have, the columns that it
    has, and those that Arrow would not read as they are in the table."""

    def __init__(
        self,
        dataset: ds.Dataset,
        *,
        uri: str,
        location: Location,
        partition_columns: Sequence[str],
        state: Callable[[ds.Fragment], str] = path_of,
        version: int | None = None,
        has_log: bool = True,
    ) -> None:
        self.uri: str = uri
        self.version = version
        self._dataset = dataset
        self._location = location
        self._state = state
        self._has_log = has_log
        self._footer_cache: Mapping[str, Footer] | None = None
        self.partition_columns = partition_columns

    def with_footer_cache(self, cache: Mapping[str, Footer]) -> Self:
        table = copy.copy(self)
        table._footer_cache = cache
        return table

    @cached_property
    def schema(self) -> pa.Schema:
        return safe_types(self._dataset.schema)

    def partitions(self, where: Where = None) -> Sequence[Mapping[str, Any]]:
        names = self.partition_columns
        partitions: dict[tuple[tuple[str, Any], ...], None] = {}
        for fragment in self._fragments(None, where) if names else ():
            values = partition_of(fragment)
            missing = [name for name in names if name not in values]
            if missing:
                raise TableError(
                    f"{self.location_of(fragment)} is in no folder {missing[0]}=…, as other files "
                    f"of {self.uri} are, so its rows are in no partition; move it into one, or out "
                    "of the table."
                )
            partitions[tuple((name, values[name]) for name in names)] = None
        return [dict(items) for items in partitions]

    def plan(self, columns: Sequence[str] | None = None, **query: Unpack[Query]) -> Plan:
        columns, row_filter = columns_and_filter(self.schema, columns, query)
        partition, where = query.get("partition"), parse_where(query.get("where"))
        files = self._planned_files(partition, where)
        schema, text_columns = self._read_schema(files), []
        allowed = query.get("allow_dictionaries")
        if allowed and not isinstance(where, pc.Expression):
            # Parquet stores text as dictionaries; read as such, it is four times faster.
            plain = {*self.partition_columns, *(condition[0] for condition in where or ())}
            text_columns = [
                name
                for name in columns
                if (allowed is True or name in allowed)
                and name not in plain
                and _is_plain_text(schema.field(name).type)
            ]
        for name in text_columns:
            schema = schema.set(schema.get_field_index(name), pa.field(name, _DICTIONARY))
        plan_schema = pa.schema([schema.field(name) for name in columns])
        digests = FragmentDigests(self.uri, plan_schema, partition, where)
        reading = Reading(schema, columns, row_filter, text_columns, self._remote)
        of_whole_files = replace(reading, row_filter=None)
        parts: list[RowGroups] = []
        for file in files:
            with translate_read_errors(file.location):
                row_state, file_partition = self._row_state(file), partition_of(file.fragment)
                # All rows of a file in a directory of the partition are of the partition.
                is_whole = where is None and set(partition or ()) <= file_partition.keys()
                for numbers in file.chunks():
                    digest = digests.digest(row_state, file_partition, numbers)
                    used = of_whole_files if is_whole else reading
                    parts.append(self._row_groups(file, numbers, used, digest))
        names = self.partition_columns
        units = divide_into_units(parts, names)
        footers: list[list[Footer]] = []
        from_cache: list[list[str]] = []
        for unit in units if self._footer_cache is not None else ():
            begun = [part.file for part in unit if part.begins_file]
            footers.append([file.footer(self._digest(file.state)) for file in begun])
            found = [part.file.from_cache for part in unit]
            from_cache.append([file for file in found if file is not None])
        return Plan(
            plan_schema,
            [unit_of(unit) for unit in units],
            sum(part.remaining_rows for part in parts),
            self._snapshot(files),
            self.version,
            [sum(part.rows for part in unit) for unit in units],
            [partition_values(unit[0].file.fragment, names) for unit in units] if names else (),
            footers,
            self._missing(files, columns),
            from_cache,
        )

    def _row_groups(
        self, file: PlannedFile, numbers: tuple[int, ...], reading: Reading, digest: str | None
    ) -> RowGroups:
        """Return the part of a unit that reads some row groups, without the deleted rows."""
        rows = RowGroups(file, numbers, reading, digest)
        positions = self._deleted_positions(path_of(file.fragment))
        return rows if positions is None else rows.without(positions)

    def _deleted_positions(self, path: str) -> pa.Int64Array | None:
        """Return the positions of all deleted rows of a file, without duplicates."""
        return None

    def _deletions(self, path: str) -> Sequence[str]:
        """Return texts that differ between two states of the deleted rows of a file."""
        return ()

    def _match(self, file_schema: pa.Schema) -> Sequence[StoredColumn]:
        """Return where a file of a schema has each column of the table."""
        names = {*file_schema.names}
        return [StoredColumn(name, name if name in names else None) for name in self.schema.names]

    def _stored(self, file_schema: pa.Schema) -> tuple[Set[str], Mapping[str, StoredColumn]]:
        if self._matched is None or not self._matched[0].equals(file_schema, check_metadata=True):
            columns = self._match(file_schema)
            changed = {
                column.name: column
                for column in columns
                if not column.same and (column.present or column.name in file_schema.names)
            }
            present = {column.name for column in columns if column.present}
            self._matched = file_schema, present, changed
        return self._matched[1:]

    def _name(self, fragment: ds.Fragment) -> str:
        """Return the name of a file, which remains the same if the table is copied."""
        return self._location.relative(path_of(fragment))

    def _missing(self, files: Sequence[PlannedFile], columns: Sequence[str]) -> dict[str, int]:
        """Count the rows in files without a column, by column."""
        rows: dict[str, int] = {}
        for file in files:
            present = self._stored(file.schema)[0] | partition_of(file.fragment).keys()
            for name in columns:
                if name not in present:
                    rows[name] = rows.get(name, 0) + sum(file.rows)
        return rows

    def parquet_files(
        self, *, partition: Mapping[str, Any] | None = None, where: Where = None
    ) -> Sequence[tuple[str, ds.Fragment]] | None:
        fragments = self._matching_fragments(partition, where)
        self._read_footers(fragments)
        return [(self.location_of(fragment), fragment) for fragment in fragments]

    def location_of(self, fragment: ds.Fragment) -> str:
        """Return the path or URI of a file."""
        return self._location.uri_of(self._name(fragment))

    def _matching_fragments(
        self, partition: Mapping[str, Any] | None, where: Where
    ) -> list[ds.Fragment]:
        """Return the files that may contain such rows, by path; TableError if there is none."""
        fragments = self._fragments(partition, where)
        if not fragments and expression(self.schema, partition, where) is not None:
            raise TableError(self._no_such_partition(partition, where))
        return fragments

    def _planned_files(
        self, partition: Mapping[str, Any] | None, where: Where
    ) -> list[PlannedFile]:
        """Return the files that may contain such rows, by path."""
        fragments = self._matching_fragments(partition, where)
        states = [self._state(fragment) for fragment in fragments]
        cache = self._footer_cache or {}
        footers = [cache.get(self._digest(state)) if cache else None for state in states]
        files = list(zip(fragments, states, footers, strict=True))
        self._read_footers([fragment for fragment, _, footer in files if footer is None])
        return [self._planned_file(*file) for file in files]

    def _planned_file(
        self, fragment: ds.Fragment, state: str, footer: Footer | None
    ) -> PlannedFile:
        """Return a file with what its footer says.

        Args:
            fragment: the file.
            state: its state.
            footer: its footer from the cache, or None to open the file.
        """
        location = self.location_of(fragment)
        if footer is None:
            with translate_read_errors(location):
                # A footer takes 3 kB for each column; from a local disk it is soon read again.
                opened = fragment if self._remote else reopened(fragment)
                schema = with_utf8_names(opened.physical_schema)
                rows = tuple(group.num_rows for group in opened.row_groups)
        else:
            schema, rows = footer.schema, footer.rows
        return PlannedFile(
            fragment,
            state,
            self._name(fragment),
            location,
            schema,
            rows,
            reopen=footer is not None or not self._remote,
            from_cache=None if footer is None else footer.file,
            version=self._version(fragment, state),
            changed=self._stored(schema)[1],
        )

    def _fragments(self, partition: Mapping[str, Any] | None, where: Where) -> list[ds.Fragment]:
        """Return the files that may contain such rows, by path."""
        row_filter = expression(self.schema, partition, where)
        found = self._files(partition, where).get_fragments(filter=row_filter)
        # A dataset keeps the footer of each file that was opened in memory, but not of a copy.
        return [reopened(fragment) for fragment in sorted(found, key=path_of)]

    def _files(self, partition: Mapping[str, Any] | None, where: Where) -> ds.Dataset:
        """Return files among which are all that may contain such rows."""
        dataset = self._dataset
        key = tuple((partition or {}).get(name, _ANY) for name in self.partition_columns)
        if _ANY not in key and key in self._fragments_by_partition:
            # To filter all files for each partition would take time quadratic in their number.
            fragments = self._fragments_by_partition[key]
            dataset = ds.FileSystemDataset(fragments, dataset.schema, dataset.format, None)
        return dataset

    @cached_property
    def _fragments_by_partition(self) -> Mapping[tuple[Any, ...], list[ds.Fragment]]:
        """The files of each partition; none if a file may have rows of several partitions."""
        groups: dict[tuple[Any, ...], list[ds.Fragment]] = {}
        names = self.partition_columns
        for fragment in self._dataset.get_fragments() if names else ():
            values = partition_of(fragment)
            if not values.keys() >= {*names}:
                return {}
            groups.setdefault(tuple(values[name] for name in names), []).append(fragment)
        return groups

    def _read_schema(self, files: Sequence[PlannedFile]) -> pa.Schema:
        """Return the schema of the table in types that all these files can be read as."""
        return self.schema if self._has_log else _common_schema(self.schema, files)

    def _version(self, fragment: ds.Fragment, state: str) -> FileVersion | None:
        """Return a file in its planned state, or None if files never change."""
        return None if self._has_log else FileVersion(self._location, self._name(fragment), state)

    def _row_state(self, file: PlannedFile) -> str:
        """Return a text that differs between two states of the rows of a file."""
        changed = map(str, file.changed.values())
        return "\0".join([file.state, *self._deletions(path_of(file.fragment)), *changed])

    @property
    def _remote(self) -> bool:
        return self._location.remote

    def _read_footers(self, fragments: Sequence[ds.Fragment]) -> None:
        """Read the footers of remote files concurrently; they stay in memory."""
        if not self._remote:
            return

        def read_footer(fragment: ds.Fragment) -> None:
            with translate_read_errors(self.location_of(fragment)):
                retry(fragment.ensure_complete_metadata)

        with ThreadPoolExecutor(_CONCURRENT_FOOTERS, thread_name_prefix="probclass-footer") as pool:
            list(pool.map(read_footer, fragments))

    def _no_such_partition(self, partition: Mapping[str, Any] | None, where: Where) -> str:
        names = [partition_text(values) for values in self.partitions()]
        some = one_of(names[:3]) + (f", … {names[-1]!r}" if len(names) > 3 else "")
        query = " and ".join(str(part) for part in (partition, where) if part is not None)
        return f"{self.uri} has no partition with {query}; it has {len(names)}: {some}."

    def _digest(self, state: str) -> str:
        """Return the digest of a file in a state."""
        return file_digest(self._absolute_location, state)

    @cached_property
    def _absolute_location(self) -> str:
        return absolute_location(self.uri)

    def _snapshot(self, files: Sequence[PlannedFile]) -> str:
        """Return the digest of the files in their state."""
        digest = hashlib.sha256()
        for file in files:
            digest.update(f"{self._row_state(file)}\n".encode())
        return digest.hexdigest()


def _common_schema(schema: pa.Schema, files: Sequence[PlannedFile]) -> pa.Schema:
    """Return the schema in types that the columns of all these files can be read as.

    A dataset takes the types of its first file for all: its integers would truncate another file's
    floats, and its nulls would match nothing.

    Raises:
        DataError: if a column is text in one file and a number in another, or the like.
    """
    paths_by_type: dict[str, dict[pa.DataType, str]] = {}
    for file_schema, same_schema in groupby(files, key=lambda file: file.schema):
        path = path_of(next(same_schema).fragment)
        for column in safe_types(file_schema):
            paths_by_type.setdefault(column.name, {}).setdefault(column.type, path)
    partition_columns = partition_of(files[0].fragment) if files else {}
    for number, column in enumerate(schema):
        if column.name in paths_by_type and column.name not in partition_columns:
            kind = _common_type(column.name, paths_by_type[column.name])
            schema = schema.set(number, column.with_type(kind))
    return safe_types(schema)


def _common_type(name: str, paths: Mapping[pa.DataType, str]) -> pa.DataType:
    """Return the type that a column of several files can be read as.

    Args:
        name: name of the column.
        paths: the types of the column, each with the path of a file.
    """
    if len(paths) == 1:
        return next(iter(paths))
    kind = common_type(paths)
    if kind is None:
        pairs = (pair for pair in combinations(paths, 2) if common_type(pair) is None)
        types = " and ".join(f"{kind} in {paths[kind]}" for kind in next(pairs, paths))
        raise DataError(f"column {name!r} is {types}; cast it to one type.")
    return kind


def _is_plain_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
