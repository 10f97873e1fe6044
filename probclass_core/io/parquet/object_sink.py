"""A partition on an object store, where nothing can be renamed, put in place by one small PUT.

Data files have names of their own that no other attempt uses. One manifest names those that are the
partition (`manifests`); putting it is the commit. What it replaced is deleted after that, and what
could not be deleted, or what a killed attempt left, goes with a later commit. Rows that are added
have a manifest of their own and replace nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.fs import FileInfo, FileType

from probclass_core.errors import TableError
from probclass_core.io.commit.parquet_writer import ParquetPart, StagedParquet, unique_names
from probclass_core.io.commit.schemas import check_same_columns
from probclass_core.io.errors import translate_write_errors
from probclass_core.io.filesystem import is_file, open_location, remove_file
from probclass_core.io.parquet.hive import hive_folder, hive_segment
from probclass_core.io.parquet.manifests import (
    OURS,
    Manifest,
    manifest_path,
    read_manifests,
    unnamed_files,
    valid,
)
from probclass_core.io.references import ABANDONED, Leftover, TableRef


class ObjectSink:
    """Where one partition (or one whole unpartitioned table) is to stand.

    Args:
        ref: directory of the table.
        partition: values of the partition columns, outermost first; none is the whole table.

    Raises:
        TableError: the place holds something that a table must not replace, or cannot be reached.
    """

    def __init__(self, ref: TableRef, partition: Mapping[str, Any]) -> None:
        self.storage = open_location(ref.uri, ref.options)
        self.partition = dict(partition)
        self.folder = hive_folder(self.partition)
        self.target = f"{self.storage.path}/{self.folder}".rstrip("/")
        if self.storage.path.endswith(".parquet"):
            raise TableError(
                f"{self.storage.uri}: no single file is written on an object store; name a "
                "directory."
            )
        self._check_place()

    @property
    def location(self) -> str:
        return self.storage.uri_of(self.target)

    @property
    def exists(self) -> bool:
        return bool(self.standing()) or self._holds_others()

    def _holds_others(self) -> bool:
        """Whether another's files lie there, which count until a manifest of the partition does."""
        return any(not OURS.fullmatch(info.base_name) for info in self.entries(self.target))

    @property
    def commit_record(self) -> dict[str, Any] | None:
        standing, records = self.standing(), self.commit_records()
        if len(standing) != 1 or not records:
            return None
        beside = standing[0].appended is not None and self._holds_others()
        return None if beside else records[0]

    def commit_records(self) -> list[dict[str, Any]]:
        present = {info.base_name for info in self.entries(self.target)}
        return [
            {**manifest.commit, "rows": manifest.rows}
            for manifest in self.standing()
            if present.issuperset(manifest.files)
        ]

    def check_columns(self, schema: pa.Schema, replaced: Sequence[Mapping[str, Any]]) -> None:
        root = self.storage.path
        held = self._some_schema({f"{root}/{hive_folder(one)}".rstrip("/") for one in replaced})
        if held is not None:
            uri = self.storage.uri
            check_same_columns(uri, schema, held, partition=self.partition, exact_types=False)

    def _some_schema(self, left: set[str]) -> pa.Schema | None:
        """Of a file of the table, but for those folders; none where there is none."""
        found = [
            info
            for info in self.storage.entries(self.storage.path, recursive=True)
            if _is_parquet(info) and info.path.rpartition("/")[0] not in left
        ]
        # A file that no manifest names may be a killed writer's.
        for info in found:
            folder = info.path.rpartition("/")[0].removeprefix(self.storage.path).lstrip("/")
            named = (one.files for one in valid(read_manifests(self.storage, folder)))
            if OURS.fullmatch(info.base_name) and info.base_name not in chain(*named):
                continue
            with suppress(OSError, pa.ArrowException):  # whoever reads the table will tell
                return pq.read_schema(info.path, filesystem=self.storage.filesystem)
        return None

    @contextmanager
    def stage(self, schema: pa.Schema, commit: Mapping[str, Any]) -> Iterator[StagedObject]:
        with closing(StagedObject(self, schema, commit)) as staged:
            yield staged

    @contextmanager
    def stage_append(self, schema: pa.Schema, commit: Mapping[str, Any]) -> Iterator[StagedObject]:
        with closing(StagedObject(self, schema, commit, more=True)) as staged:
            yield staged

    def standing(self) -> list[Manifest]:
        """The manifests of the partition as it is now."""
        return valid(read_manifests(self.storage, self.folder))

    def entries(self, folder: str) -> list[FileInfo]:
        """What a reader would see in a folder; nothing where there is none."""
        found = self.storage.entries(folder)
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
                    f"{storage.uri_of(level)} holds {others[0].base_name!r} beside partitions by "
                    f"{name!r}; choose another directory for the scored table."
                )
            level = f"{level}/{hive_segment(name, value)}"
        foreign = [i for i in self.entries(self.target) if not _is_parquet(i)]
        if foreign:
            raise TableError(
                f"{self.location} holds {foreign[0].base_name!r}, which is no part of a table "
                "written here; give the partition to replace, or another directory."
            )


class StagedObject(StagedParquet):
    """A partition in the making, or more of one: Parquet files that no manifest names yet."""

    def __init__(
        self,
        sink: ObjectSink,
        schema: pa.Schema,
        commit: Mapping[str, Any],
        *,
        more: bool = False,
    ) -> None:
        self._sink = sink
        self._schema = schema
        self._commit = dict(commit)
        self._more = more
        self._published = False

    def parts(self, count: int) -> Sequence[ParquetPart]:
        sink, storage = self._sink, self._sink.storage
        short = str(self._commit.get("commit_id", 0))[:12]
        names = [f"part-{short}-{name}.parquet" for name in unique_names(count)]
        with translate_write_errors(sink.location):
            storage.make_parent(f"{sink.target}/{names[0]}")
        self._parts = [
            ParquetPart(
                f"{sink.target}/{name}",
                self._schema,
                self._commit,
                location=sink.location,
                filesystem=storage.filesystem,
                part=(number, count),
            )
            for number, name in enumerate(names)
        ]
        return self._parts

    @property
    def _names(self) -> list[str]:
        """Of the files that have rows."""
        return [str(part.path).rpartition("/")[2] for part in self._parts if part.rows]

    def publish(self) -> None:
        for part in self._parts:
            part.finish()
        if self._more:
            commit_id = self._commit["commit_id"]
            if commit_id not in {record["commit_id"] for record in self._sink.commit_records()}:
                self._put(replaced=(), appended=commit_id)
            return  # else an equal attempt came first
        sink = self._sink
        before = read_manifests(sink.storage, sink.folder)
        added = [one for one in before if one.appended is not None]
        replaced = self._replaced(before)
        self._put(replaced=sorted({*replaced, *chain(*(one.files for one in added))}))
        paths = [f"{sink.target}/{name}" for name in replaced]
        paths += [manifest_path(sink.storage, sink.folder, one.appended) for one in added]
        for path in paths:
            with suppress(OSError):  # no reader of ours sees it, and a later commit tries again
                sink.storage.filesystem.delete_file(path)

    def _put(self, replaced: Sequence[str], appended: str | None = None) -> None:
        """The commit: the one request by which the rows are there."""
        storage, folder = self._sink.storage, self._sink.folder
        manifest = Manifest(folder, self._names, self.rows, self._commit, replaced, appended)
        storage.write(manifest_path(storage, folder, appended), manifest.to_bytes())
        self._published = True

    def close(self) -> None:
        """Let go of the files, and remove them unless the manifest names them."""
        super().close()
        if self._published:
            return
        # A PUT may have succeeded and its answer been lost: ask, and when in doubt leave them.
        with suppress(OSError, TableError):
            named = {*chain(*(standing.files for standing in self._sink.standing()))}
            for part in self._parts:
                if str(part.path).rpartition("/")[2] not in named:
                    with suppress(OSError):
                        self._sink.storage.filesystem.delete_file(str(part.path))

    def _replaced(self, before: Sequence[Manifest]) -> list[str]:
        """Files of the partition that are to go: all but those that another may be writing."""
        sink = self._sink
        known = {name for one in before for name in (*one.files, *one.replaced)}
        return [
            info.base_name
            for info in sink.entries(sink.target)
            if info.base_name not in self._names
            and (info.base_name in known or not OURS.fullmatch(info.base_name) or _is_old(info))
        ]


def object_leftovers(ref: TableRef) -> list[Leftover]:
    """Files that writers of ours put and no manifest names, those still at work included.

    Raises:
        TableError: there is no such table, or it cannot be read.
    """
    storage = open_location(ref.uri, ref.options)
    found = unnamed_files(storage)
    if not found and not _there(storage.info(storage.path)):
        raise TableError(f"{storage.uri} does not exist.")
    return [
        Leftover(
            path=storage.uri_of(info.path),
            bytes=info.size,
            touched=info.mtime,
            remove=partial(remove_file, storage.filesystem, info.path, storage.uri_of(info.path)),
        )
        for info in found
    ]


def _there(info: FileInfo) -> bool:
    return bool(info.type != FileType.NotFound)


def _is_parquet(info: FileInfo) -> bool:
    return is_file(info) and info.base_name.endswith(".parquet")


def _is_old(info: FileInfo) -> bool:
    """Whether it was last touched too long ago to be anyone's work."""
    return info.mtime is not None and datetime.now(UTC) - info.mtime > ABANDONED
