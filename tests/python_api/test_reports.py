"""What ``print``, notebooks and ``Evaluation.report`` show."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from read_html import Markup
from sklearn.metrics import classification_report

import probclass_core as pc
from probclass_core.analysis.evaluation import Evaluation

HOSTILE = "<script>alert('x')</script>\n\x1b[31m\"&"
ROWS = pa.table(
    {
        HOSTILE: ["a<b>", HOSTILE] * 30,
        "x": [float(row % 7) for row in range(60)],
        "c<i>": ["p", "q", "</td>"] * 20,
    }
)
SPEC = pc.ModelSpec(HOSTILE, {"gaussian_diagonal": "x", "categorical": "c<i>"})


@pytest.fixture(scope="module")
def model(penguins: pa.Table) -> pc.Model:
    return pc.fit(penguins, label="species")


def reports() -> dict[str, Any]:
    model = pc.fit(ROWS, SPEC)
    other = pc.fit(ROWS.slice(0, 40), SPEC)
    specs = [SPEC, pc.ModelSpec(HOSTILE, {"categorical": "c<i>", "gaussian_full": "x"})]
    return {
        "model": model,
        "evaluation": pc.evaluate(model, ROWS),
        "comparison": pc.compare(ROWS, dict(zip([HOSTILE, "other"], specs, strict=True))),
        "drift": pc.drift(model, other),
        "explanation": pc.explain(model, ROWS, rows=range(12)),
        "importance": pc.importance(model, ROWS),
        "cross-validation": pc.cross_validate(ROWS, SPEC, folds=3),
    }


REPORTS = reports()
TAGS = {
    *("div", "style", "p", "ul", "li", "table", "caption", "thead", "tbody", "tr", "th", "td"),
    *("bdi", "svg", "rect"),
}
BARS = {"viewbox", "preserveaspectratio", "aria-hidden", "x", "width", "height"}


@pytest.mark.parametrize("name", REPORTS)
def test_html_contains_no_value_as_markup(name: str) -> None:
    text = REPORTS[name]._repr_html_()
    markup = Markup(text)
    assert "table" in markup.tags <= TAGS
    assert markup.attributes <= {"class", "tabindex", *BARS}
    assert "\x1b" not in text


@pytest.mark.parametrize("name", ["model", "comparison", "drift", "cross-validation"])
def test_text_has_no_control_characters(name: str) -> None:
    lines = str(REPORTS[name]).splitlines()
    assert all(line.isprintable() for line in lines)
    assert len(lines) < 40


def test_a_model_prints_its_classes_blocks_and_notes(model: pc.Model) -> None:
    text = str(model)
    assert "Model of 'species': 3 classes" in text
    assert "fitted on 344 rows" in text
    assert model.block_weights is not None
    assert max(len(line) for line in text.splitlines() if line.startswith(("-", " "))) <= 100
    blocks = [str(block.name) for block in model.spec.pool]
    for words in (*model.class_names, *blocks, *model.spec.notes):
        assert words in " ".join(text.split()), "notes are wrapped"
    adelie = next(line.split() for line in text.splitlines() if line.startswith("Adelie"))
    assert adelie == ["Adelie", f"{152 / 344:.4f}", "152"]


def test_one_is_not_several(model: pc.Model, penguins: pa.Table) -> None:
    one = pc.fit({"x": [1.0], "y": ["a"]}, pc.ModelSpec("y", {"gaussian_diagonal": ["x"]}))
    assert "1 class, 1 block of 1 column, fitted on 1 row;" in str(one)
    assert "1 block of 1 column;" in str(one.spec)
    assert str(pc.evaluate(model, penguins.slice(0, 1))).startswith("Evaluation on 1 labeled row\n")


def test_many_classes_and_blocks_are_counted() -> None:
    columns = {f"x{i}": [1.0, 2.0, 3.0] * 10 for i in range(30)}
    rows = pa.table({"y": [f"class {i:02}" for i in range(30)], **columns})
    text = str(pc.fit(rows, pc.ModelSpec("y", [pc.Block("gaussian_diagonal", c) for c in columns])))
    assert text.count("… and 10 more") == 2


def test_metrics_by_class_are_those_of_scikit_learn(model: pc.Model, penguins: pa.Table) -> None:
    """Also with a class that is never predicted, whose precision is undefined."""
    never = model.with_prior({"Adelie": 0.5, "Chinstrap": 0.0, "Gentoo": 0.5})
    for evaluated in (model, never):
        evaluation = pc.evaluate(evaluated, penguins)
        truth, predicted = penguins["species"].to_pylist(), evaluated.predict(penguins).to_pylist()
        peer = classification_report(truth, predicted, output_dict=True, zero_division=0)
        for row in evaluation.per_class.to_pylist():
            expected = peer[row["class"]]
            values = [row[name] or 0.0 for name in ("precision", "recall", "f1", "support")]
            metrics = [expected[key] for key in ("precision", "recall", "f1-score", "support")]
            assert values == pytest.approx(metrics)
        assert evaluation.accuracy == pytest.approx(peer["accuracy"])


def test_a_report_counts_rows_that_are_left_out(model: pc.Model, penguins: pa.Table) -> None:
    species = pa.array([None, "Emperor", *penguins["species"].to_pylist()[2:]])
    rows = penguins.set_column(penguins.schema.names.index("species"), "species", species)
    evaluation = pc.evaluate(model, rows, decision=pc.DecisionRule(min_probability=0.99))
    first = " ".join(str(evaluation).partition("\n\n")[0].split())
    assert first.startswith(
        "Evaluation on 342 labeled rows; left out: 1 without a label, 1 of a class that training "
    )
    assert "rejected for" in first
    assert str(Evaluation.from_dict(evaluation.to_dict())) == str(evaluation)


def test_plots_are_methods(model: pc.Model, penguins: pa.Table) -> None:
    names = [name for name in dir(model.plot) if not name.startswith("_")]
    assert names == ["class_contours", "effect"]
    figure = model.plot.effect("island", most=2)
    assert type(figure).__name__ == "Figure"
    assert pc.evaluate(model, penguins).plot().axes
