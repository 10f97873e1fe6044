"""Codes of columns: of the rows of a batch, and of the cells that tables of statistics name."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from probclass_core.arrow import arrays
from probclass_core.arrow.arrays import FloatArray, IntArray
from probclass_core.arrow.rows import Rows
from probclass_core.estimation import formulas
from probclass_core.estimation.kinds.cells import Cells
from probclass_core.estimation.tidy import by_feature


@dataclass(frozen=True)
class Encoder:
    """The values that a column can take: categories, or bins of numbers.

    Codes are positions among the values; then follow that of a null which is no value and that of
    an unseen value.

    Attributes:
        name: the column.
        values: ``m`` categories, or names of bins; last None for null, if it is a value.
        cuts: cuts between the bins, ascending; None for categories.
        models_nulls: whether null is a value, even if training saw none.
    """

    name: str
    values: Sequence[str | None]
    cuts: Sequence[float] | None
    models_nulls: bool

    @property
    def null(self) -> int:
        """Code of a null that is not a value."""
        return len(self.values)

    @property
    def unseen(self) -> int:
        """Code of an unseen value; that of null if training saw no value."""
        return len(self.values) + bool(self.values)

    @property
    def size(self) -> int:
        """Number of codes."""
        return self.unseen + 1

    @cached_property
    def known(self) -> Sequence[str | None]:
        """The values without null."""
        return self.values[:-1] if None in self.values else self.values

    @property
    def bounds(self) -> FloatArray:
        """Lower and upper bound of each bin, ``(2, m)``; NaN for that of null."""
        edges = np.array([-np.inf, *(self.cuts or []), np.inf])
        nulls = np.full((2, len(self.values) - len(self.known)), np.nan)
        return np.concatenate([np.stack([edges[:-1], edges[1:]]), nulls], axis=1)

    def shares(self, window: int) -> FloatArray:
        """The share of a row that the bins around its own get, ``(2 · window − 1, size)``.

        The row in the middle is that of its own bin; all of a category or null stays there. Shares
        fall linearly with the distance and sum to 1: counts are those of bins ``window`` times as
        wide, averaged over where these may begin (Scott, "Averaged shifted histograms", Annals of
        Statistics 13, 1985).
        """
        steps = np.arange(1 - window, window)[:, None]
        bins = 0 if self.cuts is None else len(self.known)
        nearby = np.arange(bins) + steps
        shares: FloatArray = np.zeros((len(steps), self.size))
        shares[window - 1] = 1.0
        shares[:, :bins] = (1.0 - abs(steps) / window) * ((nearby >= 0) & (nearby < bins))
        shares /= shares.sum(axis=0)
        return shares

    def of_labels(self, labels: pa.ChunkedArray) -> IntArray:
        """Codes of values as tables name them, ``(n,)``."""
        codes = arrays.label_codes(labels, pa.array(self.values, pa.string()))
        return np.where(codes == arrays.MISSING, self.null, codes)

    def of_texts(self, texts: Sequence[str | None]) -> IntArray:
        """`of_labels` of a list."""
        code = {value: place for place, value in enumerate(self.values)}
        return np.array([code.get(text, self.null) for text in texts], np.intp)

    def of_rows(self, rows: Rows, unseen: str) -> IntArray:
        """Codes of the column, ``(n,)``.

        Args:
            rows: ``n`` rows.
            unseen: what to do about unseen values: ``"ignore"`` treats them as null.
        """
        return rows.once(self.name, (self._key, unseen), lambda: self._of_rows(rows, unseen))

    @cached_property
    def _key(self) -> Hashable:
        cuts = None if self.cuts is None else tuple(self.cuts)
        return tuple(self.values), cuts, self.models_nulls

    def code(self) -> formulas.Code:
        """What gives the position of a value in a formula; see `codes_of`."""
        if self.cuts is not None:
            return formulas.Bins(self.name, list(self.cuts))
        return formulas.Categories(self.name, [str(value) for value in self.known])

    def codes_of(self, unseen: str) -> IntArray:
        """The code of each position that `code` gives; ``unseen`` as in `of_rows`."""
        code_of_unseen = self.null if unseen == "ignore" else self.unseen
        null = self.null
        if self.models_nulls:
            null = len(self.known) if None in self.values else code_of_unseen
        between = [] if self.cuts is not None else [code_of_unseen]
        return np.array([*range(len(self.known)), *between, null])

    @property
    def _lacks_null(self) -> bool:
        """Whether null is a value that training never saw."""
        return self.models_nulls and None not in self.values

    def _of_rows(self, rows: Rows, unseen: str) -> IntArray:
        codes_of = self.codes_of(unseen)
        if self.cuts is not None:
            bins = rows.bins(self.name, self.cuts, len(self.known))
            return codes_of[bins] if self._lacks_null else bins  # which are the codes
        codes, texts = rows.categories(self.name)
        positions = arrays.label_codes(
            pa.array(texts, pa.string()), pa.array(self.known, pa.string())
        )
        positions[positions == arrays.MISSING] = len(self.known)
        result: IntArray = np.append(codes_of[positions], codes_of[-1])[codes]
        return result


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
        classes = arrays.sorted_classes(cells["class"])
        for _, rows in by_feature(cells, kind.columns):
            labels: list[Sequence[str | None]] = []
            codes = [arrays.label_codes(rows["class"], classes)]
            for title in kind.keys[2:]:
                found, texts = arrays.encoded(rows[title])
                codes.append(np.where(found == arrays.MISSING, len(texts), found))
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
        positions: IntArray = arrays.label_codes(self.classes, classes)[self.codes[0]]
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
