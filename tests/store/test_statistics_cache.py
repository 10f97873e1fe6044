"""Cached statistics are reused for unchanged units, and give the same model."""

from __future__ import annotations

import dataclasses
import os
from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.dataset as ds
import pytest
from daily_lake import DAYS, SPEC, CountingTable, days_between, fit_and_count, packs, rows_of, units
from lakes import write_rows

import probclass_core as pc
from probclass_core.errors import SpecError
from probclass_core.plugins.manager import find_estimator
from probclass_core.store.statistics_cache import StatisticsCache


def test_cached_units_are_not_read_again(lake: Path, store: pc.ModelStore) -> None:
    assert fit_and_count(lake, store) == (480, 0)
    assert fit_and_count(lake, store) == (0, 8)
    assert fit_and_count(lake, Path(store.uri)) == (0, 8)
    statistics = pc.summarize(source := CountingTable(lake), SPEC, cache=store.uri)
    assert (statistics.rows, source.rows) == (480, 0)
    assert len(units(store)) == 8
    assert store.models() == [], "cached statistics are not a model"


def test_a_sliding_window_reads_only_the_new_day(lake: Path, store: pc.ModelStore) -> None:
    assert fit_and_count(lake, store, where=days_between(DAYS[0], DAYS[5])) == (360, 0)
    assert fit_and_count(lake, store, where=days_between(DAYS[1], DAYS[6])) == (60, 5)
    assert fit_and_count(lake, store, where=[("day", "in", DAYS[2:])]) == (60, 5)
    assert fit_and_count(lake, store, partition={"day": DAYS[7]}) == (0, 1)
    assert fit_and_count(
        lake, store, where=[("day", "!=", DAYS[3]), ("day", "not in", DAYS[:2])]
    ) == (
        0,
        5,
    )


@pytest.mark.parametrize("day", [0, 3, 7])
def test_kept_statistics_without_labels_are_replaced_when_the_labels_arrive(
    lake: Path, store: pc.ModelStore, day: int
) -> None:
    unlabeled = pa.array([None] * 60, pa.string())
    place = rows_of(day).column_names.index("air")
    write_rows(lake / f"day={DAYS[day]}", rows_of(day).set_column(place, "air", unlabeled))
    assert fit_and_count(lake, store) == (480, 0)
    assert fit_and_count(lake, store) == (0, 8)
    write_rows(lake / f"day={DAYS[day]}", rows_of(day))
    assert fit_and_count(lake, store) == (60, 7)
    assert fit_and_count(lake, store) == (0, 8)


def test_a_file_of_the_same_size_written_later_is_read_again(
    lake: Path, store: pc.ModelStore
) -> None:
    fit_and_count(lake, store)
    path = lake / f"day={DAYS[4]}" / "0.parquet"
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 1))
    assert fit_and_count(lake, store) == (60, 7)


def test_statistics_are_cached_per_condition_on_rows(lake: Path, store: pc.ModelStore) -> None:
    fit_and_count(lake, store)
    north = [("wind", "==", "N")]
    read, reused = fit_and_count(lake, store, where=north)
    assert (0 < read < 480, reused) == (True, 0)
    assert fit_and_count(lake, store, where=north) == (0, 8)
    assert fit_and_count(lake, store, where=[*north, *days_between(DAYS[2], DAYS[4])]) == (0, 3)
    assert fit_and_count(lake, store, where=[("wind", "==", "S")])[1] == 0
    assert fit_and_count(lake, store, where=[("wind", "in", ["N", "S"])])[1] == 0
    assert fit_and_count(lake, store, where=[("x", ">", 0)])[1] == 0
    assert fit_and_count(lake, store, where=[("x", ">", 0.5)])[1] == 0


def test_sources_and_conditions_without_a_digest_are_not_cached(
    lake: Path, store: pc.ModelStore
) -> None:
    for where in (pa.compute.field("day") >= DAYS[6], [("wind", "in", pa.array(["N"]))]):
        first, second = (fit_and_count(lake, store, where=where) for _ in range(2))
        assert first == second
        assert second[1] == 0
    in_memory = pc.fit(rows_of(0), SPEC, cache=store)
    assert in_memory.training["cache"] == {"units": 1, "reused": 0}
    unnamed = ds.dataset(lake, format="parquet")
    for _ in range(2):
        assert pc.fit(unnamed, SPEC, cache=store).training["cache"]["reused"] == 0
    assert units(store) == []


def test_conditions_on_a_null_partition_are_checked_for_each_row(
    lake: Path, store: pc.ModelStore
) -> None:
    write_rows(lake / "day=__HIVE_DEFAULT_PARTITION__", rows_of(99))
    assert fit_and_count(lake, store) == (540, 0)
    assert fit_and_count(lake, store, where=[("day", "!=", DAYS[0])])[1] == 7
    assert fit_and_count(lake, store, where=[("day", "!=", None)])[1] == 8
    assert fit_and_count(lake, store, where=[("day", "==", None)]) == (60, 0)


def test_statistics_are_reused_for_another_prior_and_nothing_else(
    lake: Path, store: pc.ModelStore
) -> None:
    fit_and_count(lake, store)
    assert fit_and_count(lake, store, dataclasses.replace(SPEC, prior="uniform")) == (0, 8)
    full, winds = SPEC.blocks
    others = [
        dataclasses.replace(SPEC, weight=None),
        dataclasses.replace(SPEC, label="wind", blocks=[full]),
        dataclasses.replace(SPEC, blocks=[full]),
        dataclasses.replace(SPEC, blocks=[pc.Block("gaussian_full", ["y", "x"]), winds]),
        dataclasses.replace(SPEC, blocks=[pc.Block("gaussian_shared", ["x", "y"]), winds]),
        dataclasses.replace(SPEC, blocks=[pc.Block("gaussian_full", ["x", "y"], ddof=1), winds]),
    ]
    for other in others:
        assert fit_and_count(lake, store, other) == (480, 0)
    for other in others:
        assert fit_and_count(lake, store, other) == (0, 8)


def test_another_release_or_estimator_version_reads_again(
    lake: Path, store: pc.ModelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit_and_count(lake, store)
    with monkeypatch.context() as patch:
        patch.setattr("probclass_core.store.statistics_cache.VERSION", "99.0")
        assert fit_and_count(lake, store) == (480, 0)
    categorical = find_estimator("categorical").estimator
    monkeypatch.setattr(categorical, "statistics_version", 2)
    assert fit_and_count(lake, store) == (480, 0)
    (removed,) = StatisticsCache(store).collect()
    assert "_statistics/99.0-" in removed.path
    assert len(packs(store)) == 2
    assert fit_and_count(lake, store) == (0, 8)


def test_files_read_as_other_types_are_summarized_again(
    tmp_path: Path, store: pc.ModelStore
) -> None:
    spec = pc.ModelSpec("air", [pc.Block("gaussian_diagonal", ["x"]), pc.Block("categorical", "u")])
    lake = tmp_path / "mixed"
    label = ["a", "b", "a", "b"]
    for day, x in (("1", [1, 2, 3, 4]), ("2", [5, 6, 8, 7])):
        write_rows(lake / f"day={day}", pa.table({"x": x, "u": ["p", "q", "q", "p"], "air": label}))
    assert fit_and_count(lake, store, spec) == (8, 0)
    write_rows(lake / "day=3", pa.table({"x": [0.5, 1.5, 2.5, 4.5], "u": ["p"] * 4, "air": label}))
    assert fit_and_count(lake, store, spec) == (12, 0), (
        "integers are read as floats if another file has floats"
    )
    assert fit_and_count(lake, store, spec) == (0, 3)
    assert fit_and_count(lake, store, spec, where=[("day", "<", 3)])[1] in (0, 2)
    assert fit_and_count(lake, store, spec, where=[("day", "<", 3)]) == (0, 2)


def test_a_relative_path_is_another_table_in_another_folder(
    tmp_path: Path, store: pc.ModelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(2):
        folder = tmp_path / str(number)
        write_rows(
            folder / "lake" / "day=1", rows_of(0).set_column(0, "x", [np.arange(60.0) - number])
        )
        os.utime(folder / "lake" / "day=1" / "0.parquet", ns=(0, 0))
        monkeypatch.chdir(folder)
        assert fit_and_count(Path("lake"), store) == (60, 0)
    assert fit_and_count(Path("../0/lake"), store) == (0, 1)


def test_points_are_not_cached(lake: Path, store: pc.ModelStore) -> None:
    spec = pc.ModelSpec("air", [pc.Block("knn_density", ["x"]), pc.Block("categorical", ["wind"])])
    for _ in range(2):
        assert fit_and_count(lake, store, spec) == (480, 0)
    assert units(store) == []


def test_cache_true_is_the_store_of_the_environment(
    lake: Path, store: pc.ModelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROBCLASS_STORE", store.uri)
    assert fit_and_count(lake, True) == (480, 0)
    assert fit_and_count(lake, store) == (0, 8)
    monkeypatch.delenv("PROBCLASS_STORE")
    with pytest.raises(SpecError, match="PROBCLASS_STORE"):
        pc.fit(lake, SPEC, cache=True)
    assert "cache" not in pc.fit(lake, SPEC, cache=False).training


def test_statistics_are_cached_in_stores_of_fsspec(lake: Path) -> None:
    store = "memory://cached-statistics"
    assert fit_and_count(lake, store) == (480, 0)
    assert fit_and_count(lake, store) == (0, 8)
    assert len(StatisticsCache(store).collect(timedelta(0))) == 1
    assert fit_and_count(lake, store) == (480, 0)
