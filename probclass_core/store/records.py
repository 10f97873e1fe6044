"""Small records in a store: JSON objects and the times in them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from probclass_core.io.filesystem import Location


def timestamp() -> str:
    """The time now, ISO 8601 in UTC; later times sort later."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def encode_record(record: Mapping[str, Any]) -> bytes:
    """A record as indented JSON."""
    return (json.dumps(record, indent=2, allow_nan=False) + "\n").encode()


def read_record(files: Location, path: str) -> dict[str, Any] | None:
    """Read a record, or return None if the file is not a JSON object.

    Raises:
        FileNotFoundError: if there is no such file.
    """
    try:
        record = json.loads(bytes(files.read(path)))
    except ValueError:
        return None
    return record if isinstance(record, dict) else None
