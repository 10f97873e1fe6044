"""Inspect the files and partitions of a table by its footers, without reading rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from probclass_core.arguments import checks_arguments
from probclass_core.display import Part, Report, ShortRepr, TablePart
from probclass_core.errors import TableError, TableMismatchError
from probclass_core.io.commit.parquet import commit_record_in
from probclass_core.io.failures import translate_read_errors
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
        files: data files, by path, or None if the table does not consist of Parquet files.
    """

    uri: str
    format: str
    version: int | None
    schema: pa.Schema
    partition_columns: Sequence[str]
    partitions: Sequence[Mapping[str, Any]]
    rows: int | None
    files: Sequence[DataFile] | None

    @property
    def models(self) -> list[str]:
        """Ids of the models that scored the files, sorted; empty if none did."""
        models: list[str] = _totals(self.files or ())["models"]
        return models

    def to_dict(self) -> dict[str, Any]:
        """The inspection as plain values, for JSON."""
        return {
            "uri": self.uri,
            "format": self.format,
            "version": self.version,
            **({"rows": self.rows} if self.files is None else _totals(self.files)),
            "partition_columns": list(self.partition_columns),
            "schema": [{"name": one.name, "type": str(one.type)} for one in self.schema],
            "partitions": self._partitions(),
        }

    def _partitions(self) -> list[dict[str, Any]]:
        """Each partition, with the totals of its files."""
        if self.files is None:
            return [{"partition": partition} for partition in self.partitions]
        groups = _by_partition(self.files)
        return [{"partition": group[0].partition, **_totals(group)} for group in groups]

    def _report(self) -> list[Part]:
        """Sizes, columns and partitions of the table."""
        version = "" if self.version is None else f", version {self.version}"
        rows = "unknown" if self.rows is None else f"{self.rows:,}"
        title = f"Table {self.uri} ({self.format}{version}): rows {rows}"
        facts = []
        if self.partitions:
            first, last = (partition_text(self.partitions[i]) for i in (0, -1))
            facts.append(f"{len(self.partitions):,} partitions from {first} to {last}")
        if self.files is not None:
            totals = _totals(self.files)
            size = "" if totals["bytes"] is None else f" of {totals['bytes']:,} bytes"
            title += f", files {totals['files']:,}{size}"
            facts.append(f"{totals['row_groups']:,} row groups")
            if self.models:
                facts.append(f"scored by {', '.join(self.models)}")
        partitions = {*self.partition_columns}
        columns: dict[str, Sequence[Any]] = {
            "column": self.schema.names,
            "type": [str(field.type) for field in self.schema],
            "": ["of the partitions" if name in partitions else "" for name in self.schema.names],
        }
        parts: list[Part] = [title, facts, TablePart(columns)]
        if self.files is not None and self.partitions:
            parts.append(_partitions_part(self._partitions()))
        return parts


def _totals(files: Sequence[DataFile]) -> dict[str, Any]:
    """The totals of some files as plain values; None for what is unknown."""
    sizes = [file.bytes for file in files]
    records = [file.commit for file in files if file.commit]
    return {
        "files": len(files),
        "rows": sum(file.rows for file in files),
        "row_groups": sum(file.row_groups for file in files),
        "bytes": None if None in sizes else sum(size or 0 for size in sizes),
        "written": max((file.written for file in files if file.written), default=None),
        "models": sorted({str(one["model_id"]) for one in records if "model_id" in one}),
    }


def _partitions_part(partitions: Sequence[Mapping[str, Any]]) -> TablePart:
    columns: dict[str, list[Any]] = {
        "partition": [partition_text(one["partition"]) for one in partitions],
        **{name: [one[name] for one in partitions] for name in ("files", "rows", "bytes")},
        "written": [str(one["written"] or "")[:16] for one in partitions],
        "scored by": [", ".join(model[:12] for model in one["models"]) for one in partitions],
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
    found = opened.parquet_files(partition=partition, where=where)
    files, partitions = None, opened.partitions(where) if found is None else ()
    if found is not None:
        files = [_data_file(location, one, columns) for location, one in found]
        partitions = [group[0].partition for group in _by_partition(files)]
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


def _by_partition(files: Sequence[DataFile]) -> list[list[DataFile]]:
    """The files of each partition, in order; none if the table has no partitions."""
    groups: dict[str, list[DataFile]] = {}
    for file in files:
        groups.setdefault(partition_text(file.partition), []).append(file)
    return [group for text, group in groups.items() if text]


def scored_by(table: str | Path | TableRef) -> list[str]:
    """The ids of the models that scored the rows of a table, sorted.

    Raises:
        TableMismatchError: if the table does not consist of Parquet files, which record it.
        TableError: if the table does not exist, or a footer cannot be read.
    """
    inspection = inspect_table(table)
    if inspection.files is None:
        raise TableMismatchError(
            f"{inspection.uri} does not record which models scored it; leave it out."
        )
    return inspection.models


def _data_file(location: str, fragment: ds.Fragment, partition_columns: Sequence[str]) -> DataFile:
    from probclass_core.io.parquet.column_chunks import check_columns
    from probclass_core.io.parquet.files import partition_of

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
    if ref.version is not None:
        raise TableError(
            f"{ref.uri}: all versions of a table are cleaned at once; leave version out."
        )
    leftovers = [left for left in format_of(ref).leftovers(ref) if left.abandoned(older_than)]
    if not dry_run:
        for leftover in leftovers:
            leftover.remove()
    return leftovers
