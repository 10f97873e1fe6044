"""Cells of parts as their tables name them: the labels are read once, and parts left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from probclass_core.arrow.arrays import (
    MISSING,
    FloatArray,
    IntArray,
    encoded,
    label_codes,
    sorted_classes,
)
from probclass_core.estimation.families.counted.encoder import Encoder
from probclass_core.estimation.kinds.cells import Cells
from probclass_core.estimation.tidy import by_feature


@dataclass(frozen=True)
class LabeledCells:
    """The cells of a column, and those of the columns that it is given, in the tables of parts.

    Attributes:
        classes: those of all cells, ascending.
        labels: different labels of the column and of each given one, None for null.
        codes: positions of the class and of the labels, ``(2 + d, n)``.
        counts: Σ w, ``(n,)``.
        part: number of the part, ``(n,)``.
    """

    classes: pa.Array
    labels: Sequence[Sequence[str | None]]
    codes: IntArray
    counts: FloatArray
    part: IntArray

    @classmethod
    def by_column(cls, parts: Sequence[pa.Table], kind: Cells) -> Iterator[LabeledCells]:
        """The cells of each column.

        Args:
            parts: tables of this kind.
            kind: its columns.
        """
        part = np.repeat(np.arange(len(parts)), list(map(len, parts)))
        cells = pa.concat_tables(parts).append_column("part", pa.array(part))
        classes = sorted_classes(cells["class"])
        for _, rows in by_feature(cells, kind.columns):
            labels: list[Sequence[str | None]] = []
            codes = [label_codes(rows["class"], classes)]
            for title in kind.keys[2:]:
                found, texts = encoded(rows[title])
                codes.append(np.where(found == MISSING, len(texts), found))
                labels.append([*texts, None])
            counts, part = rows["count"].to_numpy(), rows["part"].to_numpy()
            yield cls(classes, labels, np.stack(codes), counts, part)

    def without(self, part: int) -> LabeledCells:
        """The cells of the other parts."""
        others = self.part != part
        codes, counts = self.codes[:, others], self.counts[others]
        return replace(self, codes=codes, counts=counts, part=self.part[others])

    def of_class(self, classes: pa.Array) -> IntArray:
        """Position of the class of each cell among the classes, ``(n,)``."""
        positions: IntArray = label_codes(self.classes, classes)[self.codes[0]]
        return positions

    def seen(self, place: int) -> dict[str | None, float]:
        """The labels that cells have, each with its count; of the column, or of a given one."""
        codes, labels = self.codes[1 + place], self.labels[place]
        sums = np.bincount(codes, self.counts, len(labels))
        present = np.flatnonzero(np.bincount(codes, minlength=len(labels)))
        return {labels[code]: float(sums[code]) for code in present.tolist()}

    def known(self, place: int) -> dict[str, float]:
        """`seen`, without null."""
        return {label: count for label, count in self.seen(place).items() if label is not None}

    def by(self, encoders: Sequence[Encoder]) -> IntArray:
        """Codes of the column and of the given ones, ``(1 + d, n)``."""
        each = zip(encoders, self.labels, self.codes[1:], strict=True)
        return np.stack([encoder.of_texts(texts)[code] for encoder, texts, code in each])
