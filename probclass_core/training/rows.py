"""The rows of a training, summarized unit by unit: ``merge(map(summarize, units))``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import compress
from operator import not_
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import pyarrow as pa

from probclass_core.arrow.parts import feature_schema
from probclass_core.errors import DataError, ProbClassError, SpecError, one_of
from probclass_core.estimation.statistics import (
    Statistics,
    accumulator,
    merge,
    merge_groups,
    summarize_batches,
)
from probclass_core.execution.engine import Engine
from probclass_core.execution.progress import ProgressOption, RowCounter
from probclass_core.io.filters import Where
from probclass_core.io.open import open_table
from probclass_core.io.selection import Selection
from probclass_core.io.table import Plan, Unit
from probclass_core.model.finalize import ordered_groups
from probclass_core.spec.model_spec import PARTITIONS, ModelSpec

if TYPE_CHECKING:
    from probclass_core.store.statistics_cache import CachedStatistics, CacheOption, StatisticsCache


@runtime_checkable
class AggregatingUnit(Protocol):
    """A unit whose statistics may be computed without reading its rows here."""

    def aggregate(self, spec: ModelSpec) -> Statistics | None:
        """The statistics of the rows for a model, or None if the rows must be read.

        Raises:
            SpecError, DataError, TableError: as `summarize_batches` and `Unit.read`.
        """
        ...


class _DamagedEntryError(Exception):
    """The statistics of a file whose footer was not read are damaged or removed."""


class _DoubtfulEntryError(Exception):
    """The merged statistics are not valid, so that one of the cached ones may not be."""


class TrainingRows:
    """The rows that a model is trained on, planned once and read in one or more passes.

    Args:
        source: table, path or object; see `open_table`.
        spec: model of the first pass.
        partition: partition to read, or None for all.
        where: rows to read, or None for all.
        cache: where statistics of units are cached; see `fit`.
        complete: whether the training has no other rows, so that their number says whether the
            label can be classes before all are read.
        shard: position of the first unit to read and the one after the last; None for all.

    Attributes:
        plan: units to read.
        passes: number of passes made.
        groups: after `summarize`, the statistics of the groups of partitions, in order, that
            weights are fitted across, see `ModelSpec.groups`, and that count less the older they
            are, see `ModelSpec.half_life`; none if there are fewer than two.
        ages: by how many partitions each group is older than the newest partition, on average.
        cached: cached statistics of the units, or None without a cache, or for statistics that
            grow with the rows, which are not cached.
    """

    def __init__(
        self,
        source: Any,
        spec: ModelSpec,
        *,
        partition: Mapping[str, Any] | None,
        where: Where,
        cache: CacheOption,
        complete: bool = False,
        shard: tuple[int, int] | None = None,
    ) -> None:
        self._cache = _open_cache(cache)
        self.cached = self._cached_statistics(spec)
        self._footers = {} if self.cached is None else self.cached.footers
        table = open_table(source)
        if self.cached is not None:
            table = table.with_footer_cache(self._footers)
        self._selection = Selection(table, partition, where)
        groups = spec.group_columns if spec.takes_sample else ()
        self._columns = (spec.label_and_weight, (*spec.features, *groups))
        self._shard = shard
        self.plan = self._planned()
        self._open_files_to_read()
        self.passes = 0
        self.groups: Sequence[Statistics] = ()
        self.ages: Sequence[float] = ()
        self._most_rows = self.plan.rows if complete else None

    def summarize(
        self,
        spec: ModelSpec,
        engine: Engine,
        progress: ProgressOption,
        *,
        by_group: bool = True,
    ) -> Statistics:
        """Summarize all rows in one pass.

        Args:
            spec: model of this pass; see `refine`.
            engine: engine that runs the work.
            progress: see `ProgressOption`.
            by_group: whether `groups` are wanted.

        Raises:
            DataError: if this is a second pass over a reader, which can be read once.
        """
        if self.passes:
            if self._selection.table.read_once:
                raise DataError(
                    "the model needs another pass over the rows, and a reader can be read only "
                    "once; pass a table or a path."
                )
            self.cached = self._cached_statistics(spec)
            self._open_files_to_read()
        self.passes += 1
        while True:
            try:
                return self._summarize(spec, engine, progress, by_group)
            except _DamagedEntryError:
                self._forget_footers([*self._footers])
            except _DoubtfulEntryError:
                assert self.cached is not None
                self.cached.checks_each = True

    def _summarize(
        self, spec: ModelSpec, engine: Engine, progress: ProgressOption, by_group: bool
    ) -> Statistics:
        if self.cached is not None:
            self.cached.reused = 0
        counter = RowCounter(progress, self.plan.rows)
        work = SummarizeUnit(spec, self.plan.schema, self._most_rows)
        numbers = self._group_numbers(spec) if by_group else ()
        parts = summarize_plan(self.plan, work, engine, self.cached, counter.add, numbers)
        self.groups = parts if len(parts) > 1 else ()
        with _doubt_entries(self.cached):
            statistics = merge(parts) if len(parts) > 1 else parts[0]
            if self.cached is not None and self.cached.reused:
                # Each entry has a checksum. To check what they are merged to takes less time than
                # to check each, and a model of valid statistics is valid.
                statistics.check()
        return statistics

    def _group_numbers(self, spec: ModelSpec) -> Sequence[int]:
        """The number of its group for each unit; none if partitions do not matter.

        Raises:
            SpecError: if the spec has a half-life in partitions that the table does not have.
        """
        columns = self._selection.table.partition_columns
        names = columns if spec.groups in (PARTITIONS, None) else spec.group_columns
        is_in_order = bool(names) and not {*names} - {*columns}
        half_life = spec.half_life if isinstance(spec.half_life, int | float) else None
        if half_life is not None and not is_in_order:
            raise SpecError(
                f"half_life={half_life:g} counts partitions, and "
                + (f"groups are {one_of(names)}" if names else "the table has none")
                + "; set half_life=None, or train on a table that is partitioned by time."
            )
        across = spec.takes_sample and spec.groups is not None
        if not (is_in_order and self.plan.partitions and (across or half_life)):
            return ()
        places = [columns.index(name) for name in names]
        keys = [tuple(values[place] for place in places) for values in self.plan.partitions]
        numbers, self.ages = ordered_groups(keys, self.plan.unit_rows or [1] * len(keys), half_life)
        return numbers

    def _planned(self) -> Plan:
        try:
            plan = self._selection.plan(*self._columns)
        except ProbClassError:
            # It may be about what a cached footer says, which need not be so.
            if not self._footers:
                raise
            self._footers.clear()
            plan = self._selection.plan(*self._columns)
        return plan if self._shard is None else plan.slice(*self._shard)

    def _open_files_to_read(self) -> None:
        """Plan without the cached footers of files that must be read; see `io.table.Footer`."""
        while self.cached is not None and (
            files := {
                file
                for files, unit in zip(self.plan.from_cache, self.plan.units, strict=False)
                if not self.cached.contains(unit.digest)
                for file in files
            }
        ):
            self._forget_footers(files)

    def _forget_footers(self, files: Collection[str]) -> None:
        for file in files:
            self._footers.pop(file, None)
        self.plan = self._planned()

    @property
    def provenance(self) -> dict[str, Any]:
        """Which rows were read and how, as plain values for ``model.training``."""
        provenance = self._selection.provenance(self.plan)
        if self.passes > 1:
            provenance["passes"] = self.passes
        if self._cache is not None:
            reused = 0 if self.cached is None else self.cached.reused
            provenance["cache"] = {"units": len(self.plan.units), "reused": reused}
        return provenance

    def _cached_statistics(self, spec: ModelSpec) -> CachedStatistics | None:
        return None if self._cache is None else self._cache.for_spec(spec)


def summarize_plan(
    plan: Plan,
    work: SummarizeUnit,
    engine: Engine,
    cached: CachedStatistics | None,
    on_rows: Callable[[int], None],
    groups: Sequence[int] = (),
) -> list[Statistics]:
    """Summarize the units of a plan and merge their statistics in the order of the plan.

    Args:
        plan: units to read.
        work: summarizes a unit.
        engine: engine that runs the work.
        cached: cached statistics of units, or None for no cache.
        on_rows: called with numbers of rows as they are done.
        groups: number of its group for each unit, without gaps; empty if all are one group.

    Returns:
        The statistics of each group.

    Raises:
        DataError, SpecError, PluginError: as `summarize_batches`.
        TableError: if a unit cannot be read.
    """
    if not plan.units:  # an empty table still has columns that must fit the spec
        return [summarize_batches(work.spec, plan.schema, ())]
    groups = groups or [0] * len(plan.units)
    merged = [accumulator() for _ in range(max(groups) + 1)]
    units = _summarize_units(plan, work, engine, cached, on_rows)
    for group, statistics in zip(groups, units, strict=True):
        with _doubt_entries(cached):
            merged[group].add(statistics)
    with _doubt_entries(cached):
        return merge_groups(merged)


@contextmanager
def _doubt_entries(cached: CachedStatistics | None) -> Iterator[None]:
    """Raise a _DoubtfulEntryError for an error that an entry may have caused."""
    try:
        yield
    except Exception as error:
        if cached is None or not cached.reused or cached.checks_each:
            raise
        raise _DoubtfulEntryError from error


@dataclass(frozen=True)
class SummarizeUnit:
    """The work of an engine in training: the statistics of one unit."""

    spec: ModelSpec
    schema: pa.Schema
    most_rows: int | None = None

    def __call__(
        self, unit: Unit, on_rows: Callable[[int], None] = lambda rows: None
    ) -> Statistics:
        if isinstance(unit, AggregatingUnit):
            statistics = unit.aggregate(self.spec)
            if statistics is not None:
                on_rows(statistics.rows)
                return statistics
        return summarize_batches(self.spec, self.schema, unit.read(), on_rows, self.most_rows)


def _summarize_units(
    plan: Plan,
    summarize: SummarizeUnit,
    engine: Engine,
    cached: CachedStatistics | None,
    on_rows: Callable[[int], None],
) -> Iterator[Statistics]:
    """Yield the statistics of the units, in order: from the cache, or summarized and cached."""

    def summarized(units: Iterable[Unit]) -> Generator[Statistics]:
        if engine.in_process:
            yield from engine.map(partial(summarize, on_rows=on_rows), units)
            return
        for statistics in engine.map(summarize, units):
            on_rows(statistics.rows)
            yield statistics

    if cached is None:
        yield from summarized(plan.units)
        return
    features = feature_schema(plan.schema, summarize.spec.features)
    # This thread alone reads and writes the cache, so workers need not reach the store.
    is_cached = [cached.contains(unit.digest) for unit in plan.units]
    computed = summarized(compress(plan.units, map(not_, is_cached)))
    try:
        for position, unit in enumerate(plan.units):
            found = is_cached[position]
            statistics = cached.load(unit.digest, features) if found else None
            if statistics is not None:
                on_rows(statistics.rows)
            else:
                # A cached entry may turn out to be damaged or removed; summarize it after all.
                if found and any(plan.from_cache[position : position + 1]):
                    raise _DamagedEntryError
                statistics = next(summarized([unit]) if found else computed)
                footers = plan.footers[position] if plan.footers else ()
                cached.save(unit.digest, statistics, footers)
            yield statistics
    finally:
        computed.close()  # so that its engine stops now, also after an error that somebody keeps
        cached.flush()


def _open_cache(cache: CacheOption) -> StatisticsCache | None:
    if cache is None or cache is False:
        return None  # and a training without a cache does not import the store
    from probclass_core.store.statistics_cache import StatisticsCache

    return StatisticsCache(cache)
