"""Write a partition on an object store, where nothing can be renamed: one PUT commits it.

The rows of a partition are one object. It is written to an unnamed temporary file, in bounded
memory, and then put in place by one request, which is refused if another writer replaced the
partition since it was staged. So whoever lists the directory sees the old rows or the new ones, and
a killed writer leaves nothing.

A reader may have the footer of the old object, and request pages once the new one is in its place.
Two successive objects are therefore compressed by different codecs, neither of which decompresses
what the other made: such a reader gets an error, never rows of both.

Added rows are an object of their own, named by its commit. A partition of several objects is
replaced by one that says which ones it replaces (`discovery`); those are deleted afterwards.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, closing, suppress
from mmap import ACCESS_READ, mmap
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.fs import FileInfo, FileType

from probclass_core.errors import TableError, TableMismatchError
from probclass_core.io.commit.parquet_writer import ParquetPart, read_commit_record
from probclass_core.io.failures import retry, translate_read_errors
from probclass_core.io.filesystem import Location, Revision, file_state, scratch_name
from probclass_core.io.object_stores import open_location
from probclass_core.io.parquet.directory_sink import FolderSink
from probclass_core.io.parquet.discovery import (
    DELTA_LOG,
    MAIN,
    REPLACED_KEY,
    is_delta,
    list_files,
    without_replaced,
)
from probclass_core.io.references import Leftover, TableRef
from probclass_core.io.sink import CommitRecord, StagedPartition

_CODECS = ("snappy", "zstd")

_MOST_BYTES = 5_000_000_000
"""Size of the largest object that one request can put, on S3 and Azure."""


class ObjectSink(FolderSink):
    """A partition of a table on an object store; see `FolderSink`."""

    def __init__(self, ref: TableRef, partition: Mapping[str, Any]) -> None:
        table = open_location(ref.uri, ref.options)
        if table.path.endswith(".parquet"):
            raise TableMismatchError(
                f"{table.uri}: a single file cannot be written on an object store; name a "
                "directory."
            )
        _check_table(table)
        super().__init__(ref, partition, table)

    @property
    def exists(self) -> bool:
        return bool(self.visible_entries(self.folder))

    def commits(self) -> Sequence[CommitRecord | None]:
        return [
            read_commit_record(info.path, self.table.filesystem)
            for info in without_replaced(self.table, self.visible_entries(self.folder))
        ]

    def stage(
        self, schema: pa.Schema, commit: Mapping[str, Any], *, append: bool = False
    ) -> AbstractContextManager[StagedObject]:
        return closing(StagedObject(self, schema, commit, append=append))

    def remove(self) -> None:
        seen, entries = self.seen(), self.visible_entries(self.folder)
        if not entries:
            return
        if [info.base_name for info in entries] != [MAIN]:
            with closing(StagedObject(self, pa.schema([]), {}, append=False)) as staged:
                staged.parts(1)
                staged.publish()  # no rows, in place of several objects at once
            seen = self.seen()
        if self.seen() != seen:
            raise self.conflict()
        self.table.remove(self.path_of(MAIN))

    def seen(self) -> Revision:
        """Which object is the partition, if the store has conditional requests."""
        return self.table.revision(self.path_of(MAIN), content=False)

    def conflict(self) -> TableError:
        """The error that another writer came first."""
        return TableError(
            f"{self.location} was replaced by another writer during this run, which changed "
            "nothing; run it again."
        )

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
    """A staged partition, or rows to add to one: a local file until it is put in place."""

    _parts: Sequence[ObjectPart] = ()

    def __init__(
        self, sink: ObjectSink, schema: pa.Schema, commit: Mapping[str, Any], *, append: bool
    ) -> None:
        self._sink = sink
        self._commit = commit
        self._schema = schema
        self._codec = _CODECS[0]
        self._replaced: list[FileInfo] = []
        # Read now, so that a commit of another writer since then is not replaced unseen.
        self._seen = sink.seen()
        entries = sink.visible_entries(sink.folder)
        main = next((info for info in entries if info.base_name == MAIN), None)
        self._added: str | None = None
        if append:
            self._added = _name_of_added(commit["commit_id"], self._seen, main)
            return
        if main is not None:
            self._codec = _other_codec(sink.table, main)
        self._replaced = [info for info in entries if info is not main]
        if self._replaced:
            states = [file_state(sink.table, info) for info in self._replaced]
            metadata = {**(schema.metadata or {}), REPLACED_KEY: json.dumps(states)}
            self._schema = schema.with_metadata(metadata)

    def parts(self, count: int) -> Sequence[ObjectPart]:
        # One request puts one object, so the rows are not divided.
        self._parts = [ObjectPart(self._sink, self._schema, self._commit, self._codec)]
        return self._parts

    def publish(self, summary: Mapping[str, Any] | None = None) -> None:
        sink, (part,) = self._sink, self._parts
        part.finish()
        if self._added is not None:
            commit_id = self._commit["commit_id"]
            if commit_id not in {record["commit_id"] for record in sink.commit_records}:
                # If there is one of this name, another attempt at this commit came first.
                part.put(sink.path_of(self._added), Revision(None, compared=False))
            return
        if not part.put(sink.path_of(MAIN), self._seen):
            raise sink.conflict()
        for info in self._replaced:
            with suppress(TableError):  # no reader of ours sees it, and a later commit tries again
                sink.table.remove(sink.table.relative(info.path))

    def close(self) -> None:
        super().close()
        for part in self._parts:
            part.close_file()


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


def _name_of_added(commit_id: str, seen: Revision, main: FileInfo | None) -> str:
    """Return a name that attempts at one commit share, and none after the partition is replaced."""
    state = [None if main is None else main.mtime_ns, dict(seen.version)]
    digest = hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()
    return f"part-{commit_id[:24]}-{digest[:8]}.parquet"


def _other_codec(table: Location, main: FileInfo) -> str:
    """Return the codec of an object that replaces another; see above."""
    try:
        footer = pq.read_metadata(main.path, filesystem=table.filesystem)
    except (OSError, pa.ArrowException):  # no reader can have begun to read it
        return _CODECS[0]
    if not footer.num_row_groups or not footer.num_columns:
        return _CODECS[0]
    before = footer.row_group(0).column(0).compression.lower()
    return next(codec for codec in _CODECS if codec != before)


def object_leftovers(ref: TableRef) -> list[Leftover]:
    """List replaced objects, and what was sent between processes, also of live writers.

    Raises:
        TableError: if the table does not exist, or cannot be read.
    """
    table = open_location(ref.uri, ref.options)
    files, left = list_files(table)
    if not files and not left and not _exists(table.info("")):
        raise TableError(f"{table.uri} does not exist.")
    return table.leftovers(left)


def _exists(info: FileInfo) -> bool:
    return bool(info.type != FileType.NotFound)
