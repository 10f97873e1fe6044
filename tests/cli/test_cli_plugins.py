"""What commands say of a plugin that cannot be loaded."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from probclass_core.plugins import manager

BROKEN = "def license():\n    return {}['key']\n\nlicense()\n"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of packages with the metadata of ``narrow``, whose module a test writes."""
    folder = tmp_path / "site"
    info = folder / "narrow-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Name: narrow\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # commands are to write nothing
    yield folder
    monkeypatch.undo()
    manager._installed.cache_clear()


def install(site: Path, source: str, module: str) -> None:
    (site / f"{module}.py").write_text(source)
    entry = f"[probclass]\nnarrow = {module}\n"
    (site / "narrow-1.0.dist-info" / "entry_points.txt").write_text(entry)
    manager._installed.cache_clear()


def test_a_broken_plugin_is_an_error_with_its_traceback(probclass: Any, site: Path) -> None:
    install(site, BROKEN, "narrow_broken")
    message = "plugin 'narrow' (narrow_broken) of narrow 1.0 cannot be loaded: KeyError"
    error = probclass.error("estimators")
    assert error.startswith(f"error: {message}")
    assert "fix or uninstall it" in error
    shown = probclass("estimators -vv")
    assert shown.code == 2
    assert f'{site / "narrow_broken.py"}", line 4, in <module>' in shown.err
    assert "\nKeyError: 'key'\n" in shown.err
    # Commands that do not need it warn.
    probclass.table("rows.parquet", {"x": [1.0, 2.0, 4.0, 5.0], "y": [*"aabb"]})
    manager._installed.cache_clear()  # a process warns once
    fitted = probclass("fit rows.parquet --label y --name m --json")
    assert json.loads(fitted.out)["rows"] == 4
    assert json.loads(fitted.err)["warning"].startswith(message)
    assert fitted.err.count("\n") == 1
