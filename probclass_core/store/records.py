"""Small records in a store: JSON objects, checked when they are read, and the times in them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache, partial
from typing import Any, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

from probclass_core.arrow.bundle import Buffer
from probclass_core.errors import one_of
from probclass_core.io.filesystem import Location
from probclass_core.store.references import is_id

_MAX_BYTES = 2**26
"""Largest size of a record; reading a larger file could exhaust the memory."""

_MAX_LEVELS = 100
"""Most levels of a record; functions that walk through a record recurse as deep."""

_TIMES = frozenset({"created", "promoted", "time", "before", "restores"})
"""Fields that are times."""

_IDS = frozenset({"version", "previous"})
"""Fields that are content ids."""

_CONTAINERS = frozenset({dict, list})
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")

Record = TypeVar("Record")

_Check = tuple[str, Callable[[Any], bool], str]
"""Name of a field, whether a value is valid, and what is."""


def timestamp() -> str:
    """The time now, ISO 8601 in UTC; later times sort later."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def encode_record(record: Mapping[str, Any]) -> bytes:
    """A record as indented JSON."""
    return (json.dumps(record, indent=2, allow_nan=False) + "\n").encode()


def read_record(files: Location, path: str) -> dict[str, Any]:
    """Read the values of a record.

    Args:
        files: the store.
        path: path of the record.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if the file is not a JSON object, or has more levels; the message is the reason.
        StoreError: if the file is larger, or cannot be read.
    """
    return parse_record(files.read(path, at_most=_MAX_BYTES))


def parse_record(data: Buffer) -> dict[str, Any]:
    """The values of a record from its JSON.

    Raises:
        ValueError: see `read_record`.
    """
    if len(data) > _MAX_BYTES:  # a mapped file
        raise ValueError(f"it has {len(data):,} bytes")
    try:
        text = str(data, "utf-8")
        values = json.loads(text, parse_constant=_refuse_constant)
        if _SURROGATE.search(text):  # only in pairs are they characters
            json.dumps(values, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ValueError:
        raise ValueError("it is not JSON in UTF-8") from None
    if not isinstance(values, dict):
        raise ValueError("it is not a JSON object")
    level: list[Any] = [values]
    for _ in range(_MAX_LEVELS):
        level = [
            value
            for one in level
            for value in (one.values() if type(one) is dict else one)
            if type(value) in _CONTAINERS
        ]
        if not level:
            return values
    raise ValueError("it is nested too deeply")


def record_from(kind: type[Record], values: Mapping[str, Any]) -> Record:
    """A record from its JSON values.

    Args:
        kind: dataclass of the record; its annotations say which values are valid.
        values: values of the fields.

    Raises:
        ValueError: if a field is missing, unknown or not valid; the message is the reason.
    """
    try:
        record = kind(**values)
    except TypeError:
        raise ValueError("it has other fields than a record of its kind") from None
    for name, is_valid, expected in _checks(cast(Any, kind)):
        if not is_valid(getattr(record, name)):
            raise ValueError(f"its {name!r} is not {expected}")
    return record


def is_time(value: Any) -> bool:
    """Whether a value is an ISO 8601 time with an offset from UTC."""
    try:
        return datetime.fromisoformat(value).tzinfo is not None
    except (TypeError, ValueError):
        return False


@cache
def _checks(kind: Any) -> list[_Check]:
    """What the names and annotations of the fields of a dataclass require."""
    checks: list[_Check] = []
    for name, hint in get_type_hints(kind).items():
        is_valid: Callable[[Any], bool]
        if get_origin(hint) is Literal:
            is_valid, expected = get_args(hint).__contains__, f"one of {one_of(get_args(hint))}"
        elif get_origin(hint) is Mapping:
            is_valid, expected = _is_object, "an object"
        elif get_origin(hint) is Sequence:
            is_valid, expected = _is_list_of_objects, "a list of objects"
        elif name in _TIMES:
            is_valid, expected = is_time, "a time"
        elif name in _IDS:
            is_valid, expected = _is_id, "a content id"
        else:
            is_valid, expected = _is_text, "a text"
        if type(None) in get_args(hint):
            is_valid = partial(_is_none_or, is_valid)
        checks.append((name, is_valid, expected))
    return checks


def _is_none_or(is_valid: Callable[[Any], bool], value: Any) -> bool:
    return value is None or is_valid(value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_id(value: Any) -> bool:
    return isinstance(value, str) and is_id(value)


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _is_list_of_objects(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_object, value))


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
