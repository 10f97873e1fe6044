"""A model's id does not depend on which worker reads a unit, or which one finishes first."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
import workloads
from workloads import FaultyTable

import probclass_core as pc
from probclass_core.plugins.manager import find_estimator

FILES = 24
SPEC = pc.ModelSpec(
    "label",
    [
        pc.Block("gaussian_diagonal", ["d"]),
        pc.Block("gaussian_full", ["e", "f"]),
        pc.Block("gaussian_shared", ["l", "m"]),
        pc.Block("categorical", ["u"]),
        pc.Block("categorical_joint", ["s", "t"]),
        pc.Block("discretized", ["n"], cells=50),
        pc.Block("bernoulli", ["g"]),
        pc.Block("multinomial", ["h", "i"]),
        pc.Block("poisson", ["j"]),
        pc.Block("bernoulli", ["words"], "bernoulli_of_terms"),
        pc.Block("multinomial", ["tally"], "multinomial_of_terms"),
        pc.Block("poisson", ["events"], "poisson_of_terms"),
        pc.Block("knn_density", ["k"]),
    ],
    weight="w",
)


def rows_of_a_month(seed: int) -> pa.Table:
    """Rows whose sums round differently in another order; some months lack a class."""
    noise = np.random.default_rng(seed)
    size = int(noise.integers(1, 60))
    classes = ["low", "mid", "high"][: 1 + seed % 3]
    gap = noise.random(size) < 0.1
    return pa.table(
        {
            "label": noise.choice(classes, size),
            "w": noise.random(size),
            "d": pa.array(noise.lognormal(0, 9, size), mask=gap),
            "e": 1e6 + noise.normal(0, 1, size),
            "f": noise.normal(0, 1e-3, size),
            "u": noise.choice(["p", "q", "r"], size),
            "s": noise.choice(["p", "q", "r"], size),
            "t": pa.array(noise.integers(0, 9, size), mask=gap),
            "l": noise.normal(0, 1, size),
            "m": noise.normal(5, 1, size),
            "g": noise.random(size) < 0.3,
            "h": noise.poisson(3, size),
            "i": noise.poisson(4, size),
            "j": pa.array(noise.poisson(5, size), mask=gap),
            "words": [list(noise.choice(["p", "q", "r", "s"], 5)) for _ in range(size)],
            "tally": pa.array(
                [[("p", noise.integers(9)), (f"q{noise.integers(9)}", 2)] for _ in range(size)],
                pa.map_(pa.string(), pa.int64()),
            ),
            "events": [list(noise.choice(["p", "q", "r"], noise.poisson(3))) for _ in range(size)],
            "k": noise.normal(0, 1, size).round(2),
            "n": seed % 3 + noise.normal(0, 1, size),
        }
    )


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("lake")
    for month in range(FILES):
        folder = root / f"month={month:02d}"
        folder.mkdir()
        pq.write_table(rows_of_a_month(month), folder / "rows.parquet", row_group_size=25)
    return root


@pytest.fixture(scope="module")
def model(lake: Path) -> pc.Model:
    return pc.fit(lake, SPEC, workers=1)


@pytest.fixture(scope="module")
def slow(lake: Path, tmp_path_factory: pytest.TempPathFactory) -> FaultyTable:
    """The lake, whose first unit is read last, and whose partitions take turns to be first."""
    return FaultyTable(lake, 0, workloads.take_a_nap, tmp_path_factory.mktemp("unused"))


def test_the_model_depends_on_neither_the_workers_nor_the_unit_that_finishes_first(
    model: pc.Model, lake: Path, slow: FaultyTable
) -> None:
    assert {block.estimator for block in SPEC.blocks} == set(pc.estimators())
    assert model.training["rows"] == sum(rows_of_a_month(seed).num_rows for seed in range(FILES))
    for table, workers in ((lake, 2), (lake, None), (slow, 4), (slow, 3)):
        assert pc.fit(table, SPEC, workers=workers).id == model.id


@pytest.mark.parametrize("workers", [1, 4])
def test_the_model_does_not_depend_on_which_units_are_cached(
    lake: Path, slow: FaultyTable, tmp_path: Path, workers: int
) -> None:
    cacheable = [
        block for block in SPEC.blocks if not find_estimator(block.estimator).estimator.state_grows
    ]
    spec = replace(SPEC, blocks=cacheable)
    expected = pc.fit(lake, spec)
    pc.summarize(lake, spec, where=[("month", "in", [2, 3, 5, 7, 11, 13])], cache=tmp_path)
    for reused in (6, FILES):
        model = pc.fit(slow, spec, workers=workers, cache=tmp_path)
        assert model.id == expected.id
        assert model.training["cache"] == {"units": FILES, "reused": reused}


def test_scored_rows_and_evaluations_keep_their_order(
    model: pc.Model, lake: Path, slow: FaultyTable, tmp_path: Path
) -> None:
    pc.score(model, slow, tmp_path / "scored", workers=3)
    scored = ds.dataset(tmp_path / "scored", partitioning="hive").to_table()
    in_order = scored.sort_by([("month", "ascending")])
    whole = ds.dataset(lake, partitioning="hive").to_table()
    np.testing.assert_array_equal(in_order["e"], whole["e"])
    assert in_order["prediction"].combine_chunks().equals(model.predict(whole))
    evaluations = [pc.evaluate(model, table, workers=3) for table in (slow, whole)]
    assert evaluations[0].confusion.equals(evaluations[1].confusion)
    assert evaluations[0].log_loss == pytest.approx(evaluations[1].log_loss, rel=1e-12)


def test_merging_summaries_of_months_equals_fitting_the_lake(model: pc.Model, lake: Path) -> None:
    months = [pc.summarize(lake, SPEC, partition={"month": month}) for month in range(FILES)]
    merged = pc.finalize(pc.merge(months))
    rows = rows_of_a_month(99)
    np.testing.assert_allclose(merged.predict_proba(rows), model.predict_proba(rows), rtol=1e-6)
    assert merged.training["rows"] == model.training["rows"]
    # Merged in the same order, the parts give the same id.
    again = [pc.summarize(lake, SPEC, partition={"month": str(month)}) for month in range(FILES)]
    assert pc.finalize(pc.merge(again)).id == merged.id
