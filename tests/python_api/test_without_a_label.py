"""A model without a label is a density of all rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats

import probclass_core as pc
from probclass_core.arrow.arrays import ONE_CLASS
from probclass_core.errors import SpecError
from probclass_core.model.bin_densities import bin_densities

NEIGHBORS = [
    pc.Block("knn_density", ["x", "y"], scale="robust", points=300),
    pc.Block("categorical", ["kind"]),
]
CLOSED = [
    pc.Block("discretized", ["x"], name="x"),
    pc.Block("discretized", ["y"], name="y", given=["x"], cuts={"x": [0.0], "y": [1.0, 2.0]}),
    pc.Block("categorical", ["kind"], name="kind", given=["x"], cuts={"x": [0.0]}),
]
both = pytest.mark.parametrize("blocks", [NEIGHBORS, CLOSED], ids=["neighbors", "closed"])


@pytest.fixture(scope="module")
def table() -> pa.Table:
    random = np.random.default_rng(0)
    x = random.normal(size=2000)
    return pa.table(
        {
            "x": x,
            "y": random.gamma(1.0 + (x > 0.0)),
            "kind": random.choice(list("abc"), 2000),
            "part": np.repeat(["a", "b", "c", "d"], 500),
        }
    )


@pytest.fixture(scope="module")
def lake(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> str:
    root = tmp_path_factory.mktemp("lake")
    pq.write_to_dataset(table, root, partition_cols=["part"])
    return str(root)


def test_the_model_does_not_depend_on_how_its_rows_are_read(lake: str, tmp_path: Path) -> None:
    spec = pc.ModelSpec(None, NEIGHBORS)
    assert pc.ModelSpec.from_dict(spec.to_dict()) == spec
    model = pc.fit(lake, spec)
    shards = [pc.summarize(lake, spec, shard=f"{n}:{n + 1}") for n in range(4)]
    kept = [pc.fit(lake, spec, cache=str(tmp_path)) for _ in range(2)]
    merged = pc.finalize(pc.merge(shards), groups=shards)
    assert {other.id for other in (merged, *kept)} == {model.id}
    assert kept[1].training["cache"]["reused"] == 4
    model.save(tmp_path / "model")
    assert pc.load(tmp_path / "model") == model
    assert "Model without a label: " in str(model)


@both
def test_a_scored_table_has_the_log_density_and_no_classes(
    table: pa.Table, lake: str, blocks: list[pc.Block], tmp_path: Path
) -> None:
    model = pc.fit(lake, pc.ModelSpec(None, blocks))
    expected = model.score_samples(table)
    assert pc.score(model, lake, str(tmp_path / "scored"), options={"columns": ["x"]}).rows == 2000
    scored = pc.open_table(str(tmp_path / "scored")).plan(["x", "log_density"])
    assert pq.read_table(tmp_path / "scored").column_names == [
        "x",
        "log_density",
        "rarity",
        "model_id",
        "part",
    ]
    found = pa.Table.from_batches(scored.batches())
    order, own = np.argsort(found["x"]), np.argsort(table["x"])
    assert found["log_density"].to_numpy()[order] == pytest.approx(expected[own], abs=1e-12)
    in_memory = model.predict_table(table, options={"columns": ["kind"]})
    assert in_memory.column_names == ["kind", "log_density", "rarity", "model_id"]
    assert pc.health(model, table).rows == 2000


def test_a_closed_form_integrates_to_one_and_is_the_same_in_sql(table: pa.Table) -> None:
    model = pc.fit(table, pc.ModelSpec(None, CLOSED))
    query = model.to_sql(dialect="duckdb", source="table", options={"columns": ["x"]})
    scored = duckdb.sql(query).to_arrow_table()
    assert scored.column_names == ["x", "log_density", "rarity", "model_id"]
    assert scored["log_density"].to_numpy() == pytest.approx(model.score_samples(table), abs=1e-9)
    (x, widths_x), (y, widths_y) = (cells(model, name) for name in ("x", "y"))
    rows = pa.table(
        {
            "x": np.tile(np.repeat(x, len(y)), 3),
            "y": np.tile(y, 3 * len(x)),
            "kind": np.repeat(list("abc"), len(x) * len(y)),
        }
    )
    volume = np.tile(np.outer(widths_x, widths_y).ravel(), 3)
    assert np.exp(model.score_samples(rows)) @ volume == pytest.approx(1.0, abs=1e-9)


def cells(model: pc.Model, column: str) -> tuple[np.ndarray, np.ndarray]:
    """Points at which a column has the densities of its cells, and widths; 1 / decay of a tail."""
    (density,) = (one for one in bin_densities(model.bin_densities) if one.feature == column)
    ends = np.union1d(density.ends, 0.0)  # where x is cut for the others
    inner = (ends[1:] + ends[:-1]) / 2.0
    points = [np.nextafter(ends[0], -np.inf), *inner, ends[-1]]
    return np.array(points), np.array(
        [1.0 / density.decay[0], *np.diff(ends), 1.0 / density.decay[-1]]
    )


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"prior": "uniform"}, "prior is about classes"),
        ({"block_weights": "fit"}, "block_weights is about classes"),
        ({"max_classes": 3}, "max_classes is about classes"),
        ({"half_life": "auto"}, "half_life='auto' compares log losses of a label"),
    ],
)
def test_a_spec_refuses_what_is_about_classes(values: dict[str, Any], message: str) -> None:
    with pytest.raises(pc.errors.SpecError, match=message):
        pc.ModelSpec(None, CLOSED, **values)


@pytest.mark.parametrize(
    "use",
    [
        lambda model, table: model.predict(table),
        lambda model, table: model.predict_proba(table),
        lambda model, table: model.predict_log_proba(table),
        lambda model, table: model.with_prior("uniform"),
        lambda model, table: model.prior_only(),
        lambda model, table: pc.calibrate(model, table),
        lambda model, table: pc.explain(model, table[:1], against=ONE_CLASS),
        lambda model, table: pc.importance(model, table),
        lambda model, table: pc.cross_validate(table, model.spec),
        lambda model, table: model.predict_table(table, options={"posterior": "list"}),
        lambda model, table: model.predict_table(table, options={"decision": "ml"}),
        lambda model, table: model.to_sql(
            dialect="duckdb", source="t", options={"prior": {ONE_CLASS: 1.0}}
        ),
    ],
)
def test_what_needs_a_label_says_so(table: pa.Table, use: Callable[..., Any]) -> None:
    model = pc.fit(table, pc.ModelSpec(None, CLOSED))
    with pytest.raises(pc.errors.SpecError, match="needs a model with a label"):
        use(model, table)


def test_the_default_models_numbers_by_neighbors_and_counts_the_rest(table: pa.Table) -> None:
    day = pa.array(
        np.datetime64("2024-01-01T00:00", "s") + np.arange(2000) * np.timedelta64(7, "h")
    )
    nulls = pa.array([None, *[True, False] * 999, None])
    rows = table.append_column("at", day).append_column("flag", nulls)
    rows = rows.append_column("same", pa.array([1.0] * 2000))
    spec = pc.ModelSpec.auto(rows, None, exclude="part")
    neighbors, *others = spec.blocks
    assert neighbors.columns == ("x", "y")
    assert {block.columns for block in others} == {
        ("kind",),
        ("flag",),
        ("hour(at)",),
        ("weekday(at)",),
        ("month(at)",),
    }
    model = pc.fit(rows, spec)
    assert np.isfinite(model.score_samples(rows)).all()
    empty = rows[:1].set_column(0, "x", pa.nulls(1, pa.float64()))
    empty = empty.set_column(1, "y", pa.nulls(1, pa.float64()))
    means = empty.set_column(0, "x", [[np.mean(rows["x"])]])
    means = means.set_column(1, "y", [[np.mean(rows["y"])]])
    assert model.score_samples(empty) == pytest.approx(model.score_samples(means), abs=1e-9)
    far = rows[:1].set_column(0, "x", pa.array([50.0]))
    assert model.score_samples(far)[0] < model.score_samples(rows).min()
    assert pc.ModelSpec.auto(rows, None, exclude="part", like=spec).blocks == spec.blocks
    rows = rows.drop_columns(["at"])
    closed = pc.ModelSpec.auto(rows, None, sql=True)
    assert {block.estimator for block in closed.blocks} == {"discretized", "categorical"}
    query = pc.fit(rows, closed).to_sql(dialect="duckdb", source="rows")
    scored = duckdb.sql(query).to_arrow_table()["log_density"].to_numpy()
    assert scored == pytest.approx(pc.fit(rows, closed).score_samples(rows), abs=1e-9)


def test_equal_rows_are_no_point_mass() -> None:
    random = np.random.default_rng(1)
    rows = pa.table({"x": random.poisson(1.0, 500) * 1.0, "y": random.poisson(3.0, 500) * 1.0})
    model = pc.fit(rows, pc.ModelSpec.auto(rows, None))
    assert model.score_samples(rows).max() < 3.0
    constant = pa.table({"x": [2.0] * 60})
    block = pc.Block("knn_density", ["x"], scale="robust", least_ball=0.5)
    assert np.isfinite(pc.fit(constant, pc.ModelSpec(None, [block])).score_samples(constant)).all()


def test_its_evaluation_is_the_mean_log_density(table: pa.Table, lake: str) -> None:
    train, test = table[:1000], table[1000:]
    model = pc.fit(train, pc.ModelSpec(None, CLOSED))
    log_density = model.score_samples(test)
    evaluation = pc.evaluate(model, test)
    assert evaluation.log_density == pytest.approx(log_density.mean(), abs=1e-12)
    assert evaluation.log_density_error == pytest.approx(log_density.std(ddof=1) / 1000**0.5)
    title, _, line = str(evaluation).splitlines()
    assert title == "Evaluation on 1,000 rows"
    assert line.startswith(f"log density: {log_density.mean():.4f} ± ")
    labeled = pc.ModelSpec("kind", {"gaussian_diagonal": ["x", "y"]})
    of_classes = pc.fit(train, labeled)
    assert pc.evaluate(of_classes, test).log_density == pytest.approx(
        of_classes.score_samples(test).mean(), abs=1e-12
    )


def test_the_gate_compares_mean_log_densities(table: pa.Table, tmp_path: Path) -> None:
    """y depends on x, so a network that knows it is denser where the rows are."""
    store = pc.ModelStore(tmp_path)
    trained, judged = table.slice(0, 1000), table.slice(1000)
    y = pc.Block("discretized", ["y"], name="y", cuts={"y": [1.0, 2.0]})
    alone = [CLOSED[0], y, pc.Block("categorical", ["kind"])]
    dense, independent = (
        store.save(pc.fit(trained, pc.ModelSpec(None, blocks)), "m") for blocks in (CLOSED, alone)
    )
    store.promote("m", independent, "champion")
    entry = pc.promote_if_better(store, dense, judged)
    assert entry.action == "promoted"
    densities = [store.load(version.ref).score_samples(judged) for version in (dense, independent)]
    gain = densities[0] - densities[1]
    assert entry.metrics["gain"] == pytest.approx(gain.mean(), rel=1e-9)
    assert entry.metrics["standard_error"] == pytest.approx(stats.sem(gain), rel=1e-9)
    refused = pc.promote_if_better(store, independent, judged)
    assert "log_density" in str(refused.reason)
    assert refused.action == "refused"


def test_the_gate_does_not_compare_densities_of_other_columns(
    table: pa.Table, tmp_path: Path
) -> None:
    store = pc.ModelStore(tmp_path)
    both, one = (
        store.save(pc.fit(table.slice(0, 1000), pc.ModelSpec(None, blocks)), "m")
        for blocks in (CLOSED, CLOSED[:1])
    )
    text = table.set_column(0, "x", table["x"].cast(pa.string())).slice(0, 1000)
    names = store.save(pc.fit(text, pc.ModelSpec(None, [pc.Block("categorical", ["x"])])), "m")
    store.promote("m", one, "champion")
    for challenger, differs in (
        (both, "the challenger has 'y' as numbers, which the champion does not have"),
        (names, "the challenger has 'x' as values, which the champion knows as numbers"),
    ):
        refused = pc.promote_if_better(store, challenger, table.slice(1000))
        assert refused.action == "refused"
        assert differs in str(refused.reason)
    with pytest.raises(SpecError, match="the metric log_loss needs a model with a label"):
        pc.promote_if_better(store, both, table.slice(1000), gate=pc.Gate("log_loss"))


def test_a_value_that_is_there_or_not_is_a_column_of_the_default(table: pa.Table) -> None:
    values = np.where(np.random.default_rng(1).random(table.num_rows) < 0.9, 5.0, np.nan)
    rows = table.append_column("five", pa.array(values, from_pandas=True))
    assert "five" in pc.ModelSpec.auto(rows, None).features


def test_the_default_knows_at_which_hours_rows_usually_come(table: pa.Table) -> None:
    random = np.random.default_rng(2)
    minutes = random.uniform(0, 60 * 24 * 300, table.num_rows).astype("timedelta64[m]")
    rows = table.append_column("at", pa.array(np.datetime64("2024-01-01T00:00:00") + minutes))
    model = pc.fit(rows, pc.ModelSpec.auto(rows, None))
    noon = rows.set_column(4, "at", pa.array([np.datetime64("2024-05-01T12:00:00")] * len(rows)))
    drift = [pc.health(model, data).columns["hour(at)"].drift for data in (rows, noon)]
    assert drift[0] == pytest.approx(0.0, abs=0.01)
    assert drift[1] is not None
    assert drift[1] > 0.3


def test_neighbors_of_several_numbers_do_not_say_how_one_is_distributed(table: pa.Table) -> None:
    model = pc.fit(table, pc.ModelSpec.auto(table, None, exclude="part"))
    with pytest.raises(pc.errors.NotSupportedError, match="no distribution of column 'x'"):
        model.plot.effect("x")
