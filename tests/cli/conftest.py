"""Run commands in this process, in a temporary folder, on small tables."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from probclass_core.cli.app import app
from probclass_core.execution import progress


@dataclass(frozen=True)
class Result:
    """The exit code and the output of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The JSON document on stdout."""
        assert (self.code, self.err) == (0, "")
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        """The lines on stdout, with single spaces."""
        return [" ".join(line.split()) for line in self.out.splitlines()]


@dataclass(frozen=True)
class CommandLine:
    """Runs commands in a folder."""

    folder: Path

    def __call__(self, *arguments: object) -> Result:
        """Run a command, given by its words, or by one text that is split as a shell does."""
        texts = [str(argument) for argument in arguments]
        if len(texts) == 1:
            texts = shlex.split(texts[0])
        result = CliRunner().invoke(app, texts, prog_name="probclass", catch_exceptions=False)
        return Result(result.exit_code, result.stdout, result.stderr)

    def ok(self, *arguments: object) -> Result:
        """Run a command that must succeed without a warning."""
        result = self(*arguments)
        assert (result.code, result.err) == (0, "")
        return result

    def error(self, *arguments: object) -> str:
        """Run a command that must fail with one line and write nothing; return the line."""
        before = self.files()
        result = self(*arguments)
        assert (result.code, result.out) == (2, "")
        assert result.err.startswith("error: ")
        assert result.err.count("\n") == 1
        assert self.files() == before
        return result.err

    def files(self) -> dict[str, bytes | None]:
        """The content of every file below the folder, without records of scorings.

        None for a directory.
        """
        return {
            str(path.relative_to(self.folder)): path.read_bytes() if path.is_file() else None
            for path in sorted(self.folder.rglob("*"))
            if "scorings" not in path.parts
        }

    def table(self, name: str, columns: Mapping[str, Sequence[Any]] | pa.Table) -> Path:
        """Write a Parquet file with these columns."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(columns if isinstance(columns, pa.Table) else pa.table(columns), path)
        return path

    def spec(self, label: str, **blocks: Any) -> Path:
        """Write a spec file: by estimator, the columns of its block or all keys of it."""
        path = self.folder / "spec.json"
        listed = [
            {"estimator": name, **(keys if isinstance(keys, dict) else {"columns": keys})}
            for name, keys in blocks.items()
        ]
        path.write_text(json.dumps({"label": label, "blocks": listed}))
        return path


@pytest.fixture
def probclass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """A command line in an empty folder, with its store in ``models``."""
    monkeypatch.chdir(tmp_path)
    for variable in ("COLUMNS", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PROBCLASS_STORE", str(tmp_path / "models"))
    # On a slow machine a line of progress would come before the result.
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN_LINES", float("inf"))
    return CommandLine(tmp_path)
