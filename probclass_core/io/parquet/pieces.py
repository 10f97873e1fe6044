"""The files of a pyarrow dataset: what their paths and directories tell, without a look inside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow.dataset as ds


def path_of(piece: ds.Fragment) -> str:
    """Of a file; what is no file has a name."""
    return str(getattr(piece, "path", "a dataset in memory"))


def partition_of(piece: ds.Fragment) -> dict[str, Any]:
    """The partition columns that have one value in the whole file, and that value."""
    return dict(ds.get_partition_keys(piece.partition_expression))


def columns_of_partitions(dataset: ds.Dataset) -> list[str]:
    """Outermost first, as their directories lie; a fragment's keys come in no such order."""
    first = next(iter(dataset.get_fragments()), None)
    keys = {} if first is None else partition_of(first)
    partitioning = getattr(dataset, "partitioning", None)
    order = dataset.schema.names if partitioning is None else partitioning.schema.names
    return sorted(keys, key=order.index)


def by_partition(
    dataset: ds.Dataset, names: Sequence[str]
) -> Mapping[tuple[Any, ...], list[ds.Fragment]]:
    """The files of each partition, by the values of its columns.

    Nothing where there are no files, or where one may have rows of several partitions.
    """
    found: dict[tuple[Any, ...], list[ds.Fragment]] = {}
    if not names or not isinstance(dataset, ds.FileSystemDataset):
        return found
    for piece in dataset.get_fragments():
        keys = partition_of(piece)
        if not all(name in keys for name in names):
            return {}
        found.setdefault(tuple(keys[name] for name in names), []).append(piece)
    return found


def copy_of(piece: ds.Fragment, row_groups: Sequence[int] | None = None) -> ds.Fragment:
    """The same file, or some row groups of it, nothing of which was read yet."""
    return piece.format.make_fragment(
        piece.path, piece.filesystem, piece.partition_expression, row_groups=row_groups
    )


def with_dictionaries(pieces: Sequence[ds.Fragment], names: Sequence[str]) -> list[ds.Fragment]:
    """The same files, read with the text of these columns as dictionaries."""
    options = ds.ParquetReadOptions(dictionary_columns=list(names))
    form = ds.ParquetFileFormat(read_options=options)
    return [
        form.make_fragment(piece.path, piece.filesystem, piece.partition_expression)
        for piece in pieces
    ]
