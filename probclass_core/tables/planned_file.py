"""The Parquet files of a plan: what it must know of each, from its footer or from before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.dataset as ds

from probclass_core.arrays import BATCH_ROWS
from probclass_core.footer import Footer
from probclass_core.tables.digests import file_digest

_FRAGMENT_ROWS = BATCH_ROWS
"""Row groups of one file are read together up to this many rows."""


@dataclass(frozen=True)
class PlannedFile:
    """A file that a plan reads.

    Attributes:
        piece: the file; unread, where its footer was known.
        state: tells one state of the file from another.
        schema: of its columns, as it stores them.
        groups: number and rows of each row group; none of what is no Parquet file.
        known: its footer, where that was known.
    """

    piece: ds.Fragment
    state: str
    schema: pa.Schema
    groups: tuple[tuple[int, int], ...]
    known: Footer | None = None

    @classmethod
    def opened(cls, piece: ds.Fragment, state: str) -> PlannedFile:
        """A file whose footer is read here."""
        if not isinstance(piece, ds.ParquetFileFragment):
            return cls(piece, state, piece.physical_schema, ())
        # Not the schema of the piece, which has dictionaries where they were asked for.
        schema = piece.metadata.schema.to_arrow_schema()
        groups = tuple((group.id, group.num_rows) for group in piece.row_groups)
        return cls(piece, state, schema, groups)

    @classmethod
    def remembered(cls, piece: ds.Fragment, state: str, footer: Footer) -> PlannedFile:
        """A file whose footer is known."""
        return cls(piece, state, footer.schema, tuple(enumerate(footer.rows)), footer)

    def footer(self, place: str) -> Footer:
        """What is worth keeping of its footer, given the place of the table."""
        if self.known is not None:
            return self.known
        rows = tuple(rows for _, rows in self.groups)
        return Footer(file_digest(place, self.state), self.schema.remove_metadata(), rows)

    def parts(self) -> Iterator[tuple[ds.Fragment, tuple[int, ...], int]]:
        """Consecutive row groups, up to `_FRAGMENT_ROWS` together: numbers, and rows in all."""
        if not isinstance(self.piece, ds.ParquetFileFragment):
            yield self.piece, (), self.piece.count_rows()
            return
        together: list[int] = []
        held = 0
        for number, rows in self.groups:
            if together and held + rows > _FRAGMENT_ROWS:
                yield self._part(together), tuple(together), held
                together, held = [], 0
            together.append(number)
            held += rows
        if together:
            yield self._part(together), tuple(together), held

    def _part(self, numbers: list[int]) -> ds.Fragment:
        piece = self.piece
        if self.known is None:
            return piece.subset(row_group_ids=numbers)
        # A subset would be taken of a footer, which would be read.
        return piece.format.make_fragment(
            piece.path, piece.filesystem, piece.partition_expression, row_groups=numbers
        )
