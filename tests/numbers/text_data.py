"""Real text without a network: docstrings of installed packages, labeled by package."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

PACKAGES = ("numpy", "pandas", "polars", "pyarrow", "scipy", "sklearn")

_STRING = re.compile(r'"""(.+?)"""', re.DOTALL)
_WORD = re.compile(r"[a-z]\w+")


def documentation(packages: Sequence[str] = PACKAGES, max_strings: int = 3000) -> pa.Table:
    """A sample of docstrings: words (lower case, in order), package."""
    words: list[list[str]] = []
    sources: list[str] = []
    for package in packages:
        strings = [string for path in _files(package) for string in _STRING.findall(_text(path))]
        step = max(1, len(strings) // max_strings)
        for string in strings[::step][:max_strings]:
            words.append(_WORD.findall(string.lower()))
            sources.append(package)
    return pa.table({"words": pa.array(words, pa.list_(pa.string())), "package": pa.array(sources)})


def _files(package: str) -> list[Path]:
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return sorted(Path(spec.submodule_search_locations[0]).rglob("*.py"))


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")
