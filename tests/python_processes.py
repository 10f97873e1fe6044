"""Scripts in other processes of Python, which import what the tests import."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any


def start_python(
    *arguments: object, env: Mapping[str, str] | None = None, **options: Any
) -> subprocess.Popen[str]:
    """Start a script with further variables of the environment, and options of `Popen`."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **(env or {})}
    command = [sys.executable, *map(str, arguments)]
    return subprocess.Popen(command, env=environment, text=True, **options)


def output_of_python(*arguments: object, **options: Any) -> str:
    """Run a script, which must succeed, and return what it prints; see `start_python`."""
    process = start_python(*arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
    output, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors
    return output
