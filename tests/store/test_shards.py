"""Shards: many tasks summarize, one merges, and the model equals that of one task."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from daily_lake import rows_of
from lakes import write_rows

import probclass_core as pc
from probclass_core.errors import SpecError
from probclass_core.training.shards import Shard, ShardPlan, plan_shards

SPEC = pc.ModelSpec("air", {"gaussian_full": ["x", "y"], "categorical": ["wind"]})
ROWS = {f"2014-01-{day:02d}": 20 + 20 * day for day in range(1, 13)}
"""Number of rows of each day."""


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A table of one file a day, each longer than the one before."""
    for seed, (day, rows) in enumerate(ROWS.items()):
        write_rows(tmp_path / "lake" / f"day={day}", rows_of(seed, rows))
    return tmp_path / "lake"


@pytest.mark.parametrize(
    "rows", [{}, {"where": [("day", ">=", "2014-01-03"), ("x", "<", 500.0)]}], ids=["all", "some"]
)
@pytest.mark.parametrize("most", [1, 5, 100])
def test_the_model_equals_that_of_one_task_and_the_last_task_reads_nothing(
    most: int, rows: dict[str, Any], lake: Path, store: pc.ModelStore
) -> None:
    plan = plan_shards(lake, SPEC, cache=store, most=most, min_rows=1, **rows)
    assert 1 <= len(plan.shards) <= most
    shards = [str(shard) for shard in plan.shards]
    random.Random(most).shuffle(shards)
    for shard in shards:
        pc.summarize(lake, SPEC, cache=store.uri, shard=shard, workers=1, **rows)
    model = pc.fit(lake, SPEC, cache=store, **rows)
    assert model.training["cache"] == {"units": plan.units, "reused": plan.units}
    assert model.id == pc.fit(lake, SPEC, **rows).id
    again = plan_shards(lake, SPEC, cache=store, most=most, min_rows=1, **rows)
    assert again == ShardPlan((), plan.units, plan.units, 0)


def test_a_lost_shard_and_a_new_file_are_read_by_the_fit(lake: Path, store: pc.ModelStore) -> None:
    plan = plan_shards(lake, SPEC, cache=store, most=4, min_rows=1)
    for shard in plan.shards[1:]:
        pc.summarize(lake, SPEC, cache=store, shard=shard)
    pq.write_table(rows_of(7), lake / "day=2014-01-02" / "more.parquet")
    model = pc.fit(lake, SPEC, cache=store)
    lost = plan.shards[0].stop - plan.shards[0].first
    assert model.training["cache"] == {"units": 12, "reused": 11 - lost + 1}
    assert model.id == pc.fit(lake, SPEC).id


def test_a_day_later_only_the_new_day_is_in_a_shard(lake: Path, store: pc.ModelStore) -> None:
    window = [("day", "<", "2014-01-12")]
    pc.summarize(lake, SPEC, cache=store, where=window)
    plan = plan_shards(lake, SPEC, cache=store, min_rows=1)
    assert plan == ShardPlan((Shard(11, 12),), 12, 11, ROWS["2014-01-12"])


def test_small_tables_are_one_shard(lake: Path, store: pc.ModelStore) -> None:
    total = sum(ROWS.values())
    assert plan_shards(lake, SPEC, cache=store).shards == (Shard(0, 12),)
    assert len(plan_shards(lake, SPEC, cache=store, min_rows=total // 3).shards) == 3


def test_statistics_that_are_not_cached_make_no_shards(lake: Path, store: pc.ModelStore) -> None:
    points = pc.ModelSpec("air", [pc.Block("knn_density", ["x", "y"], k=3)])
    assert plan_shards(lake, points, cache=store).shards == ()
    assert plan_shards(rows_of(0), SPEC, cache=store).shards == ()


def test_a_shard_beyond_the_end_is_empty(lake: Path, store: pc.ModelStore) -> None:
    beyond = pc.summarize(lake, SPEC, cache=store, shard="12:20")
    assert beyond.rows == 0


@pytest.mark.parametrize("shard", ["", "1", "a:b", "-1:3", 3])
def test_an_invalid_shard_is_refused(shard: Any, lake: Path) -> None:
    with pytest.raises(SpecError, match=r"is not a shard; pass one of plan_shards"):
        pc.summarize(lake, SPEC, shard=shard)
