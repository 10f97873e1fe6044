"""Rows that count less the older their partition is: a merge of statistics with factors."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import probclass_core as pc
from probclass_core.errors import NotSupportedError, SpecError
from probclass_core.estimation.families.gaussian.diagonal import GaussianDiagonal
from probclass_core.estimation.kinds.moments import TermMoments
from probclass_core.estimation.statistics import scale

WEEKS = 8
BLOCKS = {"gaussian_full": ["x", "z"], "categorical": "kind"}


def rows_of_weeks(
    weeks: int = WEEKS, *, drift: float = 0.0, per_week: int = 80, seed: int = 7
) -> pd.DataFrame:
    """Rows whose classes `x` tells apart; with a drift, by another threshold each week."""
    random = np.random.default_rng(seed)
    week = np.repeat(np.arange(weeks), per_week)
    late = random.integers(0, 2, len(week))
    return pd.DataFrame(
        {
            "state": np.where(late == 1, "late", "on time"),
            "x": 2.0 * late + drift * week + random.normal(size=len(week)),
            "z": random.normal(size=len(week)),
            "kind": random.choice(["a", "b", "c"], len(week)),
            "week": week,
        }
    )


def lake_of(frame: pd.DataFrame, root: Path) -> Path:
    table = pa.Table.from_pandas(frame, preserve_index=False)
    pq.write_to_dataset(table, root, partition_cols=["week"])
    return root


def test_a_half_life_is_a_fit_of_weighted_rows(tmp_path: Path) -> None:
    frame = rows_of_weeks(drift=0.3)
    lake = lake_of(frame, tmp_path / "lake")
    weight = 0.5 ** ((WEEKS - 1 - frame["week"]) / 2.5)
    by_weight = pc.fit(frame.assign(weight=weight), pc.ModelSpec("state", BLOCKS, weight="weight"))
    model = pc.fit(lake, pc.ModelSpec("state", BLOCKS, half_life=2.5))
    np.testing.assert_allclose(
        model.predict_proba(frame), by_weight.predict_proba(frame), rtol=1e-9, atol=1e-12
    )
    assert model.priors["prior"].to_pylist() == pytest.approx(by_weight.priors["prior"].to_pylist())
    assert model.training["rows"] == len(frame)
    assert model.training["half_life"] == {"partitions": 2.5}
    assert "Half-life: 2.5 partitions." in str(model)


def test_the_model_is_the_same_from_processes_kept_statistics_and_by_hand(tmp_path: Path) -> None:
    frame = rows_of_weeks(drift=0.3)
    lake = lake_of(frame, tmp_path / "lake")
    spec = pc.ModelSpec("state", BLOCKS, block_weights="fit", half_life=3)
    model = pc.fit(lake, spec)
    store = pc.ModelStore(tmp_path / "models")
    for options in ({"engine": "processes", "workers": 2}, {"cache": store}, {"cache": store}):
        assert pc.fit(lake, spec, **options).id == model.id
    other = dataclasses.replace(spec, half_life=None)
    assert pc.fit(lake, other, cache=store).training["cache"]["reused"] == WEEKS
    weeks = [pc.summarize(lake, spec, partition={"week": week}) for week in range(WEEKS)]
    assert pc.finalize(pc.merge(weeks), groups=weeks).id == model.id
    assert other.to_dict().keys() == spec.to_dict().keys() - {"half_life"}
    assert pc.ModelSpec.from_dict(spec.to_dict()) == spec


def test_a_half_life_is_chosen_where_the_past_misleads(tmp_path: Path) -> None:
    frame = rows_of_weeks(13, drift=1.5)
    past, coming = frame[frame["week"] < 12], frame[frame["week"] == 12]
    lake = lake_of(past, tmp_path / "lake")
    spec = pc.ModelSpec("state", {"gaussian_diagonal": "x"}, block_weights="fit")
    without = pc.fit(lake, spec)
    chosen = pc.fit(lake, dataclasses.replace(spec, half_life="auto"))
    found = chosen.training["half_life"]
    assert found["partitions"] == 3
    assert [*found["log_loss"]] == ["none", "20", "8", "3"]
    assert found["log_loss"]["3"] < found["log_loss"]["none"]
    losses = [pc.evaluate(model, coming).log_loss for model in (chosen, without)]
    assert losses[0] < losses[1]
    given = pc.fit(lake, dataclasses.replace(spec, half_life=3))
    np.testing.assert_array_equal(given.predict_proba(coming), chosen.predict_proba(coming))


def test_the_default_chooses_one_too(tmp_path: Path) -> None:
    lake = lake_of(rows_of_weeks(12, drift=1.5), tmp_path / "lake")
    model = pc.fit(lake, label="state", half_life="auto")
    assert model.training["half_life"]["partitions"] == 3
    assert model.normalized


def test_none_is_chosen_where_weeks_are_alike(tmp_path: Path) -> None:
    lake = lake_of(rows_of_weeks(12), tmp_path / "lake")
    spec = pc.ModelSpec("state", {"gaussian_diagonal": "x"}, block_weights="fit")
    chosen = pc.fit(lake, dataclasses.replace(spec, half_life="auto"))
    assert chosen.training["half_life"]["partitions"] is None
    np.testing.assert_array_equal(
        chosen.predict_proba(rows_of_weeks(2)), pc.fit(lake, spec).predict_proba(rows_of_weeks(2))
    )


def test_one_is_chosen_without_columns_that_do_not_count(tmp_path: Path) -> None:
    frame = rows_of_weeks(12, drift=1.5)
    misleading = (frame["state"] == "late") ^ (frame["week"] % 2 == 0)
    lake = lake_of(frame.assign(kind=misleading.map(str)), tmp_path / "lake")
    blocks = {"gaussian_diagonal": "x", "categorical": "kind"}
    model = pc.fit(lake, pc.ModelSpec("state", blocks, block_weights="fit", half_life="auto"))
    assert model.weights is not None
    assert model.weights.factors["categorical"] == 0.0
    assert model.training["half_life"]["partitions"] == 3


def test_rows_without_partitions_in_order_have_no_half_life(tmp_path: Path) -> None:
    frame = rows_of_weeks()
    with pytest.raises(SpecError, match="half_life=3 counts partitions, and the table has none"):
        pc.fit(frame, pc.ModelSpec("state", BLOCKS, half_life=3))
    lake = lake_of(frame, tmp_path / "lake")
    by_kind = pc.ModelSpec(
        "state", {"gaussian_full": ["x", "z"]}, block_weights="fit", groups="kind", half_life=3
    )
    with pytest.raises(SpecError, match="groups are 'kind'"):
        pc.fit(lake, by_kind)
    spec = pc.ModelSpec("state", BLOCKS, block_weights="fit", half_life="auto")
    assert "half_life" not in pc.fit(frame.drop(columns="week"), spec).training


def test_an_estimator_with_statistics_of_its_own_says_that_it_cannot_scale_them() -> None:
    class Own(GaussianDiagonal):
        name = "own"
        kind = pc.Estimator.kind

        def summarize(self, rows: Any, classes: Any, weights: Any) -> pa.Table:
            return TermMoments(self.features.names, ["x"]).summarize(rows, classes, weights)

        def merge(self, tables: Any) -> pa.Table:
            return TermMoments(self.features.names, ["x"]).merge(tables)

    with pc.trying(Own):
        statistics = pc.summarize(rows_of_weeks(2), pc.ModelSpec("state", {"own": "x"}))
        with pytest.raises(NotSupportedError, match="own has statistics of its own"):
            scale(statistics, 0.5)
