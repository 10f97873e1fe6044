"""Invalid input: exit code 2, one line, and no file written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROWS = 40
COLUMNS: dict[str, Any] = {
    "x": np.sin(np.arange(ROWS)),
    "y": np.cos(np.arange(ROWS) ** 2),
    "wind": ["NW", "SE"] * (ROWS // 2),
    "air": ["bad", "good", "good", "bad"] * (ROWS // 4),
}


@pytest.fixture
def lake(probclass: Any) -> Path:
    """Two monthly partitions, and specs."""
    for month in ("2014-01", "2014-02"):
        probclass.table(f"lake/month={month}/part-0.parquet", COLUMNS)
    probclass.spec("air", gausian_full=["x", "y"]).rename("misspelt.json")
    probclass.spec("air", gaussian_full=["x", "y"], categorical=["wind"])
    return Path("lake")


@pytest.fixture
def trained(probclass: Any, lake: Path) -> Path:
    """The lake, and a model ``air`` trained on it."""
    probclass.ok("fit lake --spec spec.json --name air")
    return lake


AUTO = "fit lake --label air --name air"
SPEC = "fit lake --spec spec.json --name air"
INVALID: list[tuple[str, list[str]]] = [
    ("fitt", ["'fitt'", "Did you mean 'fit'?"]),
    ("fit", ["SOURCE", "See 'probclass fit --help'."]),
    ("fit lake --name air", ["--spec FILE", "--label COLUMN", "--no-label"]),
    ("fit lake --label air --no-label --name air", ["--label COLUMN or --no-label"]),
    ("fit lake --label air", ["--store", "PROBCLASS_STORE", "--name"]),
    (f"{SPEC} --label air", ["--label derives a spec"]),
    ("fit nowhere --label air --name air", ["nowhere does not exist"]),
    ("fit lake --spec misspelt.json --dry-run", ["'gausian_full'", "mean 'gaussian_full'?"]),
    (f"{AUTO} --partition 2014-01", ["--partition '2014-01'", "as in --partition month=2014-01"]),
    (
        f"{AUTO} --where 'month => 2014'",
        ["--where 'month => 2014'", 'as in --where "month >= 2013-01"'],
    ),
    (f"{AUTO} --exclude x,,y", ["--exclude 'x,,y'", "as in --exclude time,air"]),
    ("models --store nope://somewhere", ["nope://somewhere"]),
    ("estimators knn", ["unknown estimator 'knn'"]),
]


@pytest.mark.parametrize(("command", "parts"), INVALID)
def test_an_invalid_command_is_an_error(
    probclass: Any, lake: Path, command: str, parts: list[str]
) -> None:
    line = probclass.error(command)
    assert [part for part in parts if part not in line] == []


INVALID_WITH_A_MODEL: list[tuple[str, list[str]]] = [
    ("score air lake scored --partition month=2020-01", ["2020-01", "it has 2"]),
    ("evaluate air other.parquet", ["40 have one that the model never saw"]),
    ("inspect air --block gausian_full", ["it has 'categorical', 'gaussian_full'. Did you mean"]),
]


@pytest.mark.parametrize(("command", "parts"), INVALID_WITH_A_MODEL)
def test_a_command_that_a_model_or_table_contradicts_is_an_error(
    probclass: Any, trained: Path, command: str, parts: list[str]
) -> None:
    probclass.table("other.parquet", COLUMNS | {"air": ["fair"] * ROWS})
    line = probclass.error(command)
    assert [part for part in parts if part not in line] == []


def test_an_interrupted_command_reports_it_and_saves_nothing(
    probclass: Any, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*arguments: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("probclass_core.fit", interrupt)
    before = probclass.files()
    result = probclass(f"{AUTO} --quiet")
    assert (result.code, result.out, result.err) == (130, "", "error: interrupted.\n")
    assert probclass.files() == before
