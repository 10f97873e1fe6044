"""Rarity: the share of known rows that are at least as improbable, on rows not trained on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import probclass_core as pc
from probclass_core.model.density_quantiles import rarity as rarity_of

TABLES = Path(__file__).parents[2] / "benchmarks/data"


def drawn(rows: int, seed: int, day: float = 0.0) -> pa.Table:
    random = np.random.default_rng(seed)
    label = random.integers(0, 2, rows)
    x = random.normal(label + day, 1.0 + label)
    y = np.exp(0.5 * x + random.standard_normal(rows))
    color = np.array(["red", "green", "blue"])[(label + random.integers(0, 2, rows)) % 3]
    return pa.table({"label": label, "x": x, "y": y, "color": color})


@pytest.mark.parametrize("rows", [300, 8000])
def test_new_rows_like_those_of_training_are_as_rare_as_it_says(rows: int) -> None:
    model, new = pc.fit(drawn(rows, 0), label="label"), drawn(20_000, 1)
    rarity = model.rarity(new)
    for share in (0.01, 0.1, 0.5):
        error = 3.0 * np.sqrt(share * (1.0 - share) * (1.0 / rows + 1.0 / 20_000))
        assert (rarity <= share).mean() == pytest.approx(share, abs=error)


def codes(rows: int, seed: int) -> pa.Table:
    """A column of so many codes that many rows have one that no other row has."""
    return pa.table({"code": np.random.default_rng(seed).integers(0, 1000, rows).astype(str)})


def flags(rows: int, seed: int) -> pa.Table:
    """Columns that do not depend on each other."""
    values = np.random.default_rng(seed).random((rows, 20)) < 0.1
    return pa.table({f"flag {place}": of_flag for place, of_flag in enumerate(values.T)})


def normals(rows: int, seed: int) -> pa.Table:
    """So many numbers that many a row has the least or the greatest of one of them."""
    values = np.random.default_rng(seed).standard_normal((rows, 50))
    return pa.table({f"x{place}": numbers for place, numbers in enumerate(values.T)})


@pytest.mark.parametrize("drawn_from", [codes, flags, normals])
@pytest.mark.parametrize("sql", [False, True])
def test_rows_like_those_of_a_small_table_are_not_rarer_than_it_says(
    drawn_from: Callable[[int, int], pa.Table], sql: bool
) -> None:
    shares = np.array([0.01, 0.05, 0.2, 0.5])
    rare = []
    for seed in range(6):
        known = drawn_from(300, seed)
        model = pc.fit(known, pc.ModelSpec.auto(known, None, sql=sql))
        rarity = model.rarity(drawn_from(5000, 100 + seed))
        rare.append((rarity[:, None] <= shares).mean(axis=0))
    error = np.sqrt(shares * (1.0 - shares) / (6 * 300))
    assert (np.mean(rare, axis=0) <= shares + 3.0 * error).all()


def test_rows_of_a_new_group_are_as_rare_as_those_of_groups_that_were_left_out() -> None:
    random = np.random.default_rng(4)
    day = np.repeat(np.arange(400), 50)
    label = random.integers(0, 2, len(day))
    # Rows of a day are near each other, and far from those of other days.
    x, y = random.normal(size=(2, 400))[:, day] + 0.02 * random.normal(size=(2, len(day)))
    table = pa.table({"label": label, "x": x + 0.1 * label, "y": y, "day": day})
    known, new = table.slice(0, 300 * 50), table.slice(300 * 50)

    def shares_of_rare(groups: str | None) -> list[float]:
        exclude = "day" if groups is None else ()
        spec = pc.ModelSpec.auto(known, "label", groups=groups, exclude=exclude)
        rarity = pc.fit(known, spec).rarity(new)
        return [float((rarity <= share).mean()) for share in (0.1, 0.3)]

    assert shares_of_rare("day") == pytest.approx([0.1, 0.3], abs=0.02)
    assert shares_of_rare(None) > [0.13, 0.4]


def test_it_is_the_share_of_the_measured_rows_rounded_up() -> None:
    table = drawn(500, 2)
    spec = pc.ModelSpec("label", {"gaussian_full": ["x", "y"], "categorical": "color"})
    model = pc.with_density_quantiles(pc.fit(table, spec), table)
    log_density = model.score_samples(table)
    new = drawn(200, 3)
    share = (log_density <= model.score_samples(new)[:, None]).mean(axis=1)
    rarity = model.rarity(new)
    assert (rarity >= share).all()
    assert (rarity <= np.maximum(share, 1.0 / 500) + 1e-3).all()
    far = pa.table({"x": [1e6], "y": [1e6], "color": ["red"]})
    assert model.rarity(far) == pytest.approx([1.0 / 500])


@pytest.mark.parametrize("name", ["german", "titanic", "segment"])
def test_scored_tables_and_sql_have_it_and_the_density(name: str, tmp_path: Path) -> None:
    table = pq.read_table(TABLES / f"{name}.parquet")
    model = pc.fit(table, pc.ModelSpec.auto(table, "label", sql=True))
    rows = table.slice(0, 1000)
    options: dict[str, Any] = {"rarity": True, "rare": 0.02}
    pc.score(model, rows, tmp_path / "scored.parquet", options={"columns": (), **options})
    scored = pq.read_table(tmp_path / "scored.parquet")
    log_density, rarity = model.score_samples(rows), model.rarity(rows)
    assert np.isfinite(log_density).all()
    assert rarity.min() > 0.0
    np.testing.assert_array_equal(scored["rarity"], rarity)
    np.testing.assert_array_equal(scored["rare"], rarity <= 0.02)
    assert model.predict_table(rows, options={"columns": (), **options}).equals(scored)
    with duckdb.connect() as connection:
        connection.register("rows", rows)
        query = model.to_sql(source="rows", dialect="duckdb", options=options)
        in_sql = connection.execute(query).fetchnumpy()
    np.testing.assert_allclose(np.sort(in_sql["log_density"]), np.sort(log_density), atol=1e-9)
    np.testing.assert_array_equal(np.sort(in_sql["rarity"]), np.sort(rarity))
    assert in_sql["rare"].sum() == (rarity <= 0.02).sum()


def test_rows_of_equal_densities_are_as_rare_whatever_rounds_them() -> None:
    """Of few categories, many rows have one density, which is a quantile itself."""
    random = np.random.default_rng(6)
    table = pa.table(
        {"label": random.choice(["a", "b"], 300)}
        | {name: random.choice(["x", "y", "z"], 300, p=[0.6, 0.3, 0.1]) for name in "cde"}
    )
    model = pc.fit(table, pc.ModelSpec("label", {"categorical": ["c", "d", "e"]}))
    model = pc.with_density_quantiles(model, table)
    density = model.score_samples(table)
    share = (density <= density[:, None] + 1e-9).mean(axis=1)
    np.testing.assert_allclose(model.rarity(table), share, atol=1e-3)
    for direction in (-np.inf, np.inf):
        rounded = density
        for _ in range(4):
            rounded = np.nextafter(rounded, direction)
        np.testing.assert_array_equal(rarity_of(model.check_rarity(), rounded), model.rarity(table))


def test_a_rule_rejects_the_rows_that_are_as_rare() -> None:
    table = drawn(2000, 5)
    model = pc.fit(table, label="label")
    rejected = model.predict(table, decision={"min_rarity": 0.01}).is_null()
    np.testing.assert_array_equal(rejected, model.rarity(table) <= 0.01)
