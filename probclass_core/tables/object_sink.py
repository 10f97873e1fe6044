"""A partition on an object store, where nothing can be renamed, put in place by one small PUT.

Data files have names of their own that no other attempt uses. One manifest names those that are the
partition (`manifests`); putting it is the commit. What it replaced is deleted after that, and what
could not be deleted, or what a killed attempt left, goes with a later commit.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pyarrow as pa
from pyarrow.fs import FileInfo, FileType

from probclass_core.errors import TableError
from probclass_core.table_format import ABANDONED, Leftover, TableRef
from probclass_core.tables.hive import hive_segment
from probclass_core.tables.manifests import (
    OURS,
    Manifest,
    manifest_path,
    read_manifest,
    unnamed_files,
)
from probclass_core.tables.parquet_file import RowsToParquet, cannot_write
from probclass_core.tables.storage import Storage, is_file, one_line, storage_of


class ObjectSink:
    """Where one partition (or one whole unpartitioned table) is to stand.

    Args:
        ref: directory of the table.
        partition: values of the partition columns, outermost first; none replaces the whole table.

    Raises:
        TableError: the place holds something that a table must not replace, or cannot be reached.
    """

    def __init__(self, ref: TableRef, partition: Mapping[str, Any]) -> None:
        self.storage = storage_of(ref)
        self.partition = dict(partition)
        self.folder = "/".join(hive_segment(*item) for item in self.partition.items())
        self.target = f"{self.storage.path}/{self.folder}".rstrip("/")
        if self.storage.path.endswith(".parquet"):
            raise TableError(
                f"{self.storage.uri}: no single file is written on an object store; name a "
                "directory."
            )
        self._check_place()

    @property
    def place(self) -> str:
        return self.storage.name(self.target)

    @property
    def occupied(self) -> bool:
        others = (i for i in self.entries(self.target) if not OURS.fullmatch(i.base_name))
        return self.standing() is not None or any(others)

    @property
    def commit(self) -> dict[str, Any] | None:
        manifest = self.standing()
        if manifest is None:
            return None
        present = {info.base_name for info in self.entries(self.target)}
        whole = present.issuperset(manifest.files)
        return {**manifest.commit, "rows": manifest.rows} if whole else None

    @contextmanager
    def stage(self, schema: pa.Schema, commit: Mapping[str, Any]) -> Iterator[StagedObject]:
        with closing(StagedObject(self, schema, commit)) as staged:
            yield staged

    def standing(self) -> Manifest | None:
        """The manifest of the partition as it is now."""
        return read_manifest(self.storage, self.folder)

    def entries(self, folder: str) -> list[FileInfo]:
        """What a reader would see in a folder; nothing where there is none."""
        found = self.storage.files(folder, recursive=False)
        return [info for info in found if not info.base_name.startswith(("_", "."))]

    def _check_place(self) -> None:
        # A partition goes beside its like, a whole table where no partitions are.
        storage = self.storage
        bucket = storage.path.partition("/")[0]
        if storage.filesystem.type_name == "s3" and not _there(storage.info(bucket)):
            raise TableError(f"{storage.uri}: there is no bucket {bucket!r}.")
        if _there(storage.info(f"{storage.path}/_delta_log")):
            raise TableError(
                f"{storage.uri} holds a Delta table; name it so, as in "
                f"TableRef({storage.uri!r}, format='delta')."
            )
        level = storage.path
        for name, value in self.partition.items():
            others = [i for i in self.entries(level) if not i.base_name.startswith(f"{name}=")]
            if others:
                raise TableError(
                    f"{storage.name(level)} holds {others[0].base_name!r} beside partitions by "
                    f"{name!r}; choose another directory for the scored table."
                )
            level = f"{level}/{hive_segment(name, value)}"
        foreign = [i for i in self.entries(self.target) if not _is_parquet(i)]
        if foreign:
            raise TableError(
                f"{self.place} holds {foreign[0].base_name!r}, which is no part of a table written "
                "here; give the partition to replace, or another directory."
            )


class StagedObject:
    """A partition in the making: a Parquet file that no manifest names yet."""

    def __init__(self, sink: ObjectSink, schema: pa.Schema, commit: Mapping[str, Any]) -> None:
        self._sink = sink
        self._commit = dict(commit)
        short = str(commit.get("commit_id", 0))[:12]
        self._name = f"part-{short}-{uuid.uuid4().hex}.parquet"
        self._path = f"{sink.target}/{self._name}"
        self._published = False
        with cannot_write(sink.place):
            sink.storage.make_folder_of(self._path)
        self._file = RowsToParquet(
            self._path, schema, commit, place=sink.place, filesystem=sink.storage.filesystem
        )

    @property
    def rows(self) -> int:
        return self._file.rows

    def write(self, batch: pa.RecordBatch) -> None:
        self._file.write(batch)

    def publish(self) -> None:
        self._file.finish()
        sink = self._sink
        replaced = self._replaced()
        manifest = Manifest(sink.folder, [self._name], self.rows, self._commit, replaced)
        with cannot_write(sink.place):
            sink.storage.put(manifest_path(sink.storage, sink.folder), manifest.to_bytes())
        self._published = True
        for name in replaced:
            with suppress(OSError):  # no reader of ours sees it, and a later commit tries again
                sink.storage.filesystem.delete_file(f"{sink.target}/{name}")

    def close(self) -> None:
        """Let go of the file, and remove it unless the manifest names it."""
        self._file.close()
        if not self._published:
            # A PUT may have succeeded and its answer been lost: ask, and when in doubt leave it.
            with suppress(OSError, TableError):
                standing = self._sink.standing()
                if standing is None or self._name not in standing.files:
                    self._sink.storage.filesystem.delete_file(self._path)

    def _replaced(self) -> Sequence[str]:
        """Files of the partition that are to go: all but those that another may be writing."""
        sink = self._sink
        standing = sink.standing()
        known = () if standing is None else (*standing.files, *standing.replaced)
        return [
            info.base_name
            for info in sink.entries(sink.target)
            if info.base_name != self._name
            and (info.base_name in known or not OURS.fullmatch(info.base_name) or _is_old(info))
        ]


def object_leftovers(ref: TableRef) -> list[Leftover]:
    """Files that writers of ours put and no manifest names, those still at work included.

    Raises:
        TableError: there is no such table, or it cannot be read.
    """
    storage = storage_of(ref)
    found = unnamed_files(storage)
    if not found and not _there(storage.info(storage.path)):
        raise TableError(f"{storage.uri} does not exist.")
    return [
        Leftover(
            path=storage.name(info.path),
            bytes=info.size,
            touched=info.mtime.astimezone(UTC) if info.mtime else datetime.now(UTC),
            remove=partial(_remove, storage, info.path),
        )
        for info in found
    ]


def _remove(storage: Storage, path: str) -> None:
    try:
        storage.filesystem.delete_file(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise TableError(f"cannot remove {storage.name(path)}: {one_line(error)}.") from error


def _there(info: FileInfo) -> bool:
    return bool(info.type != FileType.NotFound)


def _is_parquet(info: FileInfo) -> bool:
    return is_file(info) and info.base_name.endswith(".parquet")


def _is_old(info: FileInfo) -> bool:
    """Whether it was last touched too long ago to be anyone's work."""
    return info.mtime is not None and datetime.now(UTC) - info.mtime > ABANDONED
