"""What a table is and holds, from its footers; no row is read."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import pyarrow as pa

from probclass_core.io.commit.records import COMMIT_KEY
from probclass_core.io.errors import translate_read_errors
from probclass_core.io.filters import Where
from probclass_core.io.open import format_of
from probclass_core.io.references import TableRef

if TYPE_CHECKING:
    import pyarrow.dataset as ds
    import pyarrow.parquet as pq


@dataclass(frozen=True)
class DataFile:
    """One Parquet file of a table.

    Attributes:
        path: or URI.
        partition: values of the partition columns, outermost first.
        rows: how many.
        bytes: on disk; none where the storage does not say.
        row_groups: how many.
        statistics: of each column, the row groups that tell its least and greatest value.
        commit: the record of the scoring that made it; none where others made it.
        written: when it was written; none where the storage does not say.
    """

    path: str
    partition: Mapping[str, Any]
    rows: int
    bytes: int | None
    row_groups: int
    statistics: Mapping[str, int]
    commit: Mapping[str, Any] | None
    written: datetime | None


@dataclass(frozen=True)
class DataFiles:
    """Files of a table, or of one partition of it, and what they sum up to.

    Attributes:
        files: in order of their paths.
    """

    files: Sequence[DataFile]

    def __len__(self) -> int:
        return len(self.files)

    def __iter__(self) -> Iterator[DataFile]:
        return iter(self.files)

    @property
    def rows(self) -> int:
        """How many they hold."""
        return sum(file.rows for file in self.files)

    @property
    def bytes(self) -> int | None:
        """On disk; none where one's size is not known."""
        sizes = [file.bytes for file in self.files if file.bytes is not None]
        return sum(sizes) if len(sizes) == len(self.files) else None

    @property
    def row_groups(self) -> int:
        """How many they hold."""
        return sum(file.row_groups for file in self.files)

    @property
    def written(self) -> datetime | None:
        """When the newest was written."""
        return max((file.written for file in self.files if file.written), default=None)

    @property
    def models(self) -> list[str]:
        """Ids of the models that scored them, sorted; none where nothing was scored."""
        records = [file.commit for file in self.files if file.commit]
        return sorted({str(record["model_id"]) for record in records if "model_id" in record})

    @property
    def coverage(self) -> dict[str, float]:
        """Of each stored column, the share of row groups that tell its least and greatest value.

        By these values a reader skips row groups.
        """
        told, groups = self._row_groups_by_column()
        return {name: told[name] / groups[name] for name in groups if groups[name]}

    @property
    def statistics_coverage(self) -> float | None:
        """The same share of all row groups × columns; none where there are none."""
        told, groups = self._row_groups_by_column()
        return told.total() / groups.total() if groups.total() else None

    def _row_groups_by_column(self) -> tuple[Counter[str], Counter[str]]:
        """Those with statistics, and all."""
        told: Counter[str] = Counter()
        groups: Counter[str] = Counter()
        for file in self.files:
            told.update(file.statistics)
            groups.update(dict.fromkeys(file.statistics, file.row_groups))
        return told, groups

    def by_partition(self) -> list[tuple[Mapping[str, Any], DataFiles]]:
        """Partitions in order, each with its files; none where the table has no partitions."""
        together: dict[tuple[tuple[str, Any], ...], list[DataFile]] = {}
        for file in self.files:
            if file.partition:
                together.setdefault(tuple(file.partition.items()), []).append(file)
        return [(dict(key), DataFiles(files)) for key, files in together.items()]


@dataclass(frozen=True)
class TableInspection:
    """What a table is and holds.

    Attributes:
        uri: where it lies.
        format: name of its format.
        version: that was looked at; none where the format counts none.
        schema: of all columns, partition columns included.
        partition_columns: outermost first.
        partitions: those there are, in order.
        rows: how many; none where nobody knows before they are read.
        files: that hold them; none where the table is not of Parquet files.
    """

    uri: str
    format: str
    version: int | None
    schema: pa.Schema
    partition_columns: Sequence[str]
    partitions: Sequence[Mapping[str, Any]]
    rows: int | None
    files: DataFiles | None


def inspect_table(
    place: str | Path | TableRef,
    *,
    partition: Mapping[str, Any] | None = None,
    where: Where = None,
) -> TableInspection:
    """What a table is and holds; no row is read.

    Args:
        place: path, URI or `TableRef`.
        partition: only this one.
        where: only files that may hold such rows; they are counted whole.

    Raises:
        TableError: there is no such table or partition, or a footer cannot be read.
        PluginError: no such format.
    """
    ref = TableRef.parse(place)
    found = format_of(ref)
    table = found.open(ref)
    plan = table.plan([], partition=partition, where=where)
    names = table.partition_columns
    files: DataFiles | None
    partitions: Sequence[Mapping[str, Any]]
    if isinstance(table, _OfFiles):
        pieces = table.pieces(partition=partition, where=where)
        files = DataFiles([_data_file(table.name_of(piece), piece, names) for piece in pieces])
        partitions = [each for each, _ in files.by_partition()]
    else:
        files, partitions = None, table.partitions(where)
    return TableInspection(
        ref.uri, found.name, plan.version, table.schema, names, partitions, plan.rows, files
    )


@runtime_checkable
class _OfFiles(Protocol):
    """A table that can tell the Parquet files of its rows."""

    def pieces(
        self, *, partition: Mapping[str, Any] | None = None, where: Where = None
    ) -> Sequence[ds.Fragment]: ...

    def name_of(self, piece: ds.Fragment) -> str: ...


def _data_file(name: str, piece: ds.Fragment, partition_columns: Sequence[str]) -> DataFile:
    from probclass_core.io.parquet.pieces import partition_of

    keys = partition_of(piece)
    with translate_read_errors(name):
        footer = piece.metadata
        info = piece.filesystem.get_file_info(piece.path)
    return DataFile(
        path=name,
        partition={name: keys[name] for name in partition_columns if name in keys},
        rows=footer.num_rows,
        bytes=info.size,
        row_groups=footer.num_row_groups,
        statistics=_told(footer),
        commit=_commit(footer),
        written=info.mtime,
    )


def _told(footer: pq.FileMetaData) -> dict[str, int]:
    """Row groups with the least and greatest value of a column, or nothing but nulls in it."""
    told: dict[str, int] = {}
    for leaf in range(footer.num_columns):
        column = footer.schema.column(leaf)
        flat = column.name == column.path  # and may have a dot in its name
        name = column.path if flat else column.path.partition(".")[0]
        groups = 0
        for number in range(footer.num_row_groups):
            statistics = footer.row_group(number).column(leaf).statistics
            groups += statistics is not None and (
                statistics.has_min_max or statistics.num_values == 0
            )
        told[name] = min(told.get(name, groups), groups)
    return told


def _commit(footer: pq.FileMetaData) -> dict[str, Any] | None:
    record = (footer.metadata or {}).get(COMMIT_KEY.encode())
    try:
        return None if record is None else dict(json.loads(record))
    except (TypeError, ValueError):
        return None  # another's key of the same name
