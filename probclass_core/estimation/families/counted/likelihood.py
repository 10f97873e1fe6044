"""The likelihood of counted cells: the sum over columns of the log probability of their values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.arrow.arrays import FloatArray, IntArray, add_looked_up, label_codes
from probclass_core.arrow.rows import Rows
from probclass_core.errors import NotSupportedError, one_of
from probclass_core.estimation import marginals
from probclass_core.estimation.families.counted.chain import CellCounts, Chain, Prior
from probclass_core.estimation.families.counted.encoder import Encoder
from probclass_core.estimation.families.counted.options import CountedOptions
from probclass_core.estimation.formulas import Formula
from probclass_core.estimation.kinds.cells import given_title
from probclass_core.estimation.tidy import by_feature, notes_of


class CountedLikelihood:
    """log p(x | z, c).

    Args:
        parameters: of `Counted`.
        classes: ``k`` labels.
        options: options of the block.

    Attributes:
        given: the given columns.
        chains: the estimate of each column; of one without values None.
    """

    normalized = True

    def __init__(self, parameters: pa.Table, classes: pa.Array, options: CountedOptions) -> None:
        notes = notes_of(parameters)
        self.options = options
        self.classes = len(classes)
        encoders = {
            name: Encoder(name, values, notes["cuts"].get(name), options.missing == "level")
            for name, values in notes["values"].items()
        }
        self.given = [encoders[name] for name in notes["given"]]
        self.chains: dict[str, Chain | None] = {}
        self._given_counts = {of.name: np.zeros((of.size, len(classes))) for of in self.given}
        for name, table in by_feature(parameters, notes["features"]):
            own, cells = encoders[name], []
            for depth in range(len(self.given) + 1):
                part = table.filter(pc.equal(table["depth"], depth)) if self.given else table
                before = self.given[:depth]
                given = [of.of_labels(part[given_title(of.name)]) for of in before]
                of_class, counts = label_codes(part["class"], classes), part["count"].to_numpy()
                codes = part["bin"].to_numpy() if "bin" in part.column_names else None
                if codes is None:
                    codes = own.of_labels(part["value"])
                cells.append(CellCounts(np.stack([codes, *given]), of_class, counts))
                if depth:
                    np.add.at(self._given_counts[before[-1].name], (given[-1], of_class), counts)
            strengths = notes["strengths"][name]
            self.chains[name] = None
            if own.values:
                shared = strengths[0] if len(strengths) > len(self.given) else None
                prior = Prior(
                    options.alpha_of(name, own.values),
                    shared,
                    strengths[len(strengths) - len(self.given) :],
                    options.back_off == "uniform",
                    options.smooth == "zeros",
                    np.ones(len(own.values), np.bool_),
                )
                self.chains[name] = Chain([own, *self.given], cells, len(classes), prior)

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
        return (factors.get(name, nothing) for name in self.chains)

    def marginal(self, column: str) -> marginals.Levels | None:
        """Probabilities without the given columns; of a given column, its frequencies."""
        chain = self.chains.get(column)
        if chain is not None:
            encoder, *given = chain.encoders
            size = len(encoder.values)
            # The code of a null that is no value leaves the given columns out.
            codes = [np.arange(size), *(np.full(size, of.null) for of in given)]
            probability = np.exp(chain.log_probability(codes)).T
        elif column in self._given_counts:
            (encoder,) = (of for of in self.given if of.name == column)
            counts = self._given_counts[column][: len(encoder.values)]
            totals = counts.sum(axis=0)
            probability = np.divide(counts, totals, out=np.zeros_like(counts), where=totals > 0.0)
        if (column in self.chains and chain is None) or not encoder.values:
            return None  # training saw no value
        if encoder.cuts is None:
            return marginals.Levels(encoder.values, probability)
        missing = probability[-1] if None in encoder.values else None
        return marginals.bins(np.array(encoder.cuts), probability[: len(encoder.known)], missing)

    def formula(self) -> Formula:
        terms, refused = [], []
        for chain in filter(None, self.chains.values()):
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
        encoders = {name: chain.encoders[0] for name, chain in self.chains.items() if chain}
        return {name: of.cuts for name, of in encoders.items() if of.cuts is not None}

    @property
    def cell_log_likelihood(self) -> FloatArray | None:
        chains = list(filter(None, self.chains.values()))
        return chains[0].table if len(chains) == 1 else None

    def cells(self, rows: Rows) -> IntArray:
        ((chain, codes),) = self._coded(rows)
        return chain.cells(codes)

    def left_out(self, rows: Rows, truth: IntArray, weights: FloatArray | None) -> FloatArray:
        """log p(x | z, own class) of rows as if each had been left out, ``(n,)``."""
        result = np.zeros(len(rows))
        for chain, codes in self._coded(rows):
            result += chain.of_class(codes, truth, 1.0 if weights is None else weights)
        return result

    def _coded(self, rows: Rows) -> Iterator[tuple[Chain, Sequence[IntArray]]]:
        given = [encoder.of_rows(rows, "pseudo_count") for encoder in self.given]
        for chain in filter(None, self.chains.values()):
            yield chain, [chain.encoders[0].of_rows(rows, self.options.unseen), *given]
