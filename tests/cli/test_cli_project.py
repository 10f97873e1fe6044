"""The project file probclass.toml, and what commands say on stderr."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import probclass_core as pc

ROWS = {"x": [1.0, 2.0, 3.0, 5.0], "z": [0.0, 1.0, 0.0, 2.0], "air": ["bad", "bad", "good", "good"]}

FILE = """
store = "models"
source = "lake"
sink = "scored"
spec = "spec.json"
model = "air@champion"

[fit]
alias = "champion"

[score]
columns = "x"
"""


@pytest.fixture
def project(probclass: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A lake of two days, a spec and a project file; no environment variable."""
    monkeypatch.delenv("PROBCLASS_STORE")
    for day in (1, 2):
        probclass.table(f"lake/day={day}/rows.parquet", ROWS)
    probclass.spec("air", gaussian_diagonal=["x"])
    Path("probclass.toml").write_text(FILE)
    return probclass


def test_commands_need_no_arguments_with_a_project_file(project: Any) -> None:
    assert "air@champion" in project.ok("fit").out
    model = pc.ModelStore("models").load("air@champion")
    assert model.id == pc.fit("lake", pc.ModelSpec.from_file("spec.json")).id
    scored = project("score --json").json
    assert (scored["rows"], scored["uri"]) == (8, "scored")
    assert project("evaluate --json").json["rows"] == 8
    assert project("evaluate --json --partition day=1").json["rows"] == 4
    assert project("inspect --json").json["model_id"] == model.id
    assert project("models --json").json["models"][0]["name"] == "air"


def test_a_flag_comes_before_the_environment_and_the_environment_before_the_file(
    project: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert project("fit --json").json["store"] == "models"
    monkeypatch.setenv("PROBCLASS_STORE", "from-environment")
    assert project("fit --json").json["store"] == "from-environment"
    Path("probclass.toml").write_text(f'{FILE}\n[evaluate]\nsource = "lake/day=2"\n')
    assert project("evaluate --json").json["rows"] == 4, "a table comes before the keys at the top"
    fitted = project("fit lake/day=1 --store flag --name other --json").json
    assert (fitted["store"], fitted["rows"]) == ("flag", 4)
    assert fitted["model"].startswith("other@")


def test_the_nearest_file_of_the_parents_is_read_and_its_paths_are_relative_to_it(
    project: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.ok("fit")
    Path("deep/er").mkdir(parents=True)
    monkeypatch.chdir("deep/er")
    assert project("evaluate --json").json["rows"] == 8
    monkeypatch.chdir("../..")
    Path("tips.txt").write_text("x;air\n0,5;bad\n2,5;good\n")
    Path("delta").mkdir()
    sink, source = Path("delta").resolve(), "csv+file://tips.txt?delimiter=;&decimal=,"
    text = FILE.replace('"lake"', f'"{source}"').replace('"scored"', f'"delta+{sink}"')
    Path("probclass.toml").write_text(text)
    monkeypatch.chdir("deep/er")
    assert project("evaluate --json").json["rows"] == 2
    assert project("score --json").json["uri"] == str(sink)
    Path("../probclass.toml").write_text('store = "models"\n')
    assert "deep/models is empty" in project("inspect air").err


def test_the_spec_or_what_derives_it_is_chosen_as_the_command_line_says(project: Any) -> None:
    text = Path("probclass.toml").read_text()
    Path("probclass.toml").write_text(f'label = "air"\neffort = "fast"\nexclude = ["z"]\n{text}')
    assert project("fit --json").json["spec_notes"] == []
    auto = project("fit --label air --dry-run --json").json["spec"]
    assert {name for block in auto["blocks"] for name in block["columns"]} == {"x"}
    Path("probclass.toml").write_text('label = "air"\nsource = "lake"\neffort = "fast"\n')
    assert project("fit --dry-run --json").json["spec"]["label"] == "air"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('sotre = "models"', r"unknown key 'sotre'\. Did you mean 'store'"),
        ("zzzz = 1", r"unknown key 'zzzz'\. Keys are 'costs', .* such as \[fit\]"),
        ("store = 3", r"store must be text, got 3\."),
        ("workers = true", r"workers must be a whole number, got True"),
        ("exclude = [1]", r"exclude must be text, got 1"),
        ("[fit]\nwher = 'x > 1'", r"unknown key \[fit\] 'wher'\. Did you mean 'where'"),
        ("[fit]\ncache = 'yes'", r"\[fit\] cache must be true or false, got 'yes'"),
        ("fit = 3", r"'fit' is a command; its options are a table, \[fit\]"),
        ("[table]\ninspect = 3", r"\[table\] .inspect. is a command; .*, \[table.inspect\]"),
        ("[models]\nx = 'x'", r"unknown key \[models\] 'x'\. Keys are 'delete'"),
        ("[models.prun]\nx = 'x'", r"unknown key \[models\] 'prun'\. Did you mean 'prune'"),
        ("[fit]\njson = true", r"unknown key \[fit\] 'json'"),
        ("store = ", r"is not valid TOML: "),
    ],
)
def test_a_wrong_file_is_one_line_that_names_it_and_the_key(
    project: Any, text: str, message: str
) -> None:
    Path("probclass.toml").write_text(text)
    assert re.search(rf"error: probclass\.toml:? {message}", project.error("models"))
    assert project("fit --help").code == 0


def test_verbose_logs_steps_with_times_and_quiet_leaves_out_warnings(project: Any) -> None:
    scarce = project.table("scarce.parquet", {**ROWS, "x": [1.0, 2.0, 3.0, None]})
    noisy = project(f"fit {scarce}")
    notes = pc.fit(scarce, pc.ModelSpec.from_file("spec.json")).training["notes"]
    assert " ".join(noisy.err.split()) == " ".join(f"warning: {note}" for note in notes)
    assert project(f"fit {scarce} --quiet").err == ""
    lines = project(f"fit {scarce} -v").err.splitlines()
    assert all(re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ (INFO|WARNING) ", line) for line in lines)
    shown = "\n".join(lines)
    assert "INFO options from probclass.toml: store, source, spec, name, alias" in shown
    assert "INFO training: 4 rows in" in shown
    assert "WARNING" in shown
    assert "Traceback" not in project("fit nowhere -v").err
    failed = project("fit nowhere -vv").err
    assert "Traceback" in failed
    assert failed.splitlines()[-1] == "error: nowhere does not exist."


def test_an_error_is_json_if_the_result_would_be(project: Any) -> None:
    failed = project("evaluate air@nothing --json")
    assert (failed.code, failed.out, failed.err.count("\n")) == (2, "", 1)
    assert json.loads(failed.err)["type"] == "StoreError"
    assert "error" in json.loads(project("evaluate --jsn --json").err)
    scarce = project.table("scarce.parquet", {**ROWS, "x": [1.0, 2.0, 3.0, None]})
    lines = project(f"fit {scarce} --json").err.splitlines()
    assert all("warning" in json.loads(line) for line in lines)
    assert lines


def test_init_writes_a_project_file_for_a_table(
    probclass: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PROBCLASS_STORE")
    for day in (1, 2):
        probclass.table(f"lake/day={day}/rows.parquet", {**ROWS, "line\nbreak": [0.5] * 4})
    assert probclass.ok("init lake --label air").out == (
        "Wrote probclass.toml for lake, 5 columns. Next: probclass fit, then probclass score.\n"
    )
    text = Path("probclass.toml").read_text()
    assert "#   day: int32, of the partitions\n" in text
    assert "#   line break: double\n" in text
    assert "air@champion" in probclass("fit --effort fast").out
    assert probclass("score --json").json["scored"] == 2
    assert "probclass.toml exists already" in probclass.error("init lake")
    assert Path("probclass.toml").read_text() == text


def test_init_proposes_no_label_and_knows_the_columns(probclass: Any) -> None:
    source = probclass.table("Odd name '1'.parquet", ROWS)
    assert "has no column 'aiir'; it has 'air', 'x', 'z'. Did you mean 'air'?" in probclass.error(
        "init", source.name, "--label", "aiir"
    )
    assert probclass("init", source.name, "--json").json == {
        "file": "probclass.toml",
        "source": source.name,
        "label": None,
        "columns": ["x", "z", "air"],
    }
    text = Path("probclass.toml").read_text()
    assert '# label = "…"' in text
    assert 'model = "Odd_name_1@champion"' in text
    assert "--label COLUMN" in probclass.error("fit")
    Path("probclass.toml").write_text(text.replace('# label = "…"', 'label = "air"'))
    assert "Odd_name_1@champion" in probclass("fit --effort fast").out
