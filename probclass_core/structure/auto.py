"""The model spec of a table: roles of columns, then blocks, then those that help.

`auto` summarizes one block per column, over all rows and with the engine and cache of a
training. These statistics and their sample of the rows say what each column is (`columns`), which
pairs of columns depend on each other (`pairs`, and `fine_pairs` in finer bins), and which groups
act together (`groups`). The candidates are then weighed against each other on the sample
(`model.weight_fit`); the spec has the fewest of them that predict as well as all
(`model.fewest_blocks`), and training fits their weights on all that it needs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from probclass_core.arguments import ColumnName, checks_arguments
from probclass_core.arrow.arrays import IntArray, label_codes
from probclass_core.arrow.parts import PARTS, part_of
from probclass_core.errors import DataError, SpecError, nearest, one_of, shown
from probclass_core.estimation.families.counted.options import LEAVE_ONE_OUT
from probclass_core.estimation.kinds.class_counts import MAX_CLASSES, check_classes
from probclass_core.estimation.kinds.sample import (
    COUNT,
    HASH,
    SAMPLE_ROWS,
    equal_rows_are_copies,
)
from probclass_core.estimation.statistics import (
    Statistics,
    bind,
    summarize_batches,
)
from probclass_core.execution.engine import EngineOption
from probclass_core.execution.open import open_engine
from probclass_core.execution.progress import ProgressOption, draws_progress
from probclass_core.io.filters import Where
from probclass_core.io.open import open_table
from probclass_core.io.selection import Selection
from probclass_core.io.table import Source
from probclass_core.model.fewest_blocks import fewest_blocks
from probclass_core.model.finalize import finalize
from probclass_core.model.product import product
from probclass_core.spec.model_spec import (
    PARTITIONS,
    TABLE_NAMES,
    Block,
    Effort,
    GroupsOption,
    HalfLifeOption,
    ModelSpec,
    OnScarce,
    Prior,
    check_groups,
)
from probclass_core.structure.columns import (
    ENOUGH_ROWS,
    Column,
    Columns,
    class_loss,
    class_losses,
    columns_by_values,
    columns_of,
    giveaways,
    keys_at_a_glance,
    level_codes,
    listed,
    without_copies,
)
from probclass_core.structure.dates import (
    candidate_parts,
    parts_by_types,
    parts_by_values,
    possible_parts,
)
from probclass_core.structure.fine_pairs import equal_cuts, fine_pairs
from probclass_core.structure.groups import GroupSearch
from probclass_core.structure.levels import Levels
from probclass_core.structure.network import tree
from probclass_core.structure.numbers import (
    numbers_at_a_glance,
    numbers_by_values,
    possible_numbers,
)
from probclass_core.structure.pairs import dependent_pairs
from probclass_core.training.rows import TrainingRows

if TYPE_CHECKING:
    from probclass_core.store.statistics_cache import CacheOption

_GLANCE_ROWS = 8192
"""Rows that are read ahead to recognize keys."""

_MOST_PAIRS = 60

_MOST_PAIR_CLASSES = 3000
"""Pairs times classes: with many classes each pair has few rows of each."""

_MOST_FINE_PAIRS, _MOST_FINE_PAIR_CLASSES = 20, 500
"""The same for pairs of numbers in finer bins; each is up to six blocks."""

_MOST_GROUPS, _MOST_GROUP_CLASSES = 30, 1000
"""The same for groups of more columns."""

_MANY_COLUMNS = 256
"""Of more columns, chance makes some tell of the class, and pairing all of them takes minutes."""

_MOST_NUMBERS = 256
"""Largest number of columns of a joint density; the size of a normal one is quadratic in it."""

_RIDGE = 1e-3
"""Ridge of normal densities, as a fraction of the variances."""

_NEIGHBORS = (5, 20, 60)
"""Numbers of neighbors of the KNN densities."""

_DENSITY_BINS = 8
"""Bins of a number in the density, where they say how columns depend on each other."""

_FEW_NUMBERS, _MANY_ROWS = 8, 10_000
"""For more numbers and rows, the search for the most neighbors takes minutes; "best" alone has it.
"""

_FEW_ROWS = 4096
"""Rows among which a search for neighbors takes no time to speak of."""

_MOST_POINTS = 16_384
"""Points of a KNN density: a search takes time for each of them."""

_NEIGHBORS_WITHOUT_LABEL = 6
"""Neighbors of a density of all rows. Of fewer, rows like one another are less unusual than they
are where some training rows are faults; of more, faults stand out less from clean rows."""

_LEAST_BALL, _LEAST_BALL_OF_MIXED = 0.5, 0.75
"""Smallest balls of such a density: what is not dense is unusual, and next to other columns how
dense the densest rows are says too much."""

_MOST_COORDINATES = 1 << 22
"""Points times columns of such a density: 32 MB."""

SpecOf = Callable[..., ModelSpec]
"""The spec of blocks and notes, with the label, prior and other arguments of the caller."""

_AS_GOOD = 1.01
"""Largest ratio of the log losses of an earlier spec and a new one at which the former is kept."""

_COMPARED_ROWS = 16_384
"""Rows of the sample on which an earlier spec is compared with a new one: half of the time."""

_SIMPLE_NAME = re.compile(r"[^\W_][\w \-+.,()%=]{0,63}")
"""Names of columns that can name blocks, and thereby files, on every system."""


@checks_arguments
@draws_progress("choosing blocks")
def auto(
    source: Any,
    label: ColumnName | None,
    *,
    effort: Effort = "default",
    weight: ColumnName | None = None,
    exclude: str | Iterable[str] = (),
    prior: Prior = "empirical",
    on_scarce: OnScarce = "pool",
    max_classes: int | None = None,
    groups: GroupsOption = PARTITIONS,
    half_life: HalfLifeOption = None,
    sql: bool = False,
    like: ModelSpec | None = None,
    partition: Mapping[str, Any] | None = None,
    where: Where = None,
    cache: CacheOption = None,
    engine: EngineOption = None,
    workers: int | None = None,
    progress: ProgressOption = None,
) -> ModelSpec:
    """A spec for a table: what each column is, and which blocks tell the classes apart.

    It reads the rows once and chooses blocks on a sample of at most 32,768 of them. Blocks have
    fitted weights, see `block_weights`; the fewest that predict as well as all are kept:

    - ``"fast"``: a block for each column. Numbers are ``discretized``, text, bools and integers
      with few values ``categorical``, lists and maps of terms ``multinomial``.
    - ``"default"``: also a block for each of up to 60 pairs of columns that depend on each
      other within the classes, and of up to 20 pairs of numbers in finer bins, blocks for up to
      30 groups of three to five columns that tell of the class only together, and normal
      densities of all numbers. All are closed forms; but up to 4,096 rows without groups, dates
      and times also have densities of neighbors where these lower the log loss by 5 %.
    - ``"best"``: also densities of nearest neighbors of all numbers, which score more slowly.

    Columns without values, constants, keys, copies of the label, dates as text, and types that
    no estimator models are left out. Dates and times are tried by their parts: the hour if the
    times of day differ, the weekday if the rows cover two weeks, the month if they cover a
    year. Text that is numbers but for a few markers such as ``?`` or ``NA`` is read as numbers.
    `notes` of the spec has each decision as a sentence.

    Without a label the spec is a density of all rows: all numbers are one ``knn_density`` block
    of at most 16,384 points, a sample, at distances in units of the quartiles of each column;
    every other column is counted alone, a null as a value of its own. With `sql`, or the effort
    ``"fast"``, it is a closed form: bins and counts of each column, which `sql` alone
    conditions on the other column that it depends on most. Its log p(x) is
    `Model.score_samples`.

    Given a schema, or a reader, whose rows can be read only once, the columns are what their
    types say, and the effort is ``"fast"``.

    Args:
        source: table, path, frame or dataset, see `open_table`; or a schema.
        label: the class column; None for a density of all rows.
        effort: ``"fast"``, ``"default"`` or ``"best"``.
        weight: the column of sample weights, or None.
        exclude: column to leave out, or several; also parts of dates such as ``hour(pickup)``.
        prior: as for `ModelSpec`.
        on_scarce: as for `ModelSpec`. With ``"error"``, joint densities that the sample does
            not suffice for are left out.
        max_classes: as for `ModelSpec`.
        groups: as for `ModelSpec`; blocks are chosen by what they say of rows of other groups.
        half_life: as for `ModelSpec`; blocks are chosen on rows that all count the same.
        sql: whether SQL will score the rows, which cannot search for neighbors: no block does.
        like: an earlier spec, such as that of yesterday's model. Its blocks are kept, cuts of
            pairs included, if their log loss on the sample is at most 1 % above that of the
            blocks found now; then a fit with the same `cache` reads new units only.
        partition: partition to read, as for `fit`, like the arguments that follow.
        where: rows to read.
        cache: model store in which the statistics of units are cached.
        engine: engine that reads and summarizes. The spec does not depend on it.
        workers: number of workers of the engine.
        progress: True for a bar, or a function that progress is reported to.

    Raises:
        SpecError: if a named column is missing, no column is left to model, `effort` is
            unknown, a schema has a column of a type that no estimator models by default, or
            `like` is not a spec for this label.
        DataError: if a column contains an invalid value, or the label too many values.
        TableError: if the table or partition does not exist or cannot be read.
    """
    _check_like(like, label)
    exclude = (exclude,) if isinstance(exclude, str) else tuple(exclude)
    groups = check_groups(groups, label)
    spec_of = partial(
        ModelSpec,
        label,
        prior=prior,
        weight=weight,
        block_weights=None if label is None else "fit",
        groups=groups,
        half_life=half_life,
        on_scarce=on_scarce,
        max_classes=max_classes,
    )
    if isinstance(source, pa.Schema):
        columns = _named_columns(source, label, weight, exclude)
        _refuse_types(columns, source)
        return _spec_by_types(spec_of, columns, label, like)
    table = open_table(source)
    columns = _named_columns(table.schema, label, weight, exclude)
    if table.read_once:  # its rows can be read once, by the training
        return _spec_by_types(spec_of, columns, label, like)
    if groups == tuple(table.partition_columns):
        groups = PARTITIONS
        spec_of = partial(spec_of, groups=groups)
    used = [*(column.name for column in columns.used), *columns.dates]
    alike = [name for name in used if isinstance(groups, tuple) and name in groups]
    keys = [name for name in table.partition_columns if name in used]
    if alike and {*alike} <= {*keys}:  # such as the day of a table by region and day
        keys = []
    reasons = dict.fromkeys(alike, "they tell which rows are alike")
    columns = columns.without(reasons | dict.fromkeys(keys, "the table is partitioned by them"))
    known = () if like is None else like.features
    columns = _at_a_glance(columns, table, partition, where, known)
    candidates = candidate_parts(columns)
    spec = _one_block_each(spec_of, candidates, label)
    spec = spec.with_groups_of(table.partition_columns)  # a sample knows the values of columns
    rows = TrainingRows(table, spec, partition=partition, where=where, cache=cache, complete=True)
    with open_engine(engine, workers) as opened:
        statistics = rows.summarize(spec, opened, progress, by_group=False)
    check_classes(statistics.classes, spec, statistics.labeled_rows)
    if statistics.sample is None or (label is not None and statistics.classes.num_rows < 2):
        return _spec_by_types(spec_of, columns, label, like)
    return _Structure.of(candidates, statistics, effort, sql, known).spec(spec_of, like)


def _check_like(like: ModelSpec | None, label: str | None) -> None:
    """Refuse an earlier spec that is not a ModelSpec, or is for another label."""
    if like is None:
        return
    if not isinstance(like, ModelSpec):
        raise SpecError(
            f"like must be a ModelSpec, got {shown(like)}; load a model and pass its spec."
        )
    if like.label != label:
        raise SpecError(
            f"like is a spec for the label {like.label!r}, not {label!r}; pass one for this label."
        )


def _named_columns(
    schema: pa.Schema, label: str | None, weight: str | None, exclude: Sequence[str]
) -> Columns:
    """The columns by their types; raises an error for names that the table lacks."""
    named = (*(name for name in (label, weight) if name is not None), *exclude)
    known = set(schema.names)
    known |= {name for name in exclude if (part := part_of(str(name))) and part.column in known}
    missing = [name for name in dict.fromkeys(named) if name not in known]
    if missing:
        noun = "column" if len(missing) == 1 else "columns"
        raise SpecError(
            f"no {noun} {', '.join(map(repr, missing))}; the table has {one_of(schema.names)}."
            + nearest(str(missing[0]), schema.names)
        )
    return columns_of(schema, named)


def _refuse_types(columns: Columns, schema: pa.Schema) -> None:
    """Refuse columns that are left out for their types."""
    names = [name for of_reason in columns.left_out.values() for name in of_reason]
    if names:
        found = ", ".join(f"column {name!r} is {schema.field(name).type}" for name in names)
        it = "it" if len(names) == 1 else "them"
        raise SpecError(
            f"{found}, which no default estimator models; leave {it} out with exclude={names!r} "
            "(--exclude), or build the spec by hand."
        )


def _at_a_glance(
    columns: Columns,
    table: Source,
    partition: Mapping[str, Any] | None,
    where: Where,
    known: Sequence[str],
) -> Columns:
    """The columns without keys, and with the numbers of text, by the first rows."""
    text = [column.name for column in columns.used if column.kind == "category"]
    if not text:
        return columns
    batches = Selection(table, partition, where).plan(text).batches(_GLANCE_ROWS)
    rows = next((batch for batch in batches if batch.num_rows), None)
    if rows is None:
        return columns
    columns = numbers_at_a_glance(columns, rows, table.schema.names, known)
    return keys_at_a_glance(columns, rows)


def _one_block_each(spec_of: SpecOf, columns: Columns, label: str | None) -> ModelSpec:
    """One block for each column, named by its place, with weights."""
    _require_columns(columns, label)
    blocks = [column.block(f"column {place}") for place, column in enumerate(columns.used)]
    # Whatever is scarce: these blocks say what the columns are.
    return replace(spec_of(blocks=blocks), on_scarce="pool", half_life=None)


def _require_columns(columns: Columns, label: str | None) -> None:
    if not columns.used:
        reasons = "".join(f" {note}" for note in _notes_on_columns(columns))
        besides = "" if label is None else f" besides the label {label!r}"
        raise SpecError(f"no column is left to model{besides}.{reasons}")


def _spec_by_types(
    spec_of: SpecOf, columns: Columns, label: str | None, like: ModelSpec | None
) -> ModelSpec:
    """The blocks of an earlier spec, or one for each column, without a look at the values."""
    columns = parts_by_types(columns)
    _require_columns(columns, label)
    notes = [*_notes_on_columns(columns), "The values of the columns were not looked at."]
    if (earlier := _as_before(spec_of, like, columns, notes)) is not None:
        return earlier
    names = _Names()
    blocks = [column.block(names.of(column.name)) for column in columns.used]
    return spec_of(blocks=blocks, notes=tuple(notes))


def _as_before(
    spec_of: SpecOf, like: ModelSpec | None, columns: Columns, notes: list[str]
) -> ModelSpec | None:
    """The spec of the blocks of an earlier one.

    None if there is none, or columns of it are not used, which is added to the notes.
    """
    if like is None:
        return None
    if lost := _not_used(like, columns):
        notes.append(f"The blocks are not those of like, which reads {listed(lost)}.")
        return None
    notes = [*notes, "The blocks are those of like."]
    return spec_of(blocks=like.blocks, density=like.density, notes=tuple(notes))


def _not_used(spec: ModelSpec, columns: Columns) -> list[str]:
    """The features of a spec that are not among the columns to model."""
    used = {column.name for column in columns.used}
    used |= possible_parts(columns) | possible_numbers(columns)
    return [name for name in spec.features if name not in used]


@dataclass(frozen=True)
class _Structure:
    """What a model can be built of.

    Attributes:
        columns: the columns by their values.
        statistics: of one block for each column, over all rows.
        sample: sample of the rows with label and all columns; see `kinds.sample`.
        effort: as for `ModelSpec.auto`.
        sql: as for `ModelSpec.auto`.
    """

    columns: Columns
    statistics: Statistics
    sample: pa.Table
    effort: Effort
    sql: bool

    @classmethod
    def of(
        cls,
        columns: Columns,
        statistics: Statistics,
        effort: Effort,
        sql: bool,
        known: Sequence[str],
    ) -> _Structure:
        """The structure for statistics of one block for each column."""
        spec, sample = statistics.spec, statistics.sample
        assert sample is not None
        types = {field.name: field for field in statistics.features}
        sample = sample.cast(pa.schema([types.get(field.name, field) for field in sample.schema]))
        columns = numbers_by_values(parts_by_values(columns, sample), statistics, known)
        columns = columns_by_values(columns, statistics, sample)
        columns = without_copies(columns, sample)
        _require_columns(columns, spec.label)
        return cls(columns, statistics, sample, effort, sql)

    def spec(self, spec_of: SpecOf, like: ModelSpec | None) -> ModelSpec:
        """The spec of the blocks that help, or of those of an earlier spec if they are as good."""
        if self.statistics.spec.label is None:
            return self._without_label(spec_of, like)
        if like is None:
            return self._search(spec_of)[0]
        compared = replace(self, sample=self.sample.slice(0, _COMPARED_ROWS))
        found, log_loss = compared._search(spec_of)
        as_good, note = compared._compare(like, log_loss)
        if as_good:
            notes = [*_notes_on_columns(self.columns), *self._notes_on_giveaways()]
            return spec_of(blocks=like.blocks, density=like.density, notes=(*notes, note))
        return replace(found, notes=(*found.notes, note))

    def _without_label(self, spec_of: SpecOf, like: ModelSpec | None) -> ModelSpec:
        """The spec of a density of all rows: neighbors of the numbers, counts of the others.

        Without neighbors it is a network of all columns. The blocks of an earlier spec are kept.
        """
        notes = _notes_on_columns(self.columns)
        if (earlier := _as_before(spec_of, like, self.columns, notes)) is not None:
            return earlier
        used, names = self.columns.used, _Names()
        numbers = [column.name for column in used if column.has_squares]
        if self.sql or self.effort == "fast" or not numbers:
            return spec_of(blocks=self._network(used, names), notes=tuple(notes))
        points = max(1, min(_MOST_POINTS, _MOST_COORDINATES // len(numbers)))
        neighbors = Block(
            "knn_density",
            numbers,
            names.of("knn_density"),
            k=_NEIGHBORS_WITHOUT_LABEL,
            scale="robust",
            least_ball=_LEAST_BALL if len(numbers) == len(used) else _LEAST_BALL_OF_MIXED,
            missing="mean",
            points=points,
        )
        if self.statistics.rows > points:
            notes.append(
                f"The density of the {len(numbers)} numbers is that of {points:,} of the "
                f"{self.statistics.rows:,} rows, a sample."
            )
        rest = [column for column in used if column.name not in numbers]
        blocks = [neighbors, *(column.block(names.of(column.name)) for column in rest)]
        return spec_of(blocks=blocks, notes=tuple(notes))

    def _search(self, spec_of: SpecOf) -> tuple[ModelSpec, float]:
        """The spec of the fewest candidates that predict as well as all, and their log loss."""
        names = _Names()
        candidates = self._candidates(names)
        joint = [*candidates["normals"], *candidates["neighbors"]]
        statistics = self._summarize([block for kind in candidates.values() for block in kind])
        statistics, failures = self._without_failures(spec_of, statistics, joint)
        costly = candidates["neighbors"] if self.effort != "best" else []
        kept, log_loss = fewest_blocks(
            product(statistics), statistics, [str(block.name) for block in costly]
        )
        chosen = [block for block in statistics.spec.blocks if block.name in kept]
        notes = _notes_on_columns(self.columns)
        notes += self._notes_on_giveaways()
        if alike := self.statistics.spec.group_columns:
            notes.append(
                f"Rows with the same {listed(alike)} are alike: blocks were chosen, and are "
                "weighed, by what they say of rows of other groups than they were trained on."
            )
        notes += self._notes_on_blocks(candidates, statistics.spec.blocks, chosen)
        notes += failures
        if not chosen:
            chosen = candidates["columns"][:1]
            notes.append("No column tells the classes apart on rows that a model did not see.")
        density = self._density(chosen, names)
        names_of_density = [block.name for block in density]
        blocks = [*chosen, *density]
        return spec_of(blocks=blocks, density=names_of_density, notes=tuple(notes)), log_loss

    def _candidates(self, names: _Names) -> dict[str, list[Block]]:
        """The blocks to choose from, by what they are of."""
        columns = [column.block(names.of(column.name)) for column in self._telling]
        several = self.effort != "fast"
        pairs, groups = self._conditionals(names) if several else ([], [])
        in_finer_bins = several and not self._times_without_groups
        return {
            "columns": columns,
            "pairs": pairs,
            "fine pairs": [*self._fine_pairs(names)] if in_finer_bins else [],
            "groups": groups,
            "normals": [*self._normals(names)] if several else [],
            "neighbors": [*self._neighbors(names)] if self._takes_neighbors else [],
        }

    def _density(self, pool: Sequence[Block], names: _Names) -> list[Block]:
        """The blocks of log p(x): each column that the pool reads, given one other; see `tree`."""
        read = {column for block in pool for column in block.inputs}
        return self._network(
            [column for column in self.columns.used if column.name in read], names, ", density"
        )

    def _network(self, used: Sequence[Column], names: _Names, how: str = "") -> list[Block]:
        """The blocks of each column given one other, with more in their names; see `tree`."""
        columns = [self._in_equal_bins(column) for column in used if column.kind != "terms"]
        most = 0 if self.effort == "fast" else len(columns) ** 2
        pairs = dependent_pairs(self._levels(columns), most)
        blocks = []
        for column, parent in zip(columns, tree(pairs, len(columns)), strict=True):
            parents = [] if parent is None else [columns[parent]]
            blocks.append(self._conditional(column, parents, names, how))
        terms = [column for column in used if column.kind == "terms"]
        return [*blocks, *(column.block(names.of(f"{column.name}{how}")) for column in terms)]

    def _in_equal_bins(self, column: Column) -> Column:
        """A column with bins for the density: a number of many values has a few of equal weight."""
        if not column.has_bins:
            return column
        values = self.sample[column.name].cast(pa.float64(), safe=False).to_numpy()
        counts = self.sample[COUNT].to_numpy()
        (cuts,) = equal_cuts(values, counts, [_DENSITY_BINS])
        return replace(column, cuts=cuts)

    def _levels(self, columns: Sequence[Column]) -> Levels:
        """Numbers and categories of the sample as levels."""
        encoded = [level_codes(column, self.sample) for column in columns]
        counts = self.sample[COUNT].to_numpy() / self.statistics.row_weight
        codes, sizes = [code for code, _ in encoded], [size for _, size in encoded]
        return Levels(codes, sizes, self._truth, counts, self.statistics.classes.num_rows)

    def _conditionals(self, names: _Names) -> tuple[list[Block], list[Block]]:
        """Blocks of columns given one other, and of columns given more.

        The columns of a group, the one that tells least of the class first, are a chain: each is
        given those before it, so that their blocks together are the joint density of the group.
        No column is given a part of a date, and no group has one: the sample has rows of each
        weekday of a month, which are a few days, and later rows are of other days.
        """
        columns = [column for column in self._telling if column.kind != "terms"]
        levels = self._levels(columns)
        most = min(_MOST_PAIRS, _MOST_PAIR_CLASSES // levels.classes)
        factors: dict[frozenset[int], tuple[int, ...]] = {
            frozenset((pair.child, pair.parent)): (pair.child, pair.parent)
            for pair in dependent_pairs(levels, most)
            if not columns[pair.parent].is_part
        }
        lasting = [place for place, column in enumerate(columns) if not column.is_part]
        binned = [columns[place].has_bins for place in lasting]
        most = min(_MOST_GROUPS, _MOST_GROUP_CLASSES // levels.classes)
        for found in GroupSearch(levels.of(lasting), binned).groups(most):
            group = [lasting[place] for place in found]
            for part in (group[:end] for end in range(2, len(group) + 1)):
                factors.setdefault(frozenset(part), tuple(reversed(part)))
        blocks = [
            self._conditional(columns[child], [columns[parent] for parent in parents], names)
            for child, *parents in factors.values()
        ]
        return [b for b in blocks if len(b.given) == 1], [b for b in blocks if len(b.given) > 1]

    @property
    def _times_without_groups(self) -> bool:
        """Whether rows have dates or times, so that near ones are alike, and no groups tell which.

        Left out alone, a row is recognized by the fine cells that its neighbors in time are in.
        """
        parts = map(part_of, self.statistics.features.names)
        dated = any(part is not None and part.name in PARTS for part in parts)
        return dated and not self.statistics.spec.group_columns

    def _fine_pairs(self, names: _Names) -> Iterator[Block]:
        """Blocks of numbers given another, both in finer bins, in both directions."""
        numbers = [column for column in self._telling if column.has_bins and not column.is_part]
        values = [
            self.sample[column.name].cast(pa.float64(), safe=False).to_numpy() for column in numbers
        ]
        levels = self._levels(numbers)
        most = min(_MOST_FINE_PAIRS, _MOST_FINE_PAIR_CLASSES // levels.classes)
        own = levels.counts if equal_rows_are_copies(self.sample) else None
        for pair in fine_pairs(values, levels, most, own):
            for first_cuts, second_cuts in pair.cuts:
                first = replace(numbers[pair.first], cuts=first_cuts)
                second = replace(numbers[pair.second], cuts=second_cuts)
                for child, parent in ((first, second), (second, first)):
                    bins = f", {len(second_cuts) + 1} bins"
                    yield self._conditional(child, [parent], names, bins, strength=LEAVE_ONE_OUT)

    def _conditional(
        self,
        child: Column,
        parents: Sequence[Column],
        names: _Names,
        how: str = "",
        **options: Any,
    ) -> Block:
        """The block of a column, given others if any, with more in its name and options."""
        every = [child, *parents]
        cuts = {one.name: list(one.cuts) for one in parents if one.is_number}
        if child.kind == "number":
            cuts[child.name] = list(child.cuts)
        options = {**child.block().options, **options}
        if child.kind == "category" and parents:
            options["strength"] = LEAVE_ONE_OUT
        if cuts:
            options["cuts"] = cuts
        if any(one.null_level for one in every):
            options["missing"] = "level"
        given = [parent.name for parent in parents]
        name = " given ".join([child.name, ", ".join(given)]) if given else child.name
        name = names.of(name + how)
        return Block(child.block().estimator, child.name, name, given=given, **options)

    def _normals(self, names: _Names) -> Iterator[Block]:
        """Normal densities of all numbers: a covariance for each class, and one for all."""
        numbers = self._numbers()
        if len(numbers) < 2:
            return
        for estimator in ("gaussian_full", "gaussian_shared"):
            yield Block(estimator, numbers, names.of(estimator), ridge=_RIDGE)

    @property
    def _takes_neighbors(self) -> bool:
        """Whether densities of neighbors are tried: if asked for, or if they cost nothing."""
        if self.sql or self.effort == "fast":
            return False
        alike = self.statistics.spec.group_columns or self._times_without_groups
        return self.effort == "best" or (self.statistics.rows <= _FEW_ROWS and not alike)

    def _neighbors(self, names: _Names) -> Iterator[Block]:
        """KNN densities of all numbers, with few neighbors and with more."""
        numbers = self._numbers()
        slow = self.effort != "best" or (
            len(numbers) > _FEW_NUMBERS and self.sample.num_rows > _MANY_ROWS
        )
        for k in _NEIGHBORS[: -1 if slow else None]:
            if numbers and 2 * k <= self.sample.num_rows:
                yield Block(
                    "knn_density",
                    numbers,
                    names.of(f"knn_density of {k}"),
                    k=k,
                    pseudo_count=1.0,
                    scale="standard",
                    missing="mean",
                    points=_MOST_POINTS,
                )

    def _numbers(self) -> list[str]:
        """Columns of joint densities: all of them, or those that tell most of the class alone."""
        numbers = [column for column in self._telling if column.has_squares]
        if len(numbers) < 2:
            numbers = [column for column in self.columns.used if column.has_squares]
        if len(numbers) > _MOST_NUMBERS:
            losses = class_losses(numbers, self.sample, self._truth)
            # Rounded, so that ties are ties on every machine.
            order = sorted(range(len(numbers)), key=lambda place: (round(losses[place], 6), place))
            numbers = [numbers[place] for place in sorted(order[:_MOST_NUMBERS])]
        return [column.name for column in numbers]

    @cached_property
    def _telling(self) -> Sequence[Column]:
        """Columns that have blocks of their own, in pairs and in groups.

        Where columns are very many, each must tell more of the class alone than the best of so many
        does by chance: of d columns that say nothing, about log d nats over all rows.
        """
        columns = self.columns.used
        if len(columns) <= _MANY_COLUMNS:
            return columns
        alone = [column for column in columns if column.kind != "terms"]
        losses = class_losses(alone, self.sample, self._truth)
        nothing = class_loss(self.sample, self._truth)
        chance = np.log(len(columns)) * self.statistics.row_weight
        telling = {
            column.name
            for column, loss in zip(alone, losses, strict=True)
            if nothing - loss > chance or loss == min(losses)
        }
        return [column for column in columns if column.kind == "terms" or column.name in telling]

    @cached_property
    def _truth(self) -> IntArray:
        """Class of each row of the sample, by its place."""
        label = self.statistics.spec.label
        if label is None:
            return np.zeros(self.sample.num_rows, np.intp)
        classes = self.statistics.classes["class"].combine_chunks()
        return label_codes(self.sample[label], classes)

    def _without_failures(
        self, spec_of: SpecOf, statistics: Statistics, joint: Sequence[Block]
    ) -> tuple[Statistics, list[str]]:
        """Statistics without joint densities that rows do not suffice for, and notes on these."""
        classes = statistics.classes["class"].combine_chunks()
        estimators = bind(spec_of(blocks=joint), statistics.features) if joint else {}
        notes, failed = [], []
        for name, estimator in estimators.items():
            try:
                estimator.finalize(statistics.blocks[name], classes)
            except DataError as error:
                notes.append(f"The block {name!r} is left out: {error}")
                failed.append(name)
        blocks = tuple(block for block in statistics.spec.blocks if block.name not in failed)
        return statistics.of_spec(replace(statistics.spec, blocks=blocks)), notes

    def _compare(self, like: ModelSpec, log_loss: float) -> tuple[bool, str]:
        """Whether the blocks of an earlier spec are as good as those found now, and a note on it.

        Args:
            like: the earlier spec.
            log_loss: log loss of the blocks found now, on rows that they did not see.
        """
        lost = _not_used(like, self.columns)
        if lost:
            return False, f"The blocks are not those of like, which reads {listed(lost)}."
        try:
            fitted = finalize(self._summarize(like.pool), early=True).training["block_weights"]
        except (DataError, SpecError) as error:
            return False, f"The blocks are not those of like: {error}"
        before = float(fitted["log_loss"])
        losses = f"{before:.4g} in place of {log_loss:.4g} for blocks chosen anew"
        if before <= _AS_GOOD * log_loss:
            return True, f"The blocks are those of like; their log loss is {losses}."
        return False, f"The blocks are not those of like, whose log loss would be {losses}."

    def _summarize(self, blocks: Sequence[Block]) -> Statistics:
        """Statistics of the sample under other blocks; a row counts as often as it occurs."""
        spec, rows = self.statistics.spec, self.sample.drop_columns(HASH)
        candidate = ModelSpec(
            spec.label,
            blocks,
            spec.prior,
            COUNT,
            block_weights="fit",
            groups=spec.groups,
            max_classes=spec.max_classes or MAX_CLASSES,  # a sample has fewer rows of each
        )
        statistics = summarize_batches(candidate, rows.schema, rows.to_batches())
        # Rules that count rows, such as those of cuts, count all that a row of the sample is for.
        classes = statistics.classes
        counts = np.rint(classes["count"].to_numpy() / self.statistics.row_weight).astype(np.int64)
        place = classes.schema.get_field_index("rows")
        classes = classes.set_column(place, "rows", pa.array(counts))
        return replace(statistics, tables={**statistics.tables, "classes": classes})

    def _notes_on_giveaways(self) -> Iterator[str]:
        columns = [column for column in self.columns.used if column.kind != "terms"]
        label = self.statistics.spec.label
        names = giveaways(columns, self.sample, self._truth)
        if names and self.statistics.rows >= ENOUGH_ROWS:
            gives, them = ("each give", "them") if len(names) > 1 else ("alone gives", "it")
            yield (
                f"{listed(names)} {gives} {label!r} nearly without error: exclude {them} if "
                f"{label!r} is made from {them}, or is known before {them}."
            )

    def _notes_on_blocks(
        self,
        candidates: Mapping[str, Sequence[Block]],
        weighed: Sequence[Block],
        chosen: Sequence[Block],
    ) -> Iterator[str]:
        if self.sample.num_rows in (SAMPLE_ROWS, _COMPARED_ROWS):
            yield (
                f"The blocks were chosen on a sample of {self.sample.num_rows:,} of the "
                f"{self.statistics.rows:,} rows."
            )
        total = int(self.sample[COUNT].to_numpy().sum())
        copies = total - self.sample.num_rows
        if self.statistics.spec.weight is None and equal_rows_are_copies(self.sample):
            yield (
                f"{copies:,} of {total:,} rows are exact copies of others: blocks were chosen, and "
                "are weighed, by what they say of a row without its copies."
            )
        if pairs := candidates["pairs"]:
            kept = sum(block in chosen for block in pairs)
            yield (
                f"Pairs of columns that are blocks of their own: {kept} of the {len(pairs)} that "
                "depend on each other most within the classes."
            )
        if self._times_without_groups and self.effort != "fast":
            yield (
                "Pairs of numbers in finer bins were not tried: rows near in time are alike, and "
                "no groups tell which are; name them, as in groups='day'."
            )
        if fine := candidates["fine pairs"]:
            kept = sum(block in chosen for block in fine)
            yield (
                f"Pairs of numbers in finer bins than each has alone: {kept} blocks of the "
                f"{len(fine)} that gain most."
            )
        groups = candidates["groups"]
        if acting := [str(block.name) for block in groups if block in chosen]:
            yield f"Three columns and more act together in the blocks {listed(acting)}."
        elif groups:
            yield "No three columns act together so that a block of them helps the others."
        for block in (*candidates["normals"], *candidates["neighbors"]):
            if block in chosen:
                yield f"The block {block.name!r} models {len(block.columns)} numbers jointly."
            elif block in weighed:
                yield f"The block {block.name!r} is left out: it does not help the others enough."
        read = {column for block in chosen for column in block.inputs}
        used = [column for column in self.columns.used if column.name in read]
        if integers := [column.name for column in used if column.is_category_of_numbers]:
            yield f"Integers taken as categories: {listed(integers)}."
        if nulls := [column.name for column in used if column.null_level]:
            yield f"A null is a level of its own in {listed(nulls)}."
        unused = [column.name for column in self.columns.used if column.name not in read]
        if unused:
            yield f"Columns left out because they do not help the others: {listed(unused)}."


def _notes_on_columns(columns: Columns) -> list[str]:
    left_out = [
        f"Columns left out because {reason}: {listed(names)}."
        for reason, names in columns.left_out.items()
    ]
    return [*left_out, *columns.notes]


class _Names:
    """Names of blocks that are unique, and can name files."""

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
