"""The console script in a new process: pipes, terminals, missing packages and slow imports."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from probclass_core.cli import main

ROOT = Path(__file__).parents[2]
PROBCLASS = [sys.executable, "-m", "probclass_core"]


def test_the_console_script_is_the_command_line() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts == {"probclass": "probclass_core.cli:main"}
    assert EntryPoint("probclass", scripts["probclass"], "console_scripts").load() is main


def run(command: list[str], stdout: int = subprocess.PIPE) -> tuple[int, str, str]:
    ended = subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False)
    return ended.returncode, ended.stdout, ended.stderr


def test_a_pipe_gets_no_colors_and_a_failure_is_one_line_on_stderr(tmp_path: Path) -> None:
    code, out, err = run([*PROBCLASS, "estimators"])
    assert (code, err) == (0, "")
    assert "\x1b" not in out
    fit = ["fit", "nowhere", "--label", "air", "--name", "air", "--store", str(tmp_path)]
    assert run([*PROBCLASS, *fit]) == (2, "", "error: nowhere does not exist.\n")


def test_a_terminal_shows_progress_and_then_only_the_result(
    penguins: pa.Table, tmp_path: Path
) -> None:
    source = tmp_path / "penguins.parquet"
    pq.write_table(penguins, source)
    fast = ["--effort", "fast", "--label", "species", "--name", "birds"]
    reader, writer = pty.openpty()
    process = subprocess.Popen(
        [*PROBCLASS, "fit", str(source), *fast, "--store", str(tmp_path / "models")],
        stdin=writer,
        stdout=writer,
        stderr=writer,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
    )
    os.close(writer)
    shown = b""
    while chunk := read(reader):
        shown += chunk
    os.close(reader)
    assert process.wait() == 0
    before, _, after = shown.decode().replace("\r\n", "\n").rpartition("\r")  # clears the bar
    assert re.search("training.*rows", before)
    assert "saved" in after
    assert not re.search("━|0:00:", after)


def read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65_536)
    except OSError:  # Linux reports in this way that the other end is closed
        return b""


@pytest.mark.parametrize("options", [[], ["--json"]], ids=["text", "json"])
def test_a_reader_that_goes_away_ends_a_command_quietly(options: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    code, _, err = run([*PROBCLASS, "estimators", *options], writer)
    os.close(writer)
    assert (code, err) == (141, "")


@pytest.mark.parametrize("options", [[], ["--json"]], ids=["text", "json"])
def test_a_full_disk_below_stdout_is_one_line(options: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        code, _, err = run([*PROBCLASS, "estimators", *options], full.fileno())
    assert code == 2
    assert "No space left on device" in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("closed", ["1", "2"])
@pytest.mark.parametrize(("command", "expected"), [("estimators", 0), ("estimators nope", 2)])
def test_the_exit_code_is_the_same_without_stdout_and_stderr(
    closed: str, command: str, expected: int
) -> None:
    shell = ["sh", "-c", f'exec "$@" {closed}>&-', "sh"]
    code, out, err = run([*shell, *PROBCLASS, *command.split()])
    assert code == expected
    assert "Traceback" not in out + err


def test_an_interrupt_while_modules_are_imported_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Interrupted:
        def __getattr__(self, name: str) -> object:
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "probclass_core.cli.app", Interrupted())  # type: ignore[arg-type]
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
    assert capsys.readouterr().err == "error: interrupted.\n"


@pytest.mark.parametrize("absent", ["click", "rich", "tomli_w"])
def test_a_missing_package_is_named_with_the_command_that_installs_it(
    absent: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, absent, None)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    assert capsys.readouterr().err == (
        f"error: the command line needs {absent}, which is not installed: "
        "pip install 'probclass[cli]'\n"
    )


def test_the_modules_of_commands_need_no_optional_package() -> None:
    """With a project file, the settings of all commands are read."""
    script = """
import importlib, pkgutil, sys
from probclass_core.cli import commands
for module in pkgutil.iter_modules(commands.__path__):
    importlib.import_module(f"{commands.__name__}.{module.name}")
print(*sys.modules)
"""
    code, out, _ = run([sys.executable, "-c", script])
    optional = {"deltalake", "fsspec", "matplotlib", "obstore", "pandas", "pyiceberg", "sklearn"}
    assert code == 0
    assert not optional & set(out.split())


def test_importing_the_command_line_and_the_plots_is_cheap() -> None:
    script = "import sys, probclass_core.cli.app, probclass_core.plots; print(*sys.modules)"
    code, out, _ = run([sys.executable, "-c", script])
    heavy = {*("matplotlib", "pandas", "polars", "pyarrow.dataset"), *("rich", "scipy", "tomli_w")}
    assert code == 0
    assert not {*heavy, "yaml"} & set(out.split())
