"""Shards of a table: the units that each of many tasks summarizes, so that one can merge.

Tasks on different machines share only the model store. Each summarizes its shard and caches the
statistics of its units in the store (see `store.statistics_cache`); a fit of the whole table
then finds them all and merges them in the same order as if it had read them itself. So its model
does not depend on the shards; a shard that failed, or a file added later, is read by the fit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from probclass_core.arguments import checked_number, checks_arguments
from probclass_core.display import ShortRepr
from probclass_core.errors import SpecError, expect, shown
from probclass_core.estimation.statistics import summarize_batches
from probclass_core.io.filters import Where
from probclass_core.io.table import balanced_parts
from probclass_core.spec.model_spec import SPEC_HINT, ModelSpec
from probclass_core.training.rows import TrainingRows

if TYPE_CHECKING:
    from probclass_core.store.statistics_cache import CacheOption

_TEXT = re.compile(r"(\d+):(\d+)")


class Shard(NamedTuple):
    """Consecutive units of a plan; as text, ``"first:stop"``.

    Attributes:
        first: position of the first unit.
        stop: position after the last unit.
    """

    first: int
    stop: int

    def __str__(self) -> str:
        return f"{self.first}:{self.stop}"

    @classmethod
    def parse(cls, shard: Shard | str) -> Shard:
        """Parse a shard from its text; a shard is returned as it is.

        Raises:
            SpecError: if the text is not a shard.
        """
        if isinstance(shard, Shard):
            return shard
        match = _TEXT.fullmatch(shard) if isinstance(shard, str) else None
        if match is None:
            raise SpecError(
                f"{shown(shard)} is not a shard; pass one of plan_shards(…).shards, or text such "
                "as '0:8'."
            )
        return cls(int(match[1]), int(match[2]))


@dataclass(frozen=True, repr=False)
class ShardPlan(ShortRepr):
    """The shards of a table.

    Attributes:
        shards: shards to summarize, in order; empty if nothing is left to summarize, or nothing can
            be cached.
        units: number of units of the table.
        cached: number of units whose statistics are in the cache.
        rows: number of rows in the shards before any filter; cached units do not count.
    """

    shards: tuple[Shard, ...]
    units: int
    cached: int
    rows: int


@checks_arguments
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
    """Cut the units that are not cached yet into shards of about the same number of rows.

    Summarize each with ``summarize(…, shard=shard, cache=cache)``, anywhere and in any order, then
    call ``fit(…, cache=cache)``, all with the same source, spec, partition and where. Statistics
    that grow with the rows, such as those of ``knn_density``, and those of rows without an address
    are not cached: they make no shards, and the fit reads the rows itself.

    Args:
        source: path or URI; as for `fit`.
        spec: the model.
        cache: model store, or its URI, in which the statistics are cached.
        partition: as for `fit`.
        where: as for `fit`.
        most: maximum number of shards.
        min_rows: number of rows that is worth a shard of its own.

    Raises:
        SpecError: if there is no cache, a number is below 1, or the spec does not fit the table.
        DataError: if a column does not exist.
        TableError: if the table or partition does not exist or cannot be read.
        PluginError: if an estimator is unknown.
        StoreError: if the cache cannot be opened.
    """
    expect(spec, ModelSpec, SPEC_HINT)
    for name, number in (("most", most), ("min_rows", min_rows)):
        checked_number(name, number, 1)
    if cache is None or cache is False:
        raise SpecError(
            "shards share their statistics through a model store; pass cache=, a ModelStore or its "
            "URI."
        )
    rows = TrainingRows(source, spec, partition=partition, where=where, cache=cache)
    plan, cached = rows.plan, rows.cached
    summarize_batches(spec, plan.schema, ())  # refuses a spec that does not fit the columns
    if cached is None or not plan.unit_rows:
        return ShardPlan((), len(plan.units), 0, 0)
    if cached.error is not None:
        raise cached.error
    is_cached = [cached.contains(unit.digest) for unit in plan.units]
    rows_left = [
        0 if unit.digest is None or found else rows_of
        for unit, found, rows_of in zip(plan.units, is_cached, plan.unit_rows, strict=True)
    ]
    shards = _balance(rows_left, most, min_rows)
    return ShardPlan(shards, len(plan.units), sum(is_cached), sum(rows_left))


def _balance(unit_rows: Sequence[int], most: int, min_rows: int) -> tuple[Shard, ...]:
    """Cut the units that have rows into runs of about the same number of rows."""
    total = sum(unit_rows)
    if not total:
        return ()
    count = max(1, min(most, total // min_rows))
    runs: dict[int, list[int]] = {}
    for position, shard in enumerate(balanced_parts(unit_rows, count)):
        if unit_rows[position]:
            runs.setdefault(shard, []).append(position)
    return tuple(Shard(run[0], run[-1] + 1) for run in runs.values())
