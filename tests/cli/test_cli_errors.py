"""Invalid input: exit code 2, one line, and no file written."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROWS = 40
COLUMNS: Mapping[str, Any] = {
    "x": np.sin(np.arange(ROWS)),
    "y": np.cos(np.arange(ROWS) ** 2),
    "wind": ["NW", "SE"] * (ROWS // 2),
    "air": ["bad", "good", "good", "bad"] * (ROWS // 4),
}
FULL = {"estimator": "gaussian_full", "columns": ["x", "y"]}
WIND = {"estimator": "categorical", "columns": ["wind"]}


def with_columns(**columns: Any) -> dict[str, Any]:
    return {**COLUMNS, **columns}


@pytest.fixture
def lake(probclass: Any) -> Path:
    """Two monthly partitions."""
    for month in ("2014-01", "2014-02"):
        probclass.table(f"lake/month={month}/part-0.parquet", COLUMNS)
    return Path("lake")


@pytest.fixture
def trained(probclass: Any, lake: Path) -> Path:
    """The lake, and a model ``air`` trained on it."""
    probclass.ok("fit", lake, "--spec", probclass.spec(FULL, WIND), "--name", "air")
    return lake


INVALID_TABLES: dict[str, tuple[Mapping[str, Any], list[str]]] = {
    "infinite value": (
        with_columns(x=[np.inf, -np.inf] + [0.5] * (ROWS - 2)),
        ["'x'", "2 infinite values"],
    ),
    "missing column": (
        {name: values for name, values in COLUMNS.items() if name != "y"},
        ["no column 'y'", "'air', 'wind', 'x'"],
    ),
}


@pytest.mark.parametrize("case", INVALID_TABLES)
def test_fit_rejects_invalid_tables(probclass: Any, case: str) -> None:
    columns, parts = INVALID_TABLES[case]
    source = probclass.table("table.parquet", columns)
    spec = probclass.spec(FULL, WIND, on_scarce="error")
    line = probclass.error("fit", source, "--spec", spec, "--name", "air")
    assert [part for part in parts if part not in line] == []


@pytest.mark.parametrize("dry_run", [[], ["--dry-run"]], ids=["fit", "dry run"])
def test_fit_rejects_an_invalid_spec(probclass: Any, lake: Path, dry_run: list[str]) -> None:
    spec = probclass.spec({**FULL, "estimator": "gausian_full"})
    line = probclass.error("fit", lake, "--spec", spec, "--name", "air", *dry_run)
    assert "'gausian_full'" in line
    assert "Did you mean 'gaussian_full'?" in line


NAMED = ("--name", "air")
AUTO = ("--auto", "--label", "air")
INVALID_COMMANDS: dict[str, tuple[tuple[str, ...], list[str]]] = {
    "no command": (("fitt",), ["'fitt'", "Did you mean 'fit'?"]),
    "no source": (("fit",), ["SOURCE", "See 'probclass fit --help'."]),
    "no spec": (("fit", "lake", *NAMED), ["--spec FILE or --auto"]),
    "two specs": (("fit", "lake", *AUTO, "--spec", "a.toml", *NAMED), ["--spec FILE or --auto"]),
    "no label": (("fit", "lake", "--auto", *NAMED), ["--auto needs --label"]),
    "no name": (("fit", "lake", *AUTO), ["--store", "PROBCLASS_STORE", "--name"]),
    "label with a spec": (
        ("fit", "lake", "--spec", "spec.json", "--label", "air", *NAMED),
        ["--label needs --auto"],
    ),
    "effort with a spec": (
        ("fit", "lake", "--spec", "spec.json", "--effort", "best", *NAMED),
        ["--effort needs --auto"],
    ),
    "unknown effort": (
        ("fit", "lake", *AUTO, "--effort", "most", *NAMED),
        ["effort must be one of 'best', 'default', 'fast', got 'most'"],
    ),
    "bad name": (("fit", "lake", *AUTO, "--name", "../air"), ["'../air' cannot name a model"]),
    "bad alias": (("fit", "lake", *AUTO, *NAMED, "--alias", "a b"), ["'a b' cannot be an alias"]),
    "missing path": (("fit", "nowhere", *AUTO, *NAMED), ["nowhere does not exist"]),
    "missing spec file": (("fit", "lake", "--spec", "a.toml", *NAMED), ["a.toml", "No such file"]),
    "malformed partition": (
        ("fit", "lake", *AUTO, *NAMED, "--partition", "2014-01"),
        ["--partition '2014-01'", "as in --partition month=2014-01"],
    ),
    "malformed condition": (
        ("fit", "lake", *AUTO, *NAMED, "--where", "month => 2014"),
        ["--where 'month => 2014'", 'as in --where "month >= 2013-01"'],
    ),
    "unknown column in a condition": (
        ("fit", "lake", *AUTO, *NAMED, "--where", "mont == 2014-01"),
        ["no column 'mont'"],
    ),
    "malformed names": (
        ("fit", "lake", *AUTO, *NAMED, "--exclude", "x,,y"),
        ["--exclude 'x,,y'", "as in --exclude time,air"],
    ),
    "no workers": (("fit", "lake", *AUTO, *NAMED, "--workers", "0"), ["--workers"]),
    "unknown scheme of a store": (
        ("models", "--store", "nope://somewhere"),
        ["nope://somewhere"],
    ),
    "no model": (("inspect", "air"), ["no model 'air'", "is empty"]),
    "unknown estimator": (("estimators", "knn"), ["unknown estimator 'knn'"]),
    "no plot named": (("plot",), ["See 'probclass plot --help'."]),
    "file in place of a directory": (("demo", "spec.json"), ["spec.json"]),
}


@pytest.mark.parametrize("case", INVALID_COMMANDS)
def test_invalid_commands_are_errors(probclass: Any, lake: Path, case: str) -> None:
    probclass.spec(FULL)
    arguments, parts = INVALID_COMMANDS[case]
    line = probclass.error(*arguments)
    assert [part for part in parts if part not in line] == []


INVALID_SCORES: dict[str, tuple[tuple[str, ...], list[str]]] = {
    "missing partition": (
        ("lake", "scored", "--partition", "month=2020-01"),
        ["2020-01", "it has 2"],
    ),
    "unknown column": (("lake", "scored", "--columns", "x,tim"), ["no column 'tim'"]),
    "unknown posterior format": (
        ("lake", "scored", "--posterior", "rows"),
        ["posterior", "'list'"],
    ),
    "unknown overwrite mode": (("lake", "scored", "--overwrite", "all"), ["overwrite", "'never'"]),
    "missing column": (("narrow.parquet", "scored"), ["'y'", "'air', 'wind', 'x'"]),
}


@pytest.mark.parametrize("case", INVALID_SCORES)
def test_score_rejects_invalid_input_and_writes_nothing(
    probclass: Any, trained: Path, case: str
) -> None:
    probclass.table("narrow.parquet", {key: COLUMNS[key] for key in ("x", "wind", "air")})
    arguments, parts = INVALID_SCORES[case]
    line = probclass.error("score", "air", *arguments)
    assert [part for part in parts if part not in line] == []


def test_overwrite_never_keeps_the_existing_rows(probclass: Any, trained: Path) -> None:
    probclass.ok("score", "air", trained, "scored")
    spec = probclass.spec(WIND)
    probclass.ok("fit", trained, "--spec", spec, "--name", "other")
    line = probclass.error("score", "other", trained, "scored", "--overwrite", "never")
    assert "overwrite='partition'" in line


def test_evaluate_rejects_only_unknown_labels(probclass: Any, trained: Path) -> None:
    probclass.table("other.parquet", with_columns(air=["fair"] * ROWS))
    assert "40 have one that the model never saw" in probclass.error(
        "evaluate", "air", "other.parquet"
    )


def corrupt(manifest: Path) -> None:
    path = next(manifest.parent.glob("gaussian_full.arrow"))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_every_command_rejects_a_damaged_model(probclass: Any, trained: Path) -> None:
    (manifest,) = Path("models").rglob("manifest.json")
    corrupt(manifest)
    for command in (("score", "air", trained, "scored"), ("evaluate", "air", trained)):
        assert "'gaussian_full.arrow' is damaged (SHA-256" in probclass.error(*command)
    assert "'gaussian_full.arrow' is damaged" in probclass.error("inspect", "air")


def test_an_unknown_name_suggests_a_similar_one(probclass: Any, trained: Path) -> None:
    probclass.ok("promote", "air", "champion")
    line = probclass.error("score", "air@champio", trained, "scored")
    assert "Did you mean 'champion'?" in line
    assert "it has 'gaussian_full'" not in line
    line = probclass.error("inspect", "air", "--block", "gausian_full")
    assert "it has 'categorical', 'gaussian_full'. Did you mean 'gaussian_full'?" in line


def test_linear_rejects_models_that_are_not_linear(probclass: Any, trained: Path) -> None:
    line = probclass.error("inspect", "air", "--linear")
    assert "block 'gaussian_full' (gaussian_full) is not linear in its features" in line
    line = probclass.error("inspect", "air", "--linear", "--block", "categorical")
    assert "--linear shows the whole model and cannot be used with --block" in line


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--time", "x", "--out", "x.png"), "'x' is double; a plot over time needs dates"),
        (("--time", "tim", "--out", "x.png"), "no column 'tim'"),
        (("--time", "day", "--out", "x.doc"), "--out 'x.doc': cannot write the format 'doc'"),
        (("--time", "day", "--out", "no/x.png"), "cannot write no/x.png: No such file"),
    ],
)
def test_an_invalid_posterior_over_time_is_an_error(
    probclass: Any, trained: Path, arguments: tuple[str, ...], message: str
) -> None:
    dated = probclass.table("dated.parquet", with_columns(day=[date(2014, 1, 1)] * ROWS))
    probclass.ok("score", "air", dated, "scored")
    assert message in probclass.error("plot", "posterior-over-time", "scored", *arguments)


def test_an_interrupted_command_reports_it_and_saves_nothing(
    probclass: Any, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*arguments: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("probclass_core.fit", interrupt)
    before = probclass.files()
    result = probclass("fit", lake, *AUTO, *NAMED)
    assert (result.code, result.out, result.err) == (130, "", "error: interrupted.\n")
    assert probclass.files() == before
