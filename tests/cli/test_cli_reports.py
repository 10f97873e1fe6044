"""Reports of commands, as text and as JSON; help texts; progress."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import probclass_core as pc
from probclass_core.cli.app import app
from probclass_core.execution import progress


@pytest.fixture
def iris_model(probclass: Any, iris: pa.Table) -> pc.Model:
    """Full covariances of the UCI Iris, saved as ``iris@book``."""
    source = probclass.table("iris.parquet", iris)
    sepals, petals = ["sepal_length", "sepal_width"], ["petal_length", "petal_width"]
    near = {"columns": petals, "k": 3}
    spec = probclass.spec("species", gaussian_full=sepals, knn_density=near)
    probclass.ok(f"fit {source} --spec {spec} --name iris --alias book")
    return pc.fit(source, pc.ModelSpec.from_file(spec))


def test_fit_reports_the_saved_model_and_the_rows_left_out(
    probclass: Any, penguins: pa.Table
) -> None:
    labels = penguins["species"].to_pylist()
    labels[:4] = [None] * 4
    labeled = penguins.set_column(0, "species", pa.array(labels))
    source = probclass.table("penguins.parquet", labeled)
    auto = "--effort fast --label species --exclude island,sex --exclude body_mass_g"
    shown = probclass.ok(f"fit {source} {auto} --name penguins --alias a --alias b").lines
    (version,) = pc.ModelStore("models").versions("penguins")
    assert f"saved {version.ref}" in shown
    assert "as penguins@a, penguins@b" in shown
    assert "left out 4 rows whose label is null" in shown
    assert "Gentoo 0.3647 124" in shown
    model = pc.ModelStore("models").load("penguins@b")
    assert model.spec.features == ("bill_length_mm", "bill_depth_mm", "flipper_length_mm")


def test_fit_takes_a_partition_conditions_and_a_weight(probclass: Any) -> None:
    for month in ("2014-01", "2014-02", "2014-03"):
        rows = {"x": [1.0, 2.0, 3.0], "w": [1, 2, 3], "air": ["bad", "good", "good"]}
        probclass.table(f"lake/month={month}/part-0.parquet", rows)
    auto = "fit lake --label air --weight w --name air --json"
    assert probclass(auto).json["rows"] == 9
    one = probclass(f"{auto} --partition month=2014-02").json
    assert (one["rows"], one["partition"]) == (3, {"month": "2014-02"})
    two = probclass(f"{auto} --where 'month > 2014-01' --where 'x in 1,3'").json
    assert two["rows"] == 4
    assert two["priors"][0] == {"class": "bad", "count": 2.0, "prior": 0.25}
    shown = probclass.ok("models air").out
    assert "lake, month=2014-02" in shown
    assert "lake, month > 2014-01, x in (1, 3)" in shown
    blocks = probclass(f"{auto} --dry-run").json["spec"]["blocks"]
    assert {name for block in blocks for name in block["columns"]} == {"x"}, (
        "the partition column is left out"
    )


def test_auto_says_once_what_it_decided(probclass: Any, penguins: pa.Table) -> None:
    keyed = penguins.append_column("key", pa.array([f"{n:08x}" for n in range(344)]))
    source = probclass.table("penguins.parquet", keyed)
    auto = f"fit {source} --label species --effort fast"
    decision = "as a key or prose does (split prose into lists of words): 'key'."
    written = probclass.ok(f"{auto} --dry-run").out
    assert written.count(decision) == 1
    assert written.startswith("# ")
    Path("spec.toml").write_text(written)
    proposed = probclass(f"{auto} --dry-run --json").json
    assert pc.ModelSpec.from_file("spec.toml").to_dict() == proposed["spec"]
    assert any(decision in note for note in proposed["spec_notes"])
    assert probclass.ok(f"{auto} --name penguins").out.count(decision) == 1
    spec = pc.ModelSpec.auto("penguins.parquet", "species", effort="fast")
    assert list(spec.notes) == proposed["spec_notes"]
    assert pc.ModelStore("models").load("penguins").spec == spec


def test_models_lists_models_and_versions(probclass: Any, iris_model: pc.Model) -> None:
    assert probclass.ok("models --store none").out == "The store at none contains no models.\n"
    assert any(line.startswith("iris 1 ") for line in probclass.ok("models").lines)
    versions = probclass.ok("models iris").lines
    (row,) = [line for line in versions if line.startswith(iris_model.id[:12])]
    assert row.endswith("iris.parquet book")
    document = probclass("models iris --json").json
    assert document["models"][0]["aliases"]["book"]["id"] == iris_model.id


def test_inspect_shows_the_means_and_covariances_of_the_textbook(
    probclass: Any, iris_model: pc.Model
) -> None:
    shown = probclass.ok("inspect iris@book").lines
    assert f"model iris@{iris_model.id}" in shown
    assert "aliases book" in shown
    assert "rows 150" in shown
    at = shown.index("Block gaussian_full: sepal_length, sepal_width")
    # Mean and covariance of setosa; Zaki & Meira, example 18.1.
    assert shown[at + 3 : at + 5] == [
        "iris-setosa 50 [5.006 3.418] [[0.12176 0.098292]",
        "[0.098292 0.14228]]",
    ]
    assert "Block knn_density: petal_length, petal_width; k 3" in shown
    assert shown[-1].startswith("… and ")


def test_a_long_text_does_not_widen_a_table(probclass: Any) -> None:
    rows = {"species": ["a", "b"] * 10, "note": ["long " * 1000, "short"] * 10}
    probclass.table("notes.parquet", pa.table(rows))
    probclass.spec("species", categorical=["note"])
    probclass.ok("fit notes.parquet --spec spec.json --name notes")
    shown = probclass.ok("inspect notes").out
    assert "long long" in shown
    assert max(map(len, shown.splitlines())) < 500
    assert rows["note"][0] in probclass.ok("inspect notes --json").out


def test_inspect_shows_one_block_and_limits_its_rows(probclass: Any, iris_model: pc.Model) -> None:
    shown = probclass.ok("inspect iris --block knn_density --rows 2").lines
    points = iris_model.parameters["knn_density"].num_rows
    assert shown[0] == "Block knn_density: petal_length, petal_width; k 3"
    assert [line for line in shown if line.startswith("iris-setosa")] == [
        "iris-setosa [1 0.2] 1",
        "iris-setosa [1.1 0.1] 1",
    ]
    assert shown[-1] == f"… and {points - 2} more rows"
    card = probclass("inspect iris --block knn_density --rows 2 --json").json
    assert list(card["blocks"]) == ["knn_density"]
    parameters = card["blocks"]["knn_density"]["parameters"]
    assert [row["point"] for row in parameters] == [[1.0, 0.2], [1.1, 0.1]]


def test_json_writes_infinity_as_null(probclass: Any) -> None:
    source = probclass.table("t.parquet", {"x": ["a", "b", "b"], "y": ["u", "u", "v"]})
    spec = probclass.spec("y", categorical={"columns": ["x"], "pseudo_count": 0})
    probclass.ok(f"fit {source} --spec {spec} --name m")
    card = probclass("inspect m --json").json
    logs = [row["log_probability"] for row in card["blocks"]["categorical"]["parameters"]]
    assert logs == [pytest.approx(np.log(0.5)), pytest.approx(np.log(0.5)), None, 0.0]
    assert "-inf" in probclass.ok("inspect m").out


def test_markup_in_names_is_printed_literally(probclass: Any) -> None:
    rows = {"[bold]x": [1.0, 2.0, 3.0, 5.0], "y": ["[red]a", "[red]a", "b[/]", "b[/]"]}
    source = probclass.table("t.parquet", rows)
    probclass.ok(f"fit {source} --label y --name m")
    assert "[red]a 0.5000 2" in probclass.ok("inspect m").lines
    assert "true class [red]a b[/]" in probclass.ok(f"evaluate m {source}").lines
    line = probclass.error(f"fit {source} --label '[red]z' --name m")
    assert "no column '[red]z'; the table has '[bold]x', 'y'." in line


def test_evaluate_reports_rows_without_a_known_label(probclass: Any, iris_model: pc.Model) -> None:
    iris = pq.read_table("iris.parquet")
    labels = iris["species"].to_pylist()
    labels[:3] = [None, None, "iris-unknown"]
    odd = iris.set_column(iris.column_names.index("species"), "species", pa.array(labels))
    source = probclass.table("odd.parquet", odd)
    shown = probclass.ok(f"evaluate iris {source}").lines
    evaluation = pc.evaluate(iris_model, source)
    left_out = "left out: 2 without a label, 1 of a class that training never saw"
    assert f"Evaluation on 147 labeled rows; {left_out}" in shown
    assert any(line.startswith(f"accuracy {evaluation.accuracy:.4f} 0.3197 ") for line in shown)
    assert "true class iris-setosa iris-versicolor iris-virginica" in shown
    assert "iris-setosa 47 0 0" in shown


def test_score_reports_partitions_and_unchanged_ones(probclass: Any, iris_model: pc.Model) -> None:
    iris = pq.read_table("iris.parquet")
    for part in range(4):
        probclass.table(f"lake/part={part}/part-0.parquet", iris.slice(part * 30, 30))
    shown = probclass.ok("score iris@book lake scored").lines
    assert shown[0].startswith("Scored 120 rows by model ")
    assert shown[0].endswith(" into scored: 4 scored")
    shown = probclass.ok("score iris lake scored --partition part=1").lines
    assert shown[0] == "unchanged: already scored from the same inputs, nothing written"
    assert shown[2].endswith(" into scored: 1 unchanged")
    probclass.table("lake/part=9/part-0.parquet", iris.slice(0, 5))
    shown = probclass.ok("score iris lake scored").lines
    assert shown[0].endswith(" into scored: 1 scored, 4 unchanged")
    assert "part=9 scored 5 missing" in shown
    options = "--posterior list --columns species --where 'part < 2' --json"
    report = probclass(f"score iris@book lake lists {options}").json
    assert (report["rows"], report["model"]) == (60, f"iris@{iris_model.id}")
    names = pq.read_schema(next(Path("lists").rglob("*.parquet"))).names
    assert names == [
        *("species", "prediction", "probability", "posterior", "log_density", "model_id"),
    ]


def test_estimators_lists_and_describes(probclass: Any) -> None:
    shown = probclass.ok("estimators").lines
    for name in pc.estimators():
        assert any(line.startswith(f"{name} ") for line in shown)
    assert "ridge:" in probclass.ok("estimators gaussian_full").out
    records = probclass("estimators --json").json["estimators"]
    assert [record["name"] for record in records] == sorted(pc.estimators())
    (knn,) = probclass("estimators knn_density --json").json["estimators"]
    assert knn["traits"]["state_grows"] is True


def test_inspect_lists_blocks_by_importance(probclass: Any, iris: pa.Table) -> None:
    sizes = pa.array(["small", "large", "huge"] * 50)
    table = probclass.table("sized.parquet", iris.append_column("size", sizes))
    blocks = [
        pc.Block("gaussian_full", ["sepal_length", "sepal_width"]),
        pc.Block("categorical", ["size"]),
    ]
    model = pc.fit(table, pc.ModelSpec("species", blocks, block_weights="fit"))
    pc.ModelStore("models").save(model, "weighted")
    lines = probclass.ok("inspect weighted").lines
    first = lines.index("block estimator columns weight importance") + 2
    assert lines[first].startswith("gaussian_full ")
    assert lines[first + 1].startswith("categorical ")
    document = probclass("inspect weighted --json").json
    names = [term["name"] for term in document["block_weights"]]
    assert names[:3] == ["gaussian_full", "categorical", "iris-setosa"]


def test_the_demo_beats_the_prior_and_can_be_repeated(probclass: Any) -> None:
    shown = probclass.ok("demo first").lines
    assert "Scored tables are in first/scored. Next, try:" in shown
    assert sum(line.startswith("2014-") for line in shown) == 6
    before = probclass.files()
    months = probclass("demo first --json").json["months"]
    assert probclass.files() == before
    loss = {
        key: np.mean([month[key] for month in months]) for key in ("log_loss", "baseline_log_loss")
    }
    assert loss["log_loss"] < loss["baseline_log_loss"]
    commands = [line.split()[1:] for line in shown if line.startswith("probclass ")]
    assert len(commands) == 3
    for command in commands:
        probclass.ok(*command)


def test_progress_without_a_terminal_is_a_line_every_few_seconds(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with progress.progress_bar("training") as report:
        report(1, 5_000)
        assert capsys.readouterr().err == "", "no line in the first seconds"
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN_LINES", 0.0)
    with progress.progress_bar("training") as report:
        report(1_000, 5_000)
        report(2_000, None)
    assert capsys.readouterr().err == "training: 1,000 of 5,000 rows\ntraining: 2,000 rows\n"


def test_version_and_help(probclass: Any) -> None:
    assert probclass.ok("--version").out == f"probclass {pc.__version__}\n"
    assert "evaluate" in probclass.ok().out
    assert probclass.ok().out == probclass.ok("--help").out


def all_commands(group: Any, path: str = "probclass") -> Iterator[tuple[str, Any]]:
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        if isinstance(command, click.Group):
            yield from all_commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


COMMANDS = dict(all_commands(app))


def test_every_command_is_tested() -> None:
    folder = Path(__file__).parents[1]
    tests = "\n".join(file.read_text(encoding="utf-8") for file in folder.rglob("test_*.py"))
    names = {path.split()[1] for path in COMMANDS}
    assert {name for name in names if not re.search(rf"[(\[][f]?\"{name}[\" ]", tests)} == set()


@pytest.mark.parametrize("path", COMMANDS)
def test_help_fits_every_option_name_on_a_narrow_terminal(
    path: str, probclass: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = probclass.ok(*path.split()[1:], "--help").out
    options = [param for param in COMMANDS[path].params if param.param_type_name == "option"]
    names = [name for option in options for name in option.opts]
    assert [name for name in names if not re.search(f"{name}[ ,]", shown)] == []
