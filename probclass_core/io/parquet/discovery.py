"""Open a Parquet file or a directory of Parquet files, by path or URI."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow.fs import FileInfo, FileType

from probclass_core.arrow.types import safe_types
from probclass_core.errors import TableError
from probclass_core.io.errors import translate_read_errors
from probclass_core.io.filesystem import Location, open_location
from probclass_core.io.parquet.dataset import DatasetTable
from probclass_core.io.parquet.manifests import data_files
from probclass_core.io.parquet.partitions import HIVE_NULL
from probclass_core.io.references import TableRef
from probclass_core.io.retry import retry


def parquet_table(ref: TableRef) -> DatasetTable:
    """Open a Parquet file, or a directory of them with or without Hive partitions.

    Files and directories whose names begin with ``_`` or ``.`` are not data. A partition with a
    manifest consists of the files that the manifest names. The columns are those of the first and
    the last file, so that a column that was added over time is found; they may be in any order.

    Raises:
        TableError: if there is no Parquet file, or one cannot be read.
    """
    location = open_location(ref.uri, ref.options)
    files = data_files(location)
    if not files:
        exists = location.info("").type != FileType.NotFound
        raise TableError(
            f"{location.uri} {'has no Parquet files' if exists else 'does not exist'}."
        )
    listed_states = {str(info.path): _state(location, info) for info in files}

    def state(fragment: ds.Fragment) -> str:
        # Only the first plan may use the listing.
        listed = listed_states.pop(fragment.path, None)
        return listed or _state(location, location.info(location.relative(fragment.path)))

    dataset = _dataset(location, files)
    return DatasetTable(dataset, uri=location.uri, location=location, state=state)


def _dataset(location: Location, files: Sequence[FileInfo]) -> ds.Dataset:
    paths = [info.path for info in files]
    options = ds.FileSystemFactoryOptions()
    parquet = ds.ParquetFileFormat()
    if paths != [location.path]:
        options.partition_base_dir = location.path
        partition_schema = _schema_of_null_partitions(location, paths)
        if partition_schema is None:
            options.partitioning_factory = ds.HivePartitioning.discover()
        else:
            options.partitioning = ds.partitioning(partition_schema, flavor="hive")
    with translate_read_errors(location.uri), _name_other_files(location.uri):
        factory = ds.FileSystemDatasetFactory(location.filesystem, paths, parquet, options)
        first, *partition_schemas = retry(factory.inspect_schemas)
        stored = first
        if len(paths) > 1:
            last = retry(lambda: parquet.inspect(paths[-1], location.filesystem))
            stored = _merged_schema(first, last)
        # If the files contain the partition columns as well, they know their types.
        partition_columns = [
            column
            for schema in partition_schemas
            for column in schema
            if column.name not in stored.names
        ]
        schema = pa.schema([*stored, *partition_columns], metadata=stored.metadata)
        return retry(lambda: factory.finish(safe_types(schema)))


@contextmanager
def _name_other_files(uri: str) -> Iterator[None]:
    """Name a file that is not Parquet; the message of Arrow is hard to read."""
    try:
        yield
    except pa.ArrowInvalid as error:
        match = re.search(r"source '(.+?)': Parquet magic bytes not found", str(error))
        if match is None:
            raise
        name = "it" if uri.endswith(match[1]) else match[1]
        raise TableError(
            f"cannot read {uri}: {name} is not a Parquet file, or was cut off; write CSV and other "
            "formats as Parquet first, and begin the names of files that are not data with '_'."
        ) from error


def _merged_schema(first: pa.Schema, last: pa.Schema) -> pa.Schema:
    """Return the columns of both files, in a type that both can be read as if there is one."""
    if first.equals(last):
        return first
    columns = {column.name: column for column in (*last, *first)}
    for name in {*first.names} & {*last.names}:
        with suppress(pa.ArrowException):  # the plan reports files that do not go together
            both = [pa.schema([schema.field(name)]) for schema in (first, last)]
            columns[name] = pa.unify_schemas(both, promote_options="permissive").field(name)
    names = dict.fromkeys([*first.names, *last.names])
    return pa.schema([columns[name] for name in names], metadata=first.metadata)


def _schema_of_null_partitions(location: Location, paths: Sequence[str]) -> pa.Schema | None:
    """Return the partition columns if one has only null, whose type pyarrow cannot infer.

    That column is text; the others have the types that pyarrow would infer.
    """
    texts: dict[str, set[str]] = {}
    for path in paths:
        for segment in path.removeprefix(location.path).split("/")[:-1]:
            name, equal_sign, text = segment.partition("=")
            if equal_sign:
                texts.setdefault(name, set()).add(text)
    values = {name: column_texts - {HIVE_NULL} for name, column_texts in texts.items()}
    if all(values.values()):
        return None
    return pa.schema([(unquote(name), _inferred_type(texts)) for name, texts in values.items()])


def _inferred_type(texts: set[str]) -> pa.DataType:
    """Return int32 if all texts are short integers, else string."""
    integers = {text for text in texts if re.fullmatch(r"-?\d{1,9}", text)}
    return pa.int32() if texts and integers == texts else pa.string()


def _state(location: Location, info: FileInfo) -> str:
    """Return the name, size and time of change of a file: they differ between two states of it."""
    name = location.relative(info.path)
    state = f"{name or info.base_name}\0{info.size}\0{info.mtime_ns}"
    key = location.fsspec_key(name)  # fsspec gives pyarrow no times
    return state if key is None else f"{state}\0{key}"
