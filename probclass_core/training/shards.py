"""Shards of a table: which fragments each of many tasks summarizes, so that one can merge.

Tasks on other machines share nothing but the store. Each summarizes its shard and keeps the
statistics of its fragments there (see `store.statistics_cache`); then a fit of the whole table
finds them all, and merges them in the order in which it would have read them itself. So its model
does not depend on shards, and a shard that was lost, or a file that came since, costs a reading.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from probclass_core.errors import SpecError
from probclass_core.estimation.statistics import summarize_batches
from probclass_core.io.filters import Where
from probclass_core.io.footers import with_footer_cache
from probclass_core.io.open import open_table
from probclass_core.io.table import Plan, balanced_parts
from probclass_core.spec import ModelSpec
from probclass_core.store.statistics_cache import CacheOption, StatisticsCache

_TEXT = re.compile(r"(\d+):(\d+)")


@dataclass(frozen=True)
class Shard:
    """Consecutive fragments of a plan; as text, ``"first:stop"``.

    Attributes:
        first: position of the first fragment.
        stop: position after the last one.
    """

    first: int
    stop: int

    def __str__(self) -> str:
        return f"{self.first}:{self.stop}"

    @classmethod
    def parse(cls, shard: Shard | str) -> Shard:
        """A shard, or the one that a text names.

        Raises:
            SpecError: the text names none.
        """
        if isinstance(shard, Shard):
            return shard
        found = _TEXT.fullmatch(shard) if isinstance(shard, str) else None
        if found is None:
            raise SpecError(
                f"{shard!r} is no shard; give one of plan_shards(…).shards, or text such as '0:8'."
            )
        return cls(int(found[1]), int(found[2]))

    def part_of(self, plan: Plan) -> Plan:
        """The plan of these fragments alone; of none, where the table has shrunk meanwhile."""
        return plan.slice(self.first, self.stop)


@dataclass(frozen=True)
class ShardPlan:
    """How a table is to be summarized by many tasks.

    Attributes:
        shards: in order; none where nothing is left to summarize, or nothing can be kept.
        fragments: of the table.
        kept: how many of them the store has the statistics of.
        rows: in the shards, before any filter; those of fragments that are kept not counted.
    """

    shards: tuple[Shard, ...]
    fragments: int
    kept: int
    rows: int


def plan_shards(
    source: Any,
    spec: ModelSpec,
    *,
    cache: CacheOption,
    partition: Mapping[str, Any] | None = None,
    where: Where = None,
    most: int = 100,
    min_rows: int = 1_000_000,
) -> ShardPlan:
    """Cut what is yet to be summarized into shards of about equal numbers of rows.

    Summarize each by ``summarize(…, shard=shard, cache=cache)``, anywhere and in any order, then
    ``fit(…, cache=cache)``, all with the same source, spec, partition and where. What the store
    keeps already is in no shard. Statistics that grow with the rows, such as those of
    ``knn_density``, and rows without an address are not kept: they make no shards, and the fit
    reads them itself.

    Args:
        source: a path or URI; as for `fit`.
        spec: the model.
        cache: the model store, or its URI, that keeps the statistics.
        partition: as for `fit`.
        where: as for `fit`.
        most: shards, at most.
        min_rows: rows that are worth a shard of their own.

    Raises:
        SpecError: there is no cache, a number is below 1, or the spec does not fit the table.
        DataError: a column is not there.
        TableError: the table or partition is not there or cannot be read.
        PluginError: an estimator is unknown.
        StoreError: the cache cannot be opened.
    """
    for name, number in (("most", most), ("min_rows", min_rows)):
        if number < 1:
            raise SpecError(f"{name} must be at least 1, got {number}.")
    opened = StatisticsCache.open(cache)
    if opened is None:
        raise SpecError("shards meet in a model store: give cache=, a ModelStore or its URI.")
    columns = spec.training_columns
    statistics, table = opened.for_spec(spec), open_table(source)
    if statistics is not None:
        table = with_footer_cache(table, statistics)
    plan = table.plan(columns, partition=partition, where=where, allow_dictionaries=True)
    summarize_batches(spec, plan.schema, ())  # refuses a spec that does not fit the columns
    if statistics is None or not plan.fragment_rows:
        return ShardPlan((), len(plan.fragments), 0, 0)
    if statistics.error is not None:
        raise statistics.error
    held = [statistics.contains(fragment.digest) for fragment in plan.fragments]
    sizes = [
        0 if fragment.digest is None or is_held else rows
        for fragment, is_held, rows in zip(plan.fragments, held, plan.fragment_rows, strict=True)
    ]
    shards = _balanced(sizes, most, min_rows)
    return ShardPlan(shards, len(plan.fragments), sum(held), sum(sizes))


def _balanced(sizes: Sequence[int], most: int, min_rows: int) -> tuple[Shard, ...]:
    """Runs of the fragments that have a size, each run of about the same number of rows."""
    total = sum(sizes)
    if not total:
        return ()
    runs: dict[int, list[int]] = {}
    for position, shard in enumerate(balanced_parts(sizes, max(1, min(most, total // min_rows)))):
        if sizes[position]:
            runs.setdefault(shard, []).append(position)
    return tuple(Shard(run[0], run[-1] + 1) for run in runs.values())
