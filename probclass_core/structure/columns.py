"""Roles of columns: what a model can do with each of them, from its type and its values."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from probclass_core.arrow.arrays import FloatArray, IntArray, label_codes, names_of_columns
from probclass_core.arrow.parts import Part, parts_of_type
from probclass_core.arrow.types import (
    is_category_type,
    is_number_type,
    is_terms_type,
    is_text_type,
    value_type,
)
from probclass_core.errors import SpecError
from probclass_core.estimation.contract import Estimator
from probclass_core.estimation.families.counted.options import LEAVE_ONE_OUT
from probclass_core.estimation.kinds.grids import tidy_cells
from probclass_core.estimation.kinds.sample import COUNT
from probclass_core.estimation.statistics import Statistics, bind
from probclass_core.spec.model_spec import TABLE_NAMES, Block, category_text
from probclass_core.structure.levels import bins_with_null, left_out_log_loss

Kind = Literal["number", "category", "terms"]

ESTIMATORS: Mapping[Kind, str] = {
    "number": "discretized",
    "category": "categorical",
    "terms": "multinomial",
}
"""Estimator of a column alone, by its kind."""

ENOUGH_ROWS = 50
"""Rows from which on a key or a copy of the label can be distinguished from chance."""

_MOST_DIFFERENT = 0.5
"""Share of different values above which text is a key or prose, not a category."""

_DIFFERENT_AT_A_GLANCE = 0.9
"""The same for the first rows of a table, which may not be typical."""

_FEWEST_NULLS = 5
"""Nulls from which on their frequencies by class are worth a level of their own."""

_MOST_INTEGERS = 50
"""Largest number of different integers that may be categories."""

_STRENGTH = 2.0
"""Rows with the classes of its bin that count with those of a value."""

_FEW_VALUES = 12
"""Largest number of different numbers that pairs and groups tell apart, as they do categories."""

_ROWS_OF_VALUE = 20.0
"""Rows that each of them has at least, with its neighbors."""

_LARGEST = 1e100
"""Numbers beyond it, or differences below its inverse, have sums of squares outside of float64."""

_MOST_CELLS = 65_536
"""Classes times categories up to which the estimates of classes back off to that of all classes
together: parameters are not sparse then."""

_DATES_AS_TEXT = (
    "they are dates as text (convert them to dates or timestamps, so that their hour, weekday and "
    "month can be modeled)"
)

_NO_VALUES = "they have no values"

_TOO_LARGE = "they are integers beyond 2⁵³ that float64 cannot tell apart (subtract a constant)"

_KEY = "they differ in nearly every row, as a key or prose does (split prose into lists of words)"

_SIMPLE_NAME = re.compile(r"[^\W_][\w \-+.,()%=]{0,63}")
"""Names of columns that can name blocks, and thereby files, on every system."""


@dataclass(frozen=True)
class Column:
    """A column that a model can use.

    Attributes:
        name: name of the column.
        kind: ``"number"``, ``"category"`` or ``"terms"``.
        is_number: whether the values are numbers, which may be categories all the same.
        null_level: whether a null counts as a value of its own.
        cuts: cut points between the bins of a number in pairs and groups, ascending; each value
            of a category of numbers is a bin of its own.
        few_values: whether it is a number of so few values that these bins are its values,
            but for rare ones.
        telling_values: whether the values of a number in bins also tell of the class what its bins
            do not, such as an amount that only one kind of person has.
        has_squares: whether the squares of a number, which joint densities need, fit float64; not
            for parts of dates, whose last value is next to their first.
        is_part: whether it is a part of a date or time.
        is_text: whether it is the numbers of a column of text.
        shares_prior: whether the estimates of classes back off to that of all classes together.
    """

    name: str
    kind: Kind
    is_number: bool = False
    null_level: bool = False
    cuts: tuple[float, ...] = ()
    few_values: bool = False
    telling_values: bool = False
    has_squares: bool = False
    is_part: bool = False
    is_text: bool = False
    shares_prior: bool = False

    @property
    def has_bins(self) -> bool:
        """Whether it is a number of so many values that pairs and groups know them by bins."""
        return self.kind == "number" and not self.few_values

    @property
    def is_category_of_numbers(self) -> bool:
        """Whether the values are numbers, and categories to the model."""
        return self.is_number and self.kind == "category"

    def block(self, name: str | None = None) -> Block:
        """The block of this column alone."""
        options: dict[str, Any] = {"missing": "level"} if self.null_level else {}
        if self.shares_prior:
            options["shared_strength"] = LEAVE_ONE_OUT
        return Block(ESTIMATORS[self.kind], self.name, name, **options)

    def alone(self, names: Names) -> Iterator[Block]:
        """The blocks of this column alone: one, and one of its values if they tell more."""
        yield self.block(names.of(self.name))
        if self.telling_values:
            values = replace(self, kind="category", shares_prior=True)
            yield values.block(names.of(f"{self.name}, values"))

    def given(
        self, parents: Sequence[Column], names: Names, how: str = "", **options: Any
    ) -> Block:
        """The block of this column in its bins, given others if any.

        Args:
            parents: the columns that it is given.
            names: names of blocks so far.
            how: the end of the name of the block.
            options: further options of the block.
        """
        cuts = {one.name: list(one.cuts) for one in parents if one.is_number}
        if self.kind == "number":
            cuts[self.name] = list(self.cuts)
        alone = self.block()
        options = {**alone.options, **options}
        if self.kind == "category" and parents:
            options["strength"] = LEAVE_ONE_OUT
        if cuts:
            options["cuts"] = cuts
        if any(one.null_level for one in (self, *parents)):
            options["missing"] = "level"
        given = [parent.name for parent in parents]
        name = f"{self.name} given {', '.join(given)}" if given else self.name
        return Block(alone.estimator, self.name, names.of(name + how), given=given, **options)


@dataclass(frozen=True)
class Columns:
    """The columns of a table by what becomes of them.

    Attributes:
        used: columns to model.
        left_out: reason to the names of the columns that are left out for it.
        dates: columns of dates and times whose parts are not chosen by the rows, and their types.
        excluded: columns and parts of dates that the caller excludes.
        notes: other decisions, as sentences.
    """

    used: Sequence[Column]
    left_out: Mapping[str, Sequence[str]]
    dates: Mapping[str, pa.DataType] = field(default_factory=dict)
    excluded: frozenset[str] = frozenset()
    notes: Sequence[str] = ()

    @property
    def counted(self) -> list[Column]:
        """The numbers and categories among the columns to model."""
        return [column for column in self.used if column.kind != "terms"]

    @property
    def decisions(self) -> list[str]:
        """The columns that are left out, and other decisions, as sentences."""
        left_out = [
            f"Columns left out because {reason}: {listed(names)}."
            for reason, names in self.left_out.items()
        ]
        return [*left_out, *self.notes]

    def require_some(self, label: str | None) -> None:
        """Refuse a table without a column to model."""
        if not self.used:
            besides = "" if label is None else f" besides the label {label!r}"
            reasons = "".join(f" {note}" for note in self.decisions)
            raise SpecError(f"no column is left to model{besides}.{reasons}")

    def without(self, reasons: Mapping[str, str]) -> Columns:
        """The same without some columns: name to the reason."""
        left_out = {reason: list(names) for reason, names in self.left_out.items()}
        for name, reason in reasons.items():
            left_out.setdefault(reason, []).append(name)
        used = [column for column in self.used if column.name not in reasons]
        dates = {name: kind for name, kind in self.dates.items() if name not in reasons}
        return replace(self, used=used, left_out=left_out, dates=dates)

    def without_unless_all(self, reasons: Mapping[str, str]) -> Columns:
        """The same without some columns; if none would be left, all of them, with notes."""
        if len(reasons) < len(self.used):
            return self.without(reasons)
        notes = [
            f"Columns kept only because no other is left, although {reason}: "
            f"{listed([name for name in reasons if reasons[name] == reason])}."
            for reason in dict.fromkeys(reasons.values())
        ]
        return replace(self, notes=tuple(dict.fromkeys([*self.notes, *notes])))


def columns_of(schema: pa.Schema, excluded: Iterable[str]) -> Columns:
    """The columns of a table by their types.

    Args:
        schema: schema of the table.
        excluded: columns to skip: the label, the weight, and those that the caller excludes, which
            may be parts of dates.
    """
    skipped = frozenset(excluded)
    names, columns = set(schema.names), set(names_of_columns(schema))
    dates: dict[str, pa.DataType] = {}
    notes: list[str] = []
    used: list[Column] = []
    left_out: dict[str, list[str]] = {}
    for one in schema:
        if one.name in skipped or one.name not in columns:
            continue
        if not one.name:
            left_out.setdefault("they have no name", []).append(one.name)
            continue
        kind = value_type(one.type)
        if is_category_type(kind) and not is_number_type(one.type):
            used.append(Column(one.name, "category"))
        elif is_number_type(kind):
            used.append(Column(one.name, "number", is_number=True))
        elif is_terms_type(one.type):
            used.append(Column(one.name, "terms"))
        elif parts := parts_of_type(kind):
            if any(str(Part(part, one.name)) in names for part in parts):
                notes.append(
                    f"The table has columns of parts of {one.name!r}: others are not tried."
                )
            else:
                dates[one.name] = kind
        else:
            left_out.setdefault("no estimator models their type by default", []).append(one.name)
    return Columns(used, left_out, dates, skipped, notes)


def keys_at_a_glance(columns: Columns, rows: pa.RecordBatch) -> Columns:
    """Leave out text that differs in nearly every one of the first rows, and dates as text.

    It spares the statistics of a value for each row of the table.
    """
    reasons = {}
    for column in columns.used:
        if column.kind == "category":
            values = rows.column(column.name)
            if _are_iso_dates(values):
                reasons[column.name] = _DATES_AS_TEXT
            elif differ_at_a_glance(values):
                reasons[column.name] = _KEY
    return columns.without_unless_all(reasons)


def differ_at_a_glance(values: pa.Array) -> bool:
    """Whether nearly all of the first values are different."""
    known = len(values) - values.null_count
    return known >= ENOUGH_ROWS and bool(_different(values) > _DIFFERENT_AT_A_GLANCE * known)


def _are_iso_dates(values: pa.Array) -> bool:
    """Whether text is dates, or dates and times, as ISO 8601 writes them."""
    texts = values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
    texts = texts.drop_null()
    if not len(texts) or not is_text_type(texts.type):
        return False
    for unit, zone in itertools.product(("us", "ns"), (None, "UTC")):
        with suppress(pa.ArrowInvalid):
            for some in texts[:1], texts:  # a cast goes on after the first text that is no date
                some.cast(pa.timestamp(unit, zone))
            return True
    return False


def columns_by_values(columns: Columns, statistics: Statistics, sample: pa.Table) -> Columns:
    """The roles of columns by their values.

    Args:
        columns: columns by their types.
        statistics: of one block for each column, and perhaps for others.
        sample: sample of the rows.
    """
    estimators = bind(statistics.spec, statistics.features)
    blocks = {block.columns[0]: str(block.name) for block in statistics.spec.blocks}
    roles = {
        column.name: _role(column, blocks[column.name], estimators, statistics, sample)
        for column in columns.used
    }
    reasons = {name: role for name, role in roles.items() if isinstance(role, str)}
    used = [
        column if isinstance(role := roles[column.name], str) else role for column in columns.used
    ]
    # A model needs a column; one without values would not make any.
    empty = {name: reasons.pop(name) for name in [*reasons] if reasons[name] == _NO_VALUES}
    return replace(columns, used=used).without(empty).without_unless_all(reasons)


def _role(
    column: Column,
    name: str,
    estimators: Mapping[str, Estimator],
    statistics: Statistics,
    sample: pa.Table,
) -> Column | str:
    """A column by its values, or the reason to leave it out.

    Args:
        column: the column by its type.
        name: name of its block.
        estimators: those of the blocks, by name.
        statistics: of the blocks.
        sample: sample of the rows.
    """
    classes = statistics.classes["class"].combine_chunks()
    table, values = statistics.blocks.get(name), sample[column.name]
    counted = tidy_cells(table) if table is not None and column.kind == "number" else table
    if counted is None or not counted["count"].to_numpy().any():
        return _NO_VALUES
    if column.kind == "terms":
        return column
    cells, nulls = _Cells.of(counted, classes), values.null_count
    if reason := _reason_to_leave_out(column, cells, statistics, sample, nulls):
        return reason
    has_squares = column.is_number and not column.is_part and _squares_fit(values)
    column = replace(column, null_level=nulls >= _FEWEST_NULLS, has_squares=has_squares)
    is_integer = pa.types.is_integer(statistics.features.field(column.name).type)
    different = _different(values)
    is_rounded = is_integer and len(cells.values) < different  # beyond 2⁵³
    if is_rounded and different <= _MOST_INTEGERS:  # as categories they are exact
        return replace(column, kind="category", cuts=_cuts_between(cells))
    if column.kind == "number":
        if is_rounded and len(cells.values) == 1:
            return _TOO_LARGE
        lower = np.unique(estimators[name].finalize(table, classes)["lower"].to_numpy())
        column = replace(column, cuts=tuple(lower[np.isfinite(lower)].tolist()))
        may_be_category = is_integer or nulls > 0 or column.is_text
        if may_be_category and _are_whole(cells):
            column = _integers(column, cells)
        if column.kind == "number" and cells.exact and len(cells.values) <= _FEW_VALUES:
            column = replace(column, cuts=_cuts_between(cells, _ROWS_OF_VALUE), few_values=True)
    shares = column.kind == "category" and cells.counts.shape[1] > 1
    return replace(column, shares_prior=shares and cells.counts.size <= _MOST_CELLS)


def _integers(column: Column, cells: _Cells) -> Column:
    """A number of whole values as categories, or in bins and by its values, if these tell more."""
    cuts = np.array(column.cuts)
    if len(cells.values) > _MOST_INTEGERS:
        affordable = cells.counts.size <= _MOST_CELLS
        return replace(column, telling_values=affordable and _tell_beyond_bins(cells, cuts))
    if _are_categories(cells, cuts):
        return replace(column, kind="category", cuts=_cuts_between(cells))
    return column


def without_copies(columns: Columns, sample: pa.Table) -> Columns:
    """Leave out columns that say one to one what an earlier column says, nulls included.

    The first one stays, whatever its type, so that the order of a table decides.

    Args:
        columns: columns by their values.
        sample: sample of the rows.
    """
    if sample.num_rows < ENOUGH_ROWS:
        return columns
    first: dict[bytes, str] = {}
    reasons = {}
    for column in columns.used:
        if column.kind != "terms":
            name = first.setdefault(_partition(sample[column.name]), column.name)
            if name != column.name:
                reasons[column.name] = f"they say one to one what {name!r} says"
    return columns.without(reasons)


def _partition(values: pa.ChunkedArray) -> bytes:
    """Bytes that are the same for columns that tell the same rows apart.

    Of values that hardly repeat, which tell all rows apart, only the same ones are copies.
    """
    known = values.combine_chunks()
    encoded = known.dictionary_encode("encode")  # by appearance, whatever the values are
    if len(encoded.dictionary) > _MOST_DIFFERENT * len(values) and is_number_type(values.type):
        numbers: FloatArray = known.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        return numbers.tobytes()
    codes: bytes = encoded.indices.to_numpy().tobytes()
    return codes


@dataclass(frozen=True)
class _Cells:
    """Counts of the values of a column by class.

    Attributes:
        values: different values, ``m`` of them, ascending if they are numbers.
        counts: Σ w, ``(m, k)``.
        exact: whether each of them is one value, not a cell of a grid.
    """

    values: pa.Array
    counts: FloatArray
    exact: bool

    @classmethod
    def of(cls, table: pa.Table, classes: pa.Array) -> _Cells:
        values = pc.unique(table["value"])
        values = values.take(pc.sort_indices(values))
        place = label_codes(table["value"], values) * len(classes)
        counts = np.bincount(
            place + label_codes(table["class"], classes),
            table["count"].to_numpy(),
            len(values) * len(classes),
        ).astype(np.float64, copy=False)
        counts = counts.reshape(len(values), len(classes))
        widths = "width" in table.column_names
        return cls(values, counts, not widths or not table["width"].to_numpy().any())


def _reason_to_leave_out(
    column: Column, cells: _Cells, statistics: Statistics, sample: pa.Table, nulls: int
) -> str | None:
    if len(cells.values) == 1 and not nulls and _different(sample[column.name]) == 1:
        return "they have the same value in every row"
    if statistics.rows < ENOUGH_ROWS:
        return None
    # Equal rows are one row of the sample, with their number, or with their weight.
    known = sample.num_rows - nulls
    if statistics.spec.weight is None:
        known = pc.sum(sample[COUNT].filter(sample[column.name].is_valid())).as_py() or 0
    if known >= ENOUGH_ROWS:
        values = sample[column.name].drop_null()
        different = _different(values)
        if column.kind == "category" and different > _MOST_DIFFERENT * known:
            return _DATES_AS_TEXT if _are_iso_dates(values.combine_chunks()) else _KEY
        if pa.types.is_integer(values.type) and different == known:
            bounds = pc.min_max(values).as_py()
            if bounds["max"] - bounds["min"] <= 2 * statistics.rows:
                return "they number the rows"
    present = cells.counts > 0.0
    one_to_one = (present.sum(axis=0) == 1).all() and (present.sum(axis=1) == 1).all()
    if statistics.spec.label is not None and cells.exact and one_to_one:
        return f"they are copies of the label {statistics.spec.label!r}"
    return None


def _are_whole(cells: _Cells) -> bool:
    """Whether numbers are integers, which pandas makes floats if there are nulls among them."""
    return cells.exact and bool(pc.all(pc.equal(cells.values, pc.trunc(cells.values))).as_py())


def _cuts_between(cells: _Cells, rows: float = 0.0) -> tuple[float, ...]:
    """Cut points midway between numbers, so that each bin has some rows; rare numbers share one."""
    numbers = cells.values.to_numpy(zero_copy_only=False).astype(np.float64)
    below = np.cumsum(cells.counts.sum(axis=1))
    cuts, last = [], 0.0
    for place in range(len(numbers) - 1):
        if min(below[place] - last, below[-1] - below[place]) >= rows:
            cuts.append(0.5 * (numbers[place] + numbers[place + 1]))
            last = below[place]
    return tuple(np.unique(cuts).tolist())


def _are_categories(cells: _Cells, cuts: FloatArray) -> bool:
    """Whether integers tell more of the class as categories than in bins."""
    _, bins = _in_bins(cells, cuts)
    chance = _gain_by_chance(cells.counts, bins)
    return left_out_log_loss(cells.counts) + chance < left_out_log_loss(bins)


def _tell_beyond_bins(cells: _Cells, cuts: FloatArray) -> bool:
    """Whether values tell of the class what their bins do not.

    The class of each row is predicted by the other rows of its bin, and then by those of its value
    as well::

        P(c | bin)   = ( n_c(bin) − 1 + P(c) ) / n(bin)
        P(c | value) = ( n_c(value) − 1 + s P(c | bin) ) / ( n(value) − 1 + s )
    """
    bin_of, bins = _in_bins(cells, cuts)
    value, label = np.nonzero(cells.counts)
    rows, place = cells.counts[value, label], bin_of[value]
    one = np.minimum(rows, 1.0)
    prior = bins.sum(axis=0)[label] / bins.sum()
    by_bin = (bins[place, label] - one + prior) / (bins.sum(axis=1)[place] - one + 1.0)
    of_value = cells.counts.sum(axis=1)[value]
    by_value = (rows - one + _STRENGTH * by_bin) / (of_value - one + _STRENGTH)
    gain = float(rows @ np.log(by_value / by_bin))
    return gain > _gain_by_chance(cells.counts, bins)


def _in_bins(cells: _Cells, cuts: FloatArray) -> tuple[IntArray, FloatArray]:
    """The bin of each number, ``(m,)``, and the counts of the bins by class."""
    bin_of = np.searchsorted(cuts, cells.values.to_numpy(zero_copy_only=False), side="right")
    bins = np.zeros((len(cuts) + 1, cells.counts.shape[1]))
    np.add.at(bins, bin_of, cells.counts)
    return bin_of, bins


def _gain_by_chance(values: FloatArray, bins: FloatArray) -> float:
    """Nats that values without meaning gain over bins, which grow with their number."""
    classes = len(bins[0])
    return 0.5 * (len(values) - len(bins)) * (classes - 1)


def _squares_fit(values: pa.ChunkedArray) -> bool:
    """Whether numbers vary, and their squares neither overflow nor vanish."""
    numbers = values.drop_null().cast(pa.float64(), safe=False).to_numpy()
    largest = float(np.abs(numbers).max(initial=0.0))
    return largest < _LARGEST and float(np.ptp(numbers)) > max(1.0 / _LARGEST, 1e-12 * largest)


def _different(values: pa.Array | pa.ChunkedArray) -> int:
    return len(pc.unique(values.drop_null()))


def level_codes(column: Column, sample: pa.Table) -> tuple[IntArray, int]:
    """The level of each row: its bin or category, and one more for a null; and how many.

    Args:
        column: a number or category.
        sample: rows.
    """
    values = sample[column.name].combine_chunks()
    if column.kind == "number":
        numbers = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        return bins_with_null(numbers, column.cuts), len(column.cuts) + 2
    encoded = values.dictionary_encode()
    levels = len(encoded.dictionary)
    codes = pc.fill_null(encoded.indices, levels).to_numpy(zero_copy_only=False)
    return codes.astype(np.intp), levels + 1


def listed(names: Sequence[str], most: int = 8) -> str:
    """Names in a sentence: the first few, and how many there are besides."""
    shown = ", ".join(repr(category_text(name)) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


class Names:
    """The names that blocks have so far."""

    def __init__(self) -> None:
        self._taken = {name.casefold() for name in TABLE_NAMES}

    def of(self, wanted: str) -> str:
        """The name, or a similar one if it is taken or cannot name a file."""
        base = wanted if _SIMPLE_NAME.fullmatch(wanted) else "block"
        name, number = base.rstrip("."), 1
        while name.casefold() in self._taken:
            number += 1
            name = f"{base} {number}"
        self._taken.add(name.casefold())
        return name
