"""Rows of a month that are added to a scored table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import probclass_core as pc

JANUARY, FEBRUARY = {"month": "2014-01"}, {"month": "2014-02"}
OF_JANUARY = [("2014-01", float(x)) for x in range(40)]
OF_FEBRUARY = [("2014-02", float(x)) for x in range(40)]

Arrives = Callable[..., Path]
"""Writes a file of rows that came in; see the fixture of that name."""


def append(model: pc.Model, source: Any, sink: pc.TableRef, **options: Any) -> pc.ScoreReport:
    kept: dict[str, Any] = {"columns": ["x"], "overwrite": "append", **options}
    return pc.score(model, source, sink, **kept)
