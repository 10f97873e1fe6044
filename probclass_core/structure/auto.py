"""The model spec of a table: roles of columns, then blocks, then those that help.

`auto` summarizes one block per column, over all rows and with the engine and cache of a training.
These statistics and their sample of the rows are the `profile` of the table. `candidates` makes
blocks from it, and `choice` weighs them against each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from probclass_core.arguments import ColumnName, checks_arguments
from probclass_core.arrow.arrays import joined
from probclass_core.arrow.parts import part_of
from probclass_core.errors import SpecError, nearest, one_of, shown
from probclass_core.estimation.kinds.summary import check_classes
from probclass_core.execution.engine import EngineOption
from probclass_core.execution.open import open_engine
from probclass_core.execution.progress import ProgressOption, draws_progress
from probclass_core.io.filters import Where
from probclass_core.io.open import open_table
from probclass_core.io.selection import Selection
from probclass_core.io.table import Source
from probclass_core.spec.model_spec import (
    PARTITIONS,
    Effort,
    GroupsOption,
    HalfLifeOption,
    ModelSpec,
    OnScarce,
    Prior,
    check_groups,
)
from probclass_core.structure.choice import SpecOf, as_before, chosen_spec, readable
from probclass_core.structure.columns import Columns, Names, columns_of, keys_at_a_glance
from probclass_core.structure.parts import candidate_parts, numbers_at_a_glance, parts_by_types
from probclass_core.structure.profile import Profile
from probclass_core.training.rows import TrainingRows

if TYPE_CHECKING:
    from probclass_core.store.statistics_cache import CacheOption

_GLANCE_ROWS = 8192
"""Rows that are read ahead to recognize keys."""


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
      with few values ``categorical``, lists and maps of terms ``multinomial``; integers whose
      values tell more than their bins are both.
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
        sql: whether SQL will score the rows, which cannot search for neighbors, nor use a normal of
            more than four numbers if some are null: no block needs it to.
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
    profile = Profile.of(candidates, statistics, effort, sql, known)
    return chosen_spec(profile, spec_of, like)


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
    rows = next(joined(batches, _GLANCE_ROWS), None)  # of several partitions if they are small
    if rows is None or not rows.num_rows:
        return columns
    columns = numbers_at_a_glance(columns, rows, table.schema.names, known)
    return keys_at_a_glance(columns, rows)


def _one_block_each(spec_of: SpecOf, columns: Columns, label: str | None) -> ModelSpec:
    """One block for each column, named by its place, with weights."""
    columns.require_some(label)
    blocks = [column.block(f"column {place}") for place, column in enumerate(columns.used)]
    # Whatever is scarce: these blocks say what the columns are.
    return replace(spec_of(blocks=blocks), on_scarce="pool", half_life=None)


def _spec_by_types(
    spec_of: SpecOf, columns: Columns, label: str | None, like: ModelSpec | None
) -> ModelSpec:
    """The blocks of an earlier spec, or one for each column, without a look at the values."""
    columns = parts_by_types(columns)
    columns.require_some(label)
    like, lost = readable(like, columns)
    notes = [*columns.decisions, "The values of the columns were not looked at.", *lost]
    if like is not None:
        return as_before(spec_of, like, notes)
    names = Names()
    blocks = [column.block(names.of(column.name)) for column in columns.used]
    return spec_of(blocks=blocks, notes=tuple(notes))
