"""The console script in new processes: the pipeline, terminals, missing packages and plugins."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import probclass_core as pc

ROOT = Path(__file__).parents[2]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    variables = {key: value for key, value in os.environ.items() if key != "COLUMNS"}
    return {
        **variables,
        "PYTHONPATH": f"{ROOT}{os.pathsep}{variables.get('PYTHONPATH', '')}",
        "PROBCLASS_STORE": str(tmp_path / "models"),
    }


@pytest.fixture
def shell(environment: dict[str, str], tmp_path: Path) -> Any:
    def run(*arguments: object, code: int = 0) -> tuple[str, str]:
        ended = subprocess.run(
            [sys.executable, "-m", "probclass_core", *map(str, arguments)],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            env=environment,
        )
        assert ended.returncode == code, ended.stderr
        return ended.stdout, ended.stderr

    return run


@pytest.fixture
def rows(penguins: pa.Table, tmp_path: Path) -> Path:
    pq.write_table(penguins, tmp_path / "penguins.parquet")
    return tmp_path / "penguins.parquet"


def test_the_console_script_is_the_command_line() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts == {"probclass": "probclass_core.cli:main"}
    assert callable(EntryPoint("probclass", scripts["probclass"], "console_scripts").load())


def test_fit_promote_score_evaluate_and_inspect(shell: Any, rows: Path, tmp_path: Path) -> None:
    spec, _ = shell("fit", rows, "--auto", "--effort", "fast", "--label", "species", "--dry-run")
    (tmp_path / "spec.toml").write_text(spec)
    assert not (tmp_path / "models").exists()
    out, err = shell("fit", rows, "--spec", "spec.toml", "--name", "birds", "--json")
    assert err == ""
    model = pc.fit(rows, pc.ModelSpec.from_file(tmp_path / "spec.toml"))
    assert json.loads(out)["model_id"] == model.id
    assert "birds@champion" in shell("promote", "birds", "champion")[0]
    arguments = ("score", "birds@champion", rows, "scored.parquet", "--columns", "island")
    assert json.loads(shell(*arguments, "--json")[0])["rows"] == 344
    assert pq.read_schema(tmp_path / "scored.parquet").names[:2] == ["island", "prediction"]
    for shown in (("models", "birds"), ("inspect", "birds"), ("evaluate", "birds", rows)):
        out, err = shell(*shown)
        assert err == ""
        assert "\x1b" not in out, "a pipe gets no colors"
    accuracy = pc.evaluate(model, rows).accuracy
    assert re.search(rf"accuracy +{accuracy:.4f} +0\.4419 +share predicted right", out)


def test_a_failure_is_one_line_on_stderr_and_exit_code_2(shell: Any) -> None:
    out, err = shell("fit", "nowhere", "--auto", "--label", "air", "--name", "air", code=2)
    assert (out, err) == ("", "error: nowhere does not exist.\n")


def test_a_terminal_shows_progress_and_then_only_the_result(
    environment: dict[str, str], data: Path
) -> None:
    source = str(data / "adult_train.parquet")
    fast = ["--auto", "--effort", "fast", "--label", "income"]
    arguments = ["fit", source, *fast, "--name", "adult"]
    reader, writer = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "probclass_core", *arguments],
        stdin=writer,
        stdout=writer,
        stderr=writer,
        env={**environment, "TERM": "xterm", "COLUMNS": "100"},
    )
    os.close(writer)
    shown = b""
    while chunk := _read(reader):
        shown += chunk
    os.close(reader)
    assert process.wait() == 0
    before, _, after = shown.decode().rpartition("\x1b[2K")  # erases the line of the bar
    assert re.search("training.*rows", before)
    assert "saved" in after
    assert not re.search("━|0:00:", after)


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65_536)
    except OSError:  # Linux reports in this way that the other end is closed
        return b""


@pytest.mark.parametrize("absent", ["typer", "rich", "tomli_w"])
def test_a_missing_package_is_named_with_the_command_that_installs_it(
    environment: dict[str, str], absent: str
) -> None:
    script = (
        f"import sys; sys.modules[{absent!r}] = None; from probclass_core.cli import main; main()"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=False
    )
    assert ended.returncode == 1
    assert ended.stderr == (
        f"error: the command line needs {absent}, which is not installed: "
        "pip install 'probclass[cli]'\n"
    )


def test_importing_the_command_line_is_cheap(environment: dict[str, str]) -> None:
    script = "import sys, probclass_core.cli.app; print(*sys.modules)"
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True
    )
    heavy = {
        "matplotlib",
        "pandas",
        "polars",
        "pyarrow.dataset",
        "rich",
        "scipy",
        "tomli_w",
        "yaml",
    }
    assert not heavy & set(ended.stdout.split())


def test_a_shell_completes_commands(environment: dict[str, str]) -> None:
    completion = {
        "_PROBCLASS_COMPLETE": "complete_bash",
        "COMP_WORDS": "probclass ins",
        "COMP_CWORD": "1",
    }
    ended = subprocess.run(
        [sys.executable, "-m", "probclass_core"],
        capture_output=True,
        text=True,
        env={**environment, **completion},
        check=False,
    )
    assert ended.stdout.split() == ["inspect"]


PLUGIN = """
from probclass_core import EstimatorPlugin, hookimpl
from probclass_core.estimation.families.gaussian.diagonal import GaussianDiagonal

PROBCLASS_API = {version}

class Narrow(GaussianDiagonal):
    name = "narrow"

@hookimpl
def probclass_estimators():
    yield EstimatorPlugin("narrow", Narrow, "a normal by another name")
"""


def install_plugin(folder: Path, version: int) -> Path:
    """Write a distribution with a plugin, as pip installs it."""
    (folder / "narrow-1.0.dist-info").mkdir(parents=True)
    (folder / "narrow_plugin.py").write_text(PLUGIN.format(version=version))
    (folder / "narrow-1.0.dist-info" / "METADATA").write_text("Name: narrow\nVersion: 1.0\n")
    entry = "[probclass]\nnarrow = narrow_plugin\n"
    (folder / "narrow-1.0.dist-info" / "entry_points.txt").write_text(entry)
    return folder


def test_a_model_without_its_plugin_can_be_inspected_but_not_used(
    shell: Any, environment: dict[str, str], rows: Path, tmp_path: Path
) -> None:
    blocks = [{"estimator": "narrow", "columns": ["body_mass_g"]}]
    (tmp_path / "spec.json").write_text(json.dumps({"label": "species", "blocks": blocks}))
    without = environment["PYTHONPATH"]
    environment["PYTHONPATH"] = f"{install_plugin(tmp_path / 'site', 1)}{os.pathsep}{without}"
    assert "a normal by another name" in shell("estimators")[0]
    shell("fit", rows, "--spec", "spec.json", "--name", "birds")

    environment["PYTHONPATH"] = without
    assert "Block narrow: body_mass_g" in shell("inspect", "birds")[0]
    _, err = shell("evaluate", "birds", rows, code=2)
    assert err.startswith(
        "error: block 'narrow' needs the estimator 'narrow', which is not installed"
    )
    assert "pip install 'narrow==1.0'" in err


def test_a_broken_plugin_fails_estimators_and_warns_in_other_commands(
    shell: Any, environment: dict[str, str], rows: Path, tmp_path: Path
) -> None:
    site = install_plugin(tmp_path / "site", 99)
    environment["PYTHONPATH"] = f"{site}{os.pathsep}{environment['PYTHONPATH']}"
    message = "plugin 'narrow' (narrow_plugin) of narrow 1.0 is built for API version 99"
    out, err = shell("estimators", code=2)
    assert out == ""
    assert err.startswith(f"error: {message}")
    assert err.count("\n") == 1

    fast = ("--auto", "--effort", "fast", "--label", "species")
    out, err = shell("fit", rows, *fast, "--name", "birds", "--json")
    assert json.loads(out)["rows"] == 344
    assert json.loads(err)["warning"].startswith(message)
    assert err.count("\n") == 1


def test_check_lists_every_plugin_with_the_traceback_of_a_broken_one(
    shell: Any, environment: dict[str, str], tmp_path: Path
) -> None:
    without = environment["PYTHONPATH"]
    good = install_plugin(tmp_path / "good", 1)
    environment["PYTHONPATH"] = f"{good}{os.pathsep}{without}"
    out, err = shell("estimators", "--check")
    (line,) = (line for line in out.splitlines() if line.startswith("narrow_plugin"))
    assert line.split() == ["narrow_plugin", "narrow", "1.0", "narrow", "good"]
    assert (out.count("broken"), err) == (0, "")

    (good / "narrow_plugin.py").write_text("def license():\n    return {}['key']\n\nlicense()\n")
    out, err = shell("estimators", "--check", code=2)
    assert "plugin 'narrow' (narrow_plugin) of narrow 1.0 cannot be loaded: KeyError" in out
    traceback = out[out.index("Traceback") :].splitlines()
    assert traceback[1].endswith(f'{good / "narrow_plugin.py"}", line 4, in <module>')
    assert traceback[-1] == "KeyError: 'key'"
    assert "fix or uninstall it" in out
    records = json.loads(shell("estimators", "--check", "--json", code=2)[0])["plugins"]
    (broken,) = (record for record in records if record["advice"])
    assert (broken["distribution"], broken["version"], broken["offers"]) == ("narrow", "1.0", [])
    assert broken["traceback"].splitlines()[1] == traceback[1]
    assert {record["distribution"] for record in records} == {"narrow", "probclass"}
    assert "cannot be used with NAME" in shell("estimators", "narrow", "--check", code=2)[1]
