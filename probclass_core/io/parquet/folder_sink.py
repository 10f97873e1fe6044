"""What sinks of partitions in folders share, on a local disk and on an object store."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.fs import FileInfo, FileType

from probclass_core.errors import TableMismatchError
from probclass_core.io.commit.schemas import EvolvingSink, common_columns
from probclass_core.io.filesystem import Location, is_file
from probclass_core.io.parquet.partitions import hive_folder, hive_segment
from probclass_core.io.references import TableRef
from probclass_core.io.sink import ColumnChanges


class FolderSink(EvolvingSink):
    """A partition of a directory of Parquet files, or a whole unpartitioned table.

    Args:
        ref: directory of the table.
        partition: values of the partition columns, outermost first; empty for a whole table.
        table: location of the table.

    Raises:
        TableError: if the location contains something that a table must not replace, or cannot be
            reached.
    """

    def __init__(self, ref: TableRef, partition: Mapping[str, Any], table: Location) -> None:
        super().__init__(ref, partition)
        self.table = table
        self._checked: set[tuple[str, str]] = set()
        self._open(partition)

    def _open(self, partition: Mapping[str, Any]) -> None:
        self.partition = dict(partition)
        self.folder = hive_folder(self.partition)
        self._check_target()

    def sibling(self, partition: Mapping[str, Any]) -> Self:
        sibling = copy.copy(self)
        sibling._open(partition)
        return sibling

    @property
    def location(self) -> str:
        return self.table.uri_of(self.folder)

    def visible_entries(self, folder: str) -> list[FileInfo]:
        """List what a reader sees in a folder; empty if it does not exist."""
        entries = self.table.entries(folder)
        return [info for info in entries if not info.base_name.startswith(("_", "."))]

    def _check_target(self) -> None:
        """Check that a partition gets next to its like, and a table where no partitions are."""
        table, level = self.table, ""
        for name, value in self.partition.items():
            # Siblings share the levels, for to list them for each takes quadratic time.
            entries = () if (level, name) in self._checked else self.visible_entries(level)
            others = [info for info in entries if not info.base_name.startswith(f"{name}=")]
            if others:
                raise TableMismatchError(
                    f"{table.uri_of(level)} contains {others[0].base_name!r} next to partitions by "
                    f"{name!r}; choose another directory for the scored table."
                )
            self._checked.add((level, name))
            level = f"{level}/{hive_segment(name, value)}".lstrip("/")
        foreign = [info for info in self.visible_entries(self.folder) if not _is_parquet(info)]
        if foreign:
            raise TableMismatchError(
                f"{self.location} contains {foreign[0].base_name!r}, which is not part of a table "
                "written here; give the partition to replace, or another directory."
            )

    def check_columns(
        self, schema: pa.Schema, replaced: Sequence[Mapping[str, Any]]
    ) -> ColumnChanges:
        folders = {hive_folder(partition) for partition in replaced}
        first, last = (
            self._first_schema(self._files("", folders, backwards=backwards))
            for backwards in (False, True)
        )
        existing = common_columns(first, last)
        return self.compare_columns(self.table.uri, schema, existing, exact_types=False)

    def _files(
        self, folder: str, replaced: Collection[str], *, backwards: bool
    ) -> Iterator[FileInfo]:
        """Yield the files below a folder by path, except those in folders that are replaced."""
        entries = [] if folder in replaced else self.visible_entries(folder)
        for info in reversed(entries) if backwards else entries:
            if info.type == FileType.Directory:
                yield from self._files(
                    self.table.relative(info.path), replaced, backwards=backwards
                )
            elif _is_parquet(info):
                yield info

    def _first_schema(self, files: Iterable[FileInfo]) -> pa.Schema | None:
        for info in files:
            with suppress(OSError, pa.ArrowException):  # readers of the table will report it
                return pq.read_schema(info.path, filesystem=self.table.filesystem)
        return None


def _is_parquet(info: FileInfo) -> bool:
    return is_file(info) and info.base_name.endswith(".parquet")
