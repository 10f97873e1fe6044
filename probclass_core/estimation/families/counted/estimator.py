"""Categories and numbers in bins, each alone or given other columns, from counts of cells.

Without given columns it is Laplace's rule: Zaki and Meira, *Data Mining and Machine Learning*, ch.
18.2: f(v | c) = (n_c(v) + α_v) / (n_c + Σα) (eq. 18.17 and 18.18 of the authors' earlier draft of
the chapter). With one given column per block these are tree-augmented networks (Friedman, Geiger
and Goldszmidt, "Bayesian network classifiers", 1997), with k of them k-dependence classifiers
(Sahami, "Learning limited dependence Bayesian classifiers", 1996). See `chain` for the estimate.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.arrow import arrays
from probclass_core.arrow.arrays import BoolArray, FloatArray, IntArray
from probclass_core.arrow.rows import Rows
from probclass_core.arrow.types import is_number_type
from probclass_core.errors import SpecError, StoreError, one_of
from probclass_core.estimation import tidy
from probclass_core.estimation.contract import Estimator, Likelihood
from probclass_core.estimation.evidence import dirichlet_categorical
from probclass_core.estimation.families import scarce
from probclass_core.estimation.families.counted.chain import (
    CellCounts,
    Chain,
    CountedLikelihood,
    Prior,
    best_shared_strength,
)
from probclass_core.estimation.families.counted.cuts import cut_points, parse_cuts
from probclass_core.estimation.families.counted.encoder import Encoder, LabeledCells
from probclass_core.estimation.families.counted.options import (
    CategoricalOptions,
    ConditionalOptions,
    CountedOptions,
    DiscretizedOptions,
)
from probclass_core.estimation.histogram import Histogram
from probclass_core.estimation.kinds.cells import Cells, bin_names, given_title
from probclass_core.estimation.kinds.grids import ColumnCounts, ColumnGrid, Grids
from probclass_core.estimation.options import (
    CATEGORIES,
    NUMBERS,
    ColumnTypes,
    OptionPath,
    require_types,
)

_MOST_CELLS = 65_536
"""Cells of a column, classes times values, up to which parameters list all of them."""


class _Parts(NamedTuple):
    """Statistics of parts: the cells of each column that is counted in cells, and the grids."""

    cells: Sequence[LabeledCells]
    grids: Sequence[pa.Table]

    def without(self, part: int) -> _Parts:
        """The statistics of the other parts."""
        cells = [of_column.without(part) for of_column in self.cells]
        return _Parts(cells, [*self.grids[:part], *self.grids[part + 1 :]])


@dataclass(frozen=True)
class _Counted:
    """Counts of one column with those that it is given.

    Attributes:
        encoders: the column, then the given ones; only the column after a first pass.
        counts: of all rows, null included.
        notes: sentences about the counts.
    """

    encoders: Sequence[Encoder]
    counts: CellCounts
    notes: Sequence[str] = ()

    def lacking(self, classes: int) -> BoolArray:
        """The classes without a value of the column, ``(k,)``."""
        known = self.counts.codes[0] != self.encoders[0].null
        lacking: BoolArray = np.bincount(self.counts.classes[known], minlength=classes) == 0
        return lacking


class Counted(Estimator):
    """Columns that are independent given the class and other columns, from counts of their cells.

    Given numbers are cut into bins, integers included. Numbers whose cuts are not declared are
    counted on a grid and cut by the classes; if columns are given, that is a first pass over the
    rows, and the second one counts combinations. With statistics of the first pass only, the
    columns are given nothing.

    Statistics: class, feature, value (text), "given …", count (Σ w); see `Cells`. Of numbers whose
    cuts are not declared, those of `Grids`; see `ColumnCounts`.
    Parameters: class, feature, value (text), count, log_probability; of numbers given nothing bin
    (from 0), lower and upper (lower ≤ x < upper; null for the bin of null) in place of value. With
    given columns also "given …" and depth (number of given columns that the row knows; the others
    are null); one row per combination that occurs. Without given columns a class has every value;
    but if a column has more than 65,536 cells, classes times values, and fewer than half of them
    have a count, only these are listed, and the column is in the note ``sparse``. The values of
    each column are in the notes.

    Args:
        features: the columns to model.
        given: the columns that they are given, the one that tells most first.
        options: of the block.

    Raises:
        SpecError: if the estimator cannot model the type of a column, or an option is unknown or
            out of bounds.
    """

    factorizes = True
    children: ClassVar[ColumnTypes]
    """Types of the columns to model; numbers are cut into bins."""
    options: CountedOptions

    def __init__(self, features: pa.Schema, given: pa.Schema, options: Mapping[str, Any]) -> None:
        super().__init__(pa.schema([*features, *given]), options)
        self.inputs, self.features, self.given = self.features, features, given
        require_types(self.name, features, self.children.accepts, self.children.description)
        either = "numbers and categories (text, bool, integers)"
        require_types(
            self.name, given, lambda kind: NUMBERS.accepts(kind) or CATEGORIES.accepts(kind), either
        )
        self.models_nulls = self.options.missing == "level"
        self._check_columns()
        cuts, names = self.options.cuts, features.names
        uncut = [name for name in self.inputs.names if self._is_cut(name) and name not in cuts]
        counted = [name for name in names if name not in uncut]
        cells = Cells(counted, [] if uncut else given.names, cuts, self.models_nulls)
        with_nulls = [name for name in uncut if name in names and self.models_nulls]
        self._kind = ColumnCounts(cells, Grids(uncut, self.options.cells, with_nulls))
        self._has_bounds = self.children is NUMBERS and not given.names

    def _check_columns(self) -> None:
        for column in self.options.domain:
            if column in self.given.names:
                raise SpecError(
                    f"{self.name}: domain names column {column!r}, which is given; declare "
                    f"domains of {one_of(self.features.names)} only."
                )
            if self._is_cut(column):
                raise SpecError(
                    f"{self.name}: domain names column {column!r}, whose numbers are cut into "
                    "bins; declare its cuts instead."
                )
        for column in self.options.cuts:
            kind = self.inputs.field(column).type
            if not NUMBERS.accepts(kind):
                raise SpecError(f"{self.name}: cuts names column {column!r}, which is {kind}.")

    def _is_cut(self, column: str) -> bool:
        """Whether a column is cut into bins: given numbers always are."""
        if column in self.options.cuts:
            return True
        if column in self.features.names:
            return self.children is NUMBERS
        return is_number_type(self.inputs.field(column).type)

    @property
    def kind(self) -> ColumnCounts:
        return self._kind

    def refine(self, statistics: pa.Table, classes: pa.Array) -> Mapping[str, Any] | None:
        if not self.kind.grids.columns or not self.given.names:
            return None
        _, numbers = self.kind.apart([statistics])
        found = self.kind.grids.read(numbers, classes)
        cuts = {name: self._cuts(histogram) for name, histogram, _ in found}
        return {"cuts": {**self.options.cuts, **cuts}}

    def _read(self, parts: Sequence[pa.Table]) -> _Parts:
        cells, grids = self.kind.apart(parts)
        return _Parts([*LabeledCells.by_column(cells, self.kind.cells)] if cells else [], grids)

    def _counted(self, parts: _Parts, classes: pa.Array) -> Iterator[_Counted]:
        """Each column with its counts in all parts."""
        found = {}
        if parts.grids:
            for column in self.kind.grids.read(parts.grids, classes):
                if column.name in self.features.names:
                    found[column.name] = self._binned(column)
        given = [
            self._values_of(name, ChainMap(*(of.seen(place) for of in parts.cells)))
            for place, name in enumerate(self.kind.cells.given, 1)
        ]
        for name, cells in zip(self.kind.cells.columns, parts.cells, strict=True):
            encoders = [self._values_of(name, cells.seen(0)), *given]
            counts = CellCounts(cells.by(encoders), cells.of_class(classes), cells.counts)
            found[name] = _Counted(encoders, counts)
        return (found[name] for name in self.features.names)

    def _values_of(self, name: str, seen: Mapping[str | None, float]) -> Encoder:
        """The values of a column, from the labels of its cells, each with its count."""
        cuts, is_given = self.options.cuts.get(name), name in self.given.names
        known = {label: count for label, count in seen.items() if label is not None}
        values: Sequence[str] = []
        if cuts is not None:
            values = bin_names(cuts) if seen or is_given else []
        else:
            values = sorted(known) if is_given else self.options.domain_of(name, known)
        nulls = [None] if self.models_nulls and None in seen else []
        return self._encoder(name, [*values, *nulls], cuts)

    def _encoder(
        self, name: str, values: Sequence[str | None], cuts: Sequence[float] | None
    ) -> Encoder:
        return Encoder(name, values, cuts, models_nulls=self.models_nulls)

    def _binned(self, column: ColumnGrid) -> _Counted:
        """The counts of a column of numbers whose cuts are computed from its histogram."""
        name, histogram, nulls = column
        cuts = self._cuts(histogram)
        has_nulls = bool(nulls.any())
        values: list[str | None] = []
        if has_nulls or len(histogram.values):
            values = [*bin_names(cuts), *([None] if has_nulls else [])]
        row, cell = np.nonzero(histogram.counts)
        bins = np.searchsorted(cuts, histogram.values[cell], side="right")
        without = np.flatnonzero(nulls)
        counts = CellCounts(
            np.append(bins, np.full(len(without), len(cuts) + 1))[None],
            np.append(row, without),
            np.append(histogram.counts[row, cell], nulls[without]),
        )
        encoder = self._encoder(name, values, cuts)
        notes = [] if self.given.names else self._rounded(name, histogram)
        return _Counted([encoder], counts, notes)

    def _cuts(self, cells: Histogram) -> list[float]:
        return cut_points(cells, self.options.method, self.options.bins, self.row_weight)

    def _rounded(self, feature: str, cells: Histogram) -> list[str]:
        """A sentence about integers that float64 does not tell apart."""
        is_integer = pa.types.is_integer(self.features.field(feature).type)
        if not is_integer or np.abs(cells.values).max(initial=0.0) < 2.0**53:
            return []
        found = f"column {feature!r} has integers beyond 2⁵³, which float64 rounds"
        fix = "subtract a constant, or cast it to text and use categorical, if they matter"
        return [f"{found}: {self.name} does not see small differences; {fix}."]

    def finalize(self, statistics: pa.Table, classes: pa.Array) -> pa.Table:
        notes: list[str] = []
        chains: dict[str, Chain] = {}
        lacking: dict[str, BoolArray] = {}
        for counted in self._counted(self._read([statistics]), classes):
            chain = self._chain(counted, len(classes))
            chains[chain.name] = chain
            notes += counted.notes
            if chain.encoders[0].values:
                lacking[chain.name] = counted.lacking(len(classes))
        notes += scarce.without_values([name for name in chains if name not in lacking])
        if lacking:
            mass = sum(chains[name].prior.mass for name in lacking)
            notes += scarce.pooled_unless(
                mass, [*lacking], classes, np.column_stack([*lacking.values()])
            )
        tables = [table for chain in chains.values() for table in self._tables(chain, classes)]
        encoders = {of.name: of for chain in chains.values() for of in chain.encoders}
        sparse = [name for name, chain in chains.items() if _is_sparse(chain.counts_of_values)]
        return self.annotate(
            pa.concat_tables(tables).combine_chunks(),
            scarce=notes,
            given=self.kind.cells.given,
            values={name: list(of.values) for name, of in encoders.items()},
            cuts={name: of.cuts for name, of in encoders.items() if of.cuts is not None},
            strengths={name: chain.prior.all_strengths for name, chain in chains.items()},
            **({"sparse": sparse} if sparse else {}),
        )

    def fit_without(
        self, parts: Sequence[pa.Table], left_out: Mapping[int, pa.Array]
    ) -> Iterator[Likelihood]:
        """See `Estimator.fit_without`. The labels of all parts are read once.

        No tables are made, unless a scarce estimate is to be an error.
        """
        if self.on_scarce == "error":
            yield from super().fit_without(parts, left_out)
            return
        read = self._read(parts)
        for part, classes in left_out.items():
            counted = [*self._counted(read.without(part), classes)]
            chains = [self._chain(each, len(classes)) for each in counted]
            yield CountedLikelihood(chains, counted[0].encoders[1:], len(classes), self.options)

    def _chain(self, counted: _Counted, classes: int) -> Chain:
        """The estimate of a column, without values if no class has any and there is no prior."""
        (own, *given), strength = counted.encoders, self.options.strength
        cells = counted.counts.by_depth(counted.encoders, classes)
        counts = np.zeros((classes, len(own.values)))
        counts[cells[0].classes, cells[0].codes[0]] = cells[0].counts
        prior = self._prior(own, counts)
        if not (counts.any() or prior.alpha.any()):
            own = replace(own, values=[])
            prior = self._prior(own, counts[:, :0])
        elif not prior.mass:
            absent = counts.sum(axis=1) == 0.0
            counts = np.where(absent[:, None], counts.sum(axis=0), counts)
            row, code = np.nonzero(counts)
            cells[0] = CellCounts(code[None], row, counts[row, code])
        chain = of_rows = Chain([own, *given], cells, classes, prior)
        if self.row_weight != 1.0 and isinstance(strength, str):
            in_rows = [replace(each, counts=each.counts / self.row_weight) for each in cells]
            of_rows = Chain([own, *given], in_rows, classes, prior)
        for depth in range(1, len(cells)):
            chosen = of_rows.best_strength(depth) if isinstance(strength, str) else strength
            prior.strengths.append(chosen)
        return chain

    def _prior(self, own: Encoder, counts: FloatArray) -> Prior:
        """The prior of a column, from its counts by class and value ``(k, m)``; no strengths."""
        options = self.options
        alpha, shared = options.alpha_of(own.name, own.values), options.shared_strength
        if isinstance(shared, str):
            shared = best_shared_strength(counts, alpha, self.row_weight)
        zeros = options.smooth == "zeros"
        return Prior(alpha, shared, [], zeros, options.window)

    def _tables(self, chain: Chain, classes: pa.Array) -> Iterator[pa.Table]:
        """Parameters of a column: a table for each number of given columns."""
        own, *given = chain.encoders
        counts = chain.counts_of_values
        row, code = np.nonzero((counts > 0.0) | (not _is_sparse(counts)))
        listed = CellCounts(code[None], row, counts[row, code])
        for depth, cells in enumerate([listed, *chain.deeper]):
            columns = {
                "class": classes.take(pa.array(cells.classes)),
                "feature": pa.repeat(pa.scalar(own.name, pa.string()), len(cells.counts)),
                **self._described(own, cells.codes[0]),
            }
            for place, encoder in enumerate(given, 1):
                texts = pa.nulls(len(cells.counts), pa.string())
                if place <= depth:
                    values = pa.array(encoder.values, pa.string())
                    texts = values.take(pa.array(cells.codes[place]))
                columns[given_title(encoder.name)] = texts
            if self.given.names:
                columns["depth"] = np.full(len(cells.counts), depth)
            logs = chain.of_classes(cells.codes, cells.classes)
            yield pa.table({**columns, "count": cells.counts, "log_probability": logs})

    def _described(self, encoder: Encoder, codes: IntArray) -> dict[str, Any]:
        """Values of a column in parameters: their text, or the bins of numbers given nothing."""
        if not self._has_bounds:
            values = pa.array(encoder.values, pa.string())
            return {"value": values.take(pa.array(codes))}
        bounds = encoder.bounds.take(codes, axis=1)
        lower, upper = (pa.array(bound, from_pandas=True) for bound in bounds)  # NaN is null
        return {"bin": codes, "lower": lower, "upper": upper}

    def check_parameters(self, parameters: pa.Table, classes: pa.Array) -> None:
        """Refuse a table that is not made of its counts and notes again."""
        notes = tidy.notes_of(parameters)
        tidy.check_notes(notes["strengths"], "strengths", tidy.NOT_NEGATIVE)
        parse_cuts(OptionPath(self.name, "note 'cuts'", self.inputs.names), notes["cuts"])
        if notes["given"] not in ([], self.given.names):
            raise StoreError(f"the columns that its notes say are given are {notes['given']}.")
        for name, values in notes["values"].items():
            if len({*values}) < len(values):
                raise StoreError(f"a value of column {name!r} is twice in its notes.")
        for name, found in notes["strengths"].items():
            if notes["values"][name] and len(found) - len(notes["given"]) not in (0, 1):
                raise StoreError(f"the strengths of column {name!r} in its notes are {found!r}.")
        tidy.COUNT.check("count", parameters["count"])
        chains, _ = self._chains(parameters, classes)
        tables = [table for chain in chains for table in self._tables(chain, classes)]
        tidy.check_same(
            parameters,
            pa.concat_tables(tables),
            infinite=["lower", "upper", "log_probability"],
            differs="is not what the counts and the notes give",
        )

    def likelihood(self, parameters: pa.Table, classes: pa.Array) -> CountedLikelihood:
        chains, given = self._chains(parameters, classes)
        return CountedLikelihood(chains, given, len(classes), self.options)

    def _chains(
        self, parameters: pa.Table, classes: pa.Array
    ) -> tuple[list[Chain], Sequence[Encoder]]:
        """The estimates of the columns, and the given columns."""
        notes = tidy.notes_of(parameters)
        encoders = {
            name: self._encoder(name, values, notes["cuts"].get(name))
            for name, values in notes["values"].items()
        }
        given = [encoders[name] for name in notes["given"]]
        chains = []
        for name, table in tidy.by_feature(parameters, self.features.names):
            own, strengths = encoders[name], notes["strengths"][name]
            shared = strengths[0] if len(strengths) > len(given) else None
            prior = replace(
                self._prior(own, np.zeros((0, len(own.values)))),
                shared=shared,
                strengths=strengths[len(strengths) - len(given) :],
            )
            cells = [*self._cells_of(table, own, given, classes)]
            chains.append(Chain([own, *given], cells, len(classes), prior))
        return chains, given

    def _cells_of(
        self, table: pa.Table, own: Encoder, given: Sequence[Encoder], classes: pa.Array
    ) -> Iterator[CellCounts]:
        """The cells of each depth of a column, from its table of parameters."""
        for depth in range(len(given) + 1):
            part = table.filter(pc.equal(table["depth"], depth)) if self.given.names else table
            codes = part["bin"].to_numpy() if self._has_bounds else own.of_labels(part["value"])
            of_given = [of.of_labels(part[given_title(of.name)]) for of in given[:depth]]
            of_class = arrays.label_codes(part["class"], classes)
            yield CellCounts(np.stack([codes, *of_given]), of_class, part["count"].to_numpy())

    def leave_one_out(
        self,
        statistics: pa.Table,
        likelihood: CountedLikelihood,
        classes: pa.Array,
        rows: Rows,
        truth: IntArray,
        weights: FloatArray | None,
    ) -> FloatArray:
        """See `LeaveOneOut`. Cuts, domains, strengths and p(x) remain those of all rows."""
        result = likelihood.log_likelihood(rows)
        result[np.arange(len(rows)), truth] = likelihood.left_out(rows, truth, weights)
        return result


def _is_sparse(counts: FloatArray) -> bool:
    """Whether parameters list only the cells with a count."""
    return counts.size > _MOST_CELLS and 2 * int(np.count_nonzero(counts)) < counts.size


class _Alone(Counted):
    """Columns given nothing."""

    def __init__(self, features: pa.Schema, options: Mapping[str, Any]) -> None:
        super().__init__(features, pa.schema([]), options)


class Categorical(_Alone):
    """Independent categorical features given the class; see `Counted`."""

    name: ClassVar[str] = "categorical"
    models = children = CATEGORIES
    Options = CategoricalOptions

    def log_evidence(self, statistics: pa.Table) -> float:
        """Dirichlet–categorical of each column: the pseudo-counts are the prior.

        Declare domains to compare evidences of different rows, which may contain different values.

        Raises:
            NotSupportedError: if the options are not those of such a prior.
        """
        self.options.check_prior(self.features.names)
        classes = arrays.sorted_classes(statistics["class"])
        total = 0.0
        for counted in self._counted(self._read([statistics]), classes):
            (own,), cells = counted.encoders, counted.counts
            counts = np.zeros((len(classes), own.size))
            np.add.at(counts, (cells.classes, cells.codes[0]), cells.counts)
            alpha = self.options.alpha_of(own.name, own.values)
            total += float(dirichlet_categorical(counts[:, : len(alpha)], alpha).sum())
        return total


class Discretized(_Alone):
    """Independent binned numbers given the class; see `Counted`."""

    name: ClassVar[str] = "discretized"
    models = children = NUMBERS
    Options = DiscretizedOptions


class ConditionalCategorical(Counted):
    """Categories given other columns; see `Counted`."""

    passes = 2
    name: ClassVar[str] = "categorical"
    children = CATEGORIES
    Options = ConditionalOptions


class ConditionalDiscretized(Counted):
    """Binned numbers given other columns; see `Counted`."""

    passes = 2
    name: ClassVar[str] = "discretized"
    children = NUMBERS
    Options = ConditionalOptions
