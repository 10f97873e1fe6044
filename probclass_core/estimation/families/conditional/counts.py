"""Categories and bins given other columns, from sparse counts of their combinations.

With one given column per block these are tree-augmented networks (Friedman, Geiger and Goldszmidt,
"Bayesian network classifiers", 1997), with k of them k-dependence classifiers (Sahami, "Learning
limited dependence Bayesian classifiers", 1996). Probabilities are smoothed by back-off,
see `chain`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.arrow.arrays import (
    BoolArray,
    FloatArray,
    IntArray,
    category_codes,
    label_codes,
    numbers_rounded_down,
    sorted_classes,
)
from probclass_core.arrow.shared_conversions import converted
from probclass_core.arrow.types import is_number_type
from probclass_core.errors import DataError, NotSupportedError, SpecError, one_of
from probclass_core.estimation import marginals
from probclass_core.estimation.contract import Estimator
from probclass_core.estimation.evidence import dirichlet_categorical
from probclass_core.estimation.families.categorical.cells import CellIndex
from probclass_core.estimation.families.categorical.domains import parse_domain
from probclass_core.estimation.families.conditional.chain import Chain, Levels
from probclass_core.estimation.families.discretized.cuts import bins_of, mdl_cuts, parse_cuts
from probclass_core.estimation.families.left_out import without_row
from probclass_core.estimation.families.scarce import (
    of_other_rows,
    require_counts,
    require_values,
    without_values,
)
from probclass_core.estimation.families.strength import (
    STRENGTH,
    best_shared_strength,
    best_strength,
    parse_strength,
    shared_mean,
    shared_strength_option,
    smoothed,
)
from probclass_core.estimation.formulas import Categories, Formula, IsCode
from probclass_core.estimation.histogram import FEWEST_CELLS, Histogram, histogram
from probclass_core.estimation.marginals import Marginal
from probclass_core.estimation.options import (
    CATEGORIES,
    NUMBERS,
    ColumnTypes,
    EstimatorOptions,
    OptionPath,
    choice,
    number,
    option,
    require_types,
    whole,
)
from probclass_core.estimation.parameters import (
    COUNT,
    LOG_PROBABILITY,
    NOT_NEGATIVE,
    check_notes,
    check_parameters,
    check_row_counts,
)
from probclass_core.estimation.tidy import by_feature, notes_of, sum_counts

MAX_CELLS = 2**22
"""Most rows of statistics: with more combinations of values, nearly every row is one of its own."""


class ConditionalOptions(EstimatorOptions):
    """Options of `ConditionalCategorical` and `ConditionalDiscretized`."""

    strength: float | None = option(
        10.0,
        parse_strength,
        expected=STRENGTH,
        doc="The number of rows that the estimate given one column fewer is worth. 'loo' chooses a "
        "strength for each column and number of given columns, by the likelihood of the training "
        "rows as if each had been left out.",
    )
    back_off: str = choice(
        "given",
        ("given", "uniform"),
        doc="What an estimate is smoothed towards: 'given' the estimate without the last of its "
        "given columns; 'uniform' the same probability of every value, a Dirichlet prior, for "
        "which log evidence has a closed form.",
    )
    pseudo_count: float = number(
        1.0, doc="α of every value, in the estimate that uses no given column."
    )
    shared_strength: float | str | None = shared_strength_option()
    cuts: dict[str, list[float]] = option(
        {},
        parse_cuts,
        expected="a table of lists of ascending numbers, by column",
        doc="Cut points of columns of numbers, given ones included. The others are cut by the "
        "classes, as discretized does by default, in a first pass over the rows.",
    )
    domain: dict[str, list[str]] = option(
        {},
        parse_domain,
        expected="a table of lists of values, by column",
        doc="The values that a column of categories can take; by default those that training saw. "
        "Given columns have none: their unseen values back off.",
    )
    unseen: str = choice(
        "pseudo_count",
        ("pseudo_count", "ignore", "error"),
        doc="A value of a column outside its domain: 'pseudo_count' scores it as a value that no "
        "class showed, 'ignore' as missing, 'error' refuses. An unseen value of a given column "
        "is not an error: the estimate is that given one column fewer.",
    )
    missing: str = choice(
        "marginalize",
        ("marginalize", "level"),
        doc="A null: 'marginalize' leaves a column out of the row; of given columns, it leaves out "
        "the first that is null and those after it. 'level' makes null a value of its own.",
    )
    cells: int = whole(
        4096,
        at_least=FEWEST_CELLS,
        doc="Largest number of distinct values that are counted to cut a column of numbers; more "
        "are counted on a grid.",
    )


@dataclass(frozen=True)
class _Counted:
    """Counts of one column with those that it is given.

    Attributes:
        levels: the column, then the given ones; only the column after a first pass.
        codes: ``(1 + d, n)``.
        classes: ``(n,)``.
        counts: Σ w, ``(n,)``.
    """

    levels: Sequence[Levels]
    codes: IntArray
    classes: IntArray
    counts: FloatArray


class ConditionalCounts(Estimator):
    """Independent columns given other columns and the class, from counts of combinations.

    Given numbers are cut into bins, integers included. If cuts are not given, a first pass counts
    the numbers and the second one the combinations. With statistics of the first pass only, the
    columns are given nothing.

    Statistics: class, feature, value (text), one column "given …" per given column, count (Σ w);
    those of a first pass: class, feature, value, number and width (as `Discretized`), count.
    Parameters: class, feature, value, "given …", depth (number of given columns that the row
    knows; the others are null), count, log_probability; one row per combination that occurs.

    Args:
        features: the columns to model.
        given: the columns that they are given, the one that tells most first.
        options: see `ConditionalOptions`.

    Raises:
        SpecError: if the estimator cannot model the type of a column, or an option is unknown or
            out of bounds.
    """

    children: ClassVar[ColumnTypes]
    """Types of the columns to model."""
    cuts_children: ClassVar[bool]
    """Whether they are cut into bins."""
    Options = ConditionalOptions
    options: ConditionalOptions
    factorizes = True
    passes = 2

    def __init__(self, features: pa.Schema, given: pa.Schema, options: Mapping[str, Any]) -> None:
        super().__init__(pa.schema([*features, *given]), options)
        self.inputs, self.features, self.given = self.features, features, given
        require_types(self.name, features, self.children.accepts, self.children.description)
        either = "numbers and categories (text, bool, integers)"
        require_types(
            self.name, given, lambda kind: NUMBERS.accepts(kind) or CATEGORIES.accepts(kind), either
        )
        self.models_nulls = self.options.missing == "level"
        for column in self.options.domain:
            if column in given.names:
                raise SpecError(
                    f"{self.name}: domain names column {column!r}, which is given; declare "
                    f"domains of {one_of(features.names)} only."
                )
            if self._is_cut(column):
                raise SpecError(
                    f"{self.name}: domain names column {column!r}, whose numbers are cut into "
                    "bins; declare its cuts instead."
                )
        for column in self.options.cuts:
            if not NUMBERS.accepts(self.inputs.field(column).type):
                kind = self.inputs.field(column).type
                raise SpecError(f"{self.name}: cuts names column {column!r}, which is {kind}.")
        self.uncut = [
            name
            for name in self.inputs.names
            if self._is_cut(name) and name not in self.options.cuts
        ]

    def _is_cut(self, column: str) -> bool:
        """Whether a column is cut into bins: given numbers always are."""
        if column in self.options.cuts:
            return True
        if column in self.features.names:
            return self.cuts_children
        return is_number_type(self.inputs.field(column).type)

    # Training.

    def summarize(
        self, batch: pa.RecordBatch, classes: pa.DictionaryArray, weights: FloatArray | None
    ) -> pa.Table:
        labels = classes.dictionary
        group = classes.indices.to_numpy(zero_copy_only=False).astype(np.intp)
        if self.uncut:
            parts = [
                self._numbers_of(batch, name, labels, group, weights)
                if name in self.uncut
                else self._combinations_of(batch, name, [], labels, group, weights)
                for name in self.inputs.names
                if name in self.uncut or name in self.features.names
            ]
        else:
            given = [self._encode(batch, name) for name in self.given.names]
            parts = [
                self._combinations_of(batch, name, given, labels, group, weights)
                for name in self.features.names
            ]
        return self.merge(parts)

    def merge(self, tables: Sequence[pa.Table]) -> pa.Table:
        keys = [name for name in self._schema(tables[0]).names if name != "count"]
        if not self.uncut:
            merged = sum_counts(tables, keys, ["count"])
            if len(merged) > MAX_CELLS:
                raise DataError(
                    f"columns {one_of(self.features.names)} given {one_of(self.given.names)} have "
                    f"more than {MAX_CELLS:,} combinations of values; leave out given columns, or "
                    "declare fewer cuts."
                )
            return merged
        parts = pa.concat_tables([_with_columns(table, [*keys, "count"]) for table in tables])
        classes = sorted_classes(parts["class"])
        of_numbers = pc.is_valid(parts["width"])
        merged = [sum_counts([parts.filter(pc.invert(of_numbers))], keys, ["count"])]
        for name, cells in by_feature(parts.filter(of_numbers), self.uncut):
            merged.append(_numbers_table(name, classes, self._histogram(cells, classes)))
        return pa.concat_tables(merged).combine_chunks()

    def refine(self, statistics: pa.Table, classes: pa.Array) -> Mapping[str, Any] | None:
        if not self.uncut:
            return None
        numbers = statistics.filter(pc.is_valid(statistics["width"]))
        cuts = {
            name: self._mdl_cuts(self._histogram(cells, classes)).tolist()
            for name, cells in by_feature(numbers, self.uncut)
        }
        return {"cuts": {**self.options.cuts, **cuts}}

    def _schema(self, table: pa.Table) -> pa.Schema:
        kind = table.schema.field("class").type
        text = [("feature", pa.string()), ("value", pa.string())]
        others = [(_given(name), pa.string()) for name in self.given.names]
        if self.uncut:
            others = [("number", pa.float64()), ("width", pa.float64())]
        return pa.schema([("class", kind), *text, *others, ("count", pa.float64())])

    def _encode(self, batch: pa.RecordBatch, name: str) -> tuple[IntArray, list[str | None]]:
        """Codes of a column, 0 for null, and the values that they mean, None first."""
        cuts = self.options.cuts[name] if self._is_cut(name) else None
        conversion = "encode", None if cuts is None else tuple(cuts)
        return converted(
            batch.column(name), conversion, lambda: self._find_codes(batch, name, cuts)
        )

    def _find_codes(
        self, batch: pa.RecordBatch, name: str, cuts: Sequence[float] | None
    ) -> tuple[IntArray, list[str | None]]:
        if cuts is None:
            codes, values = category_codes(batch.column(name), name)
            return codes + 1, [None, *values]
        numbers, _ = numbers_rounded_down(batch, name)
        codes = bins_of(numbers, np.array(cuts)) + 1
        codes[np.isnan(numbers)] = 0
        return codes, [None, *_bin_names(cuts)]

    def _combinations_of(
        self,
        batch: pa.RecordBatch,
        feature: str,
        given: Sequence[tuple[IntArray, list[str | None]]],
        labels: pa.Array,
        group: IntArray,
        weights: FloatArray | None,
    ) -> pa.Table:
        """Counts of a column's values by class and given values."""
        own, values = self._encode(batch, feature)
        codes = np.stack([group, own, *(code for code, _ in given)])
        sizes = [len(labels), len(values), *(len(texts) for _, texts in given)]
        if not self.models_nulls and not own.all():
            known = own > 0
            codes, weights = codes[:, known], None if weights is None else weights[known]
        cells, counts = _count(codes, sizes, weights)
        columns = {
            "class": labels.take(pa.array(cells[0])),
            "feature": pa.array([feature] * len(counts), pa.string()),
            "value": pa.array(values, pa.string()).take(pa.array(cells[1])),
        }
        for name, (_, texts), code in zip(self.given.names, given, cells[2:], strict=False):
            columns[_given(name)] = pa.array(texts, pa.string()).take(pa.array(code))
        if self.uncut:
            columns |= dict.fromkeys(("number", "width"), pa.nulls(len(counts), pa.float64()))
        return pa.table({**columns, "count": counts})

    def _numbers_of(
        self,
        batch: pa.RecordBatch,
        name: str,
        labels: pa.Array,
        group: IntArray,
        weights: FloatArray | None,
    ) -> pa.Table:
        """Counts of a column's numbers by class; nulls are counted without a number."""
        values, width = numbers_rounded_down(batch, name)
        known = ~np.isnan(values)
        weight = None if weights is None else weights[known]
        cells = histogram(
            values[known], width, group[known], weight, len(labels), self.options.cells
        )
        table = _numbers_table(name, labels, cells)
        if name in self.features.names and self.models_nulls and not known.all():
            missing = None if weights is None else weights[~known]
            nulls = _sums(group[~known], missing, len(labels))
            present = np.flatnonzero(nulls)
            columns = {
                "class": labels.take(pa.array(present)),
                "feature": pa.array([name] * len(present), pa.string()),
                "value": pa.nulls(len(present), pa.string()),
                "number": pa.nulls(len(present), pa.float64()),
                "width": pa.nulls(len(present), pa.float64()),
                "count": nulls[present],
            }
            table = pa.concat_tables([table, pa.table(columns)])
        return table

    def _histogram(self, cells: pa.Table, classes: pa.Array) -> Histogram:
        return histogram(
            cells["number"].to_numpy(),
            max(cells["width"].to_numpy(), default=0.0),
            label_codes(cells["class"], classes),
            cells["count"].to_numpy(),
            len(classes),
            self.options.cells,
        )

    def _mdl_cuts(self, cells: Histogram) -> FloatArray:
        return mdl_cuts(cells, self.row_weight) if len(cells.values) else np.empty(0)

    # From counts to probabilities.

    def finalize(self, statistics: pa.Table, classes: pa.Array) -> pa.Table:
        parts, strengths = [], {}
        levels: dict[str, Levels] = {}
        has_values, absent = [], []
        for feature, counted in self._counted(statistics, classes):
            counted, without = self._with_pooled(feature, counted, classes)
            has_values.append(not without.all())
            absent.append(without & has_values[-1])
            table, strengths[feature] = self._parameters(feature, counted, classes)
            parts.append(table)
            levels |= {level.name: level for level in counted.levels}
        if self.on_scarce == "error":
            require_values(self.features.names, has_values)
        notes = without_values(self.features.names, has_values)
        notes += of_other_rows(self.features.names, classes, absent, self.options.pseudo_count)
        cuts = {
            name: level.cuts.tolist() for name, level in levels.items() if level.cuts is not None
        }
        return self.annotate(
            pa.concat_tables(parts).combine_chunks(),
            scarce=notes,
            given=[] if self.uncut else self.given.names,
            values={name: list(level.values) for name, level in levels.items()},
            cuts=cuts,
            strengths=strengths,
        )

    def _counted(self, statistics: pa.Table, classes: pa.Array) -> Iterator[tuple[str, _Counted]]:
        """Each feature with its counts."""
        given = [] if self.uncut else self.given.names
        columns = {name: _given(name) for name in given}
        levels = [self._levels(name, statistics[columns[name]]) for name in given]
        for feature, cells in by_feature(statistics, self.inputs.names):
            if feature in self.given.names:
                continue  # numbers of a first pass
            if feature in self.uncut:
                cells, cuts = self._binned(feature, cells, classes)
                own = Levels(
                    feature,
                    _with_null(_bin_names(cuts), cells["value"], self.models_nulls),
                    cuts,
                    self.models_nulls,
                )
            else:
                own = self._levels(feature, cells["value"], cells["count"])
            codes = [own.of_labels(cells["value"])]
            codes += [level.of_labels(cells[columns[level.name]]) for level in levels]
            yield (
                feature,
                _Counted(
                    [own, *levels],
                    np.stack(codes),
                    label_codes(cells["class"], classes),
                    cells["count"].to_numpy(),
                ),
            )

    def _levels(
        self, name: str, labels: pa.ChunkedArray, counts: pa.ChunkedArray | None = None
    ) -> Levels:
        """The values of a column, from those that its rows of statistics name."""
        if self._is_cut(name):
            cuts = np.array(self.options.cuts[name], dtype=np.float64)
            values = _bin_names(cuts)
        else:
            cuts = None
            seen = sorted(set(labels.to_pylist()) - {None})
            values = self.options.domain.get(name, seen)
            outside = sorted(set(seen) - set(values))
            if outside and counts is not None and self.options.unseen != "ignore":
                rows = pc.sum(counts.filter(pc.equal(labels, outside[0]))).as_py()
                raise DataError(
                    f"column {name!r} has value {outside[0]!r} in {rows:g} training rows, outside "
                    f"its declared domain {one_of(values)}; add it, or set unseen='ignore'."
                )
        return Levels(name, _with_null(values, labels, self.models_nulls), cuts, self.models_nulls)

    def _binned(
        self, feature: str, cells: pa.Table, classes: pa.Array
    ) -> tuple[pa.Table, FloatArray]:
        """Statistics of a first pass as counts of bins, and the cuts between them."""
        numbers = cells.filter(pc.is_valid(cells["width"]))
        cuts = self._mdl_cuts(self._histogram(numbers, classes))
        bins = np.searchsorted(cuts, numbers["number"].to_numpy(), side="right")
        names = pa.array(_bin_names(cuts), pa.string()).take(pa.array(bins))
        nulls = cells.filter(pc.is_null(cells["width"]))
        return pa.concat_tables(
            [numbers.set_column(numbers.column_names.index("value"), "value", names), nulls]
        ), cuts

    def _with_pooled(
        self, feature: str, counted: _Counted, classes: pa.Array
    ) -> tuple[_Counted, BoolArray]:
        """The counts, and which classes have no value of the column, ``(k,)``.

        Without a pseudo-count, such a class gets the counts of all classes together, given nothing.

        Raises:
            DataError: instead of the latter, if ``on_scarce`` is ``"error"``.
        """
        known = counted.codes[0] != counted.levels[0].null
        rows = _sums(counted.classes[known], counted.counts[known], len(classes))
        without = rows == 0.0
        if self.options.pseudo_count or not without.any() or without.all():
            return counted, without
        if self.on_scarce == "error":
            require_counts([feature], classes, rows[:, None])
        pooled, place = np.unique(counted.codes[0][known], return_inverse=True)
        absent = np.flatnonzero(without)
        codes = np.empty((len(counted.codes), len(pooled) * len(absent)), dtype=np.intp)
        codes[0] = np.tile(pooled, len(absent))
        for level, code in zip(counted.levels[1:], codes[1:], strict=True):
            code[:] = level.null
        counts = np.tile(_sums(place, counted.counts[known], len(pooled)), len(absent))
        more = _Counted(
            counted.levels,
            np.concatenate([counted.codes, codes], axis=1),
            np.concatenate([counted.classes, np.repeat(absent, len(pooled))]),
            np.concatenate([counted.counts, counts]),
        )
        return more, without

    def _parameters(
        self, feature: str, counted: _Counted, classes: pa.Array
    ) -> tuple[pa.Table, list[float]]:
        """The rows of a column, those of depth 0 first, and the strength of each further depth.

        The first strength is that of the prior which all classes share, if they do.
        """
        own, *given = counted.levels
        known = counted.codes[0] != own.null  # outside a declared domain
        alpha, values = self.options.pseudo_count, max(len(own.values), 1)
        shared = self.options.shared_strength
        parts, strengths = [], []
        before: CellIndex | None = None
        p = left_out = np.ones(0)
        for depth in range(len(given) + 1):
            if depth:
                known = known & (counted.codes[depth] != given[depth - 1].null)
            keys = np.concatenate([counted.classes[None], counted.codes[: depth + 1]])[:, known]
            sizes = [len(classes), *(level.size for level in counted.levels[: depth + 1])]
            cells = CellIndex(keys, sizes)
            keys_of_cells = keys[:, cells.first]
            counts = _sums(cells.group, counted.counts[known], len(cells.first))
            of_rows = CellIndex(np.delete(keys_of_cells, 1, axis=0), np.delete(sizes, 1).tolist())
            totals = _sums(of_rows.group, counts, len(of_rows.first))[of_rows.group]
            # One row of average weight left out of its cell, to choose the strength.
            others, rest = (without_row(sums / self.row_weight, None) for sums in (counts, totals))
            if before is None and shared is not None:
                of_value = _sums(keys_of_cells[1], counts, own.size)
                mean = shared_mean(of_value[: len(own.values)], alpha)[keys_of_cells[1]]
                if not isinstance(shared, float):
                    shared = best_shared_strength(
                        counts,
                        totals,
                        of_value[keys_of_cells[1]],
                        alpha,
                        alpha * values,
                        self.row_weight,
                    )
                strengths.append(shared)
                p = smoothed(counts, totals, shared * mean, shared)
                left_out = smoothed(others, rest, shared * mean, shared)
            elif before is None:
                p = smoothed(counts, totals, alpha, alpha * values)
                left_out = smoothed(others, rest, alpha, alpha * values)
            else:
                place = before.find(keys_of_cells[:-1])
                mean, mean_left_out = p[place], left_out[place]
                if self.options.back_off == "uniform":
                    mean = mean_left_out = np.full(len(place), 1.0 / values)
                strength = self.options.strength
                if strength is None:
                    strength = best_strength(counts, others, rest, mean_left_out)
                strengths.append(strength)
                p = smoothed(counts, totals, strength * mean, strength)
                left_out = smoothed(others, rest, strength * mean_left_out, strength)
            before = cells
            parts.append(self._rows(feature, counted.levels, keys_of_cells, classes, counts, p))
        return pa.concat_tables(parts), strengths

    def _rows(
        self,
        feature: str,
        levels: Sequence[Levels],
        cells: IntArray,
        classes: pa.Array,
        counts: FloatArray,
        p: FloatArray,
    ) -> pa.Table:
        size, depth = len(counts), len(cells) - 2
        columns: dict[str, Any] = {
            "class": classes.take(pa.array(cells[0])),
            "feature": pa.array([feature] * size, pa.string()),
        }
        titles = ["value", *(_given(level.name) for level in levels[1:])]
        for place, (title, level) in enumerate(zip(titles, levels, strict=True), start=1):
            texts = pa.nulls(size, pa.string())
            if place <= depth + 1:
                texts = pa.array(level.values, pa.string()).take(pa.array(cells[place]))
            columns[title] = texts
        with np.errstate(divide="ignore"):
            logs = np.log(p)
        return pa.table(
            {
                **columns,
                "depth": np.full(size, depth),
                "count": counts,
                "log_probability": logs,
            }
        )

    def log_evidence(self, statistics: pa.Table) -> float:
        """Dirichlet–categorical for each class and combination of given values.

        The prior of each is ``strength / m`` for each of m values, which do not depend on the rows
        if cuts or domains are declared. It needs ``back_off="uniform"`` and a strength.

        Raises:
            NotSupportedError: if the options are others.
            DataError: if a given column is null and nulls are marginalized.
        """
        strength = self.options.strength
        if self.options.back_off != "uniform" or strength is None:
            raise NotSupportedError(
                f"{self.name} given other columns offers log evidence only with "
                "back_off='uniform' and a number as strength."
            )
        if self.uncut:
            raise NotSupportedError(
                f"{self.name} offers no log evidence of cuts that are computed from the rows; "
                f"declare cuts of {one_of(self.uncut)}."
            )
        classes = sorted_classes(statistics["class"])
        total = 0.0
        for feature, counted in self._counted(statistics, classes):
            own, *given = counted.levels
            known = counted.codes[0] != own.null
            for level, code in zip(given, counted.codes[1:], strict=True):
                if (code[known] == level.null).any():
                    raise DataError(
                        f"column {level.name!r}, which {feature!r} is given, is null in some rows, "
                        f"so that the evidence of {self.name} has no closed form; drop those rows, "
                        "or set missing='level'."
                    )
            keys = np.concatenate([counted.classes[None], counted.codes[1:]])[:, known]
            rows = CellIndex(keys, [len(classes), *(level.size for level in given)])
            counts = np.zeros((len(rows.first), len(own.values)))
            np.add.at(counts, (rows.group, counted.codes[0][known]), counted.counts[known])
            alpha = np.full(len(own.values), strength / max(len(own.values), 1))
            total += float(dirichlet_categorical(counts, alpha).sum())
        return total

    # Scoring.

    def check_statistics(self, statistics: pa.Table, classes: pa.Table) -> None:
        super().check_statistics(statistics, classes)
        check_row_counts(statistics, classes, ["feature"], features=self.inputs.names)

    def check_parameters(self, parameters: pa.Table, classes: pa.Array) -> None:
        notes = notes_of(parameters)
        check_notes(notes["strengths"], "strengths", NOT_NEGATIVE)
        parse_cuts(OptionPath(self.name, "note 'cuts'", self.inputs.names), notes["cuts"])
        given = [_given(name) for name in notes["given"]]
        texts = dict.fromkeys(["feature", "value", *given], pa.string())
        check_parameters(
            parameters,
            classes,
            {**texts, "depth": pa.int64()},
            {"count": COUNT, "log_probability": LOG_PROBABILITY},
            nullable=["value", *given],
            complete=False,
            within=["feature", *given, "depth"],
        )

    def likelihood(self, parameters: pa.Table, classes: pa.Array) -> ConditionalCountsLikelihood:
        return ConditionalCountsLikelihood(parameters, classes, self.options)

    def leave_one_out(
        self,
        statistics: pa.Table,
        parameters: pa.Table,
        classes: pa.Array,
        batch: pa.RecordBatch,
        truth: IntArray,
        weights: FloatArray | None,
    ) -> FloatArray:
        """See `LeaveOneOut`. Cuts, domains and strengths remain those of all rows."""
        likelihood = self.likelihood(parameters, classes)
        result = likelihood.log_likelihood(batch)
        result[np.arange(batch.num_rows), truth] = likelihood.left_out(batch, truth, weights)
        return result


class ConditionalCategorical(ConditionalCounts):
    """Categories given other columns."""

    name: ClassVar[str] = "categorical"
    children = CATEGORIES
    cuts_children = False


class ConditionalDiscretized(ConditionalCounts):
    """Binned numbers given other columns."""

    name: ClassVar[str] = "discretized"
    children = NUMBERS
    cuts_children = True


class ConditionalCountsLikelihood:
    """log p(x | z, c): the sum over columns of the log probability of their values.

    Args:
        parameters: of `ConditionalCounts`.
        classes: ``k`` labels.
        options: options of the block.
    """

    normalized = True

    def __init__(
        self, parameters: pa.Table, classes: pa.Array, options: ConditionalOptions
    ) -> None:
        notes = notes_of(parameters)
        self.options = options
        self.classes = len(classes)
        levels = {}
        for name, values in notes["values"].items():
            cuts = notes["cuts"].get(name)
            levels[name] = Levels(
                name,
                values,
                None if cuts is None else np.array(cuts, dtype=np.float64),
                options.missing == "level",
            )
        self.given = [levels[name] for name in notes["given"]]
        self.chains: dict[str, Chain] = {}
        self.given_counts = {
            level.name: np.zeros((level.size, len(classes))) for level in self.given
        }
        for feature, rows in by_feature(parameters, notes["features"]):
            codes, labels, counts = [], [], []
            for depth in range(len(self.given) + 1):
                cells = rows.filter(pc.equal(rows["depth"], depth))
                given = [level.of_labels(cells[_given(level.name)]) for level in self.given[:depth]]
                codes.append(np.stack([levels[feature].of_labels(cells["value"]), *given]))
                labels.append(label_codes(cells["class"], classes))
                counts.append(cells["count"].to_numpy())
                if depth:
                    of_given = self.given_counts[self.given[depth - 1].name]
                    np.add.at(of_given, (given[-1], labels[-1]), counts[-1])
            self.chains[feature] = Chain(
                [levels[feature], *self.given],
                codes,
                labels,
                counts,
                len(classes),
                notes["strengths"][feature],
                options.pseudo_count,
                shared=options.shared_strength is not None,
                uniform=options.back_off == "uniform",
            )

    def log_likelihood(self, batch: pa.RecordBatch) -> FloatArray:
        factors = self._factors(batch)
        result = next(factors)
        for factor in factors:
            result += factor
        return result.T

    def log_factors(self, batch: pa.RecordBatch) -> Iterator[FloatArray]:
        return (factor.T for factor in self._factors(batch))

    def marginal(self, column: str) -> Marginal | None:
        """Probabilities without the given columns; of a given column, its frequencies."""
        if column in self.chains:
            chain = self.chains[column]
            levels, *given = chain.levels
            size = len(levels.values)
            # The code of a null that is no value leaves the given columns out.
            codes = [np.arange(size), *(np.full(size, level.null) for level in given)]
            probability = np.exp(chain.log_probability(codes)).T
        else:
            (levels,) = (level for level in self.given if level.name == column)
            counts = self.given_counts[column][: len(levels.values)]
            totals = counts.sum(axis=0)
            probability = np.divide(counts, totals, out=np.zeros_like(counts), where=totals > 0.0)
        if not levels.values:
            return None  # training saw no value
        if levels.cuts is None:
            return marginals.Levels(levels.values, probability)
        missing = probability[-1] if None in levels.values else None
        return marginals.bins(levels.cuts, probability[: len(levels.cuts) + 1], missing)

    def formula(self) -> Formula:
        terms, refused = [], []
        for name, chain in self.chains.items():
            lookup = chain.lookup(self.options.unseen)
            if lookup is None:
                raise NotSupportedError(
                    f"column {name!r} given {one_of([level.name for level in self.given])} has too "
                    "many combinations of values for a table to look up; give it fewer columns."
                )
            terms.append(lookup)
            code, level = lookup.codes[0], chain.levels[0]
            if self.options.unseen == "error" and isinstance(code, Categories):
                refused.append(IsCode(code, len(code.values)))
                if level.models_nulls and None not in level.values:
                    refused.append(IsCode(code, len(code.values) + 1))
        return Formula(terms, refused)

    @property
    def cell_log_likelihood(self) -> FloatArray | None:
        chains = list(self.chains.values())
        return chains[0].table if len(chains) == 1 else None

    def cells(self, batch: pa.RecordBatch) -> IntArray:
        ((chain, codes),) = self._coded(batch)
        return chain.cells(codes)

    def left_out(
        self, batch: pa.RecordBatch, truth: IntArray, weights: FloatArray | None
    ) -> FloatArray:
        """log p(x | z, own class) of rows as if each had been left out, ``(n,)``."""
        result = np.zeros(batch.num_rows)
        for chain, codes in self._coded(batch):
            result += chain.left_out(codes, truth, weights)
        return result

    def _factors(self, batch: pa.RecordBatch) -> Iterator[FloatArray]:
        return (chain.log_probability(codes) for chain, codes in self._coded(batch))

    def _coded(self, batch: pa.RecordBatch) -> Iterator[tuple[Chain, Sequence[IntArray]]]:
        given = [level.of_batch(batch, "pseudo_count") for level in self.given]
        for chain in self.chains.values():
            yield chain, [chain.levels[0].of_batch(batch, self.options.unseen), *given]


def _with_columns(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """These columns of a table, null if it lacks them: a part without numbers has other ones."""
    for name in names:
        if name not in table.column_names:
            table = table.append_column(name, pa.nulls(len(table), pa.float64()))
    return table.select(list(names))


def _given(name: str) -> str:
    """The column of tables for a given column."""
    return f"given {name}"


def _bin_names(cuts: Sequence[float] | FloatArray) -> list[str | None]:
    """Bins as intervals: exact, so that different cuts give different names."""
    edges = [-np.inf, *(float(cut) for cut in cuts), np.inf]
    return [f"[{lower}, {upper})" for lower, upper in pairwise(edges)]


def _with_null(
    values: Sequence[str | None], labels: pa.ChunkedArray, models_nulls: bool
) -> list[str | None]:
    """The values, and null if it is one and occurs."""
    return [*values, None] if models_nulls and labels.null_count else list(values)


def _numbers_table(name: str, classes: pa.Array, cells: Histogram) -> pa.Table:
    """One row per class and number, or cell of a grid, with a count above 0."""
    row, cell = np.nonzero(cells.counts)
    return pa.table(
        {
            "class": classes.take(pa.array(row)),
            "feature": pa.array([name] * len(row), pa.string()),
            "value": pa.nulls(len(row), pa.string()),
            "number": cells.values[cell],
            "width": np.full(len(row), cells.width),
            "count": cells.counts[row, cell],
        }
    )


def _count(
    codes: IntArray, sizes: Sequence[int], weights: FloatArray | None
) -> tuple[IntArray, FloatArray]:
    """The combinations of codes ``(d, n)`` that occur, ``(d, g)``, and their counts ``(g,)``."""
    size = int(np.prod(np.array(sizes, dtype=np.float64)))
    if size > 4 * codes.shape[1] + 4096:
        cells = CellIndex(codes, sizes)
        return codes[:, cells.first], _sums(cells.group, weights, len(cells.first))
    number = np.zeros(codes.shape[1], dtype=np.intp)
    for code, radix in zip(codes, sizes, strict=True):
        number *= radix
        number += code
    counts = _sums(number, weights, size)
    present = np.flatnonzero(counts)
    return np.stack(np.unravel_index(present, sizes)), counts[present]


def _sums(group: IntArray, weights: FloatArray | None, groups: int) -> FloatArray:
    """Σ w of each group; a weight is 1 if there are none."""
    return np.bincount(group, weights, groups).astype(np.float64)
