"""The Parquet files of a plan: what it must know of each, from its footer or from before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.dataset as ds

from probclass_core.arrow.arrays import BATCH_ROWS
from probclass_core.io.footers import Footer
from probclass_core.io.parquet.digests import file_digest
from probclass_core.io.parquet.pieces import copy_of, with_dictionaries

_FRAGMENT_ROWS = BATCH_ROWS
"""Row groups of one file are read together up to this many rows."""


@dataclass(frozen=True)
class PlannedFile:
    """A file that a plan reads.

    Attributes:
        piece: the file.
        state: tells one state of the file from another.
        schema: of its columns, as it stores them.
        groups: number and rows of each row group; none of what is no Parquet file.
        unread: whether the piece is without the footer, for it was known or is let go of.
        known: its footer, where that was known.
    """

    piece: ds.Fragment
    state: str
    schema: pa.Schema
    groups: tuple[tuple[int, int], ...]
    unread: bool = False
    known: Footer | None = None

    @classmethod
    def opened(cls, piece: ds.Fragment, state: str, *, unread: bool) -> PlannedFile:
        """A file whose footer is read here.

        Args:
            piece: the file.
            state: of it.
            unread: whether the footer is to be let go of, and read again with the rows.
        """
        if not isinstance(piece, ds.ParquetFileFragment):
            return cls(piece, state, piece.physical_schema, ())
        looked_into = with_dictionaries([piece], ())[0] if unread else piece
        schema = looked_into.physical_schema
        if looked_into.format.read_options.dictionary_columns:
            # The file's own, without those dictionaries. It and the footer hold one another until
            # garbage is collected, which of many files would add up.
            schema = looked_into.metadata.schema.to_arrow_schema()
        groups = tuple((group.id, group.num_rows) for group in looked_into.row_groups)
        return cls(piece, state, schema, groups, unread)

    @classmethod
    def remembered(cls, piece: ds.Fragment, state: str, footer: Footer) -> PlannedFile:
        """A file whose footer is known."""
        groups = tuple(enumerate(footer.rows))
        return cls(piece, state, footer.schema, groups, unread=True, known=footer)

    def footer(self, place: str) -> Footer:
        """What is worth keeping of its footer, given the place of the table."""
        if self.known is not None:
            return self.known
        rows = tuple(rows for _, rows in self.groups)
        return Footer(file_digest(place, self.state), self.schema.remove_metadata(), rows)

    def parts(self) -> Iterator[tuple[ds.Fragment, tuple[int, ...], int]]:
        """Consecutive row groups, up to `_FRAGMENT_ROWS` together.

        Yields:
            ``(piece, numbers, rows)``: the file with these row groups alone, their numbers, and the
            rows that they hold; what is no Parquet file is one part without numbers.
        """
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
        if not self.unread:
            return self.piece.subset(row_group_ids=numbers)
        # A subset would be taken of a footer, which would be read.
        return copy_of(self.piece, numbers)
