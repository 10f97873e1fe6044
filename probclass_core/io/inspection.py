"""Inspect the files and partitions of a table by its footers, without reading rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from probclass_core.arguments import checks_arguments
from probclass_core.arrow.display import Part, Report, ShortRepr, TablePart
from probclass_core.errors import TableError, TableMismatchError
from probclass_core.io.commit.parquet_writer import commit_record_in
from probclass_core.io.errors import translate_read_errors
from probclass_core.io.filters import Where, partition_text
from probclass_core.io.open import format_of, open_ref
from probclass_core.io.references import ABANDONED, Leftover, TableRef

if TYPE_CHECKING:
    import pyarrow.dataset as ds


@dataclass(frozen=True, repr=False)
class DataFile(ShortRepr):
    """One Parquet file of a table.

    Attributes:
        path: path or URI of the file.
        partition: values of the partition columns, outermost first.
        rows: number of rows.
        bytes: size in bytes, or None if the file system does not report it.
        row_groups: number of row groups.
        commit: record of the scoring that wrote the file, or None if another writer did.
        written: time of the last change, or None if the file system does not report it.
    """

    path: str
    partition: Mapping[str, Any]
    rows: int
    bytes: int | None
    row_groups: int
    commit: Mapping[str, Any] | None
    written: datetime | None


@dataclass(frozen=True, repr=False)
class DataFiles(ShortRepr):
    """Files of a table, or of one partition of it, and their totals.

    Attributes:
        files: the files, by path.
    """

    files: Sequence[DataFile]

    def __len__(self) -> int:
        return len(self.files)

    def __iter__(self) -> Iterator[DataFile]:
        return iter(self.files)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(file.rows for file in self.files)

    @property
    def bytes(self) -> int | None:
        """Size in bytes, or None if the size of a file is unknown."""
        sizes = [file.bytes for file in self.files if file.bytes is not None]
        return sum(sizes) if len(sizes) == len(self.files) else None

    @property
    def row_groups(self) -> int:
        """Number of row groups."""
        return sum(file.row_groups for file in self.files)

    @property
    def written(self) -> datetime | None:
        """Time of the last change of the newest file, or None if unknown."""
        return max((file.written for file in self.files if file.written), default=None)

    @property
    def models(self) -> list[str]:
        """Ids of the models that scored the files, sorted; empty if none did."""
        records = [file.commit for file in self.files if file.commit]
        return sorted({str(record["model_id"]) for record in records if "model_id" in record})

    @property
    def totals(self) -> dict[str, Any]:
        """The totals as plain values."""
        names = ("rows", "row_groups", "bytes", "written", "models")
        return {"files": len(self), **{name: getattr(self, name) for name in names}}

    def by_partition(self) -> list[tuple[Mapping[str, Any], DataFiles]]:
        """Group the files by partition, in order; empty if the table has no partitions."""
        groups: dict[tuple[tuple[str, Any], ...], list[DataFile]] = {}
        for file in self.files:
            if file.partition:
                groups.setdefault(tuple(file.partition.items()), []).append(file)
        return [(dict(partition), DataFiles(files)) for partition, files in groups.items()]


@dataclass(frozen=True, repr=False)
class TableInspection(Report):
    """What a table contains.

    Attributes:
        uri: path or URI of the table.
        format: name of its format.
        version: version of the table, or None if its format has no versions.
        schema: schema of all columns, partition columns included.
        partition_columns: names of the partition columns, outermost first.
        partitions: the partitions in order, as values of the partition columns.
        rows: number of rows, or None if it is unknown before they are read.
        files: data files, or None if the table does not consist of Parquet files.
    """

    uri: str
    format: str
    version: int | None
    schema: pa.Schema
    partition_columns: Sequence[str]
    partitions: Sequence[Mapping[str, Any]]
    rows: int | None
    files: DataFiles | None

    def to_dict(self) -> dict[str, Any]:
        """The inspection as plain values, for JSON."""
        return {
            "uri": self.uri,
            "format": self.format,
            "version": self.version,
            **({"rows": self.rows} if self.files is None else self.files.totals),
            "partition_columns": list(self.partition_columns),
            "schema": [{"name": one.name, "type": str(one.type)} for one in self.schema],
            "partitions": [
                {"partition": partition, **of.totals} for partition, of in self._by_partition
            ]
            or [{"partition": partition} for partition in self.partitions],
        }

    @property
    def _by_partition(self) -> list[tuple[Mapping[str, Any], DataFiles]]:
        return [] if self.files is None else self.files.by_partition()

    def _report(self) -> list[Part]:
        """Sizes, columns and partitions of the table."""
        version = "" if self.version is None else f", version {self.version}"
        rows = "unknown" if self.rows is None else f"{self.rows:,}"
        title = f"Table {self.uri} ({self.format}{version}): rows {rows}"
        facts, files = [], self.files
        if self.partitions:
            first, last = (partition_text(self.partitions[i]) for i in (0, -1))
            facts.append(f"{len(self.partitions):,} partitions from {first} to {last}")
        if files is not None:
            size = "" if files.bytes is None else f" of {files.bytes:,} bytes"
            title += f", files {len(files):,}{size}"
            facts.append(f"{files.row_groups:,} row groups")
            if files.models:
                facts.append(f"scored by {', '.join(files.models)}")
        partitions = {*self.partition_columns}
        columns: dict[str, Sequence[Any]] = {
            "column": self.schema.names,
            "type": [str(field.type) for field in self.schema],
            "": ["of the partitions" if name in partitions else "" for name in self.schema.names],
        }
        parts: list[Part] = [title, facts, TablePart(columns)]
        if self._by_partition:
            parts.append(_partitions_part(self._by_partition))
        return parts


def _partitions_part(partitions: Sequence[tuple[Mapping[str, Any], DataFiles]]) -> TablePart:
    columns: dict[str, list[Any]] = {
        "partition": [partition_text(one) for one, _ in partitions],
        "files": [len(files) for _, files in partitions],
        "rows": [files.rows for _, files in partitions],
        "bytes": [files.bytes for _, files in partitions],
        "written": [str(files.written or "")[:16] for _, files in partitions],
        "scored by": [", ".join(one[:12] for one in files.models) for _, files in partitions],
    }
    return TablePart(columns, "Partitions")


@checks_arguments
def inspect_table(
    table: str | Path | TableRef,
    *,
    partition: Mapping[str, Any] | None = None,
    where: Where = None,
) -> TableInspection:
    """Inspect the files and partitions of a table, without reading rows.

    Args:
        table: path, URI or `TableRef`.
        partition: partition to inspect, or None for all.
        where: conditions on rows, or None; files that may contain such rows count as a whole.

    Raises:
        TableError: if the table or partition does not exist, or a footer cannot be read.
        PluginError: if the format is unknown.
    """
    ref = TableRef.parse(table)
    opened = open_ref(ref)
    plan = opened.plan([], partition=partition, where=where)
    columns = opened.partition_columns
    files: DataFiles | None
    partitions: Sequence[Mapping[str, Any]]
    found = opened.parquet_files(partition=partition, where=where)
    if found is not None:
        files = DataFiles([_data_file(location, one, columns) for location, one in found])
        partitions = [values for values, _ in files.by_partition()]
    else:
        files, partitions = None, opened.partitions(where)
    return TableInspection(
        uri=ref.uri,
        format=format_of(ref).name,
        version=plan.version,
        schema=opened.schema,
        partition_columns=columns,
        partitions=partitions,
        rows=plan.rows,
        files=files,
    )


def scored_by(table: str | Path | TableRef) -> list[str]:
    """The ids of the models that scored the rows of a table, sorted.

    Raises:
        TableMismatchError: if the table does not consist of Parquet files, which record it.
        TableError: if the table does not exist, or a footer cannot be read.
    """
    files = inspect_table(table).files
    if files is None:
        raise TableMismatchError(
            f"{TableRef.parse(table).uri} does not record which models scored it; leave it out."
        )
    return files.models


def _data_file(location: str, fragment: ds.Fragment, partition_columns: Sequence[str]) -> DataFile:
    from probclass_core.io.parquet.column_chunks import check_columns
    from probclass_core.io.parquet.partitions import partition_of

    values = partition_of(fragment)
    with translate_read_errors(location):
        check_columns(fragment, location)
        footer = fragment.metadata
        info = fragment.filesystem.get_file_info(fragment.path)
    return DataFile(
        path=location,
        partition={name: values[name] for name in partition_columns if name in values},
        rows=footer.num_rows,
        bytes=info.size,
        row_groups=footer.num_row_groups,
        commit=commit_record_in(footer),
        written=info.mtime,
    )


def clean_table(
    table: str | Path | TableRef, *, older_than: timedelta = ABANDONED, dry_run: bool = False
) -> list[Leftover]:
    """Remove what killed writers left of a table, and nothing else.

    No reader sees any of it, so no row of the table changes, in any version.

    Args:
        table: path, URI or `TableRef`.
        older_than: least age of what is removed; younger files may belong to a live writer. By
            default a day; zero is safe only while nobody writes to the table.
        dry_run: whether to remove nothing.

    Returns:
        What was removed, or would be.

    Raises:
        TableError: if there is no such table, its format cannot list leftovers, or one cannot be
            removed.
        PluginError: if the format is unknown.
    """
    ref = TableRef.parse(table)
    if not ref.newest:
        raise TableError(
            f"{ref.uri}: all versions of a table are cleaned at once; leave version and timestamp "
            "out."
        )
    leftovers = [left for left in format_of(ref).leftovers(ref) if left.abandoned(older_than)]
    if not dry_run:
        for leftover in leftovers:
            leftover.remove()
    return leftovers
