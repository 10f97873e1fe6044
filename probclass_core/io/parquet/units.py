"""Units of Parquet tables: which files and row groups are read, summarized and cached together.

Where a unit ends depends on the names and the rows of its own files. So a table that gains or loses
files keeps its other units, and the statistics that are cached of them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import cached_property
from itertools import chain, groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.arrow.arrays import joined
from probclass_core.io.filters import Condition
from probclass_core.io.parquet.files import RowGroups, partition_values
from probclass_core.io.table import Unit

_UNIT_ROWS = 65_536
"""Small files of a partition are one unit up to this number of rows; average size of a unit of
small files otherwise."""

_UNIT_FILES = 16
"""Average number of files in a unit that is not all of a partition, if they have few rows."""

_VERSION = 1
"""Version of the digests; increase it when they cover something else."""

_TEXT_IS_UNIQUE = (str, int, float, bool, date, datetime, Decimal, type(None))
"""Types whose values are equal if their texts are."""


def divide_into_units(
    parts: Iterable[RowGroups], partition_columns: Sequence[str]
) -> list[list[RowGroups]]:
    """Divide the parts of a plan, in order, into units.

    Args:
        parts: parts of the files, in the order of the plan.
        partition_columns: names of the partition columns of the table.
    """
    units: list[list[RowGroups]] = []
    for partition, group in groupby(
        parts, lambda part: partition_values(part.file.fragment, partition_columns)
    ):
        of_partition = list(group)
        rows = sum(part.rows for part in of_partition)
        is_one_unit = bool(partition) and rows <= _UNIT_ROWS
        is_open = False
        for part in of_partition:
            is_small = part.is_whole_file and part.rows < _UNIT_ROWS
            if is_open and is_small:
                units[-1].append(part)
            else:
                units.append([part])
            is_open = is_small and (is_one_unit or not _ends_unit(part))
    return units


def _ends_unit(part: RowGroups) -> bool:
    """Whether a unit of small files ends here: by a hash of the name, and more often after many
    rows.
    """
    hashed = int.from_bytes(hashlib.sha256(part.file.name.encode()).digest()[:8], "big") / 2**64
    return hashed < max(1 / _UNIT_FILES, part.rows / _UNIT_ROWS)


def unit_of(parts: Sequence[RowGroups]) -> RowGroups | SmallFiles:
    """A unit of at least one part."""
    if len(parts) == 1:
        return parts[0]
    digest = unit_digest([part.digest for part in parts])
    return SmallFiles(tuple(parts), digest)


@dataclass(frozen=True)
class SmallFiles(Unit):
    """Several small files of a table, read one after another.

    Attributes:
        parts: the rows of each file.
        digest: see `io.table.Unit`.
    """

    parts: tuple[RowGroups, ...]
    digest: str | None

    def __str__(self) -> str:
        return f"{len(self.parts)} files from {self.parts[0]} to {self.parts[-1]}"

    def read(self) -> Iterator[pa.RecordBatch]:
        """Read the rows; small files may be in one batch."""
        batches = chain.from_iterable(part.read() for part in self.parts)
        return joined(batches, self.parts[0].reading.batch_rows)


@dataclass(frozen=True)
class FragmentDigests:
    """Digests of the fragments of one plan, under which their statistics are cached.

    They cover everything that the batches of a part of a file depend on: the location of the table,
    the file and its state, the row groups, the columns and the types they are read as, and the
    conditions on rows. A condition that all rows of the file meet by its partition is left out, so
    that a window that moves over partitions finds the statistics of the partitions it has seen.

    Attributes:
        uri: path or URI of the table.
        schema: schema of the columns to read.
        partition: partition to read, or None.
        where: conditions on the rows, or None.
    """

    uri: str
    schema: pa.Schema
    partition: Mapping[str, Any] | None
    where: Sequence[Condition] | pc.Expression | None

    def digest(
        self, state: str, partition: Mapping[str, Any], row_groups: Sequence[int]
    ) -> str | None:
        """Return the digest of a fragment, or None if it has no identity.

        Args:
            state: state of the file.
            partition: partition columns with one value in the whole file, and their values.
            row_groups: numbers of the row groups.
        """
        conditions = self._conditions_within(partition)
        if conditions is None:
            return None
        return _digest([self._common, state, list(row_groups), conditions])

    @cached_property
    def _common(self) -> str:
        """Digest of what all fragments share: the table, the columns and their types."""
        columns = [[field.name, str(field.type)] for field in self.schema]
        return _digest([_VERSION, absolute_location(self.uri), columns])

    def _conditions_within(self, partition: Mapping[str, Any]) -> list[list[str]] | None:
        """Return the conditions that a partition leaves open, or None if one has no unique text."""
        if self.where is not None and not isinstance(self.where, Sequence):
            return None
        equal = [(name, "==", value) for name, value in (self.partition or {}).items()]
        conditions = []
        for name, operator, value in [*equal, *(self.where or ())]:
            if partition.get(name) is not None:
                continue  # the plan reads the file, so its one value meets the condition
            values = list(value) if isinstance(value, (list, tuple)) else [value]
            if not all(type(item) in _TEXT_IS_UNIQUE for item in values):
                return None
            conditions.append([name, operator, repr(values)])
        return conditions


def unit_digest(parts: Sequence[str | None]) -> str | None:
    """Return the digest of a unit of several files, or None if one has none.

    Args:
        parts: digests of their rows.
    """
    return None if None in parts else _digest([_VERSION, *parts])


def file_digest(table: str, state: str) -> str:
    """Return the digest of a file, under which its footer is cached.

    Args:
        table: location of the table; see `absolute_location`.
        state: state of the file.
    """
    return _digest([_VERSION, table, state])


def absolute_location(uri: str) -> str:
    """Return the URI, or the absolute path without links."""
    return uri if "://" in uri else str(Path(uri).resolve())


def _digest(values: object) -> str:
    return hashlib.sha256(json.dumps(values).encode()).hexdigest()
