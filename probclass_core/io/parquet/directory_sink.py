"""Write a partition on a local disk: staged, checked, and put in place by a rename.

Nothing under the name of a partition changes before the commit. Rows go to files in a staging
folder next to the table. The commit closes and syncs the files, reads their footers back, adds
``_SUCCESS``, and lets the folder take the place of the partition in one step (`put_in_place`).
Rows that are added to a partition are one more file, named by its commit and renamed into the
partition. The commit record is in the footers of the files. A killed writer leaves its staging
folder behind and nothing else; a later writer of the table removes it. Concurrent writers have a
staging folder each.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow.fs import FileInfo

from probclass_core.errors import TableError, TableMismatchError
from probclass_core.io.commit.file_sink import FileSink
from probclass_core.io.commit.parquet_writer import ParquetPart, read_commit_record
from probclass_core.io.commit.schemas import EvolvingSink
from probclass_core.io.failures import translate_write_errors
from probclass_core.io.filesystem import Location, is_file
from probclass_core.io.local_files import CONTENT, put_in_place, staging_folder, sync, sync_names
from probclass_core.io.object_stores import open_location
from probclass_core.io.parquet.discovery import (
    hive_folder,
    hive_segment,
    list_files,
    stored_columns,
)
from probclass_core.io.references import TableRef
from probclass_core.io.sink import ColumnChanges, CommitRecord, StagedPartition

SUCCESS_FILE = "_SUCCESS"
REMOVED = "removed"


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

    @property
    def location(self) -> str:
        return self.table.uri_of(self.folder)

    def visible_entries(self, folder: str) -> list[FileInfo]:
        """List what a reader sees in a folder; empty if it does not exist."""
        entries = self.table.entries(folder)
        return [info for info in entries if not info.base_name.startswith(("_", "."))]

    def is_ours(self, info: FileInfo) -> bool:
        """Whether a replacement of the partition removes this entry of its folder."""
        return _is_parquet(info)

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
        foreign = [info for info in self.visible_entries(self.folder) if not self.is_ours(info)]
        if foreign:
            raise TableMismatchError(
                f"{self.location} contains {foreign[0].base_name!r}, which is not part of a table "
                "written here; give the partition to replace, or another directory."
            )

    def check_columns(
        self, schema: pa.Schema, replaced: Sequence[Mapping[str, Any]]
    ) -> ColumnChanges:
        folders = {self.table.absolute(hive_folder(partition)) for partition in replaced}
        files = filter(_is_parquet, list_files(self.table))
        kept = [info.path for info in files if info.path.rpartition("/")[0] not in folders]
        existing = None
        if kept:
            with suppress(TableError):  # readers of the table will report it
                existing = stored_columns(self.table, kept)
        return self.compare_columns(self.table.uri, schema, existing, exact_types=False)


def _is_parquet(info: FileInfo) -> bool:
    return is_file(info) and info.base_name.endswith(".parquet")


class DirectorySink(FolderSink):
    """A partition of a table on a local disk; see `FolderSink`."""

    def __init__(self, ref: TableRef, partition: Mapping[str, Any]) -> None:
        self.root = Path(ref.uri).resolve()  # a link stays, and its target is replaced
        super().__init__(ref, partition, open_location(str(self.root)))

    @property
    def target(self) -> Path:
        """Folder of the partition."""
        return self.root / self.folder

    @property
    def exists(self) -> bool:
        return self.target.exists()

    def _check_target(self) -> None:
        for path in (self.root, self.target):
            if path.exists() and not path.is_dir():
                raise TableMismatchError(
                    f"{path} is a file; name a directory for the scored table, or a .parquet file."
                )
        super()._check_target()

    def commits(self) -> Sequence[CommitRecord | None]:
        return [read_commit_record(info.path) for info in self.visible_entries(self.folder)]

    @contextmanager
    def stage(
        self, schema: pa.Schema, commit: Mapping[str, Any], *, append: bool = False
    ) -> Iterator[StagedDirectory]:
        with (
            staging_folder(self.root, self._staging_parent()) as folder,
            closing(StagedDirectory(self, folder, schema, commit, append=append)) as staged,
        ):
            yield staged

    def remove(self) -> None:
        with (
            staging_folder(self.root, self._staging_parent()) as folder,
            translate_write_errors(self.location),
        ):
            with suppress(FileNotFoundError):
                self.target.rename(folder / REMOVED)
            for parent in self.target.parents[: max(len(self.partition) - 1, 0)]:
                with suppress(OSError):  # other partitions are in it
                    parent.rmdir()
            sync_names(self.target)

    def _staging_parent(self) -> Path:
        """Return the folder of the table, for polars and duckdb read every folder in a table.

        Only if the table is a mount, or its folder is not writable, partitions are staged inside.
        """
        parent = self.root.parent
        effective = os.access in os.supports_effective_ids
        writable = os.access(parent, os.W_OK, effective_ids=effective)
        if self.partition and self.root.is_dir() and (self.root.is_mount() or not writable):
            return self.root
        return parent


class StagedDirectory(StagedPartition):
    """A staged partition, or rows to add to one: a Parquet file in a folder of its own."""

    part: ParquetPart

    def __init__(
        self,
        sink: DirectorySink,
        directory: Path,
        schema: pa.Schema,
        commit: Mapping[str, Any],
        *,
        append: bool,
    ) -> None:
        self._sink = sink
        self._append = append
        self._content = directory / CONTENT
        self._content.mkdir()
        # Two attempts to add the rows of one commit write one file: the later replaces the earlier.
        name = f"part-{commit['commit_id'][:32] if append else 0}.parquet"
        self.part = ParquetPart(self._content / name, schema, commit, location=sink.location)

    def publish(self, summary: Mapping[str, Any] | None = None) -> None:
        path, target = Path(self.part.path), self._sink.target
        self.part.finish()
        with translate_write_errors(self._sink.location):
            sync(path)
            target.parent.mkdir(parents=True, exist_ok=True)
            (self._content / SUCCESS_FILE).touch()
            sync(self._content)
            if self._append:
                self._add(path, target)
            else:
                put_in_place(self._content, target)
            sync_names(target)

    def _add(self, path: Path, target: Path) -> None:
        """Add a file by one rename: of the folder if there is no partition, else of the file."""
        while True:
            try:
                self._content.rename(target)
                return
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
            with suppress(FileNotFoundError):  # the partition was removed in between
                path.rename(target / path.name)
                sync(target)
                return


class ParquetFileSink(FileSink):
    """A table of one Parquet file, whose footer has the commit record."""

    def commits(self) -> Sequence[CommitRecord | None]:
        return [read_commit_record(self.path)] if self.exists else []

    def new_part(self, path: Path, schema: pa.Schema, commit: Mapping[str, Any]) -> ParquetPart:
        return ParquetPart(path, schema, commit, location=self.location)
