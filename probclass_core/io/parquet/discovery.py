"""Open Parquet files by path or URI: one, those of a directory, or those that a pattern matches."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow.fs import FileInfo, FileType

from probclass_core.arrow.types import common_columns, safe_types, value_type
from probclass_core.errors import TableError, TableMismatchError
from probclass_core.io.failures import retry, translate_read_errors
from probclass_core.io.filesystem import Location, file_state, is_file
from probclass_core.io.filters import HIVE_NULL
from probclass_core.io.object_stores import open_location
from probclass_core.io.parquet.dataset import DatasetTable
from probclass_core.io.parquet.files import with_utf8_names
from probclass_core.io.references import TableRef, matches, split_pattern
from probclass_core.spec.model_spec import category_text

_FILES_TRIED = 3
"""Files at each end of a table that are tried for one that can be read."""

DELTA_LOG = "_delta_log"


def parquet_table(ref: TableRef, partition: Mapping[str, Any] | None = None) -> DatasetTable:
    """Open a Parquet file, or a directory of them with or without Hive partitions.

    Files and directories whose names begin with ``_`` or ``.`` are not data. The columns are those
    of the first and the last file, so that a column that was added over time is found; they may be
    in any order.

    Args:
        ref: address of the table.
        partition: values of partition columns; the table has no files of other partitions.

    Raises:
        TableError: if there is no Parquet file, or one cannot be read.
    """
    found = find_files(ref, "Parquet", partition)
    return DatasetTable(
        _dataset(found),
        uri=found.uri,
        location=found.location,
        partition_columns=found.partition_schema.names,
        state=found.state(),
        has_log=False,
    )


@dataclass(frozen=True)
class FoundFiles:
    """The data files of a table.

    Attributes:
        uri: path or URI of the table, which may be a pattern.
        location: location of the table; of a pattern, the folder before its first wildcard.
        files: the files, by path.
    """

    uri: str
    location: Location
    files: Sequence[FileInfo]

    @cached_property
    def partition_schema(self) -> pa.Schema:
        """The partition columns that folder names such as ``month=1`` give the files.

        Their types are those that pyarrow would infer; a column that has only null is text.
        """
        texts: dict[str, set[str]] = {}
        for info in self.files:
            for segment in self.location.relative(info.path).split("/")[:-1]:
                name, equal_sign, text = segment.partition("=")
                if equal_sign:
                    texts.setdefault(unquote(name), set()).add(unquote(text))
        return pa.schema([(name, _inferred_type(values)) for name, values in texts.items()])

    def dataset(self, schema: pa.Schema, file_format: ds.FileFormat) -> ds.Dataset:
        """Return the files as a dataset.

        Args:
            schema: all columns, those of the partitions included.
            file_format: format of the files.
        """
        options = ds.FileSystemFactoryOptions()
        if names := self.partition_schema.names:
            kinds = [(name, value_type(schema.field(name).type)) for name in names]
            options.partition_base_dir = self.location.path
            options.partitioning = ds.partitioning(pa.schema(kinds), flavor="hive")
        paths = [info.path for info in self.files]
        factory = ds.FileSystemDatasetFactory(self.location.filesystem, paths, file_format, options)
        return factory.finish(schema)

    def state(self) -> Callable[[ds.Fragment], str]:
        """Return a function that gives the state of a file; see `DatasetTable`."""
        location = self.location
        listed_states = {str(info.path): file_state(location, info) for info in self.files}

        def state(fragment: ds.Fragment) -> str:
            # Only the first plan may use the listing.
            listed = listed_states.pop(fragment.path, None)
            return listed or file_state(location, location.info(location.relative(fragment.path)))

        return state


def find_files(ref: TableRef, kind: str, partition: Mapping[str, Any] | None = None) -> FoundFiles:
    """Find the data files of a table by a path, a directory or a pattern.

    Args:
        ref: address of the table.
        kind: name of their format, for messages.
        partition: see `parquet_table`.

    Raises:
        TableError: if there is none, or the location cannot be read.
    """
    base, pattern = split_pattern(ref.uri)
    location = open_location(base, ref.options)
    if pattern is not None:
        files = _matching_files(location, pattern)
        uri = location.uri_of(pattern) if location.remote else ref.uri
        if not files:
            is_query = re.search(r"\?\w+=", pattern) and not location.remote
            fix = "; options are for a URI, which begins with file://" if is_query else ""
            raise TableError(f"no file matches {uri}{fix}.")
        return FoundFiles(uri, location, files)
    files = data_files(location, partition)
    if not files:
        exists = location.info("").type != FileType.NotFound
        raise TableError(
            f"{location.uri} {f'has no {kind} files' if exists else 'does not exist'}."
        )
    return FoundFiles(location.uri, location, files)


def _matching_files(location: Location, pattern: str) -> Sequence[FileInfo]:
    """List the files below a location that match a pattern, by path; see `matches`."""
    entries = location.entries("", recursive="/" in pattern or "**" in pattern)
    files = filter(is_file, entries)
    return [info for info in files if matches(location.relative(info.path), pattern)]


def _dataset(found: FoundFiles) -> ds.Dataset:
    with translate_read_errors(found.location.uri):
        stored = stored_columns(found.location, [info.path for info in found.files])
        # If the files contain the partition columns as well, they know their types.
        partition = [field for field in found.partition_schema if field.name not in stored.names]
        schema = safe_types(pa.schema([*stored, *partition], metadata=stored.metadata))
        return retry(lambda: found.dataset(schema, ds.ParquetFileFormat()))


def stored_columns(location: Location, paths: Sequence[str]) -> pa.Schema:
    """Return the columns of the first and the last file of a table.

    Args:
        location: location of the table.
        paths: paths of its files in the file system; there is at least one.

    Raises:
        TableError: if none of the first or of the last files can be read.
    """
    first = _first_schema(location, paths)
    return first if len(paths) == 1 else common_columns(first, _first_schema(location, paths[::-1]))


def _first_schema(location: Location, paths: Sequence[str]) -> pa.Schema:
    """Return the columns of the first of a few files that can be read.

    A damaged file must not hide all others: a plan reports it if it needs the file.
    """
    parquet, failures = ds.ParquetFileFormat(), []
    for path in paths[:_FILES_TRIED]:
        try:
            with translate_read_errors(location.uri_of(location.relative(path))):
                return with_utf8_names(retry(partial(parquet.inspect, path, location.filesystem)))
        except TableError as failure:
            failures.append(failure)
    raise failures[0]


def _inferred_type(texts: set[str]) -> pa.DataType:
    """Return int32 if all texts but null are such integers, else string."""
    values = texts - {HIVE_NULL}
    are_integers = values and all(
        re.fullmatch("-?[0-9]+", text) and -(2**31) <= int(text) < 2**31 for text in values
    )
    return pa.int32() if are_integers else pa.string()


def data_files(location: Location, partition: Mapping[str, Any] | None = None) -> list[FileInfo]:
    """List the data files of a table, by path: those of the folder, or the file itself.

    Args:
        location: location of the table.
        partition: values of partition columns; folders of other partitions are not listed.

    Raises:
        TableError: if it is a table of another format, or cannot be read.
    """
    table = location.info("")
    return [table] if is_file(table) else list_files(location, partition)


def list_files(location: Location, partition: Mapping[str, Any] | None = None) -> list[FileInfo]:
    """List the data files of a folder; see `data_files`."""
    entries = _entries(location, "", partition or {})
    if not location.remote:
        _refuse_loops(entries)
    files = [info for info in entries if is_file(info)]
    paths = [location.relative(info.path) for info in files]
    if any(path.startswith(f"{DELTA_LOG}/") for path in paths):
        raise is_delta(location)
    return [info for info, path in zip(files, paths, strict=True) if _is_visible(path)]


def _entries(location: Location, folder: str, partition: Mapping[str, Any]) -> list[FileInfo]:
    """List what is in a folder and below it, but not in folders of other partitions."""
    entries = location.entries(folder, recursive=not partition)
    folders = [info for info in entries if info.type == FileType.Directory] if partition else []
    segments = [str(info.base_name).partition("=") for info in folders]
    if not {unquote(name) for name, _, _ in segments} <= partition.keys():
        return location.entries(folder, recursive=True)
    for info, (name, _, text) in zip(folders, segments, strict=True):
        rest = dict(partition)
        if _is_value(text, rest.pop(unquote(name))):
            entries += _entries(location, location.relative(info.path), rest)
    return sorted(entries, key=lambda info: str(info.path))


def is_delta(location: Location) -> TableMismatchError:
    """Return the error of a Delta table, whose rows do not follow from a listing."""
    return TableMismatchError(
        f"{location.uri} is a Delta table; name its format: "
        f"TableRef({location.uri!r}, format='delta')."
    )


def _refuse_loops(entries: Sequence[FileInfo]) -> None:
    """Refuse a link to a folder that contains it: its files would be listed again and again.

    Raises:
        TableError: if there is one.
    """
    for folder in (Path(info.path) for info in entries if info.type == FileType.Directory):
        if folder.is_symlink():
            target = folder.resolve()
            if any(parent.resolve() == target for parent in folder.parents):
                raise TableError(f"{folder} is a link to {target}, which contains it; remove it.")


def _is_visible(path: str) -> bool:
    return not any(part.startswith(("_", ".")) for part in path.split("/"))


def hive_folder(partition: Mapping[str, Any]) -> str:
    """Return the folder of a partition relative to its table: ``"a=1/b=2"``.

    Args:
        partition: values of the partition columns, outermost first; empty for a whole table, whose
            folder is ``""``.

    Raises:
        TableError: as `hive_segment`.
    """
    return "/".join(hive_segment(name, value) for name, value in partition.items())


def hive_segment(name: str, value: Any) -> str:
    """Return the folder name of one partition value, escaped as Hive does.

    Raises:
        TableError: if readers would skip a folder of that column, or misread its name.
    """
    if name.startswith(("_", ".")) or set(name) & set("/="):
        raise TableMismatchError(
            f"column {name!r} cannot be a partition column: readers skip folders that begin with "
            "'_' or '.', and would misread '/' or '='; rename the column."
        )
    if value is None:
        return f"{name}={HIVE_NULL}"
    # Only ASCII is escaped: Hive and Spark would read each escaped byte as a character.
    escaped = (quote(c, safe=" -_.~") if c.isascii() else c for c in category_text(value))
    return f"{name}={''.join(escaped)}"


def _is_value(text: str, value: Any) -> bool:
    """Whether the text in the name of a folder may be of a partition value."""
    if type(value) not in (str, int):
        return True
    texts = unquote(text), category_text(value)
    numbers = [int(text) for text in texts if re.fullmatch(r"-?\d{1,9}", text)]
    return texts[0] == texts[1] or (len(numbers) == 2 and numbers[0] == numbers[1])
