"""Records of a store: JSON files that are checked when they are read."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from functools import cache
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    Self,
    TypeVar,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from probclass_core.arrow.bundle import Buffer
from probclass_core.arrow.display import ShortRepr
from probclass_core.errors import StoreError, one_of
from probclass_core.io.filesystem import Location

_MAX_BYTES = 2**26
"""Largest size of a record; reading a larger file could exhaust the memory."""

_MAX_LEVELS = 100
"""Most levels of a record; functions that walk through a record recurse as deep."""

_READERS = 16
"""Threads that read records."""

_CONTAINERS = frozenset({dict, list})
_ID = re.compile(r"[0-9a-f]{64}")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def is_id(value: object) -> bool:
    """Whether a value is a whole content id."""
    return isinstance(value, str) and _ID.fullmatch(value) is not None


def _is_time(value: Any) -> bool:
    """Whether a value is an ISO 8601 time with an offset from UTC."""
    try:
        return datetime.fromisoformat(value).tzinfo is not None
    except (TypeError, ValueError):
        return False


@dataclass(frozen=True)
class _Check:
    """What the value of a field must be.

    Attributes:
        is_valid: whether a value is.
        expected: what it must be, in words.
    """

    is_valid: Callable[[Any], bool]
    expected: str


Time = Annotated[str, _Check(_is_time, "a time")]
ContentId = Annotated[str, _Check(is_id, "a content id")]

_CHECKS: Mapping[Any, _Check] = {
    str: _Check(lambda value: isinstance(value, str), "a text"),
    Mapping: _Check(lambda value: isinstance(value, dict), "an object"),
    Sequence: _Check(
        lambda value: isinstance(value, list) and all(isinstance(one, dict) for one in value),
        "a list of objects",
    ),
}


class Record(ShortRepr):
    """A file in the folder of a model; subclasses are frozen dataclasses, checked by their types.

    Attributes:
        folder: folder of the records of this kind, in that of the model.
        advice: what to do about a damaged one.
        model: name of the model.
    """

    folder: ClassVar[str]
    advice: ClassVar[str] = "restore it from a copy, or remove it"
    model: str

    @property
    def path(self) -> str:
        """Path of the file in the store."""
        raise NotImplementedError

    @classmethod
    def from_values(cls, path: str, values: Mapping[str, Any]) -> Self:
        """The record of the values of a file.

        Raises:
            ValueError: if a value is missing, unknown or not valid; the message is the reason.
        """
        try:
            record = cls(**values)
        except TypeError:
            raise ValueError("it has other fields than a record of its kind") from None
        for name, check, optional in _checks(cast(Any, cls)):
            value = getattr(record, name)
            if not (check.is_valid(value) or (optional and value is None)):
                raise ValueError(f"its {name!r} is not {check.expected}")
        if record.path.partition("/")[2] != path.partition("/")[2]:  # models may be renamed
            raise ValueError(f"it is the record {record.path!r}")
        return record

    @classmethod
    def parse(cls, files: Location, path: str, data: Buffer) -> Self:
        """The record in the bytes of a file.

        Raises:
            StoreError: if they are damaged.
        """
        try:
            return cls.from_values(path, _parse(data))
        except ValueError as reason:
            raise _damaged(files, path, reason, cls.advice) from None

    @classmethod
    def read(cls, files: Location, path: str) -> Self | None:
        """The record of a file; None if there is no such file.

        Raises:
            StoreError: if it is damaged, or cannot be read.
        """
        try:
            return cls.parse(files, path, files.read(path, at_most=_MAX_BYTES))
        except FileNotFoundError:
            return None

    def encode(self) -> bytes:
        """The content of the file."""
        return encode_json(asdict(self))  # type: ignore[call-overload] # of a dataclass

    def brief(self) -> Self:
        """The record without what only its own page shows."""
        return self


_Kind = TypeVar("_Kind", bound=Record)


def read_records(
    files: Location, places: Collection[tuple[type[_Kind], str]], *, brief: bool = False
) -> list[_Kind | StoreError | None]:
    """The records at some paths, or what is wrong with them; None if there is no file."""

    def read(place: tuple[type[_Kind], str]) -> _Kind | StoreError | None:
        kind, path = place
        try:
            record = kind.read(files, path)
        except StoreError as error:
            return error
        return record.brief() if brief and record is not None else record

    if not places:
        return []
    with ThreadPoolExecutor(_READERS) as pool:
        return list(pool.map(read, places))


def read_all(files: Location, kind: type[_Kind], paths: Iterable[str]) -> list[_Kind]:
    """The records of a kind at some paths, without files that do not exist.

    Raises:
        StoreError: if a record is damaged, or the file system refuses.
    """
    found = read_records(files, [(kind, path) for path in paths])
    for one in found:
        if isinstance(one, StoreError):
            raise one
    return [one for one in found if isinstance(one, kind)]


def timestamp() -> str:
    """The time now, ISO 8601 in UTC; later times sort later."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def file_name(time: str, digest: str) -> str:
    """The name of a record of a time, without suffix; not every system allows a colon."""
    return f"{time.replace(':', '').replace('+0000', 'Z')}-{digest[:12]}"


def encode_json(values: Mapping[str, Any]) -> bytes:
    """An object as indented JSON."""
    return (json.dumps(values, indent=2, allow_nan=False) + "\n").encode()


def read_json(files: Location, path: str, advice: str) -> dict[str, Any] | None:
    """Read the JSON object in a file; None if there is no such file.

    Args:
        files: the store.
        path: path of the file.
        advice: what to do if it is damaged.

    Raises:
        StoreError: if it is damaged, or cannot be read.
    """
    try:
        return _parse(files.read(path, at_most=_MAX_BYTES))
    except FileNotFoundError:
        return None
    except ValueError as reason:
        raise _damaged(files, path, reason, advice) from None


def _damaged(files: Location, path: str, reason: object, advice: str) -> StoreError:
    return StoreError(f"{files.uri_of(path)} is damaged ({reason}); {advice}.")


def _parse(data: Buffer) -> dict[str, Any]:
    """The values of a JSON object.

    Raises:
        ValueError: if it is not JSON, not an object, or has more levels; the message is the reason.
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


@cache
def _checks(kind: Any) -> list[tuple[str, _Check, bool]]:
    """The fields of a record: name, check, and whether None is valid."""
    hints = get_type_hints(kind, include_extras=True)
    return [
        (one.name, _check_of(hints[one.name]), type(None) in get_args(hints[one.name]))
        for one in fields(kind)
    ]


def _check_of(hint: Any) -> _Check:
    """What a type requires, except for None."""
    origin = get_origin(hint)
    if origin is Literal:
        return _Check(get_args(hint).__contains__, f"one of {one_of(get_args(hint))}")
    if origin is Annotated:
        check: _Check = hint.__metadata__[0]
        return check
    if type(None) in get_args(hint):
        return _check_of(get_args(hint)[0])
    return _CHECKS[origin or hint]


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
