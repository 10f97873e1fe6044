"""Shorter calls that mean the same as longer ones, and what they refuse."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

import probclass_core as pc

BODY = ["bill_length_mm", "flipper_length_mm"]


def test_a_label_instead_of_a_spec_fits_the_spec_of_auto(penguins: pa.Table) -> None:
    """Also of a reader, whose rows can be read once, and of the rows that are asked for."""
    spec = pc.ModelSpec.auto(penguins, "species")
    model = pc.fit(penguins, label="species")
    assert (model.id, model.spec.notes) == (pc.fit(penguins, spec).id, spec.notes)
    assert pc.fit(penguins.to_reader(), label="species").training["rows"] == penguins.num_rows
    where = "sex = MALE"
    males = pc.ModelSpec.auto(penguins, "species", where=where)
    assert (
        pc.fit(penguins, label="species", where=where).id == pc.fit(penguins, males, where=where).id
    )


def test_specs_are_compared_as_their_statistics_are(penguins: pa.Table) -> None:
    specs = {
        name: pc.ModelSpec("species", {name: BODY})
        for name in ("gaussian_full", "gaussian_diagonal")
    }
    of_statistics = pc.compare({name: pc.summarize(penguins, spec) for name, spec in specs.items()})
    assert pc.compare(penguins, specs).table == of_statistics.table
    named = pc.compare(penguins, specs, where="sex = MALE")
    assert named.best == "gaussian_full"
    assert named.table["log_evidence"] != of_statistics.table["log_evidence"]


def test_one_row_is_a_list_of_one(penguins: pa.Table) -> None:
    model = pc.fit(penguins, SPEC)
    where = "island = Dream and sex != MALE"
    listed = pc.explain(
        model, penguins, rows=[3], where=[("island", "=", "Dream"), ("sex", "!=", "MALE")]
    )
    assert pc.explain(model, penguins, rows=3, where=where).table == listed.table
    assert pc.importance(model, penguins, where=where).rows > 50


def test_one_column_is_a_list_of_one(penguins: pa.Table, tmp_path: Path) -> None:
    listed = pc.ModelSpec.auto(penguins, "species", exclude=["island"])
    assert pc.ModelSpec.auto(penguins, "species", exclude="island") == listed
    model = pc.fit(penguins, pc.ModelSpec("species", {"gaussian_diagonal": "body_mass_g"}))
    pc.score(model, penguins, tmp_path / "scored", options=pc.ScoringOptions(columns="island"))
    scored = pc.open_table(tmp_path / "scored").schema.names
    assert scored[:2] == ["island", "prediction"]


SPEC = pc.ModelSpec("species", {"gaussian_diagonal": BODY})
