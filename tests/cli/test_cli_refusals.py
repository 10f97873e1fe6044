"""Bad input: exit code 2, one clear line, and nothing written."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
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


def changed(**columns: Any) -> dict[str, Any]:
    return {**COLUMNS, **columns}


@pytest.fixture
def lake(probclass: Any) -> Path:
    """Two monthly partitions."""
    for month in ("2014-01", "2014-02"):
        probclass.table(f"lake/month={month}/part-0.parquet", COLUMNS)
    return Path("lake")


@pytest.fixture
def trained(probclass: Any, lake: Path) -> Path:
    """The lake, after a model ``air`` was trained on it."""
    probclass.done("fit", lake, "--spec", probclass.spec(FULL, WIND), "--name", "air")
    return lake


TABLES: dict[str, tuple[Mapping[str, Any], list[str]]] = {
    "infinite value": (
        changed(x=[np.inf, -np.inf] + [0.5] * (ROWS - 2)),
        ["'x'", "2 infinite values"],
    ),
    "empty table": ({name: values[:0] for name, values in COLUMNS.items()}, ["no rows"]),
    "one class": (changed(air=["bad"] * ROWS), ["'air'", "one class only", "'bad'"]),
    "no label at all": (changed(air=pa.nulls(ROWS, pa.string())), ["'air'", "null", "40 rows"]),
    "all-null number": (changed(x=pa.nulls(ROWS, pa.float64())), ["'x'", "no value"]),
    "all-null category": (changed(wind=pa.nulls(ROWS, pa.string())), ["'wind'", "no value"]),
    "class of one row": (
        changed(air=["bad"] * (ROWS - 1) + ["good"]),
        ["class 'good' has 1 row", "covariance of 2 features", "gaussian_diagonal"],
    ),
    "number as text": (changed(x=["a lot"] * ROWS), ["'x' is string", "numbers"]),
    "category as number": (changed(wind=np.arange(ROWS) / 3), ["'wind' is double", "categories"]),
    "missing column": (
        {name: values for name, values in COLUMNS.items() if name != "y"},
        ["no column 'y'", "'air', 'wind', 'x'"],
    ),
    "label of thousands of numbers": (
        {name: np.resize(values, 5_000) for name, values in changed(air=0).items()}
        | {"air": np.arange(5_000) / 7},
        ["label 'air' is double", "5000 distinct values", "bin it into classes"],
    ),
}


@pytest.mark.parametrize("what", TABLES)
def test_fit_refuses_a_table(probclass: Any, what: str) -> None:
    columns, words = TABLES[what]
    source = probclass.table("table.parquet", columns)
    line = probclass.refused("fit", source, "--spec", probclass.spec(FULL, WIND), "--name", "air")
    assert [word for word in words if word not in line] == []


SPECS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "negative pseudo-count": (
        {**WIND, "pseudo_count": -1},
        ["pseudo_count", "at least 0", "got -1"],
    ),
    "unknown estimator": (
        {**FULL, "estimator": "gausian_full"},
        ["'gausian_full'", "Did you mean 'gaussian_full'?"],
    ),
    "unknown option": ({**FULL, "rigde": 1.0}, ["'rigde'", "Did you mean 'ridge'?"]),
    "no columns": ({**FULL, "columns": []}, ["columns must be"]),
    "the label as a feature": ({**WIND, "columns": ["air"]}, ["'air' is the label"]),
}


@pytest.mark.parametrize("dry_run", [[], ["--dry-run"]], ids=["fit", "dry run"])
@pytest.mark.parametrize("what", SPECS)
def test_fit_refuses_a_spec(probclass: Any, lake: Path, what: str, dry_run: list[str]) -> None:
    block, words = SPECS[what]
    spec = probclass.spec(block)
    line = probclass.refused("fit", lake, "--spec", spec, "--name", "air", *dry_run)
    assert [word for word in words if word not in line] == []


NAMED = ("--name", "air")
AUTO = ("--auto", "--label", "air")
USES: dict[str, tuple[tuple[str, ...], list[str]]] = {
    "no command": (("fitt",), ["'fitt'", "Did you mean 'fit'?"]),
    "no source": (("fit",), ["SOURCE", "See 'probclass fit --help'."]),
    "no spec": (("fit", "lake", *NAMED), ["--spec FILE or --auto"]),
    "two specs": (("fit", "lake", *AUTO, "--spec", "a.toml", *NAMED), ["--spec FILE or --auto"]),
    "no label": (("fit", "lake", "--auto", *NAMED), ["--auto needs --label"]),
    "no name": (("fit", "lake", *AUTO), ["--store", "PROBCLASS_STORE", "--name"]),
    "label beside a spec": (
        ("fit", "lake", "--spec", "spec.json", "--label", "air", *NAMED),
        ["--label goes with --auto"],
    ),
    "bad name": (("fit", "lake", *AUTO, "--name", "../air"), ["'../air' cannot name a model"]),
    "bad alias": (("fit", "lake", *AUTO, *NAMED, "--alias", "a b"), ["'a b' cannot be an alias"]),
    "missing path": (("fit", "nowhere", *AUTO, *NAMED), ["nowhere does not exist"]),
    "missing spec file": (("fit", "lake", "--spec", "a.toml", *NAMED), ["a.toml", "No such file"]),
    "missing partition": (
        ("fit", "lake", *AUTO, *NAMED, "--partition", "month=2020-01"),
        ["2020-01", "it has 2: 'month=2014-01', 'month=2014-02'"],
    ),
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
    "value of another type": (
        ("fit", "lake", *AUTO, *NAMED, "--where", "x > high"),
        ["'high' cannot be compared with double"],
    ),
    "unknown column to exclude": (
        ("fit", "lake", *AUTO, *NAMED, "--exclude", "tim"),
        ["no column 'tim'"],
    ),
    "malformed names": (
        ("fit", "lake", *AUTO, *NAMED, "--exclude", "x,,y"),
        ["--exclude 'x,,y'", "as in --exclude time,air"],
    ),
    "no workers": (("fit", "lake", *AUTO, *NAMED, "--workers", "0"), ["--workers"]),
    "no such store": (
        ("models", "--store", "nope://somewhere"),
        ["nope://somewhere"],
    ),
    "no model": (("inspect", "air"), ["no model 'air'", "holds none"]),
    "no versions of it": (("models", "air"), ["no model 'air'"]),
    "no model to promote": (("promote", "air@12345678", "champion"), ["no model 'air'"]),
    "unknown estimator": (("estimators", "knn"), ["unknown estimator 'knn'"]),
    "no picture named": (("plot",), ["See 'probclass plot --help'."]),
    "a demo in a file": (("demo", "spec.json"), ["spec.json"]),
}


@pytest.mark.parametrize("what", USES)
def test_a_command_refuses_what_it_cannot_do(probclass: Any, lake: Path, what: str) -> None:
    probclass.spec(FULL)
    arguments, words = USES[what]
    line = probclass.refused(*arguments)
    assert [word for word in words if word not in line] == []


SCORINGS: dict[str, tuple[tuple[str, ...], list[str]]] = {
    "missing path": (("nowhere", "scored"), ["nowhere does not exist"]),
    "missing partition": (
        ("lake", "scored", "--partition", "month=2020-01"),
        ["2020-01", "it has 2"],
    ),
    "into the source": (("lake", "lake"), ["is the source"]),
    "unknown column": (("lake", "scored", "--columns", "x,tim"), ["no column 'tim'"]),
    "no such posterior": (("lake", "scored", "--posterior", "rows"), ["posterior", "'list'"]),
    "no such overwriting": (("lake", "scored", "--overwrite", "all"), ["overwrite", "'never'"]),
    "partitions in a file": (("lake", "scored.parquet"), ["one file", "name a directory"]),
    "infinite value": (("infinite.parquet", "scored"), ["'x'", "1 infinite value"]),
    "wrong type": (("text.parquet", "scored"), ["'x' is string"]),
    "missing column": (("narrow.parquet", "scored"), ["'y'", "'air', 'wind', 'x'"]),
    "empty table": (("empty.parquet", "scored"), ["no rows"]),
    "no Parquet": (("spec.json", "scored"), ["cannot read spec.json"]),
}


@pytest.mark.parametrize("what", SCORINGS)
def test_score_refuses_and_leaves_no_sink(probclass: Any, trained: Path, what: str) -> None:
    probclass.table("infinite.parquet", changed(x=[-np.inf] + [0.5] * (ROWS - 1)))
    probclass.table("text.parquet", changed(x=["a lot"] * ROWS))
    probclass.table("narrow.parquet", {key: COLUMNS[key] for key in ("x", "wind", "air")})
    probclass.table("empty.parquet", pa.table(dict(COLUMNS)).slice(0, 0))
    arguments, words = SCORINGS[what]
    line = probclass.refused("score", "air", *arguments)
    assert [word for word in words if word not in line] == []


def test_what_stands_in_the_sink_survives_a_refusal(probclass: Any, trained: Path) -> None:
    probclass.done("score", "air", trained, "scored")
    spec = probclass.spec(WIND)
    probclass.done("fit", trained, "--spec", spec, "--name", "other")
    line = probclass.refused("score", "other", trained, "scored", "--overwrite", "never")
    assert "overwrite='partition'" in line


def test_evaluate_refuses_labels_the_model_never_saw(probclass: Any, trained: Path) -> None:
    probclass.table("other.parquet", changed(air=["fair"] * ROWS))
    assert "40 one that the model never saw" in probclass.refused(
        "evaluate", "air", "other.parquet"
    )


def corrupt(manifest: Path) -> None:
    path = next(manifest.parent.glob("gaussian_full.arrow"))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def truncate(manifest: Path) -> None:
    path = next(manifest.parent.glob("gaussian_full.arrow"))
    path.write_bytes(path.read_bytes()[:-8])


def from_the_future(manifest: Path) -> None:
    values = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**values, "format_version": 9, "min_reader_version": 9}))


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (corrupt, "'gaussian_full.arrow' is damaged (SHA-256"),
        (truncate, "'gaussian_full.arrow' has"),
        (from_the_future, "written by a newer probclass"),
    ],
)
def test_a_damaged_bundle_is_refused_by_every_command(
    probclass: Any, trained: Path, damage: Callable[[Path], None], words: str
) -> None:
    (manifest,) = Path("models").rglob("manifest.json")
    damage(manifest)
    assert words in probclass.refused("score", "air", trained, "scored")
    assert words in probclass.refused("evaluate", "air", trained)
    assert words in probclass.refused("inspect", "air")


def test_a_reference_to_nothing_names_what_there_is(probclass: Any, trained: Path) -> None:
    probclass.done("promote", "air", "champion")
    line = probclass.refused("score", "air@champio", trained, "scored")
    assert "Did you mean 'champion'?" in line
    assert "it has 'gaussian_full'" not in line
    line = probclass.refused("inspect", "air", "--block", "gausian_full")
    assert "it has 'categorical', 'gaussian_full'. Did you mean 'gaussian_full'?" in line


def test_weights_of_a_model_that_is_not_linear(probclass: Any, trained: Path) -> None:
    line = probclass.refused("inspect", "air", "--linear")
    assert "block 'gaussian_full' (gaussian_full) is not linear in its features" in line
    line = probclass.refused("inspect", "air", "--linear", "--block", "categorical")
    assert "--linear tells of the whole model; leave out --block" in line


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--time", "x", "--out", "x.png"), "'x' is double; a plot over time needs dates"),
        (("--time", "tim", "--out", "x.png"), "no column 'tim'"),
        (("--time", "day", "--out", "x.doc"), "--out 'x.doc': no picture is written as 'doc'"),
        (("--time", "day", "--out", "no/x.png"), "cannot write no/x.png: No such file"),
    ],
)
def test_a_picture_that_cannot_be_drawn(
    probclass: Any, trained: Path, arguments: tuple[str, ...], words: str
) -> None:
    dated = probclass.table("dated.parquet", changed(day=[date(2014, 1, 1)] * ROWS))
    probclass.done("score", "air", dated, "scored")
    assert words in probclass.refused("plot", "posterior-over-time", "scored", *arguments)


def test_a_stopped_command_says_so_and_saves_nothing(
    probclass: Any, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*arguments: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("probclass_core.fit", interrupted)
    before = probclass.content()
    ran = probclass("fit", lake, *AUTO, *NAMED)
    assert (ran.code, ran.out, ran.err) == (130, "", "error: stopped.\n")
    assert probclass.content() == before
