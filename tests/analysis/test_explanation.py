"""Explanations: entries by hand, a line for each column, unusual columns, and their text."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pac
import pytest
from model_values import normal, probability
from scipy.stats import norm

import probclass_core as pc
from probclass_core.analysis.explanation import Explanation

NUMBERS = ["bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g"]
CATEGORIES = ["island", "sex"]


def fitted(table: Any, *blocks: pc.Block, label: str = "species", **more: Any) -> pc.Model:
    return pc.fit(table, pc.ModelSpec(label=label, blocks=blocks, **more))


@pytest.fixture(scope="module")
def mixed(penguins: pa.Table) -> pc.Model:
    """Blocks that factorize and do not, of neighbors, and of categories."""
    return fitted(
        penguins,
        pc.Block("gaussian_full", NUMBERS[:2]),
        pc.Block("gaussian_diagonal", [NUMBERS[2]]),
        pc.Block("knn_density", [NUMBERS[3]], k=7),
        pc.Block("categorical", CATEGORIES),
    )


def ledger(explanation: Explanation, row: int) -> dict[str, dict[str, Any]]:
    """The entries of one row by item, or kind."""
    entries = (entry for entry in explanation.table.to_pylist() if entry["row"] == row)
    return {each["item"] or each["entry"]: each for each in entries}


def sums(explanation: Explanation) -> np.ndarray:
    weights = explanation.table.group_by("row", use_threads=False).aggregate([("weight", "sum")])
    assert weights["row"].to_pylist() == explanation.rows["row"].to_pylist()
    return weights["weight_sum"].to_numpy()


def test_contributions_of_features_are_their_densities(penguins: pa.Table) -> None:
    model = fitted(
        penguins, pc.Block("gaussian_diagonal", NUMBERS), pc.Block("categorical", CATEGORIES)
    )
    row = penguins.slice(200, 1).to_pylist()[0]
    explanation = pc.explain(model, penguins, rows=[200], against="Adelie")
    entries = ledger(explanation, 200)
    classes = explanation.rows["prediction"][0].as_py(), "Adelie"

    def log_density(name: str, label: str) -> float:
        if name in CATEGORIES:
            return math.log(probability(model, label, name, row[name]))
        mean, variance = normal(model, label, name)
        return float(norm(mean, math.sqrt(variance)).logpdf(row[name]))

    for name in (*NUMBERS, *CATEGORIES):
        by_hand = [log_density(name, label) for label in classes]
        assert entries[name]["weight"] == pytest.approx(by_hand[0] - by_hand[1], abs=1e-12)
    one, other = (model.log_prior[model.class_names.index(label)] for label in classes)
    assert entries["prior"]["weight"] == pytest.approx(one - other)


def test_fields_of_the_entries(mixed: pc.Model, penguins: pa.Table) -> None:
    entries = ledger(pc.explain(mixed, penguins, rows=[0]), 0)
    kinds = {name: (entry["entry"], entry["value"]) for name, entry in entries.items()}
    assert kinds == {
        "prior": ("prior", None),
        "bill_length_mm, bill_depth_mm": ("columns", "bill_length_mm=39.1, bill_depth_mm=18.7"),
        "flipper_length_mm": ("feature", "181"),
        "body_mass_g": ("feature", "3750"),
        "island": ("feature", "Torgersen"),
        "sex": ("feature", "MALE"),
    }
    sizes = [abs(entry["weight"]) for entry in list(entries.values())[1:]]
    assert sizes == sorted(sizes, reverse=True)
    totals = np.cumsum([entry["weight"] for entry in entries.values()])
    assert [entry["total"] for entry in entries.values()] == pytest.approx(list(totals))


def test_missing_values_have_weight_0(mixed: pc.Model, penguins: pa.Table) -> None:
    entries = ledger(pc.explain(mixed, penguins, rows=[3]), 3)  # only its island is known
    for name in (", ".join(NUMBERS[:2]), "flipper_length_mm", "body_mass_g", "sex"):
        assert (entries[name]["weight"], entries[name]["value"]) == (0.0, None)


def test_entries_beyond_the_limit_are_added_up(mixed: pc.Model, penguins: pa.Table) -> None:
    complete, limited = (pc.explain(mixed, penguins, limit=limit) for limit in (None, 2))
    np.testing.assert_allclose(sums(limited), sums(complete), atol=1e-9)
    for row in (0, 152):
        shown, all_entries = ledger(limited, row), ledger(complete, row)
        assert list(shown) == [*list(all_entries)[:3], "rest"]
        assert shown["rest"]["value"] == "3 other columns"
        rest = list(all_entries.values())[3:]
        assert shown["rest"]["weight"] == pytest.approx(sum(entry["weight"] for entry in rest))


def test_the_rival_is_the_runner_up_or_the_given_class(mixed: pc.Model, penguins: pa.Table) -> None:
    second = np.argsort(-mixed.predict_proba(penguins), axis=1)[:, 1]
    runner_up = [mixed.class_names[position] for position in second]
    explanation = pc.explain(mixed, penguins).rows
    assert explanation["against"].to_pylist() == runner_up
    explanation = pc.explain(mixed, penguins, against="Adelie").rows
    for row, prediction in enumerate(explanation["prediction"].to_pylist()):
        rival = runner_up[row] if prediction == "Adelie" else "Adelie"
        assert explanation["against"][row].as_py() == rival


def test_rows_keep_their_numbers(mixed: pc.Model, penguins: pa.Table) -> None:
    complete = pc.explain(mixed, penguins)
    limited = pc.explain(mixed, penguins, rows=[340, 7])
    assert limited.rows["row"].to_pylist() == [7, 340]
    assert ledger(limited, 340) == ledger(complete, 340)
    dream = pc.explain(mixed, penguins, rows=[1], where=[("island", "=", "Dream")])
    position = [
        row for row, island in enumerate(penguins["island"].to_pylist()) if island == "Dream"
    ]
    entries_of_row = ledger(dream, 1)
    assert {**entries_of_row["sex"], "row": position[1]} == ledger(complete, position[1])["sex"]


def test_classes_of_any_kind_keep_their_type() -> None:
    table = {"x": [1.0, 2.0, 8.0, 9.0], "c": [3, 3, 12, 12]}
    model = fitted(table, pc.Block("gaussian_diagonal", "x"), label="c")
    explanation = pc.explain(model, table, against=3)
    assert explanation.rows["prediction"].to_pylist() == [3, 3, 12, 12]
    assert explanation.rows["against"].to_pylist() == [12, 12, 3, 3]


def test_a_class_is_named_as_everywhere_in_the_text_of_an_explanation() -> None:
    table = {"x": [1.0, 2.0, 8.0, 9.0], "late": [False, False, True, True]}
    model = fitted(table, pc.Block("gaussian_diagonal", "x"), label="late")
    assert model.class_names == ["false", "true"]
    assert "row 0: false rather than true" in str(pc.explain(model, table, rows=0))


def test_ties_go_to_the_first_class_and_have_weight_0() -> None:
    table = {"x": ["p", "q"] * 2, "y": ["r", "r", "s", "s"], "c": ["a", "a", "b", "b"]}
    model = fitted(table, pc.Block("categorical", ["x"]), pc.Block("categorical", ["y"]), label="c")
    explanation = pc.explain(model, {"x": ["p"], "y": [None]})
    line = explanation.rows.to_pylist()[0]
    assert (line["prediction"], line["against"], line["log_odds"]) == ("a", "b", 0.0)
    assert [entry["weight"] for entry in explanation.table.to_pylist()] == [0.0, 0.0, 0.0]
    assert explanation.table["item"].to_pylist() == [None, "x", "y"]  # in the order of the model


def test_infinite_weights() -> None:
    """A value never seen in a class makes it impossible; two values make both impossible."""
    table = {"x": ["p", "q", "p", "q"], "y": ["r", "s", "s", "s"], "c": ["a", "a", "b", "b"]}
    block = pc.Block("categorical", ["x", "y"], pseudo_count=0)
    model = fitted(table, block, label="c")
    possible = pc.explain(model, {"x": ["p"], "y": ["r"]})
    entries = ledger(possible, 0)
    assert list(entries) == ["prior", "y", "x"]
    assert entries["y"]["weight"] == math.inf
    assert [entry["total"] for entry in entries.values()] == [0.0, math.inf, math.inf]
    assert possible.rows["log_odds"].to_pylist() == [math.inf]
    assert str(possible).count("inf") == 4
    impossible = pc.explain(model, {"x": ["never seen"], "y": ["r"]})
    entries = ledger(impossible, 0)
    assert (entries["x"]["weight"], entries["y"]["weight"]) == (None, math.inf)
    assert entries["y"]["total"] is None
    assert impossible.rows["log_odds"].to_pylist() == [0.0]  # the posterior is the prior
    assert impossible.to_dict()["rows"][0]["ledger"][1]["weight"] is None
    lumped = pc.explain(model, {"x": ["never seen"], "y": ["r"]}, limit=1)
    assert ledger(lumped, 0)["rest"]["weight"] == math.inf


TEXTS = ["free win now free", "meeting now", "free free cash", "lunch meeting words"]
MAILS = pa.table(
    {
        "words": [*map(str.split, TEXTS), None, []],
        "hour": [3.0, 9.0, 4.0, 12.0, 5.0, 10.0],
        "c": ["spam", "ham"] * 3,
    }
)
MULTINOMIAL = pc.Block("multinomial", "words", name="text")
BERNOULLI = pc.Block("bernoulli", "words", name="text")


@pytest.mark.parametrize("block", [MULTINOMIAL, BERNOULLI], ids=lambda block: block.estimator)
def test_a_text_is_explained_word_by_word(block: pc.Block) -> None:
    model = fitted(MAILS, block, pc.Block("gaussian_diagonal", "hour"), label="c")
    explanation = pc.explain(model, MAILS)
    np.testing.assert_allclose(sums(explanation), explanation.rows["log_odds"], atol=1e-9)
    cells = {
        (cell["class"], cell["feature"]): cell["log_probability"]
        for cell in model.parameters["text"].to_pylist()
    }
    entries = ledger(explanation, 0)
    for word, times in (("free", 2), ("win", 1), ("now", 1)):
        times = times if block is MULTINOMIAL else 1
        by_hand = times * (cells["spam", word] - cells["ham", word])
        assert entries[word]["weight"] == pytest.approx(by_hand)
        assert (entries[word]["entry"], entries[word]["value"]) == ("item", "in words")
    assert ledger(explanation, 3)["words"]["value"] == "in words"  # the word, not the column
    missing = ledger(explanation, 4)["words"]
    assert (missing["entry"], missing["value"], missing["weight"]) == ("feature", None, 0.0)
    limited = pc.explain(model, MAILS, limit=1)
    np.testing.assert_allclose(sums(limited), sums(explanation), atol=1e-9)
    assert list(ledger(limited, 0)) == ["prior", "hour", "rest"]
    assert "in words" in str(explanation)


def test_calibration_is_the_last_entry(mixed: pc.Model, penguins: pa.Table) -> None:
    species = penguins["species"].to_pylist()
    species[::5] = species[::5][::-1]
    calibrated = pc.calibrate(mixed, penguins.set_column(0, "species", pa.array(species)))
    explanation = pc.explain(calibrated, penguins, rows=[0], limit=1)
    entries = list(ledger(explanation, 0).values())
    assert [entry["entry"] for entry in entries] == ["prior", "columns", "rest", "calibration"]
    assert entries[-1]["total"] == pytest.approx(explanation.rows["log_odds"][0].as_py())


def test_no_rows_have_an_empty_explanation(mixed: pc.Model, penguins: pa.Table) -> None:
    explanation = pc.explain(mixed, penguins.slice(0, 0))
    assert (explanation.rows.num_rows, explanation.table.num_rows, str(explanation)) == (0, 0, "")


def test_the_text_fits_a_terminal(mixed: pc.Model, penguins: pa.Table) -> None:
    long = penguins.set_column(1, "island", pa.array(["an island of a long name " * 9] * 344))
    for rows in (penguins, long):
        text = str(pc.explain(mixed, rows))
        assert max(map(len, text.splitlines())) <= 140
    assert text.count("rather than") == 344


@pytest.fixture(scope="module")
def default_model(titanic: pa.Table) -> pc.Model:
    return pc.fit(titanic, pc.ModelSpec.auto(titanic, "label"))


def weights(explanation: Explanation, row: int) -> dict[str, float]:
    """The weight of each column, or columns together, of a row."""
    entries = explanation.table.filter(pac.field("row") == row).to_pylist()
    return {one["item"]: one["weight"] for one in entries if one["item"] is not None}


def test_two_joint_blocks_of_the_same_columns_are_one_line(penguins: pa.Table) -> None:
    numbers = ["bill_length_mm", "body_mass_g"]
    blocks = [pc.Block("gaussian_full", numbers), pc.Block("gaussian_shared", numbers)]
    model = pc.fit(penguins, pc.ModelSpec("species", blocks, block_weights="fit"))
    explanation = pc.explain(model, penguins, rows=[0])
    assert list(weights(explanation, 0)) == ["bill_length_mm, body_mass_g"]
    assert "columns together" in str(explanation)


def test_the_others_are_one_line_and_all_are_shown_on_request(
    default_model: pc.Model, titanic: pa.Table
) -> None:
    short, whole = (
        pc.explain(default_model, titanic, rows=[1], limit=limit) for limit in (3, None)
    )
    others = len(weights(whole, 1)) - 3
    assert f"\n{others} other columns" in str(short)
    assert list(weights(short, 1)) == list(weights(whole, 1))[:3]
    assert "other columns" not in str(whole)


def test_values_of_a_column_of_several_blocks_are_shown_once(
    default_model: pc.Model, titanic: pa.Table
) -> None:
    entries = pc.explain(default_model, titanic, rows=[1], limit=None).table.to_pylist()
    values = {one["item"]: one["value"] for one in entries if one["entry"] == "feature"}
    row = titanic.slice(1, 1).to_pylist()[0]
    for column in ("pclass", "deck"):  # of two blocks each
        assert values[column] == row[column]


MIXED = [
    pc.Block("gaussian_full", ["bill_length_mm", "bill_depth_mm"]),
    pc.Block("gaussian_diagonal", ["flipper_length_mm", "body_mass_g"]),
    pc.Block("categorical", ["island", "sex"]),
]


@pytest.fixture(scope="module")
def model(penguins: pa.Table) -> pc.Model:
    return pc.fit(penguins, pc.ModelSpec("species", MIXED))


def test_usual_is_the_mean_surprise_of_rows_of_the_model() -> None:
    """The entropy of a density is the mean of its surprise over rows drawn from it."""
    random = np.random.default_rng(0)
    size = 20_000
    group = random.integers(0, 2, size)
    table = pa.table(
        {
            "label": group,
            "normal": random.normal(3.0 * group, 1.0 + group),
            "skewed": random.gamma(1.0 + group, 2.0),
            "events": random.poisson(2.0 + 3.0 * group),
            "color": np.array(["red", "green", "blue"])[random.binomial(2, 0.2 + 0.5 * group)],
        }
    )
    blocks = [
        pc.Block("gaussian_diagonal", "normal"),
        pc.Block("discretized", "skewed"),
        pc.Block("poisson", "events"),
        pc.Block("categorical", "color"),
    ]
    specs = [
        pc.ModelSpec("label", blocks),
        pc.ModelSpec(None, [pc.Block("discretized", ["normal", "skewed", "events"]), blocks[3]]),
    ]
    for spec in specs:
        model = pc.fit(table, spec)
        lines = pc.explain(model, table[:1000]).surprise
        means = lines.group_by("item").aggregate([("excess", "mean"), ("excess", "stddev")])
        named = means.filter(pac.field("item") != "class").to_pylist()
        assert {line["item"] for line in named} == {"normal", "skewed", "events", "color"}
        for line in named:
            assert abs(line["excess_mean"]) < 5.0 * line["excess_stddev"] / 1000**0.5, line


def test_reasons_are_the_columns_with_the_largest_excess(
    model: pc.Model, penguins: pa.Table
) -> None:
    row = penguins.slice(166, 1).to_pylist()[0]
    far = pa.Table.from_pylist([{**row, "body_mass_g": 9_000}, row], schema=penguins.schema)
    explanation = pc.explain(model, far)
    first = explanation.surprise.to_pylist()[0]
    assert (first["row"], first["item"], first["value"]) == (0, "body_mass_g", "9000")
    assert first["excess"] == pytest.approx(first["surprise"] - first["usual"])
    assert first["excess"] > 25.0
    reason = f"unusual because of body_mass_g=9000 ({first['excess']:+.1f} nats)"
    assert str(explanation).count("unusual because") == 1
    assert reason in str(explanation)
    surprise = explanation.surprise.filter(pac.field("row") == 0)["surprise"]
    assert pac.sum(surprise).as_py() == pytest.approx(-model.score_samples(far)[0])
    ledger = explanation.to_dict()["rows"][0]
    assert ledger["surprise"][0]["item"] == "body_mass_g"


def test_a_model_without_a_label_explains_rarity_alone(penguins: pa.Table) -> None:
    model = pc.fit(penguins, pc.ModelSpec(None, MIXED))
    row = penguins.slice(0, 1).to_pylist()[0]
    rows = pa.Table.from_pylist([{**row, "flipper_length_mm": 400}, row], schema=penguins.schema)
    explanation = pc.explain(model, rows)
    assert explanation.table.num_rows == 0
    assert explanation.rows.column_names == ["row"]
    lines = str(explanation).split("\n\n")
    assert lines[0].startswith("row 0 is unusual because of flipper_length_mm=400 (+")
    assert lines[1].strip() == "no column makes row 1 unusual by itself."


@pytest.mark.parametrize("columns", [["x"], ["x", "y", "kind"]])
def test_the_numbers_that_make_a_row_unusual_among_its_neighbors_are_named(
    columns: list[str],
) -> None:
    random = np.random.default_rng(0)
    x, y = random.normal(5.0, 2.0, (2, 1000))
    known = pa.table({"x": x, "y": x + y, "kind": random.choice(["a", "b"], 1000)}).select(columns)
    model = pc.fit(known, pc.ModelSpec.auto(known, None))
    row = known.slice(0, 1).to_pylist()[0]
    far, with_mean = {**row, "x": -40.0}, {**row, "x": x.mean()}
    rows = pa.Table.from_pylist([far, with_mean], schema=known.schema)
    explanation = pc.explain(model, rows)
    assert "row 0 is unusual because of x=-40 (+" in str(explanation)
    first = explanation.surprise.to_pylist()[0]
    assert (first["row"], first["item"]) == (0, "x")
    log_density = model.score_samples(rows)
    assert first["excess"] == pytest.approx(log_density[1] - log_density[0])
    surprise = explanation.surprise.filter(pac.field("row") == 0)["surprise"]
    assert pac.sum(surprise).as_py() == pytest.approx(-log_density[0])


def test_no_surprise_without_a_density(penguins: pa.Table) -> None:
    blocks = [pc.Block("knn_density", ["body_mass_g"], metric="canberra")]
    explanation = pc.explain(pc.fit(penguins, pc.ModelSpec("species", blocks)), penguins, rows=0)
    assert explanation.surprise.num_rows == 0
    assert "unusual" not in str(explanation)
