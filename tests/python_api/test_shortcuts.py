"""Shorter calls that mean the same as longer ones, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import probclass_core as pc
from probclass_core.errors import DataError, SpecError

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
    named = pc.compare(penguins, list(specs.values()), names=list(specs), where="sex = MALE")
    assert named.best == "gaussian_full"
    assert named.table["log_evidence"] != of_statistics.table["log_evidence"]


def test_one_row_is_a_list_of_one(penguins: pa.Table) -> None:
    model = pc.fit(penguins, SPEC)
    where = "island = Dream and sex != MALE"
    listed = pc.explain(
        model, penguins, rows=[3], where=[("island", "=", "Dream"), ("sex", "!=", "MALE")]
    )
    assert pc.explain(model, penguins, rows=3, where=where).table == listed.table
    assert pc.importance(model, penguins, where=where).table["rows"][0].as_py() > 50


def test_one_column_is_a_list_of_one(penguins: pa.Table, tmp_path: Path) -> None:
    listed = pc.ModelSpec.auto(penguins, "species", exclude=["island"])
    assert pc.ModelSpec.auto(penguins, "species", exclude="island") == listed
    model = pc.fit(penguins, pc.ModelSpec("species", {"gaussian_diagonal": "body_mass_g"}))
    pc.score(model, penguins, tmp_path / "scored", options=pc.ScoringOptions(columns="island"))
    scored = pc.open_table(tmp_path / "scored").schema.names
    assert scored[:2] == ["island", "prediction"]


SPEC = pc.ModelSpec("species", {"gaussian_diagonal": BODY})
ODD = pa.table(
    {"y": ["a", "b"], "codes": pa.array([{"a": 1}, {"a": 2}]), "blob": [b"", b"x"], "x": [1.0, 2.0]}
)

WRONG_TYPES = pc.ModelSpec("species", {"gaussian_full": ["sex", "island"]})
WRONG_BLOCKS = pc.ModelSpec("species", {"gaussian_full": "sex", "gaussian_shared": "island"})
REFUSED: list[tuple[Callable[[pa.Table], object], str]] = [
    (lambda rows: pc.fit(rows), "expected a spec, or label=.* got neither"),
    (lambda rows: pc.fit(rows, SPEC, label="species"), "got both a spec and a label"),
    (lambda rows: pc.fit(rows, "species"), "or write label='species' if it is the class"),
    (lambda rows: pc.fit(rows, label="kind"), "no column 'kind'; the table has"),
    (lambda rows: pc.compare(rows, [SPEC, SPEC], names="ab"), "names must be a list .*, got 'ab'"),
    (lambda rows: pc.compare(rows.to_reader(), [SPEC, SPEC]), "a reader can be read only once"),
    (
        lambda rows: pc.ModelSpec.auto(rows, "species", exclude=["ile", "sexe"]),
        "no columns 'ile', 'sexe'; the table has",
    ),
    (
        lambda rows: pc.ModelSpec.auto(ODD.schema, "y"),
        r"column 'codes' is struct<.*>, column 'blob' is binary, .*exclude=\['codes', 'blob'\]",
    ),
    (
        lambda rows: pc.fit(rows, WRONG_TYPES),
        "column 'sex' is .*, column 'island' is .*, but it models numbers; .* cast them",
    ),
    (
        lambda rows: pc.fit(rows, WRONG_BLOCKS),
        "gaussian_full: column 'sex' is .* gaussian_shared: column 'island' is ",
    ),
]


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_a_refusal_is_one_line(
    call: Callable[[pa.Table], object], message: str, penguins: pa.Table
) -> None:
    with pytest.raises((SpecError, DataError), match=message) as caught:
        call(penguins)
    assert "\n" not in str(caught.value)
