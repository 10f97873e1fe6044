"""A command line in this process, and small tables to point it at."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from probclass_core.cli.app import app


@dataclass(frozen=True)
class Ran:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Its one JSON document."""
        assert (self.code, self.err) == (0, "")
        return json.loads(self.out)


@dataclass(frozen=True)
class CommandLine:
    """A folder, and commands run in it."""

    folder: Path

    def __call__(self, *arguments: object) -> Ran:
        texts = [str(each) for each in arguments]
        result = CliRunner().invoke(app, texts, prog_name="probclass", catch_exceptions=False)
        return Ran(result.exit_code, result.stdout, result.stderr)

    def done(self, *arguments: object) -> Ran:
        """Run what must work."""
        ran = self(*arguments)
        assert (ran.code, ran.err) == (0, "")
        return ran

    def refused(self, *arguments: object) -> str:
        """Run what must be refused: exit code 2, one line, nothing written; the line."""
        before = self.content()
        ran = self(*arguments)
        assert (ran.code, ran.out) == (2, "")
        assert ran.err.startswith("error: ")
        assert ran.err.count("\n") == 1
        assert self.content() == before
        return ran.err

    def content(self) -> dict[str, bytes | None]:
        """Everything below the folder."""
        found = sorted(self.folder.rglob("*"))
        return {
            str(path.relative_to(self.folder)): path.read_bytes() if path.is_file() else None
            for path in found
        }

    def table(self, name: str, columns: Mapping[str, Sequence[Any]] | pa.Table) -> Path:
        """A Parquet file of these columns."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(columns if isinstance(columns, pa.Table) else pa.table(columns), path)
        return path

    def spec(self, *blocks: Mapping[str, Any], label: str = "air", **more: Any) -> Path:
        """A spec file of these blocks."""
        path = self.folder / "spec.json"
        path.write_text(json.dumps({"label": label, "blocks": blocks, **more}))
        return path


@pytest.fixture
def probclass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """A command line in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    for variable in ("COLUMNS", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PROBCLASS_STORE", str(tmp_path / "models"))
    return CommandLine(tmp_path)
