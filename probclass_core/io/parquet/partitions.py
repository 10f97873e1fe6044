"""Partitions of a directory: names of their folders, and the partition values of a file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, unquote

import pyarrow.dataset as ds

from probclass_core.errors import TableMismatchError
from probclass_core.spec.model_spec import category_text

HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
"""Text for null in the name of a folder."""


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


def is_value(text: str, value: Any) -> bool:
    """Whether the text in the name of a folder may be of a partition value."""
    if type(value) not in (str, int):
        return True
    texts = unquote(text), category_text(value)
    numbers = [int(text) for text in texts if re.fullmatch(r"-?\d{1,9}", text)]
    return texts[0] == texts[1] or (len(numbers) == 2 and numbers[0] == numbers[1])


def partition_of(fragment: ds.Fragment) -> dict[str, Any]:
    """Return the partition columns that have one value in a whole file, with their values."""
    return dict(ds.get_partition_keys(fragment.partition_expression))


def partition_values(fragment: ds.Fragment, names: Sequence[str]) -> tuple[Any, ...]:
    """Return the values of partition columns, None for one that the file is in no folder of."""
    values = partition_of(fragment) if names else {}
    return tuple(values.get(name) for name in names)


def fragments_by_partition(
    dataset: ds.Dataset, names: Sequence[str]
) -> Mapping[tuple[Any, ...], list[ds.Fragment]]:
    """Group the files of a dataset by the values of its partition columns.

    Args:
        dataset: the dataset.
        names: names of the partition columns.

    Returns:
        Files by partition; empty if a file may have rows of several partitions.
    """
    groups: dict[tuple[Any, ...], list[ds.Fragment]] = {}
    if not names or not isinstance(dataset, ds.FileSystemDataset):
        return groups
    for fragment in dataset.get_fragments():
        values = partition_of(fragment)
        if not all(name in values for name in names):
            return {}
        groups.setdefault(tuple(values[name] for name in names), []).append(fragment)
    return groups
