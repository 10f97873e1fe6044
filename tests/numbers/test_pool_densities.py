"""log p(x) of the default model: a density, whatever the columns, and near that of the rows."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc_
import pytest
from scipy import stats

import probclass_core as pc
from probclass_core.errors import NotSupportedError, SpecError, StoreError
from probclass_core.model.bin_densities import bin_densities
from probclass_core.model.stored import model_from_bundle


def mixed(seed: int) -> pa.Table:
    """Two numbers that depend on each other, one of them with nulls and a long tail; a category."""
    random = np.random.default_rng(seed)
    rows = int(random.integers(60, 900))
    classes = int(random.integers(2, 4))
    label = random.integers(0, classes, rows)
    x = random.normal(label, 1.0 + label)
    y = np.exp(0.5 * x + random.standard_normal(rows)) * 10.0 ** random.integers(-8, 9)
    is_null = random.random(rows) < random.choice([0.0, 0.2])
    color = np.array(["red", "green", "blue"])[(label + random.integers(0, 2, rows)) % 3]
    return pa.table(
        {
            "label": label.astype(str),
            "x": np.round(x, int(random.integers(0, 4))),
            "y": pa.array(y, mask=is_null),
            "color": color,
        }
    )


def integral(model: pc.Model, table: pa.Table) -> float:
    """Σ of p(x) over all values: of cells of constant density, tails that decay, and categories."""
    outcomes: dict[str, list[tuple[object, float]]] = {}
    for cells in bin_densities(model.bin_densities):
        ends, decay = cells.ends, cells.decay
        tails = [(np.nextafter(ends[0], -np.inf), 1.0 / decay[0]), (ends[-1], 1.0 / decay[-1])]
        middle = [(low / 2.0 + high / 2.0, high - low) for low, high in pairwise(ends)]
        null = [(None, 1.0)] if table[cells.feature].null_count else []
        outcomes[cells.feature] = [*tails, *middle, *null]
    for name in set(model.spec.features) - outcomes.keys():
        outcomes[name] = [(value, 1.0) for value in pc_.unique(table[name]).to_pylist()]
    points = list(product(*outcomes.values()))
    rows = pa.table(
        {
            name: pa.array([point[at][0] for point in points], table.schema.field(name).type)
            for at, name in enumerate(outcomes)
        }
    )
    measures = np.array([np.prod([measure for _, measure in point]) for point in points])
    return float(np.exp(model.score_samples(rows)) @ measures)


@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(4, 24))]
)
def test_it_integrates_to_one(seed: int) -> None:
    table = mixed(seed)
    model = pc.fit(table, label="label")
    assert integral(model, table) == pytest.approx(1.0, abs=1e-9)


def test_it_is_near_the_density_that_rows_are_drawn_from() -> None:
    random = np.random.default_rng(0)
    covariance = np.array([[1.0, 0.9], [0.9, 1.0]])
    label = random.integers(0, 2, 8000)
    points = random.multivariate_normal([0.0, 0.0], covariance, 8000) + 2.0 * label[:, None]
    table = pa.table({"label": label, "x": points[:, 0], "y": points[:, 1]})
    new = table.slice(4000)
    of_class = [
        stats.multivariate_normal([mean] * 2, covariance).logpdf(points[4000:]) for mean in (0, 2)
    ]
    truth = np.logaddexp(*of_class) - np.log(2.0)
    joint = pc.fit(table.slice(0, 4000), label="label").score_samples(new)
    alone = pc.fit(
        table.slice(0, 4000), pc.ModelSpec.auto(table, "label", effort="fast")
    ).score_samples(new)
    lost, lost_alone = (float(np.mean(truth - log)) for log in (joint, alone))
    assert lost < 0.5 * lost_alone
    assert lost < 0.35


def test_it_falls_beyond_the_rows_and_for_values_never_seen() -> None:
    table = mixed(1)
    model = pc.fit(table, label="label")
    row = table.slice(0, 1).to_pylist()[0]
    largest = pc_.max(table["x"]).as_py()
    numbers = [{**row, "x": largest + far} for far in (1.0, 10.0, 1000.0)]
    logs = model.score_samples(pa.Table.from_pylist(numbers, table.schema))
    assert (np.diff(logs) < -1.0).all()
    colors = [{**row, "color": color} for color in (row["color"], "violet")]
    seen, never = model.score_samples(pa.Table.from_pylist(colors, table.schema))
    assert np.isfinite(never)
    assert never < seen


def test_the_largest_number_is_a_value_like_others(tmp_path: Path) -> None:
    largest = np.finfo(np.float64).max
    random = np.random.default_rng(5)
    label = random.integers(0, 2, 400)
    x = np.where(random.random(400) < 0.1, largest, random.normal(label))
    table = pa.table({"label": label, "x": x})
    model = pc.fit(table, label="label")
    store = pc.ModelStore(str(tmp_path))
    loaded = store.load(store.save(model, "model").ref)
    assert np.isfinite(loaded.score_samples(pa.table({"x": [-largest, 0.0, largest]}))).all()


def test_an_unusual_combination_is_rarer_than_its_values() -> None:
    random = np.random.default_rng(3)
    label = random.integers(0, 2, 4000)
    x = random.standard_normal(4000)
    y = x + 0.1 * random.standard_normal(4000) + 0.1 * label
    model = pc.fit(pa.table({"label": label, "x": x, "y": y}), label="label")
    usual, unusual = model.score_samples(pa.table({"x": [1.0, 1.0], "y": [1.0, -1.0]}))
    assert unusual < usual - 2.0


def test_the_posterior_does_not_depend_on_it() -> None:
    table = mixed(2)
    spec = pc.ModelSpec.auto(table, "label")
    blocks = [block for block in spec.blocks if block.name not in spec.density]
    without = replace(spec, blocks=blocks, density=())
    with_density, alone = pc.fit(table, spec), pc.fit(table, without)
    np.testing.assert_array_equal(with_density.predict_proba(table), alone.predict_proba(table))
    assert not alone.normalized
    with pytest.raises(NotSupportedError, match="no blocks of the pool"):
        alone.score_samples(table)


def test_blocks_of_a_density_model_each_column_once() -> None:
    blocks = [pc.Block("discretized", "a", "a"), pc.Block("discretized", "b", "b")]
    more = [pc.Block("discretized", "a", "again"), pc.Block("discretized", "b", "twice")]

    def spec(density: list[str]) -> pc.ModelSpec:
        return pc.ModelSpec("label", [*blocks, *more], block_weights="fit", density=density)

    assert pc.ModelSpec.from_dict(spec(["again", "twice"]).to_dict()) == spec(["again", "twice"])
    with pytest.raises(SpecError, match="model 'b' not at all"):
        spec(["again"])
    with pytest.raises(SpecError, match=r"density names block 'agian'.*'again'"):
        spec(["agian", "twice"])
    with pytest.raises(SpecError, match="in no posterior"):
        spec(["a", "b", "again", "twice"])


def test_stored_densities_are_checked(tmp_path: Path) -> None:
    table = mixed(0)
    model = pc.fit(table, label="label")
    store = pc.ModelStore(str(tmp_path / "store"))
    version = store.save(model, "model")
    np.testing.assert_array_equal(
        store.load(version.ref).score_samples(table), model.score_samples(table)
    )
    densities = model.bin_densities
    assert densities is not None
    negative = pa.array(-densities["decay"].to_numpy())
    damaged = {
        "decay is": densities.set_column(3, "decay", negative),
        "not those of the columns": densities.slice(len(bin_densities(densities)[0].low)),
        "not in order": densities.take(np.r_[0, 2, 1, 3 : len(densities)]),
    }
    for reason, damage in damaged.items():
        with pytest.raises(StoreError, match=reason):
            model_from_bundle(replace(model, bin_densities=damage).to_bundle())
