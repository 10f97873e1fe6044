"""Write a partition on an object store, where nothing can be renamed: one small PUT commits it.

Data files have names that no other writer uses. One manifest names the files of the partition
(`manifests`); putting it in place is the commit. It is refused if another writer committed since
the partition was staged; without obstore, the later commit wins. The replaced files are deleted
afterwards. Files that could not be deleted, or that a killed writer left, are deleted by a later
commit. Added rows have a manifest of their own and replace nothing.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, closing, suppress
from datetime import UTC, datetime
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.fs import FileInfo, FileType

from probclass_core.errors import TableError, TableMismatchError
from probclass_core.io.commit.leftovers import file_leftovers
from probclass_core.io.commit.parquet_writer import ParquetPart, StagedParquet, unique_names
from probclass_core.io.commit.schemas import EvolvingSink, common_columns
from probclass_core.io.conditional_writes import Revision
from probclass_core.io.errors import translate_read_errors, translate_write_errors
from probclass_core.io.filesystem import is_file, open_location
from probclass_core.io.parquet.manifests import (
    DATA_FILE,
    Manifest,
    manifest_path,
    read_manifests,
    unnamed_files,
    valid_manifests,
)
from probclass_core.io.parquet.partitions import hive_folder, hive_segment
from probclass_core.io.references import ABANDONED, Leftover, TableRef
from probclass_core.io.retry import retry
from probclass_core.io.sink import ColumnChanges, CommitRecord


class ObjectSink(EvolvingSink):
    """A partition of a table on an object store, or a whole unpartitioned table.

    Args:
        ref: directory of the table.
        partition: values of the partition columns, outermost first; empty for a whole table.

    Raises:
        TableError: if the location contains something that a table must not replace, or cannot be
            reached.
    """

    def __init__(self, ref: TableRef, partition: Mapping[str, Any]) -> None:
        super().__init__(ref, partition)
        self.table = open_location(ref.uri, ref.options)
        if self.table.path.endswith(".parquet"):
            raise TableMismatchError(
                f"{self.table.uri}: a single file cannot be written on an object store; name a "
                "directory."
            )
        self._check_table()
        self._checked: set[tuple[str, str]] = set()
        self._open(partition)

    def _open(self, partition: Mapping[str, Any]) -> None:
        self.partition = dict(partition)
        self.folder = hive_folder(self.partition)
        self._check_target()

    def sibling(self, partition: Mapping[str, Any]) -> ObjectSink:
        sibling = copy.copy(self)
        sibling._open(partition)
        return sibling

    @property
    def location(self) -> str:
        return self.table.uri_of(self.folder)

    @property
    def exists(self) -> bool:
        manifests = self.manifests()
        return any(manifest.files for manifest in manifests) or (
            not manifests and self._has_other_files()
        )

    def _has_other_files(self) -> bool:
        """Whether there are files of other writers, which count until there is a manifest."""
        names = (info.base_name for info in self.visible_entries(self.folder))
        return any(not DATA_FILE.fullmatch(name) for name in names)

    def commits(self) -> Sequence[CommitRecord | None]:
        manifests = self.manifests()
        present = {info.base_name for info in self.visible_entries(self.folder)}
        added_to_others = bool(manifests) and manifests[0].appended is not None
        others = [None] if added_to_others and self._has_other_files() else []
        return others + [
            {**manifest.commit, "rows": manifest.rows}
            if manifest.files and present.issuperset(manifest.files)
            else None
            for manifest in manifests
        ]

    def check_columns(
        self, schema: pa.Schema, replaced: Sequence[Mapping[str, Any]]
    ) -> ColumnChanges:
        folders = {hive_folder(partition) for partition in replaced}
        files = [
            info
            for info in sorted(self.table.entries("", recursive=True), key=lambda info: info.path)
            if _is_parquet(info) and self._folder_of(info) not in folders
        ]
        existing = common_columns(self._first_schema(files), self._first_schema(reversed(files)))
        return self.compare_columns(self.table.uri, schema, existing, exact_types=False)

    def _folder_of(self, info: FileInfo) -> str:
        return self.table.relative(info.path).rpartition("/")[0]

    def _first_schema(self, files: Iterable[FileInfo]) -> pa.Schema | None:
        """Return the schema of the first file that is part of the table, or None."""
        for info in files:
            manifests = valid_manifests(read_manifests(self.table, self._folder_of(info)))
            named = chain(*(manifest.files for manifest in manifests))
            if DATA_FILE.fullmatch(info.base_name) and info.base_name not in named:
                continue  # a killed writer may have left it
            with suppress(OSError, pa.ArrowException):  # readers of the table will report it
                return pq.read_schema(info.path, filesystem=self.table.filesystem)
        return None

    def stage(
        self, schema: pa.Schema, commit: Mapping[str, Any], *, append: bool = False
    ) -> AbstractContextManager[StagedObjects]:
        return closing(StagedObjects(self, schema, commit, append=append))

    def remove(self) -> None:
        # A manifest that names no file: whatever a deletion leaves behind does not count.
        if self.exists:
            with closing(StagedObjects(self, pa.schema([]), {}, append=False)) as staged:
                staged.publish()

    def manifests(self) -> list[Manifest]:
        """Read the valid manifests of the partition."""
        return valid_manifests(read_manifests(self.table, self.folder))

    def visible_entries(self, folder: str) -> list[FileInfo]:
        """List what a reader sees in a folder; empty if it does not exist."""
        entries = self.table.entries(folder)
        return [info for info in entries if not info.base_name.startswith(("_", "."))]

    def path_of(self, name: str) -> str:
        """Return the path in the file system of a file of the partition."""
        return self.table.absolute(f"{self.folder}/{name}".lstrip("/"))

    def _check_table(self) -> None:
        """Check that the bucket exists, and has no table of another format here."""
        table = self.table
        if table.filesystem.type_name == "s3":
            bucket = table.path.partition("/")[0]
            with translate_read_errors(table.uri):
                info = retry(lambda: table.filesystem.get_file_info(bucket))
            if not _exists(info):
                raise TableError(f"{table.uri}: bucket {bucket!r} does not exist; create it first.")
        if _exists(table.info("_delta_log")):
            raise TableMismatchError(
                f"{table.uri} is a Delta table; name its format: "
                f"TableRef({table.uri!r}, format='delta')."
            )

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


class StagedObjects(StagedParquet):
    """A staged partition, or rows to add to one: Parquet files that no manifest names yet."""

    def __init__(
        self, sink: ObjectSink, schema: pa.Schema, commit: Mapping[str, Any], *, append: bool
    ) -> None:
        self._sink = sink
        self._schema = schema
        self._commit = dict(commit)
        self._append = append
        self._published = False
        # Read now, so that a commit of another writer since then is not replaced unseen.
        self._seen = None
        if not append and sink.table.writes_conditionally:
            self._seen = sink.table.revision(manifest_path(sink.folder))

    def parts(self, count: int) -> Sequence[ParquetPart]:
        sink = self._sink
        commit_id = str(self._commit.get("commit_id", 0))[:12]
        names = [f"part-{commit_id}-{name}.parquet" for name in unique_names(count)]
        with translate_write_errors(sink.location):
            sink.table.make_folder(sink.folder)
        self._parts = [
            ParquetPart(
                sink.path_of(name),
                self._schema,
                self._commit,
                location=sink.location,
                filesystem=sink.table.filesystem,
                part=(number, count),
            )
            for number, name in enumerate(names)
        ]
        return self._parts

    @property
    def _file_names(self) -> list[str]:
        """Names of the files that have rows."""
        return [str(part.path).rpartition("/")[2] for part in self._parts if part.rows]

    def publish(self, summary: Mapping[str, Any] | None = None) -> None:
        for part in self._parts:
            part.finish()
        self._commit.update(summary or {})
        sink = self._sink
        if self._append:
            commit_id = self._commit["commit_id"]
            if commit_id not in {record["commit_id"] for record in sink.commit_records()}:
                self._put_manifest(replaced=(), appended=commit_id)
            return
        before = read_manifests(sink.table, sink.folder)
        added = [manifest for manifest in before if manifest.appended is not None]
        replaced = self._replaced_files(before)
        added_files = chain(*(manifest.files for manifest in added))
        self._put_manifest(replaced=sorted({*replaced, *added_files}))
        paths = [sink.path_of(name) for name in replaced]
        paths += [sink.table.absolute(manifest_path(sink.folder, m.appended)) for m in added]
        for path in paths:
            with suppress(OSError):  # no reader of ours sees it, and a later commit tries again
                sink.table.filesystem.delete_file(path)

    def _put_manifest(self, replaced: Sequence[str], appended: str | None = None) -> None:
        """Commit: write the manifest by one request.

        Raises:
            TableError: if another writer replaced the partition since it was staged.
        """
        table, folder = self._sink.table, self._sink.folder
        manifest = Manifest(folder, self._file_names, self.rows, self._commit, replaced, appended)
        path, data = manifest_path(folder, appended), manifest.to_bytes()
        if not table.writes_conditionally:
            table.write(path, data)
        elif not table.replace(path, data, self._seen or Revision(None)):
            if self._append:
                return  # another attempt at this commit came first
            raise TableError(
                f"{self._sink.location} was replaced by another writer during this run, which "
                "changed nothing; run it again."
            )
        self._published = True

    def close(self) -> None:
        """Close the files, and remove them unless a manifest names them."""
        super().close()
        if self._published:
            return
        # A PUT may succeed although its answer was lost. Look, and if in doubt keep the files.
        with suppress(OSError, TableError):
            named = {*chain(*(manifest.files for manifest in self._sink.manifests()))}
            for part in self._parts:
                if str(part.path).rpartition("/")[2] not in named:
                    with suppress(OSError):
                        self._sink.table.filesystem.delete_file(str(part.path))

    def _replaced_files(self, before: Sequence[Manifest]) -> list[str]:
        """Return the names of the files to delete: not those that others may be writing."""
        sink = self._sink
        known = {name for manifest in before for name in (*manifest.files, *manifest.replaced)}
        return [
            info.base_name
            for info in sink.visible_entries(sink.folder)
            if info.base_name not in self._file_names
            and (
                info.base_name in known
                or not DATA_FILE.fullmatch(info.base_name)
                or _is_abandoned(info)
            )
        ]


def object_leftovers(ref: TableRef) -> list[Leftover]:
    """List files that our writers put and no manifest names, those of live writers included.

    Raises:
        TableError: if the table does not exist, or cannot be read.
    """
    table = open_location(ref.uri, ref.options)
    files = unnamed_files(table)
    if not files and not _exists(table.info("")):
        raise TableError(f"{table.uri} does not exist.")
    return file_leftovers(table, files)


def _exists(info: FileInfo) -> bool:
    return bool(info.type != FileType.NotFound)


def _is_parquet(info: FileInfo) -> bool:
    return is_file(info) and info.base_name.endswith(".parquet")


def _is_abandoned(info: FileInfo) -> bool:
    """Whether a file is too old to belong to a live writer."""
    return info.mtime is not None and datetime.now(UTC) - info.mtime > ABANDONED
