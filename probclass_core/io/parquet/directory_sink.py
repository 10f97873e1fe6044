"""A partition written aside, checked, and put in place or added at once.

Nothing under a partition's own name changes before the commit. Rows go to a staging directory
beside the table, into one file or several; the commit closes and syncs them, reads their footers
back, adds ``_SUCCESS``, and lets the directory take the partition's place in one step (`swap`).
Rows to be added are one more file, named by its commit and renamed into the partition. What
identifies the commit stands in the footers of the files, so that the directory holds nothing that a
reader of Parquet could trip over. An attempt that dies leaves its staging directory behind and
nothing else, and a later one of the same table removes it; two attempts each have their own.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from probclass_core.errors import TableError
from probclass_core.io.commit.parquet_writer import ParquetPart, StagedParquet
from probclass_core.io.commit.records import complete_commits, read_commit_record
from probclass_core.io.commit.schemas import check_same_columns
from probclass_core.io.commit.swap import put_in_place, retired_path
from probclass_core.io.errors import translate_write_errors
from probclass_core.io.local_files import folder_leftover, remove_abandoned, sync
from probclass_core.io.parquet.hive import hive_folder, hive_segment
from probclass_core.io.parquet.manifests import COMMITS
from probclass_core.io.references import Leftover

SUCCESS_FILE = "_SUCCESS"
STAGING = "_staging-"
CONTENT = "content"


class ParquetSink:
    """Where one partition (or one whole unpartitioned table) is to stand.

    Args:
        root: directory of the table, or a single ``.parquet`` file.
        partition: values of the partition columns, outermost first; none is the whole table.

    Raises:
        TableError: the path holds something that a table must not replace.
    """

    def __init__(self, root: Path, partition: Mapping[str, Any] | None = None) -> None:
        self.root = root.resolve()  # a link stays, and what it points to is replaced
        self.partition = dict(partition or {})
        self.is_file = root.suffix == ".parquet" and not root.is_dir()
        if self.is_file and self.partition:
            raise TableError(f"{root} is one file and cannot hold partitions; name a directory.")
        self.target = self.root / hive_folder(self.partition)
        self._check_target()

    @property
    def location(self) -> str:
        return str(self.target)

    @property
    def exists(self) -> bool:
        return self.target.exists()

    def _check_target(self) -> None:
        # A partition goes beside its like, a whole table where no partitions are.
        level = self.root
        for place in (self.root, self.target):
            if place.exists() and not self.is_file and not place.is_dir():
                raise TableError(
                    f"{place} is a file; name a directory for the scored table, or a .parquet file."
                )
        if (self.root / COMMITS).is_dir():
            raise TableError(
                f"{self.root} is a copy of a table on an object store, whose readers go by its "
                f"{COMMITS}; write another directory, or move {COMMITS} away."
            )
        for name in self.partition:
            others = [entry for entry in _entries(level) if not entry.name.startswith(f"{name}=")]
            if others:
                raise TableError(
                    f"{level} holds {others[0].name!r} beside partitions by {name!r}; "
                    "choose another directory for the scored table."
                )
            level = level / hive_segment(name, self.partition[name])
        foreign = [entry for entry in _entries(self.target) if entry.suffix != ".parquet"]
        if foreign:
            raise TableError(
                f"{self.target} holds {foreign[0].name!r}, which is no part of a table written "
                "here; give the partition to replace, or another directory."
            )

    @property
    def commit_record(self) -> dict[str, Any] | None:
        records = complete_commits(self._records())
        return records[0] if len(records) == 1 else None

    def commit_records(self) -> list[dict[str, Any]]:
        return [record for record in complete_commits(self._records()) if record is not None]

    def _records(self) -> list[dict[str, Any] | None]:
        """Of each file; none where others made it."""
        files = [self.root] if self.is_file else _entries(self.target)
        return [read_commit_record(path) for path in files]

    def check_columns(self, schema: pa.Schema, replaced: Sequence[Mapping[str, Any]]) -> None:
        left = {self.root / hive_folder(partition) for partition in replaced}
        held = None if self.is_file else _some_schema(self.root, left)
        if held is not None:
            check_same_columns(
                str(self.root), schema, held, partition=self.partition, exact_types=False
            )

    def stage(
        self, schema: pa.Schema, commit: Mapping[str, Any]
    ) -> AbstractContextManager[StagedDirectory]:
        return self._staged(schema, commit, more=False)

    def stage_append(
        self, schema: pa.Schema, commit: Mapping[str, Any]
    ) -> AbstractContextManager[StagedDirectory]:
        if self.is_file:
            raise TableError(
                f"{self.root} is one file, which no rows can be added to; name a directory."
            )
        return self._staged(schema, commit, more=True)

    @contextmanager
    def _staged(
        self, schema: pa.Schema, commit: Mapping[str, Any], *, more: bool
    ) -> Iterator[StagedDirectory]:
        where = self._staging_place()
        directory = where / f"{STAGING}{self.root.name}-{uuid.uuid4().hex}"
        try:
            where.mkdir(parents=True, exist_ok=True)
            remove_abandoned(_staging_folders(self.root))
            directory.mkdir()
        except OSError as error:
            raise TableError(f"cannot write to {where}: {error.strerror}.") from error
        try:
            with closing(StagedDirectory(self, directory, schema, commit, more=more)) as staged:
                yield staged
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    def _staging_place(self) -> Path:
        """Beside the table, for polars and duckdb read every directory in it, whatever its name.

        Only where the table is a disk of its own, or nothing may be made beside it, partitions are
        staged inside.
        """
        beside = self.root.parent
        effective = os.access in os.supports_effective_ids
        writable = os.access(beside, os.W_OK, effective_ids=effective)
        alone = self.root.is_mount() or not writable
        return self.root if self.partition and self.root.is_dir() and alone else beside


class StagedDirectory(StagedParquet):
    """A partition in the making, or more of one: Parquet files in a directory of their own."""

    def __init__(
        self,
        sink: ParquetSink,
        directory: Path,
        schema: pa.Schema,
        commit: Mapping[str, Any],
        *,
        more: bool,
    ) -> None:
        self._sink = sink
        self._schema = schema
        self._commit = commit
        self._more = more
        self._content = directory / CONTENT
        self._content.mkdir()

    def parts(self, count: int) -> Sequence[ParquetPart]:
        # What is added is one file, for one rename adds it.
        count = 1 if self._more or self._sink.is_file else count
        paths = [self._content / self._name(number, count) for number in range(count)]
        self._parts = [
            ParquetPart(
                path, self._schema, self._commit, location=self._sink.location, part=(number, count)
            )
            for number, path in enumerate(paths)
        ]
        return self._parts

    def _name(self, number: int, count: int) -> str:
        if self._sink.is_file:
            return self._sink.root.name
        if self._more:
            # Two attempts at one commit write one file: the later takes the place of its equal.
            return f"part-{self._commit['commit_id'][:32]}.parquet"
        # Readers go by names, so these are as long as the last.
        return f"part-{number:0{len(str(count - 1))}}.parquet"

    def publish(self) -> None:
        paths = [Path(part.path) for part in self._parts]
        for part in self._parts:
            part.finish_file()  # a file of no rows is made here: all of a commit's are to be there
        with translate_write_errors(self._sink.location):
            for path in paths:
                sync(path)
            target = self._sink.target
            target.parent.mkdir(parents=True, exist_ok=True)
            if self._sink.is_file:
                put_in_place(paths[0], target)
            else:
                (self._content / SUCCESS_FILE).touch()
                sync(self._content)
                if self._more:
                    self._add_to(target, paths[0])
                else:
                    put_in_place(self._content, target)
            sync(target.parent)

    def _add_to(self, target: Path, path: Path) -> None:
        """One rename: of the directory where nothing stands, else of the file."""
        while True:
            try:
                self._content.rename(target)
                return
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
            with suppress(FileNotFoundError):  # the target went away in between
                path.rename(target / path.name)
                sync(target)
                return


def _entries(directory: Path) -> list[Path]:
    """What a reader would see in a directory; nothing where there is none."""
    if not directory.is_dir():
        return []
    return sorted(entry for entry in directory.iterdir() if not entry.name.startswith(("_", ".")))


def _some_schema(directory: Path, left: set[Path]) -> pa.Schema | None:
    """Of a file below a directory, but for those directories; none where there is none."""
    for entry in () if directory in left else _entries(directory):
        if entry.is_dir():
            found = _some_schema(entry, left)
            if found is not None:
                return found
        else:
            with suppress(OSError, pa.ArrowException):  # whoever reads the table will tell
                return pq.read_schema(entry)
    return None


def staging_leftovers(root: Path) -> list[Leftover]:
    """List what writers of a table have staged next to it or in it, live writers included."""
    leftovers = []
    for folder in _staging_folders(root):
        with suppress(FileNotFoundError):  # its writer has just finished
            leftovers.append(folder_leftover(folder))
    return leftovers


def _staging_folders(root: Path) -> Iterator[Path]:
    """Find the staging folders of a table that no reader needs.

    A folder with a retired partition is left out: its writer was killed between the two renames of
    a file system that cannot exchange names, and the folder has the only copy.
    """
    root = root.resolve()
    name = re.compile(rf"{STAGING}{re.escape(root.name)}-[0-9a-f]{{32}}")
    for parent in (root.parent, root):
        for folder in sorted(parent.glob(f"{STAGING}*")):
            content = folder / CONTENT
            retired = content.exists() and retired_path(content).exists()
            if name.fullmatch(folder.name) and folder.is_dir() and not retired:
                yield folder
