"""Parquet files and Hive-partitioned directories, found by their path or URI."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow.fs import FileInfo, FileType, PyFileSystem

from probclass_core.arrow.types import safe_types
from probclass_core.errors import TableError
from probclass_core.io.errors import translate_read_errors
from probclass_core.io.filesystem import Location, open_location
from probclass_core.io.parquet.dataset import DatasetTable
from probclass_core.io.parquet.hive import HIVE_NULL
from probclass_core.io.parquet.manifests import data_files
from probclass_core.io.references import TableRef
from probclass_core.io.retry import retry


def parquet_table(ref: TableRef) -> DatasetTable:
    """A Parquet file, or a directory of them, Hive partitions included.

    Files and directories whose names begin with ``_`` or ``.`` are not data. A partition with a
    manifest consists of the files that it names. The columns are those of the first file and of the
    last, in which a column that was added in the course of time is found; by name, in any order.

    Raises:
        TableError: there is no such place, no Parquet file below it, or one that cannot be read.
    """
    storage = open_location(ref.uri, ref.options)
    files = data_files(storage)
    if not files:
        there = storage.info(storage.path).type != FileType.NotFound
        raise TableError(
            f"{storage.uri} {'holds no Parquet files' if there else 'does not exist'}."
        )
    listed = {str(info.path): _state(storage, info) for info in files}

    def state(piece: ds.Fragment) -> str:
        # The listing is new to the first plan only.
        return listed.pop(piece.path, None) or _state(storage, storage.info(piece.path))

    return DatasetTable(_dataset(storage, files), uri=storage.uri, storage=storage, state=state)


def _dataset(storage: Location, files: Sequence[FileInfo]) -> ds.Dataset:
    paths = [info.path for info in files]
    options = ds.FileSystemFactoryOptions()
    form = ds.ParquetFileFormat()
    if paths != [storage.path]:
        options.partition_base_dir = storage.path
        unknown = _without_values(storage, paths)
        if unknown is None:
            options.partitioning_factory = ds.HivePartitioning.discover()
        else:
            options.partitioning = ds.partitioning(unknown, flavor="hive")
    with translate_read_errors(storage.uri), _parquet_alone(storage.uri):
        factory = ds.FileSystemDatasetFactory(storage.filesystem, paths, form, options)
        stored, *spelled = retry(factory.inspect_schemas)
        if len(paths) > 1:
            stored = _grown(stored, retry(lambda: form.inspect(paths[-1], storage.filesystem)))
        # What directories spell out may stand in the files as well, and those know its type.
        more = [column for names in spelled for column in names if column.name not in stored.names]
        schema = pa.schema([*stored, *more], metadata=stored.metadata)
        return retry(lambda: factory.finish(safe_types(schema)))


@contextmanager
def _parquet_alone(uri: str) -> Iterator[None]:
    """Names the file that is of another kind, which Arrow's own words bury."""
    try:
        yield
    except pa.ArrowInvalid as error:
        other = re.search(r"source '(.+?)': Parquet magic bytes not found", str(error))
        if other is None:
            raise
        name = "it" if uri.endswith(other[1]) else other[1]
        raise TableError(
            f"cannot read {uri}: {name} is no Parquet file, or was cut off; write CSV and the "
            "like as Parquet first, and begin the names of files that are not data with '_'."
        ) from error


def _grown(first: pa.Schema, last: pa.Schema) -> pa.Schema:
    """The columns of both, in types that were widened, where those of both have one in common."""
    if first.equals(last):
        return first
    columns = {column.name: column for column in (*last, *first)}
    for name in {*first.names} & {*last.names}:
        with suppress(pa.ArrowException):  # the plan tells which files do not go together
            both = [pa.schema([names.field(name)]) for names in (first, last)]
            columns[name] = pa.unify_schemas(both, promote_options="permissive").field(name)
    order = dict.fromkeys([*first.names, *last.names])
    return pa.schema([columns[name] for name in order], metadata=first.metadata)


def _without_values(storage: Location, paths: Sequence[str]) -> pa.Schema | None:
    """The partition columns, if one has no value but null, whose type pyarrow cannot tell.

    Such a one is text; the others have the types that pyarrow would tell.
    """
    found: dict[str, set[str]] = {}
    for path in paths:
        for segment in path.removeprefix(storage.path).split("/")[:-1]:
            name, equal, value = segment.partition("=")
            if equal:
                found.setdefault(name, set()).add(value)
    values = {name: each - {HIVE_NULL} for name, each in found.items()}
    if all(values.values()):
        return None
    return pa.schema([(unquote(name), _type_of(each)) for name, each in values.items()])


def _type_of(values: set[str]) -> pa.DataType:
    """32-bit integers where the names of directories are such, else text."""
    narrow = {value for value in values if re.fullmatch(r"-?\d{1,9}", value)}
    return pa.int32() if values and narrow == values else pa.string()


def _state(storage: Location, info: FileInfo) -> str:
    """What tells one state of a file from another: its name, size and time of change."""
    name = str(info.path).removeprefix(storage.path).lstrip("/")
    state = f"{name or info.base_name}\0{info.size}\0{info.mtime_ns}"
    if isinstance(storage.filesystem, PyFileSystem):
        # fsspec passes no times on, but knows a digest of all that the store says of a file.
        return f"{state}\0{storage.filesystem.handler.fs.ukey(info.path)}"
    return state
