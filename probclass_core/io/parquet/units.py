"""Units of Parquet tables: which files and row groups are read, summarized and cached together.

Where a unit ends depends on the names and the rows of its own files. So a table that gains or loses
files keeps its other units, and the statistics that are cached of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby

import pyarrow as pa

from probclass_core.arrow.arrays import joined
from probclass_core.io.parquet.digests import unit_digest
from probclass_core.io.parquet.files import PlannedFile, RowGroups, reopened
from probclass_core.io.parquet.partitions import partition_values
from probclass_core.io.table import Unit

_UNIT_ROWS = 65_536
"""Small files of a partition are one unit up to this number of rows; average size of a unit of
small files otherwise."""

_UNIT_FILES = 16
"""Average number of files in a unit that is not all of a partition, if they have few rows."""


@dataclass(frozen=True)
class FilePart:
    """Row groups of a planned file.

    Attributes:
        file: the file.
        name: its name in the table.
        number: position of the part in the file.
        row_groups: the row groups.
    """

    file: PlannedFile
    name: str
    number: int
    row_groups: RowGroups

    @property
    def is_small(self) -> bool:
        """Whether it is all of a Parquet file, with fewer rows than a unit."""
        numbers = self.row_groups.numbers
        return len(numbers) == len(self.file.row_groups) > 0 and self.row_groups.rows < _UNIT_ROWS

    @property
    def ends_unit(self) -> bool:
        """Whether a unit of small files ends here: by a hash of the name, and more often after many
        rows.
        """
        hashed = int.from_bytes(hashlib.sha256(self.name.encode()).digest()[:8], "big") / 2**64
        return hashed < max(1 / _UNIT_FILES, self.row_groups.rows / _UNIT_ROWS)


def divide_into_units(
    parts: Iterable[FilePart], partition_columns: Sequence[str]
) -> list[list[FilePart]]:
    """Divide the parts of a plan, in order, into units.

    Args:
        parts: parts of the files, in the order of the plan.
        partition_columns: names of the partition columns of the table.
    """
    units: list[list[FilePart]] = []
    for partition, group in groupby(
        parts, lambda part: partition_values(part.file.fragment, partition_columns)
    ):
        of_partition = list(group)
        rows = sum(part.row_groups.rows for part in of_partition)
        is_one_unit = bool(partition) and rows <= _UNIT_ROWS
        is_open = False
        for part in of_partition:
            if is_open and part.is_small:
                units[-1].append(part)
            else:
                units.append([part])
            is_open = part.is_small and (is_one_unit or not part.ends_unit)
    return units


def unit_of(parts: Sequence[RowGroups]) -> RowGroups | SmallFiles:
    """A unit of at least one part."""
    if len(parts) == 1:
        return parts[0]
    digest = unit_digest([part.digest for part in parts])
    return SmallFiles(tuple(map(_without_footer, parts)), digest)


def _without_footer(part: RowGroups) -> RowGroups:
    """The same rows, without the footer of a local file in memory, which is soon read again."""
    if part.scan_options.pre_buffer:
        return part
    return replace(part, fragment=reopened(part.fragment, part.numbers), reopen=True)


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
        return joined(batches, self.parts[0].batch_rows)
