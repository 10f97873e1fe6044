"""Records of a store with junk in them, and what else may be in the place of a record."""

from __future__ import annotations

import copy
import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

JUNK: list[Any] = [
    *(None, True, -1, 0, 2.5, 1e308, 10**400, -(10**400)),
    *(
        "",
        "x",
        "../../..",
        "\u202e\x00",
        "9" * 5000,
        "<b>",
        "2014-01",
        "١٩٩٩-01-01",
        "s3://a:b@c/d",
    ),
    *("0001-01-01T00:00:00+05:00", "9999-12-31T23:59:59-05:00"),
    *("9999-12-31T23:59:59+00:00", "0001-01-01T00:00:00+00:00", "9999-12", "0001-01-01"),
    *([], {}, [None], [[1]], [{}], [["month", "<", None]], {"a": {"b": [1]}}, {"month": []}),
    json.loads("[" * 80 + "]" * 80),
]
"""Values in place of a value of a record."""


def with_junk(values: Any, draw: random.Random) -> Any:
    """A copy of JSON values in which one value is junk, missing, or new."""
    changed = copy.deepcopy(values)
    place = changed
    while True:
        keys = [*place] if isinstance(place, dict) else [*range(len(place))]
        if not keys:
            return draw.choice(JUNK)
        key = draw.choice(keys)
        if isinstance(place[key], (dict, list)) and place[key] and draw.random() < 0.8:
            place = place[key]
            continue
        action = draw.random()
        if action < 0.8:
            place[key] = draw.choice(JUNK)
        elif action < 0.9:
            del place[key]
        elif isinstance(place, dict):
            place[draw.choice(["health", "columns", "where", "x", "\ud7ff"])] = draw.choice(JUNK)
        return changed


def _folder(path: Path) -> None:
    path.mkdir()


def _deep(path: Path) -> None:
    path.write_text('{"a":' * 100_000 + "0" + "}" * 100_000)


def _large(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(2**40)  # no disk is used


IN_PLACE: dict[str, tuple[Callable[[Path], object], str]] = {
    "named pipe": (os.mkfifo, "is damaged (it is not a regular file)"),
    "folder": (_folder, "is damaged (it is not a regular file)"),
    "100,000 levels": (_deep, "is damaged (it is nested too deeply)"),
    "a terabyte": (_large, "it has 1,099,511,627,776 bytes"),
    "empty": (Path.touch, "is damaged (it is not JSON in UTF-8)"),
    "not a character": (lambda path: path.write_text(r'{"a": "\ud800"}'), "is not JSON in UTF-8"),
    "not a number": (lambda path: path.write_text('{"a": NaN}'), "is not JSON in UTF-8"),
    "a list": (lambda path: path.write_text("[]"), "is damaged (it is not a JSON object)"),
}
"""Ways to put something else in the place of a record, and the reason that is shown."""
