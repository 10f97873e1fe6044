"""benchmarks.accuracy: metrics, folds, tables of users, and a run of fast models on a table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from sklearn.metrics import log_loss, roc_auc_score

from benchmarks import figures
from benchmarks.accuracy import __main__ as accuracy
from benchmarks.accuracy.__main__ import main
from benchmarks.accuracy.generators import GENERATORS, PARTITION, Rows
from benchmarks.accuracy.models import MODELS
from benchmarks.accuracy.report import behind, page, ratios
from benchmarks.accuracy.scores import Result, Scores, from_record, score
from benchmarks.accuracy.tables import windows

FAST = ["class prior", "product", "gaussian NB"]


def run(*arguments: str | Path) -> int:
    return main([*map(str, arguments)])


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], dict[str, Result]]:
    """A function that returns the recorded figures, which are in a folder of the test."""
    monkeypatch.setattr(figures, "FOLDER", tmp_path)
    monkeypatch.setattr(accuracy, "PICTURE", tmp_path / "accuracy.png")
    return lambda: from_record(figures.recorded("accuracy")["tables"])


def test_metrics_are_those_of_their_definition() -> None:
    probabilities = np.array([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8], [0.5, 0.5]])
    classes, labels = np.array(["a", "b"]), np.array(["a", "b", "b", "a"])
    error, loss, ece, *_ = score(probabilities, classes, labels)
    assert error == 0.25
    assert loss == pytest.approx(log_loss(labels, probabilities))
    # Each row is in a bin of its own: |1 − .9|, |0 − .6|, |1 − .8| and |1 − .5|.
    assert ece == pytest.approx((0.1 + 0.6 + 0.2 + 0.5) / 4)


def test_the_area_under_the_curve_is_that_of_scikit_learn() -> None:
    random = np.random.default_rng(0)
    probabilities = random.dirichlet(np.ones(3), 60).round(1)  # with ties
    probabilities /= probabilities.sum(1, keepdims=True)
    classes = np.array(["a", "b", "c"])
    labels = random.choice(classes, 60)
    expected = roc_auc_score(labels, probabilities, multi_class="ovr")
    assert score(probabilities, classes, labels).auroc == pytest.approx(expected)


def test_a_class_that_training_did_not_see_costs_the_floor() -> None:
    error, loss, *_ = score(np.array([[1.0]]), np.array(["a"]), np.array(["b"]))
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
    error, loss, ece, *_ = score(rows.posterior, classes, rows.labels)
    # The expected log loss of the true posterior is its mean entropy, and it is calibrated.
    entropy = -(rows.posterior * np.log(np.maximum(rows.posterior, 1e-300))).sum(1)
    assert loss == pytest.approx(entropy.mean(), abs=4 * entropy.std() / 40 + 0.02)
    assert error == pytest.approx(1 - rows.posterior.max(1).mean(), abs=0.03)
    assert ece < 0.06
    share = counts / counts.sum()
    assert loss <= -(share * np.log(share)).sum() + 0.01


def lake(partitions: int, rows: int) -> Rows:
    random = np.random.default_rng(0)
    labels = random.choice(["a", "b"], partitions * rows).astype(object)
    columns = {
        "x": (labels == "a") + random.normal(size=len(labels)),
        PARTITION: np.repeat([f"{week:02}" for week in range(partitions)], rows),
    }
    return Rows(pa.table(columns), labels)


def test_a_lake_is_predicted_from_the_twelve_partitions_before() -> None:
    rows = lake(20, 5)
    splits = windows(rows, 1)
    assert len(splits) == 2
    for (train, test), newest in zip(splits, (14, 18), strict=True):
        weeks = rows.features[PARTITION].to_numpy().astype(int)
        assert sorted(set(weeks[train])) == list(range(newest - 12, newest))
        assert set(weeks[test]) == {newest}


def test_partitions_of_a_lake_are_groups_of_the_default_and_no_column_of_others() -> None:
    rows = lake(4, 60)
    train, test = rows.table(np.arange(180)), rows.table(np.arange(180, 240))
    fitted = {name: MODELS[name].fit(train) for name in ("default", "logistic regression")}
    for predict in fitted.values():
        assert score(predict(test), np.array(["a", "b"]), rows.labels[180:]).error < 0.45
    other = test.set_column(1, PARTITION, pa.array(["00"] * 60))
    for predict in fitted.values():
        assert (predict(other) == predict(test)).all()


def test_models_are_compared_on_the_folds_that_both_have() -> None:
    ours = Scores(0.3, 0.5, 0.0, log_losses=[0.2, 0.8], errors=[0.2, 0.4])
    theirs = Scores(0.1, 0.1, 0.0, log_losses=[0.1], errors=[0.1])
    result = Result("iris", "real", 100, 1, 2, 2, {"default": ours, "EBM": theirs})
    assert ratios([result], "default", "EBM") == {"iris": pytest.approx(2.0)}
    assert "| iris | 100 | 2.00 |" in behind([result], "log_loss")
    assert "| iris | 100 | 10.0 |" in behind([result], "error")


def test_a_run_of_one_fold_is_recorded(
    tmp_path: Path,
    stored: Callable[[], dict[str, Result]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("german", "noise", "--models", *FAST, "--folds", "1", "--record") == 0
    german, noise = (stored()[name] for name in ("german", "noise"))
    prior, product = german.scores("class prior"), german.scores("product")
    assert prior is not None
    assert product is not None
    assert prior.error == pytest.approx(0.3)
    assert product.log_loss < prior.log_loss
    assert set(noise.outcomes) == {*FAST, "optimum"}
    assert ratios([german], "product", "class prior")["german"] < 1.0
    assert "| class prior | 30.0% |" in capsys.readouterr().out
    assert (tmp_path / "accuracy.png").read_bytes().startswith(b"\x89PNG")
    measured = figures.recorded("accuracy")
    for words in (
        ("comparison",),
        ("checks",),
        ("targets",),
        ("behind", "error"),
        ("matrix", "ece", "generated"),
    ):
        assert page(measured, *words)


def test_a_table_of_the_user_is_printed(
    tmp_path: Path, stored: Callable[[], dict[str, Result]], capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.csv"
    table = pa.table({"x": np.tile([0.0, 1.0, 2.0], 20), "kind": ["a", "b", "b"] * 20})
    pyarrow.csv.write_csv(table, path)
    arguments = (path, "--label", "kind", "--models", *FAST, "--folds", "2", "--record")
    assert run(*arguments) == 0
    assert "mine: 60 rows × 1 columns, 2 classes; folds: 2." in capsys.readouterr().out
    with pytest.raises(figures.FiguresError):
        stored()


def test_a_model_that_fails_is_refused_with_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("awkward-columns", "--models", "class prior", "boosting", "--folds", "1") == 0
    assert "| boosting | refused: ValueError: " in capsys.readouterr().out
