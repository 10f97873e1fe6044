"""Write a partition of Parquet files: a folder on a local disk, or an object on an object store.

On a disk, nothing under the name of a partition changes before the commit. Rows go to files in a
staging folder next to the table. The commit closes and syncs the files, reads their footers back,
adds ``_SUCCESS``, and lets the folder take the place of the partition in one step (`put_in_place`).
Rows that are added to a partition are one more file, named by its commit and renamed into the
partition. The commit record is in the footers of the files. A killed writer leaves its staging
folder behind and nothing else; a later writer of the table removes it. Concurrent writers have a
staging folder each.

On an object store, nothing can be renamed: one PUT commits. The rows of a partition are one object.
It is written to an unnamed temporary file, in bounded memory, and then put in place by one request,
which is refused if another writer replaced the partition since it was staged. So whoever lists the
directory sees the old rows or the new ones, and a killed writer leaves nothing. Rows cannot be
added to a partition: readers would see several objects as one replaces them.

A reader may have the footer of the old object, and request pages once the new one is in its place.
Two successive objects are therefore compressed by different codecs, neither of which decompresses
what the other made: such a reader gets an error, never rows of both.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.fs import FileInfo, FileType

from probclass_core.errors import TableError, TableMismatchError
from probclass_core.io.commit.file_sink import FileSink
from probclass_core.io.commit.parquet import EvolvingSink, ParquetPart, read_commit_record
from probclass_core.io.failures import retry, translate_read_errors, translate_write_errors
from probclass_core.io.filesystem import Location, Revision, is_file, is_scratch, scratch_name
from probclass_core.io.local_files import CONTENT, put_in_place, staging_folder, sync, sync_names
from probclass_core.io.object_stores import open_location
from probclass_core.io.parquet.discovery import (
    DELTA_LOG,
    hive_folder,
    hive_segment,
    is_delta,
    list_files,
    stored_columns,
)
from probclass_core.io.references import Leftover, TableRef
from probclass_core.io.sink import ColumnChanges, CommitRecord, StagedPartition, conflict

SUCCESS_FILE = "_SUCCESS"
REMOVED = "removed"

MAIN = "part-0.parquet"
"""Name of the object that is a partition."""

_CODECS = ("snappy", "zstd")

_MOST_BYTES = 5_000_000_000
"""Size of the largest object that one request can put, on S3 and Azure."""


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


class ObjectSink(FolderSink):
    """A partition of a table on an object store; see `FolderSink`."""

    appends = False

    def __init__(self, ref: TableRef, partition: Mapping[str, Any]) -> None:
        table = open_location(ref.uri, ref.options)
        _check_table(table)
        super().__init__(ref, partition, table)

    @property
    def exists(self) -> bool:
        return self.table.is_file(self.main)

    def is_ours(self, info: FileInfo) -> bool:
        return bool(info.base_name == MAIN)

    def commits(self) -> Sequence[CommitRecord | None]:
        if not self.exists:
            return []
        return [read_commit_record(self.table.absolute(self.main), self.table.filesystem)]

    def stage(
        self, schema: pa.Schema, commit: Mapping[str, Any], *, append: bool = False
    ) -> AbstractContextManager[StagedObject]:
        return closing(StagedObject(self, schema, commit))

    def remove(self) -> None:
        self.table.remove(self.main)

    @property
    def main(self) -> str:
        """Path of the object that is the partition, relative to the table."""
        return self.path_of(MAIN)

    def path_of(self, name: str) -> str:
        """Return the path of a file of the partition, relative to the table."""
        return f"{self.folder}/{name}".lstrip("/")


def _check_table(table: Location) -> None:
    """Check that the bucket exists, and has no table of another format here."""
    if table.filesystem.type_name == "s3":
        bucket = table.path.partition("/")[0]
        with translate_read_errors(table.uri):
            info = retry(lambda: table.filesystem.get_file_info(bucket))
        if not _exists(info):
            raise TableError(f"{table.uri}: bucket {bucket!r} does not exist; create it first.")
    if _exists(table.info(DELTA_LOG)):
        raise is_delta(table)


class StagedObject(StagedPartition):
    """A staged partition: a local file until it is put in place."""

    part: ObjectPart

    def __init__(self, sink: ObjectSink, schema: pa.Schema, commit: Mapping[str, Any]) -> None:
        self._sink = sink
        # Read now, so that a commit of another writer since then is not replaced unseen.
        self._seen = sink.table.revision(sink.main, content=False)
        self.part = ObjectPart(sink, schema, commit, _other_codec(sink.table, sink.main))

    def publish(self, summary: Mapping[str, Any] | None = None) -> None:
        self.part.finish()
        if not self.part.put(self._sink.main, self._seen):
            raise conflict(self._sink.location)

    def close(self) -> None:
        super().close()
        self.part.close_file()


class ObjectPart(ParquetPart):
    """The rows of an object, in an unnamed temporary file.

    A copy in another process sends its file by a hidden object of the store.
    """

    def __init__(
        self, sink: ObjectSink, schema: pa.Schema, commit: Mapping[str, Any], codec: str
    ) -> None:
        super().__init__(sink.location, schema, commit, location=sink.location, codec=codec)
        self._table = sink.table
        self._scratch = sink.path_of(scratch_name())
        self._temporary: IO[bytes] | None = None
        self._is_copy = False

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_is_copy": True}

    def _file(self) -> IO[bytes]:
        if self._temporary is None:
            self._temporary = tempfile.TemporaryFile(prefix="probclass-")  # noqa: SIM115
        return self._temporary

    def finish(self, summary: Mapping[str, Any] | None = None) -> pq.FileMetaData | None:
        footer = super().finish(summary)
        if self._is_copy:
            self._table.write(self._scratch, self._content())
            self.close_file()
        return footer

    def adopt(self, finished: Any) -> None:
        super().adopt(finished)
        if self._temporary is None:
            with translate_read_errors(self._location):
                self._table.fetch(self._scratch, self._file())
            self._table.remove(self._scratch)

    def put(self, path: str, seen: Revision) -> bool:
        """Put the file in place; arguments and result as for `Location.replace`.

        Raises:
            TableError: if the store refuses, or the file is larger than one request may be.
        """
        content = self._content()
        if (size := len(content)) > _MOST_BYTES:
            raise TableError(
                f"{self._location} would be an object of {size:,} bytes, but one request can put "
                f"{_MOST_BYTES:,}; divide the rows into more partitions, or write a Delta table: "
                "its address begins with 'delta+'."
            )
        return self._table.replace(path, content, seen)

    def _content(self) -> mmap:
        file = self._file()
        file.flush()
        return mmap(file.fileno(), 0, access=ACCESS_READ)

    def close_file(self) -> None:
        """Remove the file."""
        if self._temporary is not None:
            self._temporary.close()


def _other_codec(table: Location, path: str) -> str:
    """Return the codec of an object that replaces another, if there is one; see above."""
    try:
        footer = pq.read_metadata(table.absolute(path), filesystem=table.filesystem)
    except (OSError, pa.ArrowException):  # no reader can have begun to read it
        return _CODECS[0]
    if not footer.num_row_groups or not footer.num_columns:
        return _CODECS[0]
    before = footer.row_group(0).column(0).compression.lower()
    return next(codec for codec in _CODECS if codec != before)


def object_leftovers(ref: TableRef) -> list[Leftover]:
    """List what was sent between processes, also of live writers.

    Raises:
        TableError: if the table does not exist, or cannot be read.
    """
    table = open_location(ref.uri, ref.options)
    entries = table.entries("", recursive=True)
    if not entries and not _exists(table.info("")):
        raise TableError(f"{table.uri} does not exist.")
    return table.leftovers(filter(is_scratch, entries))


def _exists(info: FileInfo) -> bool:
    return bool(info.type != FileType.NotFound)
