"""`ModelSpec.auto` with data: columns, pairs and blocks, and how well the models predict."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakes import write_rows
from sklearn.metrics import log_loss, mutual_info_score
from sklearn.model_selection import StratifiedKFold

import probclass_core as pc
from probclass_core.errors import SpecError
from probclass_core.spec.model_spec import Effort
from probclass_core.structure.levels import Levels, dependent_pairs

TABLES = Path(__file__).parents[2] / "benchmarks" / "data"
DEVELOPMENT_TABLES = ("german", "titanic", "soybean")
EFFORTS: tuple[Effort, ...] = ("fast", "default", "best")


def development_table(name: str) -> pa.Table:
    return pq.read_table(TABLES / f"{name}.parquet")


def halves(table: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Rows to train on and rows to test, with the classes in the same shares."""
    labels = np.array([str(value) for value in table["label"].to_pylist()])
    split = StratifiedKFold(5, shuffle=True, random_state=0).split(labels, labels)
    train, test = next(split)
    return table.take(pa.array(train)), table.take(pa.array(test))


def loss(model: pc.Model, test: pa.Table) -> float:
    probability = model.predict_proba(test)
    return float(log_loss(test["label"].to_pylist(), probability, labels=model.classes.to_pylist()))


@cache
def loss_on(name: str, effort: Effort) -> float:
    """The log loss of the model of a development table, on rows that it did not see."""
    train, test = halves(development_table(name))
    return loss(pc.fit(train, pc.ModelSpec.auto(train, "label", effort=effort)), test)


def prior_loss(train: pa.Table, test: pa.Table) -> float:
    shares = pd.Series(train["label"].to_pylist()).value_counts(normalize=True)
    return float(-np.log(shares[test["label"].to_pylist()]).mean())


def mixed_table(rows: int = 400) -> pa.Table:
    """Columns of every role, with a class that depends on some of them."""
    random = np.random.default_rng(5)
    size, color = random.normal(size=rows), random.choice(["red", "green", "blue"], rows)
    label = np.where(size + (color == "red") + random.normal(size=rows) > 0.5, "yes", "no")
    start = datetime(2014, 1, 1)
    month = random.integers(1, 13, rows)
    return pa.table(
        {
            "label": label,
            "size": size,
            "color": color,
            "same": ["x"] * rows,
            "nothing": pa.nulls(rows, pa.float64()),
            "untyped": pa.nulls(rows),
            "key": [f"{value:032x}" for value in random.integers(0, 2**62, rows)],
            "row": np.arange(rows) + 1000,
            "answer": np.where(label == "yes", 1, 0),
            "at": [start + timedelta(hours=hour) for hour in range(rows)],
            "vector": pa.array(random.normal(size=(rows, 2)).tolist()),
            "month": month,
            "words": [["a", "b"], ["b"]] * (rows // 2),
            "gaps": pa.array(np.ones(rows), mask=(label == "yes") & (random.random(rows) < 0.3)),
            "rarely": pa.array(random.normal(size=rows), mask=np.arange(rows) < 2),
        }
    )


def test_columns_that_cannot_help_are_left_out_and_the_notes_say_why() -> None:
    spec = pc.ModelSpec.auto(mixed_table(), "label", effort="fast")
    notes = " ".join(spec.notes)
    left_out = {"same", "nothing", "untyped", "key", "row", "answer", "at", "vector"}
    assert not left_out & set(spec.features)
    assert {"size", "color"} <= set(spec.features)
    for sentence in (
        "they have the same value in every row: 'same'.",
        "they have no values: 'nothing', 'untyped'.",
        "as a key or prose does (split prose into lists of words): 'key'.",
        "they number the rows: 'row'.",
        "they are copies of the label 'label': 'answer'.",
        "Parts of 'at' that are tried: 'hour(at)', 'weekday(at)'. Left out: the month, because",
        "no estimator models their type by default: 'vector'.",
        "A null is a level of its own in 'gaps'.",
    ):
        assert sentence in notes
    assert all(note.endswith(".") for note in spec.notes)


def test_a_category_with_more_levels_than_a_partition_has_rows_is_no_key(tmp_path: Path) -> None:
    random = np.random.default_rng(7)
    late = random.random(500) < 0.5
    for day in range(30):
        customer = random.integers(0, 500, 60)
        names = [f"customer {number}" for number in customer]
        rows = {"customer": names, "size": random.normal(size=60), "late": late[customer]}
        write_rows(tmp_path / f"day={day:02d}", pa.table(rows))
    assert "customer" in pc.ModelSpec.auto(tmp_path, "late").features


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ([f"words of row {number}" for number in range(100)], "prose does (split prose into lists"),
        ([f"2024-01-01 {n // 60:02}:{n % 60:02}" for n in range(100)], "dates as text (convert"),
        (["same"] * 100, "the same value in every row"),
    ],
)
def test_a_model_of_the_prior_alone_is_a_warning_that_says_why(
    values: list[str], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    rows = {"only": values, "label": ["yes", "no"] * 50}
    model = pc.fit(rows, label="label")
    (message,) = caplog.messages
    assert message.startswith("Columns kept only because no other is left, although they ")
    assert reason in message
    assert message.endswith("it predicts the class prior.")
    assert all(note in message or "'only'" in note for note in model.spec.notes)
    np.testing.assert_allclose(model.predict_proba(rows), 0.5)


def test_a_pandas_category_of_integers_is_no_date() -> None:
    label = np.tile(["no", "yes", "yes"], 100)
    random = np.random.default_rng(0)
    grade = pd.Categorical(np.where(random.random(300) < 0.2, 2, np.tile([1, 2, 3], 100)))
    rows = pd.DataFrame({"grade": grade, "noise": random.normal(size=300), "label": label})
    spec = pc.ModelSpec.auto(rows, "label")
    assert "grade" in spec.features
    assert not any("dates as text" in note for note in spec.notes)


def test_notes_are_no_part_of_the_spec() -> None:
    spec = pc.ModelSpec.auto(mixed_table(), "label")
    again = pc.ModelSpec.from_dict(spec.to_dict())
    assert spec.notes
    assert not again.notes
    assert again == spec
    assert again.digest == spec.digest
    assert pc.fit(mixed_table(), spec).id == pc.fit(mixed_table(), again).id


@pytest.mark.parametrize("effort", EFFORTS)
def test_the_spec_depends_on_the_rows_alone(effort: Effort, tmp_path: Path) -> None:
    table = mixed_table()
    order = np.random.default_rng(1).permutation(table.num_rows)
    shuffled = table.take(pa.array(order))
    parts = [shuffled.slice(start, 90) for start in range(0, table.num_rows, 90)]
    write_rows(tmp_path, *parts)
    expected = pc.ModelSpec.auto(table, "label", effort=effort)
    with ThreadPoolExecutor(2) as executor:
        found = pc.ModelSpec.auto(tmp_path, "label", effort=effort, engine=executor)
    assert found.to_dict() == expected.to_dict()
    assert found.notes == expected.notes


def days_of_numbers(days: int) -> pa.Table:
    """200 rows a day: the class depends on ``a`` and ``b`` together, and on ``c`` alone."""
    random = np.random.default_rng(5)
    a, b = random.normal(size=(2, 200 * days))
    differ = (a > 0.4) ^ (b > -0.6) ^ (random.random(200 * days) < 0.1)
    label = np.where(differ, "other", "same")
    c = np.where(label == "same", 1.0, -1.0) + random.normal(0.0, 2.0, 200 * days)
    day = np.repeat(np.arange(days), 200)
    return pa.table({"a": a, "b": b, "c": c, "label": label, "day": day})


def test_an_earlier_spec_is_kept_and_only_the_new_day_is_read(tmp_path: Path) -> None:
    lake, store = tmp_path / "lake", pc.ModelStore(tmp_path / "store")
    pq.write_to_dataset(days_of_numbers(6), lake, partition_cols=["day"])
    spec, reused = None, []
    for first in (0, 1):
        chosen: dict[str, Any] = {
            "where": [("day", ">=", first), ("day", "<", first + 5)],
            "cache": store,
        }
        anew = pc.ModelSpec.auto(lake, "label", **chosen)
        before, spec = spec, pc.ModelSpec.auto(lake, "label", like=spec, **chosen)
        reused.append(pc.fit(lake, spec, **chosen).training["cache"]["reused"])
    assert before is not None
    assert spec == before != anew, "cuts found anew are other ones"
    assert reused == [0, 4]
    assert any("The blocks are those of like; their log loss is" in note for note in spec.notes)


def test_an_earlier_spec_is_replaced_if_the_rows_contradict_it() -> None:
    table = days_of_numbers(5)
    spec = pc.ModelSpec.auto(table, "label")
    changed = table.set_column(1, "b", pa.array(np.roll(table["b"].to_numpy(), 1)))
    changed = changed.append_column("d", table["b"])
    found = pc.ModelSpec.auto(changed, "label", like=spec)
    assert found == pc.ModelSpec.auto(changed, "label")
    assert any("whose log loss would be" in note for note in found.notes)
    without = changed.drop_columns(["c"])
    for rows in (without, without.schema):
        found = pc.ModelSpec.auto(rows, "label", like=spec)
        assert "The blocks are not those of like, which reads 'c'." in found.notes
        assert found.blocks == pc.ModelSpec.auto(rows, "label").blocks
    assert pc.ModelSpec.auto(table.schema, "label", like=spec) == spec


def test_more_effort_gives_more_kinds_of_blocks() -> None:
    table = development_table("german")
    kinds = {
        effort: {
            (block.estimator, bool(block.given))
            for block in pc.ModelSpec.auto(table, "label", effort=effort).pool
        }
        for effort in EFFORTS
    }
    assert kinds["fast"] <= {("discretized", False), ("categorical", False)}
    assert {("gaussian_full", False), ("gaussian_shared", False)} & kinds["default"]
    assert any(given for _, given in kinds["default"])
    assert ("knn_density", False) in kinds["best"]
    assert ("knn_density", False) not in kinds["default"]


def rings(rows: int, seed: int) -> pa.Table:
    """Classes that alternate along the distance from the center of two numbers."""
    random = np.random.default_rng(seed)
    numbers = random.normal(size=(rows, 2))
    ring = (2.0 * np.linalg.norm(numbers, axis=1)).astype(int) % 2
    columns = {f"x{place}": column for place, column in enumerate(numbers.T)}
    return pa.table({**columns, "label": ring.astype(str)})


def test_a_small_table_has_neighbors_where_they_help_and_sql_does_not_score_it() -> None:
    table, test = rings(400, 0), rings(4000, 1)
    spec = pc.ModelSpec.auto(table, "label")
    assert "knn_density" in {block.estimator for block in spec.blocks}
    without = pc.ModelSpec.auto(table, "label", sql=True)
    assert "knn_density" not in {block.estimator for block in without.blocks}
    model = pc.fit(table, without)
    assert "rings" in model.to_sql(dialect="duckdb", source="rings")
    assert loss(pc.fit(table, spec), test) < 0.95 * loss(model, test)
    # Rows of a group are neighbors of each other, as those of an hour are.
    alike = table.append_column("day", pa.array(np.arange(400) // 100))
    spec = pc.ModelSpec.auto(alike, "label", groups="day")
    assert "knn_density" not in {block.estimator for block in spec.blocks}


@pytest.mark.parametrize("kind", [pa.int64(), pa.string()])
def test_a_code_of_rows_that_come_again_is_no_key(kind: pa.DataType) -> None:
    random = np.random.default_rng(0)
    codes, classes = random.integers(0, 100, 5000), random.integers(0, 2, 100)
    rows = pa.table(
        {
            "code": pa.array(codes).cast(kind),
            "shop": pa.array(codes % 7).cast(pa.string()),
            "label": classes[codes],
        }
    )
    model = pc.fit(rows, label="label")
    assert "code" in model.features.names
    assert pc.evaluate(model, rows).log_loss < 0.01


@pytest.mark.parametrize("scale", [1e-300, 1e-3, 1.0 / 300.0])
def test_weights_that_sum_to_few_rows_are_no_evidence_and_a_note_says_so(scale: float) -> None:
    x = np.random.default_rng(0).normal(size=300)
    rows = pa.table({"x": x, "w": np.full(300, scale), "label": x > 0.0})
    model = pc.fit(rows, pc.ModelSpec.auto(rows, "label", weight="w"))
    np.testing.assert_allclose(model.predict_proba(rows)[:, 1], np.mean(x > 0.0), atol=0.2)
    assert any("multiply the weights" in note for note in model.training["notes"])


def test_sql_scores_rows_with_nulls_of_a_model_that_is_made_for_it() -> None:
    random = np.random.default_rng(1)
    label = random.integers(0, 2, 600)
    numbers = random.normal(size=(600, 6)) @ random.normal(size=(6, 6)) + label[:, None]
    numbers[::7, 0] = numbers[::11, 1] = np.nan
    columns = {f"x{place}": pa.array(x, from_pandas=True) for place, x in enumerate(numbers.T)}
    rows = pa.table({**columns, "label": label})
    model = pc.fit(rows, pc.ModelSpec.auto(rows, "label", sql=True))
    assert any(block.estimator.startswith("gaussian") for block in model.spec.blocks)
    connection = duckdb.connect()
    connection.register("rows", rows)
    found = connection.sql(model.to_sql(dialect="duckdb", source="rows")).to_arrow_table()
    assert found["p_1"].null_count == 0
    np.testing.assert_allclose(found["p_1"], model.predict_proba(rows)[:, 1], atol=1e-9)


def test_a_row_is_not_predicted_from_its_own_copies() -> None:
    random = np.random.default_rng(3)
    numbers = random.normal(size=(2400, 4))
    columns = {f"x{place}": column for place, column in enumerate(numbers.T)}
    table = pa.table({**columns, "label": random.integers(0, 2, 2400).astype(str)})
    train, test = table.slice(0, 400), table.slice(400)
    copied = pa.concat_tables([train, train.slice(0, 300)])
    model = pc.fit(copied, label="label")
    assert any("300 of 700 rows are exact copies" in note for note in model.spec.notes)
    assert "knn_density" not in {block.estimator for block in model.spec.blocks}  # it is noise
    assert loss(model, test) < 1.05 * prior_loss(train, test)
    # Rows of a few categories are equal without being copies.
    levels = pa.table({"a": random.integers(0, 3, 400).astype(str), "label": train["label"]})
    assert not any("copies" in note for note in pc.ModelSpec.auto(levels, "label").notes)


def test_of_two_thousand_columns_the_two_that_matter_are_found() -> None:
    random = np.random.default_rng(0)
    label = random.integers(0, 2, 1200)
    numbers = random.normal(size=(1200, 2000))
    numbers[:, [17, 1234]] += 1.5 * label[:, None]
    columns = {f"x{place}": column for place, column in enumerate(numbers.T)}
    table = pa.table({**columns, "label": label.astype(str)})
    train, test = table.slice(0, 200), table.slice(200)
    model = pc.fit(train, label="label")
    assert {"x17", "x1234"} <= set(model.spec.features)
    assert len(model.spec.features) < 10
    # Two shifted normals are told apart without error but Φ(−1.5 / √2) = 14 %.
    assert pc.evaluate(model, test).accuracy > 0.8


@pytest.mark.parametrize("effort", EFFORTS)
@pytest.mark.parametrize("name", DEVELOPMENT_TABLES)
def test_no_model_is_worse_than_the_class_prior(name: str, effort: Effort) -> None:
    assert loss_on(name, effort) <= 1.02 * prior_loss(*halves(development_table(name)))


def test_noise_is_recognized_as_noise() -> None:
    ratios = []
    for seed in range(4):
        random = np.random.default_rng(seed)
        table = pa.table(
            {
                "label": random.integers(0, 3, 1000).astype(str),
                "x": random.normal(size=1000),
                "y": random.standard_cauchy(size=1000),
                "u": random.choice(["a", "b", "c"], 1000),
                "v": random.integers(0, 20, 1000),
            }
        )
        train, test = table.slice(0, 250), table.slice(250)
        model = pc.fit(train, pc.ModelSpec.auto(train, "label", effort="best"))
        ratios.append(loss(model, test) / prior_loss(train, test))
    assert np.mean(ratios) < 1.01


def test_pairs_are_ranked_by_their_dependence_within_the_classes() -> None:
    random = np.random.default_rng(3)
    truth = random.integers(0, 2, 3000)
    first = random.integers(0, 4, 3000)
    near = np.where(random.random(3000) < 0.8, first, random.integers(0, 4, 3000))
    far = np.where(random.random(3000) < 0.3, first, random.integers(0, 4, 3000))
    of_class = np.where(random.random(3000) < 0.9, truth, 1 - truth)
    many = random.integers(0, 60, 3000)
    codes = [first, near, far, of_class, many]
    levels = [4, 4, 4, 2, 60]
    pairs = dependent_pairs(Levels(codes, levels, truth, np.ones(3000), 2), 3)
    assert [{pair.child, pair.parent} for pair in pairs] == [{0, 1}, {0, 2}, {1, 2}]
    strongest = sum(
        (truth == c).mean() * mutual_info_score(first[truth == c], near[truth == c]) for c in (0, 1)
    )
    bias = 2 * 3 * 3 / (2 * 3000)
    assert pairs[0].information == pytest.approx(strongest - bias)
    # Weights count rows.
    doubled = dependent_pairs(Levels(codes, levels, truth, np.full(3000, 2.0), 2), 3)
    assert [(pair.child, pair.parent) for pair in doubled] == [
        (pair.child, pair.parent) for pair in pairs
    ]


def test_densities_of_scarce_classes_are_left_out_if_scarce_rows_are_refused() -> None:
    random = np.random.default_rng(3)
    numbers = random.standard_normal((60, 2))
    label = ["a"] * 30 + ["b"] * 29 + ["c"]
    numbers[:30] += 2.0
    rows = pa.table({"x": numbers[:, 0], "y": numbers[:, 1], "label": label})
    spec = pc.ModelSpec.auto(rows, "label", on_scarce="error")
    assert spec.on_scarce == "error"
    assert any("'gaussian_full' is left out" in note and "'c'" in note for note in spec.notes)
    pc.fit(rows, spec)
    with pytest.raises(SpecError, match="on_scarce must be one of 'error', 'pool', got 'no'"):
        pc.ModelSpec.auto(rows, "label", on_scarce="no")


def of_categories(codes: list[np.ndarray], truth: np.ndarray) -> pa.Table:
    columns = {f"x{place}": code.astype(str) for place, code in enumerate(codes)}
    return pa.table({"label": truth, **columns})


def acting_columns(rows: int = 2000) -> pa.Table:
    """Six columns of three levels; the class needs 0, 2 and 5 together, and 1 tells some of it."""
    random = np.random.default_rng(13)
    truth = random.integers(0, 2, rows)
    codes = list(random.integers(0, 3, (6, rows)))
    high = codes[0] // 2 ^ codes[2] // 2 ^ (codes[5] > 0)
    truth = np.where(random.random(rows) < 0.9, high, truth)
    codes[1] = np.where(random.random(rows) < 0.4, truth, codes[1])
    codes[3] = np.where(random.random(rows) < 0.9, codes[1], codes[3])  # tells nothing new
    return of_categories(codes, truth)


def groups_of(table: pa.Table, **options: Any) -> list[set[str]]:
    """The columns of each block that is tried of three columns and more."""
    spec = pc.ModelSpec.auto(table, "label", **options)
    return [set(block.inputs) for block in spec.pool if len(block.inputs) > 2]


def test_columns_that_tell_the_class_only_together_are_in_a_block() -> None:
    table, together = acting_columns(), {"x0", "x2", "x5"}
    train, test = table.slice(0, 1500), table.slice(1500)
    spec = pc.ModelSpec.auto(train, "label")
    (block,) = [block for block in spec.blocks if len(block.inputs) == 3]
    assert set(block.inputs) == together
    assert f"Three columns and more act together in the blocks {block.name!r}." in spec.notes
    assert pc.evaluate(pc.fit(train, spec), test).accuracy > 0.9
    # Weights count rows.
    weighted = table.slice(0, 1000).append_column("w", pa.array(np.full(1000, 2.0)))
    assert groups_of(weighted, weight="w")[0] == together


@pytest.mark.parametrize("as_numbers", [False, True])
def test_of_columns_that_act_together_at_most_one_is_of_bins(as_numbers: bool) -> None:
    """Of numbers, normal densities and neighbors say more smoothly how they act together."""
    random = np.random.default_rng(2)
    codes = random.integers(0, 2, (3, 2000))
    truth = np.where(random.random(2000) < 0.8, codes.sum(axis=0) % 2, codes.sum(axis=0) > 1)
    table = of_categories(list(codes), truth)
    if as_numbers:
        for name, code in zip(("x0", "x1"), codes, strict=False):
            values = pa.array(code + 0.9 * random.random(2000))
            table = table.set_column(table.column_names.index(name), name, values)
    assert groups_of(table) == ([] if as_numbers else [{"x0", "x1", "x2"}])


@pytest.mark.parametrize("seed", range(3))
def test_columns_that_act_apart_share_no_block(seed: int) -> None:
    random = np.random.default_rng(seed)
    truth = random.integers(0, 3, 800)
    codes = [
        np.where(random.random(800) < share, truth, random.integers(0, levels, 800))
        for share, levels in ((0.6, 4), (0.5, 3), (0.4, 9), (0.2, 30), (0.0, 5), (0.0, 3))
    ]
    for _ in range(3):  # near copies tell nothing new
        codes.append(np.where(random.random(800) < 0.97, codes[0], random.integers(0, 4, 800)))
    assert groups_of(of_categories(codes, truth)) == []


def test_weights_count_rows() -> None:
    table = development_table("titanic").slice(0, 300)
    counts = np.random.default_rng(2).integers(0, 3, 300)
    weighted = table.append_column("n", pa.array(counts.astype(np.float64)))
    repeated = table.take(pa.array(np.repeat(np.arange(300), counts)))
    spec = pc.ModelSpec.auto(weighted, "label", weight="n", effort="fast")
    other = pc.ModelSpec.auto(repeated, "label", effort="fast")
    assert [block.columns for block in spec.blocks] == [block.columns for block in other.blocks]


def test_one_class_or_no_rows_give_the_spec_of_the_types() -> None:
    table = mixed_table().select(["label", "size", "color"])
    for rows in (table.slice(0, 0), table.filter(pa.compute.field("label") == "yes")):
        spec = pc.ModelSpec.auto(rows, "label")
        assert [block.columns for block in spec.blocks] == [("size",), ("color",)]
        assert spec.notes == ("The values of the columns were not looked at.",)


def test_a_table_of_columns_that_cannot_help_still_has_a_model() -> None:
    table = mixed_table()
    for name in ("same", "key", "answer"):
        model = pc.fit(table, pc.ModelSpec.auto(table.select(["label", name]), "label"))
        assert model.spec.features == (name,)
        assert np.isfinite(model.predict_log_proba(table)).all()


def test_real_tables_have_odd_columns() -> None:
    table = mixed_table().select(["label", "size"])
    rows = table.num_rows
    odd = {
        "": np.arange(rows) / 7,
        "no terms": pa.array([[]] * rows, pa.list_(pa.string())),
        "large": np.arange(rows) ** 2 + 2**60,
        "tiny": np.arange(rows) * 1e-300,
        "codes": pa.array((np.arange(rows) % 3).astype(str)).dictionary_encode(),
        "bytes": [b"x"] * rows,
    }
    for name, values in odd.items():
        table = table.append_column(name, values if isinstance(values, pa.Array) else [values])
    spec = pc.ModelSpec.auto(table, "label", effort="best")
    notes = " ".join(spec.notes)
    assert "they have no name: ''." in notes
    assert "they have no values: 'no terms'." in notes
    assert loss(pc.fit(table, spec), table) < prior_loss(table, table)


def test_columns_that_partition_a_table_are_left_out_unless_named(tmp_path: Path) -> None:
    table = mixed_table().select(["label", "size", "color"])
    for month in ("01", "02"):
        write_rows(tmp_path / f"month={month}", table)
    spec = pc.ModelSpec.auto(tmp_path, "label", effort="fast")
    assert "the table is partitioned by them: 'month'." in " ".join(spec.notes)
    assert "month" not in spec.features
    one = pc.ModelSpec.auto(tmp_path, "label", effort="fast", partition={"month": "01"})
    assert one == pc.ModelSpec.auto(table, "label", effort="fast")
    where = pc.ModelSpec.auto(tmp_path, "label", effort="fast", where=[("month", "==", "02")])
    assert where == one
    assert pc.ModelSpec.auto(tmp_path, "month", effort="fast").label == "month"


def test_a_reader_is_left_to_the_training() -> None:
    table = mixed_table().select(["label", "size", "color"])
    reader = table.to_reader()
    spec = pc.ModelSpec.auto(reader, "label")
    assert spec == pc.ModelSpec.auto(table.schema, "label")
    assert pc.fit(reader, spec).training["rows"] == table.num_rows


def test_names_of_columns_name_blocks_where_they_can() -> None:
    table = mixed_table().select(["label", "size", "color"])
    odd = table.rename_columns(["label", "a/b", "Priors"])
    spec = pc.ModelSpec.auto(odd.schema, "label")
    assert [block.name for block in spec.blocks] == ["block", "Priors 2"]
    assert [b.name for b in pc.ModelSpec.auto(table.schema, "label").blocks] == ["size", "color"]


def test_a_column_that_the_label_is_made_from_is_named() -> None:
    random = np.random.default_rng(3)
    value = random.normal(size=500)
    table = pa.table(
        {
            "label": np.where(value > 0.5, "high", "low"),
            "value": value,
            "close": value + random.normal(scale=0.3, size=500),
        }
    )
    (note,) = [note for note in pc.ModelSpec.auto(table, "label").notes if "without error" in note]
    assert note == (
        "'value' alone gives 'label' nearly without error: exclude it if 'label' is made from it, "
        "or is known before it."
    )
    left = pc.ModelSpec.auto(table, "label", exclude=["value"]).notes
    assert not any("without error" in note for note in left)
