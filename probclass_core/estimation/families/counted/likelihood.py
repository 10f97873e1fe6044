"""The likelihood of counted cells: the sum over columns of the log probability of their values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from probclass_core.arrow.arrays import FloatArray, IntArray, add_looked_up
from probclass_core.arrow.rows import Rows
from probclass_core.errors import NotSupportedError, one_of
from probclass_core.estimation import marginals
from probclass_core.estimation.families.counted.chain import Chain
from probclass_core.estimation.families.counted.encoder import Encoder
from probclass_core.estimation.families.counted.options import CountedOptions
from probclass_core.estimation.formulas import Formula


class CountedLikelihood:
    """log p(x | z, c).

    Args:
        chains: the estimates of the columns, those without values included.
        given: the given columns.
        classes: number of classes.
        options: options of the block.
    """

    normalized = True

    def __init__(
        self,
        chains: Sequence[Chain],
        given: Sequence[Encoder],
        classes: int,
        options: CountedOptions,
    ) -> None:
        self.columns = [chain.name for chain in chains]
        self.chains = {chain.name: chain for chain in chains if chain.encoders[0].values}
        self.given, self.classes, self.options = given, classes, options

    def log_likelihood(self, rows: Rows) -> FloatArray:
        result = np.zeros((self.classes, len(rows)))
        for chain, codes in self._coded(rows):
            if chain.table is not None:
                add_looked_up(result, chain.table, chain.cells(codes))
            else:
                result += chain.log_probability(codes)
        return result.T

    def log_factors(self, rows: Rows) -> Iterator[FloatArray]:
        factors = {of.name: of.log_probability(codes).T for of, codes in self._coded(rows)}
        nothing = np.zeros((len(rows), self.classes))
        return (factors.get(name, nothing) for name in self.columns)

    def marginal(self, column: str) -> marginals.Levels | None:
        """Probabilities without the given columns; of a given column, its frequencies."""
        chain = self.chains.get(column)
        if chain is not None:
            encoder, *given = chain.encoders
            size = len(encoder.values)
            # The code of a null that is no value leaves the given columns out.
            codes = [np.arange(size), *(np.full(size, of.null) for of in given)]
            probability = np.exp(chain.log_probability(codes)).T
        else:
            found = next((of for of in self.given if of.name == column), None)
            if found is None or not found.values:
                return None  # training saw no value
            encoder = found
            counts = self._counts_given(encoder)[: len(encoder.values)]
            totals = counts.sum(axis=0)
            probability = np.divide(counts, totals, out=np.zeros_like(counts), where=totals > 0.0)
        if encoder.cuts is None:
            return marginals.Levels(encoder.values, probability)
        missing = probability[-1] if None in encoder.values else None
        return marginals.bins(np.array(encoder.cuts), probability[: len(encoder.known)], missing)

    def _counts_given(self, encoder: Encoder) -> FloatArray:
        """Counts of a given column, by code and class, of the rows of all columns."""
        depth = 1 + [of.name for of in self.given].index(encoder.name)
        counts = np.zeros((encoder.size, self.classes))
        for chain in self.chains.values():
            cells = chain.deeper[depth - 1]
            np.add.at(counts, (cells.codes[depth], cells.classes), cells.counts)
        return counts

    def formula(self) -> Formula:
        terms, refused = [], []
        for chain in self.chains.values():
            lookup, own = chain.lookup(self.options.unseen), chain.encoders[0]
            if lookup is None:
                raise NotSupportedError(
                    f"column {own.name!r} given {one_of([of.name for of in self.given])} has too "
                    "many combinations of values for a table to look up; give it fewer columns."
                )
            terms.append(lookup)
            refused += own.refused(self.options.unseen)
        return Formula(terms, refused)

    @property
    def cuts(self) -> dict[str, Sequence[float]]:
        encoders = {name: chain.encoders[0] for name, chain in self.chains.items()}
        return {name: of.cuts for name, of in encoders.items() if of.cuts is not None}

    @property
    def cell_log_likelihood(self) -> FloatArray | None:
        chains = [*self.chains.values()]
        return chains[0].table if len(chains) == 1 else None

    def cells(self, rows: Rows) -> IntArray:
        ((chain, codes),) = self._coded(rows)
        return chain.cells(codes)

    def left_out(self, rows: Rows, truth: IntArray, weights: FloatArray | None) -> FloatArray:
        """log p(x | z, own class) of rows as if each had been left out, ``(n,)``."""
        result = np.zeros(len(rows))
        for chain, codes in self._coded(rows):
            result += chain.of_classes(codes, truth, 1.0 if weights is None else weights)
        return result

    def _coded(self, rows: Rows) -> Iterator[tuple[Chain, Sequence[IntArray]]]:
        given = [encoder.of_rows(rows, "pseudo_count") for encoder in self.given]
        for chain in self.chains.values():
            yield chain, [chain.encoders[0].of_rows(rows, self.options.unseen), *given]
