"""Write a partition on an object store, where nothing can be renamed: one PUT commits it.

The rows of a partition are one object. It is written to an unnamed temporary file, in bounded
memory, and then put in place by one request, which is refused if another writer replaced the
partition since it was staged. So whoever lists the directory sees the old rows or the new ones, and
a killed writer leaves nothing.

A reader may have the footer of the old object, and request pages once the new one is in its place.
Two successive objects are therefore compressed by different codecs, neither of which decompresses
what the other made: such a reader gets an error, never rows of both.

Rows cannot be added to a partition: readers would see several objects as one replaces them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, closing
from mmap import ACCESS_READ, mmap
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.fs import FileInfo, FileType

from probclass_core.errors import TableError
from probclass_core.io.commit.parquet_writer import ParquetPart, read_commit_record
from probclass_core.io.failures import retry, translate_read_errors
from probclass_core.io.filesystem import Location, Revision, is_scratch, scratch_name
from probclass_core.io.object_stores import open_location
from probclass_core.io.parquet.directory_sink import FolderSink
from probclass_core.io.parquet.discovery import DELTA_LOG, is_delta
from probclass_core.io.references import Leftover, TableRef
from probclass_core.io.sink import CommitRecord, StagedPartition, conflict

MAIN = "part-0.parquet"
"""Name of the object that is a partition."""

_CODECS = ("snappy", "zstd")

_MOST_BYTES = 5_000_000_000
"""Size of the largest object that one request can put, on S3 and Azure."""


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
