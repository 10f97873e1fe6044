"""Text that is numbers but for a few markers of missing values is the column of these numbers."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pac
import pytest
from lakes import write_rows

import probclass_core as pc
from probclass_core.arrow.parts import select
from probclass_core.errors import SpecError
from probclass_core.sklearn import ProbClassifier

ROWS = 600
NAMES = ("number(age)", "number(fare)", "number(room)")


def marked(values: Any, markers: Sequence[str], seed: int, count: int = 12) -> Any:
    """The values as text, with markers in place of some of them."""
    texts = np.array([str(value) for value in values], dtype=object)
    rows = np.random.default_rng(seed).choice(len(texts), count, replace=False)
    texts[rows] = np.resize(np.array(markers, dtype=object), count)
    return texts


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    noise = np.random.default_rng(7)
    late = noise.random(ROWS) < 0.5
    room = 2 * noise.integers(0, 10, ROWS) + (late ^ (noise.random(ROWS) < 0.2))
    return pd.DataFrame(
        {
            "age": marked(noise.integers(20, 70, ROWS) + 9 * late, ["?"], 1),
            "fare": marked(np.round(noise.lognormal(2 + 0.6 * late, 0.4), 3), ["NA", " - ", ""], 2),
            "room": marked(room, ["NaN"], 3),
            "label": np.where(late, "late", "early"),
        }
    )


@pytest.fixture(scope="module")
def parsed(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame as pandas reads it, with the same names as features of the other."""
    read = pd.read_csv(io.StringIO(frame.to_csv(index=False)), na_values=["?", " - "])
    assert (read.dtypes[:3] == "float64").all()
    return read.rename(columns=dict(zip(frame.columns, NAMES, strict=False)))


@pytest.fixture(scope="module")
def model(frame: pd.DataFrame) -> pc.Model:
    return pc.fit(frame, label="label")


def test_the_model_is_that_of_the_parsed_columns(
    frame: pd.DataFrame, parsed: pd.DataFrame, model: pc.Model
) -> None:
    expected = pc.fit(parsed, label="label")
    assert set(model.spec.features) == set(NAMES)
    assert model.spec.blocks == expected.spec.blocks
    assert model.parameters == expected.parameters
    np.testing.assert_array_equal(model.predict_proba(frame), expected.predict_proba(parsed))
    assert "Integers taken as categories: 'number(room)'." in model.spec.notes


def test_the_notes_say_what_is_read_as_missing(model: pc.Model) -> None:
    assert "'age' is text: numbers, with '?' read as missing (12 of 600 rows)." in model.spec.notes
    (fare,) = (note for note in model.spec.notes if note.startswith("'fare'"))
    assert fare.startswith("'fare' is text: numbers, with '', ' - ', 'NA' read as missing (12 of ")


@pytest.mark.parametrize("texts", [["1,5", "2", None, "2.000,75"], ["1,5", "2", "b,c", "7"]])
def test_a_note_says_that_numbers_with_a_comma_are_text(texts: list[str]) -> None:
    rows = {"price": texts * 30, "label": ["a", "b"] * 60}
    notes = [note for note in pc.ModelSpec.auto(rows, "label").notes if "comma" in note]
    expected = "'price' is text: numbers with a comma, such as '1,5'."
    assert [note[: len(expected)] for note in notes] == [expected] * ("b,c" not in texts)


def test_files_readers_and_databases_are_read_as_numbers(
    frame: pd.DataFrame, model: pc.Model, tmp_path: Path
) -> None:
    table = pa.Table.from_pandas(frame).append_column("key", pa.array(range(ROWS)))
    spec = model.spec
    folder = write_rows(tmp_path / "lake", *(table.slice(start, 200) for start in (0, 200, 400)))
    assert pc.ModelSpec.auto(folder, "label").blocks == spec.blocks
    dictionaries = table.set_column(0, "age", table["age"].dictionary_encode())
    assert pc.ModelSpec.auto(dictionaries, "label").blocks == spec.blocks
    stored = pc.ModelSpec.from_dict(spec.to_dict())
    expected = model.predict_proba(frame)
    for rows in (folder, table.to_reader(), pl.from_arrow(table), dictionaries):
        other = pc.fit(rows, stored)
        np.testing.assert_allclose(other.predict_proba(table), expected, rtol=1e-9)
    with duckdb.connect() as connection:
        connection.register("rows", table)
        pc.score_sql(model, connection, "rows", "scored", options={"columns": ["key"]})
        in_database = connection.sql("SELECT * FROM scored ORDER BY key").to_arrow_table()
        np.testing.assert_allclose(in_database["p_late"], expected[:, 1], rtol=1e-9)
        connection.execute("CREATE TABLE copied AS SELECT * FROM rows")
        of_database = pc.fit(pc.SqlSource(connection, "copied"), stored)
        np.testing.assert_allclose(of_database.predict_proba(frame), expected, rtol=1e-9)


def test_a_classifier_takes_frames_with_markers(frame: pd.DataFrame, model: pc.Model) -> None:
    features = frame.drop(columns="label")
    classifier = ProbClassifier().fit(features, frame["label"])
    assert set(classifier.model_.spec.features) == set(NAMES)
    np.testing.assert_array_equal(classifier.predict_proba(features), model.predict_proba(frame))


def test_text_that_is_no_number_is_missing_when_it_is_scored(model: pc.Model) -> None:
    texts = ["007", "old", "1e999", "inf", "0x10", "1,5", "", None]
    rows = {"age": texts, "fare": ["7"] * 8, "room": ["1"] * 8}
    missing = model.predict_proba({"age": [None] * 8, "fare": ["7"] * 8, "room": ["1"] * 8})
    np.testing.assert_array_equal(model.predict_proba(rows), missing)
    numbers = pa.table({"age": [50, 51], "fare": [7.25, None], "room": ["1", " 2 "]})
    written = {"age": ["50", "51.0"], "fare": ["7.25", "?"], "room": ["1", "2"]}
    np.testing.assert_array_equal(model.predict_proba(numbers), model.predict_proba(written))
    with pytest.raises(SpecError, match=r"no feature 'number\(age\)': column 'age' is bool"):
        model.predict({**rows, "age": [True] * 8})


@pytest.mark.parametrize(
    "texts",
    [
        marked(np.arange(ROWS) % 7, ["unknown"], 4, 3),
        marked(np.arange(ROWS) % 7, ["?"], 4, 60),
        marked([f"{n:03}" for n in np.arange(ROWS) % 7], ["?"], 4, 3),
        marked([f"2019010112345678{n}" for n in np.arange(ROWS) % 7], ["?"], 4, 3),
        marked(np.arange(ROWS) % 7, [], 4, 0),
    ],
    ids=["another text", "many markers", "leading zeros", "long keys", "no marker"],
)
def test_other_text_stays_text(frame: pd.DataFrame, texts: Any) -> None:
    labels = np.where(np.arange(ROWS) % 7 < 3, "late", "early")
    labels[::9] = "late"
    table = pa.table({"code": texts.tolist(), "label": labels})
    spec = pc.ModelSpec.auto(table, "label")
    assert spec.features == ("code",)
    assert not any("is text" in note for note in spec.notes)


def test_numbers_that_all_differ_are_recognized_by_their_first_rows(frame: pd.DataFrame) -> None:
    noise = np.random.default_rng(1)
    late = (frame["label"] == "late").to_numpy()
    fare = marked(np.round(noise.lognormal(2 + late, 0.4), 6), ["?"], 5)
    spec = pc.ModelSpec.auto({"fare": fare.tolist(), "label": frame["label"].tolist()}, "label")
    assert spec.features == ("number(fare)",)
    assert "with '?' read as missing (12 of the first 600 rows)" in " ".join(spec.notes)


def test_an_earlier_spec_reads_the_numbers_of_rows_without_markers(
    frame: pd.DataFrame, model: pc.Model
) -> None:
    read = select(pa.RecordBatch.from_pandas(frame), model.spec.features)
    kept = frame[np.asarray(pac.equal(read[0].is_null(), False))]
    clean = kept[~kept.isin(["?", "NA", " - ", "", "NaN"]).any(axis=1)]
    assert "age" in pc.ModelSpec.auto(clean, "label").features
    again = pc.ModelSpec.auto(clean, "label", like=model.spec)
    assert again.blocks == model.spec.blocks
    assert "'age' is text: numbers, as in the earlier spec." in again.notes
    by_types = pc.ModelSpec.auto(pa.Table.from_pandas(clean).to_reader(), "label", like=model.spec)
    assert by_types.blocks == model.spec.blocks
