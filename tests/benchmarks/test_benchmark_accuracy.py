"""benchmarks.accuracy: metrics, folds, tables of users, and a run of fast models on a table."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from sklearn.metrics import log_loss

from benchmarks.accuracy.__main__ import main
from benchmarks.accuracy.generators import GENERATORS
from benchmarks.accuracy.report import geometric_mean, ratios
from benchmarks.accuracy.scores import from_dict, score, to_dict
from benchmarks.accuracy.tables import TABLES, stratified
from benchmarks.report import update_page

FAST = ["class prior", "product", "gaussian NB"]


def run(*arguments: str | Path, out: Path) -> int:
    return main([*map(str, arguments), "--out", str(out), "--khiops", str(out / "missing")])


def test_metrics_are_those_of_their_definition() -> None:
    probabilities = np.array([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8], [0.5, 0.5]])
    classes, labels = np.array(["a", "b"]), np.array(["a", "b", "b", "a"])
    error, loss, ece = score(probabilities, classes, labels)
    assert error == 0.25
    assert loss == pytest.approx(log_loss(labels, probabilities))
    # Each row is in a bin of its own: |1 − .9|, |0 − .6|, |1 − .8| and |1 − .5|.
    assert ece == pytest.approx((0.1 + 0.6 + 0.2 + 0.5) / 4)


def test_a_class_that_training_did_not_see_costs_the_floor() -> None:
    error, loss, _ = score(np.array([[1.0]]), np.array(["a"]), np.array(["b"]))
    assert (error, loss) == (1.0, pytest.approx(-np.log(1e-15)))


@pytest.mark.parametrize("row", [[np.nan, 1.0], [0.5, 0.4]])
def test_probabilities_that_do_not_sum_to_one_are_rejected(row: list[float]) -> None:
    with pytest.raises(ValueError, match="do not sum to 1"):
        score(np.array([row]), np.array(["a", "b"]), np.array(["a"]))


@pytest.mark.parametrize("generator", GENERATORS, ids=lambda generator: generator.__name__)
def test_no_table_is_easier_than_its_true_posterior(generator: object) -> None:
    assert callable(generator)
    rows = generator()
    if rows.posterior is None:
        return
    classes, counts = np.unique(rows.labels, return_counts=True)
    error, loss, ece = score(rows.posterior, classes, rows.labels)
    # The expected log loss of the true posterior is its mean entropy, and it is calibrated.
    entropy = -(rows.posterior * np.log(np.maximum(rows.posterior, 1e-300))).sum(1)
    assert loss == pytest.approx(entropy.mean(), abs=4 * entropy.std() / 40 + 0.02)
    assert error == pytest.approx(1 - rows.posterior.max(1).mean(), abs=0.03)
    assert ece < 0.06
    share = counts / counts.sum()
    assert loss <= -(share * np.log(share)).sum() + 0.01


def test_small_tables_have_ten_folds_and_large_ones_five() -> None:
    for name, parts in (("german", 10), ("segment", 5)):
        rows = TABLES[name].load()
        splits = stratified(rows, 3)
        assert len(splits) == 3
        for train, test in splits:
            assert not set(train) & set(test)
            assert len(test) == pytest.approx(len(rows.labels) / parts, abs=1)


def test_a_run_of_one_fold(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("german", "noise", "--models", *FAST, "--folds", "1", out=tmp_path) == 0
    document = json.loads((tmp_path / "accuracy.json").read_text())
    german, noise = (from_dict(values) for values in document["tables"])
    assert [to_dict(result) for result in (german, noise)] == document["tables"]
    assert german.outcomes["class prior"].mean.error == pytest.approx(0.3)
    assert german.outcomes["product"].mean.log_loss < german.outcomes["class prior"].mean.log_loss
    assert set(noise.outcomes) == {*FAST, "optimum"}
    assert ratios([german], "product", "class prior")["german"] < 1.0
    printed = capsys.readouterr().out
    assert "| class prior | 30.0% |" in printed
    assert "### Summary of 1 real tables" in (tmp_path / "accuracy.md").read_text()
    assert (tmp_path / "accuracy.png").read_bytes().startswith(b"\x89PNG")


def test_a_second_run_may_keep_the_figures_of_the_first(tmp_path: Path) -> None:
    assert run("iris", "--models", "class prior", "--folds", "1", out=tmp_path) == 0
    assert run("iris", "--models", "LDA", "--folds", "1", "--update", out=tmp_path) == 0
    (table,) = json.loads((tmp_path / "accuracy.json").read_text())["tables"]
    assert list(table["outcomes"]) == ["class prior", "LDA"]


def test_a_table_of_the_user(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    table = pa.table({"x": np.tile([0.0, 1.0, 2.0], 20), "kind": ["a", "b", "b"] * 20})
    pyarrow.csv.write_csv(table, path)
    assert run(path, "--label", "kind", "--models", *FAST, "--folds", "2", out=tmp_path) == 0
    (result,) = json.loads((tmp_path / "accuracy.json").read_text())["tables"]
    assert (result["name"], result["rows"], result["folds"]) == ("mine", 60, 2)


def test_a_model_that_fails_is_refused_with_its_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    models = ["class prior", "boosting"]
    assert run("awkward-columns", "--models", *models, "--folds", "1", out=tmp_path) == 0
    assert "| boosting | refused: ValueError: " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "no table 'nothing'; there are adult, "),
        (["iris", "--models", "magic"], "no model 'magic'; there are "),
    ],
)
def test_unknown_names_are_rejected(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*arguments, out=tmp_path) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_figures_of_a_page_are_replaced(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("Before.\n\n<!-- figures -->\nold\n<!-- end of figures -->\n\nAfter.\n")
    arguments = ("iris", "--models", "class prior", "--folds", "1", "--page", page)
    assert run(*arguments, out=tmp_path) == 0
    text = page.read_text()
    assert "old" not in text
    assert "| iris | 1.099 |" in text
    assert text.startswith("Before.\n\n<!-- figures -->\n")
    assert text.endswith("<!-- end of figures -->\n\nAfter.\n")
    page.write_text("No place for figures.")
    with pytest.raises(ValueError, match="lacks the lines"):
        update_page(page, "")


def test_geometric_mean_of_ratios() -> None:
    assert geometric_mean([0.5, 2.0, 1.0]) == pytest.approx(1.0)
