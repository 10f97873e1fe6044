"""What the default makes of columns: numbers of few values, copies, and how many blocks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import probclass_core as pc
from probclass_core.model.weight_problem import WeightProblem
from probclass_core.structure import candidates

TITANIC = Path(__file__).parents[2] / "benchmarks" / "data" / "titanic.parquet"


def _sum_mod_three(codes: pa.DataType, unit: float = 1) -> pa.Table:
    """The class says whether k + t is a multiple of three, but for 10 % of the rows."""
    random = np.random.default_rng(0)
    k, t = random.integers(1, 4, 2000), random.integers(0, 3, 2000)
    label = ((k + t) % 3 == 0) ^ (random.random(2000) < 0.1)
    return pa.table(
        {"k": pa.array(k * unit).cast(codes), "t": np.array(list("abc"))[t], "y": label}
    )


@pytest.mark.parametrize(
    ("codes", "unit"), [(pa.int64(), 1), (pa.float64(), 1), (pa.float64(), 0.4), (pa.string(), 1)]
)
def test_numbers_of_few_values_interact_as_text_does(codes: pa.DataType, unit: float) -> None:
    rows = _sum_mod_three(codes, unit)
    model = pc.fit(rows[:1000], label="y")
    assert pc.evaluate(model, rows[1000:]).accuracy > 0.87  # 0.9 is the best possible


def _amounts(rows: int, seed: int = 0) -> pa.Table:
    """Amounts of 500 kinds, each of one class; and amounts and sizes that only grow with it."""
    random = np.random.default_rng(seed)
    kinds = np.random.default_rng(1).permutation(500) % 2
    amount, size = random.integers(0, 500, rows), random.integers(0, 900, rows)
    label = np.where(random.random(rows) < 0.1, random.integers(0, 2, rows), kinds[amount])
    grows = label * 20 + random.integers(0, 100, rows)
    return pa.table({"amount": amount * 37, "grows": grows, "size": size, "y": label})


def test_a_number_whose_values_tell_what_its_bins_do_not_is_known_by_them() -> None:
    rows = _amounts(4000)
    model = pc.fit(rows, label="y")
    assert pc.evaluate(model, _amounts(4000, seed=2)).accuracy > 0.93  # 0.95 is the best possible
    shifted = rows.set_column(0, "amount", pa.array(rows["amount"].to_numpy() + 1))
    assert np.isfinite(model.predict_proba(shifted)).all()  # values that training never saw


def test_a_number_that_its_bins_say_all_of_is_not_known_by_its_values() -> None:
    spec = pc.ModelSpec.auto(_amounts(4000), "y")
    values = [block.columns for block in spec.blocks if str(block.name).endswith(", values")]
    assert values == [("amount",)]


@pytest.mark.parametrize("others", [[], ["x"]])
def test_codes_are_as_good_as_integers_as_they_are_as_text(others: list[str]) -> None:
    """As text they are categories in any case; rows of a code alone are equal, and no copies."""
    random = np.random.default_rng(0)
    shop = random.integers(1000, 1300, 6000)
    log_odds = random.normal(0.0, 1.5, 1300)[shop]
    label = random.random(6000) < 1.0 / (1.0 + np.exp(-log_odds))
    rows = pa.table({"shop": shop, "x": random.normal(size=6000), "y": label})
    rows = rows.select(["shop", *others, "y"])
    as_text = rows.set_column(0, "shop", rows["shop"].cast(pa.string()))
    losses = []
    for table in rows, as_text:
        model = pc.fit(table[:4000], label="y")
        losses.append(pc.evaluate(model, table[4000:]).log_loss)
    assert losses[0] == pytest.approx(losses[1], rel=0.01)
    assert losses[0] < 0.6  # bins are near the 0.69 of the prior


def test_no_column_is_given_a_part_of_a_date() -> None:
    """The rows of a month know its weather, and those of the same month a year later do not."""
    random = np.random.default_rng(0)
    hours = np.datetime64("2024-01-01T00") + np.arange(8760).astype("timedelta64[h]")
    of_week = random.integers(0, 3, 53)[np.arange(8760) // 168]  # as weather lasts for a week
    side = random.integers(0, 3, 8760)
    label = (of_week + side) % 3 == 0
    rows = pa.table({"time": hours.astype("datetime64[s]"), "side": side.astype(str), "y": label})
    blocks = pc.ModelSpec.auto(rows, "y").blocks
    assert not [name for block in blocks for name in block.given if "(time)" in name]


def test_a_column_that_says_one_to_one_what_another_says_is_left_out() -> None:
    random = np.random.default_rng(0)
    place = random.integers(1, 4, 500)
    known = random.random(500) > 0.1
    label = place + random.normal(size=500) > 2
    columns = {
        "pclass": pa.array(place, mask=~known),
        "class": pa.array(np.array(["First", "Second", "Third"])[place - 1], mask=~known),
        "nearly": pa.array(np.array(["First", "Second", "Third"])[place - 1]),
        "weight": random.normal(size=500),
    }
    rows = pa.table({**columns, "again": columns["weight"], "y": label})
    notes = pc.ModelSpec.auto(rows, "y").notes
    assert "Columns left out because they say one to one what 'pclass' says: 'class'." in notes
    assert "Columns left out because they say one to one what 'weight' says: 'again'." in notes
    assert not any("one to one" in note and "'nearly'" in note for note in notes)


def test_numbers_without_repetition_are_no_copies() -> None:
    random = np.random.default_rng(0)
    rows = pa.table({name: random.normal(size=200) for name in "ab"})
    rows = rows.append_column("y", pa.array(np.asarray(rows["a"]) + np.asarray(rows["b"]) > 0))
    assert not any("one to one" in note for note in pc.ModelSpec.auto(rows, "y").notes)


def test_a_joint_normal_takes_the_numbers_that_say_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "_MOST_NUMBERS", 2)
    random = np.random.default_rng(0)
    label = random.integers(0, 2, 1000)
    both = random.normal(size=1000)
    columns = {f"noise {number}": random.normal(size=1000) for number in range(3)}
    columns |= {"sum": both + label, "part": both + 0.5 * random.normal(size=1000) + 0.4 * label}
    spec = pc.ModelSpec.auto(pa.table({**columns, "y": label}), "y")
    normals = [block for block in spec.blocks if block.estimator.startswith("gaussian")]
    assert normals
    assert {block.columns for block in normals} == {("sum", "part")}


@pytest.mark.parametrize("effort", ["fast", "default", "best"])
def test_titanic_has_at_most_sixteen_blocks(effort: pc.Effort) -> None:
    spec = pc.ModelSpec.auto(pq.read_table(TITANIC), "label", effort=effort)
    assert len(spec.pool) <= 16


def test_fewer_blocks_are_as_good_as_all(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pq.read_table(TITANIC)
    fewer = pc.fit(rows, label="label")
    monkeypatch.setattr("probclass_core.model.fewest_blocks._TOLERANCE", 0.0)
    every = pc.fit(rows, label="label")
    assert len(fewer.spec.pool) < len(every.spec.pool)
    losses = [model.training["block_weights"]["log_loss"] for model in (fewer, every)]
    assert losses[0] <= 1.006 * losses[1]


def test_the_curvature_of_the_weights_is_that_of_their_loss() -> None:
    """By differences of the loss, in weights and biases."""
    random = np.random.default_rng(0)
    truth = random.integers(0, 3, 60)
    factors = random.normal(size=(2, 2, 60))
    problem = WeightProblem(factors, np.log(np.full(3, 1 / 3)), 1, truth, np.ones(60))

    def loss(terms: np.ndarray) -> float:
        weights, bias = np.split(terms, [2])
        return problem.log_loss(weights, bias) * 60 + 0.5 * float(bias @ bias)

    at, step = np.array([0.4, 0.3, 0.1, -0.2, 0.3]), 1e-3
    second = np.empty((5, 5))
    for i, first in enumerate(np.eye(5) * step):
        for j, other in enumerate(np.eye(5) * step):
            corners = loss(at + first + other) - loss(at + first - other)
            corners += loss(at - first - other) - loss(at - first + other)
            second[i, j] = corners / (4 * step**2)
    curvature = problem.curvature(*np.split(at, [2]))
    np.testing.assert_allclose(curvature, second, rtol=1e-3, atol=1e-4)
